/* How cuBLASLt makes a matrix product of one shape: descriptors and the algorithm, decided once and kept with the
 * device. The choice is a function of shape, types, and the GPU: the same on all ranks, in every run. */
#ifndef LSI_KERNELS_CUDA_GEMM_PLAN_H
#define LSI_KERNELS_CUDA_GEMM_PLAN_H

#include <cublasLt.h>

#include "kernels/ops.h"

/* What decides about a plan; compared byte by byte, so padding is zeroed. */
typedef struct lsi_gemm_shape {
    int64_t m, n, k;
    int32_t trans_a, trans_b;
    int32_t factors, c; /* ls_dtype */
    int32_t bias;       /* added by the epilogue */
    int32_t aligned;    /* all matrices to 256 bytes; else to one element */
} lsi_gemm_shape;

typedef struct lsi_gemm_plan {
    lsi_gemm_shape shape;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t first, second, result; /* in cuBLASLt's order: columns first */
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
    struct lsi_gemm_plan *next;
} lsi_gemm_plan;

/* The library's handle is made at the first call, the plan at the first one for its shape. */
LS_MUST_USE ls_status lsi_gemm_plan_get(ls_device *device, const lsi_gemm_shape *shape, cublasLtHandle_t *handle,
                                        lsi_gemm_plan **out);
/* "<what> f32 product of m = .., n = .., k = ..: <call>: CUBLAS_STATUS_...". Of `call`, which may be the source text of
 * one, only the name is told. */
ls_status lsi_gemm_plan_fail(const lsi_gemm_shape *shape, cublasStatus_t status, const char *call, const char *what);

#endif
