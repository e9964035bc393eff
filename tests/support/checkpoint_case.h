/* Checkpoints that tests write themselves, from the layout and the manifest's printer, in one process. */
#ifndef LS_TESTS_SUPPORT_CHECKPOINT_CASE_H
#define LS_TESTS_SUPPORT_CHECKPOINT_CASE_H

#include "support/test.h"

#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "models/models.h"

typedef struct checkpoint_case {
    lsi_model model;
    const lsi_param_table *params;
    int n_arrays;
    const char *array_name[LSI_STATE_MAX_ARRAYS];
    float *flat[LSI_STATE_MAX_ARRAYS];      /* random, padding zero; the test may change elements */
    lsi_layout layout;
    lsi_manifest manifest;                  /* what is written but for its files; the texts are literals */
} checkpoint_case;

/* `which` model of model_case.h; arrays as adamw (3) or sgd (2) has them. */
void checkpoint_case_open(checkpoint_case *c, int which, int n_arrays);
void checkpoint_case_close(checkpoint_case *c);

/* Writes a checkpoint of step manifest.state.attempted: model, optimizer and a config.json. Pieces have `piece_bytes`
 * or less. */
void checkpoint_case_write(const checkpoint_case *c, const char *folder, int64_t piece_bytes);
/* Writes the manifest anew after a file was changed, so that it fits again. */
void checkpoint_case_seal(const checkpoint_case *c, const char *folder, int64_t piece_bytes);

/* Whole files, for tests that damage them; free() the bytes. */
unsigned char *checkpoint_case_read(const char *folder, const char *name, size_t *size);
void checkpoint_case_put(const char *folder, const char *name, const void *data, size_t size);

#endif
