/* The manifest of a checkpoint from what every rank has written of it. */
#ifndef LSI_CHECKPOINT_ASSEMBLE_H
#define LSI_CHECKPOINT_ASSEMBLE_H

#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/pieces.h"

/* Appends the text of manifest.json: `head` without its files, which are those of the layout, made of the n pieces of
 * all ranks (sorted here), and config.json where hf_config has text. ERR_INTERNAL when
 * pieces leave a gap. */
LS_MUST_USE ls_status lsi_assemble_manifest(const lsi_manifest *head, const lsi_layout *layout,
                                            const lsi_text *hf_config, lsi_piece *piece, int n, lsi_text *out);

#endif
