#include "checkpoint/compare_state.h"

#include <inttypes.h>
#include <string.h>

#include "checkpoint/layout.h"
#include "checkpoint/manifest_format.h"
#include "graph/shape.h"

static uint32_t bits_at(const lsi_tensor *t, int64_t element)
{
    uint32_t bits;

    memcpy(&bits, (const char *)t->data + element * (int64_t)sizeof bits, sizeof bits);
    return bits;
}

static void append_value(uint32_t bits, lsi_text *out)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    lsi_text_append(out, "%.9g (%08" PRIx32 ")", (double)value, bits);
}

static void append_elements(const lsi_tensor *a, const lsi_tensor *b, lsi_text *out)
{
    int64_t first = -1, n = 0;

    for (int64_t i = 0; i < a->count; i++) {
        if (bits_at(a, i) != bits_at(b, i)) {
            first = first < 0 ? i : first;
            n++;
        }
    }
    lsi_text_append(out, "%s[%" PRId64 "]: ", lsi_layout_bare_name(a->name), first);
    append_value(bits_at(a, first), out);
    lsi_text_append(out, " and ");
    append_value(bits_at(b, first), out);
    lsi_text_append(out, "; %" PRId64 " of its %" PRId64 " elements differ", n, a->count);
}

/* One tensor of `a`; `at` is where `b` has it if it is written in the same order. */
static void compare_tensor(const lsi_tensor *a, const lsi_safetensors *file, int at, lsi_text *out)
{
    const lsi_tensor *b = at < file->n && strcmp(file->tensor[at].name, a->name) == 0
                              ? &file->tensor[at]
                              : lsi_safetensors_find(file, a->name);

    if (b == NULL) {
        lsi_text_append(out, "%s %s: only the first has it", a->name, lsi_shape_text(&a->shape).text);
    } else if (!lsi_shape_equal(&a->shape, &b->shape) || a->type != b->type) {
        lsi_text_append(out, "%s: %s %s and %s %s", a->name, a->type, lsi_shape_text(&a->shape).text, b->type,
                        lsi_shape_text(&b->shape).text);
    } else if (memcmp(a->data, b->data, (size_t)a->bytes) != 0) {
        if (a->dtype == LS_F32) {
            append_elements(a, b, out);
        } else {
            lsi_text_append(out, "%s: %s values", a->name, a->type);
        }
    }
}

static void compare_files(const lsi_safetensors *a, const lsi_safetensors *b, const char *name, lsi_text *out)
{
    if (a == NULL || b == NULL) {
        if (a != b) {
            lsi_text_append(out, "%s: only the %s has it", name, a != NULL ? "first" : "second");
        }
        return;
    }
    for (int i = 0; i < a->n && out->length == 0; i++) {
        compare_tensor(&a->tensor[i], b, i, out);
    }
    for (int i = 0; i < b->n && out->length == 0; i++) {
        if (lsi_safetensors_find(a, b->tensor[i].name) == NULL) {
            lsi_text_append(out, "%s %s: only the second has it", b->tensor[i].name,
                            lsi_shape_text(&b->tensor[i].shape).text);
        }
    }
}

static void compare_step_state(const ls_step_state *a, const ls_step_state *b, lsi_text *out)
{
    static const size_t bytes[] = {
        [LSI_MANIFEST_I64] = 8, [LSI_MANIFEST_I32] = 4, [LSI_MANIFEST_F64] = 8, [LSI_MANIFEST_F32] = 4};

    for (int i = 0; i < LSI_MANIFEST_N_FIELDS && out->length == 0; i++) {
        const lsi_manifest_field *field = &lsi_manifest_fields[i];

        if (memcmp((const char *)a + field->offset, (const char *)b + field->offset, bytes[field->kind]) != 0) {
            lsi_text_append(out, "the step state: %s ", field->name);
            lsi_manifest_append_field(a, field, out);
            lsi_text_append(out, " and ");
            lsi_manifest_append_field(b, field, out);
        }
    }
}

ls_status lsi_compare_state(const lsi_checkpoint *a, const lsi_checkpoint *b, lsi_text *difference)
{
    for (int f = 0; f < LSI_LAYOUT_N_FILES && difference->length == 0; f++) {
        compare_files(lsi_checkpoint_tensors(a, f), lsi_checkpoint_tensors(b, f), lsi_layout_file_name(f), difference);
    }
    compare_step_state(&lsi_checkpoint_manifest(a)->state, &lsi_checkpoint_manifest(b)->state, difference);
    return lsi_text_status(difference);
}
