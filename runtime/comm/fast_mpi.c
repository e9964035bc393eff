/* The sum in MPI's own order: for each chunk one reduction to its owner, whose totals then go the way of a gather.
 * (MPI_Ireduce_scatter would say the same in one call, but Open MPI takes everything through rank 0 for it.)
 *
 * 16 bits on the wire: values are first divided by the power of two >= the number of ranks. That is exact, and no sum
 * on the way leaves the type's range where the values themselves do not. Additions are made in f32 and rounded. */
#include "comm/transport_mpi.h"

#include "base/half.h"
#include "base/tsan.h"
#include "kernels/ops.h"

enum { WIRE_BYTES = 2, WIRES_PER_LINE = 32, SETS = 2 };

typedef struct fast_run {
    lsi_mpi_comm *comm;
    const lsi_mpi_reduce *reduce;
    lsi_mpi_chunks chunks;      /* what travels: the result itself, or 16-bit numbers in the staging */
    const float *partial;
    float divisor;
} fast_run;

/* ---- 16-bit numbers ------------------------------------------------------------------------------------------ */

static void pack(ls_dtype wire, const float *x, int64_t n, float factor, uint16_t *out)
{
    if (wire == LS_F16) {
        for (int64_t i = 0; i < n; i++) {
            out[i] = lsi_half_f16_from_f32(x[i] * factor);
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            out[i] = lsi_half_bf16_from_f32(x[i] * factor);
        }
    }
}

static void unpack(ls_dtype wire, const uint16_t *x, int64_t n, float factor, float *out)
{
    if (wire == LS_F16) {
        for (int64_t i = 0; i < n; i++) {
            out[i] = lsi_half_f16_to_f32(x[i]) * factor;
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            out[i] = lsi_half_bf16_to_f32(x[i]) * factor;
        }
    }
}

/* MPI may call these on any thread that waits in it. */
static void add_f16(void *in, void *in_out, int *n, MPI_Datatype *type)
{
    const uint16_t *x = in;
    uint16_t *sum = in_out;

    (void)type;
    lsi_tsan_hide();
    for (int i = 0; i < *n; i++) {
        sum[i] = lsi_half_f16_from_f32(lsi_half_f16_to_f32(x[i]) + lsi_half_f16_to_f32(sum[i]));
    }
    lsi_tsan_show();
}

static void add_bf16(void *in, void *in_out, int *n, MPI_Datatype *type)
{
    const uint16_t *x = in;
    uint16_t *sum = in_out;

    (void)type;
    lsi_tsan_hide();
    for (int i = 0; i < *n; i++) {
        sum[i] = lsi_half_bf16_from_f32(lsi_half_bf16_to_f32(x[i]) + lsi_half_bf16_to_f32(sum[i]));
    }
    lsi_tsan_show();
}

/* Between up to four ranks Open MPI 4 passes segments of 8 KiB along a chain, and each waits for a process to be woken:
 * measured 3 to 10 times as slow as a tree that sends a piece at once. Where the variable is not known, or has been set
 * by the user, the library's choice stays. */
static void choose_tree(void)
{
    const int binomial = 2;
    int provided, index, n, chosen = 0;
    MPI_T_cvar_handle handle;

    if (MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) {
        return;
    }
    if (MPI_T_cvar_get_index("coll_libnbc_ireduce_algorithm", &index) == MPI_SUCCESS &&
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &n) == MPI_SUCCESS) {
        if (n == 1 && MPI_T_cvar_read(handle, &chosen) == MPI_SUCCESS && chosen == 0) {
            MPI_T_cvar_write(handle, &binomial);
        }
        MPI_T_cvar_handle_free(&handle);
    }
    MPI_T_finalize();
}

ls_status lsi_fast_open(lsi_mpi_comm *comm)
{
    const int commutes = 1;

    choose_tree();
    if (comm->wire == LS_F32) {
        comm->add = MPI_SUM;
        return LS_OK;
    }
    return lsi_messages_check(MPI_Op_create(comm->wire == LS_F16 ? add_f16 : add_bf16, commutes, &comm->add),
                              "MPI_Op_create");
}

void lsi_fast_close(lsi_mpi_comm *comm)
{
    if (comm->add != MPI_OP_NULL && comm->add != MPI_SUM) {
        MPI_Op_free(&comm->add);
    }
}

/* ---- the sum ------------------------------------------------------------------------------------------------- */

void lsi_fast_staging(int world, ls_dtype wire, int64_t n, size_t piece_bytes, lsi_mpi_staging *out)
{
    int64_t n_blocks = (n + LSI_BLOCK - 1) / LSI_BLOCK, piece = (int64_t)(piece_bytes / WIRE_BYTES), start, largest;

    *out = (lsi_mpi_staging){0};
    if (wire == LS_F32) {
        return;     /* MPI takes the partial sums where they are */
    }
    lsi_shares_chunk(n, world, 0, &start, &largest);
    int64_t width = largest < piece ? largest : piece;
    out->width = (width + WIRES_PER_LINE - 1) / WIRES_PER_LINE * WIRES_PER_LINE;
    out->n_sets = largest > piece ? SETS : 1;
    out->n_slots[0] = n_blocks < world ? n_blocks : world;      /* one for each chunk that is not empty */
    out->bytes = (size_t)(out->n_slots[0] * out->n_sets * out->width) * WIRE_BYTES;
}

static ls_status begin_round(const fast_run *run, int64_t round)
{
    lsi_mpi_comm *comm = run->comm;
    bool is_packed = comm->wire != LS_F32;
    int64_t at;

    for (int owner = 0; owner < comm->head.world; owner++) {
        int64_t n = lsi_chunks_part(comm, &run->chunks, owner, round, &at);
        const void *data = run->partial + at;

        if (n == 0) {
            continue;
        }
        void *total = lsi_chunks_data(&run->chunks, owner, round, at);
        if (is_packed) {
            pack(comm->wire, data, n, 1 / run->divisor, total);
            data = total;
        }
        LS_TRY(lsi_messages_sum(comm, &comm->sum[round % 2], data, total, (int)n,
                                is_packed ? MPI_UINT16_T : MPI_FLOAT, comm->add, owner));
    }
    return LS_OK;
}

static ls_status finish_round(const fast_run *run, int64_t round)
{
    lsi_mpi_comm *comm = run->comm;
    float *out = (float *)(void *)run->reduce->out.data;
    int64_t at;

    LS_TRY(lsi_messages_wait(comm, &comm->sum[round % 2], "adding up the chunks"));
    for (int h = 0; run->reduce->gather && h < comm->route.n_stages; h++) {
        LS_TRY(lsi_hop_post(comm, &run->chunks, h, round));
        LS_TRY(lsi_hop_wait(comm, h, round));
    }
    for (int owner = 0; comm->wire != LS_F32 && owner < comm->head.world; owner++) {
        int64_t n = lsi_chunks_part(comm, &run->chunks, owner, round, &at);

        if (n > 0 && (owner == comm->head.rank || run->reduce->gather)) {
            unpack(comm->wire, lsi_chunks_data(&run->chunks, owner, round, at), n, run->divisor, out + at);
        }
    }
    return LS_OK;
}

/* Round i is added up while the totals of round i - 1 travel: two sets of staging. */
ls_status lsi_fast_run(lsi_mpi_comm *comm, const lsi_mpi_collective *collective)
{
    const lsi_mpi_reduce *reduce = &collective->u.reduce;
    fast_run run = {
        .comm = comm,
        .reduce = reduce,
        .chunks = reduce->out,
        .partial = reduce->partial[0],
        .divisor = 1,
    };

    if (comm->wire != LS_F32) {
        run.chunks = lsi_chunks_make(comm, comm->staging.data, reduce->out.n, WIRE_BYTES);
        run.chunks.width = reduce->staging.width;
        run.chunks.n_slots = reduce->staging.n_slots[0];
        while (run.divisor < (float)comm->head.world) {
            run.divisor *= 2;
        }
    }
    run.chunks.is_shared = false;       /* MPI adds up, and its numbers may be of 16 bit */
    for (int64_t step = 0; step <= run.chunks.n_rounds; step++) {
        if (step < run.chunks.n_rounds) {
            LS_TRY(begin_round(&run, step));
        }
        if (step > 0) {
            LS_TRY(finish_round(&run, step - 1));
        }
    }
    return LS_OK;
}
