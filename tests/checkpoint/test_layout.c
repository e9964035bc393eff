/* RUN: */
/* Where elements lie in a checkpoint's files: headers, ranges of any run, packing. */
#include "support/checkpoint_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors.h"
#include "support/data_file.h"

enum { PIECE = 1000 };

/* The files open as safetensors files, hold these tensors in declaration order, and their data begin aligned. */
static void files_are_whole_and_in_order(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        checkpoint_case c;
        lsi_safetensors model, optimizer;
        char path[600];

        checkpoint_case_open(&c, which, 3);
        checkpoint_case_write(&c, data_file_path("ckpt"), PIECE);
        snprintf(path, sizeof path, "%s/model.safetensors", data_file_path("ckpt"));
        CHECK_OK(lsi_safetensors_open(path, &model));
        snprintf(path, sizeof path, "%s/optimizer.safetensors", data_file_path("ckpt"));
        CHECK_OK(lsi_safetensors_open(path, &optimizer));
        assert_string_equal(lsi_safetensors_metadata(&model, "format"), "pt");
        assert_int_equal(model.n, c.params->n);
        assert_int_equal(optimizer.n, 2 * c.params->n);
        assert_int_equal(c.layout.file[0].header_bytes % 8, 0);
        assert_int_equal(c.layout.file[1].header_bytes % 8, 0);
        assert_int_equal((const unsigned char *)model.tensor[0].data - model.mapping.data,
                         c.layout.file[0].header_bytes);
        for (int i = 0; i < c.params->n; i++) {
            const lsi_param *p = &c.params->param[i];

            assert_string_equal(lsi_layout_bare_name(model.tensor[i].name), p->name);
            assert_int_equal(strncmp(model.tensor[i].name, "transformer.", 12) == 0,
                             which == 2 && strcmp(p->name, "lm_head.weight") != 0);
            assert_int_equal(model.tensor[i].shape.rank, p->shape.rank);
            assert_int_equal(model.tensor[i].count, p->count);
            assert_memory_equal(model.tensor[i].data, c.flat[0] + p->offset, (size_t)p->count * 4);
            assert_memory_equal(optimizer.tensor[i].data, c.flat[1] + p->offset, (size_t)p->count * 4);
            assert_memory_equal(optimizer.tensor[c.params->n + i].data, c.flat[2] + p->offset, (size_t)p->count * 4);
            assert_int_equal(strncmp(optimizer.tensor[i].name, "exp_avg.", 8), 0);
            assert_string_equal(optimizer.tensor[c.params->n + i].name + strlen("exp_avg_sq."), p->name);
        }
        lsi_safetensors_close(&model);
        lsi_safetensors_close(&optimizer);
        checkpoint_case_close(&c);
    }
}

/* However the flat index is cut into runs, their bytes follow one another and make the same file; and back. */
static void any_cut_gives_the_same_bytes(void **state)
{
    static const int64_t cuts[] = {1, 7, 256, 1000, 16384, 1 << 20};
    checkpoint_case c;
    (void)state;

    checkpoint_case_open(&c, 0, 2);
    int64_t n = c.params->n_elements;
    float *whole = malloc((size_t)n * 4), *part = malloc((size_t)n * 4), *back = malloc((size_t)n * 4);

    for (int array = 0; array < 2; array++) {
        int64_t start, all;

        lsi_layout_range(&c.layout, array, 0, n, &start, &all);
        assert_int_equal(start, c.layout.array_at[array]);
        assert_int_equal(all, c.params->n_counted * 4);
        lsi_layout_pack(&c.layout, 0, n, c.flat[array], whole);
        for (size_t k = 0; k < sizeof cuts / sizeof cuts[0]; k++) {
            int64_t next = start;

            for (int64_t first = 0; first < n; first += cuts[k]) {
                int64_t count = n - first < cuts[k] ? n - first : cuts[k], at, bytes;

                lsi_layout_range(&c.layout, array, first, count, &at, &bytes);
                assert_int_equal(at, next);
                next += bytes;
                lsi_layout_pack(&c.layout, first, count, c.flat[array] + first, part);
                assert_memory_equal(part, (const char *)whole + (at - start), (size_t)bytes);
                memset(back, 0xff, (size_t)count * 4);
                lsi_layout_unpack(&c.layout, first, count, part, back);
                assert_memory_equal(back, c.flat[array] + first, (size_t)count * 4);
                memcpy(back, c.flat[array] + first, (size_t)count * 4);
                lsi_layout_pack(&c.layout, first, count, back, back);
                assert_memory_equal(back, part, (size_t)bytes);
            }
            assert_int_equal(next, start + all);
        }
    }
    free(whole);
    free(part);
    free(back);
    checkpoint_case_close(&c);
}

static void what_no_file_can_hold(void **state)
{
    checkpoint_case c;
    lsi_layout layout;
    lsi_param param = {.name = (char *)(uintptr_t) "bad\xffname", .shape = {1, {1, 0, 0, 0}}, .count = 1};
    lsi_param_table table = {.n = 1, .param = &param, .n_elements = 16384, .n_counted = 1};
    static const char *const names[] = {"", "a", "b", "c"};
    (void)state;

    checkpoint_case_open(&c, 0, 3);
    CHECK_FAILS(lsi_layout_make(&table, 1, names, &layout), LS_ERR_CHECKPOINT, "not UTF-8");
    CHECK_FAILS(lsi_layout_make(c.params, 4, names, &layout), LS_ERR_INTERNAL, "4 arrays");
    param.name = (char *)(uintptr_t) "quote \" and \\";
    CHECK_OK(lsi_layout_make(&table, 1, names, &layout));
    assert_non_null(strstr(layout.file[0].header + 8, "\"quote \\\" and \\\\\":{\"dtype\""));
    lsi_layout_free(&layout);
    checkpoint_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_are_whole_and_in_order, data_file_setup, data_file_teardown),
        cmocka_unit_test(any_cut_gives_the_same_bytes),
        cmocka_unit_test(what_no_file_can_hold),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
