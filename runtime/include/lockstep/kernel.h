/* What a .cu file includes first, the library's own and yours. Kernels are plain CUDA C under extern "C"; each is
 * launched here, inside an extern "C" launcher, so that .c files never see one. Under the simulator (CUSIM,
 * tests/cusim/) a host compiler takes the same files as C++, and these names come from its own header. Needs the
 * CUDA toolkit; empty for a compiler that is neither. */
#ifndef LS_KERNEL_H
#define LS_KERNEL_H

#ifdef CUSIM
#include <cusim_device.h>
#elif defined(__CUDACC__)
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <stdint.h>

/* Queues the kernel; a cudaError_t. shared: bytes of dynamic shared memory. */
#define LAUNCH(kernel, grid, block, shared, stream, ...)                                                               \
    (kernel<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__), cudaGetLastError())
/* Declares T *name, the block's dynamic shared memory. */
#define DYN_SHARED(T, name)                                                                                            \
    extern __shared__ __align__(128) unsigned char lsi_dynamic_shared[];                                               \
    T *name = reinterpret_cast<T *>(lsi_dynamic_shared)
#endif

#endif
