/* The collectives of the shm transport, between the moments when all are ready and when all are done. */
#include "comm/transport_shm.h"

#include <string.h>

#include "base/tsan.h"
#include "comm/evaluate.h"
#include "comm/streaming.h"

/* Cut for the compute threads: a block of their pool takes about 100 us. */
enum { SUM_PIECE = 64 * 1024, COPY_PIECE = 1 << 20 };
/* Where everybody gets everything who adds what is free: in equal parts, cut where element-wise work may be. */
enum { SUM_CUT = 1024 };
/* Vectors of these bytes and more are not in a cache when they are used next. */
enum { STREAMED = 16 << 20 };

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t n_pieces(int64_t n, int64_t piece)
{
    return (n + piece - 1) / piece;
}

/* ---- the sum ------------------------------------------------------------------------------------------------- */

typedef struct sum {
    const lsi_shm_comm *comm;
    int64_t start, count;       /* this rank's part */
    int n_results;
} sum;

static void add_piece(void *argument, int64_t block)
{
    const sum *s = argument;
    const lsi_shm_comm *comm = s->comm;
    int64_t at = block * SUM_PIECE;

    lsi_evaluate_range(comm->step, 2 * comm->n_terms - 1, comm->operand, (size_t)(s->start + at),
                       (size_t)smaller(SUM_PIECE, s->count - at), comm->result, s->n_results);
}

static void equal_part(int64_t n, int n_ranks, int rank, int64_t *start, int64_t *count)
{
    int64_t cuts = n_pieces(n, SUM_CUT), first = cuts * rank / n_ranks, end = cuts * (rank + 1) / n_ranks;

    *start = smaller(first * SUM_CUT, n);
    *count = smaller(end * SUM_CUT, n) - *start;
}

static lsi_evaluate_out result_of(const lsi_shm_comm *comm, const lsi_shm_collective *collective, int rank)
{
    float *data = lsi_meeting_target(&comm->meeting, rank);
    bool streams = (size_t)collective->n * sizeof(float) >= STREAMED;

    for (int i = 0; i < comm->n_terms; i++) {       /* a line that has been read is written best where it is */
        streams = streams && comm->operand[i] != data;
    }
    return (lsi_evaluate_out){.data = data, .streams = streams};
}

uint64_t lsi_shm_reduce_run(lsi_shm_comm *comm, const ls_cpu_run *run, const lsi_shm_collective *collective)
{
    int self = comm->head.rank, world = comm->head.world;
    sum s = {.comm = comm, .n_results = 1};

    for (int i = 0; i < comm->n_terms; i++) {
        comm->operand[i] = lsi_meeting_source(&comm->meeting, comm->term[i].rank, comm->term[i].source);
    }
    if (collective->gather) {
        equal_part(collective->n, world, self, &s.start, &s.count);
        for (s.n_results = 0; s.n_results < world; s.n_results++) {
            comm->result[s.n_results] = result_of(comm, collective, s.n_results);
        }
    } else {
        lsi_shares_chunk(collective->n, world, self, &s.start, &s.count);
        comm->result[0] = result_of(comm, collective, self);
    }
    ls_parallel_for(run, n_pieces(s.count, SUM_PIECE), add_piece, &s);
    return (uint64_t)(comm->n_terms + s.n_results) * (uint64_t)s.count * sizeof(float);
}

void lsi_shm_reduce_declare(const lsi_shm_comm *comm, const lsi_shm_collective *collective)
{
    int64_t start = 0, count = collective->n;

    for (int i = 0; i < collective->task.n_sources; i++) {
        lsi_tsan_reads(collective->source[i], (size_t)count * sizeof(float));
    }
    if (!collective->gather) {
        lsi_shares_chunk(collective->n, comm->head.world, comm->head.rank, &start, &count);
    }
    lsi_tsan_writes((float *)collective->target + start, (size_t)count * sizeof(float));
}

/* ---- what only moves ----------------------------------------------------------------------------------------- */

typedef struct move {
    const lsi_shm_comm *comm;
    const lsi_shm_collective *collective;
} move;

static void copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

/* Bytes [at, at + length) of the vector, from the ranks that own them. */
static void fetch_chunks(const move *m, int64_t at, int64_t length)
{
    const lsi_shm_comm *comm = m->comm;
    int64_t size = (int64_t)m->collective->element_bytes, all = m->collective->n * size;
    char *mine = m->collective->target;

    for (int owner = 0; owner < comm->head.world; owner++) {
        int64_t start, count;

        lsi_shares_chunk(m->collective->n, comm->head.world, owner, &start, &count);
        int64_t from = start * size > at ? start * size : at, end = smaller((start + count) * size, at + length);
        if (owner != comm->head.rank && from < end) {
            const char *theirs = lsi_meeting_target(&comm->meeting, owner);

            (all >= STREAMED ? lsi_streaming_copy : copy)(mine + from, theirs + from, (size_t)(end - from));
        }
    }
}

static void gather_piece(void *argument, int64_t block)
{
    const move *m = argument;
    int64_t all = m->collective->n * (int64_t)m->collective->element_bytes, at = block * COPY_PIECE;

    fetch_chunks(m, at, smaller(COPY_PIECE, all - at));
}

uint64_t lsi_shm_gather_run(lsi_shm_comm *comm, const ls_cpu_run *run, const lsi_shm_collective *collective)
{
    move m = {comm, collective};
    int64_t start, count;

    ls_parallel_for(run, n_pieces(collective->n * (int64_t)collective->element_bytes, COPY_PIECE), gather_piece, &m);
    lsi_shares_chunk(collective->n, comm->head.world, comm->head.rank, &start, &count);
    return 2 * (uint64_t)(collective->n - count) * collective->element_bytes;
}

void lsi_shm_gather_declare(const lsi_shm_comm *comm, const lsi_shm_collective *collective)
{
    size_t size = collective->element_bytes;
    char *data = collective->target;
    int64_t start, count;

    lsi_shares_chunk(collective->n, comm->head.world, comm->head.rank, &start, &count);
    int64_t end = start + count;
    lsi_tsan_reads(data + (size_t)start * size, (size_t)count * size);
    lsi_tsan_writes(data, (size_t)start * size);
    lsi_tsan_writes(data + (size_t)end * size, (size_t)(collective->n - end) * size);
}

uint64_t lsi_shm_exchange_run(lsi_shm_comm *comm, const ls_cpu_run *run, const lsi_shm_collective *collective)
{
    size_t bytes = (size_t)collective->task.bytes;
    char *all = collective->target;

    (void)run;                  /* some kilobytes */
    for (int r = 0; r < comm->head.world; r++) {
        const void *theirs = lsi_meeting_source(&comm->meeting, r, 0);

        if (all + (size_t)r * bytes != theirs) {
            memcpy(all + (size_t)r * bytes, theirs, bytes);
        }
    }
    return 2 * (uint64_t)comm->head.world * bytes;
}

void lsi_shm_exchange_declare(const lsi_shm_comm *comm, const lsi_shm_collective *collective)
{
    lsi_tsan_reads(collective->source[0], (size_t)collective->task.bytes);
    lsi_tsan_writes(collective->target, (size_t)comm->head.world * (size_t)collective->task.bytes);
}

static void broadcast_piece(void *argument, int64_t block)
{
    const move *m = argument;
    const char *theirs = lsi_meeting_target(&m->comm->meeting, m->collective->root);
    int64_t at = block * COPY_PIECE, left = (int64_t)m->collective->task.bytes - at;

    memcpy((char *)m->collective->target + at, theirs + at, (size_t)smaller(COPY_PIECE, left));
}

uint64_t lsi_shm_broadcast_run(lsi_shm_comm *comm, const ls_cpu_run *run, const lsi_shm_collective *collective)
{
    move m = {comm, collective};

    if (comm->head.rank == collective->root) {
        return 0;
    }
    ls_parallel_for(run, n_pieces((int64_t)collective->task.bytes, COPY_PIECE), broadcast_piece, &m);
    return 2 * collective->task.bytes;
}

void lsi_shm_broadcast_declare(const lsi_shm_comm *comm, const lsi_shm_collective *collective)
{
    if (collective->root == comm->head.rank) {
        lsi_tsan_reads(collective->target, (size_t)collective->task.bytes);
    } else {
        lsi_tsan_writes(collective->target, (size_t)collective->task.bytes);
    }
}
