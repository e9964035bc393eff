#include "models/models.h"

#include <inttypes.h>
#include <string.h>

typedef struct model_row {
    const char *name;
    ls_status (*build)(const ls_config *config, const ls_dataset *data, lsi_model *out);
    void (*vocab_param)(const ls_config *config, char out[LS_NAME_MAX]);
} model_row;

static const model_row rows[] = {
#define LS_MODEL(name) {#name, lsi_model_##name, lsi_model_##name##_vocab_param},
#include "models/models.def"
#undef LS_MODEL
};

static ls_status find(const ls_config *config, const model_row **out)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, config->model.kind) == 0) {
            *out = &rows[i];
            return LS_OK;
        }
    }
    return LS_FAIL(LS_ERR_CONFIG, "model.kind = %s is not in this build", config->model.kind);
}

ls_status lsi_model_build(const ls_config *config, const ls_dataset *data, lsi_model *out)
{
    const model_row *row;

    LS_TRY(find(config, &row));
    return row->build(config, data, out);
}

ls_status lsi_model_vocab_param(const ls_config *config, char out[LS_NAME_MAX])
{
    const model_row *row;

    LS_TRY(find(config, &row));
    row->vocab_param(config, out);
    return LS_OK;
}

ls_status lsi_model_vocab(const ls_config *config, const ls_dataset *data, int64_t *out)
{
    LS_REQUIRE(config->model.vocab == 0 || config->model.vocab >= data->n_classes, LS_ERR_CONFIG,
               "model.vocab = %" PRId64 " is less than the %" PRId64 " classes of data.kind = %s (%s)",
               config->model.vocab, data->n_classes, config->data.kind, data->description);
    *out = config->model.vocab != 0 ? config->model.vocab : data->n_classes;
    return LS_OK;
}
