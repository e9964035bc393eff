#include "checkpoint/manifest.h"

#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "checkpoint/json_text.h"
#include "checkpoint/manifest_format.h"

#define FIELD(name, kind)                                                                                              \
    {                                                                                                                  \
#name, LSI_MANIFEST_##kind, offsetof(ls_step_state, name)                                                      \
    }
const lsi_manifest_field lsi_manifest_fields[LSI_MANIFEST_N_FIELDS] = {
    FIELD(attempted, I64),       FIELD(applied, I64),       FIELD(in_a_row, I64),    FIELD(growth_tracker, I64),
    FIELD(hysteresis_left, I64), FIELD(skipped, I64),       FIELD(beta1_power, F64), FIELD(beta2_power, F64),
    FIELD(unscale, F64),         FIELD(grad_norm, F64),     FIELD(loss, F64),        FIELD(counted, I64),
    FIELD(clip_factor, F32),     FIELD(learning_rate, F32), FIELD(loss_scale, F32),  FIELD(skip, I32),
};
#undef FIELD
_Static_assert(sizeof(ls_step_state) == 12 * 8 + 4 * 4, "a new field of the step state belongs in the manifest");

void lsi_manifest_append_field(const ls_step_state *state, const lsi_manifest_field *field, lsi_text *out)
{
    const void *at = (const char *)state + field->offset;

    switch (field->kind) {
    case LSI_MANIFEST_I64:
        lsi_text_append(out, "%" PRId64, *(const int64_t *)at);
        break;
    case LSI_MANIFEST_I32:
        lsi_text_append(out, "%" PRId32, *(const int32_t *)at);
        break;
    case LSI_MANIFEST_F64:
        lsi_json_text_double(out, *(const double *)at);
        break;
    case LSI_MANIFEST_F32:
        lsi_json_text_float(out, *(const float *)at);
        break;
    }
}

static void append_state(const ls_step_state *state, lsi_text *out)
{
    lsi_text_append(out, "\"state\":{");
    for (int i = 0; i < LSI_MANIFEST_N_FIELDS; i++) {
        lsi_text_append(out, "%s\"%s\":", i > 0 ? "," : "", lsi_manifest_fields[i].name);
        lsi_manifest_append_field(state, &lsi_manifest_fields[i], out);
    }
    lsi_text_append(out, "},\n");
}

static ls_status append_texts(const lsi_manifest *m, lsi_text *out)
{
    const struct {
        const char *name, *value;
    } texts[] = {
        {"version", m->version}, {"git", m->git},       {"fingerprint", m->fingerprint},
        {"data", m->data},       {"config", m->config},
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        lsi_text_append(out, "\"%s\":", texts[i].name);
        if (texts[i].value != NULL) {
            LS_TRY(lsi_json_text_string(out, texts[i].name, texts[i].value));
        } else {
            lsi_text_append(out, "null");
        }
        lsi_text_append(out, ",\n");
    }
    return LS_OK;
}

static ls_status append_file(const lsi_manifest_file *file, lsi_text *out)
{
    char hex[33];

    lsi_text_append(out, "{\"name\":");
    LS_TRY(lsi_json_text_string(out, "the file name", file->name));
    lsi_text_append(out, ",\"bytes\":%" PRId64 ",\"pieces\":[", file->bytes);
    for (int i = 0; i < file->n_pieces; i++) {
        lsi_hash128_hex(file->piece[i].hash, hex);
        lsi_text_append(out, "%s\n[%" PRId64 ",\"%s\"]", i > 0 ? "," : "", file->piece[i].bytes, hex);
    }
    lsi_text_append(out, "]}");
    return LS_OK;
}

/* Everything behind the first line. */
static ls_status append_body(const lsi_manifest *m, lsi_text *out)
{
    lsi_text_append(out, "\"format\":%d,\n", LSI_MANIFEST_VERSION);
    append_state(&m->state, out);
    lsi_text_append(out, "\"samples\":%" PRId64 ",\n\"evaluated\":%s,\n\"best_step\":%" PRId64 ",\n\"best_loss\":",
                    m->samples, m->evaluated ? "true" : "false", m->best_step);
    lsi_json_text_double(out, m->best_loss);
    lsi_text_append(out, ",\n\"metrics_bytes\":%" PRId64 ",\n\"lanes\":%" PRId64 ",\n", m->metrics_bytes, m->lanes);
    LS_TRY(append_texts(m, out));
    lsi_text_append(out, "\"files\":[");
    for (int i = 0; i < m->n_files; i++) {
        lsi_text_append(out, "%s\n", i > 0 ? "," : "");
        LS_TRY(append_file(&m->file[i], out));
    }
    lsi_text_append(out, "\n]}\n");
    return lsi_text_status(out);
}

ls_status lsi_manifest_print(const lsi_manifest *manifest, lsi_text *out)
{
    lsi_text body = {0};
    unsigned char hash[16];
    char hex[33];
    ls_status status = append_body(manifest, &body);

    if (status == LS_OK) {
        lsi_hash128(body.data, body.length, hash);
        lsi_hash128_hex(hash, hex);
        lsi_text_append(out, LSI_MANIFEST_OPENING "%s" LSI_MANIFEST_CLOSING, hex);
        lsi_text_append_bytes(out, body.data, body.length);
        status = lsi_text_status(out);
    }
    lsi_text_free(&body);
    return status;
}

void lsi_manifest_free(lsi_manifest *manifest)
{
    char *texts[] = {manifest->config, manifest->data, manifest->fingerprint, manifest->version, manifest->git};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        lsi_memory_free(texts[i]);
    }
    for (int i = 0; i < manifest->n_files; i++) {
        lsi_memory_free(manifest->file[i].name);
        lsi_memory_free(manifest->file[i].piece);
    }
    lsi_memory_free(manifest->file);
    *manifest = (lsi_manifest){0};
}
