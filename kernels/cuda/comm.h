/* Kernels of communication between GPUs: the ordered sum of partial sums, and 16-bit numbers on the wire. Not ops: what
 * they work on follows from who the ranks are, not from the graph. */
#ifndef LSI_KERNELS_CUDA_COMM_H
#define LSI_KERNELS_CUDA_COMM_H

#include <cuda_runtime_api.h>

#include <lockstep/status.h>
#include <lockstep/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A sum of many operands goes to the kernel by value, in what a launch takes as arguments (4 KiB). */
enum { LSI_COMM_SUM_OPERANDS = 256, LSI_COMM_SUM_STEPS = 2 * LSI_COMM_SUM_OPERANDS };

/* out[i] = the operands' elements i, added in postfix order: step k adds the two on top where bit k is set, else it
 * takes the next operand. `out` may be one of the operands; otherwise they do not overlap. */
typedef struct lsi_comm_sum {
    const float *operand[LSI_COMM_SUM_OPERANDS];
    uint32_t adds[LSI_COMM_SUM_STEPS / 32];
    int n_steps;
    int64_t n;
    float *out;
} lsi_comm_sum;

/* `depth`: operands and sums that wait at once, at most. */
LS_MUST_USE ls_status lsi_comm_sum_launch(cudaStream_t stream, const lsi_comm_sum *sum, int depth);

/* out = x * factor in a 16-bit type, and back. */
LS_MUST_USE ls_status lsi_comm_pack_launch(cudaStream_t stream, const float *x, int64_t n, float factor, ls_dtype wire,
                                           void *out);
LS_MUST_USE ls_status lsi_comm_unpack_launch(cudaStream_t stream, const void *x, int64_t n, float factor, ls_dtype wire,
                                             float *out);

#ifdef __cplusplus
}
#endif
#endif
