#include "kernels/cuda/gemm_plan.h"

#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/extension.h"
#include "base/memory.h"

/* What the heuristic may propose: enough that one of them has an order of sums we allow. */
enum { MAX_PROPOSALS = 16 };
/* Partial sums over k are added in the type of the computation and in order, or not made at all. The other schemes add
 * in the order in which blocks finish, or round in between. */
static const uint32_t allowed_reductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

typedef struct plans {
    lsi_cuda_extension head;
    cublasLtHandle_t handle;
    lsi_gemm_plan *first;
} plans;

static const char plans_key;

ls_status lsi_gemm_plan_fail(const lsi_gemm_shape *shape, cublasStatus_t status, const char *call, const char *what)
{
    return LS_FAIL(status == CUBLAS_STATUS_ALLOC_FAILED ? LS_ERR_MEMORY : LS_ERR_DEVICE,
                   "%s %s product of m = %lld, n = %lld, k = %lld: %.*s: %s", what,
                   ls_dtype_name((ls_dtype)shape->factors), (long long)shape->m, (long long)shape->n,
                   (long long)shape->k, (int)strcspn(call, "("), call, cublasLtGetStatusString(status));
}

/* ---- descriptors --------------------------------------------------------------------------------------------- */

static cudaDataType_t cuda_type(int32_t dtype)
{
    return dtype == LS_F16 ? CUDA_R_16F : dtype == LS_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

#define TRY(expression, what)                                                                                          \
    do {                                                                                                               \
        cublasStatus_t try_status = (expression);                                                                      \
        if (try_status != CUBLAS_STATUS_SUCCESS) {                                                                     \
            return lsi_gemm_plan_fail(shape, try_status, #expression, what);                                           \
        }                                                                                                              \
    } while (0)

static ls_status describe_operation(lsi_gemm_plan *plan, bool tf32)
{
    const lsi_gemm_shape *shape = &plan->shape;
    cublasComputeType_t compute = tf32 && shape->factors == LS_F32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasOperation_t first = shape->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = shape->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = shape->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    cudaDataType_t bias_type = cuda_type(shape->c);

    TRY(cublasLtMatmulDescCreate(&plan->operation, compute, CUDA_R_32F), "cannot describe a");
    TRY(cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first),
        "cannot describe a");
    TRY(cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second),
        "cannot describe a");
    TRY(cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
        "cannot describe a");
    if (shape->bias) {
        TRY(cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type,
                                           sizeof bias_type),
            "cannot describe a");
    }
    return LS_OK;
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

/* ---- the algorithm ------------------------------------------------------------------------------------------- */

static ls_status set_preference(const lsi_gemm_shape *shape, cublasLtMatmulPreference_t preference)
{
    size_t workspace = LSI_CUDA_WORKSPACE_BYTES;
    uint32_t alignment = shape->aligned ? 256 : (uint32_t)ls_dtype_bytes((ls_dtype)shape->factors);
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};

    TRY(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                             sizeof workspace),
        "cannot state preferences for a");
    TRY(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                             &allowed_reductions, sizeof allowed_reductions),
        "cannot state preferences for a");
    for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
        TRY(cublasLtMatmulPreferenceSetAttribute(preference, alignments[i], &alignment, sizeof alignment),
            "cannot state preferences for a");
    }
    return LS_OK;
}

/* The mask above is a preference; this is the rule. An algorithm that cannot be asked is no reason to take the next one:
 * other ranks would take this one. */
static ls_status check_deterministic(const lsi_gemm_shape *shape, const cublasLtMatmulAlgo_t *algorithm, bool *out)
{
    uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_MASK;
    size_t written;

    TRY(cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme,
                                             &written),
        "cannot read the order of sums of a");
    *out = (scheme & ~allowed_reductions) == 0;
    return LS_OK;
}

static ls_status choose(cublasLtHandle_t handle, lsi_gemm_plan *plan, cublasLtMatmulPreference_t preference)
{
    const lsi_gemm_shape *shape = &plan->shape;
    cublasLtMatmulHeuristicResult_t proposals[MAX_PROPOSALS];
    int n = 0;

    LS_TRY(set_preference(shape, preference));
    TRY(cublasLtMatmulAlgoGetHeuristic(handle, plan->operation, plan->first, plan->second, plan->result, plan->result,
                                       preference, MAX_PROPOSALS, proposals, &n),
        "cuBLASLt has no algorithm for a");
    for (int i = 0; i < n; i++) {
        bool deterministic = false;

        if (proposals[i].state != CUBLAS_STATUS_SUCCESS || proposals[i].workspaceSize > LSI_CUDA_WORKSPACE_BYTES) {
            continue;
        }
        LS_TRY(check_deterministic(shape, &proposals[i].algo, &deterministic));
        if (deterministic) {
            plan->algorithm = proposals[i].algo;
            plan->workspace_bytes = proposals[i].workspaceSize;
            return LS_OK;
        }
    }
    return lsi_gemm_plan_fail(shape, CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic",
                              "cuBLASLt has no deterministic algorithm for a");
}

static ls_status choose_algorithm(cublasLtHandle_t handle, lsi_gemm_plan *plan)
{
    const lsi_gemm_shape *shape = &plan->shape;
    cublasLtMatmulPreference_t preference;

    TRY(cublasLtMatmulPreferenceCreate(&preference), "cannot state preferences for a");
    ls_status status = choose(handle, plan, preference);
    (void)cublasLtMatmulPreferenceDestroy(preference);
    return status;
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

static ls_status make_plan(plans *p, const lsi_gemm_shape *shape, bool tf32, lsi_gemm_plan **out)
{
    lsi_gemm_plan *plan;
    ls_status status;

    LS_TRY(lsi_memory_alloc(sizeof *plan, "plan of a matrix product", (void **)&plan));
    plan->shape = *shape;
    LS_TRY_GOTO(status, failed, describe_operation(plan, tf32));
    LS_TRY_GOTO(status, failed, describe_matrices(plan));
    LS_TRY_GOTO(status, failed, choose_algorithm(p->handle, plan));
    plan->next = p->first;
    p->first = plan;
    *out = plan;
    return LS_OK;

failed:
    destroy_plan(plan);
    return status;
}

ls_status lsi_gemm_plan_get(ls_device *device, const lsi_gemm_shape *shape, cublasLtHandle_t *handle,
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
    return make_plan(p, shape, lsi_cuda_uses_tf32(device), out);
}
