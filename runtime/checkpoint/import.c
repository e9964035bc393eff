#include "checkpoint/import.h"

#include <string.h>
#include <sys/stat.h>

#include "base/half.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/layout.h"
#include "graph/shape.h"

/* Where weights come from: a file, or the checkpoint that holds it. */
typedef struct source {
    lsi_checkpoint *checkpoint;
    lsi_safetensors own;
    const lsi_safetensors *file;
} source;

/* ---- the file -------------------------------------------------------------------------------------------------- */

static bool has(const char *folder, const char *name)
{
    struct stat info;
    char *path;

    if (lsi_file_join(folder, name, &path) != LS_OK) {
        return false;
    }
    bool found = stat(path, &info) == 0;
    lsi_memory_free(path);
    return found;
}

/* Ours are checked against their manifest before they are believed. */
static ls_status open_checkpoint(const char *folder, source *out)
{
    LS_TRY(lsi_checkpoint_open(folder, &out->checkpoint));
    LS_TRY(lsi_checkpoint_verify(out->checkpoint, 0, 1, NULL));
    out->file = lsi_checkpoint_tensors(out->checkpoint, LSI_LAYOUT_MODEL);
    return LS_OK;
}

static ls_status open_source(const char *path, source *out)
{
    const char *name = lsi_layout_file_name(LSI_LAYOUT_MODEL);
    struct stat info;
    char *file = NULL;

    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        LS_TRY(lsi_safetensors_open(path, &out->own));
        out->file = &out->own;
        return LS_OK;
    }
    if (has(path, "manifest.json")) {
        return open_checkpoint(path, out);
    }
    LS_REQUIRE(has(path, name) || !has(path, "model.safetensors.index.json"), LS_ERR_DATA,
               "%s: the model is cut into several files; initial weights are read from one %s", path, name);
    LS_TRY(lsi_file_join(path, name, &file));
    ls_status status = lsi_safetensors_open(file, &out->own);
    lsi_memory_free(file);
    out->file = &out->own;
    return status;
}

static void close_source(source *s)
{
    lsi_checkpoint_close(&s->checkpoint);
    lsi_safetensors_close(&s->own);
}

/* ---- tensors and parameters ------------------------------------------------------------------------------------ */

static const lsi_tensor *find(const lsi_safetensors *file, const char *name)
{
    for (int i = 0; i < file->n; i++) {
        if (strcmp(lsi_layout_bare_name(file->tensor[i].name), name) == 0) {
            return &file->tensor[i];
        }
    }
    return NULL;
}

/* f32, f16 or bf16 at any address to f32. */
static void widen(const lsi_tensor *tensor, float *out)
{
    enum { CHUNK = 4096 };
    uint16_t half[CHUNK];

    if (tensor->dtype == LS_F32) {
        memcpy(out, tensor->data, (size_t)tensor->bytes);
        return;
    }
    for (int64_t at = 0; at < tensor->count; at += CHUNK) {
        int64_t n = tensor->count - at < CHUNK ? tensor->count - at : CHUNK;

        memcpy(half, (const char *)tensor->data + at * (int64_t)sizeof *half, (size_t)n * sizeof *half);
        if (tensor->dtype == LS_F16) {
            lsi_half_f16_widen(half, n, out + at);
        } else {
            lsi_half_bf16_widen(half, n, out + at);
        }
    }
}

static ls_status read_param(const lsi_safetensors *file, const lsi_param *p, bool *used, float *out)
{
    const lsi_tensor *t = find(file, p->name);

    LS_REQUIRE(t != NULL, LS_ERR_DATA, "%s: has no tensor %s, which this model has as %s%s", file->path, p->name,
               lsi_shape_text(&p->shape).text,
               strcmp(p->name, "lm_head.weight") == 0 ? " (a head that is tied needs model.tied = true)" : "");
    LS_REQUIRE(t->dtype == LS_F32 || t->dtype == LS_F16 || t->dtype == LS_BF16, LS_ERR_DATA,
               "%s: tensor %s has the unsupported type %s; weights are F32, F16 or BF16", file->path, t->name, t->type);
    LS_REQUIRE(lsi_shape_equal(&t->shape, &p->shape), LS_ERR_DATA, "%s: tensor %s is %s, but this model has it as %s",
               file->path, t->name, lsi_shape_text(&t->shape).text, lsi_shape_text(&p->shape).text);
    used[t - file->tensor] = true;
    widen(t, out);
    return LS_OK;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* A tensor that is no parameter: a mask, a head that is tied, or one too many. */
static ls_status check_left_over(const lsi_safetensors *file, const lsi_tensor *t)
{
    const char *name = lsi_layout_bare_name(t->name);

    if (ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias")) {
        return LS_OK;
    }
    const lsi_tensor *table = strcmp(name, "lm_head.weight") == 0 ? find(file, "wte.weight") : NULL;
    LS_REQUIRE(table != NULL, LS_ERR_DATA, "%s: tensor %s %s belongs to no parameter of this model", file->path,
               t->name, lsi_shape_text(&t->shape).text);
    LS_REQUIRE(table->type == t->type && table->bytes == t->bytes &&
                   memcmp(table->data, t->data, (size_t)t->bytes) == 0,
               LS_ERR_DATA, "%s: %s is not the same as %s: a head of its own needs model.tied = false", file->path,
               t->name, table->name);
    return LS_OK;
}

static ls_status read_all(const lsi_safetensors *file, const lsi_param_table *params, bool *used, float *flat)
{
    memset(flat, 0, (size_t)params->n_elements * sizeof *flat);
    for (int i = 0; i < params->n; i++) {
        LS_TRY(read_param(file, &params->param[i], used, flat + params->param[i].offset));
    }
    for (int i = 0; i < file->n; i++) {
        if (!used[i]) {
            LS_TRY(check_left_over(file, &file->tensor[i]));
        }
    }
    return LS_OK;
}

ls_status lsi_import_weights(const char *path, const lsi_param_table *params, float *flat)
{
    source from = {0};
    bool *used = NULL;
    ls_status status = open_source(path, &from);

    if (status == LS_OK) {
        status = lsi_memory_alloc((size_t)from.file->n * sizeof *used + 1, "tensors in use", (void **)&used);
    }
    if (status == LS_OK) {
        status = read_all(from.file, params, used, flat);
    }
    lsi_memory_free(used);
    close_source(&from);
    return status;
}
