/* RUN: */
/* Initial weights from files: names, types, masks, tied heads, and what is refused. */
#include "support/checkpoint_case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/half.h"
#include "checkpoint/hf_config.h"
#include "checkpoint/import.h"
#include "support/data_file.h"
#include "support/model_case.h"

/* A safetensors file in the making. */
typedef struct file_text {
    lsi_text header, data;
} file_text;

static void add_bytes(file_text *f, const char *name, const char *type, const char *shape, const void *data, size_t n)
{
    lsi_text_append(&f->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                    f->header.length > 0 ? "," : "", name, type, shape, f->data.length, f->data.length + n);
    lsi_text_append_bytes(&f->data, data, n);
}

/* `bits` 32, 16 (f16) or -16 (bf16). */
static void add_param(file_text *f, const char *prefix, const lsi_param *p, const float *values, int bits)
{
    uint16_t *half = malloc((size_t)p->count * sizeof *half);
    char name[200], shape[64];

    snprintf(name, sizeof name, "%s%s", prefix, p->name);
    snprintf(shape, sizeof shape, p->shape.rank == 1 ? "[%" PRId64 "]" : "[%" PRId64 ",%" PRId64 "]", p->shape.dim[0],
             p->shape.dim[1]);
    if (bits == 16) {
        lsi_half_f16_narrow(values, p->count, half);
    } else {
        lsi_half_bf16_narrow(values, p->count, half);
    }
    add_bytes(f, name,
              bits == 32   ? "F32"
              : bits == 16 ? "F16"
                           : "BF16",
              shape, bits == 32 ? (const void *)values : half, (size_t)p->count * (bits == 32 ? 4 : 2));
    free(half);
}

/* All parameters but `without` (may be NULL). */
static void add_params(file_text *f, const checkpoint_case *c, const char *prefix, int bits, const char *without)
{
    for (int i = 0; i < c->params->n; i++) {
        const lsi_param *p = &c->params->param[i];

        if (without == NULL || strcmp(p->name, without) != 0) {
            add_param(f, prefix, p, c->flat[0] + p->offset, bits);
        }
    }
}

static const char *save(file_text *f, const char *name)
{
    lsi_text all = {0};
    uint64_t length = f->header.length + 2;

    lsi_text_append_bytes(&all, (const char *)&length, 8);
    lsi_text_append_bytes(&all, "{", 1);
    lsi_text_append_bytes(&all, f->header.data, f->header.length);
    lsi_text_append_bytes(&all, "}", 1);
    lsi_text_append_bytes(&all, f->data.data, f->data.length);
    const char *path = data_file_write(name, all.data, all.length);

    lsi_text_free(&all);
    lsi_text_free(&f->header);
    lsi_text_free(&f->data);
    *f = (file_text){0};
    return path;
}

static ls_status import(const checkpoint_case *c, const char *path, float *flat)
{
    memset(flat, 0xff, (size_t)c->params->n_elements * sizeof *flat);
    return lsi_import_weights(path, c->params, flat);
}

static float *new_flat(const checkpoint_case *c)
{
    float *flat = malloc((size_t)c->params->n_elements * sizeof *flat);

    assert_non_null(flat);
    return flat;
}

/* Every element of parameters and padding is as written, but for rounding to `bits`. */
static void check_weights(const checkpoint_case *c, const float *flat, int bits)
{
    for (int64_t e = 0; e < c->params->n_elements; e++) {
        float x = c->flat[0][e];
        float expected = bits == 32   ? x
                         : bits == 16 ? lsi_half_f16_to_f32(lsi_half_f16_from_f32(x))
                                      : lsi_half_bf16_to_f32(lsi_half_bf16_from_f32(x));

        assert_memory_equal(&flat[e], &expected, 4);
    }
}

static void all_types_and_prefixes(void **state)
{
    static const int bits[] = {32, 16, -16};
    static const char *const prefixes[] = {"", "transformer."};
    (void)state;

    for (int which = 0; which < 4; which++) {
        checkpoint_case c;

        checkpoint_case_open(&c, which, 3);
        float *flat = new_flat(&c);
        for (int k = 0; k < 6; k++) {
            file_text f = {0};

            add_bytes(&f, "h.0.attn.bias", "BOOL", "[1,1,1,3]", "abc", 3); /* whatever follows is not aligned */
            add_params(&f, &c, prefixes[k / 3], bits[k % 3], NULL);
            add_bytes(&f, "transformer.h.1.attn.masked_bias", "I64", "[]", "12345678", 8);
            CHECK_OK(import(&c, save(&f, "w.safetensors"), flat));
            check_weights(&c, flat, bits[k % 3]);
        }
        free(flat);
        checkpoint_case_close(&c);
    }
}

static void folders(void **state)
{
    checkpoint_case c;
    file_text f = {0};
    size_t size;
    const char *folder = data_file_path("ckpt");
    (void)state;

    checkpoint_case_open(&c, 2, 3);
    float *flat = new_flat(&c);

    assert_int_equal(mkdir(data_file_path("hub"), 0777), 0);
    CHECK_FAILS(import(&c, data_file_path("hub"), flat), LS_ERR_DATA, "hub/model.safetensors: cannot open");
    checkpoint_case_put(data_file_path("hub"), "model.safetensors.index.json", "{}", 2);
    CHECK_FAILS(import(&c, data_file_path("hub"), flat), LS_ERR_DATA, "hub: the model is cut into several files");
    add_params(&f, &c, "", 32, NULL);
    save(&f, "hub/model.safetensors");
    CHECK_OK(import(&c, data_file_path("hub"), flat));
    check_weights(&c, flat, 32);

    /* A checkpoint of ours is held against its manifest. */
    checkpoint_case_write(&c, folder, 5000);
    CHECK_OK(import(&c, folder, flat));
    check_weights(&c, flat, 32);
    unsigned char *data = checkpoint_case_read(folder, "model.safetensors", &size);

    data[size - 1] ^= 1;
    checkpoint_case_put(folder, "model.safetensors", data, size);
    CHECK_FAILS(import(&c, folder, flat), LS_ERR_CHECKPOINT, "model.safetensors: damaged");
    free(data);
    CHECK_FAILS(import(&c, data_file_path("none"), flat), LS_ERR_DATA, "none: cannot open");
    free(flat);
    checkpoint_case_close(&c);
}

static void heads(void **state)
{
    checkpoint_case tied, untied;
    file_text f = {0};
    (void)state;

    checkpoint_case_open(&tied, 0, 3);
    checkpoint_case_open(&untied, 2, 3);
    float *flat = new_flat(&untied);
    const lsi_param *table = &tied.params->param[0];
    lsi_param head = *table;

    head.name = (char *)(uintptr_t) "lm_head.weight";
    /* A tied head is in the file once more. */
    add_params(&f, &tied, "transformer.", 32, NULL);
    add_param(&f, "", &head, tied.flat[0] + table->offset, 32);
    CHECK_OK(import(&tied, save(&f, "w.safetensors"), flat));
    check_weights(&tied, flat, 32);
    /* Another head: this model would not be the file's. */
    add_params(&f, &untied, "transformer.", 32, NULL);
    CHECK_FAILS(import(&tied, save(&f, "w.safetensors"), flat), LS_ERR_DATA,
                "transformer.lm_head.weight is not the same as transformer.wte.weight: a head of its own needs "
                "model.tied = false");
    add_params(&f, &tied, "", 32, NULL);
    CHECK_FAILS(import(&untied, save(&f, "w.safetensors"), flat), LS_ERR_DATA,
                "has no tensor lm_head.weight, which this model has as [11, 16] (a head that is tied needs model.tied "
                "= true)");
    free(flat);
    checkpoint_case_close(&tied);
    checkpoint_case_close(&untied);
}

static void what_does_not_fit(void **state)
{
    checkpoint_case c;
    file_text f = {0};
    static const char bytes[4 * 16 * 16] = {0};
    (void)state;

    checkpoint_case_open(&c, 0, 3);
    float *flat = new_flat(&c);

    add_params(&f, &c, "", 32, "ln_f.bias");
    CHECK_FAILS(import(&c, save(&f, "w"), flat), LS_ERR_DATA,
                "w: has no tensor ln_f.bias, which this model has as [16]");
    add_params(&f, &c, "", 32, "ln_f.bias");
    add_bytes(&f, "ln_f.bias", "F32", "[4,4]", bytes, 64);
    CHECK_FAILS(import(&c, save(&f, "w"), flat), LS_ERR_DATA,
                "tensor ln_f.bias is [4, 4], but this model has it as [16]");
    add_params(&f, &c, "", 32, "ln_f.bias");
    add_bytes(&f, "transformer.ln_f.bias", "I64", "[16]", bytes, 128);
    CHECK_FAILS(import(&c, save(&f, "w"), flat), LS_ERR_DATA,
                "tensor transformer.ln_f.bias has the unsupported type I64; weights are F32, F16 or BF16");
    add_params(&f, &c, "", 32, NULL);
    add_bytes(&f, "h.2.ln_1.bias", "F32", "[16]", bytes, 64);
    CHECK_FAILS(import(&c, save(&f, "w"), flat), LS_ERR_DATA,
                "tensor h.2.ln_1.bias [16] belongs to no parameter of this model");
    add_params(&f, &c, "", 32, NULL);
    add_bytes(&f, "transformer.ln_f.bias", "F32", "[16]", bytes, 64);
    CHECK_FAILS(import(&c, save(&f, "w"), flat), LS_ERR_DATA, "transformer.ln_f.bias [16] belongs to no parameter");
    free(flat);
    checkpoint_case_close(&c);
}

static void their_configuration(void **state)
{
    ls_config gpt = model_case_gpt(false, 0.25), mlp = model_case_mlp("gelu", 0.0);
    lsi_text text = {0};
    (void)state;

    CHECK_OK(lsi_hf_config(&mlp, 10, &text));
    assert_string_equal(text.data, "");
    CHECK_OK(lsi_hf_config(&gpt, 50257, &text));
    assert_non_null(strstr(text.data, "\"n_embd\": 16,"));
    assert_non_null(strstr(text.data, "\"n_positions\": 6,"));
    assert_non_null(strstr(text.data, "\"vocab_size\": 50257,"));
    assert_non_null(strstr(text.data, "\"eos_token_id\": 50256,"));
    assert_non_null(strstr(text.data, "\"attn_pdrop\": 0.25,"));
    assert_non_null(strstr(text.data, "\"tie_word_embeddings\": false"));
    lsi_text_free(&text);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, data_file_setup, data_file_teardown)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(all_types_and_prefixes),     IN_FOLDER(folders), IN_FOLDER(heads), IN_FOLDER(what_does_not_fit),
        cmocka_unit_test(their_configuration),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
