/* RUN: */
/* Equal content, equal samples; another byte, order, context or part, another content: and never a path. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/content.h"
#include "data/datasets.h"
#include "data/slice.h"
#include "support/data_file.h"

enum { TEXT_MAX = 256 };

/* Takes the content and closes. */
static void take(ls_dataset *data, char out[TEXT_MAX])
{
    assert_non_null(data->content);
    assert_null(strchr(data->content, '/'));
    assert_true((size_t)snprintf(out, TEXT_MAX, "%s", data->content) < TEXT_MAX);
    lsi_dataset_close(&data);
}

/* ---- idx --------------------------------------------------------------------------------------------------------- */

typedef struct idx_case {
    bool gzip;
    int rank;
    int64_t dims[3];
    int pixel, label; /* one of them that is changed, -1: none */
    const char *name;
} idx_case;

static void idx_content(const idx_case *c, char out[TEXT_MAX])
{
    unsigned char pixels[40], labels[10];
    char images_name[64], labels_name[64];
    ls_dataset *data;

    for (int i = 0; i < 40; i++) {
        pixels[i] = (unsigned char)(7 * i + (i == c->pixel));
    }
    for (int i = 0; i < 10; i++) {
        labels[i] = (unsigned char)(i % 3 + 3 * (i == c->label));
    }
    snprintf(images_name, sizeof images_name, "%s-images", c->name);
    snprintf(labels_name, sizeof labels_name, "%s-labels", c->name);
    const char *images_path = data_file_write_idx(images_name, c->gzip, c->rank, c->dims, pixels);
    const char *labels_path = data_file_write_idx(labels_name, c->gzip, 1, &(int64_t){10}, labels);
    CHECK_OK(lsi_dataset_idx(images_path, labels_path, 10, &data));
    take(data, out);
}

static void images_and_labels_count(void **state)
{
    static const idx_case plain = {false, 3, {10, 2, 2}, -1, -1, "a"};
    static const idx_case same[] = {
        {false, 3, {10, 2, 2}, -1, -1, "b"},
        {true, 3, {10, 2, 2}, -1, -1, "c"},
        {false, 2, {10, 4}, -1, -1, "d"},
    };
    char first[TEXT_MAX], other[TEXT_MAX];

    (void)state;
    idx_content(&plain, first);
    assert_int_equal(strncmp(first, "idx: images 10 x 4, labels 10, xxh3 ", 36), 0);
    assert_int_equal(strlen(first), 36 + 32);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        idx_content(&same[i], other);
        assert_string_equal(other, first);
    }
    for (int i = 0; i < 50; i++) {
        idx_case changed = {false, 3, {10, 2, 2}, i < 40 ? i : -1, i < 40 ? -1 : i - 40, "e"};

        idx_content(&changed, other);
        assert_string_not_equal(other, first);
    }
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void text_content(const char *path, int64_t context, char out[TEXT_MAX])
{
    ls_dataset *data;

    CHECK_OK(lsi_dataset_text(path, context, 0, &data));
    take(data, out);
}

static void every_byte_of_a_text_counts(void **state)
{
    char text[] = "It was the best of times, it was the worst of times.", first[TEXT_MAX], other[TEXT_MAX];
    size_t size = sizeof text - 1;

    (void)state;
    text_content(data_file_write("one.txt", text, size), 10, first);
    assert_int_equal(strncmp(first, "text: 52 bytes in 6 windows of 10, xxh3 ", 40), 0);
    text_content(data_file_write_gzip("two.gz", text, size), 10, other);
    assert_string_equal(other, first);
    text_content(data_file_path("one.txt"), 11, other);
    assert_string_not_equal(other, first);
    text_content(data_file_write("shorter.txt", text, size - 1), 10, other);
    assert_string_not_equal(other, first);
    for (size_t i = 0; i < size; i++) {
        text[i] ^= 1;
        text_content(data_file_write("changed.txt", text, size), 10, other);
        assert_string_not_equal(other, first);
        text[i] ^= 1;
    }
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static void tokens_content(const char *first, const char *second, int64_t context, char out[TEXT_MAX])
{
    char paths[1024];
    ls_dataset *data;

    snprintf(paths, sizeof paths, "%s,%s", first, second);
    CHECK_OK(lsi_dataset_tokens(paths, context, 0, &data));
    take(data, out);
}

static void shards_count_with_their_order(void **state)
{
    static const uint32_t ids[] = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    uint32_t changed[10];
    char first[TEXT_MAX], other[TEXT_MAX];
    char a[256], b[256];

    (void)state;
    snprintf(a, sizeof a, "%s", data_file_write_shard("a.bin", 2, 4, ids));
    snprintf(b, sizeof b, "%s", data_file_write_shard("b.bin", 2, 6, ids + 4));
    tokens_content(a, b, 3, first);
    assert_int_equal(strncmp(first, "tokens: 10 GPT-2 tokens of 2 shards in 3 windows of 3, xxh3 ", 60), 0);
    tokens_content(a, b, 4, other);
    assert_string_not_equal(other, first);

    /* The same shards elsewhere; then with the order of their names, which is theirs, turned round. */
    const char *c = data_file_write_shard("c.bin", 2, 4, ids);
    tokens_content(c, data_file_write_shard("d.bin", 2, 6, ids + 4), 3, other);
    assert_string_equal(other, first);
    c = data_file_write_shard("c.bin", 2, 6, ids + 4);
    tokens_content(c, data_file_write_shard("d.bin", 2, 4, ids), 3, other);
    assert_string_not_equal(other, first);

    /* The same tokens, cut elsewhere; as 32-bit ones. */
    c = data_file_write_shard("c.bin", 2, 5, ids);
    tokens_content(c, data_file_write_shard("d.bin", 2, 5, ids + 5), 3, other);
    assert_string_not_equal(other, first);
    c = data_file_write_shard("c.bin", 4, 4, ids);
    tokens_content(c, data_file_write_shard("d.bin", 4, 6, ids + 4), 3, other);
    assert_string_not_equal(other, first);

    for (int i = 0; i < 10; i++) {
        memcpy(changed, ids, sizeof ids);
        changed[i] += 256;
        c = data_file_write_shard("c.bin", 2, 4, changed);
        tokens_content(c, data_file_write_shard("d.bin", 2, 6, changed + 4), 3, other);
        assert_string_not_equal(other, first);
    }
}

/* ---- synthetic, parts -------------------------------------------------------------------------------------------- */

static void synthetic_content(const ls_config *config, char out[TEXT_MAX])
{
    ls_dataset *data;

    CHECK_OK(lsi_dataset_synthetic(config, &data));
    take(data, out);
}

static void made_up_data_is_its_recipe(void **state)
{
    ls_config config = {.model = {.kind = "mlp", .context = 8},
                        .data = {.samples = 100, .features = 4, .classes = 3},
                        .train = {.seed = 1}};
    char first[TEXT_MAX], other[TEXT_MAX];

    (void)state;
    synthetic_content(&config, first);
    synthetic_content(&config, other);
    assert_string_equal(other, first);
    for (int i = 0; i < 5; i++) {
        ls_config changed = config;

        changed.train.seed += i == 0;
        changed.data.samples += i == 1;
        changed.data.features += i == 2;
        changed.data.classes += i == 3;
        changed.model.kind = i == 4 ? "gpt" : "mlp";
        synthetic_content(&changed, other);
        assert_string_not_equal(other, first);
    }
}

static void split_content(const char *text, int64_t n_second, lsi_slice_choice choice, char out[2][TEXT_MAX])
{
    ls_dataset *whole, *part[2];

    CHECK_OK(lsi_dataset_text(data_file_write("whole.txt", text, strlen(text)), 3, 0, &whole));
    CHECK_OK(lsi_slice_split(whole, n_second, choice, &part[0], &part[1]));
    take(part[0], out[0]);
    take(part[1], out[1]);
}

static void a_part_says_which(void **state)
{
    static const struct {
        const char *text;
        int64_t n_second;
        lsi_slice_choice choice;
    } others[] = {
        {"abcdefghijklmnopqrstuvwxyz", 3, LSI_SLICE_LAST},
        {"abcdefghijklmnopqrstuvwxyz", 2, LSI_SLICE_SPREAD},
        {"abcdefghijklmnopqrstuvwxyZ", 2, LSI_SLICE_LAST},
    };
    char first[2][TEXT_MAX], other[2][TEXT_MAX];

    (void)state;
    split_content("abcdefghijklmnopqrstuvwxyz", 2, LSI_SLICE_LAST, first);
    split_content("abcdefghijklmnopqrstuvwxyz", 2, LSI_SLICE_LAST, other);
    assert_string_equal(other[0], first[0]);
    assert_string_equal(other[1], first[1]);
    assert_string_not_equal(first[0], first[1]);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        split_content(others[i].text, others[i].n_second, others[i].choice, other);
        assert_string_not_equal(other[0], first[0]);
        assert_string_not_equal(other[1], first[1]);
    }
}

/* ---- the checksum ------------------------------------------------------------------------------------------------ */

static void checksum(const unsigned char *data, int64_t size, int64_t cut, char out[64])
{
    lsi_content_part part[] = {{data, cut}, {data + cut, size - cut}};
    lsi_text text = {0};

    lsi_content_append(part, 2, &text);
    CHECK_OK(lsi_text_status(&text));
    snprintf(out, 64, "%s", text.data);
    lsi_text_free(&text);
}

/* Of much data pieces are read: the ends and those between, wherever the parts meet; and the sizes. */
static void large_data_is_sampled(void **state)
{
    enum { PIECE = LSI_CONTENT_PIECE, N = LSI_CONTENT_N_PIECES };
    const int64_t size = (int64_t)PIECE * N * 2, step = (size - PIECE) / (N - 1);
    unsigned char *data = malloc((size_t)size);
    char first[64], other[64];

    (void)state;
    assert_non_null(data);
    memset(data, 1, (size_t)size);
    checksum(data, size, size / 3, first);
    for (int64_t k = 0; k < N; k++) {
        int64_t at = k == 0 ? 0 : k == N - 1 ? size - 1 : k * step + PIECE / 2;

        data[at]++;
        checksum(data, size, size / 3, other);
        data[at]--;
        assert_string_not_equal(other, first);
    }
    data[step / 2 + PIECE / 2 + PIECE / 4]++; /* between the first piece and the second */
    checksum(data, size, size / 3, other);
    assert_string_equal(other, first);
    checksum(data, size - 1, size / 3, other);
    assert_string_not_equal(other, first);
    checksum(data, size, size / 3 + 1, other);
    assert_string_not_equal(other, first);

    /* At the limit every byte still counts. */
    int64_t whole = (int64_t)PIECE * N;
    checksum(data, whole, 5, first);
    data[PIECE + 12345]++;
    checksum(data, whole, 5, other);
    assert_string_not_equal(other, first);
    free(data);
}

static void memory_may_run_out(void **state)
{
    static const uint32_t ids[] = {5, 6, 7};
    const char *text = data_file_write("t", "abc", 3), *shard = data_file_write_shard("s", 2, 3, ids);
    ls_dataset *data;
    int failures = 0;

    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        for (long k = 1; k < 20; k++) {
            lsi_memory_fail_at(k);
            ls_status status = kind == 0 ? lsi_dataset_text(text, 2, 0, &data) : lsi_dataset_tokens(shard, 2, 0, &data);
            lsi_memory_fail_at(0);
            if (status == LS_OK) {
                lsi_dataset_close(&data);
            } else {
                assert_int_equal(status, LS_ERR_MEMORY);
                failures++;
            }
            test_check_no_memory_live();
        }
    }
    assert_in_range(failures, 8, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(images_and_labels_count, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(every_byte_of_a_text_counts, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(shards_count_with_their_order, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(made_up_data_is_its_recipe, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(a_part_says_which, data_file_setup, data_file_teardown),
        cmocka_unit_test(large_data_is_sampled),
        cmocka_unit_test_setup_teardown(memory_may_run_out, data_file_setup, data_file_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
