/* How manifest.json is written: what its writer and its reader must agree on. */
#ifndef LSI_CHECKPOINT_MANIFEST_FORMAT_H
#define LSI_CHECKPOINT_MANIFEST_FORMAT_H

#include "checkpoint/manifest.h"

enum { LSI_MANIFEST_VERSION = 1, LSI_MANIFEST_HASH_DIGITS = 32 };

/* The first line: opening, hash of everything behind the line, closing. */
#define LSI_MANIFEST_OPENING "{\"xxh3_128\":\""
#define LSI_MANIFEST_CLOSING "\",\n"

typedef enum lsi_manifest_kind {
    LSI_MANIFEST_I64,
    LSI_MANIFEST_I32,
    LSI_MANIFEST_F64,
    LSI_MANIFEST_F32
} lsi_manifest_kind;

/* The step state, field by field. */
typedef struct lsi_manifest_field {
    const char *name;
    lsi_manifest_kind kind;
    size_t offset;
} lsi_manifest_field;

enum { LSI_MANIFEST_N_FIELDS = 16 };
extern const lsi_manifest_field lsi_manifest_fields[LSI_MANIFEST_N_FIELDS];
/* The field's value as the manifest has it. */
void lsi_manifest_append_field(const ls_step_state *state, const lsi_manifest_field *field, lsi_text *out);

#endif
