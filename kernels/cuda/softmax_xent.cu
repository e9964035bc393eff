/* Softmax and cross-entropy in one: the probabilities are never stored, the backward makes them again from the row's
 * log-sum-exp. The forward reads the logits once: maximum and sum of exponentials grow together. Both at once read a
 * row again as soon as its log-sum-exp is known, from the second-level cache. */
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

/* Of the first pass over a row: the thread that has the target's logit writes loss and hit (without a target, the first
 * one). The log-sum-exp, in all threads. */
template <typename T>
static __device__ __forceinline__ float sum_up_row(const lsi_row &r, const T *logits, int64_t classes, int32_t target,
                                                   const lsi_fault_site &fault, lsi_first_max *max_slot,
                                                   double *sum_slot, float *losses, float *hits)
{
    row_state mine = {{-INFINITY, r.first}, 0.0f};

    for (int64_t at = r.first; at < classes; at += r.step) {
        float x[LSI_GROUP];

        lsi_read<T, LSI_GROUP>(logits + at, classes - at, x);
        take_group(&mine, x, at, classes - at);
    }
    lsi_first_max max = lsi_row_max(&r, mine.max, max_slot);
    double sum = lsi_row_sum(&r, (double)(mine.sum * lsi_exp(mine.max.value - max.value)), sum_slot);
    float log_sum = lsi_log((float)sum), loss = 0.0f, hit = 0.0f;
    bool has_target = target >= 0 && target < classes;

    if (r.first != (has_target ? target % r.step / LSI_GROUP * LSI_GROUP : 0)) {
        return max.value + log_sum;
    }
    if (has_target) {
        loss = log_sum + (max.value - lsi_widen(logits[target]));
        hit = log_sum == log_sum && target == max.at ? 1.0f : 0.0f;     /* the target is the first among the largest */
    } else if (target >= classes) {
        lsi_fault_raise(&fault, target, r.index, classes);
    }
    losses[r.index] = loss;
    hits[r.index] = hit;
    return max.value + log_sum;
}

template <typename T>
static __device__ __forceinline__ void softmax_xent_fwd(const lsi_softmax_xent_fwd_args &a, const lsi_fault_site &fault,
                                                        lsi_first_max *max_slot, double *sum_slot)
{
    lsi_row r = lsi_row_mine(a.classes);

    if (r.index >= a.rows) {
        return;
    }
    float lse = sum_up_row<T>(r, (const T *)a.logits.data + r.index * a.pitch, a.classes,
                              ((const int32_t *)a.targets.data)[r.index], fault, max_slot, sum_slot,
                              (float *)a.losses.data, (float *)a.hits.data);
    if (r.first == 0) {
        ((float *)a.lse.data)[r.index] = lse;
    }
}

#define ROW_KERNEL(name, suffix, type)                                              \
    extern "C" __global__ void __launch_bounds__(LSI_THREADS)                       \
        lsi_##name##_##suffix(lsi_##name##_args a, lsi_fault_site fault)            \
    {                                                                               \
        __shared__ lsi_first_max max_slot[LSI_ROW_WARPS];                           \
        __shared__ double sum_slot[LSI_ROW_WARPS];                                  \
        name<type>(a, fault, max_slot, sum_slot);                                   \
    }
#define ROW_KERNELS(name)           \
    ROW_KERNEL(name, f32, float)    \
    ROW_KERNEL(name, f16, __half)   \
    ROW_KERNEL(name, bf16, __nv_bfloat16)
ROW_KERNELS(softmax_xent_fwd)

static lsi_fault_site target_fault(ls_stream *stream)
{
    return lsi_fault_at(stream, LS_ERR_DATA, "target %lld in row %lld of the micro-batch, but there are %lld classes");
}

extern "C" ls_status lsi_cuda_softmax_xent_fwd(ls_stream *stream, const void *arguments)
{
    lsi_softmax_xent_fwd_args a = *(const lsi_softmax_xent_fwd_args *)arguments;
    lsi_fault_site fault = target_fault(stream);

    LSI_CHECK_TYPES("softmax_xent_fwd", &a.logits);
    if (a.rows == 0) {
        return LS_OK;
    }
    return LSI_LAUNCH_TYPES("softmax_xent_fwd", softmax_xent_fwd, a.logits.dtype, lsi_row_grid(a.rows, a.classes),
                            LSI_THREADS, lsi_cuda_stream(stream), a, fault);
}

/* ---- backward ------------------------------------------------------------------------------------------------ */

/* In place of n logits of a row, from `column` on: their gradient; 0 behind the classes and without a target. */
template <int n>
static __device__ __forceinline__ void make_gradient(float *x, int64_t column, int64_t classes, int32_t target,
                                                     float lse, float scale)
{
    int64_t written = target < 0 ? 0 : classes;

#pragma unroll
    for (int i = 0; i < n; i++) {
        float softmax = lsi_exp(x[i] - lse);
        float dx = (column + i == target ? softmax - 1.0f : softmax) * scale;
        x[i] = column + i < written ? dx : 0.0f;
    }
}

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
    lsi_read<T, n>((const T *)a.logits.data + at, left, x);
    make_gradient<n>(x, p.column, a.classes, target, lse, scale);
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

/* ---- both at once -------------------------------------------------------------------------------------------- */

/* A thread writes over what it alone has read: no barrier between the passes. */
template <typename T>
static __device__ __forceinline__ void softmax_xent(const lsi_softmax_xent_args &a, const lsi_fault_site &fault,
                                                    lsi_first_max *max_slot, double *sum_slot)
{
    lsi_row r = lsi_row_mine(a.classes);
    T *logits = (T *)a.logits.data + r.index * a.pitch;

    if (r.index >= a.rows) {
        return;
    }
    int32_t target = ((const int32_t *)a.targets.data)[r.index];
    float scale = a.seed * a.state->loss_scale;
    float lse = sum_up_row<T>(r, logits, a.classes, target, fault, max_slot, sum_slot, (float *)a.losses.data,
                              (float *)a.hits.data);
    for (int64_t at = r.first; at < a.pitch; at += r.step) {
        float x[LSI_GROUP];

        lsi_read<T, LSI_GROUP>(logits + at, a.pitch - at, x);
        make_gradient<LSI_GROUP>(x, at, a.classes, target, lse, scale);
        lsi_write<T, LSI_GROUP>(logits + at, a.pitch - at, x);
    }
}
ROW_KERNELS(softmax_xent)

extern "C" ls_status lsi_cuda_softmax_xent(ls_stream *stream, const void *arguments)
{
    lsi_softmax_xent_args a = *(const lsi_softmax_xent_args *)arguments;
    lsi_fault_site fault = target_fault(stream);

    LSI_CHECK_TYPES("softmax_xent", &a.logits);
    if (a.rows == 0) {
        return LS_OK;
    }
    return LSI_LAUNCH_TYPES("softmax_xent", softmax_xent, a.logits.dtype, lsi_row_grid(a.rows, a.classes), LSI_THREADS,
                            lsi_cuda_stream(stream), a, fault);
}
