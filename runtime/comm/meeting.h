/* Where the ranks of a node meet for a collective that works in shared memory. Each has a desk at the beginning of its
 * arena, where it says what it has launched, where its memory for that lies, and how far it is:
 *
 *     ready   its memory may be read and written by the others from now on
 *     done    it touches the others' memory no more
 *
 * Nobody touches another rank's memory before all are ready, or its own again before all are done. Both are counts that
 * only grow, kept where they are used, so that a captured launch can be replayed.
 *
 * A wait spins for some microseconds, where there is a core for every rank, then lets others run, then sleeps; it ends
 * with a failure when comm.timeout is over or the comm is aborted. */
#ifndef LSI_COMM_MEETING_H
#define LSI_COMM_MEETING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/arena.h"
#include "comm/tree.h"
#include "job/watchdog.h"

/* What a rank has launched. Offsets are into its arena. One cache line has all of it where there is one source. */
typedef struct lsi_meeting_task {
    uint32_t id;                /* place in the order of preparation */
    int32_t n_sources;
    uint64_t bytes;             /* of the whole collective: all ranks say the same */
    char name[24];
    size_t target, source[LSI_TREE_MAX_ROOTS];
} lsi_meeting_task;

typedef struct lsi_meeting {
    const lsi_arena *arena;
    double timeout_seconds;
    const lsi_watchdog *watchdog;
    const atomic_bool *aborted;
    int n_spins;
    uint32_t n_begun;
} lsi_meeting;

/* What one rank launches: `name` and the bytes of the whole collective. `id` comes with its preparation. */
lsi_meeting_task lsi_meeting_task_make(const char *name, size_t bytes);
/* Another source, or the target, lies here: memory of the arena unless bytes is 0. */
LS_MUST_USE ls_status lsi_meeting_task_add_source(const lsi_arena *arena, const void *data, size_t bytes,
                                                  lsi_meeting_task *task);
LS_MUST_USE ls_status lsi_meeting_task_set_target(const lsi_arena *arena, const void *data, size_t bytes,
                                                  lsi_meeting_task *task);

/* Bytes that the desk takes at the beginning of an arena, to be given to lsi_arena_open. */
size_t lsi_meeting_head_bytes(void);
void lsi_meeting_open(const lsi_arena *arena, double timeout_seconds, const lsi_watchdog *watchdog,
                      const atomic_bool *aborted, lsi_meeting *out);

/* This rank is ready; returns when all are. */
LS_MUST_USE ls_status lsi_meeting_begin(lsi_meeting *meeting, const lsi_meeting_task *task);
/* This rank is done; returns when all are. */
LS_MUST_USE ls_status lsi_meeting_end(lsi_meeting *meeting);

/* Between begin and end: where source k, or the target, of the node's i-th rank lies in this process. */
void *lsi_meeting_source(const lsi_meeting *meeting, int i, int k);
void *lsi_meeting_target(const lsi_meeting *meeting, int i);

#endif
