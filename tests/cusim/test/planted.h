/* Kernels with planted bugs, their right versions, and two plain ones for the stream tests. */
#ifndef CUSIM_TEST_PLANTED_H
#define CUSIM_TEST_PLANTED_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PLANTED_THREADS = 128 };

/* Name and number of blocks. */
#define PLANTED_LIST(X)                                                                                                \
    X(static_overrun, 1)                                                                                               \
    X(dynamic_overrun, 1)                                                                                              \
    X(global_overrun, 3)                                                                                               \
    X(misaligned, 1)                                                                                                   \
    X(last_barrier, 1)                                                                                                 \
    X(second_barrier, 1)                                                                                               \
    X(no_syncwarp, 1)                                                                                                  \
    X(uninitialised, 1)                                                                                                \
    X(no_fence, 8)                                                                                                     \
    X(no_atomic, 8)                                                                                                    \
    X(divergent_barrier, 1)                                                                                            \
    X(early_return, 1)                                                                                                 \
    X(different_operations, 1)                                                                                         \
    X(mask_without_caller, 1)                                                                                          \
    X(mask_of_ended, 1)                                                                                                \
    X(deadlock, 1)                                                                                                     \
    X(copy_not_awaited, 1)

typedef enum planted {
#define PLANTED(name, blocks) PLANTED_##name,
    PLANTED_LIST(PLANTED)
#undef PLANTED
        PLANTED_COUNT
} planted;

/* data: n floats on the device; counter: one word there, 0. good: the same done right. */
cudaError_t planted_launch(planted which, int good, int blocks, float *data, int n, unsigned *counter,
                           cudaStream_t stream);

cudaError_t plain_fill(float *data, float value, int n, cudaStream_t stream);
cudaError_t plain_axpy(float *y, const float *x, float a, int n, cudaStream_t stream);
/* Writes (id, clock) to slot 2 * counter of a ring of 2 * size words, as the project's stamps do. */
cudaError_t plain_stamp(uint64_t *ring, uint64_t *counter, int size, uint64_t id, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
