/* How cuBLASLt makes a matrix product of one shape: descriptors and the algorithm, decided once and kept with the
 * device. The algorithm is what was installed (kernels/gemm_choice.h), else the first that is proposed: a function of
 * shape, types, and the GPU, the same in every run. */
#ifndef LSI_KERNELS_CUDA_GEMM_PLAN_H
#define LSI_KERNELS_CUDA_GEMM_PLAN_H

#include <cublasLt.h>

#include "kernels/gemm_choice.h"

typedef struct lsi_gemm_plan {
    lsi_gemm_shape shape;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t first, second, result; /* in cuBLASLt's order: columns first */
    bool chosen;                                  /* `algorithm` is there */
    lsi_gemm_algorithm algorithm;
    struct lsi_gemm_plan *next;
} lsi_gemm_plan;

/* The library's handle is made at the first call, the plan at the first one for its shape. `find` leaves the algorithm
 * open where none is installed. */
LS_MUST_USE ls_status lsi_gemm_plan_find(ls_device *device, const lsi_gemm_shape *shape, cublasLtHandle_t *handle,
                                         lsi_gemm_plan **out);
LS_MUST_USE ls_status lsi_gemm_plan_get(ls_device *device, const lsi_gemm_shape *shape, cublasLtHandle_t *handle,
                                        lsi_gemm_plan **out);
/* What the library takes for an algorithm. */
static inline const cublasLtMatmulAlgo_t *lsi_gemm_plan_algorithm(const lsi_gemm_algorithm *algorithm)
{
    return (const cublasLtMatmulAlgo_t *)(const void *)algorithm->library;
}
/* "WHAT product of m .., n .., k ..: CALL: the library's reason". Of `call`, which may be the source text of one, only the
 * name is told. */
ls_status lsi_gemm_plan_fail(const lsi_gemm_shape *shape, cublasStatus_t status, const char *call, const char *what);
#define LSI_GEMM_TRY(shape, expression, what)                                                                          \
    do {                                                                                                               \
        cublasStatus_t try_status = (expression);                                                                      \
        if (try_status != CUBLAS_STATUS_SUCCESS) {                                                                     \
            return lsi_gemm_plan_fail((shape), try_status, #expression, (what));                                       \
        }                                                                                                              \
    } while (0)

#endif
