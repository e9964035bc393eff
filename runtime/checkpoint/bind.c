#include "checkpoint/bind.h"

#include <string.h>

#include "base/memory.h"
#include "graph/shape.h"

/* Weights go by the parameter's name, moments by the array's and the parameter's. */
static const lsi_tensor *find(const lsi_safetensors *file, const char *array, const char *name)
{
    size_t n = strlen(array);

    for (int i = 0; i < file->n; i++) {
        const char *of_tensor = file->tensor[i].name;

        if (n == 0 ? strcmp(lsi_layout_bare_name(of_tensor), name) == 0
                   : strncmp(of_tensor, array, n) == 0 && of_tensor[n] == '.' && strcmp(of_tensor + n + 1, name) == 0) {
            return &file->tensor[i];
        }
    }
    return NULL;
}

static ls_status bind_one(const lsi_safetensors *file, const char *array, const lsi_param *p, bool *used,
                          const char **data)
{
    const lsi_tensor *t = find(file, array, p->name);
    const char *point = array[0] != '\0' ? "." : "";

    LS_REQUIRE(t != NULL, LS_ERR_CHECKPOINT, "%s: has no tensor %s%s%s, which this model has as %s", file->path, array,
               point, p->name, lsi_shape_text(&p->shape).text);
    LS_REQUIRE(t->dtype == LS_F32, LS_ERR_CHECKPOINT, "%s: tensor %s is %s, not F32", file->path, t->name, t->type);
    LS_REQUIRE(lsi_shape_equal(&t->shape, &p->shape), LS_ERR_CHECKPOINT,
               "%s: tensor %s is %s, but this model has it as %s", file->path, t->name, lsi_shape_text(&t->shape).text,
               lsi_shape_text(&p->shape).text);
    used[t - file->tensor] = true;
    *data = t->data;
    return LS_OK;
}

static ls_status bind_file(const lsi_safetensors *file, int f, int n_arrays, const char *const *array_name,
                           lsi_bind *bind, bool *used)
{
    const lsi_param_table *params = bind->params;

    for (int a = 0; a < n_arrays; a++) {
        for (int i = 0; lsi_layout_file_of(a) == f && i < params->n; i++) {
            LS_TRY(bind_one(file, array_name[a], &params->param[i], used, &bind->data[a * params->n + i]));
        }
    }
    for (int i = 0; i < file->n; i++) {
        LS_REQUIRE(used[i], LS_ERR_CHECKPOINT, "%s: tensor %s %s belongs to no parameter of this model", file->path,
                   file->tensor[i].name, lsi_shape_text(&file->tensor[i].shape).text);
    }
    return LS_OK;
}

ls_status lsi_bind_make(const lsi_safetensors *const *files, const lsi_param_table *params, int n_arrays,
                        const char *const *array_name, lsi_bind *out)
{
    lsi_bind bind = {.params = params};
    ls_status status = lsi_memory_alloc((size_t)n_arrays * (size_t)params->n * sizeof *bind.data + 1,
                                        "places of tensors", (void **)&bind.data);

    for (int f = 0; status == LS_OK && f < (n_arrays > 1 ? LSI_LAYOUT_N_FILES : LSI_LAYOUT_MODEL + 1); f++) {
        bool *used = NULL;

        status = lsi_memory_alloc((size_t)files[f]->n * sizeof *used + 1, "tensors in use", (void **)&used);
        if (status == LS_OK) {
            status = bind_file(files[f], f, n_arrays, array_name, &bind, used);
        }
        lsi_memory_free(used);
    }
    if (status != LS_OK) {
        lsi_bind_free(&bind);
        return status;
    }
    *out = bind;
    return LS_OK;
}

void lsi_bind_free(lsi_bind *bind)
{
    lsi_memory_free(bind->data);
    *bind = (lsi_bind){0};
}

void lsi_bind_read(const lsi_bind *bind, int array, int64_t first, int64_t count, float *out)
{
    const lsi_param_table *params = bind->params;
    int i = params->n > 0 ? lsi_param_at(params, first) : 0;

    memset(out, 0, (size_t)count * sizeof *out);
    for (; i < params->n && params->param[i].offset < first + count; i++) {
        const lsi_param *p = &params->param[i];
        int64_t from = first > p->offset ? first : p->offset;
        int64_t to = first + count < p->offset + p->count ? first + count : p->offset + p->count;

        if (from < to) {
            memcpy(out + (from - first), bind->data[array * params->n + i] + (size_t)(from - p->offset) * sizeof *out,
                   (size_t)(to - from) * sizeof *out);
        }
    }
}
