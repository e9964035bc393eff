/* RUN: */
/* Thousands of damaged files, the same ones every time: none may crash the reader, and whatever it opens is sound. */
#include "support/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "checkpoint/safetensors.h"
#include "support/data_file.h"

enum { ROOM = 4096, N_DATA = 34, ROUNDS = 6000 };

static const char seed_header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                                  "\"h.0.ln_1.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                                  "\"h.0.attn.bias\":{\"dtype\":\"BOOL\",\"shape\":[1,1,2,2],\"data_offsets\":[16,20]},"
                                  "\"wte.weight\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[20,26]},"
                                  "\"ids\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[26,34]}}     ";

typedef struct bytes {
    unsigned char data[ROOM];
    size_t size;
} bytes;

static void put_length(bytes *b, uint64_t length)
{
    for (int i = 0; i < 8; i++) {
        b->data[i] = (unsigned char)(length >> (8 * i));
    }
}

static bytes make_seed(void)
{
    bytes b = {.size = 8 + sizeof seed_header - 1 + N_DATA};

    put_length(&b, sizeof seed_header - 1);
    memcpy(b.data + 8, seed_header, sizeof seed_header - 1);
    memset(b.data + 8 + sizeof seed_header - 1, 7, N_DATA);
    return b;
}

/* What an opened file claims lies inside it, and every byte can be read. */
static void check_sound(const lsi_safetensors *file)
{
    const unsigned char *end = file->mapping.data + file->mapping.size;
    int64_t covered = 0;
    unsigned sum = 0;

    for (int i = 0; i < file->n; i++) {
        const lsi_tensor *t = &file->tensor[i];
        const unsigned char *data = t->data;

        assert_true(t->count >= 0 && t->bytes >= 0 && data >= file->mapping.data + 8 && data <= end &&
                    t->bytes <= end - data);
        assert_true(t->dtype == LS_REAL || t->bytes == t->count * (int64_t)ls_dtype_bytes(t->dtype));
        assert_true(t->dtype == LS_REAL || ls_shape_count(&t->shape) == t->count);
        for (int64_t k = 0; k < t->bytes; k++) {
            sum += data[k];
        }
        covered += t->bytes;
        assert_true(t->name[0] != '\0' && lsi_safetensors_find(file, t->name) == t);
    }
    assert_true(sum <= 255u * (unsigned)covered);
    assert_true(covered <= (int64_t)file->mapping.size - 8);
}

/* True when it opened. */
static bool try_file(const bytes *b)
{
    lsi_safetensors file;
    ls_status status = lsi_safetensors_open(data_file_write("fuzz", b->data, b->size), &file);

    if (status != LS_OK) {
        assert_true(status == LS_ERR_DATA);
        assert_non_null(strstr(ls_failure_message(), "fuzz: "));
    } else {
        check_sound(&file);
        lsi_safetensors_close(&file);
    }
    assert_int_equal(lsi_memory_live_blocks(), 0);
    return status == LS_OK;
}

/* ---- mutations ------------------------------------------------------------------------------------------------- */

typedef struct source {
    uint64_t key;
    uint32_t count;
} source;

static uint32_t draw(source *s, uint32_t below)
{
    return lsi_random_philox(s->key, s->count++, 0, 0, 0).v[0] % below;
}

static void insert(bytes *b, size_t at, const char *text)
{
    size_t n = strlen(text);

    if (b->size + n <= ROOM) {
        memmove(b->data + at + n, b->data + at, b->size - at);
        memcpy(b->data + at, text, n);
        b->size += n;
    }
}

static void erase(bytes *b, size_t at, size_t n)
{
    n = n < b->size - at ? n : b->size - at;
    memmove(b->data + at, b->data + at + n, b->size - at - n);
    b->size -= n;
}

/* Mostly what a parser may stumble over. */
static void mutate(bytes *b, source *s)
{
    static const char *const pieces[] = {"{",
                                         "}",
                                         "[",
                                         "]",
                                         "\"",
                                         "\\",
                                         ",",
                                         ":",
                                         "-",
                                         "0",
                                         "9",
                                         "e9",
                                         ".",
                                         "null",
                                         "\\u0000",
                                         "\xff",
                                         "\xed\xa0\x80",
                                         "9223372036854775807",
                                         "-1",
                                         "99999999999999999999",
                                         "[[[[[[[[",
                                         "{\"a\":{",
                                         "\"dtype\"",
                                         "1e400",
                                         "\"__metadata__\":",
                                         " ",
                                         "\n",
                                         "F64",
                                         "\"F4\"",
                                         "4294967296,4294967296"};
    size_t at = draw(s, (uint32_t)b->size + 1);

    switch (draw(s, 6)) {
    case 0:
        b->data[at < b->size ? at : 0] ^= (unsigned char)(1u << draw(s, 8));
        break;
    case 1:
        b->data[at < b->size ? at : 0] = (unsigned char)draw(s, 256);
        break;
    case 2:
        insert(b, at, pieces[draw(s, sizeof pieces / sizeof pieces[0])]);
        break;
    case 3:
        erase(b, at, 1 + draw(s, 12));
        break;
    case 4:
        b->size = at;
        break;
    default:
        memmove(b->data + at, b->data + draw(s, (uint32_t)b->size + 1) / 2, (b->size - at) / 4);
        break;
    }
}

static void no_damaged_file_crashes(void **state)
{
    const bytes seed = make_seed();
    int n_opened = 0, n_refused = 0;
    (void)state;

    assert_true(try_file(&seed));
    for (uint64_t round = 0; round < ROUNDS; round++) {
        source s = {.key = lsi_random_key(4, round)};
        bytes b = seed;

        for (uint32_t k = 1 + draw(&s, 4); k > 0 && b.size > 0; k--) {
            mutate(&b, &s);
        }
        /* Half of them with a length that fits again, so that the damage reaches the parser. */
        if (draw(&s, 2) == 0 && b.size >= 8 + N_DATA) {
            put_length(&b, b.size - 8 - N_DATA);
        }
        if (try_file(&b)) {
            n_opened++;
        } else {
            n_refused++;
        }
    }
    /* Damage to data, names and blanks changes nothing that the reader could know. */
    assert_true(n_opened > ROUNDS / 100);
    assert_true(n_refused > ROUNDS / 2);
}

/* Every byte of data and every blank of the header may be anything that belongs there. */
static void what_is_not_essential_may_change(void **state)
{
    const bytes seed = make_seed();
    (void)state;

    for (size_t i = 0; i < seed.size; i++) {
        bool blank = seed.data[i] == ' ' && i >= 8, data = i >= seed.size - N_DATA;
        bytes b = seed;

        if (blank || data) {
            b.data[i] = blank && !data ? '\n' : (unsigned char)(b.data[i] ^ 0xff);
            assert_true(try_file(&b));
        }
    }
}

static void every_truncation_is_refused(void **state)
{
    bytes b = make_seed();
    (void)state;

    while (b.size > 0) {
        b.size--;
        assert_false(try_file(&b));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_damaged_file_crashes, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(what_is_not_essential_may_change, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(every_truncation_is_refused, data_file_setup, data_file_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
