#include "checkpoint/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "checkpoint/folder.h"

static const char partial_suffix[] = ".partial", best_link[] = "best";

/* ---- removing ------------------------------------------------------------------------------------------------ */

/* A folder of plain files, as checkpoints are. What is not there is removed. */
static ls_status remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    int error = 0;

    if (dir == NULL && errno == ENOENT) {
        return LS_OK;
    }
    LS_REQUIRE(dir != NULL, LS_ERR_CHECKPOINT, "%s: cannot remove: %s", path, strerror(errno));
    while (error == 0 && (entry = readdir(dir)) != NULL) {
        bool itself = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;

        if (!itself && unlinkat(dirfd(dir), entry->d_name, 0) != 0 && errno != ENOENT) {
            error = errno;
        }
    }
    closedir(dir);
    if (error == 0 && rmdir(path) != 0 && errno != ENOENT) {
        error = errno;
    }
    LS_REQUIRE(error == 0, LS_ERR_CHECKPOINT, "%s: cannot remove: %s", path, strerror(error));
    return LS_OK;
}

ls_status lsi_place_partial(const char *dir, int64_t step, char **out)
{
    char name[32];
    lsi_text text = {0};

    lsi_folder_name(step, name);
    lsi_text_append(&text, "%s/%s%s", dir, name, partial_suffix);
    LS_TRY(lsi_text_status(&text));
    *out = text.data;
    return LS_OK;
}

ls_status lsi_place_remove_partial(const char *dir, int64_t step)
{
    char *path;

    LS_TRY(lsi_place_partial(dir, step, &path));
    ls_status status = remove_folder(path);
    lsi_memory_free(path);
    return status;
}

/* The step of "step-<n>.partial", -1 of any other name. */
static int64_t partial_step(const char *name)
{
    const char *end = strstr(name, partial_suffix);
    char step[32];

    if (end == NULL || strcmp(end, partial_suffix) != 0 || end - name >= (ptrdiff_t)sizeof step) {
        return -1;
    }
    snprintf(step, sizeof step, "%.*s", (int)(end - name), name);
    return lsi_folder_step(step);
}

static ls_status remove_partials(const char *dir)
{
    DIR *listing = opendir(dir);
    struct dirent *entry;
    ls_status status = LS_OK;

    LS_REQUIRE(listing != NULL, LS_ERR_CHECKPOINT, "%s: cannot read the folder: %s", dir, strerror(errno));
    while (status == LS_OK && (entry = readdir(listing)) != NULL) {
        int64_t step = partial_step(entry->d_name);

        if (step >= 0) {
            status = lsi_place_remove_partial(dir, step);
        }
    }
    closedir(listing);
    return status;
}

/* ---- opening ------------------------------------------------------------------------------------------------- */

static ls_status lock(lsi_checkpoint_place *place)
{
    place->lock = open(place->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    LS_REQUIRE(place->lock >= 0 || errno == ENOENT, LS_ERR_CHECKPOINT, "%s: cannot open the folder: %s", place->dir,
               strerror(errno));
    /* Where the file system knows no locks, there is none. */
    LS_REQUIRE(place->lock < 0 || flock(place->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK, LS_ERR_CHECKPOINT,
               "%s: another run keeps its checkpoints there; wait for its end, or set another checkpoint.dir",
               place->dir);
    return LS_OK;
}

static ls_status make(lsi_checkpoint_place *place)
{
    struct stat info;

    LS_TRY(lsi_file_make_folders(place->dir));
    LS_REQUIRE(stat(place->dir, &info) == 0 && access(place->dir, W_OK) == 0, LS_ERR_CHECKPOINT,
               "%s: cannot write into the folder: %s", place->dir, strerror(errno));
    return LS_OK;
}

static ls_status prepare(lsi_checkpoint_place *place, bool makes)
{
    if (makes) {
        LS_TRY(make(place));
    }
    LS_TRY(lock(place));
    return place->lock >= 0 && makes ? remove_partials(place->dir) : LS_OK;
}

/* A file of rank 0's that the others look for: same path, maybe another disk. */
typedef struct probe {
    char name[32];
    int exists;
} probe;

static ls_status probe_shared(ls_runtime *rt, const char *dir, bool *out)
{
    probe mine = {.exists = 1}, *all;
    struct stat info;
    lsi_text path = {0};
    int fd = -1;

    if (rt->job->rank == 0) {
        uint64_t nonce[3] = {(uint64_t)getpid(), (uint64_t)lsi_hash_text(rt->job->host), (uint64_t)(uintptr_t)&mine};

        snprintf(mine.name, sizeof mine.name, ".probe-%016" PRIx64, lsi_hash64(nonce, sizeof nonce));
    }
    LS_TRY(lsi_job_broadcast(rt->job, mine.name, sizeof mine.name, 0));
    lsi_text_append(&path, "%s/%s", dir, mine.name);
    ls_status status = lsi_text_status(&path);
    if (status == LS_OK && rt->job->rank == 0) {
        fd = open(path.data, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0) {
            status = LS_FAIL(LS_ERR_CHECKPOINT, "%s: cannot create: %s", path.data, strerror(errno));
        }
    }
    status = lsi_runtime_agree(rt, status);
    if (status == LS_OK) {
        mine.exists = stat(path.data, &info) == 0;
        status = lsi_runtime_agree(rt, lsi_memory_alloc((size_t)rt->job->world * sizeof *all, "probes", (void **)&all));
    }
    if (status == LS_OK) {
        status = lsi_job_all_gather(rt->job, &mine, sizeof mine, all);
        *out = true;
        for (int r = 0; r < rt->job->world; r++) {
            *out = *out && all[r].exists;
        }
        lsi_memory_free(all);
    }
    if (fd >= 0) {
        close(fd);
        unlink(path.data);
    }
    lsi_text_free(&path);
    return status;
}

ls_status lsi_place_open(ls_runtime *runtime, bool makes, lsi_checkpoint_place *out)
{
    lsi_checkpoint_place place = {.dir = runtime->config->checkpoint.dir, .lock = -1, .shared = true};
    int exists;

    ls_status status = lsi_runtime_agree(runtime, runtime->job->rank == 0 ? prepare(&place, makes) : LS_OK);
    exists = place.lock >= 0;
    if (status == LS_OK) {
        status = lsi_job_broadcast(runtime->job, &exists, sizeof exists, 0);
    }
    if (status == LS_OK && makes && runtime->job->world > 1) {
        status = probe_shared(runtime, place.dir, &place.shared);
    }
    if (status != LS_OK) {
        lsi_place_close(&place);
        return status;
    }
    *out = place;
    return LS_OK;
}

void lsi_place_close(lsi_checkpoint_place *place)
{
    if (place->lock >= 0) {
        close(place->lock);
    }
    place->lock = -1;
}

/* ---- moving and naming --------------------------------------------------------------------------------------- */

ls_status lsi_place_move_aside(lsi_checkpoint_place *place, lsi_previous *previous, int64_t after)
{
    int64_t *steps;
    int n;
    ls_status status = LS_OK;

    LS_TRY(lsi_folder_list(place->dir, &steps, &n));
    for (int i = 0; status == LS_OK && i < n; i++) {
        char *path = NULL;

        if (steps[i] <= after) {
            continue;
        }
        status = lsi_folder_path(place->dir, steps[i], &path);
        if (status == LS_OK) {
            status = lsi_previous_move_from(previous, place->dir, path);
        }
        lsi_memory_free(path);
    }
    lsi_memory_free(steps);
    return status;
}

ls_status lsi_place_publish(const char *dir, int64_t step)
{
    char *partial = NULL, *path = NULL;
    ls_status status;

    LS_TRY_GOTO(status, done, lsi_place_partial(dir, step, &partial));
    LS_TRY_GOTO(status, done, lsi_folder_path(dir, step, &path));
    LS_TRY_GOTO(status, done, lsi_file_sync_folder(partial));
    if (rename(partial, path) != 0) {
        status = LS_FAIL(LS_ERR_CHECKPOINT, "cannot rename %s to %s: %s", partial, path, strerror(errno));
        goto done;
    }
    status = lsi_file_sync_folder(dir);
done:
    lsi_memory_free(partial);
    lsi_memory_free(path);
    return status;
}

/* First out of its name, so that what a crash leaves is no torn checkpoint. */
static ls_status remove_checkpoint(const char *dir, int64_t step)
{
    char *partial = NULL, *path = NULL;
    ls_status status;

    LS_TRY_GOTO(status, done, lsi_place_partial(dir, step, &partial));
    LS_TRY_GOTO(status, done, lsi_folder_path(dir, step, &path));
    LS_TRY_GOTO(status, done, remove_folder(partial));
    if (rename(path, partial) != 0 && errno != ENOENT) {
        status = LS_FAIL(LS_ERR_CHECKPOINT, "%s: cannot remove: %s", path, strerror(errno));
        goto done;
    }
    status = remove_folder(partial);
done:
    lsi_memory_free(partial);
    lsi_memory_free(path);
    return status;
}

ls_status lsi_place_retain(const char *dir, int64_t newest, int64_t keep, int64_t best_step)
{
    int64_t *steps;
    int n, kept = 0;
    ls_status status = LS_OK;

    LS_TRY(lsi_folder_list(dir, &steps, &n));
    for (int i = 0; status == LS_OK && i < n && keep > 0; i++) {
        if (steps[i] <= newest && steps[i] != best_step && kept++ >= keep) {
            status = remove_checkpoint(dir, steps[i]);
        }
    }
    lsi_memory_free(steps);
    return status;
}

ls_status lsi_place_link_best(const char *dir, int64_t step)
{
    char name[32];
    lsi_text link = {0}, beside = {0};
    struct stat info;

    lsi_folder_name(step, name);
    lsi_text_append(&link, "%s/%s", dir, best_link);
    lsi_text_append(&beside, "%s/%s%s", dir, best_link, partial_suffix);
    ls_status status = lsi_text_status(&link);
    if (status == LS_OK) {
        status = lsi_text_status(&beside);
    }
    /* Something else of that name is not ours to replace. */
    bool ours = status == LS_OK && (lstat(link.data, &info) != 0 || S_ISLNK(info.st_mode));
    if (ours && step == 0) {
        unlink(link.data);
    } else if (ours) {
        unlink(beside.data);
        if (symlink(name, beside.data) != 0 || rename(beside.data, link.data) != 0) {
            status = LS_FAIL(LS_ERR_CHECKPOINT, "%s: cannot make the link: %s", link.data, strerror(errno));
        }
    }
    lsi_text_free(&beside);
    lsi_text_free(&link);
    return status;
}
