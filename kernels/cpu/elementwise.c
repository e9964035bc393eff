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

/* y = expression of x. */
#define FORWARD(op, expression)                                                                                 \
    static void op##_tile(const lsi_##op##_args *a, int64_t begin, int64_t n)                                   \
    {                                                                                                           \
        float x_tile[LSI_CONVERT_TILE], y_tile[LSI_CONVERT_TILE];                                               \
        const float *in = lsi_convert_load(&a->x, begin, n, x_tile);                                            \
        float *out = lsi_convert_target(&a->y, begin, y_tile);                                                  \
                                                                                                                \
        LSI_INDEPENDENT                                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                                       \
            float x = in[i];                                                                                    \
            out[i] = (expression);                                                                              \
        }                                                                                                       \
        lsi_convert_store(&a->y, begin, n, out);                                                                \
    }                                                                                                           \
    ELEMENTWISE(op, y, &a.x, &a.y)

/* One output of two inputs, called left and right in the expression. */
#define OF_TWO(op, first, second, result, expression)                                                           \
    static void op##_tile(const lsi_##op##_args *a, int64_t begin, int64_t n)                                   \
    {                                                                                                           \
        float left_tile[LSI_CONVERT_TILE], right_tile[LSI_CONVERT_TILE], out_tile[LSI_CONVERT_TILE];            \
        const float *lefts = lsi_convert_load(&a->first, begin, n, left_tile);                                  \
        const float *rights = lsi_convert_load(&a->second, begin, n, right_tile);                               \
        float *out = lsi_convert_target(&a->result, begin, out_tile);                                           \
                                                                                                                \
        LSI_INDEPENDENT                                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                                       \
            float left = lefts[i], right = rights[i];                                                           \
            out[i] = (expression);                                                                              \
        }                                                                                                       \
        lsi_convert_store(&a->result, begin, n, out);                                                           \
    }                                                                                                           \
    ELEMENTWISE(op, result, &a.first, &a.second, &a.result)

/* dx = dy times the slope at x. */
#define BACKWARD(op, expression) OF_TWO(op, x, dy, dx, expression)

FORWARD(gelu_fwd, lsi_gelu(x))
BACKWARD(gelu_bwd, right * lsi_gelu_slope(left))

FORWARD(relu_fwd, x < 0.0f ? 0.0f : x)
BACKWARD(relu_bwd, left <= 0.0f ? 0.0f : right)

FORWARD(sigmoid_fwd, lsi_sigmoid(x).value)
BACKWARD(sigmoid_bwd, right * lsi_sigmoid(left).slope)

/* tanh x = 2 sigmoid(2x) - 1 */
FORWARD(tanh_fwd, lsi_tanh(x))
BACKWARD(tanh_bwd, right * (4.0f * lsi_sigmoid(2.0f * left).slope))

OF_TWO(add, a, b, y, left + right)
OF_TWO(mul, a, b, y, left * right)
/* in place: y is read and written */
OF_TWO(add_into, x, y, y, right + left)
