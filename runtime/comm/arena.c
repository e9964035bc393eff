#include "comm/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/memory.h"
#include "comm/mailbox.h"

static const size_t huge_page = (size_t)2 << 20, all_arenas = (size_t)32 << 40;

static size_t whole(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* ---- opening ------------------------------------------------------------------------------------------------- */

typedef struct opening {
    lsi_arena *arena;
    lsi_mailbox mailbox;
    int *file;                  /* each rank's arena, as far as it is here */
} opening;

/* Collective. When any rank has failed all return the failure of the lowest, and nobody prints it. */
static ls_status agree_quietly(lsi_job *job, ls_status mine)
{
    enum { REASON = 256 };
    struct {
        int status;
        char reason[REASON];
    } lowest = {0};
    double first = mine == LS_OK ? -HUGE_VAL : -job->rank;
    lsi_failure failure;

    LS_TRY(lsi_job_max(job, &first, 1));
    if (first < -job->world) {
        return LS_OK;
    }
    if (-first == job->rank) {
        lsi_failure_take(&failure);
        lowest.status = (int)mine;
        snprintf(lowest.reason, sizeof lowest.reason, "%.*s", REASON - 1, failure.message);
    }
    LS_TRY(lsi_job_broadcast(job, &lowest, sizeof lowest, (int)-first));
    return LS_FAIL((ls_status)lowest.status, "the processes of a node cannot share memory: rank %d: %s", (int)-first,
                   lowest.reason);
}

static ls_status alloc_lists(opening *o)
{
    const size_t n = (size_t)o->arena->n;
    void *memory;

    LS_TRY(lsi_memory_alloc(n * sizeof *o->file, "files of the node", &memory));
    o->file = memory;
    for (size_t i = 0; i < n; i++) {
        o->file[i] = -1;
    }
    LS_TRY(lsi_memory_alloc(n * sizeof *o->arena->rank, "ranks of the node", &memory));
    o->arena->rank = memory;
    LS_TRY(lsi_memory_alloc(n * sizeof *o->arena->base, "arenas", &memory));
    o->arena->base = memory;
    LS_TRY(lsi_memory_alloc(n * sizeof *o->arena->bytes, "arenas", &memory));
    o->arena->bytes = memory;
    return LS_OK;
}

/* A sealed file, so that no mapping of it can ever reach behind its end. */
static ls_status make_file(const lsi_arena *arena, int *out)
{
    size_t free_bytes, total_bytes, most = all_arenas / (size_t)arena->n / huge_page * huge_page;

    LS_TRY(arena->device->backend->memory_info(arena->device, &free_bytes, &total_bytes));
    size_t bytes = whole(total_bytes + arena->head_bytes, huge_page);
    bytes = bytes < most ? bytes : most;
    *out = memfd_create("lockstep", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    LS_REQUIRE(*out >= 0, LS_ERR_COMM, "memfd_create: %s", strerror(errno));
    LS_REQUIRE(ftruncate(*out, (off_t)bytes) == 0 && fcntl(*out, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0,
               LS_ERR_COMM, "cannot make a memory file of %zu bytes: %s", bytes, strerror(errno));
    return LS_OK;
}

/* The first half: all that can fail before others are involved. */
static ls_status make_own(const lsi_job *job, opening *o)
{
    lsi_arena *arena = o->arena;

    LS_TRY(lsi_mailbox_open(job, &o->mailbox));
    LS_TRY(alloc_lists(o));
    for (int r = 0, i = 0; r < job->world; r++) {
        if (job->node[r] == job->node[job->rank]) {
            arena->rank[i++] = r;
        }
    }
    return make_file(arena, &o->file[arena->self]);
}

static ls_status map_one(lsi_arena *arena, int i, int file)
{
    struct stat about;

    LS_REQUIRE(fstat(file, &about) == 0 && (fcntl(file, F_GET_SEALS) & F_SEAL_SHRINK) != 0, LS_ERR_COMM,
               "rank %d has sent something that is no arena", arena->rank[i]);
    void *base = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    LS_REQUIRE(base != MAP_FAILED, LS_ERR_COMM, "cannot map %zu bytes of shared memory: %s", (size_t)about.st_size,
               strerror(errno));
    arena->base[i] = base;
    arena->bytes[i] = (size_t)about.st_size;
    if (i != arena->self) {
        madvise(base, arena->bytes[i], MADV_DONTDUMP);    /* a core file has its own process's memory */
    }
    return LS_OK;
}

/* The second half, when all ranks have done the first. */
static ls_status map_all(lsi_job *job, opening *o, double timeout_seconds)
{
    lsi_arena *arena = o->arena;

    LS_TRY(lsi_mailbox_swap(&o->mailbox, job, arena->rank, arena->n, arena->self, timeout_seconds, o->file));
    for (int i = 0; i < arena->n; i++) {
        LS_TRY(map_one(arena, i, o->file[i]));
    }
    return LS_OK;
}

ls_status lsi_arena_open(lsi_job *job, ls_device *device, size_t head_bytes, double timeout_seconds, lsi_arena **out)
{
    opening o = {.mailbox = {.socket = -1}};
    void *memory = NULL;

    ls_status status = lsi_memory_alloc(sizeof *o.arena, "the arena", &memory);
    o.arena = memory;
    if (status == LS_OK) {
        *o.arena = (lsi_arena){.device = device, .n = job->n_local, .self = job->local_rank, .head_bytes = head_bytes};
        status = make_own(job, &o);
    }
    status = agree_quietly(job, status);
    if (status == LS_OK) {
        status = agree_quietly(job, map_all(job, &o, timeout_seconds));
    }
    for (int i = 0; o.file != NULL && i < o.arena->n; i++) {
        if (o.file[i] >= 0) {
            close(o.file[i]);
        }
    }
    lsi_memory_free(o.file);
    lsi_mailbox_close(&o.mailbox);
    if (status != LS_OK) {
        lsi_arena_close(&o.arena);
        return status;
    }
    *out = o.arena;
    return LS_OK;
}

void lsi_arena_close(lsi_arena **arena_pointer)
{
    lsi_arena *arena = *arena_pointer;

    if (arena == NULL) {
        return;
    }
    for (int i = 0; arena->bytes != NULL && i < arena->n; i++) {
        if (arena->base[i] != NULL) {
            munmap(arena->base[i], arena->bytes[i]);
        }
    }
    lsi_memory_free(arena->piece);
    lsi_memory_free(arena->bytes);
    lsi_memory_free(arena->base);
    lsi_memory_free(arena->rank);
    lsi_memory_free(arena);
    *arena_pointer = NULL;
}

/* ---- pieces -------------------------------------------------------------------------------------------------- */

/* Linux hands out more than there is, and kills the process when it is used. */
static ls_status check_free(const lsi_arena *arena, size_t bytes)
{
    size_t free_bytes, total_bytes;

    LS_TRY(arena->device->backend->memory_info(arena->device, &free_bytes, &total_bytes));
    LS_REQUIRE(bytes <= free_bytes, LS_ERR_MEMORY, "cannot allocate %zu bytes of shared memory: %zu are free", bytes,
               free_bytes);
    return LS_OK;
}

ls_status lsi_arena_alloc(lsi_arena *arena, size_t bytes, void **out)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), unit = bytes >= huge_page ? huge_page : page;
    size_t room = whole(bytes > 0 ? bytes : 1, page), at = whole(arena->head_bytes, unit);
    int place = 0;
    void *memory = arena->piece;

    if (room >= huge_page) {
        LS_TRY(check_free(arena, room));
    }
    while (place < arena->n_pieces && arena->piece[place].at < at + room) { /* the first gap that is large enough */
        at = whole(arena->piece[place].at + arena->piece[place].bytes, unit);
        place++;
    }
    LS_REQUIRE(at + room <= arena->bytes[arena->self], LS_ERR_MEMORY,
               "cannot allocate %zu bytes of shared memory: no gap of %zu is that large", bytes,
               arena->bytes[arena->self]);
    LS_TRY(lsi_memory_resize(&memory, ((size_t)arena->n_pieces + 1) * sizeof *arena->piece, "pieces of the arena"));
    arena->piece = memory;
    memmove(arena->piece + place + 1, arena->piece + place, (size_t)(arena->n_pieces - place) * sizeof *arena->piece);
    arena->piece[place] = (lsi_arena_piece){at, room};
    arena->n_pieces++;
    *out = arena->base[arena->self] + at;
    if (room >= huge_page) {
        madvise(*out, room, MADV_HUGEPAGE);    /* a wish: nothing is lost when it is refused */
    }
    return LS_OK;
}

void lsi_arena_release(lsi_arena *arena, void *pointer)
{
    int i = 0;

    if (pointer == NULL) {
        return;
    }
    while (i < arena->n_pieces && arena->base[arena->self] + arena->piece[i].at != pointer) {
        i++;
    }
    if (i < arena->n_pieces) {
        madvise(pointer, arena->piece[i].bytes, MADV_REMOVE);
        arena->n_pieces--;
        memmove(arena->piece + i, arena->piece + i + 1, (size_t)(arena->n_pieces - i) * sizeof *arena->piece);
    }
}

int lsi_arena_index(const lsi_arena *arena, int rank)
{
    int i = 0;

    while (arena->rank[i] != rank) {
        i++;
    }
    return i;
}

bool lsi_arena_holds(const lsi_arena *arena, const void *data, size_t bytes, size_t *at)
{
    uintptr_t base = (uintptr_t)arena->base[arena->self], address = (uintptr_t)data;

    if (address < base + arena->head_bytes || address - base > arena->bytes[arena->self] ||
        bytes > arena->bytes[arena->self] - (address - base)) {
        return false;
    }
    *at = address - base;
    return true;
}
