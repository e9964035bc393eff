/* What the two kinds of attention kernels share, one on tensor cores (attention_mma.h) and one in plain f32
 * arithmetic (attention_plain.h): the problem as a kernel sees it, and which way a GPU takes.
 *
 * Both walk as kernels/cpu/attention.h does, without a T x T matrix: blocks of queries meet blocks of keys, those that
 * causality hides are skipped; the forward keeps a running maximum and sum per query, the backward makes probabilities
 * again from their log-sum-exp. The backward is two kernels, so that every sum has one owner and one order: dq by block
 * of queries over the keys in order, dk and dv by block of keys over the queries in order. The first of them leaves
 * dot = y . dy per query for the second. */
#ifndef LSI_KERNELS_CUDA_ATTENTION_H
#define LSI_KERNELS_CUDA_ATTENTION_H

#include <cuda_runtime_api.h>

#include "base/host_device.h"
#include "kernels/dropout.h"
#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Some heads of some samples: one launch. A head is counted over the samples: sample * heads + head of the sample. */
typedef struct lsi_attention_problem {
    const void *qkv, *y, *dy;       /* y and dy: backward only */
    void *out;                      /* y or dqkv */
    float *lse;                     /* written by the forward */
    float *dot;                     /* backward: [n_heads, context] of this launch */
    const ls_step_state *state;     /* read with dropout only */
    int64_t row, out_row;           /* elements from one token to the next in qkv and dqkv, in y and dy */
    int64_t first_sample;
    int64_t first_head;             /* of this launch */
    uint64_t key;
    lsi_dropout_rule rule;
    float scale;                    /* of scores */
    int n_heads;                    /* of this launch */
    int context, heads, head_size;
    bool aligned;                   /* all rows of all views begin at multiples of 16 bytes */
} lsi_attention_problem;

/* How a type is multiplied. Follows from compute capability (10 x major + minor) and type alone. */
typedef enum lsi_attention_path {
    LSI_ATTENTION_F32,              /* plain */
    LSI_ATTENTION_F16_PLAIN,        /* f16 storage, f32 arithmetic: sm_70 has tensor cores of another kind */
    LSI_ATTENTION_F16_SM75,         /* mma m16n8k8 */
    LSI_ATTENTION_F16_SM80,         /* mma m16n8k16, cp.async */
    LSI_ATTENTION_BF16_SM80,
    LSI_ATTENTION_REFUSED           /* bf16 below sm_80 */
} lsi_attention_path;

lsi_attention_path lsi_attention_path_of(int capability, ls_dtype dtype);
/* The same in words, for people; NULL where the type is refused. */
const char *lsi_cuda_attention_path(int capability, ls_dtype dtype);

/* The ops. */
ls_status lsi_cuda_attention_fwd(ls_stream *stream, const void *arguments);
ls_status lsi_cuda_attention_bwd(ls_stream *stream, const void *arguments);

/* Launchers of the kernels; both kernels of the backward in turn. */
cudaError_t lsi_attention_mma_fwd(const lsi_attention_problem *p, lsi_attention_path path, cudaStream_t stream);
cudaError_t lsi_attention_mma_dq(const lsi_attention_problem *p, lsi_attention_path path, cudaStream_t stream);
cudaError_t lsi_attention_mma_dkv(const lsi_attention_problem *p, lsi_attention_path path, cudaStream_t stream);
cudaError_t lsi_attention_plain_fwd(const lsi_attention_problem *p, lsi_attention_path path, cudaStream_t stream);
cudaError_t lsi_attention_plain_dq(const lsi_attention_problem *p, lsi_attention_path path, cudaStream_t stream);
cudaError_t lsi_attention_plain_dkv(const lsi_attention_problem *p, lsi_attention_path path, cudaStream_t stream);

/* A kernel may use more than 48 KiB of shared memory only once it is allowed to. */
static inline cudaError_t lsi_attention_allow_shared(const void *kernel, size_t bytes)
{
    return bytes <= 48 << 10
               ? cudaSuccess
               : cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

#ifdef __cplusplus
}

/* ---- in kernels ---------------------------------------------------------------------------------------------- */

/* One head of one sample: where its rows begin. */
typedef struct lsi_attention_place {
    int64_t q, k, v;        /* in qkv and dqkv */
    int64_t out;            /* in y and dy */
    int64_t lse, dot;
    int64_t head;           /* of the sample */
    uint32_t sample;        /* in the global batch */
} lsi_attention_place;

/* `index`: of the launch. */
static __device__ __forceinline__ lsi_attention_place lsi_attention_find(const lsi_attention_problem &p, int index)
{
    int64_t global = p.first_head + index, sample = global / p.heads;
    lsi_attention_place place;

    place.head = global % p.heads;
    place.sample = (uint32_t)(p.first_sample + sample);
    place.out = sample * p.context * p.out_row + place.head * p.head_size;
    place.q = sample * p.context * p.row + place.head * p.head_size;
    place.k = place.q + p.out_row;
    place.v = place.k + p.out_row;
    place.lse = global * p.context;
    place.dot = (int64_t)index * p.context;
    return place;
}

/* What dropout draws with: see ops.def for the counters. */
typedef struct lsi_attention_draw {
    uint64_t key, first, groups;    /* group of (query, key): first + query * groups + key / 4 */
    uint32_t threshold, sample, step;
} lsi_attention_draw;

static __device__ __forceinline__ lsi_attention_draw lsi_attention_draw_of(const lsi_attention_problem &p,
                                                                           const lsi_attention_place &place)
{
    lsi_attention_draw d;

    d.key = p.key;
    d.groups = ((uint64_t)p.context + 3) / 4;
    d.first = (uint64_t)place.head * (uint64_t)p.context * d.groups;
    d.threshold = p.rule.threshold;
    d.sample = place.sample;
    d.step = d.threshold > 0 ? (uint32_t)p.state->attempted : 0;
    return d;
}

/* Bit i: whether the query keeps key 4 * quad + i. */
static __device__ __forceinline__ unsigned lsi_attention_keep(const lsi_attention_draw &d, int query, int quad)
{
    uint64_t group = d.first + (uint64_t)query * d.groups + (uint64_t)quad;
    lsi_random4 words = lsi_random_philox(d.key, (uint32_t)group, d.sample, d.step,
                                          (uint32_t)(group >> 32) << 8 | LSI_DROPOUT_ATTENTION);
    unsigned keep = 0;

#pragma unroll
    for (int i = 0; i < 4; i++) {
        keep |= (words.v[i] >= d.threshold ? 1u : 0u) << i;
    }
    return keep;
}

#endif
#endif
