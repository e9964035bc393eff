#include "loop/checkpoint_config.h"

#include <string.h>

#include "checkpoint/layout.h"
#include "models/models.h"

ls_status lsi_checkpoint_config(const lsi_checkpoint *checkpoint, const char *const *sets, int n_sets, lsi_config **out)
{
    const lsi_manifest *manifest = lsi_checkpoint_manifest(checkpoint);

    return lsi_config_load_printed("the checkpoint's configuration", manifest->config, sets, n_sets, out);
}

ls_status lsi_checkpoint_load_config(const char *folder, const char *const *sets, int n_sets, lsi_config **out)
{
    lsi_checkpoint *checkpoint;

    LS_TRY(lsi_checkpoint_open(folder, &checkpoint));
    ls_status status = lsi_checkpoint_config(checkpoint, sets, n_sets, out);
    lsi_checkpoint_close(&checkpoint);
    return status;
}

/* The tensor of a parameter, NULL when there is none. */
static const lsi_tensor *find_parameter(const lsi_safetensors *weights, const char *name)
{
    for (int i = 0; i < weights->n; i++) {
        if (strcmp(lsi_layout_bare_name(weights->tensor[i].name), name) == 0) {
            return &weights->tensor[i];
        }
    }
    return NULL;
}

ls_status lsi_checkpoint_vocab(const lsi_checkpoint *checkpoint, const ls_config *config, int64_t *out)
{
    const lsi_safetensors *weights = lsi_checkpoint_tensors(checkpoint, LSI_LAYOUT_MODEL);
    char name[LS_NAME_MAX];

    LS_TRY(lsi_model_vocab_param(config, name));
    const lsi_tensor *tensor = weights != NULL ? find_parameter(weights, name) : NULL;

    LS_REQUIRE(tensor != NULL && tensor->shape.rank >= 1, LS_ERR_CHECKPOINT,
               "%s: no tensor %s, which model.kind = %s would have; made by a program with a model of its own?",
               weights != NULL ? weights->path : "the checkpoint", name, config->model.kind);
    *out = tensor->shape.dim[0];
    return LS_OK;
}

ls_status lsi_checkpoint_read_weights(void *checkpoint, int array, int64_t first, int64_t count, float *out)
{
    if (array == LSI_STATE_WEIGHTS) {
        return lsi_checkpoint_read(checkpoint, array, first, count, out);
    }
    memset(out, 0, (size_t)count * sizeof *out);
    return LS_OK;
}

ls_status lsi_checkpoint_bind_weights(lsi_checkpoint *checkpoint, const lsi_param_table *params)
{
    return lsi_checkpoint_bind(checkpoint, params, 1, (const char *const[]){""});
}
