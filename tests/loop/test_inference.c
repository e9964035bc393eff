/* RUN: timeout=120 label=tsan */
/* Logits of an inference session against those of an evaluation plan on the same weights, bit by bit: in every type,
 * with any number of threads, for every length of the window. */
#include "support/test.h"

#include <string.h>

#include "loop/inference.h"
#include "support/model_case.h"

static ls_status take_weights(void *argument, int array, int64_t first, int64_t count, float *out)
{
    const float *weights = argument;

    assert_int_equal(array, LSI_STATE_WEIGHTS);
    memcpy(out, weights + first, (size_t)count * sizeof *out);
    return LS_OK;
}

static ls_status refuse_weights(void *argument, int array, int64_t first, int64_t count, float *out)
{
    (void)argument, (void)array, (void)first, (void)count, (void)out;
    return LS_FAIL(LS_ERR_CHECKPOINT, "torn");
}

/* Row n - 1 of the evaluation's logits, with other tokens behind the n-th than the session has. */
static void check_row(graph_case *c, lsi_inference *session, int64_t n)
{
    int32_t *token = c->input;
    double row[MODEL_VOCAB];

    CHECK_OK(lsi_inference_run(session, token, n, MODEL_VOCAB, row));
    for (int64_t i = n; i < MODEL_CONTEXT; i++) {
        token[i] = (token[i] + 3) % MODEL_VOCAB;
    }
    graph_case_run(c, 0, true);
    ls_view logits = lsi_plan_output(c->plan, 0, c->activations);
    int64_t columns = logits.count / MODEL_CONTEXT;

    for (int64_t i = 0; i < MODEL_VOCAB; i++) {
        double expected = (double)graph_case_element(&logits, (n - 1) * columns + i);

        if (row[i] != expected) {
            fail_msg("%s, %d tokens, logit %d: %.9g, expected %.9g", ls_dtype_name(c->compute), (int)n, (int)i, row[i],
                     expected);
        }
    }
}

static void check(int which, const char *precision, ls_dtype compute, int n_threads)
{
    ls_config config = model_case_gpt(true, 0);
    lsi_model model;
    graph_case c;
    lsi_inference *session;

    config.device.backend = "cpu";
    config.device.poison = true;
    config.precision.compute = precision;
    model_case_build(which, -1, &model);
    model_case_open(&c, &model, compute, LS_EVAL, 1, 1, true);
    lsi_inference_options options = {.config = &config, .model = &model, .n_threads = n_threads,
                                     .source = take_weights, .source_argument = c.weights};

    CHECK_OK(lsi_inference_open(&options, &session));
    assert_int_equal(lsi_inference_context(session), MODEL_CONTEXT);
    for (int64_t n = 1; n <= MODEL_CONTEXT; n++) {
        check_row(&c, session, n);
    }
    lsi_inference_close(&session);
    assert_null(session);
    options.source = refuse_weights;
    CHECK_FAILS(lsi_inference_open(&options, &session), LS_ERR_CHECKPOINT, "torn");
    graph_case_close(&c);
    ls_graph_destroy(&model.graph);
    test_check_no_memory_live();
}

static void logits_are_those_of_an_evaluation(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        check(which, "f32", LS_F32, 1 + which);
        check(which, "f16", LS_F16, 3 - which);
        check(which, "bf16", LS_BF16, 1 + which);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_an_evaluation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
