/* Included ahead of attention's kernels: every barrier and every wait for copies asks whether it is the one to leave
 * out (planted_attention.c). Headers that define what is redefined here come first. */
#include "kernels/cuda/launch.h"
#include "kernels/cuda/mma.h"

extern "C" int planted_here(const char *file, int line);

#undef __syncthreads
#undef __syncwarp
#define __syncthreads()                                                                                        \
    (planted_here(__FILE__, __LINE__) ? (void)0 : (void)cusim_barrier(CUSIM_PLAIN, 0, __FILE__, __LINE__))
#define __syncwarp()                                                                                           \
    (planted_here(__FILE__, __LINE__)                                                                          \
         ? (void)0                                                                                             \
         : cusim_warp(CUSIM_WARP_SYNC, FULL_MASK, nullptr, nullptr, 0, 0, 32, __FILE__, __LINE__))

#include "kernels/cuda/attention_mma.h"
#include "kernels/cuda/attention_plain.h"

/* Stands behind "Math::"; the same name inside is not replaced again. */
#define wait() HERE && planted_here(__FILE__, __LINE__) ? (void)0 : Math::wait()
