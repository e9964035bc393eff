/* Softmax and cross-entropy in one: the probabilities are never stored, the backward makes them again from the row's
 * log-sum-exp. The forward reads the logits once: maximum and sum of exponentials grow together. */
#include "kernels/cuda/fault.h"
#include "kernels/cuda/row.h"
#include "kernels/math.h"

/* ---- forward ------------------------------------------------------------------------------------------------- */

/* Over some elements of a row: the largest, where it is first, and the sum of e^(x - largest). NaN elements are passed
 * over by the maximum and make the sum NaN. As long as all are -infinity the sum is 0. */
typedef struct row_state {
    lsi_first_max max;
    float sum;
} row_state;

static __device__ __forceinline__ void take_group(row_state *s, const float *x, int64_t at, int64_t left)
{
    lsi_first_max largest = s->max;

#pragma unroll
    for (int i = 0; i < LSI_GROUP; i++) {
        if (i < left && x[i] > largest.value) {
            largest.value = x[i];
            largest.at = at + i;
        }
    }
    if (largest.value > s->max.value) {
        s->sum *= lsi_exp(s->max.value - largest.value);
        s->max = largest;
    }
    /* With -infinity as the largest, differences are NaN where they should be taken for 0. */
    float shift = largest.value == -INFINITY ? 0.0f : largest.value;
#pragma unroll
    for (int i = 0; i < LSI_GROUP; i++) {
        s->sum += i < left ? lsi_exp(x[i] - shift) : 0.0f;
    }
}

template <typename T>
static __device__ __forceinline__ void softmax_xent_fwd(const lsi_softmax_xent_fwd_args &a, const lsi_fault_site &fault,
                                                        lsi_first_max *max_slot, double *sum_slot)
{
    lsi_row r = lsi_row_mine(a.classes);
    const T *logits = (const T *)a.logits.data + r.index * a.pitch;
    row_state mine = {{-INFINITY, 0}, 0.0f};

    if (r.index >= a.rows) {
        return;
    }
    mine.max.at = r.first;
    for (int64_t at = r.first; at < a.classes; at += r.step) {
        float x[LSI_GROUP];

        lsi_read<T, LSI_GROUP>(logits + at, a.classes - at, x);
        take_group(&mine, x, at, a.classes - at);
    }
    lsi_first_max max = lsi_row_max(&r, mine.max, max_slot);
    double sum = lsi_row_sum(&r, (double)(mine.sum * lsi_exp(mine.max.value - max.value)), sum_slot);
    if (r.first != 0) {
        return;
    }

    int32_t target = ((const int32_t *)a.targets.data)[r.index];
    float log_sum = lsi_log((float)sum), loss = 0.0f, hit = 0.0f;
    if (target >= a.classes) {
        lsi_fault_raise(&fault, target, r.index, a.classes);
    } else if (target >= 0) {
        loss = log_sum + (max.value - lsi_widen(logits[target]));
        hit = log_sum == log_sum && target == max.at ? 1.0f : 0.0f;     /* the target is the first among the largest */
    }
    ((float *)a.lse.data)[r.index] = max.value + log_sum;
    ((float *)a.losses.data)[r.index] = loss;
    ((float *)a.hits.data)[r.index] = hit;
}

#define SOFTMAX_XENT_FWD(suffix, type)                                                                               \
    extern "C" __global__ void __launch_bounds__(LSI_THREADS)                                                        \
        lsi_softmax_xent_fwd_##suffix(lsi_softmax_xent_fwd_args a, lsi_fault_site fault)                             \
    {                                                                                                                \
        __shared__ lsi_first_max max_slot[LSI_ROW_WARPS];                                                            \
        __shared__ double sum_slot[LSI_ROW_WARPS];                                                                   \
        softmax_xent_fwd<type>(a, fault, max_slot, sum_slot);                                                        \
    }
SOFTMAX_XENT_FWD(f32, float)
SOFTMAX_XENT_FWD(f16, __half)
SOFTMAX_XENT_FWD(bf16, __nv_bfloat16)

extern "C" ls_status lsi_cuda_softmax_xent_fwd(ls_stream *stream, const void *arguments)
{
    lsi_softmax_xent_fwd_args a = *(const lsi_softmax_xent_fwd_args *)arguments;
    lsi_fault_site fault = lsi_fault_at(stream, LS_ERR_DATA,
                                        "target %lld in row %lld of the micro-batch, but there are %lld classes");

    LSI_CHECK_TYPES("softmax_xent_fwd", &a.logits);
    if (a.rows == 0) {
        return LS_OK;
    }
    return LSI_LAUNCH_TYPES("softmax_xent_fwd", softmax_xent_fwd, a.logits.dtype, lsi_row_grid(a.rows, a.classes),
                            LSI_THREADS, lsi_cuda_stream(stream), a, fault);
}

/* ---- backward ------------------------------------------------------------------------------------------------ */

template <typename T> static __device__ __forceinline__ void softmax_xent_bwd(const lsi_softmax_xent_bwd_args &a)
{
    const int n = lsi_vector<T>();
    lsi_place p = lsi_matrix_place(a.pitch, n);
    int64_t left = a.pitch - p.column, at = p.row * a.pitch + p.column;
    float x[n];

    if (p.row >= a.rows || left <= 0) {
        return;
    }
    int32_t target = ((const int32_t *)a.targets.data)[p.row];
    float lse = ((const float *)a.lse.data)[p.row], scale = a.seed * a.state->loss_scale;
    int64_t written = target < 0 ? 0 : a.classes;       /* behind them: 0 */
    lsi_read<T, n>((const T *)a.logits.data + at, left, x);
#pragma unroll
    for (int i = 0; i < n; i++) {
        float softmax = lsi_exp(x[i] - lse);
        float dx = (p.column + i == target ? softmax - 1.0f : softmax) * scale;
        x[i] = p.column + i < written ? dx : 0.0f;
    }
    lsi_write<T, n>((T *)a.dlogits.data + at, left, x);
}
LSI_KERNEL_TYPES(softmax_xent_bwd, (lsi_softmax_xent_bwd_args a), (a))

extern "C" ls_status lsi_cuda_softmax_xent_bwd(ls_stream *stream, const void *arguments)
{
    lsi_softmax_xent_bwd_args a = *(const lsi_softmax_xent_bwd_args *)arguments;
    int group = lsi_cuda_group(a.logits.dtype);

    LSI_CHECK_TYPES("softmax_xent_bwd", &a.logits, &a.dlogits);
    if (a.rows == 0) {
        return LS_OK;
    }
    return LSI_LAUNCH_TYPES("softmax_xent_bwd", softmax_xent_bwd, a.logits.dtype,
                            lsi_matrix_grid(a.rows, a.pitch, group), lsi_matrix_block(a.pitch, group),
                            lsi_cuda_stream(stream), a);
}
