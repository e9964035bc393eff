/* A model that only runs forward, over one window of tokens at a time: weights, activations and one row of logits on
 * one device. No job, no data set, no trainer. */
#ifndef LSI_LOOP_INFERENCE_H
#define LSI_LOOP_INFERENCE_H

#include "models/models.h"
#include "train/state.h"

typedef struct lsi_inference lsi_inference;

typedef struct lsi_inference_options {
    const ls_config *config; /* device, precision and seed are read; borrowed */
    const lsi_model *model;  /* tokens in, a row of logits for each out; not compiled yet; borrowed */
    int n_threads;           /* at least 1 */
    lsi_state_source source; /* asked for the f32 weights, in ascending pieces */
    void *source_argument;
} lsi_inference_options;

/* Opens the device, compiles the graph, loads the weights (rounded to precision.compute). */
LS_MUST_USE ls_status lsi_inference_open(const lsi_inference_options *options, lsi_inference **out);
/* Accepts NULL. Before the graph is destroyed. */
void lsi_inference_close(lsi_inference **inference);

/* Tokens the model looks back over: the longest window. */
int64_t lsi_inference_context(const lsi_inference *inference);
/* Logits of the token that follows token[n - 1], 1 <= n <= context: the first n_classes of them. Ids must be rows of
 * the token table. What stands behind the n-th token does not matter, since attention is causal. */
LS_MUST_USE ls_status lsi_inference_run(lsi_inference *inference, const int32_t *token, int64_t n, int64_t n_classes,
                                        double *out);

#endif
