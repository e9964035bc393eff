/* Memory that the ranks of a node share. Each has an arena: a file without a name (memfd), as long as the machine's
 * memory but as large as what is used of it, mapped by every rank of the node. A rank hands out pieces of its own; what
 * one process finds at an offset of an arena, all do. Nothing is left behind however a process ends, and no size of
 * /dev/shm matters. */
#ifndef LSI_COMM_ARENA_H
#define LSI_COMM_ARENA_H

#include "job/job.h"
#include <lockstep/backend.h>

typedef struct lsi_arena_piece {
    size_t at, bytes;
} lsi_arena_piece;

typedef struct lsi_arena {
    ls_device *device;          /* that tells how much memory is free */
    int n, self;                /* ranks of this node; which of them this one is */
    int *rank;                  /* each one's, ascending */
    char **base;                /* where each one's arena lies in this process */
    size_t *bytes;              /* of each arena */
    size_t head_bytes;
    lsi_arena_piece *piece;     /* handed out, ascending */
    int n_pieces;
} lsi_arena;

/* Collective over the job. Every arena begins with head_bytes of zeros for what its users want to say to each other.
 * All ranks return alike: a failure is that of the lowest rank that has one, with its reason, and nobody has printed
 * it. */
LS_MUST_USE ls_status lsi_arena_open(lsi_job *job, ls_device *device, size_t head_bytes, double timeout_seconds,
                                     lsi_arena **out);
/* Not collective: what others have mapped stays theirs until they close. Accepts NULL. */
void lsi_arena_close(lsi_arena **arena);

/* Pieces of this rank's arena, at page boundaries; contents undefined. Main thread. */
LS_MUST_USE ls_status lsi_arena_alloc(lsi_arena *arena, size_t bytes, void **out);
/* Gives the memory back to the system. Accepts NULL. */
void lsi_arena_release(lsi_arena *arena, void *pointer);

/* Which of the node's ranks `rank` is. */
int lsi_arena_index(const lsi_arena *arena, int rank);
/* Whether these bytes lie in this rank's arena; where they do, *at is their offset. */
bool lsi_arena_holds(const lsi_arena *arena, const void *data, size_t bytes, size_t *at);

#endif
