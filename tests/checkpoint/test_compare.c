/* RUN: */
/* --verify-runs: the first difference is named, whatever cannot be compared is said. */
#include "support/checkpoint_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint/compare.h"
#include "checkpoint/safetensors.h"
#include "support/data_file.h"

enum { PIECE = 5000 };

/* What the reader of a report sees, and whether it says equal. */
static void expect(const char *a, const char *b, bool equal, const char *part, const char *other_part)
{
    lsi_text text = {0};
    bool says_equal = !equal;

    CHECK_OK(lsi_compare_runs(data_file_path(a), data_file_path(b), &text, &says_equal));
    if (says_equal != equal || strstr(text.data, part) == NULL || strstr(text.data, other_part) == NULL) {
        fail_msg("%s and %s: '%s' and '%s' expected, not\n%s", a, b, part, other_part, text.data);
    }
    lsi_text_free(&text);
}

/* ---- lines ---------------------------------------------------------------------------------------------------------
 */

static const char line_1[] = "{\"event\":\"step\",\"step\":1,\"loss\":2.5,\"lr\":0.001,\"step_seconds\":0.5}\n";
static const char line_2[] = "{\"event\":\"step\",\"step\":2,\"loss\":2.25,\"lr\":0.001,\"step_seconds\":0.5}\n";
static const char line_3[] = "{\"event\":\"step\",\"step\":3,\"loss\":\"nan\",\"lr\":0.001,\"samples_per_second\":9}\n";
static const char eval_2[] = "{\"event\":\"eval\",\"step\":2,\"loss\":3.5,\"samples\":10}\n";

static void write_lines(const char *run, const char *a, const char *b, const char *c, const char *d)
{
    lsi_text text = {0};
    char name[64];

    snprintf(name, sizeof name, "%s/metrics.jsonl", run);
    mkdir(data_file_path(run), 0777);
    lsi_text_append(&text, "{\"event\":\"start\",\"world\":%zu}\n%s%s%s%s", strlen(run), a, b, c, d);
    data_file_write(name, text.data, text.length);
    lsi_text_free(&text);
}

static void lines_are_compared(void **state)
{
    (void)state;
    write_lines("a", line_1, line_2, eval_2, line_3);
    write_lines("b_b", "{\"event\":\"step\",\"step\":1,\"loss\":2.5,\"lr\":0.001,\"step_seconds\":0.75,\"mfu\":1}\n",
                line_2, eval_2, line_3);
    expect("a", "b_b", true, "equal: 3 steps, 1 evaluations and 0 checkpoints are equal", "not compared: checkpoints");
    write_lines("c", line_1, "{\"event\":\"step\",\"step\":2,\"loss\":2.2500000000000004,\"lr\":0.001}\n", eval_2, "");
    expect("a", "c", false, "'step' lines: equal up to step 1, different at step 2: loss 2.25 and 2.2500000000000004\n",
           "different: 1");
    write_lines("c", line_1, line_2, line_3, "{\"event\":\"eval\",\"step\":2,\"loss\":3.5,\"samples\":11}\n");
    expect("a", "c", false, "'eval' lines: different at step 2: samples 10 and 11\n", "different: 3 steps");
    write_lines("c", "{\"event\":\"step\",\"step\":1,\"loss\":2.5}\n", line_2, line_3, "");
    expect("a", "c", false, "different at step 1: lr 0.001", " and nothing\n");
    expect("c", "a", false, "different at step 1: lr nothing and 0.001", "different: 0 steps");
    write_lines("c", line_1, line_2, "{\"event\":\"step\",\"step\":3,\"loss\":\"inf\",\"lr\":0.001}\n", "");
    expect("a", "c", false, "different at step 3: loss \"nan\" and \"inf\"", "up to step 2");
}

static void shorter_and_torn_runs(void **state)
{
    lsi_text text = {0};
    bool equal;
    (void)state;

    write_lines("a", line_1, line_2, eval_2, line_3);
    write_lines("b", line_1, "{\"event\":\"step\",\"step\":2,\"lo", "", ""); /* killed while it wrote */
    expect("a", "b", true, "not compared: 2 'step' lines, from step 2 on, that only ", "equal: 1 steps, 0 evaluations");
    expect("b", "a", true, "not compared: 1 'eval' lines, from step 2 on", "equal: 1 steps, 0 evaluations");
    write_lines("c", "", "", "", "");
    expect("a", "c", false, "not compared: 3 'step' lines", "nothing in common");
    write_lines("c", "{\"event\":\"step\",nonsense}\n", line_2, "", "");
    CHECK_FAILS(lsi_compare_runs(data_file_path("a"), data_file_path("c"), &text, &equal), LS_ERR_DATA,
                "metrics.jsonl:2: is not a line of metrics");
    write_lines("c", line_1, line_1, "", "");
    CHECK_FAILS(lsi_compare_runs(data_file_path("c"), data_file_path("c"), &text, &equal), LS_ERR_DATA,
                "metrics.jsonl:3: 'step' of step 1 after that of step 1");
    write_lines("c", "{\"event\":\"eval\",\"loss\":1}\n", "", "", "");
    CHECK_FAILS(lsi_compare_runs(data_file_path("c"), data_file_path("a"), &text, &equal), LS_ERR_DATA,
                "metrics.jsonl:2: a line of 'eval' without its step");
    CHECK_FAILS(lsi_compare_runs(data_file_path("none"), data_file_path("a"), &text, &equal), LS_ERR_USAGE,
                "none: is neither a run's folder");
    lsi_text_free(&text);
}

/* ---- checkpoints ---------------------------------------------------------------------------------------------------
 */

/* RUN/checkpoints/step-00000STEP with c's arrays. */
static const char *write_checkpoint(checkpoint_case *c, const char *run, int step)
{
    char name[100];

    mkdir(data_file_path(run), 0777);
    snprintf(name, sizeof name, "%s/checkpoints", run);
    mkdir(data_file_path(name), 0777);
    snprintf(name, sizeof name, "%s/checkpoints/step-%08d", run, step);
    c->manifest.state.attempted = step;
    c->manifest.state.applied = step;
    const char *folder = data_file_path(name);

    checkpoint_case_write(c, folder, PIECE);
    return folder;
}

/* Flips one bit of a tensor's element in the file, and makes the manifest fit. */
static void plant(const checkpoint_case *c, const char *folder, const char *file, const char *tensor, int64_t element)
{
    size_t size;
    lsi_safetensors opened;
    char path[600];
    unsigned char *data = checkpoint_case_read(folder, file, &size);

    snprintf(path, sizeof path, "%s/%s", folder, file);
    CHECK_OK(lsi_safetensors_open(path, &opened));
    const lsi_tensor *t = lsi_safetensors_find(&opened, tensor);

    assert_non_null(t);
    data[(const unsigned char *)t->data - opened.mapping.data + 4 * element] ^= 1;
    lsi_safetensors_close(&opened);
    checkpoint_case_put(folder, file, data, size);
    checkpoint_case_seal(c, folder, PIECE);
    free(data);
}

static void a_planted_bit_is_named(void **state)
{
    checkpoint_case c;
    int64_t offset;
    (void)state;

    checkpoint_case_open(&c, 2, 3);
    for (int step = 100; step <= 300; step += 100) {
        write_checkpoint(&c, "a", step);
        write_checkpoint(&c, "b", step);
    }
    expect("a", "b", true, "equal: 0 steps, 0 evaluations and 3 checkpoints", "not compared: metrics, which ");
    offset = c.params->param[lsi_param_find(c.params, "h.1.ln_1.weight")].offset;
    c.flat[0][offset + 3] = 1.0f;
    write_checkpoint(&c, "a", 200);
    plant(&c, write_checkpoint(&c, "b", 200), "model.safetensors", "transformer.h.1.ln_1.weight", 3);
    expect("a", "b", false,
           "checkpoints: equal at step 100, different at step 200 in h.1.ln_1.weight[3]: 1 (3f800000) and 1.00000012 "
           "(3f800001); 1 of its 16 elements differ\n",
           "different: 0 steps, 0 evaluations and 1 checkpoints are equal");
    /* Declaration order decides what is first; moments come behind all weights. */
    plant(&c, data_file_path("b/checkpoints/step-00000200"), "model.safetensors", "lm_head.weight", 0);
    plant(&c, data_file_path("b/checkpoints/step-00000200"), "optimizer.safetensors", "exp_avg.wte.weight", 0);
    expect("a", "b", false, "in h.1.ln_1.weight[3]: ", "(3f800001)");
    write_checkpoint(&c, "b", 200);
    plant(&c, data_file_path("b/checkpoints/step-00000200"), "optimizer.safetensors", "exp_avg_sq.wte.weight", 5);
    expect("a", "b", false, "different at step 200 in exp_avg_sq.wte.weight[5]: ", "1 of its 176 elements differ");
    checkpoint_case_close(&c);
}

static void checkpoints_alone_and_with_runs(void **state)
{
    checkpoint_case c, other;
    (void)state;

    checkpoint_case_open(&c, 0, 3);
    checkpoint_case_open(&other, 3, 2);
    write_checkpoint(&c, "a", 100);
    write_checkpoint(&c, "a", 200);
    write_checkpoint(&c, "b", 200);
    expect("a", "b/checkpoints/step-00000200", true, "equal: 0 steps, 0 evaluations and 1 checkpoints", "");
    expect("b/checkpoints/step-00000200", "a/checkpoints/step-00000200", true, "1 checkpoints are equal", "equal: ");
    expect("a/checkpoints/step-00000100", "b", false, "has 1, ", "none of the same step");
    expect("a/checkpoints/step-00000100", "b/checkpoints/step-00000200", false,
           "checkpoints of different steps: 100 and 200", "in the step state: attempted 100 and 200");
    c.manifest.state.loss_scale = 2.0f;
    write_checkpoint(&c, "b", 200);
    expect("a", "b", false, "different at step 200 in the step state: loss_scale 65536.0 and 2.0", "");
    write_checkpoint(&other, "b", 200);
    expect("a", "b", false, "different at step 200 in wte.weight [11, 16]: only the first has it", "");
    checkpoint_case_close(&c);
    checkpoint_case_close(&other);
}

static void damaged_ones_are_passed_over(void **state)
{
    checkpoint_case c;
    size_t size;
    (void)state;

    checkpoint_case_open(&c, 0, 3);
    write_checkpoint(&c, "a", 100);
    write_checkpoint(&c, "a", 200);
    write_checkpoint(&c, "b", 100);
    const char *folder = write_checkpoint(&c, "b", 200);
    unsigned char *data = checkpoint_case_read(folder, "model.safetensors", &size);

    data[size - 1] ^= 1;
    checkpoint_case_put(folder, "model.safetensors", data, size);
    free(data);
    expect("a", "b", true, "step-00000200/model.safetensors: damaged: piece ", "1 checkpoints are equal");
    checkpoint_case_close(&c);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_file_setup, data_file_teardown)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(lines_are_compared),           IN_FOLDER(shorter_and_torn_runs),
        IN_FOLDER(a_planted_bit_is_named),       IN_FOLDER(checkpoints_alone_and_with_runs),
        IN_FOLDER(damaged_ones_are_passed_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
