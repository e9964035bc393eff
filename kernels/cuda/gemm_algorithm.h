/* Which algorithms of cuBLASLt a product may be made by, and the one taken by default. */
#ifndef LSI_KERNELS_CUDA_GEMM_ALGORITHM_H
#define LSI_KERNELS_CUDA_GEMM_ALGORITHM_H

#include "kernels/cuda/gemm_plan.h"

/* lsi_gemm_choices.propose, for a plan whose descriptors are there. */
LS_MUST_USE ls_status lsi_gemm_algorithm_propose(ls_device *device, cublasLtHandle_t handle, const lsi_gemm_plan *plan,
                                                 lsi_gemm_algorithm *out, int *n_out);

#endif
