/* A matrix product with its epilogue, in plain loops: f32 sums in an order that the algorithm fixes, rounded once to
 * the type of the output. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "blaslt.h"
#include "number.h"

size_t cusim_blas_type_size(int type)
{
    return type == CUDA_R_32F ? 4 : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : 0;
}

static float load(const void *data, int64_t index, int type)
{
    if (type == CUDA_R_32F) {
        return ((const float *)data)[index];
    }
    uint16_t half = ((const uint16_t *)data)[index];
    return type == CUDA_R_16F ? cusim_from_f16(half) : cusim_from_bf16(half);
}

static void store(void *data, int64_t index, int type, float value)
{
    if (type == CUDA_R_32F) {
        ((float *)data)[index] = value;
    } else {
        ((uint16_t *)data)[index] = type == CUDA_R_16F ? cusim_to_f16(value) : cusim_to_bf16(value);
    }
}

static float round_to(float value, int type)
{
    return type == CUDA_R_32F   ? value
           : type == CUDA_R_16F ? cusim_from_f16(cusim_to_f16(value))
                                : cusim_from_bf16(cusim_to_bf16(value));
}

static char *batch_data(const cusim_matrix *m, int z)
{
    return m->data + z * m->batch_stride * (int64_t)cusim_blas_type_size(m->type);
}

/* Tells the race detector of a matrix; one range where its lines touch, else one a line. */
static void announce(const cusim_matrix *m, int z, bool write)
{
    size_t size = cusim_blas_type_size(m->type);
    bool columns = m->row_step == 1;
    int64_t lines = columns ? m->cols : m->rows, length = columns ? m->rows : m->cols;
    int64_t step = columns ? m->col_step : m->row_step;

    if (step == length) {
        length *= lines;
        lines = 1;
    }
    for (int64_t i = 0; i < lines; i++) {
        if (write) {
            CUSIM_WRITES(batch_data(m, z) + (size_t)(i * step) * size, (size_t)length * size);
        } else {
            CUSIM_READS(batch_data(m, z) + (size_t)(i * step) * size, (size_t)length * size);
        }
    }
}

/* Columns one after another, in f32. */
static float *unpack(const cusim_product *p, const cusim_matrix *m, int z)
{
    float *out = malloc(sizeof *out * (size_t)(m->rows * m->cols));
    const char *data = batch_data(m, z);

    if (out == NULL) {
        cusim_die("no memory for a matrix product");
    }
    announce(m, z, false);
    for (int64_t j = 0; j < m->cols; j++) {
        for (int64_t i = 0; i < m->rows; i++) {
            float value = load(data, i * m->row_step + j * m->col_step, m->type);

            out[i + j * m->rows] = p->round_tf32 ? cusim_round_tf32(value) : value;
        }
    }
    return out;
}

/* sum[i] = elements [from, to) of the dot products of A's rows with one column of B. */
static void dot_range(const cusim_product *p, const float *a, const float *column, int64_t from, int64_t to, float *run,
                      float *sum)
{
    memset(sum, 0, sizeof *sum * (size_t)p->m);
    for (int64_t start = from; start < to; start += p->chunk) {
        int64_t end = start + p->chunk < to ? start + p->chunk : to;

        memset(run, 0, sizeof *run * (size_t)p->m);
        for (int64_t k = start; k < end; k++) {
            const float *x = a + k * p->m;
            float y = column[k];

            for (int64_t i = 0; i < p->m; i++) {
                run[i] += x[i] * y;
            }
        }
        for (int64_t i = 0; i < p->m; i++) {
            sum[i] += run[i];
        }
    }
}

/* All of k: the ranges of split-K one after another, through the type in which they are kept. */
static void dot_column(const cusim_product *p, const float *a, const float *column, float *run, float *part, float *sum)
{
    bool in_output_type =
        p->reduction == CUBLASLT_REDUCTION_SCHEME_INPLACE || p->reduction == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    int64_t each = (p->k + p->split_k - 1) / p->split_k;

    dot_range(p, a, column, 0, each < p->k ? each : p->k, run, sum);
    for (int s = 1; s < p->split_k; s++) {
        int64_t from = s * each < p->k ? s * each : p->k, to = from + each < p->k ? from + each : p->k;

        dot_range(p, a, column, from, to, run, part);
        for (int64_t i = 0; i < p->m; i++) {
            sum[i] = in_output_type ? round_to(round_to(sum[i], p->d.type) + round_to(part[i], p->d.type), p->d.type)
                                    : sum[i] + part[i];
        }
    }
}

static float gelu(float x)
{
    return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

static float gelu_slope(float x)
{
    float t = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));

    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
}

/* What bias gradients need: DGELU_BGRAD sums D over its columns, BGRADA and BGRADB sum a factor over k. */
static void bias_of_factor(const cusim_product *p, const float *factor, int64_t n, int64_t step, int64_t step_k,
                           char *bias)
{
    CUSIM_WRITES(bias, (size_t)n * cusim_blas_type_size(p->bias_type));
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;

        for (int64_t k = 0; k < p->k; k++) {
            sum += factor[i * step + k * step_k];
        }
        store(bias, i, p->bias_type, sum);
    }
}

static void finish_column(const cusim_product *p, int z, int64_t j, const float *sum, const char *bias, float *bias_sum)
{
    const char *c = p->beta != 0 ? batch_data(&p->c, z) : NULL;
    char *d = batch_data(&p->d, z), *aux = p->aux.data != NULL ? batch_data(&p->aux, z) : NULL;
    bool backward = (p->epilogue & CUBLASLT_EPILOGUE_DGELU) == CUBLASLT_EPILOGUE_DGELU;

    for (int64_t i = 0; i < p->m; i++) {
        float value = p->alpha * sum[i];

        if (c != NULL) {
            value += p->beta * load(c, i * p->c.row_step + j * p->c.col_step, p->c.type);
        }
        if (p->epilogue & CUBLASLT_EPILOGUE_BIAS) {
            value += load(bias, i, p->bias_type);
        }
        if (backward) {
            value *= gelu_slope(load(aux, i + j * p->aux.col_step, p->aux.type));
        } else if (aux != NULL) {
            store(aux, i + j * p->aux.col_step, p->aux.type, value);
        }
        if (p->epilogue & CUBLASLT_EPILOGUE_GELU) {
            value = gelu(value);
        } else if (p->epilogue & CUBLASLT_EPILOGUE_RELU) {
            value = value > 0 ? value : 0;
        }
        store(d, i * p->d.row_step + j * p->d.col_step, p->d.type, value);
        bias_sum[i] += value;
    }
}

static void compute_one(const cusim_product *p, int z, float *scratch)
{
    float *a = unpack(p, &p->a, z), *b = unpack(p, &p->b, z);
    float *run = scratch, *part = run + p->m, *sum = part + p->m, *bias_sum = sum + p->m;
    size_t bias_size = cusim_blas_type_size(p->bias_type);
    char *bias = p->bias != NULL ? (char *)p->bias + z * p->bias_stride * (int64_t)bias_size : NULL;

    if (p->beta != 0) {
        announce(&p->c, z, false);
    }
    announce(&p->d, z, true);
    if (p->aux.data != NULL) {
        announce(&p->aux, z, (p->epilogue & CUBLASLT_EPILOGUE_DGELU) != CUBLASLT_EPILOGUE_DGELU);
    }
    if (p->epilogue & CUBLASLT_EPILOGUE_BIAS) {
        CUSIM_READS(bias, (size_t)p->m * bias_size);
    }
    if (p->epilogue == CUBLASLT_EPILOGUE_BGRADA) {
        bias_of_factor(p, a, p->m, 1, p->m, bias);
    } else if (p->epilogue == CUBLASLT_EPILOGUE_BGRADB) {
        bias_of_factor(p, b, p->n, p->k, 1, bias);
    }
    memset(bias_sum, 0, sizeof *bias_sum * (size_t)p->m);
    for (int64_t j = 0; j < p->n; j++) {
        dot_column(p, a, b + j * p->k, run, part, sum);
        finish_column(p, z, j, sum, bias, bias_sum);
    }
    if (p->epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD) {
        CUSIM_WRITES(bias, (size_t)p->m * bias_size);
        for (int64_t i = 0; i < p->m; i++) {
            store(bias, i, p->bias_type, bias_sum[i]);
        }
    }
    free(a);
    free(b);
}

void cusim_product_compute(const cusim_product *product)
{
    float *scratch = malloc(sizeof *scratch * 4 * (size_t)product->m);

    if (scratch == NULL) {
        cusim_die("no memory for a matrix product");
    }
    /* Two products that share a workspace at the same time spoil each other; so this is written, to be seen. */
    CUSIM_WRITES(product->workspace, product->workspace_bytes);
    if (product->workspace_bytes > 0) {
        memset(product->workspace, 0xff, product->workspace_bytes);
    }
    for (int z = 0; z < product->batch; z++) {
        compute_one(product, z, scratch);
    }
    free(scratch);
}
