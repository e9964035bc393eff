/* Activations, sums and products, one element at a time. NaN goes through all of them, ReLU included, as in PyTorch. */
#include "kernels/cpu/convert.h"
#include "kernels/cpu/kernel.h"
#include "kernels/gelu.h"
#include "kernels/math.h"

enum { ELEMENTS_PER_BLOCK = 16384 };

/* The kernel of an op whose function OP_tile(arguments, begin, n) computes a tile of the elements of `view`. The other
 * arguments are all views of the op, of one type. */
#define ELEMENTWISE(op, view, ...)                                                                              \
    static void op##_block(void *argument, int64_t block)                                                       \
    {                                                                                                           \
        const lsi_##op##_args *a = argument;                                                                    \
        int64_t end = lsi_min((block + 1) * ELEMENTS_PER_BLOCK, a->view.count);                                 \
        for (int64_t begin = block * ELEMENTS_PER_BLOCK; begin < end; begin += LSI_CONVERT_TILE) {              \
            op##_tile(a, begin, lsi_min(LSI_CONVERT_TILE, end - begin));                                        \
        }                                                                                                       \
    }                                                                                                           \
    ls_status LSI_CPU_KERNEL(op)(const ls_cpu_run *run, const void *arguments)                                  \
    {                                                                                                           \
        lsi_##op##_args a = *(const lsi_##op##_args *)arguments;                                                \
        LS_TRY(LSI_CONVERT_CHECK(#op, __VA_ARGS__));                                                            \
        ls_parallel_for(run, lsi_blocks(a.view.count, ELEMENTS_PER_BLOCK), op##_block, &a);                     \
        return LS_OK;                                                                                           \
    }

/* ---- GELU ---------------------------------------------------------------------------------------------------- */

static void gelu_fwd_tile(const lsi_gelu_fwd_args *a, int64_t begin, int64_t n)
{
    float x_tile[LSI_CONVERT_TILE], y_tile[LSI_CONVERT_TILE];
    const float *x = lsi_convert_load(&a->x, begin, n, x_tile);
    float *y = lsi_convert_target(&a->y, begin, y_tile);

    LSI_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        y[i] = lsi_gelu(x[i]);
    }
    lsi_convert_store(&a->y, begin, n, y);
}
ELEMENTWISE(gelu_fwd, y, &a.x, &a.y)

static void gelu_bwd_tile(const lsi_gelu_bwd_args *a, int64_t begin, int64_t n)
{
    float x_tile[LSI_CONVERT_TILE], dy_tile[LSI_CONVERT_TILE], dx_tile[LSI_CONVERT_TILE];
    const float *x = lsi_convert_load(&a->x, begin, n, x_tile);
    const float *dy = lsi_convert_load(&a->dy, begin, n, dy_tile);
    float *dx = lsi_convert_target(&a->dx, begin, dx_tile);

    LSI_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        dx[i] = dy[i] * lsi_gelu_slope(x[i]);
    }
    lsi_convert_store(&a->dx, begin, n, dx);
}
ELEMENTWISE(gelu_bwd, dx, &a.x, &a.dy, &a.dx)

/* ---- ReLU ---------------------------------------------------------------------------------------------------- */

static void relu_fwd_tile(const lsi_relu_fwd_args *a, int64_t begin, int64_t n)
{
    float x_tile[LSI_CONVERT_TILE], y_tile[LSI_CONVERT_TILE];
    const float *x = lsi_convert_load(&a->x, begin, n, x_tile);
    float *y = lsi_convert_target(&a->y, begin, y_tile);

    LSI_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] < 0.0f ? 0.0f : x[i];
    }
    lsi_convert_store(&a->y, begin, n, y);
}
ELEMENTWISE(relu_fwd, y, &a.x, &a.y)

static void relu_bwd_tile(const lsi_relu_bwd_args *a, int64_t begin, int64_t n)
{
    float x_tile[LSI_CONVERT_TILE], dy_tile[LSI_CONVERT_TILE], dx_tile[LSI_CONVERT_TILE];
    const float *x = lsi_convert_load(&a->x, begin, n, x_tile);
    const float *dy = lsi_convert_load(&a->dy, begin, n, dy_tile);
    float *dx = lsi_convert_target(&a->dx, begin, dx_tile);

    LSI_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        dx[i] = x[i] <= 0.0f ? 0.0f : dy[i];
    }
    lsi_convert_store(&a->dx, begin, n, dx);
}
ELEMENTWISE(relu_bwd, dx, &a.x, &a.dy, &a.dx)

/* ---- logistic function, tanh ---------------------------------------------------------------------------------- */

static void sigmoid_fwd_tile(const lsi_sigmoid_fwd_args *a, int64_t begin, int64_t n)
{
    float x_tile[LSI_CONVERT_TILE], y_tile[LSI_CONVERT_TILE];
    const float *x = lsi_convert_load(&a->x, begin, n, x_tile);
    float *y = lsi_convert_target(&a->y, begin, y_tile);

    LSI_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        y[i] = lsi_sigmoid(x[i]).value;
    }
    lsi_convert_store(&a->y, begin, n, y);
}
ELEMENTWISE(sigmoid_fwd, y, &a.x, &a.y)

static void sigmoid_bwd_tile(const lsi_sigmoid_bwd_args *a, int64_t begin, int64_t n)
{
    float x_tile[LSI_CONVERT_TILE], dy_tile[LSI_CONVERT_TILE], dx_tile[LSI_CONVERT_TILE];
    const float *x = lsi_convert_load(&a->x, begin, n, x_tile);
    const float *dy = lsi_convert_load(&a->dy, begin, n, dy_tile);
    float *dx = lsi_convert_target(&a->dx, begin, dx_tile);

    LSI_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        dx[i] = dy[i] * lsi_sigmoid(x[i]).slope;
    }
    lsi_convert_store(&a->dx, begin, n, dx);
}
ELEMENTWISE(sigmoid_bwd, dx, &a.x, &a.dy, &a.dx)

static void tanh_fwd_tile(const lsi_tanh_fwd_args *a, int64_t begin, int64_t n)
{
    float x_tile[LSI_CONVERT_TILE], y_tile[LSI_CONVERT_TILE];
    const float *x = lsi_convert_load(&a->x, begin, n, x_tile);
    float *y = lsi_convert_target(&a->y, begin, y_tile);

    LSI_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        y[i] = lsi_tanh(x[i]);
    }
    lsi_convert_store(&a->y, begin, n, y);
}
ELEMENTWISE(tanh_fwd, y, &a.x, &a.y)

/* tanh x = 2 sigmoid(2x) - 1 */
static void tanh_bwd_tile(const lsi_tanh_bwd_args *a, int64_t begin, int64_t n)
{
    float x_tile[LSI_CONVERT_TILE], dy_tile[LSI_CONVERT_TILE], dx_tile[LSI_CONVERT_TILE];
    const float *x = lsi_convert_load(&a->x, begin, n, x_tile);
    const float *dy = lsi_convert_load(&a->dy, begin, n, dy_tile);
    float *dx = lsi_convert_target(&a->dx, begin, dx_tile);

    LSI_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        dx[i] = dy[i] * (4.0f * lsi_sigmoid(2.0f * x[i]).slope);
    }
    lsi_convert_store(&a->dx, begin, n, dx);
}
ELEMENTWISE(tanh_bwd, dx, &a.x, &a.dy, &a.dx)

/* ---- sums and products --------------------------------------------------------------------------------------- */

static void add_tile(const lsi_add_args *a, int64_t begin, int64_t n)
{
    float left_tile[LSI_CONVERT_TILE], right_tile[LSI_CONVERT_TILE], y_tile[LSI_CONVERT_TILE];
    const float *left = lsi_convert_load(&a->a, begin, n, left_tile);
    const float *right = lsi_convert_load(&a->b, begin, n, right_tile);
    float *y = lsi_convert_target(&a->y, begin, y_tile);

    LSI_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        y[i] = left[i] + right[i];
    }
    lsi_convert_store(&a->y, begin, n, y);
}
ELEMENTWISE(add, y, &a.a, &a.b, &a.y)

static void add_into_tile(const lsi_add_into_args *a, int64_t begin, int64_t n)
{
    float x_tile[LSI_CONVERT_TILE], y_tile[LSI_CONVERT_TILE];
    const float *x = lsi_convert_load(&a->x, begin, n, x_tile);
    const float *before = lsi_convert_load(&a->y, begin, n, y_tile);
    float *y = lsi_convert_target(&a->y, begin, y_tile);

    LSI_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        y[i] = before[i] + x[i];
    }
    lsi_convert_store(&a->y, begin, n, y);
}
ELEMENTWISE(add_into, y, &a.x, &a.y)

static void mul_tile(const lsi_mul_args *a, int64_t begin, int64_t n)
{
    float left_tile[LSI_CONVERT_TILE], right_tile[LSI_CONVERT_TILE], y_tile[LSI_CONVERT_TILE];
    const float *left = lsi_convert_load(&a->a, begin, n, left_tile);
    const float *right = lsi_convert_load(&a->b, begin, n, right_tile);
    float *y = lsi_convert_target(&a->y, begin, y_tile);

    LSI_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        y[i] = left[i] * right[i];
    }
    lsi_convert_store(&a->y, begin, n, y);
}
ELEMENTWISE(mul, y, &a.a, &a.b, &a.y)
