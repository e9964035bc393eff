/* RUN: timeout=60 */
/* The simulated cuBLASLt: products of every form against a plain double reference, which algorithm gives which bits,
 * and what is refused. */
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

/* ---- numbers --------------------------------------------------------------------------------------------------------
 */
static uint64_t random_state;

static float random_value(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(random_state >> 32) * 0x1p-31f;
}

static size_t type_size(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

static double get(const void *data, size_t i, cudaDataType type)
{
    return type == CUDA_R_32F   ? (double)((const float *)data)[i]
           : type == CUDA_R_16F ? (double)cusim_from_f16(((const uint16_t *)data)[i])
                                : (double)cusim_from_bf16(((const uint16_t *)data)[i]);
}

static void put(void *data, size_t i, cudaDataType type, float value)
{
    if (type == CUDA_R_32F) {
        ((float *)data)[i] = value;
    } else {
        ((uint16_t *)data)[i] = type == CUDA_R_16F ? cusim_to_f16(value) : cusim_to_bf16(value);
    }
}

/* ---- a buffer on the device with a copy on the host
 * ------------------------------------------------------------------ */
typedef struct buffer {
    void *device, *host;
    size_t n;
    cudaDataType type;
} buffer;

static buffer make(size_t n, cudaDataType type)
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

static void fetch(buffer *b)
{
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(b->host, b->device, b->n * type_size(b->type), cudaMemcpyDeviceToHost));
}

static void drop(buffer *b)
{
    OK(cudaFree(b->device));
    free(b->host);
}

/* ---- one product
 * ------------------------------------------------------------------------------------------------------ */
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

static cublasLtMatrixLayout_t layout(const form *f, cudaDataType type, int rows, int cols, int *ld, long *stride)
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

static void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void *value, size_t size)
{
    OK(cublasLtMatmulDescSetAttribute(desc, attribute, value, size));
}

static call prepare(const form *f)
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

static void finish(call *c)
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

static int heuristic(const call *c, uint64_t max_workspace, uint32_t reductions, uint32_t alignment,
                     cublasLtMatmulHeuristicResult_t *out, int room)
{
    cublasLtMatmulPreference_t preference;
    int n = 0;

    OK(cublasLtMatmulPreferenceCreate(&preference));
    OK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &max_workspace,
                                            sizeof max_workspace));
    OK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                                            sizeof reductions));
    OK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment,
                                            sizeof alignment));
    cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, c->desc, c->a, c->b, c->c, c->c, preference, room, out, &n);
    assert_int_equal(status, n > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED);
    OK(cublasLtMatmulPreferenceDestroy(preference));
    return n;
}

static cublasStatus_t run(const call *c, const form *f, const cublasLtMatmulAlgo_t *algo)
{
    float alpha = f->alpha != 0 ? f->alpha : 1;

    return cublasLtMatmul(handle, c->desc, &alpha, c->a_data.device, c->a, c->b_data.device, c->b, &f->beta,
                          c->c_data.device, c->c, c->d_data.device, c->c, algo, workspace, WORKSPACE, stream);
}

/* ---- the reference
 * ---------------------------------------------------------------------------------------------------- */
static double element(const buffer *data, int ld, long stride, bool row_order, bool transposed, int z, int i, int j)
{
    long row = transposed ? j : i, col = transposed ? i : j;

    return get(data->host, (size_t)(z * stride + (row_order ? row * ld + col : row + col * ld)), data->type);
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
}

static void expect_near(double got, double want, cudaDataType type, const char *what, int i, int j)
{
    double unit = type == CUDA_R_32F ? 1e-5 : type == CUDA_R_16F ? 1e-3 : 8e-3;

    if (!(fabs(got - want) <= unit * (1 + fabs(want)))) {
        fail_msg("%s(%d, %d) is %.9g, expected %.9g", what, i, j, got, want);
    }
}

static void check(const form *f)
{
    call c = prepare(f);
    buffer d_before = {NULL, malloc(c.d_data.n * 4), c.d_data.n, f->out},
           aux = {NULL, malloc(c.aux.n * 4), c.aux.n, f->out}, bias = {NULL, malloc(c.bias.n * 4), c.bias.n, f->out};
    double alpha = f->alpha != 0 ? f->alpha : 1;
    bool tf32 = f->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    long bias_stride = f->m > f->n ? f->m : f->n;

    memcpy(d_before.host, c.d_data.host, c.d_data.n * type_size(f->out));
    memcpy(aux.host, c.aux.host, c.aux.n * type_size(f->out));
    memcpy(bias.host, c.bias.host, c.bias.n * type_size(f->out));
    OK(run(&c, f, NULL));
    fetch(&c.d_data);
    fetch(&c.aux);
    fetch(&c.bias);
    for (int z = 0; z < (f->batch > 1 ? f->batch : 1); z++) {
        for (int i = 0; i < f->m; i++) {
            double bias_sum = 0;

            for (int j = 0; j < f->n; j++) {
                double value = 0;
                size_t at_aux = (size_t)(i + (long)c.aux_ld * (j + (long)z * f->n));

                for (int k = 0; k < f->k; k++) {
                    double x = element(&c.a_data, c.ld_a, c.stride_a, f->row_order, f->trans_a, z, i, k);
                    double y = element(&c.b_data, c.ld_b, c.stride_b, f->row_order, f->trans_b, z, k, j);

                    value += tf32 ? (double)cusim_round_tf32((float)x) * (double)cusim_round_tf32((float)y) : x * y;
                }
                value *= alpha;
                value += f->beta != 0
                             ? (double)f->beta * element(&c.c_data, c.ld_c, c.stride_c, f->row_order, false, z, i, j)
                             : 0;
                if (f->epilogue < 256 && f->epilogue & CUBLASLT_EPILOGUE_BIAS) {
                    value += get(bias.host, (size_t)(z * bias_stride + i), f->out);
                }
                if ((f->epilogue & 0xe0) == CUBLASLT_EPILOGUE_DGELU) {
                    double x = get(aux.host, at_aux, f->out);

                    value *= (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5;
                } else if (f->epilogue & 128) {
                    expect_near(get(c.aux.host, at_aux, f->out), value, f->out, "aux", i, j);
                }
                value = f->epilogue & CUBLASLT_EPILOGUE_GELU ? gelu(value) : value;
                value = f->epilogue & CUBLASLT_EPILOGUE_RELU ? fmax(value, 0) : value;
                expect_near(element(&c.d_data, c.ld_c, c.stride_c, f->row_order, false, z, i, j), value, f->out, "D", i,
                            j);
                bias_sum += value;
            }
            if (f->epilogue == CUBLASLT_EPILOGUE_BGRADA) {
                bias_sum = 0;
                for (int k = 0; k < f->k; k++) {
                    bias_sum += element(&c.a_data, c.ld_a, c.stride_a, f->row_order, f->trans_a, z, i, k);
                }
            }
            if (f->epilogue == CUBLASLT_EPILOGUE_BGRADA || f->epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD) {
                expect_near(get(c.bias.host, (size_t)(z * bias_stride + i), f->out), bias_sum, f->out, "bias", i, 0);
            }
        }
        for (int j = 0; j < f->n && f->epilogue == CUBLASLT_EPILOGUE_BGRADB; j++) {
            double sum = 0;

            for (int k = 0; k < f->k; k++) {
                sum += element(&c.b_data, c.ld_b, c.stride_b, f->row_order, f->trans_b, z, k, j);
            }
            expect_near(get(c.bias.host, (size_t)(z * bias_stride + j), f->out), sum, f->out, "bias", j, 0);
        }
    }
    /* Padding stays as it was: the last element before the second column. */
    assert_memory_equal((char *)c.d_data.host + (size_t)(c.ld_c - 1) * type_size(f->out),
                        (char *)d_before.host + (size_t)(c.ld_c - 1) * type_size(f->out), type_size(f->out));
    free(d_before.host);
    free(aux.host);
    free(bias.host);
    finish(&c);
}

/* ---- tests
 * -------------------------------------------------------------------------------------------------------------- */
static void test_forms(void **state)
{
    static const cudaDataType types[][2] = {
        {CUDA_R_32F, CUDA_R_32F},   {CUDA_R_16F, CUDA_R_16F},  {CUDA_R_16F, CUDA_R_32F},
        {CUDA_R_16BF, CUDA_R_16BF}, {CUDA_R_16BF, CUDA_R_32F},
    };

    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (int bits = 0; bits < 8; bits++) {
            check(&(form){.m = 24,
                          .n = 16,
                          .k = 40,
                          .in = types[t][0],
                          .out = types[t][1],
                          .trans_a = bits & 1,
                          .trans_b = bits & 2,
                          .row_order = bits & 4,
                          .alpha = 0.5f,
                          .beta = bits & 1 ? 0.25f : 0});
        }
    }
    check(
        &(form){.m = 8, .n = 16, .k = 24, .in = CUDA_R_16F, .out = CUDA_R_16F, .batch = 3, .trans_b = true, .beta = 1});
    check(&(form){
        .m = 8, .n = 16, .k = 24, .in = CUDA_R_32F, .out = CUDA_R_32F, .compute = CUBLAS_COMPUTE_32F_FAST_TF32});
    check(&(form){.m = 7, .n = 5, .k = 3, .in = CUDA_R_32F, .out = CUDA_R_32F, .trans_a = true});
    check(&(form){.m = 1, .n = 1, .k = 1, .in = CUDA_R_16BF, .out = CUDA_R_16BF});
    check(&(form){.m = 16, .n = 8, .k = 2048, .in = CUDA_R_16F, .out = CUDA_R_32F});
}

static void test_epilogues(void **state)
{
    static const cublasLtEpilogue_t epilogues[] = {
        CUBLASLT_EPILOGUE_RELU,   CUBLASLT_EPILOGUE_BIAS,        CUBLASLT_EPILOGUE_RELU_BIAS,
        CUBLASLT_EPILOGUE_GELU,   CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_GELU_AUX,
        CUBLASLT_EPILOGUE_DGELU,  CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB,
    };

    (void)state;
    for (size_t i = 0; i < sizeof epilogues / sizeof epilogues[0]; i++) {
        for (int bits = 0; bits < 4; bits++) {
            cudaDataType type = bits == 0 ? CUDA_R_32F : bits == 1 ? CUDA_R_16F : CUDA_R_16BF;

            check(&(form){.m = 24,
                          .n = 16,
                          .k = 8,
                          .in = type,
                          .out = type,
                          .epilogue = epilogues[i],
                          .trans_a = bits & 1,
                          .trans_b = bits & 2,
                          .batch = bits == 3 ? 2 : 1,
                          .beta = bits == 2 ? 1 : 0});
        }
    }
}

/* The chosen algorithm's numbers, as a plan file would keep them. */
typedef struct plan {
    int32_t id, split_k;
    uint32_t tile, stages, reduction, swizzle;
} plan;

static plan get_plan(const cublasLtMatmulAlgo_t *algo)
{
    plan p;
    size_t written;

    OK(cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_ID, &p.id, sizeof p.id, &written));
    OK(cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_TILE_ID, &p.tile, sizeof p.tile, &written));
    OK(cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_STAGES_ID, &p.stages, sizeof p.stages,
                                            &written));
    OK(cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &p.split_k, sizeof p.split_k,
                                            &written));
    OK(cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &p.reduction,
                                            sizeof p.reduction, &written));
    OK(cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, &p.swizzle, sizeof p.swizzle,
                                            &written));
    assert_int_equal(written, sizeof p.swizzle);
    return p;
}

static cublasLtMatmulAlgo_t from_plan(const plan *p, const form *f)
{
    cublasLtMatmulAlgo_t algo;

    OK(cublasLtMatmulAlgoInit(handle, f->compute != 0 ? f->compute : CUBLAS_COMPUTE_32F, CUDA_R_32F, f->in, f->in,
                              f->out, f->out, p->id, &algo));
    OK(cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_TILE_ID, &p->tile, sizeof p->tile));
    OK(cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_STAGES_ID, &p->stages, sizeof p->stages));
    OK(cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &p->split_k, sizeof p->split_k));
    OK(cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &p->reduction,
                                            sizeof p->reduction));
    OK(cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, &p->swizzle, sizeof p->swizzle));
    return algo;
}

/* Bits follow from id, stages and split of k: equal where those are, different where they are not. */
static void test_bits_follow_the_algorithm(void **state)
{
    const form f = {.m = 32, .n = 24, .k = 1024, .in = CUDA_R_16F, .out = CUDA_R_32F};
    cublasLtMatmulHeuristicResult_t found[32];
    static float results[32][(32 + 8) * 24];
    call c = prepare(&f);
    int n = heuristic(&c, WORKSPACE, CUBLASLT_REDUCTION_SCHEME_MASK, 256, found, 32), equal = 0, different = 0,
        splits = 0;
    size_t bytes = sizeof results[0];

    (void)state;
    assert_true(n >= 6);
    for (int i = 0; i < n; i++) {
        plan p = get_plan(&found[i].algo);
        cublasLtMatmulAlgo_t again = from_plan(&p, &f);
        cublasLtMatmulHeuristicResult_t checked;

        assert_memory_equal(&again, &found[i].algo, sizeof again);
        OK(cublasLtMatmulAlgoCheck(handle, c.desc, c.a, c.b, c.c, c.c, &again, &checked));
        assert_int_equal(checked.workspaceSize, found[i].workspaceSize);
        splits += p.split_k > 1;
        for (int twice = 0; twice < 2; twice++) {
            OK(run(&c, &f, &again));
            fetch(&c.d_data);
            assert_true(twice == 0 || memcmp(results[i], c.d_data.host, bytes) == 0);
            memcpy(results[i], c.d_data.host, bytes);
        }
        for (int k = 0; k < i; k++) {
            if (memcmp(results[i], results[k], bytes) == 0) {
                equal++;
            } else {
                different++;
            }
        }
    }
    assert_true(splits >= 2 && different > 4 * equal);
    finish(&c);
}

static void test_heuristic_obeys(void **state)
{
    const form f = {.m = 32, .n = 24, .k = 1024, .in = CUDA_R_16F, .out = CUDA_R_16F},
               odd = {.m = 5, .n = 3, .k = 7, .in = CUDA_R_16F, .out = CUDA_R_16F};
    cublasLtMatmulHeuristicResult_t found[32];
    call c = prepare(&f);
    int all = heuristic(&c, WORKSPACE, CUBLASLT_REDUCTION_SCHEME_MASK, 256, found, 32), n;

    (void)state;
    n = 0;
    for (int i = 0; i < all; i++) {
        n += get_plan(&found[i].algo).split_k > 1;
    }
    assert_true(n > 0 && n < all);
    n = heuristic(&c, WORKSPACE, CUBLASLT_REDUCTION_SCHEME_NONE, 256, found, 32);
    assert_true(n > 0 && n < all);
    for (int i = 0; i < n; i++) {
        assert_int_equal(get_plan(&found[i].algo).split_k, 1);
    }
    n = heuristic(&c, 0, CUBLASLT_REDUCTION_SCHEME_MASK, 256, found, 32);
    for (int i = 0; i < n; i++) {
        assert_int_equal(found[i].workspaceSize, 0);
    }
    assert_int_equal(heuristic(&c, WORKSPACE, CUBLASLT_REDUCTION_SCHEME_MASK, 256, found, 1), 1);
    n = heuristic(&c, WORKSPACE, CUBLASLT_REDUCTION_SCHEME_MASK, 2, found, 32);
    assert_true(n > 0 && n < all && get_plan(&found[0].algo).id == 24);
    finish(&c);
    /* Odd leading dimensions leave the one algorithm that takes any. */
    c = prepare(&odd);
    n = heuristic(&c, WORKSPACE, CUBLASLT_REDUCTION_SCHEME_MASK, 256, found, 32);
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        assert_int_equal(get_plan(&found[i].algo).id, 24);
    }
    finish(&c);
}

static void test_refused(void **state)
{
    const form f = {
        .m = 16, .n = 8, .k = 512, .in = CUDA_R_16F, .out = CUDA_R_16F, .epilogue = CUBLASLT_EPILOGUE_GELU_AUX};
    cublasLtMatmulHeuristicResult_t found[32], checked;
    call c = prepare(&f);
    plan p = {.id = 21,
              .split_k = 4,
              .tile = CUBLASLT_MATMUL_TILE_64x64,
              .stages = CUBLASLT_MATMUL_STAGES_32x3,
              .reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE};
    cublasLtMatmulAlgo_t algo = from_plan(&p, &f);
    float one = 1, zero = 0;
    int64_t ld = 12;
    int32_t mode = CUBLASLT_POINTER_MODE_DEVICE;
    uint32_t type = CUDA_R_32F;
    char *d = c.d_data.device;

    (void)state;
    OK(cublasLtMatmulAlgoCheck(handle, c.desc, c.a, c.b, c.c, c.c, &algo, &checked));
    assert_int_equal(checked.workspaceSize, 4 * 16 * 8 * 4);
#define MATMUL(D, WORK, BYTES)                                                                                         \
    cublasLtMatmul(handle, c.desc, &one, c.a_data.device, c.a, c.b_data.device, c.b, &zero, NULL, c.c, D, c.c, &algo,  \
                   WORK, BYTES, stream)
    OK(MATMUL(d, workspace, WORKSPACE));
    assert_int_equal(MATMUL(d, workspace, checked.workspaceSize - 1), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(MATMUL(d, (char *)workspace + 8, WORKSPACE - 8), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(MATMUL(d + 2, workspace, WORKSPACE), CUBLAS_STATUS_NOT_SUPPORTED); /* alignment */
    assert_int_equal(MATMUL(d + c.d_data.n, workspace, WORKSPACE), CUBLAS_STATUS_EXECUTION_FAILED);
    assert_int_equal(MATMUL(NULL, workspace, WORKSPACE), CUBLAS_STATUS_EXECUTION_FAILED);
    assert_int_equal(MATMUL(c.d_data.host, workspace, WORKSPACE), CUBLAS_STATUS_EXECUTION_FAILED);
    /* Configurations that no algorithm has. */
    p.split_k = 1;
    algo = from_plan(&p, &f);
    assert_int_equal(cublasLtMatmulAlgoCheck(handle, c.desc, c.a, c.b, c.c, c.c, &algo, &checked),
                     CUBLAS_STATUS_NOT_SUPPORTED);
    p = (plan){.id = 21, .split_k = 1, .tile = CUBLASLT_MATMUL_TILE_16x16, .stages = CUBLASLT_MATMUL_STAGES_32x3};
    algo = from_plan(&p, &f);
    assert_int_equal(cublasLtMatmulAlgoCheck(handle, c.desc, c.a, c.b, c.c, c.c, &algo, &checked),
                     CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(cublasLtMatmulAlgoInit(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F,
                                            CUDA_R_32F, 6, &algo),
                     CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(cublasLtMatmulAlgoInit(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F,
                                            CUDA_R_32F, 999, &algo),
                     CUBLAS_STATUS_INVALID_VALUE);
    /* Descriptors. */
    assert_int_equal(cublasLtMatmulDescSetAttribute(c.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, 4),
                     CUBLAS_STATUS_INVALID_VALUE);
    set(c.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld);
    assert_int_equal(run(&c, &f, NULL), CUBLAS_STATUS_INVALID_VALUE); /* below m, and no multiple of 8 */
    ld = 20;
    set(c.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld);
    assert_int_equal(run(&c, &f, NULL), CUBLAS_STATUS_INVALID_VALUE);
    ld = 24;
    set(c.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld);
    OK(run(&c, &f, NULL));
    set(c.desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode);
    assert_int_equal(heuristic(&c, WORKSPACE, CUBLASLT_REDUCTION_SCHEME_MASK, 256, found, 32), 0);
    mode = CUBLASLT_POINTER_MODE_HOST;
    set(c.desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode);
    OK(cublasLtMatrixLayoutSetAttribute(c.b, CUBLASLT_MATRIX_LAYOUT_TYPE, &type, sizeof type));
    assert_int_equal(run(&c, &f, NULL), CUBLAS_STATUS_NOT_SUPPORTED);
    OK(cudaStreamSynchronize(stream));
    finish(&c);
}

static void test_versions_and_texts(void **state)
{
    (void)state;
    assert_int_equal(cublasLtGetVersion(), CUBLAS_VERSION);
    assert_int_equal(cublasLtGetCudartVersion(), CUDART_VERSION);
    assert_string_equal(cublasLtGetStatusString(CUBLAS_STATUS_NOT_SUPPORTED),
                        "the functionality requested is not supported");
}

/* Every f16 and every bf16 value there and back; ties and limits. */
static void test_number_formats(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 0x10000; half++) {
        if ((half & 0x7fff) <= 0x7c00) {
            assert_int_equal(cusim_to_f16(cusim_from_f16((uint16_t)half)), half);
        }
        if ((half & 0x7fff) <= 0x7f80) {
            assert_int_equal(cusim_to_bf16(cusim_from_bf16((uint16_t)half)), half);
        }
    }
    assert_int_equal(cusim_to_f16(65519.0f), 0x7bff);
    assert_int_equal(cusim_to_f16(65520.0f), 0x7c00);
    assert_int_equal(cusim_to_f16(1 + 0x1p-11f), 0x3c00);
    assert_int_equal(cusim_to_f16(1 + 0x3p-11f), 0x3c02);
    assert_int_equal(cusim_to_f16(0x1p-25f), 0);
    assert_int_equal(cusim_to_f16(0x3p-25f), 2);
    assert_int_equal(cusim_to_bf16(1 + 0x1p-8f), 0x3f80);
    assert_int_equal(cusim_to_bf16(1 + 0x3p-8f), 0x3f82);
    assert_true(isnan(cusim_from_f16(cusim_to_f16(NAN))) && isnan(cusim_from_bf16(cusim_to_bf16(NAN))));
    assert_true(cusim_round_tf32(1 + 0x1p-11f) == 1 + 0x1p-10f && cusim_round_tf32(1 + 0x1p-12f) == 1);
}

static int open_device(void **state)
{
    (void)state;
    return cudaSetDevice(0) != 0 || cublasLtCreate(&handle) != 0 || cudaMalloc(&workspace, WORKSPACE) != 0 ||
           cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != 0;
}

static int close_device(void **state)
{
    (void)state;
    return cublasLtDestroy(handle) != 0 || cudaFree(workspace) != 0 || cudaStreamDestroy(stream) != 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_formats),     cmocka_unit_test(test_forms),
        cmocka_unit_test(test_epilogues),          cmocka_unit_test(test_bits_follow_the_algorithm),
        cmocka_unit_test(test_heuristic_obeys),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_versions_and_texts),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
