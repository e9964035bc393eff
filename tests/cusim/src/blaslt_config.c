/* An algorithm as an object that programs make, ask and set: what a plan file stores and restores. */
#include <stddef.h>
#include <string.h>

#include "blaslt.h"

enum { TYPE_A = 2 };

static bool pack_types(uint8_t out[6], int compute, int scale, int a, int b, int c, int d)
{
    const uint8_t types[6] = {(uint8_t)compute, (uint8_t)scale, (uint8_t)a, (uint8_t)b, (uint8_t)c, (uint8_t)d};

    memcpy(out, types, sizeof types);
    return cusim_lt_types_known(types);
}

cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t handle, cublasComputeType_t compute, cudaDataType_t scale,
                                        cudaDataType_t a, cudaDataType_t b, cudaDataType_t c, cudaDataType_t d,
                                        int room, int ids[], int *n_out)
{
    uint8_t types[6];

    CUSIM_LT_CALL(cublasLtMatmulAlgoGetIds, NULL);
    if (cusim_lt_gpu(handle) == NULL) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (room <= 0 || ids == NULL || n_out == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    *n_out = 0;
    if (!pack_types(types, (int)compute, (int)scale, (int)a, (int)b, (int)c, (int)d)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    *n_out = cusim_lt_family_ids(cusim_lt_factor_kind(types), room, ids);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t compute, cudaDataType_t scale,
                                      cudaDataType_t a, cudaDataType_t b, cudaDataType_t c, cudaDataType_t d, int id,
                                      cublasLtMatmulAlgo_t *out)
{
    cusim_lt_algo algo = {.magic = CUSIM_LT_ALGO_MAGIC, .id = id, .split_k = 1};

    CUSIM_LT_CALL(cublasLtMatmulAlgoInit, "id=%d", id);
    if (cusim_lt_gpu(handle) == NULL) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (out == NULL || cusim_lt_find_family(id) == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!pack_types(algo.types, (int)compute, (int)scale, (int)a, (int)b, (int)c, (int)d) ||
        !(cusim_lt_find_family(id)->factors & cusim_lt_factor_kind(algo.types))) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    memset(out, 0, sizeof *out);
    memcpy(out, &algo, sizeof algo);
    return CUBLAS_STATUS_SUCCESS;
}

#define FIELD(id, field)                                                                                               \
    {                                                                                                                  \
        id, offsetof(cusim_lt_algo, field), sizeof(((cusim_lt_algo *)0)->field)                                        \
    }
static const struct {
    cublasLtMatmulAlgoConfigAttributes_t id;
    size_t offset, size;
} configs[] = {
    FIELD(CUBLASLT_ALGO_CONFIG_ID, id),
    FIELD(CUBLASLT_ALGO_CONFIG_TILE_ID, tile),
    FIELD(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, split_k),
    FIELD(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, reduction),
    FIELD(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, swizzle),
    FIELD(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, custom_option),
    FIELD(CUBLASLT_ALGO_CONFIG_STAGES_ID, stages),
    FIELD(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, inner_shape),
    FIELD(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, cluster_shape),
};

static int find_config(cublasLtMatmulAlgoConfigAttributes_t attr)
{
    for (int i = 0; i < (int)(sizeof configs / sizeof configs[0]); i++) {
        if (configs[i].id == attr) {
            return i;
        }
    }
    return -1;
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attr, const void *value,
                                                    size_t size)
{
    int i = find_config(attr);

    CUSIM_LT_CALL(cublasLtMatmulAlgoConfigSetAttribute, "attribute=%d", (int)attr);
    if (algo == NULL || value == NULL || i < 0 || attr == CUBLASLT_ALGO_CONFIG_ID || size != configs[i].size) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy((char *)algo + configs[i].offset, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attr, void *value, size_t size,
                                                    size_t *written)
{
    int i = find_config(attr);

    CUSIM_LT_CALL(cublasLtMatmulAlgoConfigGetAttribute, "attribute=%d", (int)attr);
    if (algo == NULL || i < 0 || (size == 0 ? written == NULL : value == NULL || size != configs[i].size)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (size != 0) {
        memcpy(value, (const char *)algo + configs[i].offset, size);
    }
    if (written != NULL) {
        *written = configs[i].size;
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- capabilities ---------------------------------------------------------------------------- */
static cublasStatus_t give(const void *from, size_t bytes, void *out, size_t size, size_t *written)
{
    if (size == 0 ? written == NULL : out == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    size_t n = size == 0 || size > bytes ? bytes : size;
    if (size != 0) {
        memcpy(out, from, n);
    }
    if (written != NULL) {
        *written = n;
    }
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t give_list(const uint32_t list[CUSIM_LT_MAX_CHOICES], void *out, size_t size, size_t *written)
{
    size_t n = 0;

    while (n < CUSIM_LT_MAX_CHOICES && list[n] != 0) {
        n++;
    }
    return give(list, n * sizeof list[0], out, size, written);
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                 cublasLtMatmulAlgoCapAttributes_t attr, void *out, size_t size,
                                                 size_t *written)
{
    const cusim_lt_algo *a = (const void *)algo;
    const cusim_lt_family *f = a != NULL && a->magic == CUSIM_LT_ALGO_MAGIC ? cusim_lt_find_family(a->id) : NULL;
    uint32_t value;

    CUSIM_LT_CALL(cublasLtMatmulAlgoCapGetAttribute, "attribute=%d", (int)attr);
    if (f == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    switch (attr) {
    case CUBLASLT_ALGO_CAP_TILE_IDS:
        return give_list(f->tiles, out, size, written);
    case CUBLASLT_ALGO_CAP_STAGES_IDS:
        return give_list(f->stages, out, size, written);
    case CUBLASLT_ALGO_CAP_SPLITK_SUPPORT:
        value = f->split_k;
        break;
    case CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK:
        value = f->split_k ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_NONE;
        break;
    case CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT:
    case CUBLASLT_ALGO_CAP_STRIDED_BATCH_SUPPORT:
    case CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT:
        value = 1;
        break;
    case CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX:
        value = 0;
        break;
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES:
        value = f->alignment != 0 ? f->alignment : a->types[TYPE_A] == CUDA_R_32F ? 4 : 2;
        break;
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    return give(&value, sizeof value, out, size, written);
}
