/* RUN: cuda timeout=100 */
/* Products next to a gelu: on the CPU the bits of the two ops one after the other, in every form and type; on GPUs
 * every algorithm that may make them or a plain product, against double; algorithms as numbers and back. */
#include "support/op_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/gemm_choice.h"
#include "support/backend_case.h"

typedef struct size {
    int64_t m, n, k;
} size;

static const size sizes[] = {{1, 1, 1}, {16, 32, 24}, {17, 5, 33}, {64, 128, 40}, {8, 264, 128}, {5, 8, 0}};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

/* ---- on the CPU ---------------------------------------------------------------------------------------------------
 */

/* The bits that the other case has left: at every level, or at the best one, whose result was the next op's input. */
static void expect_alike(const op_case *c, const ls_view *view, const op_case *other, const ls_view *others,
                         size_t bytes, bool best_only)
{
    for (int level = best_only ? op_case_levels() - 1 : 0; level < op_case_levels(); level++) {
        assert_memory_equal(op_case_result(c, view, level), op_case_result(other, others, level), bytes);
    }
}

static void give_result(op_case *to, ls_view *view, const op_case *from, const ls_view *result, int64_t count,
                        ls_dtype dtype)
{
    memcpy(op_case_view(to, view, count, dtype), op_case_result(from, result, op_case_levels() - 1),
           (size_t)count * ls_dtype_bytes(dtype));
}

static void check_forward(size s, ls_dtype dtype, int form, bool with_bias)
{
    lsi_gemm_gelu_args a = {.m = s.m, .n = s.n, .k = s.k, .trans_a = form & 1, .trans_b = form >> 1};
    lsi_gemm_args product = {.m = s.m, .n = s.n, .k = s.k, .trans_a = form & 1, .trans_b = form >> 1};
    lsi_gelu_fwd_args gelu = {0};
    size_t bytes = (size_t)(s.m * s.n) * ls_dtype_bytes(dtype);
    op_case one, first, second;

    op_case_open(&one, &lsi_op_gemm_gelu, &a);
    const float *left = op_case_random_as(&one, &a.a, s.m * s.k, 1.0, dtype);
    const float *right = op_case_random_as(&one, &a.b, s.k * s.n, 1.0, dtype);
    const float *bias = with_bias ? op_case_random_as(&one, &a.bias, s.n, 1.0, dtype) : NULL;
    op_case_view(&one, &a.x, s.m * s.n, dtype);
    op_case_view(&one, &a.y, s.m * s.n, dtype);
    op_case_run(&one);

    op_case_open(&first, &lsi_op_gemm, &product);
    op_case_fill(&first, &product.a, (float *)(uintptr_t)left, s.m * s.k, dtype);
    op_case_fill(&first, &product.b, (float *)(uintptr_t)right, s.k * s.n, dtype);
    if (with_bias) {
        op_case_fill(&first, &product.bias, (float *)(uintptr_t)bias, s.n, dtype);
    }
    op_case_view(&first, &product.c, s.m * s.n, dtype);
    op_case_run(&first);
    expect_alike(&one, &a.x, &first, &product.c, bytes, false);

    op_case_open(&second, &lsi_op_gelu_fwd, &gelu);
    give_result(&second, &gelu.x, &first, &product.c, s.m * s.n, dtype);
    op_case_view(&second, &gelu.y, s.m * s.n, dtype);
    op_case_run(&second);
    expect_alike(&one, &a.y, &second, &gelu.y, bytes, true);
    op_case_close(&second);
    op_case_close(&first);
    op_case_close(&one);
}

static void check_backward(size s, ls_dtype dtype, int form)
{
    lsi_gemm_gelu_bwd_args a = {.m = s.m, .n = s.n, .k = s.k, .trans_a = form & 1, .trans_b = form >> 1};
    lsi_gemm_args product = {.m = s.m, .n = s.n, .k = s.k, .trans_a = form & 1, .trans_b = form >> 1};
    lsi_gelu_bwd_args gelu = {0};
    size_t bytes = (size_t)(s.m * s.n) * ls_dtype_bytes(dtype);
    op_case one, first, second;

    op_case_open(&one, &lsi_op_gemm_gelu_bwd, &a);
    const float *left = op_case_random_as(&one, &a.a, s.m * s.k, 1.0, dtype);
    const float *right = op_case_random_as(&one, &a.b, s.k * s.n, 1.0, dtype);
    const float *x = op_case_random_as(&one, &a.x, s.m * s.n, 3.0, dtype);
    op_case_view(&one, &a.dx, s.m * s.n, dtype);
    op_case_run(&one);

    op_case_open(&first, &lsi_op_gemm, &product);
    op_case_fill(&first, &product.a, (float *)(uintptr_t)left, s.m * s.k, dtype);
    op_case_fill(&first, &product.b, (float *)(uintptr_t)right, s.k * s.n, dtype);
    op_case_view(&first, &product.c, s.m * s.n, dtype);
    op_case_run(&first);

    op_case_open(&second, &lsi_op_gelu_bwd, &gelu);
    op_case_fill(&second, &gelu.x, (float *)(uintptr_t)x, s.m * s.n, dtype);
    give_result(&second, &gelu.dy, &first, &product.c, s.m * s.n, dtype);
    op_case_view(&second, &gelu.dx, s.m * s.n, dtype);
    op_case_run(&second);
    expect_alike(&one, &a.dx, &second, &gelu.dx, bytes, true);
    op_case_close(&second);
    op_case_close(&first);
    op_case_close(&one);
}

static void bits_of_two_ops(void **unused)
{
    (void)unused;
    SKIP_UNLESS_CPU(test_backend());
    for (int i = 0; i < N_SIZES; i++) {
        for (int t = 0; t < OP_CASE_N_TYPES; t++) {
            for (int form = 0; form < 4; form++) {
                check_forward(sizes[i], op_case_types[t], form, form & 1);
                check_backward(sizes[i], op_case_types[t], form);
            }
        }
    }
}

/* ---- on GPUs ------------------------------------------------------------------------------------------------------
 */

typedef struct gpu {
    ls_device *device;
    ls_stream *stream;
    const lsi_gemm_choices *choices;
    int n_fused, n_split, n_plain; /* algorithms run so far */
} gpu;

/* A view in device memory, filled with uniform numbers of its type in [-1, 1); what they are in double. */
typedef struct matrix {
    void *data;
    size_t bytes;
    double *value;
} matrix;

static float round_to(float value, ls_dtype dtype)
{
    ls_view view;
    uint16_t half[1];
    float out = value;

    if (dtype != LS_F32) {
        view = ls_view_make(half, 1, dtype);
        ls_view_store(&view, 0, 1, &value);
        ls_view_load(&view, 0, 1, &out);
    }
    return out;
}

static void fill(gpu *g, ls_view *view, matrix *out)
{
    size_t bytes = (size_t)view->count * ls_dtype_bytes(view->dtype);
    ls_view host;
    void *memory;

    memset(out, 0, sizeof *out);
    if (view->count == 0) {
        return;
    }
    memory = malloc(bytes);
    out->bytes = bytes;
    out->value = malloc((size_t)view->count * sizeof(double));
    host = ls_view_make(memory, view->count, view->dtype);
    for (int64_t i = 0; i < view->count; i++) {
        float value = round_to((float)(rand() % 2001 - 1000) / 1000, view->dtype);

        ls_view_store(&host, i, 1, &value);
        out->value[i] = (double)value;
    }
    CHECK_OK(g->device->backend->alloc(g->device, LS_MEM_DEVICE, bytes, &out->data));
    CHECK_OK(g->device->backend->copy(g->stream, out->data, memory, bytes));
    CHECK_OK(g->device->backend->stream_sync(g->stream));
    free(memory);
    view->data = out->data;
}

static void *fetch(gpu *g, const matrix *m)
{
    void *out = malloc(m->bytes);

    CHECK_OK(g->device->backend->copy(g->stream, out, m->data, m->bytes));
    CHECK_OK(g->device->backend->stream_sync(g->stream));
    return out;
}

static double slope(double x)
{
    double c = sqrt(2 / M_PI), t = tanh(c * (x + 0.044715 * x * x * x));

    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/* op(a) op(b) + bias, in double; free() it. */
static double *product_of(const lsi_gemm_shape *s, const matrix *a, const matrix *b, const matrix *bias)
{
    double *out = malloc((size_t)(s->m * s->n) * sizeof *out);

    for (int64_t i = 0; i < s->m; i++) {
        for (int64_t j = 0; j < s->n; j++) {
            double sum = s->bias ? bias->value[j] : 0;

            for (int64_t p = 0; p < s->k; p++) {
                sum += a->value[s->trans_a ? p * s->m + i : i * s->k + p] *
                       b->value[s->trans_b ? j * s->k + p : p * s->n + j];
            }
            out[i * s->n + j] = sum;
        }
    }
    return out;
}

/* Within three roundings to the type, of numbers up to `scale`. */
static void expect(const void *memory, int64_t count, ls_dtype dtype, const double *want, double scale)
{
    double rounding = dtype == LS_F32 ? 1e-6 : op_case_rounding(dtype);
    ls_view view = ls_view_make((void *)(uintptr_t)memory, count, dtype);

    for (int64_t i = 0; i < count; i++) {
        float value;

        ls_view_load(&view, i, 1, &value);
        if (!(fabs((double)value - want[i]) <= 3 * rounding * (scale + fabs(want[i])))) {
            fail_msg("element %lld is %g, not %g", (long long)i, (double)value, want[i]);
        }
    }
}

/* The same algorithm from its numbers; numbers that are none are refused. */
static void check_numbers(gpu *g, const lsi_gemm_shape *s, const lsi_gemm_algorithm *algorithm)
{
    lsi_gemm_settings numbers, again;
    lsi_gemm_algorithm made;

    CHECK_OK(g->choices->settings(algorithm, &numbers));
    CHECK_OK(g->choices->make(g->device, s, &numbers, &made));
    CHECK_OK(g->choices->settings(&made, &again));
    assert_memory_equal(&numbers, &again, sizeof numbers);
    bool runs;
    CHECK_OK(g->choices->accepts(g->device, s, &made, &runs));
    assert_true(runs);
    if (!algorithm->split) {
        again.value[LSI_GEMM_SETTING_reduction] = 1; /* in place: in no fixed order */
        again.value[LSI_GEMM_SETTING_split_k] = 2;
        CHECK_FAILS(g->choices->make(g->device, s, &again, &made), LS_ERR_DEVICE, "no fixed order");
        again = numbers;
        again.value[LSI_GEMM_SETTING_id] = 9999;
        CHECK_FAILS(g->choices->make(g->device, s, &again, &made), LS_ERR_DEVICE, "does not know");
        again = numbers;
        again.value[LSI_GEMM_SETTING_cluster] = 1 << 20;
        CHECK_FAILS(g->choices->make(g->device, s, &again, &made), LS_ERR_DEVICE, "cannot be");
    }
}

static void check_shape(gpu *g, lsi_gemm_shape s)
{
    lsi_gemm_algorithm proposal[LSI_GEMM_MAX_PROPOSALS];
    _Alignas(16) unsigned char arguments[LS_OP_MAX_ARGUMENTS] = {0};
    const ls_op *op = lsi_gemm_shape_op(&s, arguments);
    ls_view *view = (void *)arguments;
    int n, n_views = op->n_in + op->n_out + op->n_acc, last = n_views - 1;
    matrix m[LSI_GEMM_MAX_VIEWS] = {0};
    lsi_gemm_shape back;

    for (int i = 0; i < n_views; i++) {
        fill(g, &view[i], &m[i]);
    }
    assert_true(lsi_gemm_shape_of(op, arguments, s.tf32, &back));
    assert_memory_equal(&back, &s, sizeof s);
    double *want = product_of(&s, &m[0], &m[1], &m[2]), *result = malloc((size_t)(s.m * s.n) * sizeof *result);
    for (int64_t i = 0; i < s.m * s.n; i++) {
        result[i] = s.epilogue == LSI_GEMM_GELU       ? gelu(want[i])
                    : s.epilogue == LSI_GEMM_GELU_BWD ? want[i] * slope(m[2].value[i])
                                                      : want[i];
    }
    CHECK_OK(g->choices->propose(g->device, &s, proposal, &n));
    assert_in_range(n, 1, LSI_GEMM_MAX_PROPOSALS);
    for (int p = 0; p < n; p++) {
        check_numbers(g, &s, &proposal[p]);
        CHECK_OK(g->choices->install(g->device, &s, &proposal[p]));
        CHECK_OK(ls_op_launch(g->stream, op, arguments));
        void *first = fetch(g, &m[last]);
        expect(first, s.m * s.n, (ls_dtype)s.c, result, sqrt((double)s.k));
        if (s.epilogue == LSI_GEMM_GELU) {
            void *x = fetch(g, &m[last - 1]);

            expect(x, s.m * s.n, (ls_dtype)s.c, want, sqrt((double)s.k));
            free(x);
        }
        CHECK_OK(ls_op_launch(g->stream, op, arguments));
        void *second = fetch(g, &m[last]);
        assert_memory_equal(first, second, m[last].bytes);
        free(first);
        free(second);
        *(proposal[p].split ? &g->n_split : s.epilogue != LSI_GEMM_PLAIN ? &g->n_fused : &g->n_plain) += 1;
    }
    for (int i = 0; i < n_views; i++) {
        g->device->backend->release(g->device, LS_MEM_DEVICE, m[i].bytes, m[i].data);
        free(m[i].value);
    }
    free(want);
    free(result);
}

static void every_algorithm(void **unused)
{
    gpu g = {0};

    (void)unused;
    if (test_backend()->host_memory) {
        skip();
    }
    g.device = test_device_open(1);
    g.stream = test_stream(g.device, "ops");
    g.choices = lsi_gemm_choices_of(g.device);
    assert_non_null(g.choices);
    assert_non_null(strstr(g.device->backend->describe(g.device), g.choices->model(g.device)));
    assert_non_null(strstr(g.device->backend->describe(g.device), g.choices->library(g.device)));
    for (int i = 0; i < N_SIZES - 1; i++) {
        for (int t = 0; t < OP_CASE_N_TYPES; t++) {
            for (int epilogue = 0; epilogue < LSI_GEMM_EPILOGUE_COUNT; epilogue++) {
                lsi_gemm_shape s = {.m = sizes[i].m,
                                    .n = sizes[i].n,
                                    .k = sizes[i].k,
                                    .trans_a = i & 1,
                                    .trans_b = t & 1,
                                    .factors = (int32_t)op_case_types[t],
                                    .c = (int32_t)op_case_types[t],
                                    .bias = epilogue != LSI_GEMM_GELU_BWD && (i + t) % 2,
                                    .epilogue = epilogue,
                                    .aligned = 1};

                check_shape(&g, s);
            }
        }
    }
    assert_true(g.n_plain > 0 && g.n_split > 0 && g.n_fused > 0);
    g.device->backend->stream_destroy(g.stream);
    test_device_close(g.device);
}

/* What one GPU may be made to do and another not: an algorithm that its kind does not have. */
static void cpu_has_no_choice(void **unused)
{
    ls_device *device = test_device_open(1);

    (void)unused;
    assert_int_equal(lsi_gemm_choices_of(device) == NULL, test_backend()->host_memory);
    test_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_two_ops),
        cmocka_unit_test(every_algorithm),
        cmocka_unit_test(cpu_has_no_choice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
