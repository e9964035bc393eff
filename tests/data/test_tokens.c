/* RUN: */
#include "support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/datasets.h"
#include "support/data_file.h"

enum { CONTEXT = 4 };

/* Fails unless window k holds the n ids as inputs and targets, padded. */
static void check_window(const ls_dataset *data, int64_t k, int n, const uint32_t *ids)
{
    int32_t input[CONTEXT], targets[CONTEXT];

    CHECK_OK(data->ops->read(data, k, input, targets));
    for (int i = 0; i < CONTEXT; i++) {
        assert_int_equal(input[i], i + 1 < n ? (int32_t)ids[i] : 0);
        assert_int_equal(targets[i], i + 1 < n ? (int32_t)ids[i + 1] : LS_TARGET_IGNORED);
    }
}


static void both_kinds_of_shards(void **state)
{
    uint32_t ids[10] = {5, 50256, 0, 1, 258, 77, 300, 1, 2, 3};
    ls_dataset *data;
    (void)state;

    CHECK_OK(lsi_dataset_tokens(data_file_write_shard("a.bin", 2, 10, ids), CONTEXT, 0, &data));
    assert_int_equal(data->n_samples, 3);
    assert_int_equal(data->n_classes, 50257);
    assert_non_null(strstr(data->description, "10 GPT-2 tokens in 3 windows of 4"));
    check_window(data, 0, 5, ids);
    check_window(data, 1, 5, ids + 4);
    check_window(data, 2, 2, ids + 8);
    lsi_dataset_close(&data);

    ids[1] = 128255;
    CHECK_OK(lsi_dataset_tokens(data_file_write_shard("b.bin", 4, 9, ids), CONTEXT, 0, &data));
    assert_int_equal(data->n_samples, 2);
    assert_int_equal(data->n_classes, 128256);
    check_window(data, 0, 5, ids);
    check_window(data, 1, 5, ids + 4);
    lsi_dataset_close(&data);
}

static void windows_never_cross_files(void **state)
{
    uint32_t ids[40];
    int64_t n[4] = {7, 2, 5, 9};        /* 2 + 1 + 1 + 2 windows */
    ls_dataset *data;
    char list[512];
    (void)state;

    for (uint32_t i = 0; i < 40; i++) {
        ids[i] = 100 + i;
    }
    /* Made in another order than that of their names; capital letters sort before small ones in every locale. */
    data_file_write_shard("b_2.bin", 2, n[3], ids + 30);
    data_file_write_shard("B_1.bin", 2, n[0], ids);
    data_file_write_shard("b_1.bin", 2, n[2], ids + 20);
    data_file_write_shard("b_0.bin", 2, n[1], ids + 10);
    data_file_write_shard("other", 2, n[1], ids);
    snprintf(list, sizeof list, " %s , %s,%s", data_file_path("b_2.bin"), data_file_path("B_*.bin"),
             data_file_path("b_[01].bin"));
    for (int as_list = 0; as_list < 2; as_list++) {
        CHECK_OK(lsi_dataset_tokens(as_list ? list : data_file_path("*.bin"), CONTEXT, 0, &data));
        assert_int_equal(data->n_samples, 6);
        check_window(data, 0, 5, ids);
        check_window(data, 1, 3, ids + 4);
        check_window(data, 2, 2, ids + 10);
        check_window(data, 3, 5, ids + 20);
        check_window(data, 4, 5, ids + 30);
        check_window(data, 5, 5, ids + 34);
        lsi_dataset_close(&data);
    }
}

static void many_files(void **state)
{
    enum { FILES = 41 };
    ls_dataset *data;
    (void)state;

    for (uint32_t i = 0; i < FILES; i++) {
        char name[16];
        uint32_t ids[6] = {i, i, i, i, i, i};

        snprintf(name, sizeof name, "%03u.bin", i);
        data_file_write_shard(name, 2, 6, ids);
    }
    CHECK_OK(lsi_dataset_tokens(data_file_path("*.bin"), CONTEXT, 0, &data));
    assert_int_equal(data->n_samples, 2 * FILES);
    for (uint32_t k = 0; k < 2 * FILES; k++) {
        uint32_t ids[5] = {k / 2, k / 2, k / 2, k / 2, k / 2};

        check_window(data, k, k % 2 ? 2 : 5, ids);
    }
    lsi_dataset_close(&data);
}

static void ids_are_checked_as_they_are_read(void **state)
{
    uint32_t ids[10] = {1, 2, 3, 4, 5, 6, 60000, 8, 9, 10};
    int32_t input[CONTEXT], targets[CONTEXT];
    ls_dataset *data;
    (void)state;

    CHECK_OK(lsi_dataset_tokens(data_file_write_shard("a.bin", 2, 10, ids), CONTEXT, 0, &data));
    check_window(data, 0, 5, ids);
    check_window(data, 2, 2, ids + 8);
    CHECK_FAILS(data->ops->read(data, 1, input, targets), LS_ERR_DATA,
                "/a.bin: token id 60000 at byte 1036 is not below the vocabulary of 50257");
    lsi_dataset_close(&data);

    /* An id that would be negative as int32. */
    ids[6] = UINT32_MAX;
    CHECK_OK(lsi_dataset_tokens(data_file_write_shard("a.bin", 4, 10, ids), CONTEXT, 0, &data));
    CHECK_FAILS(data->ops->read(data, 1, input, targets), LS_ERR_DATA,
                "/a.bin: token id 4294967295 at byte 1048 is not below the vocabulary of 128256");
    lsi_dataset_close(&data);

    /* A given vocabulary, larger or smaller, replaces the kind's. */
    ids[6] = 60000;
    CHECK_OK(lsi_dataset_tokens(data_file_write_shard("a.bin", 2, 10, ids), CONTEXT, 60001, &data));
    assert_int_equal(data->n_classes, 60001);
    check_window(data, 1, 5, ids + 4);
    lsi_dataset_close(&data);
    CHECK_OK(lsi_dataset_tokens(data_file_path("a.bin"), CONTEXT, 9, &data));
    CHECK_FAILS(data->ops->read(data, 2, input, targets), LS_ERR_DATA,
                "/a.bin: token id 9 at byte 1040 is not below the vocabulary of 9");
    lsi_dataset_close(&data);
}

/* More than 4 GiB in a file with holes: offsets are 64-bit. */
static void offsets_are_wide(void **state)
{
    const int64_t n = 1200000001;
    const uint32_t head[3] = {20240801, 7, (uint32_t)n}, tail[2] = {11, 22};
    uint32_t expected[5] = {0, 0, 0, 0, 22};
    const char *path = data_file_path("large.bin");
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    ls_dataset *data;
    (void)state;

    assert_true(fd >= 0);
    if (pwrite(fd, tail, sizeof tail, 1024 + 4 * (n - 2)) != sizeof tail) {
        close(fd);
        skip();             /* this file system has no room for a file with a hole of that size */
    }
    assert_int_equal(pwrite(fd, head, sizeof head, 0), sizeof head);
    close(fd);
    CHECK_OK(lsi_dataset_tokens(path, CONTEXT, 0, &data));
    assert_int_equal(data->n_samples, 300000000);
    expected[3] = 11;
    check_window(data, data->n_samples - 1, 5, expected);
    lsi_dataset_close(&data);
}

static void check_header(int word, uint32_t value, size_t size, const char *message)
{
    unsigned char file[1100] = {0};
    uint32_t head[3] = {20240520, 1, 10};
    ls_dataset *data;

    head[word] = value;
    for (int i = 0; i < 12; i++) {
        file[i] = (unsigned char)(head[i / 4] >> (8 * (i % 4)));
    }
    CHECK_FAILS(lsi_dataset_tokens(data_file_write("a.bin", file, size), CONTEXT, 0, &data), LS_ERR_DATA, message);
}

static void damaged_shards(void **state)
{
    const size_t whole = 1024 + 20;
    (void)state;

    check_header(0, 20240520, 0, "/a.bin: 0 bytes, less than the header of 1024");
    check_header(0, 20240520, 1023, "/a.bin: 1023 bytes, less than the header of 1024");
    check_header(0, 20240519, whole,
                 "/a.bin: not a file of tokens: magic 20240519, expected 20240520 (GPT-2) or 20240801 (Llama 3)");
    check_header(1, 2, whole, "/a.bin: version 2 of GPT-2 shards (magic 20240520), expected 1");
    check_header(2, 11, whole, "/a.bin: truncated: 1044 bytes, expected 1046 for the 11 tokens");
    check_header(2, 9, whole, "/a.bin: too long: 1044 bytes, expected 1042 for the 9 tokens");
    check_header(2, (uint32_t)-1, whole,
                 "/a.bin: truncated: 1044 bytes, expected 8589935614 for the 4294967295 tokens");
    check_header(2, 0, 1024, "/a.bin: holds 0 tokens");
    check_header(2, 1, 1026, "/a.bin: holds 1 tokens");
}

static void files_that_do_not_fit(void **state)
{
    static const uint32_t ids[4] = {1, 2, 3, 4};
    char list[1024];
    ls_dataset *data;
    (void)state;

    CHECK_FAILS(lsi_dataset_tokens(data_file_path("none.bin"), CONTEXT, 0, &data), LS_ERR_DATA,
                "/none.bin: cannot open: No such");
    CHECK_FAILS(lsi_dataset_tokens(data_file_path("*.bin"), CONTEXT, 0, &data), LS_ERR_DATA, "no file matches '");
    assert_int_equal(mkdir(data_file_path("folder.bin"), 0700), 0);
    CHECK_FAILS(lsi_dataset_tokens(data_file_path("*.bin"), CONTEXT, 0, &data), LS_ERR_DATA,
                "/folder.bin: is a directory");
    assert_int_equal(rmdir(data_file_path("folder.bin")), 0);

    data_file_write_shard("a.bin", 2, 4, ids);
    data_file_write_shard("b.bin", 4, 4, ids);
    CHECK_FAILS(lsi_dataset_tokens(data_file_path("*.bin"), CONTEXT, 0, &data), LS_ERR_DATA,
                "/b.bin holds Llama 3 tokens, but ");
    snprintf(list, sizeof list, "%s,%s", data_file_path("a.bin"), data_file_path("a*"));
    CHECK_FAILS(lsi_dataset_tokens(list, CONTEXT, 0, &data), LS_ERR_DATA, "/a.bin: named twice in '");
    snprintf(list, sizeof list, "%s,,%s", data_file_path("a.bin"), data_file_path("b.bin"));
    CHECK_FAILS(lsi_dataset_tokens(list, CONTEXT, 0, &data), LS_ERR_DATA, "an empty name in the list of files");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_kinds_of_shards, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(windows_never_cross_files, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(many_files, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(ids_are_checked_as_they_are_read, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(offsets_are_wide, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(damaged_shards, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(files_that_do_not_fit, data_file_setup, data_file_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
