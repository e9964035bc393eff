/* model.init_from: initial weights from a safetensors file. */
#ifndef LSI_CHECKPOINT_IMPORT_H
#define LSI_CHECKPOINT_IMPORT_H

#include "graph/param.h"

/* Fills `flat` (params->n_elements; padding zero) from `path`: a safetensors file, or a folder with a model.safetensors
 * (a checkpoint of ours, or a model as Hugging Face's libraries save it). Names are the parameters' own, with or
 * without "transformer." in front; F32, F16 and BF16 are widened; attn.bias and attn.masked_bias (masks, not weights)
 * are passed over, as is a lm_head.weight that is tied. ERR_DATA names the tensor that is missing, left over, or of
 * another shape, with both shapes. */
LS_MUST_USE ls_status lsi_import_weights(const char *path, const lsi_param_table *params, float *flat);

#endif
