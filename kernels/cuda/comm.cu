#include "kernels/cuda/comm.h"

#include "kernels/cuda/kernel.h"
#include "kernels/cuda/vector.h"

/* ---- the ordered sum ------------------------------------------------------------------------------------------- */

/* Of one sum: every operand is read once, the total written once. */
enum { SUM_GROUP = 4, SHALLOW = 6, DEEP = 20 };

/* The stack lies in registers: its top is always element 0, and the rest moves. */
template <int DEPTH> static __device__ __forceinline__ void ordered_sum(const lsi_comm_sum &s)
{
    int64_t at = lsi_thread() * SUM_GROUP, left = s.n - at;
    float stack[DEPTH][SUM_GROUP] = {};
    int next = 0;

    if (left <= 0) {
        return;
    }
    for (int step = 0; step < s.n_steps; step++) {
        if (s.adds[step / 32] >> (step % 32) & 1) {
#pragma unroll
            for (int k = 0; k < SUM_GROUP; k++) {
                stack[0][k] = stack[1][k] + stack[0][k];
#pragma unroll
                for (int d = 1; d < DEPTH - 1; d++) {
                    stack[d][k] = stack[d + 1][k];
                }
            }
        } else {
#pragma unroll
            for (int k = 0; k < SUM_GROUP; k++) {
#pragma unroll
                for (int d = DEPTH - 1; d > 0; d--) {
                    stack[d][k] = stack[d - 1][k];
                }
            }
            lsi_read<float, SUM_GROUP>(s.operand[next++] + at, left, stack[0]);
        }
    }
    lsi_write<float, SUM_GROUP>(s.out + at, left, stack[0]);
}

extern "C" __global__ void __launch_bounds__(LSI_THREADS) lsi_comm_sum_shallow(const lsi_comm_sum s)
{
    ordered_sum<SHALLOW>(s);
}

extern "C" __global__ void __launch_bounds__(LSI_THREADS) lsi_comm_sum_deep(const lsi_comm_sum s)
{
    ordered_sum<DEEP>(s);
}

extern "C" ls_status lsi_comm_sum_launch(cudaStream_t stream, const lsi_comm_sum *sum, int depth)
{
    unsigned grid = lsi_cuda_grid(sum->n, LSI_THREADS * SUM_GROUP);

    LS_REQUIRE(depth <= DEEP, LS_ERR_INTERNAL, "a sum with %d operands waiting; %d are possible", depth, (int)DEEP);
    return lsi_cuda_launched("the ordered sum", depth <= SHALLOW
                                                    ? LAUNCH(lsi_comm_sum_shallow, grid, LSI_THREADS, 0, stream, *sum)
                                                    : LAUNCH(lsi_comm_sum_deep, grid, LSI_THREADS, 0, stream, *sum));
}

/* ---- the wire -------------------------------------------------------------------------------------------------- */

template <typename T>
static __device__ __forceinline__ void comm_pack(const float *x, int64_t n, float factor, void *out)
{
    int64_t at = lsi_thread() * LSI_GROUP, left = n - at;
    float v[LSI_GROUP];

    if (left <= 0) {
        return;
    }
    lsi_read<float, LSI_GROUP>(x + at, left, v);
#pragma unroll
    for (int k = 0; k < LSI_GROUP; k++) {
        v[k] = v[k] * factor;
    }
    lsi_write<T, LSI_GROUP>((T *)out + at, left, v);
}

template <typename T>
static __device__ __forceinline__ void comm_unpack(const void *x, int64_t n, float factor, float *out)
{
    int64_t at = lsi_thread() * LSI_GROUP, left = n - at;
    float v[LSI_GROUP];

    if (left <= 0) {
        return;
    }
    lsi_read<T, LSI_GROUP>((const T *)x + at, left, v);
#pragma unroll
    for (int k = 0; k < LSI_GROUP; k++) {
        v[k] = v[k] * factor;
    }
    lsi_write<float, LSI_GROUP>(out + at, left, v);
}

LSI_KERNEL_TYPE(comm_pack, f16, __half, (const float *x, int64_t n, float factor, void *out), (x, n, factor, out))
LSI_KERNEL_TYPE(comm_pack, bf16, __nv_bfloat16, (const float *x, int64_t n, float factor, void *out),
                (x, n, factor, out))
LSI_KERNEL_TYPE(comm_unpack, f16, __half, (const void *x, int64_t n, float factor, float *out), (x, n, factor, out))
LSI_KERNEL_TYPE(comm_unpack, bf16, __nv_bfloat16, (const void *x, int64_t n, float factor, float *out),
                (x, n, factor, out))

extern "C" ls_status lsi_comm_pack_launch(cudaStream_t stream, const float *x, int64_t n, float factor, ls_dtype wire,
                                          void *out)
{
    unsigned grid = lsi_cuda_grid(n, LSI_THREADS * LSI_GROUP);

    return lsi_cuda_launched("rounding for the wire",
                             wire == LS_F16
                                 ? LAUNCH(lsi_comm_pack_f16, grid, LSI_THREADS, 0, stream, x, n, factor, out)
                                 : LAUNCH(lsi_comm_pack_bf16, grid, LSI_THREADS, 0, stream, x, n, factor, out));
}

extern "C" ls_status lsi_comm_unpack_launch(cudaStream_t stream, const void *x, int64_t n, float factor, ls_dtype wire,
                                            float *out)
{
    unsigned grid = lsi_cuda_grid(n, LSI_THREADS * LSI_GROUP);

    return lsi_cuda_launched("widening from the wire",
                             wire == LS_F16
                                 ? LAUNCH(lsi_comm_unpack_f16, grid, LSI_THREADS, 0, stream, x, n, factor, out)
                                 : LAUNCH(lsi_comm_unpack_bf16, grid, LSI_THREADS, 0, stream, x, n, factor, out));
}
