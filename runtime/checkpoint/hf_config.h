/* config.json beside the weights: what Hugging Face's library must know to load them. */
#ifndef LSI_CHECKPOINT_HF_CONFIG_H
#define LSI_CHECKPOINT_HF_CONFIG_H

#include "base/text.h"
#include <lockstep/config.h>

/* Appends the configuration of their GPT-2 for model.kind = gpt, with which it computes our logits; nothing for other
 * models, which they do not have. `vocab`: rows of the token table, as resolved. */
LS_MUST_USE ls_status lsi_hf_config(const ls_config *config, int64_t vocab, lsi_text *out);

#endif
