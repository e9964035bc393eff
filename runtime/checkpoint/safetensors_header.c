#include "checkpoint/safetensors_header.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/memory.h"

enum {
    LENGTH_BYTES = 8,
    /* The format allows 100 MB. These hold more than 100,000 tensors, and a parsed header takes some 20 times its
     * length in memory. */
    HEADER_LIMIT = 16 << 20,
    DEPTH_LIMIT = 3, /* header, tensor, shape */
    NAME_LIMIT = 512 /* bytes */
};

static const struct {
    const char *name;
    int bits;
    ls_dtype dtype; /* LS_REAL: known, but not read */
} types[] = {
    {"F32", 32, LS_F32},     {"F16", 16, LS_F16},     {"BF16", 16, LS_BF16},       {"F64", 64, LS_F64},
    {"I32", 32, LS_I32},     {"U8", 8, LS_U8},        {"BOOL", 8, LS_REAL},        {"I8", 8, LS_REAL},
    {"I16", 16, LS_REAL},    {"U16", 16, LS_REAL},    {"U32", 32, LS_REAL},        {"I64", 64, LS_REAL},
    {"U64", 64, LS_REAL},    {"C64", 64, LS_REAL},    {"F8_E5M2", 8, LS_REAL},     {"F8_E4M3", 8, LS_REAL},
    {"F8_E8M0", 8, LS_REAL}, {"F4", 4, LS_REAL},      {"F8_E5M2FNUZ", 8, LS_REAL}, {"F8_E4M3FNUZ", 8, LS_REAL},
    {"F6_E2M3", 6, LS_REAL}, {"F6_E3M2", 6, LS_REAL},
};

/* ---- one tensor ------------------------------------------------------------------------------------------------ */

static ls_status find_type(const char *path, lsi_tensor *tensor, const char *name, int *bits)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i].name, name) == 0) {
            tensor->type = types[i].name;
            tensor->dtype = types[i].dtype;
            *bits = types[i].bits;
            return LS_OK;
        }
    }
    return LS_FAIL(LS_ERR_DATA, "%s: tensor %s has the unknown type '%.20s'", path, tensor->name, name);
}

static ls_status read_shape(const char *path, const json_t *dims, lsi_tensor *out)
{
    size_t rank = json_array_size(dims);

    LS_REQUIRE(json_is_array(dims), LS_ERR_DATA, "%s: tensor %s has no list as its shape", path, out->name);
    out->count = 1;
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(dims, i);
        int64_t extent = json_integer_value(dim);

        /* Times 64 bits of an element it still fits. */
        LS_REQUIRE(json_is_integer(dim) && extent >= 0 && (extent == 0 || out->count <= INT64_MAX / 64 / extent),
                   LS_ERR_DATA, "%s: tensor %s: its shape has an impossible extent (number %zu)", path, out->name,
                   i + 1);
        out->count *= extent;
        if (rank <= LS_MAX_RANK) {
            out->shape.dim[i] = extent;
        }
    }
    if (rank <= LS_MAX_RANK) {
        out->shape.rank = (int)rank;
    } else {
        out->dtype = LS_REAL;
    }
    return LS_OK;
}

static ls_status read_place(const lsi_safetensors *file, const json_t *offsets, int bits, size_t start, lsi_tensor *out)
{
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    int64_t begin = json_integer_value(first), end = json_integer_value(last);
    size_t room = file->mapping.size - start;

    LS_REQUIRE(json_array_size(offsets) == 2 && json_is_integer(first) && json_is_integer(last), LS_ERR_DATA,
               "%s: tensor %s has no data_offsets of two whole numbers", file->path, out->name);
    LS_REQUIRE(begin >= 0 && end >= begin && (uint64_t)end <= room, LS_ERR_DATA,
               "%s: tensor %s lies at bytes %lld to %lld of %zu", file->path, out->name, (long long)begin,
               (long long)end, room);
    out->bytes = end - begin;
    LS_REQUIRE(out->count * bits % 8 == 0 && out->bytes == out->count * bits / 8, LS_ERR_DATA,
               "%s: tensor %s has %lld bytes, its shape and type ask for %lld", file->path, out->name,
               (long long)out->bytes, (long long)(out->count * bits / 8));
    out->data = file->mapping.data + start + begin;
    return LS_OK;
}

static ls_status read_tensor(const lsi_safetensors *file, size_t start, const char *name, const json_t *entry,
                             lsi_tensor *out)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    int bits = 0;

    LS_REQUIRE(name[0] != '\0' && strlen(name) <= NAME_LIMIT, LS_ERR_DATA,
               "%s: a tensor's name has %zu bytes; 1 to %d are read: '%.40s'", file->path, strlen(name), NAME_LIMIT,
               name);
    LS_TRY(lsi_memory_strdup(name, &out->name));
    LS_REQUIRE(type != NULL, LS_ERR_DATA, "%s: tensor %s has no dtype", file->path, name);
    LS_TRY(find_type(file->path, out, type, &bits));
    LS_TRY(read_shape(file->path, json_object_get(entry, "shape"), out));
    return read_place(file, json_object_get(entry, "data_offsets"), bits, start, out);
}

/* ---- all of them ----------------------------------------------------------------------------------------------- */

static ls_status read_metadata(lsi_safetensors *file, json_t *object)
{
    const char *key;
    json_t *value;

    LS_REQUIRE(json_is_object(object), LS_ERR_DATA, "%s: __metadata__ is not a list of texts", file->path);
    LS_TRY(lsi_memory_alloc((json_object_size(object) + 1) * sizeof *file->metadata, "metadata",
                            (void **)&file->metadata));
    json_object_foreach(object, key, value)
    {
        LS_REQUIRE(json_is_string(value), LS_ERR_DATA, "%s: metadata %.80s is not a text", file->path, key);
        file->n_metadata++;
        LS_TRY(lsi_memory_strdup(key, &file->metadata[file->n_metadata - 1].key));
        LS_TRY(lsi_memory_strdup(json_string_value(value), &file->metadata[file->n_metadata - 1].value));
    }
    return LS_OK;
}

/* By place; those without bytes before the one that begins there, by name among themselves. */
static int compare_place(const void *a, const void *b)
{
    const lsi_tensor *x = a, *y = b;

    if (x->data != y->data) {
        return (uintptr_t)x->data < (uintptr_t)y->data ? -1 : 1;
    }
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1) : strcmp(x->name, y->name);
}

/* Sorts the tensors by place and checks that nothing is between, behind, or twice: bytes that nobody describes could
 * hide anything. */
static ls_status check_cover(lsi_safetensors *file, size_t start)
{
    const unsigned char *data = file->mapping.data + start, *at = data;

    if (file->n > 1) {
        qsort(file->tensor, (size_t)file->n, sizeof *file->tensor, compare_place);
    }
    for (int i = 0; i < file->n; i++) {
        const unsigned char *begin = file->tensor[i].data;

        LS_REQUIRE(begin >= at, LS_ERR_DATA, "%s: tensors %s and %s overlap", file->path, file->tensor[i - 1].name,
                   file->tensor[i].name);
        LS_REQUIRE(begin == at, LS_ERR_DATA, "%s: the %lld bytes before tensor %s belong to no tensor", file->path,
                   (long long)(begin - at), file->tensor[i].name);
        at = begin + file->tensor[i].bytes;
    }
    LS_REQUIRE(at == file->mapping.data + file->mapping.size, LS_ERR_DATA,
               "%s: its last %lld bytes belong to no tensor", file->path,
               (long long)(file->mapping.data + file->mapping.size - at));
    return LS_OK;
}

static ls_status read_entries(lsi_safetensors *file, json_t *header, size_t start)
{
    const char *name;
    json_t *entry;

    LS_TRY(
        lsi_memory_alloc((json_object_size(header) + 1) * sizeof *file->tensor, "tensor list", (void **)&file->tensor));
    json_object_foreach(header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0) {
            LS_TRY(read_metadata(file, entry));
        } else {
            file->n++;
            LS_TRY(read_tensor(file, start, name, entry, &file->tensor[file->n - 1]));
        }
    }
    return check_cover(file, start);
}

/* The parser recurses: what is nested deeper than any header is refused before it starts. */
static bool is_shallow(const unsigned char *text, size_t length)
{
    bool quoted = false;
    int depth = 0;

    for (size_t i = 0; i < length && depth <= DEPTH_LIMIT; i++) {
        if (quoted) {
            quoted = text[i] != '"';
            i += text[i] == '\\'; /* whatever follows, a quote too, is part of the text */
        } else if (text[i] == '"') {
            quoted = true;
        } else if (text[i] == '{' || text[i] == '[') {
            depth++;
        } else if (text[i] == '}' || text[i] == ']') {
            depth--;
        }
    }
    return depth <= DEPTH_LIMIT;
}

ls_status lsi_safetensors_header_read(lsi_safetensors *file)
{
    uint64_t length = 0;
    json_error_t error = {0};

    LS_REQUIRE(file->mapping.size >= LENGTH_BYTES, LS_ERR_DATA, "%s: too short for a safetensors file (%zu bytes)",
               file->path, file->mapping.size);
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) {
        length = length << 8 | file->mapping.data[i];
    }
    LS_REQUIRE(length <= file->mapping.size - LENGTH_BYTES, LS_ERR_DATA,
               "%s: not a whole safetensors file: a header of %llu bytes in a file of %zu", file->path,
               (unsigned long long)length, file->mapping.size);
    LS_REQUIRE(length <= HEADER_LIMIT, LS_ERR_DATA, "%s: its header has %llu bytes; at most %d are read", file->path,
               (unsigned long long)length, HEADER_LIMIT);
    const unsigned char *text = file->mapping.data + LENGTH_BYTES;
    LS_REQUIRE(length > 0 && text[0] == '{', LS_ERR_DATA, "%s: not a safetensors file: its header is no JSON object",
               file->path);
    LS_REQUIRE(is_shallow(text, (size_t)length), LS_ERR_DATA, "%s: its header is nested deeper than %d levels",
               file->path, DEPTH_LIMIT);
    json_t *header = json_loadb((const char *)text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    LS_REQUIRE(header != NULL, LS_ERR_DATA, "%s: header, byte %d: %s", file->path, error.position, error.text);
    ls_status status = read_entries(file, header, LENGTH_BYTES + (size_t)length);
    json_decref(header);
    return status;
}
