/* Runs a route with groups of messages: for each stage one group, then the sums. All is on one stream, so that one set
 * of staging is enough: what a round receives comes after the sums of the round before. Pieces are large (one round for
 * buckets of the usual size), for NCCL itself cuts messages up and lets them overlap.
 *
 * A total may overwrite a partial: it is formed or received after the messages of its chunk have left. */
#include "comm/nccl/nccl.h"

#include "comm/evaluate.h"
#include "kernels/cuda/comm.h"
#include "kernels/ops.h"

enum { FLOATS_PER_LINE = 64 };

int64_t lsi_nccl_reduce_cut(const lsi_reduction *reduction, int rank, int64_t n, size_t piece_bytes,
                            lsi_nccl_reduce *out)
{
    int64_t piece = (int64_t)(piece_bytes / sizeof(float)), n_blocks = (n + LSI_BLOCK - 1) / LSI_BLOCK;
    int64_t start, largest, n_slots = 0;
    lsi_route counts;

    /* The first chunk is the largest, and the first owners are the ones whose chunks are not empty. */
    lsi_shares_chunk(n, reduction->world, 0, &start, &largest);
    lsi_route_count(reduction, rank, n_blocks < reduction->world ? (int)n_blocks : reduction->world, &counts);
    int64_t width = largest < piece ? largest : piece;
    out->width = (width + FLOATS_PER_LINE - 1) / FLOATS_PER_LINE * FLOATS_PER_LINE;
    for (int s = 0; s < reduction->n_stages; s++) {
        out->first_slot[s] = n_slots;
        n_slots += counts.stage[s].n_slots;
    }
    return n_slots * out->width;
}

int lsi_nccl_reduce_operands(const lsi_route *route)
{
    int most = 0;

    for (int s = 0; s < route->n_stages; s++) {
        for (int i = 0; i < route->stage[s].n_sums; i++) {
            most = route->stage[s].sum[i].n > most ? route->stage[s].sum[i].n : most;
        }
    }
    return most;
}

typedef struct reduction_run {
    lsi_nccl_comm *comm;
    const lsi_nccl_reduce *reduce;
    cudaStream_t stream;
    int64_t round;
} reduction_run;

/* Elements of the owner's chunk in this round; *at: the first of them in the vector. */
static int64_t part(const reduction_run *run, int owner, int64_t *at)
{
    int64_t start, count, width = run->reduce->width;

    lsi_shares_chunk(run->reduce->n, run->comm->head.world, owner, &start, &count);
    *at = start + run->round * width;
    int64_t left = start + count - *at;
    return left < 0 ? 0 : left < width ? left : width;
}

static float *slot_data(const reduction_run *run, int stage, int slot)
{
    return (float *)run->comm->staging.data + (run->reduce->first_slot[stage] + slot) * run->reduce->width;
}

static const float *place_data(const reduction_run *run, int stage, lsi_route_place place, int64_t at)
{
    return place < 0 ? run->reduce->partial[~place] + at : slot_data(run, stage, place);
}

static ls_status give_messages(const reduction_run *run, int s, lsi_nccl_group *group)
{
    const lsi_route_stage *stage = &run->comm->route.stage[s];
    int64_t at;

    for (int i = 0; i < stage->n_receive; i++) {
        const lsi_route_message *m = &stage->receive[i];
        int64_t n = part(run, m->owner, &at);

        if (n > 0) {
            LS_TRY(lsi_nccl_receive(group, slot_data(run, s, m->place), (size_t)n * sizeof(float), m->peer));
        }
    }
    for (int i = 0; i < stage->n_send; i++) {
        const lsi_route_message *m = &stage->send[i];
        int64_t n = part(run, m->owner, &at);

        if (n > 0) {
            LS_TRY(lsi_nccl_send(group, place_data(run, s, m->place, at), (size_t)n * sizeof(float), m->peer));
        }
    }
    return LS_OK;
}

static ls_status add_up(const reduction_run *run, int s, const lsi_route_sum *what, int64_t n, int64_t at)
{
    const lsi_route_stage *stage = &run->comm->route.stage[s];
    const uint8_t *step = stage->step + what->step;
    lsi_comm_sum sum = {.n_steps = 2 * what->n - 1, .n = n};
    int depth = 0, most = 0;

    for (int k = 0; k < what->n; k++) {
        sum.operand[k] = place_data(run, s, stage->operand[what->first + k], at);
    }
    for (int i = 0; i < sum.n_steps; i++) {
        bool adds = step[i] == LSI_STEP_ADD;

        sum.adds[i / 32] |= (uint32_t)adds << i % 32;
        depth += adds ? -1 : 1;
        most = depth > most ? depth : most;
    }
    sum.out = what->slot == LSI_ROUTE_TOTAL ? run->reduce->out + at : slot_data(run, s + 1, what->slot);
    if (what->n == 1 && sum.operand[0] == sum.out) {
        return LS_OK;
    }
    return lsi_nccl_launched(run->comm, lsi_comm_sum_launch(run->stream, &sum, most));
}

static ls_status run_stage(const reduction_run *run, int s)
{
    const lsi_route_stage *stage = &run->comm->route.stage[s];
    lsi_nccl_group group = {.comm = run->comm, .stream = run->stream};
    int64_t at;

    LS_TRY(lsi_nccl_group_end(&group, give_messages(run, s, &group)));
    for (int i = 0; i < stage->n_sums; i++) {
        int64_t n = part(run, stage->sum[i].owner, &at);

        if (n > 0) {
            LS_TRY(add_up(run, s, &stage->sum[i], n, at));
        }
    }
    return LS_OK;
}

ls_status lsi_nccl_reduce_queue(lsi_nccl_comm *comm, const lsi_nccl_collective *collective, cudaStream_t stream)
{
    const lsi_nccl_reduce *reduce = &collective->u.reduce;
    reduction_run run = {.comm = comm, .reduce = reduce, .stream = stream};
    int64_t start, largest;

    lsi_shares_chunk(reduce->n, comm->head.world, 0, &start, &largest);
    for (; run.round * reduce->width < largest; run.round++) {
        for (int s = 0; s < comm->route.n_stages; s++) {
            LS_TRY(run_stage(&run, s));
        }
    }
    lsi_nccl_gather gather = {(char *)reduce->out, reduce->n, sizeof(float)};
    return reduce->gather ? lsi_nccl_gather_chunks(comm, &gather, stream) : LS_OK;
}
