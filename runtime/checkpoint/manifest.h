/* manifest.json: what a checkpoint holds, written last. A folder without a whole one is no checkpoint.
 *
 * Its first line carries the XXH3-128 of everything behind it, so that a flipped byte of the manifest is seen too. */
#ifndef LSI_CHECKPOINT_MANIFEST_H
#define LSI_CHECKPOINT_MANIFEST_H

#include <stdbool.h>

#include "base/text.h"
#include <lockstep/status.h>
#include <lockstep/step_state.h>

enum { LSI_PIECE_BYTES = 16 << 20 };        /* of a file, hashed together; pieces of one writer end at its range */

typedef struct lsi_manifest_piece {
    int64_t at, bytes;                      /* contiguous and ascending over the file */
    unsigned char hash[16];                 /* XXH3-128 */
} lsi_manifest_piece;

typedef struct lsi_manifest_file {
    char *name;
    int64_t bytes;
    int n_pieces;
    lsi_manifest_piece *piece;
} lsi_manifest_file;

typedef struct lsi_manifest {
    ls_step_state state;                    /* after step state.attempted, which names the folder */
    int64_t samples;                        /* taken from the data so far */
    bool evaluated;                         /* the evaluation that is due at this step, if one is, has been done */
    int64_t best_step;                      /* of the lowest validation loss so far; 0: none */
    double best_loss;
    int64_t metrics_bytes;                  /* length of the metrics file with this step's lines; -1: none was kept */
    char *config;                           /* as lsi_config_print: every value, paths absolute */
    char *data;                             /* ls_dataset.content of the training data */
    char *fingerprint, *version, *git;
    int64_t lanes;                          /* as resolved */
    int n_files;
    lsi_manifest_file *file;
} lsi_manifest;

/* The text of manifest.json. Doubles as %.17g, floats as %.9g, non-finite ones as strings: read back bit-equal (but for
 * a NaN's payload). */
LS_MUST_USE ls_status lsi_manifest_print(const lsi_manifest *manifest, lsi_text *out);
/* ERR_CHECKPOINT names the path and what is wrong; hostile sizes, offsets, names (a slash, "..") are refused. */
LS_MUST_USE ls_status lsi_manifest_read(const char *folder, lsi_manifest *out);
void lsi_manifest_free(lsi_manifest *manifest);

#endif
