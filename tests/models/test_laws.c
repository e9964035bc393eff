/* RUN: timeout=120 */
/* The built-in models and one of real targets: gradients of whole graphs, and the laws that every slot's execution obeys in every type. */
#include "support/model_case.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_TYPES = 3 };
static const ls_dtype types[N_TYPES] = {LS_F32, LS_F16, LS_BF16};

static void test_gradients(void **state)
{
    (void)state;
    for (int which = 0; which < MODEL_CASES; which++) {
        lsi_model m;
        graph_case c;

        model_case_build(which, -1, &m);
        model_case_open(&c, &m, LS_F32, LS_TRAIN, 3, 2, false);
        graph_case_check_gradients(&c);
        graph_case_close(&c);
        ls_graph_destroy(&m.graph);
        test_check_no_memory_live();
    }
}

static void test_precision(void **state)
{
    (void)state;
    for (int which = 0; which < MODEL_CASES; which++) {
        lsi_model m;

        model_case_build(which, -1, &m);
        graph_case_check_precision(m.graph, m.loss, 16, MODEL_VOCAB);
        ls_graph_destroy(&m.graph);
    }
}

/* Neither threads nor what lies in the activation block, gradients or paddings changes a bit. */
static void check_same_bits(const lsi_model *m, ls_dtype compute)
{
    float *first = NULL;
    double first_loss = 0.0;

    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        graph_case c;

        model_case_open(&c, m, compute, LS_TRAIN, 4, n_threads, n_threads == 3);
        size_t bytes = (size_t)c.params->n_elements * sizeof(float);

        c.poison = n_threads == 1 ? 0 : 0xff;
        for (int k = 0; k < c.params->n; k++) {
            const lsi_param *p = &c.params->param[k];

            memset(c.gradients + p->offset, c.poison, (size_t)p->padded_count * sizeof(float));
        }
        double loss = graph_case_run(&c, 0, true);

        graph_case_run(&c, 4, false);
        if (first == NULL) {
            first = malloc(bytes);
            memcpy(first, c.gradients, bytes);
            first_loss = loss;
        }
        assert_true(loss == first_loss && isfinite(loss));
        assert_memory_equal(first, c.gradients, bytes);
        graph_case_close(&c);
    }
    free(first);
}

static void test_same_bits(void **state)
{
    (void)state;
    for (int which = 0; which < MODEL_CASES; which++) {
        lsi_model m;

        model_case_build(which, -1, &m);
        for (int t = 0; t < N_TYPES; t++) {
            check_same_bits(&m, types[t]);
        }
        ls_graph_destroy(&m.graph);
    }
}

/* Two slots of 3 samples accumulated in a lane make the gradient of one slot of 6, dropout included. In 16 bits a GEMM
 * of another shape may round an activation the other way. */
static void check_accumulation(const lsi_model *m, ls_dtype compute, double tolerance)
{
    graph_case whole, half;

    model_case_open(&whole, m, compute, LS_TRAIN, 6, 1, false);
    model_case_open(&half, m, compute, LS_TRAIN, 3, 1, false);
    double loss = graph_case_run(&whole, 10, true), halves = 0.0;

    for (int s = 0; s < 2; s++) {
        memcpy(half.input, (char *)whole.input + s * half.input_count * 4, (size_t)half.input_count * 4);
        memcpy(half.targets, whole.targets + s * half.targets_count, (size_t)half.targets_count * 4);
        halves += graph_case_run(&half, 10 + 3 * s, s == 0);
    }
    assert_true(fabs(halves - loss) < tolerance * loss);
    for (int k = 0; k < whole.params->n; k++) {
        const lsi_param *p = &whole.params->param[k];

        /* The key third of this bias has no gradient but rounding. */
        if (strstr(p->name, "c_attn.bias") == NULL) {
            const float *a = half.gradients + p->offset, *b = whole.gradients + p->offset;

            assert_true(graph_case_distance(a, b, p->count) < tolerance);
        }
    }
    graph_case_close(&half);
    graph_case_close(&whole);
}

static void test_accumulation(void **state)
{
    static const double tolerance[N_TYPES] = {1e-5, 5e-4, 4e-3};

    (void)state;
    for (int which = 0; which < MODEL_CASES; which++) {
        lsi_model m;

        model_case_build(which, -1, &m);
        for (int t = 0; t < N_TYPES; t++) {
            check_accumulation(&m, types[t], tolerance[t]);
        }
        ls_graph_destroy(&m.graph);
    }
}

/* Without dropout all modes make the same bits; with it, eval and infer are as if there were none, and train is not. */
static void check_modes(int which, ls_dtype compute, bool dropped)
{
    lsi_model bare, m;
    graph_case train, eval, infer;

    model_case_build(which, 0.0, &bare);
    model_case_build(which, dropped ? 0.3 : 0.0, &m);
    model_case_open(&train, &bare, compute, LS_TRAIN, 4, 1, false);
    model_case_open(&eval, &m, compute, LS_EVAL, 4, 2, true);
    model_case_open(&infer, &m, compute, LS_INFER, 4, 1, true);
    double loss = graph_case_run(&train, 0, true);

    assert_true(graph_case_run(&eval, 5, true) == loss);
    assert_true(eval.record.hits == train.record.hits && eval.record.counted == train.record.counted);
    graph_case_run(&infer, 0, true);
    ls_view a = lsi_plan_output(eval.plan, 0, eval.activations), b = lsi_plan_output(infer.plan, 0, infer.activations);

    assert_true(a.count == b.count && a.dtype == compute && b.dtype == compute);
    assert_memory_equal(a.data, b.data, (size_t)a.count * ls_dtype_bytes(compute));
    assert_true(isfinite(graph_case_element(&a, a.count - 1)));
    graph_case_close(&train);
    if (dropped) {
        model_case_open(&train, &m, compute, LS_TRAIN, 4, 1, false);
        double first = graph_case_run(&train, 0, true);

        assert_true(first != loss && first == graph_case_run(&train, 0, true));
        assert_true(first != graph_case_run(&train, 4, true));  /* other samples of the batch, other masks */
        train.state.attempted = 1;
        assert_true(first != graph_case_run(&train, 0, true));
        graph_case_close(&train);
    }
    graph_case_close(&eval);
    graph_case_close(&infer);
    ls_graph_destroy(&bare.graph);
    ls_graph_destroy(&m.graph);
}

static void test_modes_agree(void **state)
{
    (void)state;
    for (int which = 0; which < MODEL_CASES; which++) {
        for (int t = 0; t < N_TYPES; t++) {
            check_modes(which, types[t], false);
            check_modes(which, types[t], true);
        }
    }
    test_check_no_memory_live();
}

/* The loss scale goes through the whole backward: a power of two changes the gradient's exponents and no bit else, as
 * long as nothing leaves the type's range. In f16 something does: small gradients lose bits. */
static void check_scale(int which, ls_dtype compute)
{
    lsi_model m;
    graph_case c;

    model_case_build(which, -1, &m);
    model_case_open(&c, &m, compute, LS_TRAIN, 4, 1, false);
    int64_t n = c.params->n_elements;
    float *expected = malloc((size_t)n * sizeof *expected);

    c.state.loss_scale = 64.0f;
    graph_case_run(&c, 0, true);
    for (int64_t e = 0; e < n; e++) {
        expected[e] = 4.0f * c.gradients[e];
    }
    c.state.loss_scale = 256.0f;
    graph_case_run(&c, 0, true);
    double distance = graph_case_distance(c.gradients, expected, n);

    assert_true(compute == LS_F16 ? distance < 1e-5 : distance == 0.0);
    free(expected);
    graph_case_close(&c);
    ls_graph_destroy(&m.graph);
}

static void test_loss_scale(void **state)
{
    (void)state;
    for (int which = 0; which < MODEL_CASES; which++) {
        for (int t = 0; t < N_TYPES; t++) {
            check_scale(which, types[t]);
        }
    }
}

/* A slot of ignored targets has no gradient at all, and no NaN. */
static void test_nothing_counted(void **state)
{
    (void)state;
    for (int t = 0; t < 2 * N_TYPES; t++) {
        lsi_model m;
        graph_case c;

        model_case_build(t < N_TYPES ? 1 : MODEL_CASES - 1, -1, &m);
        model_case_open(&c, &m, types[t % N_TYPES], LS_TRAIN, 2, 1, false);
        for (int64_t i = 0; i < c.targets_count; i++) {
            c.targets[i] = -1;
        }
        assert_true(graph_case_run(&c, 0, true) == 0.0);
        assert_true(c.record.counted == 0.0 && c.record.runs == 1.0);
        for (int64_t e = 0; e < c.params->n_elements; e++) {
            assert_true(c.gradients[e] == 0.0f);
        }
        graph_case_close(&c);
        ls_graph_destroy(&m.graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_precision),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_modes_agree),
        cmocka_unit_test(test_loss_scale),
        cmocka_unit_test(test_nothing_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
