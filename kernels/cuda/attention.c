/* The attention ops on GPUs: checks, the way a GPU takes, pieces that fit the workspace. */
#include "kernels/cuda/attention.h"

#include <limits.h>
#include <math.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/extension.h"

ls_status lsi_cuda_check_types(const char *op, const ls_view *const *views, int n);     /* check.c */

lsi_attention_path lsi_attention_path_of(int capability, ls_dtype dtype)
{
    if (dtype == LS_F16) {
        return capability >= 80 ? LSI_ATTENTION_F16_SM80
                                : capability >= 75 ? LSI_ATTENTION_F16_SM75 : LSI_ATTENTION_F16_PLAIN;
    }
    if (dtype == LS_BF16) {
        return capability >= 80 ? LSI_ATTENTION_BF16_SM80 : LSI_ATTENTION_REFUSED;
    }
    return LSI_ATTENTION_F32;
}

const char *lsi_cuda_attention_path(int capability, ls_dtype dtype)
{
    switch (lsi_attention_path_of(capability, dtype)) {
    case LSI_ATTENTION_F32:
        return "f32 in plain arithmetic";
    case LSI_ATTENTION_F16_PLAIN:
        return "f16 in f32 arithmetic, without tensor cores";
    case LSI_ATTENTION_F16_SM75:
        return "f16 by mma m16n8k8";
    case LSI_ATTENTION_F16_SM80:
        return "f16 by mma m16n8k16";
    case LSI_ATTENTION_BF16_SM80:
        return "bf16 by mma m16n8k16";
    default:
        return NULL;
    }
}

/* What both ops check; the path that they take. */
static ls_status check(const char *op, int capability, const lsi_attention_problem *p, int64_t samples, float dropout,
                       const ls_view *qkv, const ls_view *y, const ls_view *lse, lsi_dropout_rule *rule,
                       lsi_attention_path *path)
{
    int64_t tokens = samples * p->context;

    LS_TRY(lsi_dropout_rule_make(dropout, rule));
    LS_REQUIRE(p->head_size >= 1 && p->head_size <= LSI_HEAD_SIZE_MAX, LS_ERR_INTERNAL,
               "%s: head size %d is not in 1..%d", op, p->head_size, (int)LSI_HEAD_SIZE_MAX);
    LS_REQUIRE(qkv->count == tokens * p->row && y->count == tokens * p->out_row && lse->count == tokens * p->heads,
               LS_ERR_INTERNAL, "%s: views of %lld, %lld, %lld elements for %lld x %d tokens, %d heads of %d", op,
               (long long)qkv->count, (long long)y->count, (long long)lse->count, (long long)samples, p->context,
               p->heads, p->head_size);
    *path = lsi_attention_path_of(capability, qkv->dtype);
    LS_REQUIRE(*path != LSI_ATTENTION_REFUSED, LS_ERR_DEVICE,
               "%s: bf16 needs a GPU of compute capability 8.0 or newer, this one is used as %d.%d: set "
               "precision.compute to f16 or f32", op, capability / 10, capability % 10);
    return LS_OK;
}

/* Sizes that kernels count in int. */
static ls_status check_range(const char *op, int64_t context, int64_t heads, int64_t samples)
{
    LS_REQUIRE(context >= 0 && context <= INT_MAX / 4 && heads >= 0 && heads <= INT_MAX / 4 && samples >= 0,
               LS_ERR_INTERNAL, "%s: %lld x %lld tokens, %lld heads", op, (long long)samples, (long long)context,
               (long long)heads);
    return LS_OK;
}

static bool rows_are_aligned(const lsi_attention_problem *p, ls_dtype dtype)
{
    uintptr_t bits = (uintptr_t)p->qkv | (uintptr_t)p->y | (uintptr_t)p->dy | (uintptr_t)p->out |
                     (uintptr_t)((size_t)p->head_size * ls_dtype_bytes(dtype));

    return bits % 16 == 0;
}

static bool is_plain(lsi_attention_path path)
{
    return path == LSI_ATTENTION_F32 || path == LSI_ATTENTION_F16_PLAIN;
}

/* Some kernels ask for more shared memory first. */
static ls_status launched(const char *op, cudaError_t error)
{
    return lsi_cuda_called(op, "cudaFuncSetAttribute or cudaLaunchKernel", error);
}

/* What both argument structs hold. */
#define ATTENTION_PROBLEM(a)                                                                                          \
    {                                                                                                                 \
        .qkv = (a)->qkv.data, .lse = (a)->lse.data, .state = (a)->state, .row = 3 * (a)->heads * (a)->head_size,      \
        .out_row = (a)->heads * (a)->head_size, .first_sample = (a)->first_sample, .key = (a)->key,                   \
        .scale = (float)(1.0 / sqrt((double)(a)->head_size)), .context = (int)(a)->context, .heads = (int)(a)->heads, \
        .head_size = (int)(a)->head_size,                                                                             \
    }

/* Heads of one launch: what its grid can count. */
static int64_t heads_at_once(const lsi_attention_problem *p, int64_t most)
{
    int64_t countable = INT_MAX / (p->context / 4 + 1);

    return most < countable ? most : countable;
}

ls_status lsi_cuda_attention_fwd(ls_stream *stream, const void *arguments)
{
    const lsi_attention_fwd_args *a = arguments;
    const ls_view *views[] = {&a->qkv, &a->y};
    lsi_attention_problem p = ATTENTION_PROBLEM(a);
    lsi_attention_path path;

    LS_TRY(check_range("attention_fwd", a->context, a->heads, a->samples));
    LS_TRY(lsi_cuda_check_types("attention_fwd", views, 2));
    LS_TRY(check("attention_fwd", lsi_cuda_capability(stream->device), &p, a->samples, a->dropout, &a->qkv, &a->y,
                 &a->lse, &p.rule, &path));
    p.out = a->y.data;
    p.aligned = rows_are_aligned(&p, a->qkv.dtype);

    int64_t n = a->context > 0 ? a->samples * a->heads : 0, step = heads_at_once(&p, n);
    for (; p.first_head < n; p.first_head += step) {
        p.n_heads = (int)(n - p.first_head < step ? n - p.first_head : step);
        cudaError_t error = is_plain(path) ? lsi_attention_plain_fwd(&p, path, lsi_cuda_stream(stream))
                                           : lsi_attention_mma_fwd(&p, path, lsi_cuda_stream(stream));
        LS_TRY(launched("attention_fwd", error));
    }
    return LS_OK;
}

ls_status lsi_cuda_attention_bwd(ls_stream *stream, const void *arguments)
{
    const lsi_attention_bwd_args *a = arguments;
    const ls_view *views[] = {&a->qkv, &a->y, &a->dy, &a->dqkv};
    lsi_attention_problem p = ATTENTION_PROBLEM(a);
    lsi_attention_path path;

    LS_TRY(check_range("attention_bwd", a->context, a->heads, a->samples));
    LS_TRY(lsi_cuda_check_types("attention_bwd", views, 4));
    LS_TRY(check("attention_bwd", lsi_cuda_capability(stream->device), &p, a->samples, a->dropout, &a->qkv, &a->y,
                 &a->lse, &p.rule, &path));
    p.y = a->y.data;
    p.dy = a->dy.data;
    p.out = a->dqkv.data;
    p.dot = lsi_cuda_workspace(stream);
    p.aligned = rows_are_aligned(&p, a->qkv.dtype);

    int64_t n = a->context > 0 ? a->samples * a->heads : 0;
    int64_t fitting = LSI_CUDA_WORKSPACE_BYTES / ((int64_t)sizeof(float) * (a->context > 0 ? a->context : 1));
    int64_t step = heads_at_once(&p, n < fitting ? n : fitting);
    LS_REQUIRE(n == 0 || step > 0, LS_ERR_INTERNAL, "attention_bwd: a context of %lld does not fit the workspace",
               (long long)a->context);
    for (; p.first_head < n; p.first_head += step) {
        p.n_heads = (int)(n - p.first_head < step ? n - p.first_head : step);
        cudaStream_t cuda = lsi_cuda_stream(stream);
        cudaError_t error = is_plain(path) ? lsi_attention_plain_dq(&p, path, cuda)
                                           : lsi_attention_mma_dq(&p, path, cuda);
        if (error == cudaSuccess) {
            error = is_plain(path) ? lsi_attention_plain_dkv(&p, path, cuda) : lsi_attention_mma_dkv(&p, path, cuda);
        }
        LS_TRY(launched("attention_bwd", error));
    }
    return LS_OK;
}
