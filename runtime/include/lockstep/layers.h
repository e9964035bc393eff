/* One builder per layer kind. Names must be unique in a graph: parameters are called NAME.weight and NAME.bias, and
 * initial weights and dropout masks depend on them. */
#ifndef LS_LAYERS_H
#define LS_LAYERS_H

#include <lockstep/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Initial values, keyed by the parameter's name and the seed. */
typedef enum ls_init_kind { LS_INIT_CONSTANT, LS_INIT_NORMAL, LS_INIT_UNIFORM } ls_init_kind;
typedef struct ls_init {
    ls_init_kind kind;
    float value;            /* the constant; the standard deviation; the half width of the interval around 0 */
} ls_init;

typedef struct ls_linear_options {
    ls_init weight, bias;
    bool no_bias;
    bool out_by_in;         /* weight stored [out, in] (embedding layout) instead of [in, out] */
    int64_t pad_out_to;     /* rows of an [out, in] weight are padded inside to a multiple of this; 0: not. The output
                             * then has the padded width; padding columns are never read by ls_softmax_xent. */
    const char *tied_to;    /* use this parameter as the weight ([out, in]) instead of an own one; NULL: not */
} ls_linear_options;

/* y[.., out] = x[.., in] W + b, over the last extent. options NULL or all 0: both start at 0, which a hidden layer
 * cannot learn from; give it a weight such as {LS_INIT_NORMAL, 0.02f}. */
ls_var ls_linear(ls_graph *graph, const char *name, ls_var x, int64_t out_features, const ls_linear_options *options);
/* Normalises the last extent to mean 0, variance 1 (eps 1e-5), scales and shifts; weight starts at 1, bias at 0. */
ls_var ls_layernorm(ls_graph *graph, const char *name, ls_var x);
/* x * 0.5 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
ls_var ls_gelu(ls_graph *graph, const char *name, ls_var x);
ls_var ls_relu(ls_graph *graph, const char *name, ls_var x);
/* 1 / (1 + e^-x) */
ls_var ls_sigmoid(ls_graph *graph, const char *name, ls_var x);
ls_var ls_tanh(ls_graph *graph, const char *name, ls_var x);
/* Element-wise sum and product of two values of equal shape. */
ls_var ls_add(ls_graph *graph, const char *name, ls_var a, ls_var b);
ls_var ls_mul(ls_graph *graph, const char *name, ls_var a, ls_var b);
/* x[.., n] -> [.., count]: elements first .. first + count - 1 of the last extent. A graph has one input; its parts
 * begin here. */
ls_var ls_columns(ls_graph *graph, const char *name, ls_var x, int64_t first, int64_t count);
/* a[.., n] and b[.., m] -> [.., n + m], side by side. */
ls_var ls_concat(ls_graph *graph, const char *name, ls_var a, ls_var b);
/* a[.., n] and b[.., n] -> [.., 1]: the sum of a * b over the last extent. */
ls_var ls_dot(ls_graph *graph, const char *name, ls_var a, ls_var b);
/* Zeroes elements with the given probability, scales the others by 1 / (1 - probability); nothing outside training. */
ls_var ls_dropout(ls_graph *graph, const char *name, ls_var x, float probability);
/* tokens [T] int32 -> [T, width]: row of TOKEN_NAME.weight [vocab padded, width] plus row t of POSITION_NAME.weight. */
ls_var ls_embedding(ls_graph *graph, const char *token_name, const char *position_name, ls_var tokens, int64_t vocab,
                    int64_t pad_vocab_to, int64_t width, ls_init init);
/* qkv [T, 3 width] -> [T, width]: per head, causal softmax(q k^T / sqrt(width / heads)) v, the softmax with dropout. */
ls_var ls_attention(ls_graph *graph, const char *name, ls_var qkv, int64_t heads, float dropout);
/* Mean cross-entropy over the counted targets. logits [.., >= n_classes], targets [..]; columns beyond n_classes are
 * ignored, as are targets below 0. */
ls_var ls_softmax_xent(ls_graph *graph, const char *name, ls_var logits, ls_var targets, int64_t n_classes);
/* Mean of (x - target)^2 over the counted targets (not halved). x has as many elements as there are targets, which come
 * from ls_targets_f32 and are ignored where they are NaN. Counts no hits: accuracy means nothing. */
ls_var ls_mse(ls_graph *graph, const char *name, ls_var x, ls_var targets);

#ifdef __cplusplus
}
#endif
#endif
