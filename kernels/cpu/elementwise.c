/* Activations and sums, one element at a time. NaN goes through all of them, ReLU included, as in PyTorch. */
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/math.h"

enum { ELEMENTS_PER_BLOCK = 16384 };

/* The kernel of an op whose function OP_range(arguments, begin, end) computes some of the elements of `view`. */
#define ELEMENTWISE(op, view)                                                                                   \
    static void op##_block(void *argument, int64_t block)                                                       \
    {                                                                                                           \
        const lsi_##op##_args *a = argument;                                                                    \
        int64_t begin = block * ELEMENTS_PER_BLOCK;                                                             \
        op##_range(a, begin, lsi_min(begin + ELEMENTS_PER_BLOCK, a->view.count));                               \
    }                                                                                                           \
    ls_status LSI_CPU_KERNEL(op)(const ls_cpu_run *run, const void *arguments)                                  \
    {                                                                                                           \
        lsi_##op##_args a = *(const lsi_##op##_args *)arguments;                                                \
        ls_parallel_for(run, lsi_blocks(a.view.count, ELEMENTS_PER_BLOCK), op##_block, &a);                     \
        return LS_OK;                                                                                           \
    }

/* ---- GELU ---------------------------------------------------------------------------------------------------- */

/* gelu(x) = x (1 + tanh(u)) / 2 = x s(2u), u = sqrt(2/pi) (x + 0.044715 x^3), s the logistic function: this form keeps
 * the relative accuracy of the tail, where 1 + tanh(u) cancels. */
typedef struct gelu_parts {
    float s;            /* s(2u) */
    float ds;           /* s'(2u) = s(2u) (1 - s(2u)) */
    float du2;          /* d(2u)/dx */
} gelu_parts;

static inline gelu_parts gelu_at(float x)
{
    const float c1 = 1.5957691216057308f, c3 = 0.071354816272600241f;   /* 2 sqrt(2/pi), 0.044715 times that */
    gelu_parts p;

    /* Beyond +-16 s is 0 or 1 to the last bit; the clamp keeps x^3 finite. */
    float t = x < -16.0f ? -16.0f : x;
    t = t > 16.0f ? 16.0f : t;
    float square = t * t;
    float u2 = t * lsi_fma(c3, square, c1);
    float e = lsi_exp(-fabsf(u2)), q = 1.0f / (1.0f + e);
    p.s = u2 < 0.0f ? e * q : q;
    p.ds = e * q * q;
    p.du2 = lsi_fma(3.0f * c3, square, c1);
    return p;
}

static void gelu_fwd_range(const lsi_gelu_fwd_args *a, int64_t begin, int64_t end)
{
    const float *x = a->x.data;
    float *y = a->y.data;

    LSI_INDEPENDENT
    for (int64_t i = begin; i < end; i++) {
        y[i] = x[i] * gelu_at(x[i]).s;
    }
}
ELEMENTWISE(gelu_fwd, y)

static void gelu_bwd_range(const lsi_gelu_bwd_args *a, int64_t begin, int64_t end)
{
    const float *x = a->x.data, *dy = a->dy.data;
    float *dx = a->dx.data;

    LSI_INDEPENDENT
    for (int64_t i = begin; i < end; i++) {
        gelu_parts p = gelu_at(x[i]);
        dx[i] = dy[i] * lsi_fma(x[i] * p.ds, p.du2, p.s);
    }
}
ELEMENTWISE(gelu_bwd, dx)

/* ---- ReLU ---------------------------------------------------------------------------------------------------- */

static void relu_fwd_range(const lsi_relu_fwd_args *a, int64_t begin, int64_t end)
{
    const float *x = a->x.data;
    float *y = a->y.data;

    LSI_INDEPENDENT
    for (int64_t i = begin; i < end; i++) {
        y[i] = x[i] < 0.0f ? 0.0f : x[i];
    }
}
ELEMENTWISE(relu_fwd, y)

static void relu_bwd_range(const lsi_relu_bwd_args *a, int64_t begin, int64_t end)
{
    const float *x = a->x.data, *dy = a->dy.data;
    float *dx = a->dx.data;

    LSI_INDEPENDENT
    for (int64_t i = begin; i < end; i++) {
        dx[i] = x[i] <= 0.0f ? 0.0f : dy[i];
    }
}
ELEMENTWISE(relu_bwd, dx)

/* ---- sums ---------------------------------------------------------------------------------------------------- */

static void add_range(const lsi_add_args *a, int64_t begin, int64_t end)
{
    const float *left = a->a.data, *right = a->b.data;
    float *y = a->y.data;

    LSI_INDEPENDENT
    for (int64_t i = begin; i < end; i++) {
        y[i] = left[i] + right[i];
    }
}
ELEMENTWISE(add, y)

static void add_into_range(const lsi_add_into_args *a, int64_t begin, int64_t end)
{
    const float *x = a->x.data;
    float *y = a->y.data;

    LSI_INDEPENDENT
    for (int64_t i = begin; i < end; i++) {
        y[i] += x[i];
    }
}
ELEMENTWISE(add_into, y)
