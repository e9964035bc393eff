/* RUN: */
/* manifest.json: what is written is read, to the bit; whatever else it says is refused. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "checkpoint/manifest.h"
#include "support/data_file.h"

static char *literal(const char *text)
{
    return (char *)(uintptr_t)text;
}

static lsi_manifest_piece pieces[3] = {{0, 100, {1, 2, 3}}, {100, 50, {255}}, {0, 1, {9}}};
static lsi_manifest_file files[3];

static lsi_manifest make(void)
{
    files[0] = (lsi_manifest_file){literal("model.safetensors"), 150, 2, pieces};
    files[1] = (lsi_manifest_file){literal("config.json"), 1, 1, pieces + 2};
    files[2] = (lsi_manifest_file){literal("empty"), 0, 0, NULL};
    return (lsi_manifest){
        .state = {.attempted = 7,
                  .applied = 5,
                  .in_a_row = 1,
                  .growth_tracker = 3,
                  .hysteresis_left = 2,
                  .skipped = 2,
                  .beta1_power = 0.1,
                  .beta2_power = 1e-310,
                  .unscale = 1.0 / 3.0,
                  .grad_norm = INFINITY,
                  .loss = NAN,
                  .counted = 12,
                  .clip_factor = 0.1f,
                  .learning_rate = -0.0f,
                  .loss_scale = 0x1p-24f,
                  .skip = 1},
        .samples = 448,
        .evaluated = true,
        .best_step = 6,
        .best_loss = -0.0,
        .metrics_bytes = 1234,
        .config = literal("[model]\nkind = \"gpt\"   ; caf\xc3\xa9 \\ \n"),
        .fingerprint = literal("f"),
        .version = literal("1.2"),
        .git = literal("abc"),
        .lanes = 8,
        .n_files = 3,
        .file = files,
    };
}

static void write_text(const char *text, size_t length)
{
    data_file_write("manifest.json", text, length);
}

static void print(const lsi_manifest *m, lsi_text *out)
{
    lsi_text_clear(out);
    CHECK_OK(lsi_manifest_print(m, out));
}

static const char *folder(void)
{
    static char path[512];

    snprintf(path, sizeof path, "%s", data_file_path(""));
    return path;
}

static void what_is_written_is_read(void **state)
{
    lsi_manifest m = make(), back;
    lsi_text text = {0}, again = {0};
    (void)state;

    print(&m, &text);
    write_text(text.data, text.length);
    CHECK_OK(lsi_manifest_read(folder(), &back));
    assert_true(isnan(back.state.loss));
    back.state.loss = m.state.loss;
    assert_memory_equal(&back.state, &m.state, sizeof m.state);
    assert_true(signbit(back.best_loss) && back.best_loss == 0);
    assert_int_equal(back.samples, 448);
    assert_true(back.evaluated);
    assert_int_equal(back.best_step, 6);
    assert_int_equal(back.metrics_bytes, 1234);
    assert_string_equal(back.config, m.config);
    assert_null(back.data);
    assert_string_equal(back.git, "abc");
    assert_int_equal(back.lanes, 8);
    assert_int_equal(back.n_files, 3);
    assert_string_equal(back.file[1].name, "config.json");
    assert_int_equal(back.file[0].n_pieces, 2);
    assert_memory_equal(back.file[0].piece, pieces, 2 * sizeof pieces[0]);
    assert_int_equal(back.file[2].bytes, 0);
    print(&back, &again);
    assert_string_equal(again.data, text.data);
    lsi_manifest_free(&back);
    lsi_text_free(&text);
    lsi_text_free(&again);
}

static void any_changed_byte_is_seen(void **state)
{
    static const unsigned char flips[] = {0x01, 0x20, 0x80, 0xff};
    lsi_manifest m = make(), back;
    lsi_text text = {0};
    (void)state;

    print(&m, &text);
    for (size_t i = 0; i < text.length; i++) {
        for (size_t k = 0; k < sizeof flips; k++) {
            text.data[i] = (char)(text.data[i] ^ flips[k]);
            write_text(text.data, text.length);
            CHECK_FAILS(lsi_manifest_read(folder(), &back), LS_ERR_CHECKPOINT, "manifest.json: damaged");
            text.data[i] = (char)(text.data[i] ^ flips[k]);
        }
    }
    for (size_t length = 0; length < text.length; length++) {
        write_text(text.data, length);
        CHECK_FAILS(lsi_manifest_read(folder(), &back), LS_ERR_CHECKPOINT, "manifest.json: damaged");
    }
    lsi_text_append(&text, " ");
    write_text(text.data, text.length);
    CHECK_FAILS(lsi_manifest_read(folder(), &back), LS_ERR_CHECKPOINT, "manifest.json: damaged");
    lsi_text_free(&text);
}

static void none_at_all(void **state)
{
    lsi_manifest back;
    (void)state;

    CHECK_FAILS(lsi_manifest_read(folder(), &back), LS_ERR_CHECKPOINT, "manifest.json: cannot open");
}

/* A text whose hash is right: what a hostile writer would make. `from` is replaced by `to`. */
static void forge(const char *from, const char *to)
{
    lsi_manifest m = make();
    lsi_text text = {0}, forged = {0};
    unsigned char hash[16];
    char hex[33];

    print(&m, &text);
    char *found = strstr(text.data, from), *body = strchr(text.data, '\n') + 1;

    assert_non_null(found);
    lsi_text_append(&forged, "%.*s%s%s", (int)(found - body), body, to, found + strlen(from));
    lsi_hash128(forged.data, forged.length, hash);
    lsi_hash128_hex(hash, hex);
    lsi_text_clear(&text);
    lsi_text_append(&text, "{\"xxh3_128\":\"%s\",\n%s", hex, forged.data);
    write_text(text.data, text.length);
    lsi_text_free(&text);
    lsi_text_free(&forged);
}

static void hostile_ones_are_refused(void **state)
{
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"\"format\":1", "\"format\":2", "written in format 2"},
        {"\"format\":1", "\"format\":1.0", "'format' is no whole number"},
        {"\"attempted\":7", "\"attempted\":-7", "'attempted'"},
        {"\"attempted\":7", "\"attempted\":4", "5 steps applied of 4"},
        {"\"attempted\":7", "\"attempted\":99999999999999999999", "too big integer"},
        {"\"skip\":1", "\"skip\":4294967297", "'skip' is too large"},
        {"\"samples\":448", "\"samples\":\"448\"", "'samples'"},
        {"\"unscale\":", "\"unscale\":\"much\",\"x\":", "'unscale' is no number"},
        {"\"evaluated\":true", "\"evaluated\":1", "'evaluated'"},
        {"\"lanes\":8", "\"lanes\":0", "'lanes'"},
        {"\"lanes\":8", "\"lanes\":8,\"lanes\":8", "duplicate"},
        {"\"git\":\"abc\"", "\"git\":7", "'git' is no text"},
        {"\"config\":\"", "\"config\":null,\"x\":\"", "'config' is no text"},
        {"config.json", "../config.json", "not the name of a file"},
        {"config.json", "/etc/passwd", "not the name of a file"},
        {"config.json", "..", "not the name of a file"},
        {"config.json", "", "not the name of a file"},
        {"config.json", "manifest.json", "not the name of a file"},
        {"config.json", "model.safetensors", "model.safetensors is listed twice"},
        {"\"bytes\":150", "\"bytes\":149", "piece 2"},
        {"\"bytes\":150", "\"bytes\":151", "have 150 bytes, the file 151"},
        {"\"bytes\":150", "\"bytes\":-1", "'bytes'"},
        {"[100,", "[0,", "piece 1"},
        {"[100,", "[-100,", "piece 1"},
        {"[100,", "[9223372036854775807,", "piece 1"},
        {"[50,\"ff", "[50,\"FF", "piece 2"},
        {"[50,\"ff", "[50,\"f", "piece 2"},
        {"[50,\"ff", "[50,\"ffff", "piece 2"},
        {"\"files\":[", "\"files\":7,\"x\":[", "'files'"},
        {"\"state\":{", "\"state\":7,\"x\":{", "'attempted'"},
    };
    lsi_manifest back;
    (void)state;

    forge("\"format\":1", "\"format\":1");
    CHECK_OK(lsi_manifest_read(folder(), &back));
    lsi_manifest_free(&back);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        forge(cases[i].from, cases[i].to);
        CHECK_FAILS(lsi_manifest_read(folder(), &back), LS_ERR_CHECKPOINT, cases[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(any_changed_byte_is_seen, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(none_at_all, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(hostile_ones_are_refused, data_file_setup, data_file_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
