/* RUN: */
/* Reading checkpoints: whole ones give every element back; damage to any file is seen, and named. */
#include "support/checkpoint_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "support/data_file.h"

enum { PIECE = 5000 };

static ls_status open_and_verify(const char *folder, int n_parts)
{
    lsi_checkpoint *checkpoint;

    LS_TRY(lsi_checkpoint_open(folder, &checkpoint));
    ls_status status = LS_OK;
    for (int part = 0; status == LS_OK && part < n_parts; part++) {
        status = lsi_checkpoint_verify(checkpoint, part, n_parts, NULL);
    }
    lsi_checkpoint_close(&checkpoint);
    return status;
}

/* Reads in pieces of `step` elements and compares with what was written. */
static void check_elements(const checkpoint_case *c, lsi_checkpoint *checkpoint, int64_t step)
{
    float *out = malloc((size_t)step * sizeof *out);

    for (int a = 0; a < c->n_arrays; a++) {
        for (int64_t first = 0; first < c->params->n_elements; first += step) {
            int64_t left = c->params->n_elements - first, count = left < step ? left : step;

            memset(out, 0xff, (size_t)count * sizeof *out);
            CHECK_OK(lsi_checkpoint_read(checkpoint, a, first, count, out));
            assert_memory_equal(out, c->flat[a] + first, (size_t)count * sizeof *out);
        }
    }
    free(out);
}

static void every_element_comes_back(void **state)
{
    (void)state;
    for (int n_arrays = 2; n_arrays <= 3; n_arrays++) {
        checkpoint_case c;
        lsi_checkpoint *checkpoint;

        checkpoint_case_open(&c, n_arrays == 2 ? 4 : 2, n_arrays);
        checkpoint_case_write(&c, data_file_path("ckpt"), PIECE);
        CHECK_OK(open_and_verify(data_file_path("ckpt"), 3));
        CHECK_OK(lsi_checkpoint_open(data_file_path("ckpt"), &checkpoint));
        assert_int_equal(lsi_checkpoint_manifest(checkpoint)->samples, 6400);
        CHECK_OK(lsi_checkpoint_bind(checkpoint, c.params, n_arrays, c.array_name));
        check_elements(&c, checkpoint, 300);
        check_elements(&c, checkpoint, 16384);
        CHECK_OK(lsi_checkpoint_bind(checkpoint, c.params, 1, c.array_name));
        lsi_checkpoint_close(&checkpoint);
        checkpoint_case_close(&c);
    }
}

/* The order of tensors in a file is the writer's; elements are found by name. */
static void other_models_are_refused(void **state)
{
    checkpoint_case tied, untied, mlp;
    lsi_checkpoint *checkpoint;
    static const char *const sgd[] = {"", "momentum"};
    (void)state;

    checkpoint_case_open(&tied, 0, 3);
    checkpoint_case_open(&untied, 2, 3);
    checkpoint_case_open(&mlp, 3, 3);
    checkpoint_case_write(&tied, data_file_path("ckpt"), PIECE);
    CHECK_OK(lsi_checkpoint_open(data_file_path("ckpt"), &checkpoint));
    CHECK_FAILS(lsi_checkpoint_bind(checkpoint, untied.params, 3, untied.array_name), LS_ERR_CHECKPOINT,
                "ckpt/model.safetensors: has no tensor lm_head.weight, which this model has as [11, 16]");
    CHECK_FAILS(lsi_checkpoint_bind(checkpoint, mlp.params, 3, mlp.array_name), LS_ERR_CHECKPOINT, "fc0.weight");
    CHECK_FAILS(lsi_checkpoint_bind(checkpoint, tied.params, 2, sgd), LS_ERR_CHECKPOINT,
                "optimizer.safetensors: has no tensor momentum.wte.weight");
    CHECK_FAILS(lsi_checkpoint_bind(checkpoint, tied.params, 2, tied.array_name), LS_ERR_CHECKPOINT,
                "tensor exp_avg_sq.wte.weight [11, 16] belongs to no parameter");
    lsi_checkpoint_close(&checkpoint);

    checkpoint_case_write(&untied, data_file_path("ckpt"), PIECE);
    CHECK_OK(lsi_checkpoint_open(data_file_path("ckpt"), &checkpoint));
    CHECK_FAILS(lsi_checkpoint_bind(checkpoint, tied.params, 1, tied.array_name), LS_ERR_CHECKPOINT,
                "tensor lm_head.weight [11, 16] belongs to no parameter");
    lsi_param *p = &((lsi_param_table *)(uintptr_t)untied.params)->param[1];
    p->shape.dim[0]++;
    CHECK_FAILS(lsi_checkpoint_bind(checkpoint, untied.params, 1, untied.array_name), LS_ERR_CHECKPOINT,
                "tensor transformer.wpe.weight is [6, 16], but this model has it as [7, 16]");
    p->shape.dim[0]--;
    lsi_checkpoint_close(&checkpoint);
    checkpoint_case_close(&tied);
    checkpoint_case_close(&untied);
    checkpoint_case_close(&mlp);
}

/* ---- damage ---------------------------------------------------------------------------------------------------- */

static void expect_damage(const char *folder, const char *name, int piece)
{
    char message[200];

    CHECK_FAILS(open_and_verify(folder, 1), LS_ERR_CHECKPOINT, "damaged");
    snprintf(message, sizeof message, "%s: damaged", name);
    assert_non_null(strstr(ls_failure_message(), message));
    if (piece > 0) {
        snprintf(message, sizeof message, "piece %d of", piece);
        assert_non_null(strstr(ls_failure_message(), message));
    }
}

/* Every `stride`-th byte flipped in turn, truncation, growth, an empty file, none. */
static void damage_file(const char *folder, const char *name, size_t stride)
{
    char path[600];
    size_t size;
    unsigned char *data = checkpoint_case_read(folder, name, &size);

    for (size_t i = 0; i < size; i += stride) {
        data[i] ^= (unsigned char)(1u << (i / stride % 8));
        checkpoint_case_put(folder, name, data, size);
        expect_damage(folder, name, (int)(i / PIECE) + 1);
        data[i] ^= (unsigned char)(1u << (i / stride % 8));
    }
    for (size_t length = 0; length < size; length += size / 5 + 1) {
        checkpoint_case_put(folder, name, data, length);
        expect_damage(folder, name, 0);
    }
    checkpoint_case_put(folder, name, data, size + 1);
    expect_damage(folder, name, 0);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
    CHECK_FAILS(open_and_verify(folder, 1), LS_ERR_CHECKPOINT, name);
    assert_int_equal(mkdir(path, 0777), 0);
    CHECK_FAILS(open_and_verify(folder, 1), LS_ERR_CHECKPOINT, name);
    assert_int_equal(rmdir(path), 0);
    checkpoint_case_put(folder, name, data, size);
    CHECK_OK(open_and_verify(folder, 1));
    free(data);
}

static void any_damage_is_named(void **state)
{
    checkpoint_case c;
    const char *folder = data_file_path("ckpt");
    (void)state;

    checkpoint_case_open(&c, 0, 3);
    checkpoint_case_write(&c, folder, PIECE);
    damage_file(folder, "model.safetensors", 97);
    damage_file(folder, "optimizer.safetensors", 211);
    damage_file(folder, "config.json", 1);
    checkpoint_case_close(&c);
}

/* Each rank verifies its part only; together they see everything. */
static void parts_cover_every_piece(void **state)
{
    checkpoint_case c;
    lsi_checkpoint *checkpoint;
    const char *folder = data_file_path("ckpt");
    size_t size;
    (void)state;

    checkpoint_case_open(&c, 0, 3);
    checkpoint_case_write(&c, folder, PIECE);
    unsigned char *data = checkpoint_case_read(folder, "optimizer.safetensors", &size);
    data[size - 1] ^= 1;
    checkpoint_case_put(folder, "optimizer.safetensors", data, size);
    free(data);
    for (int n_parts = 1; n_parts <= 5; n_parts++) {
        int n_failed = 0;

        CHECK_OK(lsi_checkpoint_open(folder, &checkpoint));
        for (int part = 0; part < n_parts; part++) {
            n_failed += lsi_checkpoint_verify(checkpoint, part, n_parts, NULL) == LS_ERR_CHECKPOINT;
        }
        assert_int_equal(n_failed, 1);
        lsi_checkpoint_close(&checkpoint);
    }
    checkpoint_case_close(&c);
}

/* ---- what is no checkpoint --------------------------------------------------------------------------------------- */

static void no_checkpoints_are_told_apart(void **state)
{
    checkpoint_case c;
    char path[600];
    (void)state;

    checkpoint_case_open(&c, 0, 3);
    CHECK_FAILS(open_and_verify(data_file_path("none"), 1), LS_ERR_CHECKPOINT, "none: there is no such checkpoint");
    CHECK_FAILS(open_and_verify(data_file_write("file", "x", 1), 1), LS_ERR_CHECKPOINT, "file: is not a checkpoint");
    assert_int_equal(mkdir(data_file_path("run"), 0777), 0);
    CHECK_FAILS(open_and_verify(data_file_path("run"), 1), LS_ERR_CHECKPOINT, "run: is not a checkpoint");
    assert_int_equal(mkdir(data_file_path("run/checkpoints"), 0777), 0);
    assert_int_equal(mkdir(data_file_path("run/checkpoints/step-00000007"), 0777), 0);
    checkpoint_case_write(&c, data_file_path("run/checkpoints/step-00000100"), PIECE);
    snprintf(path, sizeof path, "the newest inside is %s/step-00000100", data_file_path("run/checkpoints"));
    CHECK_FAILS(open_and_verify(data_file_path("run"), 1), LS_ERR_CHECKPOINT, path);
    CHECK_FAILS(open_and_verify(data_file_path("run/checkpoints"), 1), LS_ERR_CHECKPOINT, path);
    CHECK_FAILS(open_and_verify(data_file_path("run/checkpoints/step-00000007"), 1), LS_ERR_CHECKPOINT,
                "no manifest.json");
    assert_int_equal(symlink("step-00000100", data_file_path("run/checkpoints/best")), 0);
    CHECK_OK(open_and_verify(data_file_path("run/checkpoints/best"), 1));
    checkpoint_case_close(&c);
}

/* The manifest fits, and yet a file is none, or the weights are not listed. */
static void whole_but_wrong(void **state)
{
    checkpoint_case c;
    const char *folder = data_file_path("ckpt");
    lsi_text text = {0};
    (void)state;

    checkpoint_case_open(&c, 0, 3);
    checkpoint_case_write(&c, folder, PIECE);
    checkpoint_case_put(folder, "model.safetensors", "nonsense, nonsense", 18);
    checkpoint_case_seal(&c, folder, PIECE);
    CHECK_FAILS(open_and_verify(folder, 1), LS_ERR_CHECKPOINT, "model.safetensors: not a whole safetensors file");
    CHECK_OK(lsi_manifest_print(&c.manifest, &text));
    checkpoint_case_put(folder, "manifest.json", text.data, text.length);
    CHECK_FAILS(open_and_verify(folder, 1), LS_ERR_CHECKPOINT, "manifest.json: lists no model.safetensors");
    lsi_text_free(&text);
    checkpoint_case_close(&c);
}

/* ---- the weights hash -------------------------------------------------------------------------------------------- */

static ls_status read_flat(void *argument, int64_t first, int64_t count, float *host)
{
    memcpy(host, (const float *)argument + first, (size_t)count * sizeof *host);
    return LS_OK;
}

static void hash_equals_the_runs(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        checkpoint_case c;
        char expected[33], folder_hash[33], file_hash[33], path[600];
        const char *folder = data_file_path("ckpt");

        checkpoint_case_open(&c, which, 3);
        checkpoint_case_write(&c, folder, PIECE);
        CHECK_OK(lsi_param_hash(c.params, read_flat, c.flat[0], expected));
        CHECK_OK(lsi_checkpoint_weights_hash(folder, folder_hash));
        snprintf(path, sizeof path, "%s/model.safetensors", folder);
        CHECK_OK(lsi_checkpoint_weights_hash(path, file_hash));
        assert_string_equal(folder_hash, expected);
        assert_string_equal(file_hash, expected);
        checkpoint_case_close(&c);
    }
    CHECK_FAILS(lsi_checkpoint_weights_hash(data_file_path("none"), (char[33]){0}), LS_ERR_CHECKPOINT, "none");
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_file_setup, data_file_teardown)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(every_element_comes_back), IN_FOLDER(other_models_are_refused),      IN_FOLDER(any_damage_is_named),
        IN_FOLDER(parts_cover_every_piece),  IN_FOLDER(no_checkpoints_are_told_apart), IN_FOLDER(whole_but_wrong),
        IN_FOLDER(hash_equals_the_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
