#ifndef LSI_KERNELS_CUDA_GEMM_H
#define LSI_KERNELS_CUDA_GEMM_H

#include <lockstep/backend.h>

ls_status lsi_cuda_gemm(ls_stream *stream, const void *arguments);
ls_status lsi_cuda_gemm_gelu(ls_stream *stream, const void *arguments);
ls_status lsi_cuda_gemm_gelu_bwd(ls_stream *stream, const void *arguments);

#endif
