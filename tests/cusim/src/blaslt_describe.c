/* Descriptors of cuBLASLt. Each kind has one table: attribute, where its value is kept, how large it is. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "blaslt.h"

typedef struct attribute {
    int id;
    size_t offset, size;
} attribute;

#define FIELD(type, id, field)                                                                                         \
    {                                                                                                                  \
        id, offsetof(type, field), sizeof(((type *)0)->field)                                                          \
    }
static const attribute desc_attributes[] = {
    FIELD(cusim_lt_desc, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, compute_type),
    FIELD(cusim_lt_desc, CUBLASLT_MATMUL_DESC_SCALE_TYPE, scale_type),
    FIELD(cusim_lt_desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, pointer_mode),
    FIELD(cusim_lt_desc, CUBLASLT_MATMUL_DESC_TRANSA, trans_a),
    FIELD(cusim_lt_desc, CUBLASLT_MATMUL_DESC_TRANSB, trans_b),
    FIELD(cusim_lt_desc, CUBLASLT_MATMUL_DESC_TRANSC, trans_c),
    FIELD(cusim_lt_desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue),
    FIELD(cusim_lt_desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias),
    FIELD(cusim_lt_desc, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, bias_stride),
    FIELD(cusim_lt_desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias_type),
    FIELD(cusim_lt_desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux),
    FIELD(cusim_lt_desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux_ld),
    FIELD(cusim_lt_desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, aux_stride),
    FIELD(cusim_lt_desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, aux_type),
};
static const attribute layout_attributes[] = {
    FIELD(cusim_lt_layout, CUBLASLT_MATRIX_LAYOUT_TYPE, type),
    FIELD(cusim_lt_layout, CUBLASLT_MATRIX_LAYOUT_ORDER, order),
    FIELD(cusim_lt_layout, CUBLASLT_MATRIX_LAYOUT_ROWS, rows),
    FIELD(cusim_lt_layout, CUBLASLT_MATRIX_LAYOUT_COLS, cols),
    FIELD(cusim_lt_layout, CUBLASLT_MATRIX_LAYOUT_LD, ld),
    FIELD(cusim_lt_layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch_count),
    FIELD(cusim_lt_layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch_stride),
};
static const attribute preference_attributes[] = {
    FIELD(cusim_lt_preference, CUBLASLT_MATMUL_PREF_SEARCH_MODE, search_mode),
    FIELD(cusim_lt_preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, max_workspace),
    FIELD(cusim_lt_preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction_mask),
    FIELD(cusim_lt_preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_a),
    FIELD(cusim_lt_preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_b),
    FIELD(cusim_lt_preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_c),
    FIELD(cusim_lt_preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_d),
    FIELD(cusim_lt_preference, CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, max_waves),
    FIELD(cusim_lt_preference, CUBLASLT_MATMUL_PREF_IMPL_MASK, impl_mask),
};
#define TABLE(table) table, sizeof table / sizeof table[0]

/* An attribute not in the table is one the simulator does not act upon: refused, never ignored. */
static const attribute *find(const attribute *table, size_t n, int id)
{
    for (size_t i = 0; i < n; i++) {
        if (table[i].id == id) {
            return &table[i];
        }
    }
    cusim_note("cublasLt: attribute %d of a descriptor is not simulated", id);
    return NULL;
}

static cublasStatus_t set_attribute(const attribute *table, size_t n, void *record, int id, const void *value,
                                    size_t size)
{
    const attribute *a = find(table, n, id);

    if (a == NULL || record == NULL || value == NULL || size != a->size) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy((char *)record + a->offset, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t get_attribute(const attribute *table, size_t n, const void *record, int id, void *value,
                                    size_t size, size_t *written)
{
    const attribute *a = find(table, n, id);

    if (a == NULL || record == NULL || (size == 0 ? written == NULL : value == NULL || size != a->size)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (size != 0) {
        memcpy(value, (const char *)record + a->offset, size);
    }
    if (written != NULL) {
        *written = a->size;
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- the operation --------------------------------------------------------------------------- */
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute_type,
                                        cudaDataType_t scale_type)
{
    CUSIM_LT_CALL(cublasLtMatmulDescCreate, "compute=%d", (int)compute_type);
    cusim_lt_desc *desc = out != NULL ? calloc(1, sizeof *desc) : NULL;
    if (desc == NULL) {
        return out == NULL ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_ALLOC_FAILED;
    }
    desc->compute_type = (int32_t)compute_type;
    desc->scale_type = (int32_t)scale_type;
    desc->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    desc->bias_type = desc->aux_type = -1;
    *out = (cublasLtMatmulDesc_t)(void *)desc;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    CUSIM_LT_CALL(cublasLtMatmulDescDestroy, NULL);
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attr,
                                              const void *value, size_t size)
{
    CUSIM_LT_CALL(cublasLtMatmulDescSetAttribute, "attribute=%d", (int)attr);
    return set_attribute(TABLE(desc_attributes), desc, (int)attr, value, size);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attr,
                                              void *value, size_t size, size_t *written)
{
    CUSIM_LT_CALL(cublasLtMatmulDescGetAttribute, "attribute=%d", (int)attr);
    return get_attribute(TABLE(desc_attributes), desc, (int)attr, value, size, written);
}

/* ---- a matrix -------------------------------------------------------------------------------- */
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows, uint64_t cols,
                                          int64_t ld)
{
    CUSIM_LT_CALL(cublasLtMatrixLayoutCreate, "type=%d rows=%llu cols=%llu ld=%lld", (int)type,
                  (unsigned long long)rows, (unsigned long long)cols, (long long)ld);
    cusim_lt_layout *layout = out != NULL ? calloc(1, sizeof *layout) : NULL;
    if (layout == NULL) {
        return out == NULL ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_ALLOC_FAILED;
    }
    *layout = (cusim_lt_layout){(uint32_t)type, CUBLASLT_ORDER_COL, 1, rows, cols, ld, 0};
    *out = (cublasLtMatrixLayout_t)(void *)layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    CUSIM_LT_CALL(cublasLtMatrixLayoutDestroy, NULL);
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attr,
                                                const void *value, size_t size)
{
    CUSIM_LT_CALL(cublasLtMatrixLayoutSetAttribute, "attribute=%d", (int)attr);
    return set_attribute(TABLE(layout_attributes), layout, (int)attr, value, size);
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attr,
                                                void *value, size_t size, size_t *written)
{
    CUSIM_LT_CALL(cublasLtMatrixLayoutGetAttribute, "attribute=%d", (int)attr);
    return get_attribute(TABLE(layout_attributes), layout, (int)attr, value, size, written);
}

/* ---- what the heuristic may choose ----------------------------------------------------------- */
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    CUSIM_LT_CALL(cublasLtMatmulPreferenceCreate, NULL);
    cusim_lt_preference *preference = out != NULL ? calloc(1, sizeof *preference) : NULL;
    if (preference == NULL) {
        return out == NULL ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_ALLOC_FAILED;
    }
    preference->reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK;
    preference->impl_mask = ~0ull;
    preference->alignment_a = preference->alignment_b = preference->alignment_c = preference->alignment_d = 256;
    *out = (cublasLtMatmulPreference_t)(void *)preference;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    CUSIM_LT_CALL(cublasLtMatmulPreferenceDestroy, NULL);
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attr, const void *value,
                                                    size_t size)
{
    CUSIM_LT_CALL(cublasLtMatmulPreferenceSetAttribute, "attribute=%d", (int)attr);
    return set_attribute(TABLE(preference_attributes), preference, (int)attr, value, size);
}

cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attr, void *value, size_t size,
                                                    size_t *written)
{
    CUSIM_LT_CALL(cublasLtMatmulPreferenceGetAttribute, "attribute=%d", (int)attr);
    return get_attribute(TABLE(preference_attributes), preference, (int)attr, value, size, written);
}
