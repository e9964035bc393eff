/* examples/custom_layer.cu by itself: ordinary CUDA calls, numbers against double, in three orders of threads. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "cusim_exec.h"
#include "custom_layer.h"

enum { ROWS = 3, MAX_COLS = 300, N_ORDERS = 3, SEED = 7 };

#define OK(call) assert_int_equal((call), cudaSuccess)

static ls_view to_device(const float *values, int64_t n)
{
    ls_view view = {NULL, n, LS_F32};

    OK(cudaMalloc(&view.data, (size_t)n * sizeof *values));
    OK(cudaMemcpy(view.data, values, (size_t)n * sizeof *values, cudaMemcpyHostToDevice));
    return view;
}

static double right(const float *x, const float *dy, int64_t n, int64_t i)
{
    double squares = 0, products = 0;

    for (int64_t j = 0; j < n; j++) {
        squares += (double)x[j] * (double)x[j];
        products += dy == NULL ? 0 : (double)x[j] * (double)dy[j];
    }
    double r = 1 / sqrt(squares / (double)n + (double)RMS_EPS);
    return dy == NULL ? r * (double)x[i] : r * (double)dy[i] - products * r * r * r / (double)n * (double)x[i];
}

static void check(int64_t cols, bool backward)
{
    float x[ROWS * MAX_COLS], dy[ROWS * MAX_COLS], y[ROWS * MAX_COLS];
    int64_t n = ROWS * cols;

    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)(i % 17) - 7.5F;
        dy[i] = (float)(i % 23) * 0.25F - 2.0F;
    }
    rms_args a = {.x = to_device(x, n), .y = to_device(y, n), .cols = cols};
    if (backward) {
        a.dy = to_device(dy, n);
    }
    OK(rms_launch(&a, NULL));
    OK(cudaMemcpy(y, a.y.data, (size_t)n * sizeof *y, cudaMemcpyDeviceToHost));
    for (int64_t i = 0; i < n; i++) {
        int64_t row = i / cols * cols;
        double want = right(x + row, backward ? dy + row : NULL, cols, i - row);

        if (fabs((double)y[i] - want) > 1e-5 * (1 + fabs(want))) {
            fail_msg("%lld columns, %s: element %lld is %g, not %g", (long long)cols, backward ? "backward" : "forward",
                     (long long)i, (double)y[i], want);
        }
    }
    OK(cudaFree(a.x.data));
    OK(cudaFree(a.y.data));
    OK(cudaFree(a.dy.data));
}

/* Rows shorter and longer than a block, one that is none's multiple. */
static void rows_are_normalised(void **state)
{
    static const int64_t cols[] = {1, 100, 128, 300};

    (void)state;
    for (int order = 0; order < N_ORDERS; order++) {
        cusim_set_order(order, SEED);
        for (size_t i = 0; i < sizeof cols / sizeof cols[0]; i++) {
            check(cols[i], false);
            check(cols[i], true);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_normalised)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
