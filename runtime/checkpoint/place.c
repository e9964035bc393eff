#include "checkpoint/place.h"

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
#include "checkpoint/shelf.h"

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
    return place->lock >= 0 && makes ? lsi_shelf_clean(place->dir) : LS_OK;
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

        snprintf(mine.name, sizeof mine.name, LSI_SHELF_PROBE "%016" PRIx64, lsi_hash64(nonce, sizeof nonce));
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
