/* RUN: */
/* Headers that lie are refused, by name; whole files open, whatever types they hold. */
#include "support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"
#include "support/data_file.h"

/* A file of this header and `n_data` bytes 0, 1, 2, ... */
static const char *write_file(const char *header, size_t header_length, size_t n_data)
{
    size_t size = 8 + header_length + n_data;
    unsigned char *bytes = malloc(size);

    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)((uint64_t)header_length >> (8 * i));
    }
    memcpy(bytes + 8, header, header_length);
    for (size_t i = 0; i < n_data; i++) {
        bytes[8 + header_length + i] = (unsigned char)i;
    }
    const char *path = data_file_write("x.safetensors", bytes, size);

    free(bytes);
    return path;
}

static ls_status open_header(const char *header, size_t n_data)
{
    lsi_safetensors file;

    LS_TRY(lsi_safetensors_open(write_file(header, strlen(header), n_data), &file));
    lsi_safetensors_close(&file);
    return LS_OK;
}

#define T(name, type, shape, from, to)                                                                                 \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"

static void whole_files_open(void **state)
{
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"a\":\"\"}," T("late", "F16", "[2,3]", 8, 20) "," T(
            "early", "F32", "[2]", 0, 8) "," T("mask", "BOOL", "[1,1,2,2]", 20,
                                               24) "," T("ids", "I64", "[1]", 24,
                                                         32) "," T("empty", "F32", "[0,5]", 32,
                                                                   32) "," T("deep", "F32", "[1,1,1,1,1,1]", 32,
                                                                             36) "," T("half", "BF16", "[]", 36,
                                                                                       38) "}   ";
    lsi_safetensors file;
    (void)state;

    CHECK_OK(lsi_safetensors_open(write_file(header, sizeof header - 1, 38), &file));
    assert_int_equal(file.n, 7);
    assert_string_equal(file.tensor[0].name, "early");
    assert_string_equal(file.tensor[1].name, "late");
    const lsi_tensor *late = lsi_safetensors_find(&file, "late"), *mask = lsi_safetensors_find(&file, "mask");

    assert_true(late->dtype == LS_F16 && late->count == 6 && late->bytes == 12 && late->shape.dim[1] == 3);
    assert_int_equal(*(const unsigned char *)late->data, 8);
    assert_true(mask->dtype == LS_REAL && mask->shape.rank == 4);
    assert_string_equal(mask->type, "BOOL");
    assert_true(lsi_safetensors_find(&file, "ids")->dtype == LS_REAL);
    assert_true(lsi_safetensors_find(&file, "deep")->dtype == LS_REAL);
    assert_true(lsi_safetensors_find(&file, "half")->dtype == LS_BF16);
    assert_null(lsi_safetensors_find(&file, "none"));
    assert_string_equal(lsi_safetensors_metadata(&file, "format"), "pt");
    assert_null(lsi_safetensors_metadata(&file, "b"));
    lsi_safetensors_close(&file);
    CHECK_OK(open_header("{}", 0));
}

static void lies_are_refused(void **state)
{
    static const struct {
        const char *header;
        size_t n_data;
        const char *message;
    } cases[] = {
        {"", 0, "no JSON object"},
        {" {}", 0, "no JSON object"},
        {"[]", 0, "no JSON object"},
        {"{", 0, "header, byte"},
        {"{}}", 0, "header, byte"},
        {"{\"a\":1}", 0, "tensor a has no dtype"},
        {"{\"a\":{}}", 0, "tensor a has no dtype"},
        {"{\"a\":{\"dtype\":\"F32\"}}", 0, "no list as its shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 0, "no data_offsets"},
        {"{" T("a", "F33", "[1]", 0, 4) "}", 4, "unknown type 'F33'"},
        {"{" T("a", "F32", "[-1]", 0, 4) "}", 4, "impossible extent"},
        {"{" T("a", "F32", "[1.0]", 0, 4) "}", 4, "impossible extent"},
        {"{" T("a", "F32", "[\"1\"]", 0, 4) "}", 4, "impossible extent"},
        {"{" T("a", "F32", "{}", 0, 4) "}", 4, "no list as its shape"},
        {"{" T("a", "F32", "[4294967296,4294967296]", 0, 0) "}", 0, "impossible extent (number 2)"},
        {"{" T("a", "F32", "[9223372036854775807]", 0, 0) "}", 0, "impossible extent"},
        {"{" T("a", "F32", "[99999999999999999999]", 0, 0) "}", 0, "too big integer"},
        {"{" T("a", "F32", "[4611686018427387905]", 0, 4) "}", 4, "impossible extent"},
        {"{" T("a", "F32", "[2]", 0, 4) "}", 4, "has 4 bytes, its shape and type ask for 8"},
        {"{" T("a", "F4", "[3]", 0, 1) "}", 1, "has 1 bytes"},
        {"{" T("a", "F32", "[1]", 0, 5) "}", 5, "has 5 bytes"},
        {"{" T("a", "F32", "[1]", 4, 0) "}", 4, "lies at bytes 4 to 0"},
        {"{" T("a", "F32", "[1]", -4, 0) "}", 4, "lies at bytes -4 to 0"},
        {"{" T("a", "F32", "[1]", 0, 4) "}", 3, "lies at bytes 0 to 4 of 3"},
        {"{" T("a", "F32", "[1]", 0, 4.0) "}", 4, "no data_offsets of two whole numbers"},
        {"{" T("a", "U8", "[2]", 9223372036854775806, 9223372036854775807) "}", 4, "lies at bytes"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}", 1, "no data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":{}}}", 1, "no data_offsets"},
        {"{" T("a", "U8", "[1]", 0, 1) "}", 2, "its last 1 bytes belong to no tensor"},
        {"{}", 1, "its last 1 bytes belong to no tensor"},
        {"{" T("a", "U8", "[1]", 1, 2) "}", 2, "the 1 bytes before tensor a"},
        {"{" T("a", "U8", "[2]", 0, 2) "," T("b", "U8", "[2]", 1, 3) "}", 3, "tensors a and b overlap"},
        {"{" T("a", "U8", "[2]", 0, 2) "," T("b", "U8", "[2]", 0, 2) "}", 2, "tensors a and b overlap"},
        {"{" T("a", "U8", "[2]", 0, 2) "," T("b", "U8", "[0]", 1, 1) "}", 2, "tensors a and b overlap"},
        {"{" T("a", "U8", "[1]", 0, 1) "," T("b", "U8", "[1]", 2, 3) "}", 3, "the 1 bytes before tensor b"},
        {"{" T("a", "U8", "[1]", 0, 1) "," T("a", "U8", "[1]", 1, 2) "}", 2, "duplicate"},
        {"{" T("a", "U8", "[1]", 0, 1) "," T("\\u0061", "U8", "[1]", 1, 2) "}", 2, "duplicate"},
        {"{" T("", "U8", "[1]", 0, 1) "}", 1, "name has 0 bytes"},
        {"{" T("a\xff", "U8", "[1]", 0, 1) "}", 1, "header, byte"},
        {"{" T("a\\u0000", "U8", "[1]", 0, 1) "}", 1, "header, byte"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is not a list of texts"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "metadata a is not a text"},
        {"{\"__metadata__\":{\"a\":\"\"},\"__metadata__\":{\"a\":\"\"}}", 0, "duplicate"},
        {"{\"a\":[[[]]]}", 0, "deeper than 3 levels"},
        {"{\"a\":{\"b\":{\"c\":{}}}}", 0, "deeper than 3 levels"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_FAILS(open_header(cases[i].header, cases[i].n_data), LS_ERR_DATA, cases[i].message);
        assert_non_null(strstr(ls_failure_message(), "x.safetensors: "));
    }
    /* Brackets inside a text are not nesting, whatever is escaped around them. */
    CHECK_OK(open_header("{\"__metadata__\":{\"[[[[{{\\\"[[\\\\\":\"[[[{\"}}", 0));
}

static void names_have_a_limit(void **state)
{
    char header[1200], name[600];
    (void)state;

    memset(name, 'n', sizeof name);
    for (int length = 512; length <= 513; length++) {
        snprintf(header, sizeof header, "{\"%.*s\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", length,
                 name);
        if (length == 512) {
            CHECK_OK(open_header(header, 0));
        } else {
            CHECK_FAILS(open_header(header, 0), LS_ERR_DATA, "name has 513 bytes");
        }
    }
}

/* The stack of a parser that recurses would end long before this header does. */
static void a_million_brackets(void **state)
{
    enum { N = 1 << 20 };
    char *header = malloc(N);
    lsi_safetensors file;
    (void)state;

    memset(header, '[', N);
    memcpy(header, "{\"a\":", 5);
    CHECK_FAILS(lsi_safetensors_open(write_file(header, N, 0), &file), LS_ERR_DATA, "deeper than 3 levels");
    free(header);
}

/* Lengths that the file does not have, or that nobody should parse: refused from the first 8 bytes. */
static void lengths_are_not_believed(void **state)
{
    static const uint64_t lengths[] = {1, 1u << 20, (uint64_t)1 << 40, (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7};
    lsi_safetensors file;
    (void)state;

    CHECK_FAILS(lsi_safetensors_open(data_file_path("none"), &file), LS_ERR_DATA, "none: cannot open");
    for (size_t size = 0; size < 8; size++) {
        CHECK_FAILS(lsi_safetensors_open(data_file_write("short", "\0\0\0\0\0\0\0", size), &file), LS_ERR_DATA,
                    "too short");
    }
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        CHECK_FAILS(lsi_safetensors_open(data_file_write("lie", &lengths[i], 8), &file), LS_ERR_DATA, "in a file of 8");
    }
    const uint64_t large = (100u << 20) + 1;
    const char *path = data_file_write("large", &large, 8);

    assert_int_equal(truncate(path, 200 << 20), 0); /* a hole: takes no room on the disk */
    CHECK_FAILS(lsi_safetensors_open(path, &file), LS_ERR_DATA, "its header has 104857601 bytes");
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_file_setup, data_file_teardown)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(whole_files_open),   IN_FOLDER(lies_are_refused),         IN_FOLDER(names_have_a_limit),
        IN_FOLDER(a_million_brackets), IN_FOLDER(lengths_are_not_believed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
