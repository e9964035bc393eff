#ifndef LSI_KERNELS_CUDA_GEMM_H
#define LSI_KERNELS_CUDA_GEMM_H

#include <lockstep/backend.h>

ls_status lsi_cuda_gemm(ls_stream *stream, const void *arguments);

#endif
