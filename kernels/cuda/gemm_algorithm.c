#include "kernels/cuda/gemm_algorithm.h"

#include <stdio.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/extension.h"

#define TRY(expression, what) LSI_GEMM_TRY(shape, expression, what)

_Static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(((lsi_gemm_algorithm *)0)->library),
               "the library's description of an algorithm has another size");

/* Partial sums over k are added in the type of the computation and in order, or not made at all. The other schemes add
 * in the order in which blocks finish, or round in between. */
static const uint32_t allowed_reductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

/* One place is left for what the library does not propose. */
enum { FROM_LIBRARY = LSI_GEMM_MAX_PROPOSALS - 1 };

/* ---- what the library proposes ---------------------------------------------------------------------------------- */

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
 * an undisturbed run takes this one. */
static ls_status check_order(const lsi_gemm_shape *shape, const cublasLtMatmulAlgo_t *algorithm, bool *out)
{
    uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_MASK;
    size_t written;

    LSI_GEMM_TRY(shape,
                 cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                                      sizeof scheme, &written),
                 "cannot read the order of sums of a");
    *out = (scheme & ~allowed_reductions) == 0;
    return LS_OK;
}

static void take(const cublasLtMatmulAlgo_t *algorithm, lsi_gemm_algorithm *out)
{
    *out = (lsi_gemm_algorithm){0};
    memcpy(out->library, algorithm, sizeof out->library);
}

/* None is no failure here. */
static ls_status ask(cublasLtHandle_t handle, const lsi_gemm_plan *plan, cublasLtMatmulPreference_t preference,
                     lsi_gemm_algorithm *out, int *n_out)
{
    const lsi_gemm_shape *shape = &plan->shape;
    cublasLtMatmulHeuristicResult_t results[FROM_LIBRARY];
    int n = 0;

    *n_out = 0;
    LS_TRY(set_preference(shape, preference));
    cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, plan->operation, plan->first, plan->second, plan->result, plan->result,
                                       preference, FROM_LIBRARY, results, &n);
    if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED) {
        return lsi_gemm_plan_fail(shape, status, "cublasLtMatmulAlgoGetHeuristic", "cuBLASLt has no algorithm for a");
    }
    for (int i = 0; i < n; i++) {
        bool fixed = false;

        if (results[i].state == CUBLAS_STATUS_SUCCESS && results[i].workspaceSize <= LSI_CUDA_WORKSPACE_BYTES) {
            LS_TRY(check_order(shape, &results[i].algo, &fixed));
        }
        if (fixed) {
            take(&results[i].algo, &out[(*n_out)++]);
        }
    }
    return LS_OK;
}

static ls_status ask_library(cublasLtHandle_t handle, const lsi_gemm_plan *plan, lsi_gemm_algorithm *out, int *n_out)
{
    const lsi_gemm_shape *shape = &plan->shape;
    cublasLtMatmulPreference_t preference;

    TRY(cublasLtMatmulPreferenceCreate(&preference), "cannot state preferences for a");
    ls_status status = ask(handle, plan, preference, out, n_out);
    (void)cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

/* ---- epilogues -------------------------------------------------------------------------------------------------- */

/* Of an output of N elements of 2 bytes, apart from the product's own reading:
 *
 *     gelu         product writes x; kernel reads x, writes y                       6 N bytes
 *     in one       product writes x and y                                           4 N
 *     slope        product writes dy; kernel reads dy and x, writes dx              8 N
 *     in one       product reads x, writes dx                                       4 N
 *
 * The library's gelu is the tanh form, as ours (its manual does not say; XLA puts it in that form's place only, and
 * llm.c uses both for one model), so the two ways differ by roundings: in one, gelu sees the sum before it is rounded
 * to x. Fewer bytes are not yet less time: where the library's kernels with this epilogue are slower ones, the product
 * loses more than the passes cost. llm.c measured so, and fuses from sm_90 on; so does the default here, until it has
 * been measured by us. On older GPUs it is there for the tuner: a plan says which way is taken. */
enum { FUSE_FROM = 90 };

/* The row length of x must be a multiple of 8 elements, as the library says of CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD. */
static bool may_fuse(const lsi_gemm_shape *shape)
{
    return shape->n % 8 == 0 && shape->aligned;
}

ls_status lsi_gemm_algorithm_propose(ls_device *device, cublasLtHandle_t handle, const lsi_gemm_plan *plan,
                                     lsi_gemm_algorithm *out, int *n_out)
{
    const lsi_gemm_shape *shape = &plan->shape;
    const lsi_gemm_algorithm split = {.split = 1};
    int n = 0;

    *n_out = 0;
    if (shape->epilogue == LSI_GEMM_PLAIN) {
        LS_TRY(ask_library(handle, plan, out, n_out));
        return *n_out > 0 ? LS_OK
                          : lsi_gemm_plan_fail(shape, CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic",
                                               "cuBLASLt has no deterministic algorithm for a");
    }
    bool split_first = lsi_cuda_capability(device) < FUSE_FROM;
    if (split_first) {
        out[(*n_out)++] = split;
    }
    if (may_fuse(shape)) {
        LS_TRY(ask_library(handle, plan, out + *n_out, &n));
        *n_out += n;
    }
    if (!split_first) {
        out[(*n_out)++] = split;
    }
    return LS_OK;
}

/* ---- what code above the backends sees (kernels/gemm_choice.h) -----------------------------------------------------
 */

/* No stream stands around these calls, which would name the GPU. */
static ls_status of_gpu(ls_device *device, ls_status status)
{
    return status == LS_OK ? LS_OK : LS_FAIL(status, "GPU %d: %s", lsi_cuda_ordinal(device), ls_failure_message());
}

static ls_status find(ls_device *device, const lsi_gemm_shape *shape, cublasLtHandle_t *handle, lsi_gemm_plan **out)
{
    lsi_cuda_enter(device);
    return of_gpu(device, lsi_gemm_plan_find(device, shape, handle, out));
}

static ls_status propose(ls_device *device, const lsi_gemm_shape *shape, lsi_gemm_algorithm *out, int *n_out)
{
    cublasLtHandle_t handle;
    lsi_gemm_plan *plan;

    LS_TRY(find(device, shape, &handle, &plan));
    return of_gpu(device, lsi_gemm_algorithm_propose(device, handle, plan, out, n_out));
}

/* Whether it runs here, in the workspace of a stream: all of which it is given, as GPUs differ in what they need. */
static ls_status check(cublasLtHandle_t handle, const lsi_gemm_plan *plan, const cublasLtMatmulAlgo_t *algorithm,
                       bool *out)
{
    cublasLtMatmulHeuristicResult_t result;

    memset(&result, 0, sizeof result);
    cublasStatus_t status = cublasLtMatmulAlgoCheck(handle, plan->operation, plan->first, plan->second, plan->result,
                                                    plan->result, algorithm, &result);
    *out = status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= LSI_CUDA_WORKSPACE_BYTES;
    if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED &&
        status != CUBLAS_STATUS_INVALID_VALUE && status != CUBLAS_STATUS_ARCH_MISMATCH) {
        return lsi_gemm_plan_fail(&plan->shape, status, "cublasLtMatmulAlgoCheck", "cannot check an algorithm for a");
    }
    return LS_OK;
}

static ls_status accepts(ls_device *device, const lsi_gemm_shape *shape, const lsi_gemm_algorithm *algorithm, bool *out)
{
    cublasLtHandle_t handle;
    lsi_gemm_plan *plan;

    *out = algorithm->split && shape->epilogue != LSI_GEMM_PLAIN;
    if (algorithm->split) {
        return LS_OK;
    }
    LS_TRY(find(device, shape, &handle, &plan));
    LS_TRY(of_gpu(device, check_order(shape, lsi_gemm_plan_algorithm(algorithm), out)));
    return *out ? of_gpu(device, check(handle, plan, lsi_gemm_plan_algorithm(algorithm), out)) : LS_OK;
}

static ls_status install(ls_device *device, const lsi_gemm_shape *shape, const lsi_gemm_algorithm *algorithm)
{
    cublasLtHandle_t handle;
    lsi_gemm_plan *plan;

    LS_TRY(find(device, shape, &handle, &plan));
    plan->algorithm = *algorithm;
    plan->chosen = true;
    return LS_OK;
}

/* ---- as numbers ---------------------------------------------------------------------------------------------------
 */

static ls_status settings(const lsi_gemm_algorithm *algorithm, lsi_gemm_settings *out)
{
    const cublasLtMatmulAlgo_t *from = lsi_gemm_plan_algorithm(algorithm);
    size_t written;

    *out = (lsi_gemm_settings){.value[LSI_GEMM_SETTING_split] = algorithm->split != 0};
    if (algorithm->split) {
        return LS_OK;
    }
#define LS_GEMM_SETTING(name, attribute, type)                                                                         \
    {                                                                                                                  \
        type value = 0;                                                                                                \
        cublasStatus_t status = cublasLtMatmulAlgoConfigGetAttribute(from, attribute, &value, sizeof value, &written); \
        LS_REQUIRE(status == CUBLAS_STATUS_SUCCESS, LS_ERR_DEVICE,                                                     \
                   "cuBLASLt does not tell an algorithm's " #name ": %s", cublasLtGetStatusString(status));            \
        out->value[LSI_GEMM_SETTING_##name] = (int64_t)value;                                                          \
    }
#include "kernels/gemm_settings.def"
#undef LS_GEMM_SETTING
    return LS_OK;
}

static cudaDataType_t cuda_type(int32_t dtype)
{
    return dtype == LS_F16 ? CUDA_R_16F : dtype == LS_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* The number is the attribute's: a type of fewer bits does not hold all numbers. The id was given to the library when
 * the algorithm was made, and cannot be set. */
#define LS_GEMM_SETTING(name, attribute, type)                                                                         \
    static ls_status set_##name(cublasLtMatmulAlgo_t *algorithm, int64_t number)                                       \
    {                                                                                                                  \
        type value = (type)number;                                                                                     \
        LS_REQUIRE((int64_t)value == number, LS_ERR_DEVICE, "an algorithm's " #name " cannot be %lld",                 \
                   (long long)number);                                                                                 \
        if ((attribute) == CUBLASLT_ALGO_CONFIG_ID) {                                                                  \
            return LS_OK;                                                                                              \
        }                                                                                                              \
        cublasStatus_t status = cublasLtMatmulAlgoConfigSetAttribute(algorithm, attribute, &value, sizeof value);      \
        LS_REQUIRE(status == CUBLAS_STATUS_SUCCESS, LS_ERR_DEVICE, "cuBLASLt refuses " #name " = %lld: %s",            \
                   (long long)number, cublasLtGetStatusString(status));                                                \
        return LS_OK;                                                                                                  \
    }
#include "kernels/gemm_settings.def"
#undef LS_GEMM_SETTING

static ls_status make(ls_device *device, const lsi_gemm_shape *shape, const lsi_gemm_settings *from,
                      lsi_gemm_algorithm *out)
{
    cublasComputeType_t compute = shape->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cudaDataType_t factors = cuda_type(shape->factors), c = cuda_type(shape->c);
    cublasLtMatmulAlgo_t algorithm;
    cublasLtHandle_t handle;
    lsi_gemm_plan *plan;
    bool fixed = false, runs = false;

    if (from->value[LSI_GEMM_SETTING_split]) {
        LS_REQUIRE(shape->epilogue != LSI_GEMM_PLAIN, LS_ERR_DEVICE, "there is nothing to split off a product of %s",
                   lsi_gemm_shape_text(shape).text);
        *out = (lsi_gemm_algorithm){.split = 1};
        return LS_OK;
    }
    LS_TRY(find(device, shape, &handle, &plan));
    memset(&algorithm, 0, sizeof algorithm);
    TRY(cublasLtMatmulAlgoInit(handle, compute, CUDA_R_32F, factors, factors, c, c,
                               (int)from->value[LSI_GEMM_SETTING_id], &algorithm),
        "cuBLASLt does not know the algorithm for a");
#define LS_GEMM_SETTING(name, attribute, type) LS_TRY(set_##name(&algorithm, from->value[LSI_GEMM_SETTING_##name]));
#include "kernels/gemm_settings.def"
#undef LS_GEMM_SETTING
    LS_TRY(of_gpu(device, check_order(shape, &algorithm, &fixed)));
    LS_REQUIRE(fixed, LS_ERR_DEVICE,
               "the algorithm for the product of %s adds in no fixed order (reduction %lld)",
               lsi_gemm_shape_text(shape).text, (long long)from->value[LSI_GEMM_SETTING_reduction]);
    LS_TRY(of_gpu(device, check(handle, plan, &algorithm, &runs)));
    LS_REQUIRE(runs, LS_ERR_DEVICE, "the algorithm for the product of %s does not run on %s",
               lsi_gemm_shape_text(shape).text, device->backend->describe(device));
    take(&algorithm, out);
    return LS_OK;
}

extern const lsi_gemm_choices lsi_cuda_gemm_choices;
const lsi_gemm_choices lsi_cuda_gemm_choices = {
    .model = lsi_cuda_model,
    .library = lsi_cuda_library,
    .propose = propose,
    .accepts = accepts,
    .install = install,
    .settings = settings,
    .make = make,
};
