#include "kernels/cuda/gemm_plan.h"

#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/extension.h"
#include "base/memory.h"
#include "kernels/cuda/gemm_algorithm.h"

typedef struct plans {
    lsi_cuda_extension head;
    cublasLtHandle_t handle;
    lsi_gemm_plan *first;
} plans;

static const char plans_key;

ls_status lsi_gemm_plan_fail(const lsi_gemm_shape *shape, cublasStatus_t status, const char *call, const char *what)
{
    return LS_FAIL(status == CUBLAS_STATUS_ALLOC_FAILED ? LS_ERR_MEMORY : LS_ERR_DEVICE, "%s product of %s: %.*s: %s",
                   what, lsi_gemm_shape_text(shape).text, (int)strcspn(call, "("), call,
                   cublasLtGetStatusString(status));
}

/* ---- descriptors --------------------------------------------------------------------------------------------- */

static cudaDataType_t cuda_type(int32_t dtype)
{
    return dtype == LS_F16 ? CUDA_R_16F : dtype == LS_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

#define TRY(expression, what) LSI_GEMM_TRY(shape, expression, what)
#define SET(attribute, value)                                                                                          \
    TRY(cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_##attribute, &(value), sizeof(value)),    \
        "cannot describe a")

static cublasLtEpilogue_t epilogue_of(const lsi_gemm_shape *shape)
{
    switch (shape->epilogue) {
    case LSI_GEMM_GELU:
        return shape->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case LSI_GEMM_GELU_BWD:
        return CUBLASLT_EPILOGUE_DGELU;
    default:
        return shape->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    }
}

/* Addresses are given anew at every launch; those here only say to what they are aligned. */
static ls_status describe_epilogue(lsi_gemm_plan *plan)
{
    const lsi_gemm_shape *shape = &plan->shape;
    cublasLtEpilogue_t epilogue = epilogue_of(shape);
    cudaDataType_t type = cuda_type(shape->c);
    uintptr_t address = shape->aligned ? 256 : ls_dtype_bytes((ls_dtype)shape->c);
    int64_t row = shape->n;

    SET(EPILOGUE, epilogue);
    if (shape->bias) {
        SET(BIAS_DATA_TYPE, type);
        SET(BIAS_POINTER, address);
    }
    if (shape->epilogue != LSI_GEMM_PLAIN) {
        SET(EPILOGUE_AUX_DATA_TYPE, type);
        SET(EPILOGUE_AUX_LD, row);
        SET(EPILOGUE_AUX_POINTER, address);
    }
    return LS_OK;
}

static ls_status describe_operation(lsi_gemm_plan *plan)
{
    const lsi_gemm_shape *shape = &plan->shape;
    cublasComputeType_t compute = shape->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasOperation_t first = shape->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = shape->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;

    TRY(cublasLtMatmulDescCreate(&plan->operation, compute, CUDA_R_32F), "cannot describe a");
    SET(TRANSA, first);
    SET(TRANSB, second);
    return describe_epilogue(plan);
}

/* cuBLASLt counts along columns. A row-major matrix is the transpose of what it takes it for, so it is asked for the
 * transposed product: c' [n,m] = op(b)' op(a)'. */
static ls_status describe_matrices(lsi_gemm_plan *plan)
{
    const lsi_gemm_shape *shape = &plan->shape;
    uint64_t m = (uint64_t)shape->m, n = (uint64_t)shape->n, k = (uint64_t)shape->k;
    cudaDataType_t factors = cuda_type(shape->factors);
    uint64_t b_row = shape->trans_b ? k : n, b_rows = shape->trans_b ? n : k;
    uint64_t a_row = shape->trans_a ? m : k, a_rows = shape->trans_a ? k : m;

    TRY(cublasLtMatrixLayoutCreate(&plan->first, factors, b_row, b_rows, (int64_t)b_row), "cannot describe a");
    TRY(cublasLtMatrixLayoutCreate(&plan->second, factors, a_row, a_rows, (int64_t)a_row), "cannot describe a");
    TRY(cublasLtMatrixLayoutCreate(&plan->result, cuda_type(shape->c), n, m, (int64_t)n), "cannot describe a");
    return LS_OK;
}

/* ---- the plans of a device ----------------------------------------------------------------------------------- */

static void destroy_plan(lsi_gemm_plan *plan)
{
    if (plan->operation != NULL) {
        (void)cublasLtMatmulDescDestroy(plan->operation);
    }
    for (int i = 0; i < 3; i++) {
        cublasLtMatrixLayout_t layout = i == 0 ? plan->first : i == 1 ? plan->second : plan->result;

        if (layout != NULL) {
            (void)cublasLtMatrixLayoutDestroy(layout);
        }
    }
    lsi_memory_free(plan);
}

static void destroy_plans(lsi_cuda_extension *extension)
{
    plans *p = (plans *)extension;

    while (p->first != NULL) {
        lsi_gemm_plan *plan = p->first;

        p->first = plan->next;
        destroy_plan(plan);
    }
    (void)cublasLtDestroy(p->handle);
    lsi_memory_free(p);
}

static ls_status open_plans(ls_device *device, const lsi_gemm_shape *shape, plans **out)
{
    plans *p;

    LS_TRY(lsi_memory_alloc(sizeof *p, "plans of matrix products", (void **)&p));
    cublasStatus_t status = cublasLtCreate(&p->handle);
    if (status != CUBLAS_STATUS_SUCCESS) {
        lsi_memory_free(p);
        return lsi_gemm_plan_fail(shape, status, "cublasLtCreate", "cuBLASLt does not start, for a");
    }
    p->head.key = &plans_key;
    p->head.destroy = destroy_plans;
    lsi_cuda_extension_keep(device, &p->head);
    *out = p;
    return LS_OK;
}

static ls_status make_plan(plans *p, const lsi_gemm_shape *shape, lsi_gemm_plan **out)
{
    lsi_gemm_plan *plan;
    ls_status status;

    LS_TRY(lsi_memory_alloc(sizeof *plan, "plan of a matrix product", (void **)&plan));
    plan->shape = *shape;
    LS_TRY_GOTO(status, failed, describe_operation(plan));
    LS_TRY_GOTO(status, failed, describe_matrices(plan));
    plan->next = p->first;
    p->first = plan;
    *out = plan;
    return LS_OK;

failed:
    destroy_plan(plan);
    return status;
}

ls_status lsi_gemm_plan_find(ls_device *device, const lsi_gemm_shape *shape, cublasLtHandle_t *handle,
                             lsi_gemm_plan **out)
{
    plans *p = (plans *)lsi_cuda_extension_find(device, &plans_key);

    if (p == NULL) {
        LS_TRY(open_plans(device, shape, &p));
    }
    *handle = p->handle;
    for (lsi_gemm_plan *plan = p->first; plan != NULL; plan = plan->next) {
        if (memcmp(&plan->shape, shape, sizeof *shape) == 0) {
            *out = plan;
            return LS_OK;
        }
    }
    return make_plan(p, shape, out);
}

ls_status lsi_gemm_plan_get(ls_device *device, const lsi_gemm_shape *shape, cublasLtHandle_t *handle,
                            lsi_gemm_plan **out)
{
    lsi_gemm_algorithm proposals[LSI_GEMM_MAX_PROPOSALS];
    int n;

    LS_TRY(lsi_gemm_plan_find(device, shape, handle, out));
    if ((*out)->chosen) {
        return LS_OK;
    }
    LS_TRY(lsi_gemm_algorithm_propose(device, *handle, *out, proposals, &n));
    (*out)->algorithm = proposals[0];
    (*out)->chosen = true;
    return LS_OK;
}
