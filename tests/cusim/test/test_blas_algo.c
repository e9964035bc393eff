/* RUN: timeout=60 */
/* The simulated cuBLASLt: which algorithm gives which bits, what the heuristic proposes, what is refused. */
#include "blas_case.h"

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

/* What the heuristic proposes depends on the GPU: the second device is a V100. */
static void test_older_gpu(void **state)
{
    const form half = {.m = 32, .n = 24, .k = 64, .in = CUDA_R_16F, .out = CUDA_R_16F},
               brain = {.m = 32, .n = 24, .k = 64, .in = CUDA_R_16BF, .out = CUDA_R_16BF};
    cublasLtMatmulHeuristicResult_t found[32];
    cublasLtHandle_t first = handle;

    (void)state;
    call c = prepare(&half);
    assert_true(heuristic(&c, WORKSPACE, CUBLASLT_REDUCTION_SCHEME_MASK, 256, found, 32) > 0);
    assert_int_equal(get_plan(&found[0].algo).id, 21);
    const cublasLtMatmulAlgo_t newer = found[0].algo;
    OK(cudaSetDevice(1));
    OK(cublasLtCreate(&handle));
    assert_true(heuristic(&c, WORKSPACE, CUBLASLT_REDUCTION_SCHEME_MASK, 256, found, 32) > 0);
    assert_int_equal(get_plan(&found[0].algo).id, 6);
    assert_int_equal(cublasLtMatmulAlgoCheck(handle, c.desc, c.a, c.b, c.c, c.c, &newer, &found[1]),
                     CUBLAS_STATUS_ARCH_MISMATCH);
    /* The stream and the matrices are the first device's. */
    assert_int_equal(run(&c, &half, &found[0].algo), CUBLAS_STATUS_EXECUTION_FAILED);
    OK(cudaSetDevice(0));
    finish(&c);
    c = prepare(&brain);
    assert_int_equal(heuristic(&c, WORKSPACE, CUBLASLT_REDUCTION_SCHEME_MASK, 256, found, 32), 0);
    OK(cublasLtDestroy(handle));
    handle = first;
    assert_true(heuristic(&c, WORKSPACE, CUBLASLT_REDUCTION_SCHEME_MASK, 256, found, 32) > 0);
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

int main(void)
{
    /* Before the first call: an A100, a V100. */
    setenv("CUSIM_MACHINE", CUSIM_MACHINES "/mixed.txt", 1);
    setenv("CUDA_VISIBLE_DEVICES", "GPU-aaaaaaab,GPU-bbbbbbbb", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_follow_the_algorithm),
        cmocka_unit_test(test_heuristic_obeys),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_older_gpu),
        cmocka_unit_test(test_versions_and_texts),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
