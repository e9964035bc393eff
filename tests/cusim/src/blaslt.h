/* cuBLASLt, between its files: what descriptors hold, a product as it is computed, and the algorithms.
 *
 *   blaslt_describe.c   descriptors and their attributes
 *   blaslt_algo.c       the algorithms: what each can do, which fits, which is best
 *   blaslt_config.c     an algorithm as an object that programs ask and set
 *   blaslt_problem.c    descriptors to a product, with the rules about types, shapes and alignment
 *   blaslt_matmul.c     queueing a product
 *   blas_product.c      computing it */
#ifndef CUSIM_BLASLT_H
#define CUSIM_BLASLT_H

#include <cublasLt.h>
#include <stdbool.h>
#include <stdint.h>

#include "internal.h"

/* ---- what descriptors hold: the types of the fields are those of the attributes -------------- */

typedef struct cusim_lt_desc {
    int32_t compute_type, scale_type, pointer_mode, trans_a, trans_b, trans_c;
    uint32_t epilogue;
    void *bias, *aux;
    int64_t bias_stride, aux_ld, aux_stride;
    int32_t bias_type, aux_type; /* -1: that of D */
} cusim_lt_desc;

typedef struct cusim_lt_layout {
    uint32_t type;
    int32_t order, batch_count;
    uint64_t rows, cols;
    int64_t ld, batch_stride;
} cusim_lt_layout;

typedef struct cusim_lt_preference {
    uint32_t search_mode, reduction_mask;
    uint64_t max_workspace, impl_mask;
    uint32_t alignment_a, alignment_b, alignment_c, alignment_d;
    float max_waves;
} cusim_lt_preference;

/* The 64 bytes of cublasLtMatmulAlgo_t. */
typedef struct cusim_lt_algo {
    uint32_t magic;
    int32_t id;
    uint32_t tile, stages;
    int32_t split_k;
    uint32_t reduction, swizzle, custom_option;
    uint16_t inner_shape, cluster_shape;
    uint8_t types[6]; /* compute, scale, A, B, C, D */
} cusim_lt_algo;

/* ---- a product ------------------------------------------------------------------------------- */

/* Element (i, j) of matrix z is data[z * batch_stride + i * row_step + j * col_step]. */
typedef struct cusim_matrix {
    char *data;
    int type; /* cudaDataType */
    int64_t rows, cols, row_step, col_step, batch_stride;
} cusim_matrix;

/* D = epilogue(alpha * A * B + beta * C), transposes resolved: A is m x k, B k x n. */
typedef struct cusim_product {
    cusim_matrix a, b, c, d, aux;
    int64_t m, n, k;
    int batch;
    float alpha, beta;
    bool round_tf32; /* the factors, before the product */
    uint32_t epilogue;
    void *bias; /* added, or a gradient to be written */
    int bias_type;
    int64_t bias_stride;
    /* What the algorithm decides: factors are multiplied in runs of `chunk` elements of k, split_k ranges of k are
     * summed apart and then added in order, through a type that `reduction` names. */
    int64_t chunk;
    int split_k;
    uint32_t reduction;
    void *workspace;
    size_t workspace_bytes; /* written */
} cusim_product;

size_t cusim_blas_type_size(int type); /* 0: not a type of ours */
void cusim_product_compute(const cusim_product *product);

/* ---- algorithms ------------------------------------------------------------------------------ */

/* What the rules look at besides the product. */
typedef struct cusim_lt_problem {
    cusim_product product; /* without scalars, pointers and what the algorithm decides */
    uint8_t types[6];      /* compute, scale, A, B, C, D, as in an algorithm */
    /* The largest power of two, at most 256, that divides the leading dimensions and batch strides of A, B, C, D in
     * bytes; where pointers are known, them, too. */
    uint32_t alignment[4];
    int capability, sms; /* of the GPU: 80 is 8.0 */
} cusim_lt_problem;

enum { CUSIM_LT_ALGO_MAGIC = 0x4c051570, CUSIM_LT_MAX_CHOICES = 4 };

/* Kinds of factors, by type and compute type. */
enum { CUSIM_LT_F32 = 1, CUSIM_LT_TF32 = 2, CUSIM_LT_F16 = 4, CUSIM_LT_BF16 = 8 };
unsigned cusim_lt_factor_kind(const uint8_t types[6]);

/* What one algorithm id can do. */
typedef struct cusim_lt_family {
    int id;
    int capability; /* the least, 80 is 8.0 */
    unsigned factors;
    uint32_t alignment; /* of all matrices, bytes; 0: that of an element */
    bool split_k;
    bool epilogues;                                                     /* other than DEFAULT and BIAS */
    uint32_t tiles[CUSIM_LT_MAX_CHOICES], stages[CUSIM_LT_MAX_CHOICES]; /* the largest tile first; 0 ends */
} cusim_lt_family;

const cusim_lt_family *cusim_lt_find_family(int id); /* NULL: none */
int cusim_lt_family_ids(unsigned factors, int room, int *out);

struct cusim_gpu;
cublasStatus_t cusim_lt_problem_make(const struct cusim_gpu *gpu, const cusim_lt_desc *desc, const cusim_lt_layout *a,
                                     const cusim_lt_layout *b, const cusim_lt_layout *c, const cusim_lt_layout *d,
                                     cusim_lt_problem *out);
/* Is this combination of types one that is simulated? */
bool cusim_lt_types_known(const uint8_t types[6]);

/* Is this algorithm fit for the problem? Sets what it decides in the product, its workspace included. */
cublasStatus_t cusim_lt_apply(const cusim_lt_algo *algo, cusim_lt_problem *problem, float *out_waves);
/* The best ones first. */
int cusim_lt_choose(const cusim_lt_problem *problem, const cusim_lt_preference *preference,
                    cublasLtMatmulHeuristicResult_t *out, int room);

/* The GPU of the handle, NULL: not a handle. */
const struct cusim_gpu *cusim_lt_gpu(cublasLtHandle_t handle);

#define CUSIM_LT_CALL(name, ...)                                                                                       \
    do {                                                                                                               \
        int code_ = cusim_call(CUSIM_FN_##name, CUSIM_NO_STREAM, __VA_ARGS__);                                         \
        if (code_ != 0) {                                                                                              \
            return (cublasStatus_t)code_;                                                                              \
        }                                                                                                              \
    } while (0)

#endif
