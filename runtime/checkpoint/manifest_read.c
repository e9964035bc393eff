/* The reader of manifest.json. Its hash says that the file is whole, not that whoever wrote it meant well: every number
 * and name is checked all the same. */
#include "checkpoint/manifest.h"

#include <limits.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "checkpoint/json_text.h"
#include "checkpoint/manifest_format.h"

enum { SIZE_LIMIT = 64 << 20, FILES_LIMIT = 16 };

/* ---- typed members --------------------------------------------------------------------------------------------- */

static ls_status get_int(const char *path, const json_t *object, const char *name, int64_t lowest, int64_t *out)
{
    const json_t *value = json_object_get(object, name);

    LS_REQUIRE(json_is_integer(value) && json_integer_value(value) >= lowest, LS_ERR_CHECKPOINT,
               "%s: '%s' is no whole number of at least %lld", path, name, (long long)lowest);
    *out = json_integer_value(value);
    return LS_OK;
}

static ls_status get_real(const char *path, const json_t *object, const char *name, double *out)
{
    LS_REQUIRE(lsi_json_text_real(json_object_get(object, name), out), LS_ERR_CHECKPOINT, "%s: '%s' is no number", path,
               name);
    return LS_OK;
}

/* null stays NULL where that is allowed. */
static ls_status get_text(const char *path, const json_t *object, const char *name, bool may_lack, char **out)
{
    const json_t *value = json_object_get(object, name);

    if (may_lack && json_is_null(value)) {
        return LS_OK;
    }
    LS_REQUIRE(json_is_string(value), LS_ERR_CHECKPOINT, "%s: '%s' is no text", path, name);
    return lsi_memory_strdup(json_string_value(value), out);
}

/* ---- parts ----------------------------------------------------------------------------------------------------- */

static ls_status read_field(const char *path, const json_t *state, const lsi_manifest_field *field, char *at)
{
    double real = 0;
    int64_t whole = 0;

    switch (field->kind) {
    case LSI_MANIFEST_I64:
        return get_int(path, state, field->name, 0, (int64_t *)(void *)at);
    case LSI_MANIFEST_I32:
        LS_TRY(get_int(path, state, field->name, 0, &whole));
        LS_REQUIRE(whole <= INT32_MAX, LS_ERR_CHECKPOINT, "%s: '%s' is too large", path, field->name);
        *(int32_t *)(void *)at = (int32_t)whole;
        return LS_OK;
    case LSI_MANIFEST_F64:
        return get_real(path, state, field->name, (double *)(void *)at);
    case LSI_MANIFEST_F32:
        LS_TRY(get_real(path, state, field->name, &real));
        *(float *)(void *)at = (float)real;
        return LS_OK;
    }
    return LS_FAIL(LS_ERR_INTERNAL, "%s: '%s' has no kind", path, field->name);
}

static ls_status read_state(const char *path, const json_t *root, ls_step_state *out)
{
    const json_t *state = json_object_get(root, "state");

    for (int i = 0; i < LSI_MANIFEST_N_FIELDS; i++) {
        LS_TRY(read_field(path, state, &lsi_manifest_fields[i], (char *)out + lsi_manifest_fields[i].offset));
    }
    LS_REQUIRE(out->applied <= out->attempted, LS_ERR_CHECKPOINT, "%s: %lld steps applied of %lld", path,
               (long long)out->applied, (long long)out->attempted);
    return LS_OK;
}

/* A name inside the folder: it is opened, so it must lead nowhere else. */
static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strlen(name) <= NAME_MAX && strchr(name, '/') == NULL &&
           strcmp(name, "manifest.json") != 0;
}

static int hex_digit(char c)
{
    const char digits[] = "0123456789abcdef", *found = c != '\0' ? strchr(digits, c) : NULL;

    return found != NULL ? (int)(found - digits) : -1;
}

/* Exactly 32 lower-case digits. */
static bool read_hash(const char *hex, unsigned char out[16])
{
    if (hex == NULL || strlen(hex) != LSI_MANIFEST_HASH_DIGITS) {
        return false;
    }
    for (int i = 0; i < 16; i++) {
        int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        out[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static ls_status read_pieces(const char *path, const json_t *pieces, lsi_manifest_file *file)
{
    size_t n = json_array_size(pieces);
    int64_t at = 0;

    LS_REQUIRE(json_is_array(pieces) && n <= INT_MAX, LS_ERR_CHECKPOINT, "%s: %s has no list of pieces", path,
               file->name);
    LS_TRY(lsi_memory_alloc((n + 1) * sizeof *file->piece, "pieces of a checkpoint", (void **)&file->piece));
    for (size_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(pieces, i);
        lsi_manifest_piece *piece = &file->piece[i];

        piece->at = at;
        piece->bytes = json_integer_value(json_array_get(entry, 0));
        LS_REQUIRE(json_array_size(entry) == 2 && piece->bytes > 0 && piece->bytes <= LSI_PIECE_BYTES &&
                       piece->bytes <= file->bytes - at &&
                       read_hash(json_string_value(json_array_get(entry, 1)), piece->hash),
                   LS_ERR_CHECKPOINT, "%s: %s: piece %zu is not [bytes, hash] inside the file's %lld bytes", path,
                   file->name, i + 1, (long long)file->bytes);
        at += piece->bytes;
        file->n_pieces++;
    }
    LS_REQUIRE(at == file->bytes, LS_ERR_CHECKPOINT, "%s: the pieces of %s have %lld bytes, the file %lld", path,
               file->name, (long long)at, (long long)file->bytes);
    return LS_OK;
}

static ls_status read_file(const char *path, const json_t *entry, lsi_manifest *m)
{
    lsi_manifest_file *file = &m->file[m->n_files++];

    LS_TRY(get_text(path, entry, "name", false, &file->name));
    LS_REQUIRE(is_plain_name(file->name), LS_ERR_CHECKPOINT, "%s: '%.80s' is not the name of a file of a checkpoint",
               path, file->name);
    for (int i = 0; i < m->n_files - 1; i++) {
        LS_REQUIRE(strcmp(m->file[i].name, file->name) != 0, LS_ERR_CHECKPOINT, "%s: %s is listed twice", path,
                   file->name);
    }
    LS_TRY(get_int(path, entry, "bytes", 0, &file->bytes));
    return read_pieces(path, json_object_get(entry, "pieces"), file);
}

static ls_status read_files(const char *path, const json_t *root, lsi_manifest *m)
{
    const json_t *files = json_object_get(root, "files");
    size_t n = json_array_size(files);

    LS_REQUIRE(json_is_array(files) && n <= FILES_LIMIT, LS_ERR_CHECKPOINT, "%s: 'files' is no list of at most %d",
               path, FILES_LIMIT);
    LS_TRY(lsi_memory_alloc((n + 1) * sizeof *m->file, "files of a checkpoint", (void **)&m->file));
    for (size_t i = 0; i < n; i++) {
        LS_TRY(read_file(path, json_array_get(files, i), m));
    }
    return LS_OK;
}

static ls_status read_root(const char *path, const json_t *root, lsi_manifest *m)
{
    const json_t *evaluated = json_object_get(root, "evaluated");
    int64_t format;

    LS_TRY(get_int(path, root, "format", 0, &format));
    LS_REQUIRE(format == LSI_MANIFEST_VERSION, LS_ERR_CHECKPOINT, "%s: written in format %lld; this build reads %d",
               path, (long long)format, LSI_MANIFEST_VERSION);
    LS_TRY(read_state(path, root, &m->state));
    LS_TRY(get_int(path, root, "samples", 0, &m->samples));
    LS_REQUIRE(json_is_boolean(evaluated), LS_ERR_CHECKPOINT, "%s: 'evaluated' is neither true nor false", path);
    m->evaluated = json_is_true(evaluated);
    LS_TRY(get_int(path, root, "best_step", 0, &m->best_step));
    LS_TRY(get_real(path, root, "best_loss", &m->best_loss));
    LS_TRY(get_int(path, root, "metrics_bytes", -1, &m->metrics_bytes));
    LS_TRY(get_int(path, root, "lanes", 1, &m->lanes));
    LS_TRY(get_text(path, root, "config", false, &m->config));
    LS_TRY(get_text(path, root, "data", true, &m->data));
    LS_TRY(get_text(path, root, "fingerprint", true, &m->fingerprint));
    LS_TRY(get_text(path, root, "version", true, &m->version));
    LS_TRY(get_text(path, root, "git", true, &m->git));
    return read_files(path, root, m);
}

/* ---- the file -------------------------------------------------------------------------------------------------- */

/* The first line must be what the rest of the text makes it, to the byte. */
static ls_status check_hash(const char *path, const char *text, size_t size)
{
    const size_t opening = strlen(LSI_MANIFEST_OPENING), closing = strlen(LSI_MANIFEST_CLOSING);
    const size_t line = opening + LSI_MANIFEST_HASH_DIGITS + closing;
    unsigned char hash[16];
    char hex[33];

    LS_REQUIRE(size > line && memcmp(text, LSI_MANIFEST_OPENING, opening) == 0 &&
                   memcmp(text + line - closing, LSI_MANIFEST_CLOSING, closing) == 0,
               LS_ERR_CHECKPOINT, "%s: damaged: it does not begin as a manifest (%zu bytes)", path, size);
    lsi_hash128(text + line, size - line, hash);
    lsi_hash128_hex(hash, hex);
    LS_REQUIRE(memcmp(hex, text + opening, LSI_MANIFEST_HASH_DIGITS) == 0, LS_ERR_CHECKPOINT,
               "%s: damaged: its %zu bytes hash to %s, its first line says %.32s", path, size, hex, text + opening);
    return LS_OK;
}

static ls_status parse(const char *path, const char *text, size_t size, lsi_manifest *out)
{
    json_error_t error = {0};

    LS_TRY(check_hash(path, text, size));
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    LS_REQUIRE(root != NULL, LS_ERR_CHECKPOINT, "%s:%d: %s", path, error.line, error.text);
    ls_status status = read_root(path, root, out);
    json_decref(root);
    return status;
}

ls_status lsi_manifest_read(const char *folder, lsi_manifest *out)
{
    lsi_manifest manifest = {0};
    char *path, *text = NULL;
    size_t size;

    LS_TRY(lsi_file_join(folder, "manifest.json", &path));
    ls_status status = lsi_file_read(path, SIZE_LIMIT, LS_ERR_CHECKPOINT, &text, &size);
    if (status == LS_OK) {
        status = parse(path, text, size, &manifest);
    }
    lsi_memory_free(text);
    lsi_memory_free(path);
    if (status != LS_OK) {
        lsi_manifest_free(&manifest);
        return status;
    }
    *out = manifest;
    return LS_OK;
}
