/* The layer contract, for authors of layer kinds.
 *
 * A kind infers shapes, declares its parameters and what its backward reads, and launches ops. It has no backend code
 * and keeps no pointer between calls: a plan decides where every value lives, and may recompute what is not saved.
 *
 * Types: one graph is compiled for f32, f16 or bf16. infer() says LS_REAL for "the type of the plan" (activations,
 * logits) and LS_F32 for what is f32 in every plan (statistics, losses); an input of real numbers reads LS_REAL there,
 * whatever the data set stores. forward() and backward() never ask: they pass on the views they are given, which carry
 * the plan's choice. Parameters come in the plan's type, a gradient has the type of its value, and gradients of
 * parameters are always f32. A kind that needs the real element type finds it in view.dtype. */
#ifndef LS_LAYER_H
#define LS_LAYER_H

#include <lockstep/backend.h>
#include <lockstep/graph.h>
#include <lockstep/layers.h>
#include <lockstep/step_state.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LS_LAYER_MAX_IN = 3, LS_LAYER_MAX_PARAMS = 4, LS_LAYER_MAX_SAVED = 3, LS_LAYER_ATTRIBUTE_BYTES = 128 };
enum { LS_NAME_MAX = 96 };  /* of layers and parameters, with the NUL */

/* What the backward reads, as bits of ls_layer_node.saves. */
#define LS_SAVES_IN(i) (1u << (i))
#define LS_SAVES_OUT (1u << 8)

typedef struct ls_param_spec {
    char name[LS_NAME_MAX]; /* full name, e.g. "h.0.ln_1.weight" */
    ls_shape shape;         /* as users see it */
    int64_t padded_rows;    /* extent 0 inside, >= shape.dim[0]; 0: not padded. Padding stays zero. */
    ls_init init;
    bool shared;            /* refers to a parameter that another layer declared under this name */
} ls_param_spec;

typedef struct ls_saved_spec {
    ls_shape shape;         /* of one sample; written by forward, read by backward */
    ls_dtype dtype;         /* LS_F32 for statistics, LS_REAL to save at half the size where the plan is 16-bit */
} ls_saved_spec;

typedef struct ls_layer_kind ls_layer_kind;

/* One layer of a graph. The graph fills the first part; infer() fills the second. */
typedef struct ls_layer_node {
    const ls_layer_kind *kind;
    const char *name;
    uint64_t key;           /* hash of the name: keys this layer's random numbers */
    int n_in;
    ls_shape in_shape[LS_LAYER_MAX_IN];
    ls_dtype in_dtype[LS_LAYER_MAX_IN];     /* LS_REAL: the plan's type */
    int64_t in_padding[LS_LAYER_MAX_IN];    /* columns at the end of the last extent that mean nothing; losses only */
    uint64_t attributes[LS_LAYER_ATTRIBUTE_BYTES / 8];    /* the kind's own struct, copied by ls_layer_append */

    ls_shape out_shape;
    ls_dtype out_dtype;     /* LS_REAL, unless it is another one in every plan */
    int64_t out_padding;
    int n_params;
    ls_param_spec param[LS_LAYER_MAX_PARAMS];
    int n_saved;
    ls_saved_spec saved[LS_LAYER_MAX_SAVED];
    unsigned saves;
} ls_layer_node;

/* The kind's own struct. */
static inline const void *ls_layer_attributes(const ls_layer_node *node)
{
    return node->attributes;
}

/* One execution of one layer over one slot. Views not used in the direction have count 0. */
typedef struct ls_layer_run {
    const ls_layer_node *node;
    ls_stream *stream;
    ls_step_state *state;
    ls_mode mode;
    int64_t n_samples;          /* of the slot */
    int64_t first_sample;       /* index in the global batch of the slot's first sample */
    uint64_t seed;
    float loss_seed;            /* 2^-k: what the loss's backward starts from, times state->loss_scale */
    ls_slot_record *record;     /* of this slot, device memory */
    ls_view in[LS_LAYER_MAX_IN], out, saved[LS_LAYER_MAX_SAVED], param[LS_LAYER_MAX_PARAMS];
    /* backward only, but for d_in[0] of a kind whose forward_makes_d_in. A d_in of count 0 is not wanted. accumulate: 1
     * adds to what is there, 0 overwrites. */
    ls_view d_out, d_in[LS_LAYER_MAX_IN], d_param[LS_LAYER_MAX_PARAMS];
    int accumulate_in[LS_LAYER_MAX_IN], accumulate_param[LS_LAYER_MAX_PARAMS];
    /* Of a kind that makes_gelu; count 0: not asked for. Forward: write gelu(out) here, besides out. Backward: in[0] is
     * the gelu of this; write to d_in[0] the gradient of this instead of in[0]'s (accumulate_in[0] is 0 then). */
    ls_view gelu_out, gelu_in;
    /* Of a kind that makes_sum; count 0: not asked for. Forward: in[0] is still to be written, as the sum of these. */
    ls_view sum_of[2];
} ls_layer_run;

struct ls_layer_kind {
    size_t struct_size;
    const char *name;
    /* Checks input shapes (messages name the layer and both shapes) and fills the second part of the node, all 0 until
     * then. Pointers in the attributes hold during this call only. */
    ls_status (*infer)(ls_layer_node *node);
    ls_status (*forward)(const ls_layer_run *run);
    ls_status (*backward)(const ls_layer_run *run);     /* NULL: the layer has no gradient */
    bool adds_input_gradient;   /* backward honours accumulate_in = 1; otherwise the plan adds through a temporary */
    /* Each input's gradient is the output's, unchanged but for the type: the plan may share the memory. */
    bool passes_gradient;
    bool identity_outside_training;     /* eval and infer plans leave the layer out */
    /* In place: forward may write out over in[0]; backward may write d_in[0] over d_out, or over in[0]. */
    bool out_over_in, d_in_over_d_out, d_in_over_in;
    /* A GELU next to a product costs fewer passes over memory when the product makes it: the plan then leaves out the
     * forward or the backward of a layer that is_gelu (one input, d_in_over_d_out), and asks the layer before or behind
     * it, which makes_gelu. */
    bool is_gelu, makes_gelu;
    /* Likewise a sum of two values of one shape and type (is_sum), and what reads it next (makes_sum). */
    bool is_sum, makes_sum;
    /* A loss may make its gradient in the forward, while its input is in the cache: where nobody reads in[0] again, the
     * plan gives the forward a d_in[0], which is in[0]'s memory, and leaves the backward out. */
    bool forward_makes_d_in;
    bool is_loss;               /* `out` holds the losses, for nobody to read in the graph; there is no d_out */
};

/* For infer(): adds a parameter called OWNER.SUFFIX, to be completed by the caller. NULL when there are too many or the
 * name is too long; the failure is recorded. */
ls_param_spec *ls_layer_add_param(ls_layer_node *node, const char *owner, const char *suffix, ls_shape shape,
                                  ls_init init);

/* Appends a layer: copies `attributes`, infers, keeps errors in the graph. Returns its output, none after an error. */
ls_var ls_layer_append(ls_graph *graph, const ls_layer_kind *kind, const char *name, const ls_var *in, int n_in,
                       const void *attributes, size_t attributes_bytes);

#ifdef __cplusplus
}
#endif
#endif
