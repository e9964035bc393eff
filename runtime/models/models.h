/* Built-in models: graphs from the [model] section and the data's shape. */
#ifndef LSI_MODELS_MODELS_H
#define LSI_MODELS_MODELS_H

#include <lockstep/config.h>
#include <lockstep/dataset.h>
#include <lockstep/graph.h>
#include <lockstep/layer.h>

typedef struct lsi_model {
    ls_graph *graph;        /* owned by the caller */
    ls_var logits, loss;
} lsi_model;

/* Checks that model and data fit (ERR_CONFIG names both keys). `vocab` 0 in the configuration: the data's. Of the data
 * only shapes, types, n_classes and the description are read: without a data set, a filled-in ls_dataset will do. */
LS_MUST_USE ls_status lsi_model_build(const ls_config *config, const ls_dataset *data, lsi_model *out);

/* Classes of the model: model.vocab, or the data's. */
LS_MUST_USE ls_status lsi_model_vocab(const ls_config *config, const ls_dataset *data, int64_t *out);

/* Name of the parameter whose first extent is the number of classes: weights tell it where there is no data. */
LS_MUST_USE ls_status lsi_model_vocab_param(const ls_config *config, char out[LS_NAME_MAX]);

/* Rows of models.def call one of each. */
LS_MUST_USE ls_status lsi_model_mlp(const ls_config *config, const ls_dataset *data, lsi_model *out);
LS_MUST_USE ls_status lsi_model_gpt(const ls_config *config, const ls_dataset *data, lsi_model *out);
void lsi_model_mlp_vocab_param(const ls_config *config, char out[LS_NAME_MAX]);
void lsi_model_gpt_vocab_param(const ls_config *config, char out[LS_NAME_MAX]);

#endif
