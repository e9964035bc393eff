#include "models/models.h"

#include <inttypes.h>
#include <string.h>

typedef struct model_row {
    const char *name;
    ls_status (*build)(const ls_config *config, const ls_dataset *data, lsi_model *out);
} model_row;

static const model_row rows[] = {
#define LS_MODEL(name) {#name, lsi_model_##name},
#include "models/models.def"
#undef LS_MODEL
};

ls_status lsi_model_build(const ls_config *config, const ls_dataset *data, lsi_model *out)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, config->model.kind) == 0) {
            return rows[i].build(config, data, out);
        }
    }
    return LS_FAIL(LS_ERR_CONFIG, "model.kind = %s is not in this build", config->model.kind);
}

ls_status lsi_model_vocab(const ls_config *config, const ls_dataset *data, int64_t *out)
{
    LS_REQUIRE(config->model.vocab == 0 || config->model.vocab >= data->n_classes, LS_ERR_CONFIG,
               "model.vocab = %" PRId64 " is less than the %" PRId64 " classes of data.kind = %s (%s)",
               config->model.vocab, data->n_classes, config->data.kind, data->description);
    *out = config->model.vocab != 0 ? config->model.vocab : data->n_classes;
    return LS_OK;
}
