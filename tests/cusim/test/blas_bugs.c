/* blas_bugs NAME good|bad: a matrix product among other work, with one planted bug or done right. Exit: 0 right data, 1
 * wrong data, 2 a call failed, 66 a report of ThreadSanitizer. */
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planted.h"

enum { M = 16, N = 16, K = 512, WORKSPACE = 1 << 16 };

static bool good;
static cudaStream_t compute, side;
static cublasLtHandle_t handle;
static cublasLtMatmulDesc_t desc;
static cublasLtMatrixLayout_t a_layout, b_layout, d_layout;
static cublasLtMatmulAlgo_t split;
static float *a, *b, *d, *e;
static void *workspace, *second_workspace;

static void ok(int code, const char *what)
{
    if (code != 0) {
        printf("%s: %d\n", what, code);
        exit(2);
    }
}
#define OK(call) ok((int)(call), #call)

/* D = A * B, k in four parts through the workspace. */
static void multiply(float *out, void *space, cudaStream_t stream)
{
    const float one = 1, zero = 0;

    OK(cublasLtMatmul(handle, desc, &one, a, a_layout, b, b_layout, &zero, out, d_layout, out, d_layout, &split, space,
                      WORKSPACE, stream));
}

static void record_and_wait(cudaStream_t from, cudaStream_t to)
{
    cudaEvent_t event;

    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    OK(cudaEventRecord(event, from));
    OK(cudaStreamWaitEvent(to, event, 0));
    OK(cudaEventDestroy(event));
}

static int compare(const float *host, float want)
{
    for (int i = 0; i < M * N; i++) {
        if (host[i] != want) {
            printf("element %d is %g, expected %g\n", i, (double)host[i], (double)want);
            return 1;
        }
    }
    return 0;
}

static int result_of(const float *device, float want)
{
    float host[M * N];

    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    return compare(host, want);
}

/* A factor is filled on another stream; bad: not awaited. */
static int factor_early(void)
{
    OK(plain_fill(a, 2, M * K, side));
    OK(plain_fill(b, 3, K * N, compute));
    if (good) {
        record_and_wait(side, compute);
    }
    multiply(d, workspace, compute);
    return result_of(d, 6.0f * K);
}

/* The next factor is written over the one in use; bad: before the product is through. */
static int factor_overwritten(void)
{
    OK(plain_fill(a, 2, M * K, compute));
    OK(plain_fill(b, 3, K * N, compute));
    record_and_wait(compute, side);
    multiply(d, workspace, compute);
    if (good) {
        record_and_wait(compute, side);
    }
    OK(plain_fill(a, 5, M * K, side));
    return result_of(d, 6.0f * K);
}

/* Two products at the same time; bad: with one workspace, which no data shows here. */
static int shared_workspace(void)
{
    OK(plain_fill(a, 2, M * K, compute));
    OK(plain_fill(b, 3, K * N, compute));
    record_and_wait(compute, side);
    multiply(d, workspace, compute);
    multiply(e, good ? second_workspace : workspace, side);
    return result_of(d, 6.0f * K) || result_of(e, 6.0f * K);
}

static const struct {
    const char *name;
    int (*run)(void);
} cases[] = {
    {"factor_early", factor_early}, {"factor_overwritten", factor_overwritten}, {"shared_workspace", shared_workspace}};

static void prepare(void)
{
    const int32_t parts = 4;
    const uint32_t tile = CUBLASLT_MATMUL_TILE_64x64, stages = CUBLASLT_MATMUL_STAGES_16x2,
                   reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

    OK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    OK(cudaMalloc((void **)&a, sizeof(float) * M * K));
    OK(cudaMalloc((void **)&b, sizeof(float) * K * N));
    OK(cudaMalloc((void **)&d, sizeof(float) * M * N));
    OK(cudaMalloc((void **)&e, sizeof(float) * M * N));
    OK(cudaMalloc(&workspace, WORKSPACE));
    OK(cudaMalloc(&second_workspace, WORKSPACE));
    OK(cudaMemset(a, 0, sizeof(float) * M * K));
    OK(cudaMemset(b, 0, sizeof(float) * K * N));
    OK(cudaDeviceSynchronize());
    OK(cublasLtCreate(&handle));
    OK(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    OK(cublasLtMatrixLayoutCreate(&a_layout, CUDA_R_32F, M, K, M));
    OK(cublasLtMatrixLayoutCreate(&b_layout, CUDA_R_32F, K, N, K));
    OK(cublasLtMatrixLayoutCreate(&d_layout, CUDA_R_32F, M, N, M));
    OK(cublasLtMatmulAlgoInit(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F,
                              24, &split));
    OK(cublasLtMatmulAlgoConfigSetAttribute(&split, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof tile));
    OK(cublasLtMatmulAlgoConfigSetAttribute(&split, CUBLASLT_ALGO_CONFIG_STAGES_ID, &stages, sizeof stages));
    OK(cublasLtMatmulAlgoConfigSetAttribute(&split, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, sizeof parts));
    OK(cublasLtMatmulAlgoConfigSetAttribute(&split, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction,
                                            sizeof reduction));
}

static void clean(void)
{
    void *const memory[] = {a, b, d, e, workspace, second_workspace};

    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) {
        OK(cudaFree(memory[i]));
    }
    OK(cublasLtMatmulDescDestroy(desc));
    OK(cublasLtMatrixLayoutDestroy(a_layout));
    OK(cublasLtMatrixLayoutDestroy(b_layout));
    OK(cublasLtMatrixLayoutDestroy(d_layout));
    OK(cublasLtDestroy(handle));
    OK(cudaStreamDestroy(compute));
    OK(cudaStreamDestroy(side));
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 3 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            good = strcmp(argv[2], "good") == 0;
            prepare();
            int result = cases[i].run();
            clean();
            return result;
        }
    }
    printf("usage: blas_bugs NAME good|bad\n");
    return 2;
}
