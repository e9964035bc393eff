/* An existing checkpoint, read. Nothing here is collective: every rank opens the same files. */
#ifndef LSI_CHECKPOINT_CHECKPOINT_H
#define LSI_CHECKPOINT_CHECKPOINT_H

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "graph/param.h"
#include "job/watchdog.h"
#include "train/state.h"

typedef struct lsi_checkpoint lsi_checkpoint;

/* Reads the manifest and maps the files: their sizes must be right, and the first piece of each, where the header is,
 * must have its hash. `folder` may also be a link ("best"); a folder of checkpoints, or of a run, is refused with the
 * newest step-... inside named. ERR_CHECKPOINT names the path. */
LS_MUST_USE ls_status lsi_checkpoint_open(const char *folder, lsi_checkpoint **out);
void lsi_checkpoint_close(lsi_checkpoint **checkpoint);
const lsi_manifest *lsi_checkpoint_manifest(const lsi_checkpoint *checkpoint);
/* The weights and the moments as opened safetensors files; NULL when the checkpoint has no such file. */
const lsi_safetensors *lsi_checkpoint_tensors(const lsi_checkpoint *checkpoint, int layout_file);

/* Hashes every n_parts-th piece, from `part` on: the ranks of a job share the work and agree on the result. */
LS_MUST_USE ls_status lsi_checkpoint_verify(const lsi_checkpoint *checkpoint, int part, int n_parts,
                                            lsi_watchdog *watchdog);

/* Checks that names and shapes are exactly those of these parameters and arrays: ERR_CHECKPOINT names the tensor and
 * both shapes. Borrows `params`. Afterwards lsi_checkpoint_read is a lsi_state_source (n_arrays 1: weights alone are
 * asked for); it may run in several threads at once. */
LS_MUST_USE ls_status lsi_checkpoint_bind(lsi_checkpoint *checkpoint, const lsi_param_table *params, int n_arrays,
                                          const char *const *array_name);
ls_status lsi_checkpoint_read(void *checkpoint, int array, int64_t first, int64_t count, float *out);

/* The weights hash of DESIGN from the files alone: 32 hex digits, parameters in the order of the file. `path` is a
 * checkpoint folder (verified first) or any safetensors file of f32 tensors. For --hash. */
LS_MUST_USE ls_status lsi_checkpoint_weights_hash(const char *path, char out[33]);

#endif
