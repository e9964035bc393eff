/* The library's handle, the questions that need descriptors and an algorithm together, and the product on a stream. */
#include <stdlib.h>
#include <string.h>

#include "blaslt.h"
#include "machine.h"

enum { HANDLE_MAGIC = 0x17c0b1a5 };

struct cublasLtContext {
    int magic, device;
};

const struct cusim_gpu *cusim_lt_gpu(cublasLtHandle_t handle)
{
    return handle != NULL && handle->magic == HANDLE_MAGIC ? cusim_device_gpu(handle->device) : NULL;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    CUSIM_LT_CALL(cublasLtCreate, NULL);
    if (out == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (cusim_device_gpu(cusim_current_device()) == NULL) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    struct cublasLtContext *handle = malloc(sizeof *handle);
    if (handle == NULL) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    *handle = (struct cublasLtContext){HANDLE_MAGIC, cusim_current_device()};
    *out = handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    CUSIM_LT_CALL(cublasLtDestroy, NULL);
    if (cusim_lt_gpu(handle) == NULL) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    handle->magic = 0;
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    cusim_call(CUSIM_FN_cublasLtGetVersion, CUSIM_NO_STREAM, NULL);
    return CUBLAS_VERSION;
}

size_t cublasLtGetCudartVersion(void)
{
    cusim_call(CUSIM_FN_cublasLtGetCudartVersion, CUSIM_NO_STREAM, NULL);
    return CUDART_VERSION;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    cusim_call(CUSIM_FN_cublasLtGetStatusString, CUSIM_NO_STREAM, NULL);
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_ARCH_MISMATCH:
        return "the requested feature is not supported by the device";
    case CUBLAS_STATUS_MAPPING_ERROR:
        return "an access to GPU memory space failed";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "the GPU program failed to execute";
    case CUBLAS_STATUS_INTERNAL_ERROR:
        return "an internal operation failed";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "the functionality requested is not supported";
    case CUBLAS_STATUS_LICENSE_ERROR:
        return "the functionality requested requires a license";
    default:
        return "unknown status";
    }
}

/* ---- which algorithm ------------------------------------------------------------------------- */
static cublasStatus_t make_problem(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                   cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                   cusim_lt_problem *out)
{
    return cusim_lt_problem_make(cusim_lt_gpu(handle), (const void *)desc, (const void *)a, (const void *)b,
                                 (const void *)c, (const void *)d, out);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int room,
                                              cublasLtMatmulHeuristicResult_t out[], int *n_out)
{
    const cusim_lt_preference *wanted = (const void *)preference;
    cusim_lt_problem problem;

    CUSIM_LT_CALL(cublasLtMatmulAlgoGetHeuristic, "room=%d", room);
    if (cusim_lt_gpu(handle) == NULL) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (wanted == NULL || room <= 0 || out == NULL || n_out == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    *n_out = 0;
    if (wanted->search_mode != CUBLASLT_SEARCH_BEST_FIT) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    cublasStatus_t status = make_problem(handle, desc, a, b, c, d, &problem);
    if (status == CUBLAS_STATUS_SUCCESS) {
        *n_out = cusim_lt_choose(&problem, wanted, out, room);
        status = *n_out > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return status;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *out)
{
    cusim_lt_problem problem;
    float waves = 0;

    CUSIM_LT_CALL(cublasLtMatmulAlgoCheck, NULL);
    if (cusim_lt_gpu(handle) == NULL) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (out == NULL || algo == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    cublasStatus_t status = make_problem(handle, desc, a, b, c, d, &problem);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cusim_lt_apply((const void *)algo, &problem, &waves);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        out->workspaceSize = problem.product.workspace_bytes;
        out->wavesCount = waves;
    }
    out->state = status;
    return status;
}

/* ---- the product ----------------------------------------------------------------------------- */
static int poll_product(void *argument, bool first)
{
    (void)first;
    cusim_product_compute(argument);
    return CUSIM_DONE;
}

static bool range_held(const char *what, const void *data, size_t bytes, int device)
{
    if (data == NULL || !cusim_is_device_range(data, bytes, device)) {
        cusim_note("cublasLtMatmul: %s is not %zu bytes of memory of device %d", what, bytes, device);
        return false;
    }
    return true;
}

static bool matrix_held(const char *what, const cusim_matrix *m, int batch, int device)
{
    int64_t last = (m->rows - 1) * m->row_step + (m->cols - 1) * m->col_step + (batch - 1) * m->batch_stride;

    return range_held(what, m->data, (size_t)(last + 1) * cusim_blas_type_size(m->type), device);
}

static bool memory_held(const cusim_product *p, int device)
{
    bool bias = (p->epilogue & (CUBLASLT_EPILOGUE_BIAS | 16)) || p->epilogue >= CUBLASLT_EPILOGUE_BGRADA;
    int64_t length = p->epilogue == CUBLASLT_EPILOGUE_BGRADB ? p->n : p->m;

    return matrix_held("A", &p->a, p->batch, device) && matrix_held("B", &p->b, p->batch, device) &&
           (p->beta == 0 || matrix_held("C", &p->c, p->batch, device)) && matrix_held("D", &p->d, p->batch, device) &&
           (!(p->epilogue & 128) || matrix_held("the auxiliary buffer", &p->aux, p->batch, device)) &&
           (!bias || range_held("the bias", p->bias,
                                (size_t)(length + (p->batch - 1) * p->bias_stride) * cusim_blas_type_size(p->bias_type),
                                device)) &&
           (p->workspace_bytes == 0 || range_held("the workspace", p->workspace, p->workspace_bytes, device));
}

static void lower_alignment(uint32_t *alignment, const void *pointer)
{
    uintptr_t bits = (uintptr_t)pointer | *alignment;

    *alignment = (uint32_t)(bits & (~bits + 1));
}

/* The algorithm given, else what the heuristic finds for these pointers and this workspace. */
static cublasStatus_t apply_algorithm(const cublasLtMatmulAlgo_t *algo, size_t workspace_bytes,
                                      cusim_lt_problem *problem)
{
    const cusim_lt_preference preference = {.reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK,
                                            .max_workspace = workspace_bytes,
                                            .alignment_a = 256,
                                            .alignment_b = 256,
                                            .alignment_c = 256,
                                            .alignment_d = 256};
    cublasLtMatmulHeuristicResult_t best;

    if (algo == NULL) {
        if (cusim_lt_choose(problem, &preference, &best, 1) == 0) {
            return CUBLAS_STATUS_NOT_SUPPORTED;
        }
        algo = &best.algo;
    }
    cublasStatus_t status = cusim_lt_apply((const void *)algo, problem, NULL);
    return status == CUBLAS_STATUS_SUCCESS && problem->product.workspace_bytes > workspace_bytes
               ? CUBLAS_STATUS_INVALID_VALUE
               : status;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    const cusim_lt_desc *operation = (const void *)desc;
    cusim_lt_problem problem;
    cusim_product *p = &problem.product;

    if (cusim_lt_gpu(handle) == NULL) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    cublasStatus_t status = make_problem(handle, desc, a_layout, b_layout, c_layout, d_layout, &problem);
    int code = status == CUBLAS_STATUS_SUCCESS
                   ? cusim_call(CUSIM_FN_cublasLtMatmul, stream, "m=%lld n=%lld k=%lld batch=%d type=%d epilogue=%u",
                                (long long)p->m, (long long)p->n, (long long)p->k, p->batch, p->a.type, p->epilogue)
                   : cusim_call(CUSIM_FN_cublasLtMatmul, stream, NULL);
    if (code != 0) {
        return (cublasStatus_t)code;
    }
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    if (alpha == NULL || beta == NULL || (uintptr_t)workspace % 16 != 0) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    p->alpha = *(const float *)alpha;
    p->beta = *(const float *)beta;
    p->a.data = (char *)(uintptr_t)a;
    p->b.data = (char *)(uintptr_t)b;
    p->c.data = (char *)(uintptr_t)c;
    p->d.data = d;
    p->aux.data = operation->epilogue & 128 ? operation->aux : NULL;
    p->bias = operation->bias;
    lower_alignment(&problem.alignment[0], a);
    lower_alignment(&problem.alignment[1], b);
    lower_alignment(&problem.alignment[2], c);
    lower_alignment(&problem.alignment[3], d);
    status = apply_algorithm(algo, workspace_bytes, &problem);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    p->workspace = workspace;
    if (p->c.data == p->d.data && (p->c.row_step != p->d.row_step || p->c.col_step != p->d.col_step)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (cusim_stream_device(stream) != handle->device) {
        cusim_note("cublasLtMatmul: the stream is of device %d, the handle of device %d", cusim_stream_device(stream),
                   handle->device);
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    if (!memory_held(p, handle->device)) {
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k * p->batch;
    const cusim_work work = {.name = "cublasLtMatmul",
                             .poll = poll_product,
                             .argument = p,
                             .argument_bytes = sizeof *p,
                             .seconds = 5e-6 + flops / 2e14};
    return cusim_enqueue(stream, &work) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
