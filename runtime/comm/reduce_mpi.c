/* Runs a route with messages of at most one piece.
 *
 * A chunk is worked through in pieces; piece w of all chunks is round w. Each round passes through phases: post
 * the messages of stage 0; then for each stage wait for its messages, add up, post those of the next stage or hop;
 * then wait hop by hop. Rounds follow each other one phase apart, so that messages of one are under way while
 * another is added up, and two sets of staging, by parity of the round, are enough. Every wait is for messages that
 * the peer posts in an earlier step of this schedule: no cycle can close.
 *
 * A total may overwrite a partial: it is received (or formed) after all messages of the stages of its round, this
 * rank's own ones out of that place among them, have completed. */
#include "comm/transport_mpi.h"

#include "base/tsan.h"
#include "comm/evaluate.h"
#include "kernels/ops.h"

enum { FLOATS_PER_LINE = 16 };

typedef struct reduction_run {
    lsi_mpi_comm *comm;
    const lsi_mpi_reduce *reduce;
} reduction_run;

/* With two stages the first has messages inside nodes only. */
static bool is_inside_node(int n_stages, int stage)
{
    return n_stages == 2 && stage == 0;
}

void lsi_reduce_staging(const lsi_reduction *reduction, int rank, int64_t n, size_t piece_bytes, bool is_shared,
                        lsi_mpi_staging *out)
{
    int64_t piece = (int64_t)(piece_bytes / sizeof(float)), n_blocks = (n + LSI_BLOCK - 1) / LSI_BLOCK;
    int64_t start, largest, n_all = 0;
    lsi_route counts;

    /* The first chunk is the largest, and the first owners are the ones whose chunks are not empty. */
    lsi_shares_chunk(n, reduction->world, 0, &start, &largest);
    lsi_route_count(reduction, rank, n_blocks < reduction->world ? (int)n_blocks : reduction->world, &counts);
    int64_t width = largest < piece ? largest : piece;
    *out = (lsi_mpi_staging){
        .width = (width + FLOATS_PER_LINE - 1) / FLOATS_PER_LINE * FLOATS_PER_LINE,
        .n_sets = largest > piece ? 2 : 1,
    };
    for (int s = 0; s < reduction->n_stages; s++) {
        out->n_slots[s] = is_shared && is_inside_node(reduction->n_stages, s) ? 0 : counts.stage[s].n_slots;
        n_all += out->n_slots[s] * out->n_sets;
    }
    out->bytes = (size_t)(n_all * out->width) * sizeof(float);
}

static int64_t part(const reduction_run *run, int owner, int64_t round, int64_t *at)
{
    return lsi_chunks_part(run->comm, &run->reduce->out, owner, round, at);
}

static float *slot_data(const reduction_run *run, int stage, int slot, int64_t round)
{
    const lsi_mpi_staging *cut = &run->reduce->staging;
    int64_t before = stage > 0 ? cut->n_slots[0] * cut->n_sets : 0;
    int64_t index = before + round % cut->n_sets * cut->n_slots[stage] + slot;

    return (float *)run->comm->staging.data + index * cut->width;
}

static bool reads_in_place(const reduction_run *run, int stage)
{
    return run->reduce->out.is_shared && is_inside_node(run->comm->route.n_stages, stage);
}

/* The partial sum that would be received into this slot. Those of one rank for one owner follow each other. */
static const float *peer_data(const reduction_run *run, const lsi_route_stage *stage, int slot)
{
    const lsi_route_message *m = &stage->receive[slot];
    int k = 0;

    while (k < slot && stage->receive[slot - k - 1].owner == m->owner && stage->receive[slot - k - 1].peer == m->peer) {
        k++;
    }
    return lsi_meeting_source(&run->comm->meeting, lsi_arena_index(run->comm->arena, m->peer), k);
}

static const float *place_data(const reduction_run *run, int stage, lsi_route_place place, int64_t round, int64_t at)
{
    if (place < 0) {
        return run->reduce->partial[~place] + at;
    }
    return reads_in_place(run, stage) ? peer_data(run, &run->comm->route.stage[stage], place) + at
                                      : slot_data(run, stage, place, round);
}

static ls_status post_stage(const reduction_run *run, int s, int64_t round)
{
    lsi_mpi_comm *comm = run->comm;
    const lsi_route_stage *stage = &comm->route.stage[s];
    lsi_messages *messages = &comm->stage[s][round % 2];
    int64_t at;

    if (reads_in_place(run, s)) {
        return LS_OK;
    }
    for (int i = 0; i < stage->n_receive; i++) {        /* all receives before any send: nothing arrives unexpected */
        const lsi_route_message *m = &stage->receive[i];
        size_t bytes = (size_t)part(run, m->owner, round, &at) * sizeof(float);

        if (bytes > 0) {
            float *slot = slot_data(run, s, m->place, round);
            LS_TRY(lsi_messages_receive(comm, messages, slot, bytes, m->peer, LSI_TAG_STAGE + s));
        }
    }
    for (int i = 0; i < stage->n_send; i++) {
        const lsi_route_message *m = &stage->send[i];
        size_t bytes = (size_t)part(run, m->owner, round, &at) * sizeof(float);

        if (bytes > 0) {
            const float *data = place_data(run, s, m->place, round, at);
            LS_TRY(lsi_messages_send(comm, messages, data, bytes, m->peer, LSI_TAG_STAGE + s));
        }
    }
    return LS_OK;
}

static ls_status finish_stage(const reduction_run *run, int s, int64_t round)
{
    lsi_mpi_comm *comm = run->comm;
    const lsi_route_stage *stage = &comm->route.stage[s];
    int64_t at;

    bool last = s + 1 == comm->route.n_stages;
    LS_TRY(lsi_messages_wait(comm, &comm->stage[s][round % 2],
                             last ? "adding partial sums" : "adding partial sums inside the node"));
    for (int i = 0; i < stage->n_sums; i++) {
        const lsi_route_sum *sum = &stage->sum[i];
        int64_t n = part(run, sum->owner, round, &at);

        if (n == 0) {
            continue;
        }
        for (int k = 0; k < sum->n; k++) {
            comm->operand[k] = place_data(run, s, stage->operand[sum->first + k], round, at);
        }
        float *out = sum->slot == LSI_ROUTE_TOTAL ? lsi_chunks_data(&run->reduce->out, sum->owner, round, at)
                                                  : slot_data(run, s + 1, sum->slot, round);
        lsi_evaluate(stage->step + sum->step, 2 * sum->n - 1, comm->operand, (size_t)n, out);
    }
    return LS_OK;
}

/* Ends the phase before and begins this one: 0 .. n_stages - 1 post a stage, then come the hops. */
static ls_status advance(const reduction_run *run, int phase, int64_t round)
{
    int n_stages = run->comm->route.n_stages, hop = phase - n_stages;

    if (phase > 0 && hop <= 0) {
        LS_TRY(finish_stage(run, phase - 1, round));
    }
    if (hop > 0) {
        LS_TRY(lsi_hop_wait(run->comm, hop - 1, round));
    }
    if (hop < 0) {
        return post_stage(run, phase, round);
    }
    return run->reduce->gather && hop < n_stages ? lsi_hop_post(run->comm, &run->reduce->out, hop, round) : LS_OK;
}

ls_status lsi_reduce_run(lsi_mpi_comm *comm, const lsi_mpi_collective *collective)
{
    reduction_run run = {.comm = comm, .reduce = &collective->u.reduce};
    int n_phases = comm->route.n_stages * (run.reduce->gather ? 2 : 1) + 1;
    int64_t n_rounds = run.reduce->out.n_rounds;

    for (int64_t step = 0; step < n_rounds + n_phases - 1; step++) {
        for (int phase = 0; phase < n_phases; phase++) {
            int64_t round = step - phase;

            if (round >= 0 && round < n_rounds) {
                LS_TRY(advance(&run, phase, round));
            }
        }
    }
    return LS_OK;
}

void lsi_reduce_declare(const lsi_mpi_comm *comm, const lsi_mpi_collective *collective)
{
    const lsi_mpi_reduce *reduce = &collective->u.reduce;
    int64_t start = 0, count = reduce->out.n;

    for (int i = 0; i < reduce->n_partials; i++) {
        lsi_tsan_reads(reduce->partial[i], (size_t)count * sizeof(float));
    }
    if (!reduce->gather) {
        lsi_shares_chunk(reduce->out.n, comm->head.world, comm->head.rank, &start, &count);
    }
    lsi_tsan_writes(reduce->out.data + (size_t)start * sizeof(float), (size_t)count * sizeof(float));
}
