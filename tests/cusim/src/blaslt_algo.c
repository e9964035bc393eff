/* The algorithms of the simulated cuBLASLt. They differ where real ones do: what they are fit for, and in which order
 * they add, so that another algorithm, other stages or another split of k give other bits. A heuristic proposes them by
 * shape and GPU. */
#include <string.h>

#include "blaslt.h"

/* In the order in which the heuristic likes them. */
static const cusim_lt_family families[] = {
    {66,
     90,
     CUSIM_LT_F16 | CUSIM_LT_BF16 | CUSIM_LT_TF32,
     16,
     false,
     true,
     {CUBLASLT_MATMUL_TILE_128x128, CUBLASLT_MATMUL_TILE_64x64},
     {CUBLASLT_MATMUL_STAGES_64x4, CUBLASLT_MATMUL_STAGES_64x3}},
    {21,
     80,
     CUSIM_LT_F16 | CUSIM_LT_BF16 | CUSIM_LT_TF32,
     16,
     true,
     true,
     {CUBLASLT_MATMUL_TILE_128x128, CUBLASLT_MATMUL_TILE_128x64, CUBLASLT_MATMUL_TILE_64x64},
     {CUBLASLT_MATMUL_STAGES_32x3, CUBLASLT_MATMUL_STAGES_64x3}},
    {6,
     70,
     CUSIM_LT_F16,
     16,
     true,
     true,
     {CUBLASLT_MATMUL_TILE_128x128, CUBLASLT_MATMUL_TILE_64x64},
     {CUBLASLT_MATMUL_STAGES_32x1, CUBLASLT_MATMUL_STAGES_16x2}},
    {24,
     50,
     CUSIM_LT_F32 | CUSIM_LT_TF32 | CUSIM_LT_F16 | CUSIM_LT_BF16,
     0,
     true,
     true,
     {CUBLASLT_MATMUL_TILE_64x64, CUBLASLT_MATMUL_TILE_32x32},
     {CUBLASLT_MATMUL_STAGES_16x2, CUBLASLT_MATMUL_STAGES_8x5}},
    {0, 50, CUSIM_LT_F32, 0, false, false, {CUBLASLT_MATMUL_TILE_32x32}, {CUBLASLT_MATMUL_STAGES_8x4}},
};
enum { N_FAMILIES = sizeof families / sizeof families[0], COMPUTE = 0, TYPE_A = 2 };

static const struct {
    uint32_t id;
    int rows, cols;
} tile_sizes[] = {{CUBLASLT_MATMUL_TILE_128x128, 128, 128},
                  {CUBLASLT_MATMUL_TILE_128x64, 128, 64},
                  {CUBLASLT_MATMUL_TILE_64x64, 64, 64},
                  {CUBLASLT_MATMUL_TILE_32x32, 32, 32}};

static const struct {
    uint32_t id;
    int chunk; /* elements of k that a stage holds */
} stage_sizes[] = {{CUBLASLT_MATMUL_STAGES_64x4, 64}, {CUBLASLT_MATMUL_STAGES_64x3, 64},
                   {CUBLASLT_MATMUL_STAGES_32x3, 32}, {CUBLASLT_MATMUL_STAGES_32x1, 32},
                   {CUBLASLT_MATMUL_STAGES_16x2, 16}, {CUBLASLT_MATMUL_STAGES_8x5, 8},
                   {CUBLASLT_MATMUL_STAGES_8x4, 8}};

const cusim_lt_family *cusim_lt_find_family(int id)
{
    for (int i = 0; i < N_FAMILIES; i++) {
        if (families[i].id == id) {
            return &families[i];
        }
    }
    return NULL;
}

static bool listed(const uint32_t list[CUSIM_LT_MAX_CHOICES], uint32_t id)
{
    for (int i = 0; i < CUSIM_LT_MAX_CHOICES && list[i] != 0; i++) {
        if (list[i] == id) {
            return true;
        }
    }
    return false;
}

static int chunk_of(uint32_t stages)
{
    for (size_t i = 0; i < sizeof stage_sizes / sizeof stage_sizes[0]; i++) {
        if (stage_sizes[i].id == stages) {
            return stage_sizes[i].chunk;
        }
    }
    return 0;
}

int cusim_lt_family_ids(unsigned factors, int room, int *out)
{
    int n = 0;

    for (int i = 0; i < N_FAMILIES && n < room; i++) {
        if (families[i].factors & factors) {
            out[n++] = families[i].id;
        }
    }
    return n;
}

static int64_t count_tiles(const cusim_product *p, uint32_t tile)
{
    for (size_t i = 0; i < sizeof tile_sizes / sizeof tile_sizes[0]; i++) {
        if (tile_sizes[i].id == tile) {
            return (p->m + tile_sizes[i].rows - 1) / tile_sizes[i].rows *
                   ((p->n + tile_sizes[i].cols - 1) / tile_sizes[i].cols) * p->batch;
        }
    }
    return 0;
}

unsigned cusim_lt_factor_kind(const uint8_t types[6])
{
    switch (types[TYPE_A]) {
    case CUDA_R_32F:
        return types[COMPUTE] == CUBLAS_COMPUTE_32F_FAST_TF32 ? CUSIM_LT_TF32 : CUSIM_LT_F32;
    case CUDA_R_16F:
        return CUSIM_LT_F16;
    default:
        return CUSIM_LT_BF16;
    }
}

/* ---- is it fit? ------------------------------------------------------------------------------ */
static size_t workspace_of(const cusim_lt_algo *algo, const cusim_product *p)
{
    size_t elements = (size_t)(p->m * p->n * p->batch) * (size_t)algo->split_k;

    switch (algo->reduction) {
    case CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE:
        return elements * sizeof(float);
    case CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE:
        return elements * cusim_blas_type_size(p->d.type);
    case CUBLASLT_REDUCTION_SCHEME_INPLACE:
        return (size_t)count_tiles(p, algo->tile) * sizeof(int);
    default:
        return 0;
    }
}

static cublasStatus_t check_shape(const cusim_lt_algo *algo, const cusim_lt_family *f, const cusim_lt_problem *problem)
{
    const cusim_product *p = &problem->product;
    bool plain = p->epilogue == CUBLASLT_EPILOGUE_DEFAULT || p->epilogue == CUBLASLT_EPILOGUE_BIAS;
    uint32_t alignment = f->alignment != 0 ? f->alignment : (uint32_t)cusim_blas_type_size(p->a.type);

    for (int i = 0; i < 4; i++) {
        if (problem->alignment[i] < alignment) {
            return CUBLAS_STATUS_NOT_SUPPORTED;
        }
    }
    if (!plain && (!f->epilogues || algo->reduction == CUBLASLT_REDUCTION_SCHEME_INPLACE)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return algo->split_k <= p->k ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cusim_lt_apply(const cusim_lt_algo *algo, cusim_lt_problem *problem, float *out_waves)
{
    const cusim_lt_family *f =
        algo != NULL && algo->magic == CUSIM_LT_ALGO_MAGIC ? cusim_lt_find_family(algo->id) : NULL;
    cusim_product *p = &problem->product;

    if (f == NULL || memcmp(algo->types, problem->types, sizeof algo->types) != 0) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    /* bf16 and CUSIM_LT_TF32 products of the general family need the instructions all the same. */
    if (problem->capability < f->capability ||
        (problem->capability < 80 && cusim_lt_factor_kind(problem->types) & (CUSIM_LT_TF32 | CUSIM_LT_BF16))) {
        return CUBLAS_STATUS_ARCH_MISMATCH;
    }
    if (!(f->factors & cusim_lt_factor_kind(problem->types)) || !listed(f->tiles, algo->tile) ||
        !listed(f->stages, algo->stages) || algo->swizzle > 1 || algo->custom_option != 0 || algo->inner_shape != 0 ||
        algo->cluster_shape != 0) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    bool one_scheme = algo->reduction == CUBLASLT_REDUCTION_SCHEME_INPLACE ||
                      algo->reduction == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE ||
                      algo->reduction == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    if (algo->split_k < 1 || one_scheme != (algo->split_k > 1) || (algo->split_k > 1 && !f->split_k)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    cublasStatus_t status = check_shape(algo, f, problem);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    p->chunk = chunk_of(algo->stages);
    p->split_k = algo->split_k;
    p->reduction = algo->reduction;
    p->workspace_bytes = workspace_of(algo, p);
    if (out_waves != NULL) {
        *out_waves = (float)(count_tiles(p, algo->tile) * algo->split_k) / (float)problem->sms;
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- which is best? -------------------------------------------------------------------------- */
/* The largest tile that still gives every second SM work, else the smallest. */
static uint32_t best_tile(const cusim_lt_family *f, const cusim_lt_problem *problem)
{
    int i = 0;

    while (i + 1 < CUSIM_LT_MAX_CHOICES && f->tiles[i + 1] != 0 &&
           count_tiles(&problem->product, f->tiles[i]) < problem->sms / 2) {
        i++;
    }
    return f->tiles[i];
}

/* Splits of k that fill an idle GPU, each with enough of k to be worth it. */
static int best_split(const cusim_lt_family *f, const cusim_lt_problem *problem, uint32_t tile)
{
    int64_t by_idle = problem->sms / (count_tiles(&problem->product, tile) + 1), by_k = problem->product.k / 128;
    int64_t split = by_idle < by_k ? by_idle : by_k;

    return !f->split_k || split < 2 ? 1 : split > 8 ? 8 : (int)split;
}

static uint32_t best_reduction(uint32_t mask)
{
    return mask & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE  ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
           : mask & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE ? CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE
           : mask & CUBLASLT_REDUCTION_SCHEME_INPLACE     ? CUBLASLT_REDUCTION_SCHEME_INPLACE
                                                          : CUBLASLT_REDUCTION_SCHEME_NONE;
}

static bool propose(const cusim_lt_algo *algo, const cusim_lt_problem *problem, const cusim_lt_preference *preference,
                    cublasLtMatmulHeuristicResult_t *out)
{
    cusim_lt_problem trial = *problem;

    memset(out, 0, sizeof *out);
    if (cusim_lt_apply(algo, &trial, &out->wavesCount) != CUBLAS_STATUS_SUCCESS ||
        trial.product.workspace_bytes > preference->max_workspace ||
        (preference->max_waves > 0 && out->wavesCount > preference->max_waves)) {
        return false;
    }
    _Static_assert(sizeof *algo <= sizeof out->algo, "an algorithm fits into its opaque structure");
    memcpy(&out->algo, algo, sizeof *algo);
    out->workspaceSize = trial.product.workspace_bytes;
    out->state = CUBLAS_STATUS_SUCCESS;
    return true;
}

int cusim_lt_choose(const cusim_lt_problem *problem, const cusim_lt_preference *preference,
                    cublasLtMatmulHeuristicResult_t *out, int room)
{
    const uint32_t wanted[4] = {preference->alignment_a, preference->alignment_b, preference->alignment_c,
                                preference->alignment_d};
    cusim_lt_problem given = *problem;
    int n = 0;

    for (int i = 0; i < 4; i++) {
        given.alignment[i] = wanted[i] < given.alignment[i] ? wanted[i] : given.alignment[i];
    }
    for (int i = 0; i < N_FAMILIES; i++) {
        const cusim_lt_family *f = &families[i];
        cusim_lt_algo algo = {.magic = CUSIM_LT_ALGO_MAGIC, .id = f->id, .tile = best_tile(f, &given), .split_k = 1};

        memcpy(algo.types, given.types, sizeof algo.types);
        for (int stage = 0; stage < CUSIM_LT_MAX_CHOICES && f->stages[stage] != 0; stage++) {
            cusim_lt_algo split = algo;

            algo.stages = split.stages = f->stages[stage];
            split.split_k = best_split(f, &given, algo.tile);
            split.reduction = best_reduction(preference->reduction_mask);
            if (split.split_k > 1 && n < room && propose(&split, &given, preference, &out[n])) {
                n++;
            }
            if (n < room && propose(&algo, &given, preference, &out[n])) {
                n++;
            }
        }
    }
    return n;
}
