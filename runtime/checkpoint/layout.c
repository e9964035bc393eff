#include "checkpoint/layout.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "checkpoint/json_text.h"

enum { LENGTH_BYTES = 8, DATA_ALIGN = 8, ELEMENT = sizeof(float) };

const char *lsi_layout_file_name(int file)
{
    return file == LSI_LAYOUT_MODEL ? "model.safetensors" : "optimizer.safetensors";
}

/* ---- names ----------------------------------------------------------------------------------------------------- */

static const char prefix[] = "transformer.", head[] = "lm_head.weight";

void lsi_layout_append_name(const lsi_param_table *params, const char *array, int i, lsi_text *out)
{
    const char *name = params->param[i].name;

    if (array[0] != '\0') {
        lsi_text_append(out, "%s.%s", array, name);
        return;
    }
    bool inside =
        strcmp(name, head) != 0 && lsi_param_find(params, head) >= 0 && lsi_param_find(params, "wte.weight") >= 0;
    lsi_text_append(out, "%s%s", inside ? prefix : "", name);
}

const char *lsi_layout_bare_name(const char *tensor)
{
    size_t n = sizeof prefix - 1;

    return strncmp(tensor, prefix, n) == 0 ? tensor + n : tensor;
}

/* ---- headers --------------------------------------------------------------------------------------------------- */

static ls_status append_tensor(const lsi_param_table *params, int parameter, const char *array, int64_t at,
                               lsi_text *out)
{
    const lsi_param *p = &params->param[parameter];
    lsi_text name = {0};

    lsi_layout_append_name(params, array, parameter, &name);
    ls_status status = lsi_text_status(&name);
    if (status == LS_OK) {
        lsi_text_append(out, ",");
        status = lsi_json_text_string(out, "the parameter name", name.data);
    }
    lsi_text_free(&name);
    LS_TRY(status);
    lsi_text_append(out, ":{\"dtype\":\"F32\",\"shape\":[");
    for (int i = 0; i < p->shape.rank; i++) {
        lsi_text_append(out, "%s%" PRId64, i > 0 ? "," : "", p->shape.dim[i]);
    }
    lsi_text_append(out, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", at, at + p->count * ELEMENT);
    return lsi_text_status(out);
}

/* Appends the JSON of one file; array_at becomes where its arrays begin behind the header; *bytes that behind them. */
static ls_status append_header(lsi_layout *layout, int file, const char *const *array_name, int64_t *bytes,
                               lsi_text *out)
{
    const lsi_param_table *params = layout->params;

    /* Hugging Face's loader wants to be told that names and layouts are PyTorch's. */
    lsi_text_append(out, "{\"__metadata__\":{\"format\":\"pt\"}");
    *bytes = 0;
    for (int a = 0; a < layout->n_arrays; a++) {
        if (lsi_layout_file_of(a) != file) {
            continue;
        }
        layout->array_at[a] = *bytes;
        for (int i = 0; i < params->n; i++) {
            LS_TRY(append_tensor(params, i, array_name[a], *bytes, out));
            *bytes += params->param[i].count * ELEMENT;
        }
    }
    lsi_text_append(out, "}");
    return lsi_text_status(out);
}

/* The length prefix, the JSON, and blanks behind it: what the format allows so that the data begin aligned. */
static ls_status keep_header(const lsi_text *json, lsi_layout_file *file)
{
    size_t padded = (json->length + DATA_ALIGN - 1) / DATA_ALIGN * DATA_ALIGN;

    file->header_bytes = LENGTH_BYTES + padded;
    LS_TRY(lsi_memory_alloc(file->header_bytes, "header of a checkpoint's file", (void **)&file->header));
    for (int i = 0; i < LENGTH_BYTES; i++) {
        file->header[i] = (char)(unsigned char)(padded >> (8 * i));
    }
    memcpy(file->header + LENGTH_BYTES, json->data, json->length);
    memset(file->header + LENGTH_BYTES + json->length, ' ', padded - json->length);
    return LS_OK;
}

static ls_status make_file(lsi_layout *layout, int f, const char *const *array_name)
{
    lsi_layout_file *file = &layout->file[f];
    lsi_text json = {0};
    int64_t data_bytes = 0;
    ls_status status = append_header(layout, f, array_name, &data_bytes, &json);

    file->name = lsi_layout_file_name(f);
    if (status == LS_OK) {
        status = keep_header(&json, file);
    }
    lsi_text_free(&json);
    LS_TRY(status);
    file->bytes = (int64_t)file->header_bytes + data_bytes;
    for (int a = 0; a < layout->n_arrays; a++) {
        if (lsi_layout_file_of(a) == f) {
            layout->array_at[a] += (int64_t)file->header_bytes;
        }
    }
    return LS_OK;
}

ls_status lsi_layout_make(const lsi_param_table *params, int n_arrays, const char *const *array_name, lsi_layout *out)
{
    lsi_layout layout = {.params = params, .n_arrays = n_arrays};

    LS_REQUIRE(n_arrays >= 1 && n_arrays <= LSI_STATE_MAX_ARRAYS, LS_ERR_INTERNAL,
               "a checkpoint of %d arrays; at most %d are laid out", n_arrays, LSI_STATE_MAX_ARRAYS);
    for (int f = 0; f < LSI_LAYOUT_N_FILES; f++) {
        ls_status status = make_file(&layout, f, array_name);

        if (status != LS_OK) {
            lsi_layout_free(&layout);
            return status;
        }
    }
    *out = layout;
    return LS_OK;
}

void lsi_layout_free(lsi_layout *layout)
{
    for (int f = 0; f < LSI_LAYOUT_N_FILES; f++) {
        lsi_memory_free(layout->file[f].header);
    }
    *layout = (lsi_layout){0};
}

/* ---- flat index and file --------------------------------------------------------------------------------------- */

/* The part of [first, first + count) that lies in the parameter, without its padding; n may be 0 or less. */
typedef struct overlap {
    int64_t from, n;
} overlap;

static overlap overlap_of(const lsi_param *p, int64_t first, int64_t count)
{
    int64_t from = first > p->offset ? first : p->offset;
    int64_t to = first + count < p->offset + p->count ? first + count : p->offset + p->count;

    return (overlap){from, to - from};
}

/* Elements before `element` of the flat index that are not padding. */
static int64_t packed_before(const lsi_param_table *params, int64_t element)
{
    int64_t before = 0;

    for (int i = 0; i < params->n; i++) {
        overlap o = overlap_of(&params->param[i], 0, element);

        if (o.n <= 0) {
            break;
        }
        before += o.n;
    }
    return before;
}

void lsi_layout_range(const lsi_layout *layout, int array, int64_t first, int64_t count, int64_t *at, int64_t *bytes)
{
    int64_t from = packed_before(layout->params, first), to = packed_before(layout->params, first + count);

    *at = layout->array_at[array] + from * ELEMENT;
    *bytes = (to - from) * ELEMENT;
}

void lsi_layout_pack(const lsi_layout *layout, int64_t first, int64_t count, const float *flat, float *out)
{
    const lsi_param_table *params = layout->params;

    int i = params->n > 0 ? lsi_param_at(params, first) : 0;

    for (; i < params->n && params->param[i].offset < first + count; i++) {
        overlap o = overlap_of(&params->param[i], first, count);

        if (o.n > 0) {
            memmove(out, flat + (o.from - first), (size_t)o.n * ELEMENT);
            out += o.n;
        }
    }
}

void lsi_layout_unpack(const lsi_layout *layout, int64_t first, int64_t count, const float *packed, float *flat)
{
    const lsi_param_table *params = layout->params;

    memset(flat, 0, (size_t)count * ELEMENT);
    int i = params->n > 0 ? lsi_param_at(params, first) : 0;

    for (; i < params->n && params->param[i].offset < first + count; i++) {
        overlap o = overlap_of(&params->param[i], first, count);

        if (o.n > 0) {
            memcpy(flat + (o.from - first), packed, (size_t)o.n * ELEMENT);
            packed += o.n;
        }
    }
}
