#include "checkpoint/hf_config.h"

#include <inttypes.h>
#include <string.h>

#include "checkpoint/json_text.h"

/* Of GPT-2's own vocabulary the last token ends a text; ids of other vocabularies mean nothing to us. */
enum { GPT2_VOCAB = 50257 };

static void append_int(lsi_text *out, const char *name, int64_t value)
{
    lsi_text_append(out, "  \"%s\": %" PRId64 ",\n", name, value);
}

static void append_real(lsi_text *out, const char *name, double value)
{
    lsi_text_append(out, "  \"%s\": ", name);
    lsi_json_text_double(out, value);
    lsi_text_append(out, ",\n");
}

ls_status lsi_hf_config(const ls_config *config, int64_t vocab, lsi_text *out)
{
    static const char *const dropouts[] = {"attn_pdrop", "embd_pdrop", "resid_pdrop"};
    const char *token = vocab == GPT2_VOCAB ? "50256" : "null";

    if (strcmp(config->model.kind, "gpt") != 0) {
        lsi_text_append_bytes(out, "", 0);
        return lsi_text_status(out);
    }
    lsi_text_append(out, "{\n  \"model_type\": \"gpt2\",\n  \"architectures\": [\"GPT2LMHeadModel\"],\n"
                         "  \"activation_function\": \"gelu_new\",\n");
    append_int(out, "n_layer", config->model.layers);
    append_int(out, "n_head", config->model.heads);
    append_int(out, "n_embd", config->model.width);
    append_int(out, "n_inner", 4 * config->model.width);
    append_int(out, "n_positions", config->model.context);
    append_int(out, "n_ctx", config->model.context);
    append_int(out, "vocab_size", vocab);
    append_real(out, "layer_norm_epsilon", 1e-5);
    append_real(out, "initializer_range", 0.02);
    for (size_t i = 0; i < sizeof dropouts / sizeof dropouts[0]; i++) {
        append_real(out, dropouts[i], config->model.dropout);
    }
    lsi_text_append(out, "  \"bos_token_id\": %s,\n  \"eos_token_id\": %s,\n", token, token);
    lsi_text_append(out, "  \"tie_word_embeddings\": %s,\n  \"torch_dtype\": \"float32\"\n}\n",
                    config->model.tied ? "true" : "false");
    return lsi_text_status(out);
}
