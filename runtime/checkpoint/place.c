#include "checkpoint/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
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

static const char partial_suffix[] = ".partial", best_link[] = "best", best_partial[] = "best.partial";
static const char probe_prefix[] = ".probe-";

/* ---- removing ------------------------------------------------------------------------------------------------ */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)at;
    return (kind == FTW_DP ? rmdir(path) : unlink(path)) != 0 && errno != ENOENT;
}

/* With whatever somebody has put into it. What is not there is removed. */
static ls_status remove_folder(const char *path)
{
    enum { DESCRIPTORS = 8 };

    LS_REQUIRE(nftw(path, remove_one, DESCRIPTORS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0 || errno == ENOENT,
               LS_ERR_CHECKPOINT, "%s: cannot remove: %s", path, strerror(errno));
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

/* What a crash left half done. */
static ls_status remove_leftovers(const char *dir)
{
    DIR *listing = opendir(dir);
    struct dirent *entry;
    ls_status status = LS_OK;

    LS_REQUIRE(listing != NULL, LS_ERR_CHECKPOINT, "%s: cannot read the folder: %s", dir, strerror(errno));
    while (status == LS_OK && (entry = readdir(listing)) != NULL) {
        const char *name = entry->d_name;
        int64_t step = partial_step(name);

        if (step >= 0) {
            status = lsi_place_remove_partial(dir, step);
        } else if (strncmp(name, probe_prefix, sizeof probe_prefix - 1) == 0 || strcmp(name, best_partial) == 0) {
            unlinkat(dirfd(listing), name, 0);
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
    LS_REQUIRE(place->lock < 0 || flock(place->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK,
               LS_ERR_CHECKPOINT,
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
    return place->lock >= 0 && makes ? remove_leftovers(place->dir) : LS_OK;
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

        snprintf(mine.name, sizeof mine.name, "%s%016" PRIx64, probe_prefix, lsi_hash64(nonce, sizeof nonce));
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

/* Whether previous-<n> can lie beside the folder: on the same disk, where the user may write. */
static bool can_move_beside(const char *dir)
{
    struct stat here, above;
    char *parent;

    if (lsi_file_folder(dir, &parent) != LS_OK) {
        return true;
    }
    bool can = stat(dir, &here) != 0 || stat(parent, &above) != 0 ||
               (here.st_dev == above.st_dev && access(parent, W_OK) == 0);
    lsi_memory_free(parent);
    return can;
}

ls_status lsi_place_move_aside(lsi_checkpoint_place *place, lsi_previous *previous, int64_t after)
{
    int64_t *steps;
    int n;
    ls_status status = LS_OK;
    bool beside = can_move_beside(place->dir);

    LS_TRY(lsi_folder_list(place->dir, &steps, &n));
    for (int i = 0; status == LS_OK && i < n; i++) {
        char *path = NULL;

        if (steps[i] <= after) {
            continue;
        }
        status = lsi_folder_path(place->dir, steps[i], &path);
        if (status == LS_OK) {
            status = beside ? lsi_previous_move_from(previous, place->dir, path) : lsi_previous_move(previous, path);
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

/* What is no folder of that name, but a file or a link of somebody's, is no checkpoint. */
static bool is_checkpoint(const char *dir, int64_t step)
{
    struct stat info;
    char *path;

    if (lsi_folder_path(dir, step, &path) != LS_OK) {
        return false;
    }
    bool is = lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
    lsi_memory_free(path);
    return is;
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
        if (steps[i] <= newest && is_checkpoint(dir, steps[i]) && kept++ >= keep && steps[i] != best_step) {
            status = remove_checkpoint(dir, steps[i]);
        }
    }
    lsi_memory_free(steps);
    return status;
}

static ls_status link_best(const char *dir, const char *name, const char *link)
{
    lsi_text beside = {0};
    char now[32] = {0};

    if (readlink(link, now, sizeof now - 1) > 0 && strcmp(now, name) == 0) {
        return LS_OK;
    }
    lsi_text_append(&beside, "%s/%s", dir, best_partial);
    ls_status status = lsi_text_status(&beside);
    if (status == LS_OK && (symlink(name, beside.data) != 0 || rename(beside.data, link) != 0)) {
        status = LS_FAIL(LS_ERR_CHECKPOINT, "%s: cannot make the link: %s", link, strerror(errno));
        unlink(beside.data);
    }
    lsi_text_free(&beside);
    return status;
}

ls_status lsi_place_link_best(const char *dir, int64_t step)
{
    char name[32];
    lsi_text link = {0};
    struct stat info;

    lsi_folder_name(step, name);
    lsi_text_append(&link, "%s/%s", dir, best_link);
    ls_status status = lsi_text_status(&link);
    /* Something else of that name is not ours to replace. */
    bool is_there = status == LS_OK && lstat(link.data, &info) == 0, is_link = is_there && S_ISLNK(info.st_mode);
    bool has_target = is_checkpoint(dir, step);
    if (status == LS_OK && has_target && (is_link || !is_there)) {
        status = link_best(dir, name, link.data);
    } else if (is_link && !has_target) {
        unlink(link.data);
    }
    lsi_text_free(&link);
    return status;
}
