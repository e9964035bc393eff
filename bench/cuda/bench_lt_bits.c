/* bench_lt_bits [--tiny]
 *
 * Whether cuBLASLt gives equal bits run after run, where that decides what the runtime may use: the weight gradient of
 * GPT-2's widest layer in f16 and bf16, summed in f32, by every proposed algorithm
 *
 *     whole           as proposed without partial sums over k
 *     bgrad           with the bias gradient in its epilogue, whose sum over the rows may be in any order
 *     splitk SCHEME   with 2, 4 and 8 partial sums over k, added in place, in the type of the computation, or in the
 *                     type of the result
 *
 * each of them N_RUNS times into freshly filled memory, compared byte by byte. One JSON object a line: algorithms
 * tried, and how many of them gave other bits in some run. kernels/cuda/gemm_plan.c allows `whole` and `splitk compute`
 * and no bgrad; a line of these with unequal above 0 would be a fault there. Ends with 1 only where CUDA fails. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

enum { N_RUNS = 20, MAX_PROPOSALS = 16, WORKSPACE = 64 << 20 };

#define CUDA(call) must((int)(call), #call)
#define LT(call) must((int)(call), #call)

static void must(int error, const char *call)
{
    if (error != 0) {
        fprintf(stderr, "bench_lt_bits: error: %s: error %d\n", call, error);
        exit(1);
    }
}

typedef struct problem {
    uint64_t m, n, k; /* column-major: d [n, m] = dy' [n, k] x [k, m] */
    cudaDataType_t type;
    void *x, *dy, *workspace;
    float *d, *bias;
    unsigned char *first, *again; /* on the host: d, then bias */
    size_t d_bytes, bias_bytes;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, result;
} problem;

/* Small numbers of either type with many different bits: both have the sign at the top and an exponent below. */
static void fill(problem *p, void *to, uint64_t count)
{
    uint16_t *values = malloc(count * sizeof *values);
    uint32_t state = 12345;

    must(values == NULL, "malloc");
    for (uint64_t i = 0; i < count; i++) {
        state = state * 1664525U + 1013904223U;
        /* f16: 2^-4 .. 1; bf16: the same, its exponent having 8 bits. */
        values[i] = (uint16_t)(p->type == CUDA_R_16F ? (0x2C00U + (state >> 16) % 0x1000U) | (state >> 31) << 15
                                                     : (0x3D80U + (state >> 16) % 0x200U) | (state >> 31) << 15);
    }
    CUDA(cudaMemcpy(to, values, count * sizeof *values, cudaMemcpyHostToDevice));
    free(values);
}

static void open_problem(problem *p)
{
    cublasOperation_t plain = CUBLAS_OP_N, transposed = CUBLAS_OP_T;

    p->d_bytes = p->m * p->n * sizeof(float);
    p->bias_bytes = p->n * sizeof(float);
    CUDA(cudaMalloc(&p->x, p->m * p->k * 2));
    CUDA(cudaMalloc(&p->dy, p->n * p->k * 2));
    CUDA(cudaMalloc((void **)&p->d, p->d_bytes));
    CUDA(cudaMalloc((void **)&p->bias, p->bias_bytes));
    CUDA(cudaMalloc(&p->workspace, WORKSPACE));
    p->first = malloc(p->d_bytes + p->bias_bytes);
    p->again = malloc(p->d_bytes + p->bias_bytes);
    must(p->first == NULL || p->again == NULL, "malloc");
    fill(p, p->x, p->m * p->k);
    fill(p, p->dy, p->n * p->k);
    LT(cublasLtCreate(&p->handle));
    LT(cublasLtMatmulDescCreate(&p->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    LT(cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &plain, sizeof plain));
    LT(cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSB, &transposed, sizeof transposed));
    LT(cublasLtMatrixLayoutCreate(&p->a, p->type, p->n, p->k, (int64_t)p->n));
    LT(cublasLtMatrixLayoutCreate(&p->b, p->type, p->m, p->k, (int64_t)p->m));
    LT(cublasLtMatrixLayoutCreate(&p->result, CUDA_R_32F, p->n, p->m, (int64_t)p->n));
}

static void close_problem(problem *p)
{
    LT(cublasLtMatrixLayoutDestroy(p->result));
    LT(cublasLtMatrixLayoutDestroy(p->b));
    LT(cublasLtMatrixLayoutDestroy(p->a));
    LT(cublasLtMatmulDescDestroy(p->operation));
    LT(cublasLtDestroy(p->handle));
    CUDA(cudaFree(p->workspace));
    CUDA(cudaFree(p->bias));
    CUDA(cudaFree(p->d));
    CUDA(cudaFree(p->dy));
    CUDA(cudaFree(p->x));
    free(p->again);
    free(p->first);
}

static void set_epilogue(problem *p, bool bgrad)
{
    cublasLtEpilogue_t epilogue = bgrad ? CUBLASLT_EPILOGUE_BGRADA : CUBLASLT_EPILOGUE_DEFAULT;
    cudaDataType_t type = CUDA_R_32F;

    LT(cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    if (bgrad) {
        LT(cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias));
        LT(cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type));
    }
}

/* Algorithms without partial sums over k; 0 where the library has none. */
static int propose(problem *p, cublasLtMatmulHeuristicResult_t *out)
{
    cublasLtMatmulPreference_t preference;
    size_t workspace = WORKSPACE;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE;
    int n = 0;

    LT(cublasLtMatmulPreferenceCreate(&preference));
    LT(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                            sizeof workspace));
    LT(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                            sizeof schemes));
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(p->handle, p->operation, p->a, p->b, p->result, p->result,
                                                           preference, MAX_PROPOSALS, out, &n);
    LT(cublasLtMatmulPreferenceDestroy(preference));
    return status == CUBLAS_STATUS_SUCCESS ? n : 0;
}

static cublasStatus_t multiply(problem *p, const cublasLtMatmulAlgo_t *algorithm)
{
    const float one = 1.0F, zero = 0.0F;

    return cublasLtMatmul(p->handle, p->operation, &one, p->dy, p->a, p->x, p->b, &zero, p->d, p->result, p->d,
                          p->result, algorithm, p->workspace, WORKSPACE, NULL);
}

/* 0: refused, 1: equal bits, 2: other bits. */
static int compare_runs(problem *p, const cublasLtMatmulAlgo_t *algorithm)
{
    for (int i = 0; i < N_RUNS; i++) {
        unsigned char *to = i == 0 ? p->first : p->again;

        CUDA(cudaMemset(p->d, 0xFF, p->d_bytes));
        CUDA(cudaMemset(p->bias, 0xFF, p->bias_bytes));
        if (multiply(p, algorithm) != CUBLAS_STATUS_SUCCESS) {
            return 0;
        }
        CUDA(cudaMemcpy(to, p->d, p->d_bytes, cudaMemcpyDeviceToHost));
        CUDA(cudaMemcpy(to + p->d_bytes, p->bias, p->bias_bytes, cudaMemcpyDeviceToHost));
        if (i > 0 && memcmp(p->first, p->again, p->d_bytes + p->bias_bytes) != 0) {
            return 2;
        }
    }
    return 1;
}

typedef struct tally {
    int tried, unequal;
} tally;

static void count(tally *t, int result)
{
    t->tried += result != 0;
    t->unequal += result == 2;
}

static void print_tally(const problem *p, const char *what, tally t)
{
    printf("{\"what\": \"%s\", \"dtype\": \"%s\", \"runs\": %d, \"algorithms\": %d, \"unequal\": %d}\n", what,
           p->type == CUDA_R_16F ? "f16" : "bf16", N_RUNS, t.tried, t.unequal);
    fflush(stdout);
}

static void check_whole(problem *p, bool bgrad)
{
    cublasLtMatmulHeuristicResult_t proposals[MAX_PROPOSALS];
    tally t = {0};

    set_epilogue(p, bgrad);
    int n = propose(p, proposals);
    for (int i = 0; i < n; i++) {
        if (proposals[i].state == CUBLAS_STATUS_SUCCESS) {
            count(&t, compare_runs(p, &proposals[i].algo));
        }
    }
    print_tally(p, bgrad ? "bgrad" : "whole", t);
}

/* The same algorithms, told to make partial sums. */
static void check_splitk(problem *p, uint32_t scheme, const char *what)
{
    cublasLtMatmulHeuristicResult_t proposals[MAX_PROPOSALS], checked;
    tally t = {0};

    set_epilogue(p, false);
    int n = propose(p, proposals);
    for (int i = 0; i < n; i++) {
        for (int32_t parts = 2; parts <= 8; parts *= 2) {
            cublasLtMatmulAlgo_t algorithm = proposals[i].algo;

            if (cublasLtMatmulAlgoConfigSetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts,
                                                     sizeof parts) == CUBLAS_STATUS_SUCCESS &&
                cublasLtMatmulAlgoConfigSetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                                     sizeof scheme) == CUBLAS_STATUS_SUCCESS &&
                cublasLtMatmulAlgoCheck(p->handle, p->operation, p->a, p->b, p->result, p->result, &algorithm,
                                        &checked) == CUBLAS_STATUS_SUCCESS &&
                checked.workspaceSize <= WORKSPACE) {
                count(&t, compare_runs(p, &algorithm));
            }
        }
    }
    print_tally(p, what, t);
}

int main(int argc, char **argv)
{
    static const cudaDataType_t types[] = {CUDA_R_16F, CUDA_R_16BF};
    bool tiny = argc > 1 && strcmp(argv[1], "--tiny") == 0;

    if (argc > 2 || (argc == 2 && !tiny)) {
        fprintf(stderr, "usage: bench_lt_bits [--tiny]\n");
        return 2;
    }
    for (int i = 0; i < 2; i++) {
        problem p = {.m = tiny ? 32 : 768, .n = tiny ? 64 : 3072, .k = tiny ? 256 : 16384, .type = types[i]};

        open_problem(&p);
        check_whole(&p, false);
        check_whole(&p, true);
        check_splitk(&p, CUBLASLT_REDUCTION_SCHEME_INPLACE, "splitk inplace");
        check_splitk(&p, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, "splitk compute");
        check_splitk(&p, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, "splitk output");
        close_problem(&p);
    }
    return 0;
}
