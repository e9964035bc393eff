/* Small models: gpt tied with and without dropout and untied, mlp with gelu and relu; a regression with two towers. */
#ifndef LS_TESTS_SUPPORT_MODEL_CASE_H
#define LS_TESTS_SUPPORT_MODEL_CASE_H

#include "support/graph_case.h"

#include "models/models.h"

enum { MODEL_CONTEXT = 6, MODEL_VOCAB = 11, MODEL_BUILT_IN = 6, MODEL_CASES = 7 };

ls_config model_case_gpt(bool tied, double dropout);
ls_config model_case_mlp(const char *activation, double dropout);
/* For gpt: rows of tokens; for mlp: images of 4 x 5. */
extern const ls_dataset model_case_text, model_case_images;

/* Model 6, built of layers as a user would: a tower over the first 7 columns of a row of 12, another one over the rest,
 * and the squared error of their inner product. The logits are that product. dropout < 0: some everywhere
 * but in model 0 and 3. */
void model_case_build(int which, double dropout, lsi_model *out);
/* The logits are output 0 where `logits`. */
void model_case_open(graph_case *c, const lsi_model *m, ls_dtype compute, ls_mode mode, int64_t micro_batch,
                     int n_threads, bool logits);

#endif
