#include "support/checkpoint_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/random.h"
#include "support/model_case.h"

static const char config_json[] = "{\"model_type\": \"gpt2\"}\n";

static const char *file_names[] = {"model.safetensors", "optimizer.safetensors", "config.json"};
enum { N_FILES = 3 };

static void fill(const lsi_param_table *params, uint64_t key, float *flat)
{
    for (int i = 0; i < params->n; i++) {
        for (int64_t e = 0; e < params->param[i].count; e++) {
            uint32_t word = lsi_random_philox(key, (uint32_t)e, (uint32_t)i, 0, 0).v[0];

            flat[params->param[i].offset + e] = lsi_random_unit(word) - 0.5f;
        }
    }
}

void checkpoint_case_open(checkpoint_case *c, int which, int n_arrays)
{
    ls_compile_options options = {.struct_size = sizeof options, .mode = LS_TRAIN, .micro_batch = 1};
    ls_plan *plan;

    *c = (checkpoint_case){.n_arrays = n_arrays, .array_name = {"", "exp_avg", "exp_avg_sq"}};
    if (n_arrays == 2) {
        c->array_name[1] = "momentum";
    }
    model_case_build(which, 0.0, &c->model);
    options.loss = c->model.loss;
    CHECK_OK(ls_graph_compile(c->model.graph, &options, &plan));
    c->params = lsi_graph_params(c->model.graph);
    for (int a = 0; a < n_arrays; a++) {
        c->flat[a] = calloc((size_t)c->params->n_elements, sizeof(float));
        assert_non_null(c->flat[a]);
        fill(c->params, 7 + (uint64_t)a, c->flat[a]);
    }
    CHECK_OK(lsi_layout_make(c->params, n_arrays, c->array_name, &c->layout));
    c->manifest = (lsi_manifest){
        .state = {.attempted = 100,
                  .applied = 98,
                  .growth_tracker = 40,
                  .hysteresis_left = 1,
                  .skipped = 2,
                  .beta1_power = 0.1,
                  .beta2_power = 0.2,
                  .unscale = 1.0 / 3.0,
                  .grad_norm = 1.5,
                  .loss = 2.5,
                  .counted = 64,
                  .clip_factor = 0.75f,
                  .learning_rate = 1e-3f,
                  .loss_scale = 65536.0f},
        .samples = 6400,
        .best_loss = 0,
        .metrics_bytes = -1,
        .config = (char *)(uintptr_t) "[model]\nkind = \"gpt\"\n",
        .data = (char *)(uintptr_t) "text of 3 bytes",
        .fingerprint = (char *)(uintptr_t) "print",
        .version = (char *)(uintptr_t) "1",
        .git = (char *)(uintptr_t) "abc",
        .lanes = 8,
    };
}

void checkpoint_case_close(checkpoint_case *c)
{
    for (int a = 0; a < c->n_arrays; a++) {
        free(c->flat[a]);
    }
    lsi_layout_free(&c->layout);
    ls_graph_destroy(&c->model.graph);
}

unsigned char *checkpoint_case_read(const char *folder, const char *name, size_t *size)
{
    char path[600];
    struct stat info;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");

    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &info), 0);
    *size = (size_t)info.st_size;
    unsigned char *data = malloc(*size + 1);

    assert_non_null(data);
    assert_int_equal(fread(data, 1, *size, file), *size);
    fclose(file);
    return data;
}

void checkpoint_case_put(const char *folder, const char *name, const void *data, size_t size)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* One of the layout's files: header and arrays, unpadded. */
static void write_layout_file(const checkpoint_case *c, const char *folder, int f)
{
    const lsi_layout_file *file = &c->layout.file[f];
    unsigned char *data = malloc((size_t)file->bytes);

    assert_non_null(data);
    memcpy(data, file->header, file->header_bytes);
    for (int a = 0; a < c->n_arrays; a++) {
        if (lsi_layout_file_of(a) == f) {
            int64_t at, bytes;

            lsi_layout_range(&c->layout, a, 0, c->params->n_elements, &at, &bytes);
            assert_int_equal(bytes, c->params->n_counted * 4);
            lsi_layout_pack(&c->layout, 0, c->params->n_elements, c->flat[a], (float *)(void *)(data + at));
        }
    }
    checkpoint_case_put(folder, file->name, data, (size_t)file->bytes);
    free(data);
}

static void describe_file(const char *folder, const char *name, int64_t piece_bytes, lsi_manifest_file *out)
{
    size_t size;
    unsigned char *data = checkpoint_case_read(folder, name, &size);

    *out = (lsi_manifest_file){.name = (char *)(uintptr_t)name, .bytes = (int64_t)size};
    out->piece = calloc(size / (size_t)piece_bytes + 1, sizeof *out->piece);
    assert_non_null(out->piece);
    for (int64_t at = 0; at < out->bytes; at += piece_bytes) {
        lsi_manifest_piece *piece = &out->piece[out->n_pieces++];

        piece->at = at;
        piece->bytes = out->bytes - at < piece_bytes ? out->bytes - at : piece_bytes;
        lsi_hash128(data + at, (size_t)piece->bytes, piece->hash);
    }
    free(data);
}

void checkpoint_case_seal(const checkpoint_case *c, const char *folder, int64_t piece_bytes)
{
    lsi_manifest_file files[N_FILES];
    lsi_manifest manifest = c->manifest;
    lsi_text text = {0};

    for (int i = 0; i < N_FILES; i++) {
        describe_file(folder, file_names[i], piece_bytes, &files[i]);
    }
    manifest.n_files = N_FILES;
    manifest.file = files;
    CHECK_OK(lsi_manifest_print(&manifest, &text));
    checkpoint_case_put(folder, "manifest.json", text.data, text.length);
    lsi_text_free(&text);
    for (int i = 0; i < N_FILES; i++) {
        free(files[i].piece);
    }
}

void checkpoint_case_write(const checkpoint_case *c, const char *folder, int64_t piece_bytes)
{
    mkdir(folder, 0777);
    for (int f = 0; f < LSI_LAYOUT_N_FILES; f++) {
        write_layout_file(c, folder, f);
    }
    checkpoint_case_put(folder, "config.json", config_json, sizeof config_json - 1);
    checkpoint_case_seal(c, folder, piece_bytes);
}
