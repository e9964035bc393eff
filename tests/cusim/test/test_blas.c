/* RUN: timeout=60 */
/* The simulated cuBLASLt: products of every form against a plain double reference; the number formats. */
#include "blas_case.h"

/* ---- the reference --------------------------------------------------------------------------- */
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

/* ---- tests ----------------------------------------------------------------------------------- */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_formats),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_epilogues),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
