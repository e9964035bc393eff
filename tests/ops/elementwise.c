/* RUN: cuda timeout=60 label=contract */
/* gelu, relu, sigmoid, tanh, add, add_into, mul: against double, in place, at the edges of blocks, with values that are
 * no numbers; in every type of activations. */
#include "support/op_case.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static const int64_t sizes[] = {0, 1, 17, 1024, 16383, 16385, 70001};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static double gelu(double x)
{
    double u = sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x);

    return x / (1.0 + exp(-2.0 * u));   /* x (1 + tanh(u)) / 2 without cancellation */
}

static double gelu_slope(double x)
{
    double c = sqrt(2.0 / acos(-1.0)), t = tanh(c * (x + 0.044715 * x * x * x));

    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * c * (1.0 + 3.0 * 0.044715 * x * x);
}

static double relu(double x)
{
    return x < 0.0 ? 0.0 : x;
}

static double relu_slope(double x)
{
    return x <= 0.0 ? 0.0 : 1.0;
}

static double sigmoid(double x)
{
    return x < 0.0 ? exp(x) / (1.0 + exp(x)) : 1.0 / (1.0 + exp(-x));
}

static double sigmoid_slope(double x)
{
    return sigmoid(x) * sigmoid(-x);
}

static double tanh_slope(double x)
{
    return 1.0 / (cosh(x) * cosh(x));
}

static void forward_case(const ls_op *op, void *arguments, ls_view *x_view, ls_view *y_view, double (*function)(double),
                         int64_t n, ls_dtype dtype)
{
    op_case c;

    op_case_open(&c, op, arguments);
    double *y = op_case_doubles(op_case_random_as(&c, x_view, n, 6.0, dtype), n);
    op_case_view(&c, y_view, n, dtype);
    for (int64_t i = 0; i < n; i++) {
        y[i] = function(y[i]);
    }
    op_case_run(&c);
    op_case_expect(&c, y_view, y, 3e-7, 3e-7);
    op_case_expect_as_f32(&c);
    free(y);
    op_case_close(&c);
}

static void forward_is_the_function(const ls_op *op, void *arguments, ls_view *x_view, ls_view *y_view,
                                    double (*function)(double))
{
    for (int s = 0; s < N_SIZES; s++) {
        for (int t = 0; t < OP_CASE_N_TYPES; t++) {
            forward_case(op, arguments, x_view, y_view, function, sizes[s], op_case_types[t]);
        }
    }
}

static void gelu_forward(void **unused)
{
    lsi_gelu_fwd_args a = {0};

    (void)unused;
    forward_is_the_function(&lsi_op_gelu_fwd, &a, &a.x, &a.y, gelu);
}

static void relu_forward(void **unused)
{
    lsi_relu_fwd_args a = {0};

    (void)unused;
    forward_is_the_function(&lsi_op_relu_fwd, &a, &a.x, &a.y, relu);
}

static void sigmoid_forward(void **unused)
{
    lsi_sigmoid_fwd_args a = {0};

    (void)unused;
    forward_is_the_function(&lsi_op_sigmoid_fwd, &a, &a.x, &a.y, sigmoid);
}

static void tanh_forward(void **unused)
{
    lsi_tanh_fwd_args a = {0};

    (void)unused;
    forward_is_the_function(&lsi_op_tanh_fwd, &a, &a.x, &a.y, tanh);
}

/* dx = dy f'(x), into memory of its own or over dy. */
static void backward_case(const ls_op *op, void *arguments, ls_view *x_view, ls_view *dy_view, ls_view *dx_view,
                          double (*slope)(double), int64_t n, ls_dtype dtype, bool in_place)
{
    op_case c;

    op_case_open(&c, op, arguments);
    const float *x = op_case_random_as(&c, x_view, n, 6.0, dtype);
    double *dx = op_case_doubles(op_case_random_as(&c, dy_view, n, 1.0, dtype), n);
    if (in_place) {
        op_case_share(&c, dx_view, dy_view);
    } else {
        op_case_view(&c, dx_view, n, dtype);
    }
    for (int64_t i = 0; i < n; i++) {
        dx[i] *= slope((double)x[i]);
    }
    op_case_run(&c);
    op_case_expect(&c, dx_view, dx, 3e-7, 3e-7);
    op_case_expect_as_f32(&c);
    free(dx);
    op_case_close(&c);
}

static void backward_is_the_slope(const ls_op *op, void *arguments, ls_view *x_view, ls_view *dy_view, ls_view *dx_view,
                                  double (*slope)(double))
{
    for (int s = 0; s < 2 * N_SIZES; s++) {
        for (int t = 0; t < OP_CASE_N_TYPES; t++) {
            backward_case(op, arguments, x_view, dy_view, dx_view, slope, sizes[s / 2], op_case_types[t], s % 2 == 1);
        }
    }
}

static void gelu_backward(void **unused)
{
    lsi_gelu_bwd_args a = {0};

    (void)unused;
    backward_is_the_slope(&lsi_op_gelu_bwd, &a, &a.x, &a.dy, &a.dx, gelu_slope);
}

static void relu_backward(void **unused)
{
    lsi_relu_bwd_args a = {0};

    (void)unused;
    backward_is_the_slope(&lsi_op_relu_bwd, &a, &a.x, &a.dy, &a.dx, relu_slope);
}

static void sigmoid_backward(void **unused)
{
    lsi_sigmoid_bwd_args a = {0};

    (void)unused;
    backward_is_the_slope(&lsi_op_sigmoid_bwd, &a, &a.x, &a.dy, &a.dx, sigmoid_slope);
}

static void tanh_backward(void **unused)
{
    lsi_tanh_bwd_args a = {0};

    (void)unused;
    backward_is_the_slope(&lsi_op_tanh_bwd, &a, &a.x, &a.dy, &a.dx, tanh_slope);
}

/* sum of dy f(x), for differences. */
typedef struct weighted {
    double (*function)(double);
    const double *x, *dy;
    int64_t n;
} weighted;

static double weighted_sum(void *argument)
{
    const weighted *w = argument;
    double sum = 0.0;

    for (int64_t i = 0; i < w->n; i++) {
        sum += w->dy[i] * w->function(w->x[i]);
    }
    return sum;
}

static void check_differences(const ls_op *op, void *arguments, ls_view *x_view, ls_view *dy_view, ls_view *dx_view,
                              double (*function)(double))
{
    int64_t n = 333;
    op_case c;

    op_case_open(&c, op, arguments);
    double *x = op_case_doubles(op_case_random(&c, x_view, n, 5.0), n);
    double *dy = op_case_doubles(op_case_random(&c, dy_view, n, 1.0), n);
    op_case_view(&c, dx_view, n, LS_F32);
    op_case_run(&c);
    op_case_expect_gradient(&c, dx_view, x, n, weighted_sum, &(weighted){function, x, dy, n}, 1e-6);
    free(x);
    free(dy);
    op_case_close(&c);
}

static void backward_agrees_with_differences(void **unused)
{
    lsi_gelu_bwd_args g = {0};
    lsi_sigmoid_bwd_args s = {0};
    lsi_tanh_bwd_args t = {0};

    (void)unused;
    check_differences(&lsi_op_gelu_bwd, &g, &g.x, &g.dy, &g.dx, gelu);
    check_differences(&lsi_op_sigmoid_bwd, &s, &s.x, &s.dy, &s.dx, sigmoid);
    check_differences(&lsi_op_tanh_bwd, &t, &t.x, &t.dy, &t.dx, tanh);
}

/* The tail keeps its relative accuracy, where 1 + tanh is all cancellation. */
static void gelu_tail(void **unused)
{
    lsi_gelu_fwd_args a = {0};
    op_case c;

    (void)unused;
    op_case_open(&c, &lsi_op_gelu_fwd, &a);
    float *x = op_case_view(&c, &a.x, 64, LS_F32);
    op_case_view(&c, &a.y, 64, LS_F32);
    for (int i = 0; i < 64; i++) {
        x[i] = -5.0f - (float)i / 20.0f;
    }
    op_case_run(&c);
    for (int level = 0; level < op_case_levels(); level++) {
        const float *y = op_case_result(&c, &a.y, level);
        for (int i = 0; i < 64; i++) {
            double want = gelu((double)x[i]);
            assert_true(fabs((double)y[i] - want) <= 3e-5 * fabs(want));
        }
    }
    op_case_close(&c);
}

static const float strange[] = {NAN, INFINITY, -INFINITY, -0.0f, 0.0f, FLT_MAX, -FLT_MAX, FLT_MIN, -1e-42f, 20.0f,
                                -20.0f};
enum { N_STRANGE = sizeof strange / sizeof strange[0] };

/* Repeated, so that vector and remainder loops both meet every value. */
static float *strange_view(op_case *c, ls_view *view)
{
    float *x = op_case_view(c, view, 7 * N_STRANGE, LS_F32);

    for (int i = 0; i < 7 * N_STRANGE; i++) {
        x[i] = strange[i % N_STRANGE];
    }
    return x;
}

static void gelu_strange_values(void **unused)
{
    static const double want[N_STRANGE] = {NAN, INFINITY, NAN, -0.0, 0.0, FLT_MAX, 0.0, FLT_MIN / 2.0, 0.0, 20.0, 0.0};
    lsi_gelu_fwd_args a = {0};
    lsi_gelu_bwd_args b = {0};
    op_case c;

    (void)unused;
    op_case_open(&c, &lsi_op_gelu_fwd, &a);
    strange_view(&c, &a.x);
    op_case_view(&c, &a.y, 7 * N_STRANGE, LS_F32);
    op_case_run(&c);
    double *y = op_case_zeros(7 * N_STRANGE);
    for (int i = 0; i < 7 * N_STRANGE; i++) {
        y[i] = want[i % N_STRANGE];
    }
    op_case_expect(&c, &a.y, y, 1e-7, 1e-7);
    free(y);
    op_case_close(&c);

    /* Finite inputs have finite gradients, however large. */
    op_case_open(&c, &lsi_op_gelu_bwd, &b);
    const float *x = strange_view(&c, &b.x);
    float *dy = op_case_view(&c, &b.dy, 7 * N_STRANGE, LS_F32);
    op_case_view(&c, &b.dx, 7 * N_STRANGE, LS_F32);
    for (int i = 0; i < 7 * N_STRANGE; i++) {
        dy[i] = 1.0f;
    }
    op_case_run(&c);
    for (int level = 0; level < op_case_levels(); level++) {
        const float *dx = op_case_result(&c, &b.dx, level);
        for (int i = 0; i < 7 * N_STRANGE; i++) {
            assert_true(isnan(x[i]) ? isnan(dx[i]) : isinf(x[i]) || (dx[i] >= 0.0f && dx[i] <= 1.0f));
        }
    }
    op_case_close(&c);
}

static void relu_strange_values(void **unused)
{
    lsi_relu_fwd_args a = {0};
    lsi_relu_bwd_args b = {0};
    double want[7 * N_STRANGE];
    op_case c;

    (void)unused;
    op_case_open(&c, &lsi_op_relu_fwd, &a);
    const float *x = strange_view(&c, &a.x);
    op_case_view(&c, &a.y, 7 * N_STRANGE, LS_F32);
    op_case_run(&c);
    for (int i = 0; i < 7 * N_STRANGE; i++) {
        want[i] = relu((double)x[i]);
    }
    op_case_expect(&c, &a.y, want, 0.0, 0.0);
    op_case_close(&c);

    op_case_open(&c, &lsi_op_relu_bwd, &b);
    x = strange_view(&c, &b.x);
    float *dy = op_case_view(&c, &b.dy, 7 * N_STRANGE, LS_F32);
    op_case_view(&c, &b.dx, 7 * N_STRANGE, LS_F32);
    for (int i = 0; i < 7 * N_STRANGE; i++) {
        dy[i] = i % 2 == 0 ? NAN : 3.0f;
        want[i] = x[i] <= 0.0f ? 0.0 : (double)dy[i];   /* an inactive unit stops even NaN, as PyTorch's does */
    }
    op_case_run(&c);
    op_case_expect(&c, &b.dx, want, 0.0, 0.0);
    op_case_close(&c);
}

/* The function's and the slope's; infinities have no gradient left. */
static void check_strange(const ls_op *fwd, void *arguments, ls_view *x_view, ls_view *y_view, const double *want)
{
    double all[7 * N_STRANGE];
    op_case c;

    op_case_open(&c, fwd, arguments);
    strange_view(&c, x_view);
    op_case_view(&c, y_view, 7 * N_STRANGE, LS_F32);
    for (int i = 0; i < 7 * N_STRANGE; i++) {
        all[i] = want[i % N_STRANGE];
    }
    op_case_run(&c);
    op_case_expect(&c, y_view, all, 3e-7, 3e-7);
    op_case_close(&c);
}

static void check_strange_slope(const ls_op *bwd, void *arguments, ls_view *x_view, ls_view *dy_view, ls_view *dx_view,
                                const double *want)
{
    double all[7 * N_STRANGE];
    op_case c;

    op_case_open(&c, bwd, arguments);
    strange_view(&c, x_view);
    float *dy = op_case_view(&c, dy_view, 7 * N_STRANGE, LS_F32);
    op_case_view(&c, dx_view, 7 * N_STRANGE, LS_F32);
    for (int i = 0; i < 7 * N_STRANGE; i++) {
        dy[i] = 1.0f;
        all[i] = want[i % N_STRANGE];
    }
    op_case_run(&c);
    op_case_expect(&c, dx_view, all, 3e-7, 3e-7);
    op_case_close(&c);
}

static void sigmoid_strange_values(void **unused)
{
    const double tail = exp(-20.0);
    const double value[N_STRANGE] = {NAN, 1.0, 0.0, 0.5, 0.5, 1.0, 0.0, 0.5, 0.5, 1.0, tail};
    const double slope[N_STRANGE] = {NAN, 0.0, 0.0, 0.25, 0.25, 0.0, 0.0, 0.25, 0.25, tail, tail};
    lsi_sigmoid_fwd_args a = {0};
    lsi_sigmoid_bwd_args b = {0};

    (void)unused;
    check_strange(&lsi_op_sigmoid_fwd, &a, &a.x, &a.y, value);
    check_strange_slope(&lsi_op_sigmoid_bwd, &b, &b.x, &b.dy, &b.dx, slope);
}

static void tanh_strange_values(void **unused)
{
    static const double value[N_STRANGE] = {NAN, 1.0, -1.0, -0.0, 0.0, 1.0, -1.0, FLT_MIN, -1e-42, 1.0, -1.0};
    static const double slope[N_STRANGE] = {NAN, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0};
    lsi_tanh_fwd_args a = {0};
    lsi_tanh_bwd_args b = {0};

    (void)unused;
    check_strange(&lsi_op_tanh_fwd, &a, &a.x, &a.y, value);
    check_strange_slope(&lsi_op_tanh_bwd, &b, &b.x, &b.dy, &b.dx, slope);
}

/* One f32 addition is exact in double and rounded once; for 16-bit types once more. */
static void add_case(int64_t n, ls_dtype dtype)
{
    lsi_add_args a = {0};
    lsi_add_into_args b = {0};
    double *sum = op_case_zeros(n);
    op_case c;

    op_case_open(&c, &lsi_op_add, &a);
    const float *left = op_case_random_as(&c, &a.a, n, 1.0, dtype), *right = op_case_random_as(&c, &a.b, n, 1.0, dtype);
    op_case_view(&c, &a.y, n, dtype);
    for (int64_t i = 0; i < n; i++) {
        sum[i] = (double)(left[i] + right[i]);
    }
    op_case_run(&c);
    op_case_expect(&c, &a.y, sum, 0.0, 0.0);
    op_case_expect_as_f32(&c);
    op_case_close(&c);

    op_case_open(&c, &lsi_op_add_into, &b);
    const float *x = op_case_random_as(&c, &b.x, n, 1.0, dtype), *y = op_case_random_as(&c, &b.y, n, 1.0, dtype);
    for (int64_t i = 0; i < n; i++) {
        sum[i] = (double)(x[i] + y[i]);
    }
    op_case_run(&c);
    op_case_expect(&c, &b.y, sum, 0.0, 0.0);
    op_case_expect_as_f32(&c);
    op_case_close(&c);
    free(sum);
}

/* Into memory of its own, over a or over b. */
static void mul_case(int64_t n, ls_dtype dtype, int over)
{
    lsi_mul_args a = {0};
    double *product = op_case_zeros(n);
    op_case c;

    op_case_open(&c, &lsi_op_mul, &a);
    const float *left = op_case_random_as(&c, &a.a, n, 1.0, dtype), *right = op_case_random_as(&c, &a.b, n, 1.0, dtype);
    if (over > 0) {
        op_case_share(&c, &a.y, over == 1 ? &a.a : &a.b);
    } else {
        op_case_view(&c, &a.y, n, dtype);
    }
    for (int64_t i = 0; i < n; i++) {
        product[i] = (double)(left[i] * right[i]);
    }
    op_case_run(&c);
    op_case_expect(&c, &a.y, product, 0.0, 0.0);
    op_case_expect_as_f32(&c);
    op_case_close(&c);
    free(product);
}

static void sums_and_products_are_exact(void **unused)
{
    (void)unused;
    for (int s = 0; s < N_SIZES; s++) {
        for (int t = 0; t < OP_CASE_N_TYPES; t++) {
            add_case(sizes[s], op_case_types[t]);
            mul_case(sizes[s], op_case_types[t], s % 3);
        }
    }
    mul_case(5000, LS_BF16, 1);
    mul_case(5000, LS_BF16, 2);
}

/* Every pattern there is, NaN and infinities among them. */
static void every_16_bit_value(const ls_op *op, void *arguments, ls_view *x_view, ls_view *y_view)
{
    for (int t = 1; t < OP_CASE_N_TYPES; t++) {
        op_case c;

        op_case_open(&c, op, arguments);
        uint16_t *x = op_case_view(&c, x_view, 65536, op_case_types[t]);
        op_case_view(&c, y_view, 65536, op_case_types[t]);
        for (int i = 0; i < 65536; i++) {
            x[i] = (uint16_t)i;
        }
        op_case_run(&c);
        op_case_expect_as_f32(&c);
        op_case_close(&c);
    }
}

static void every_16_bit_value_goes_through(void **unused)
{
    lsi_gelu_fwd_args g = {0};
    lsi_relu_fwd_args r = {0};
    lsi_sigmoid_fwd_args s = {0};
    lsi_tanh_fwd_args t = {0};

    (void)unused;
    every_16_bit_value(&lsi_op_sigmoid_fwd, &s, &s.x, &s.y);
    every_16_bit_value(&lsi_op_tanh_fwd, &t, &t.x, &t.y);
    every_16_bit_value(&lsi_op_gelu_fwd, &g, &g.x, &g.y);
    every_16_bit_value(&lsi_op_relu_fwd, &r, &r.x, &r.y);
}

/* 60,000 + 60,000 is more than f16 holds, and not more than bf16. */
static void overflow_is_infinity(void **unused)
{
    (void)unused;
    for (int t = 1; t < OP_CASE_N_TYPES; t++) {
        lsi_add_into_args a = {0};
        float x[2] = {60000.0f, -60000.0f};
        op_case c;

        op_case_open(&c, &lsi_op_add_into, &a);
        op_case_fill(&c, &a.x, x, 2, op_case_types[t]);
        op_case_fill(&c, &a.y, x, 2, op_case_types[t]);
        double sum = op_case_types[t] == LS_F16 ? (double)INFINITY : 2.0 * (double)x[0];
        op_case_run(&c);
        op_case_expect(&c, &a.y, (double[]){sum, -sum}, 0.0, 0.0);
        op_case_close(&c);
    }
}

static void refuse_mixed_types(void **unused)
{
    lsi_relu_fwd_args r = {0};
    op_case c;

    (void)unused;
    op_case_open(&c, &lsi_op_relu_fwd, &r);
    op_case_view(&c, &r.x, 8, LS_F16);
    op_case_view(&c, &r.y, 8, LS_BF16);
    CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, "relu_fwd: views of 8 elements of f16 and 8 of bf16");
    op_case_close(&c);
    op_case_open(&c, &lsi_op_relu_fwd, &r);
    op_case_view(&c, &r.x, 8, LS_F64);
    op_case_view(&c, &r.y, 8, LS_F64);
    CHECK_FAILS(op_case_try(&c), LS_ERR_INTERNAL, "relu_fwd: a view of 8 elements is f64; choices: f32, f16, bf16");
    op_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gelu_forward),
        cmocka_unit_test(gelu_backward),
        cmocka_unit_test(backward_agrees_with_differences),
        cmocka_unit_test(gelu_tail),
        cmocka_unit_test(gelu_strange_values),
        cmocka_unit_test(relu_forward),
        cmocka_unit_test(relu_backward),
        cmocka_unit_test(relu_strange_values),
        cmocka_unit_test(sigmoid_forward),
        cmocka_unit_test(sigmoid_backward),
        cmocka_unit_test(sigmoid_strange_values),
        cmocka_unit_test(tanh_forward),
        cmocka_unit_test(tanh_backward),
        cmocka_unit_test(tanh_strange_values),
        cmocka_unit_test(sums_and_products_are_exact),
        cmocka_unit_test(every_16_bit_value_goes_through),
        cmocka_unit_test(overflow_is_infinity),
        cmocka_unit_test(refuse_mixed_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
