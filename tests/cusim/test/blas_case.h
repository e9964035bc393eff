/* A matrix product of a given form, with its matrices on the device and on the host; for tests of cuBLASLt. */
#ifndef CUSIM_TEST_BLAS_CASE_H
#define CUSIM_TEST_BLAS_CASE_H

#include "support/test.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"

enum { WORKSPACE = 1 << 20 };

static cublasLtHandle_t handle;
static cudaStream_t stream;
static void *workspace;

#define OK(call) assert_int_equal((call), 0)

/* ---- numbers --------------------------------------------------------------------------------- */
static uint64_t random_state;

static inline float random_value(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(random_state >> 32) * 0x1p-31f;
}

static inline size_t type_size(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

static inline double get(const void *data, size_t i, cudaDataType type)
{
    return type == CUDA_R_32F   ? (double)((const float *)data)[i]
           : type == CUDA_R_16F ? (double)cusim_from_f16(((const uint16_t *)data)[i])
                                : (double)cusim_from_bf16(((const uint16_t *)data)[i]);
}

static inline void put(void *data, size_t i, cudaDataType type, float value)
{
    if (type == CUDA_R_32F) {
        ((float *)data)[i] = value;
    } else {
        ((uint16_t *)data)[i] = type == CUDA_R_16F ? cusim_to_f16(value) : cusim_to_bf16(value);
    }
}

/* ---- a buffer on the device with a copy on the host ------------------------------------------ */
typedef struct buffer {
    void *device, *host;
    size_t n;
    cudaDataType type;
} buffer;

static inline buffer make(size_t n, cudaDataType type)
{
    buffer b = {NULL, calloc(n, type_size(type)), n, type};

    assert_non_null(b.host);
    OK(cudaMalloc(&b.device, n * type_size(type)));
    for (size_t i = 0; i < n; i++) {
        put(b.host, i, type, random_value());
    }
    OK(cudaMemcpy(b.device, b.host, n * type_size(type), cudaMemcpyHostToDevice));
    return b;
}

static inline void fetch(buffer *b)
{
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(b->host, b->device, b->n * type_size(b->type), cudaMemcpyDeviceToHost));
}

static inline void drop(buffer *b)
{
    OK(cudaFree(b->device));
    free(b->host);
}

/* ---- one product ----------------------------------------------------------------------------- */
typedef struct form {
    int m, n, k;
    cudaDataType in, out;
    bool trans_a, trans_b, row_order;
    int batch; /* 0: 1 */
    cublasComputeType_t compute;
    cublasLtEpilogue_t epilogue;
    float alpha, beta;
} form;

typedef struct call {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    buffer a_data, b_data, c_data, d_data, bias, aux;
    int aux_ld, ld_a, ld_b, ld_c;
    long stride_a, stride_b, stride_c;
} call;

static inline cublasLtMatrixLayout_t layout(const form *f, cudaDataType type, int rows, int cols, int *ld, long *stride)
{
    cublasLtMatrixLayout_t l;
    int32_t order = CUBLASLT_ORDER_ROW, batch = f->batch;

    /* Padded, so that a mistaken leading dimension shows. */
    *ld = (f->row_order ? cols : rows) + 8;
    *stride = (long)*ld * (f->row_order ? rows : cols) + 16;
    OK(cublasLtMatrixLayoutCreate(&l, type, (uint64_t)rows, (uint64_t)cols, *ld));
    if (f->row_order) {
        OK(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order));
    }
    if (f->batch > 1) {
        int64_t wide = *stride;

        OK(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
        OK(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &wide, sizeof wide));
    }
    return l;
}

static inline void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void *value,
                       size_t size)
{
    OK(cublasLtMatmulDescSetAttribute(desc, attribute, value, size));
}

static inline call prepare(const form *f)
{
    call c = {0};
    int32_t ta = f->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N, tb = f->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    int batch = f->batch > 1 ? f->batch : 1;
    uint32_t epilogue = f->epilogue != 0 ? (uint32_t)f->epilogue : CUBLASLT_EPILOGUE_DEFAULT;

    random_state = (uint64_t)(f->m * 31 + f->n * 7 + f->k);
    OK(cublasLtMatmulDescCreate(&c.desc, f->compute != 0 ? f->compute : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(c.desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta);
    set(c.desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb);
    set(c.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    c.a = layout(f, f->in, f->trans_a ? f->k : f->m, f->trans_a ? f->m : f->k, &c.ld_a, &c.stride_a);
    c.b = layout(f, f->in, f->trans_b ? f->n : f->k, f->trans_b ? f->k : f->n, &c.ld_b, &c.stride_b);
    c.c = layout(f, f->out, f->m, f->n, &c.ld_c, &c.stride_c);
    c.a_data = make((size_t)(c.stride_a * batch), f->in);
    c.b_data = make((size_t)(c.stride_b * batch), f->in);
    c.c_data = make((size_t)(c.stride_c * batch), f->out);
    c.d_data = make((size_t)(c.stride_c * batch), f->out);
    c.aux_ld = (f->m + 7) / 8 * 8 + 8;
    c.bias = make((size_t)((f->m > f->n ? f->m : f->n) * batch), f->out);
    c.aux = make((size_t)(c.aux_ld * f->n * batch), f->out);
    if (epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
        int64_t ld = c.aux_ld, aux_stride = ld * f->n, bias_stride = f->m > f->n ? f->m : f->n;

        set(c.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &c.bias.device, sizeof c.bias.device);
        set(c.desc, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &bias_stride, sizeof bias_stride);
        set(c.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &c.aux.device, sizeof c.aux.device);
        set(c.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld);
        set(c.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, &aux_stride, sizeof aux_stride);
    }
    return c;
}

static inline void finish(call *c)
{
    OK(cublasLtMatmulDescDestroy(c->desc));
    OK(cublasLtMatrixLayoutDestroy(c->a));
    OK(cublasLtMatrixLayoutDestroy(c->b));
    OK(cublasLtMatrixLayoutDestroy(c->c));
    drop(&c->a_data);
    drop(&c->b_data);
    drop(&c->c_data);
    drop(&c->d_data);
    drop(&c->bias);
    drop(&c->aux);
}

static inline cublasStatus_t run(const call *c, const form *f, const cublasLtMatmulAlgo_t *algo)
{
    float alpha = f->alpha != 0 ? f->alpha : 1;

    return cublasLtMatmul(handle, c->desc, &alpha, c->a_data.device, c->a, c->b_data.device, c->b, &f->beta,
                          c->c_data.device, c->c, c->d_data.device, c->c, algo, workspace, WORKSPACE, stream);
}

static inline int open_device(void **state)
{
    (void)state;
    return cudaSetDevice(0) != 0 || cublasLtCreate(&handle) != 0 || cudaMalloc(&workspace, WORKSPACE) != 0 ||
           cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != 0;
}

static inline int close_device(void **state)
{
    (void)state;
    return cublasLtDestroy(handle) != 0 || cudaFree(workspace) != 0 || cudaStreamDestroy(stream) != 0;
}

#endif
