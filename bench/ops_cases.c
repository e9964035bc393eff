#include "ops_cases.h"

#include <string.h>

static ls_view v(int64_t count, ls_dtype dtype)
{
    return ls_view_make(NULL, count, dtype);
}

static int64_t rows(const ops_shape *s)
{
    return s->samples * s->context;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static void product(lsi_gemm_args *a, int64_t m, int64_t n, int64_t k, ls_dtype t)
{
    a->m = m;
    a->n = n;
    a->k = k;
    a->a = v(m * k, t);
    a->b = v(k * n, t);
    a->c = v(m * n, t);
}

static void gemm_square(const ops_shape *s, ls_dtype t, void *arguments)
{
    product(arguments, s->square, s->square, s->square, t);
}

static void gemm_forward(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_gemm_args *a = arguments;

    product(a, rows(s), 4 * s->width, s->width, t);
    a->bias = v(a->n, t);
}

static void gemm_input_gradient(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_gemm_args *a = arguments;

    product(a, rows(s), s->width, 4 * s->width, t);
    a->trans_b = 1;
}

static void gemm_weight_gradient(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_gemm_args *a = arguments;

    product(a, s->width, 4 * s->width, rows(s), t);
    a->trans_a = 1;
    a->accumulate = 1;
    a->c.dtype = LS_F32;
}

static void gemm_logits(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_gemm_args *a = arguments;

    product(a, rows(s), s->padded_vocab, s->width, t);
    a->trans_b = 1;
}

static void gemm_gelu_forward(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_gemm_gelu_args *a = arguments;

    a->m = rows(s);
    a->n = 4 * s->width;
    a->k = s->width;
    a->a = v(a->m * a->k, t);
    a->b = v(a->k * a->n, t);
    a->bias = v(a->n, t);
    a->x = a->y = v(a->m * a->n, t);
}

static void gemm_gelu_backward(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_gemm_gelu_bwd_args *a = arguments;

    a->m = rows(s);
    a->n = 4 * s->width;
    a->k = s->width;
    a->a = v(a->m * a->k, t);
    a->b = v(a->k * a->n, t);
    a->trans_b = 1;
    a->x = a->dx = v(a->m * a->n, t);
}

static void attention_forward(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_attention_fwd_args *a = arguments;

    a->samples = s->samples;
    a->context = s->context;
    a->heads = s->heads;
    a->head_size = s->width / s->heads;
    a->qkv = v(3 * rows(s) * s->width, t);
    a->y = v(rows(s) * s->width, t);
    a->lse = v(rows(s) * s->heads, LS_F32);
}

static void attention_backward(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_attention_bwd_args *a = arguments;

    a->samples = s->samples;
    a->context = s->context;
    a->heads = s->heads;
    a->head_size = s->width / s->heads;
    a->qkv = v(3 * rows(s) * s->width, t);
    a->y = v(rows(s) * s->width, t);
    a->lse = v(rows(s) * s->heads, LS_F32);
    a->dy = v(rows(s) * s->width, t);
    a->dqkv = v(3 * rows(s) * s->width, t);
}

/* ---- element by element ------------------------------------------------------------------------------------------ */

/* The activation stands behind the wide product of a block, everything else on its narrow side. */
#define UNARY(op)                                                                                                      \
    static void op##_case(const ops_shape *s, ls_dtype t, void *arguments)                                             \
    {                                                                                                                  \
        lsi_##op##_fwd_args *a = arguments;                                                                            \
        a->x = a->y = v(4 * rows(s) * s->width, t);                                                                    \
    }                                                                                                                  \
    static void op##_back(const ops_shape *s, ls_dtype t, void *arguments)                                             \
    {                                                                                                                  \
        lsi_##op##_bwd_args *a = arguments;                                                                            \
        a->x = a->dy = a->dx = v(4 * rows(s) * s->width, t);                                                           \
    }
UNARY(gelu)
UNARY(relu)
UNARY(sigmoid)
UNARY(tanh)
#undef UNARY

static void add_case(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_add_args *a = arguments;

    a->a = a->b = a->y = v(rows(s) * s->width, t);
}

static void mul_case(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_mul_args *a = arguments;

    a->a = a->b = a->y = v(rows(s) * s->width, t);
}

static void add_into_case(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_add_into_args *a = arguments;

    a->x = a->y = v(rows(s) * s->width, t);
}

static void dropout_case(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_dropout_args *a = arguments;

    a->x = a->y = v(rows(s) * s->width, t);
    a->per_sample = s->context * s->width;
    a->probability = 0.1F;
}

static void cast_case(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_cast_args *a = arguments;

    a->x = v(s->parameters, LS_F32);
    a->y = v(s->parameters, t);
}

/* ---- columns and rows -------------------------------------------------------------------------------------------- */

static void bias_case(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_bias_bwd_args *a = arguments;

    a->rows = rows(s);
    a->cols = 4 * s->width;
    a->dy = v(a->rows * a->cols, t);
    a->db = v(a->cols, LS_F32);
}

static void slice_case(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_slice_fwd_args *a = arguments;

    a->rows = rows(s);
    a->pitch = 3 * s->width;
    a->first = a->count = s->width;
    a->x = v(a->rows * a->pitch, t);
    a->y = v(a->rows * a->count, t);
}

/* A third of the input's columns. */
static double slice_bytes(const void *arguments)
{
    const lsi_slice_fwd_args *a = arguments;

    return 2.0 * (double)a->y.count * (double)ls_dtype_bytes(a->y.dtype);
}

static void slice_back(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_slice_bwd_args *a = arguments;

    a->rows = rows(s);
    a->pitch = 3 * s->width;
    a->first = a->count = s->width;
    a->dy = v(a->rows * a->count, t);
    a->dx = v(a->rows * a->pitch, t);
}

static void concat_case(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_concat_args *a = arguments;

    a->rows = rows(s);
    a->a_cols = a->b_cols = s->width;
    a->a = a->b = v(a->rows * a->a_cols, t);
    a->y = v(2 * a->rows * a->a_cols, t);
}

static void dot_case(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_dot_fwd_args *a = arguments;

    a->rows = rows(s);
    a->cols = s->width;
    a->a = a->b = v(a->rows * a->cols, t);
    a->y = v(a->rows, t);
}

static void dot_back(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_dot_bwd_args *a = arguments;

    a->rows = rows(s);
    a->cols = s->width;
    a->other = a->dx = v(a->rows * a->cols, t);
    a->dy = v(a->rows, t);
}

static void layernorm_case(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_layernorm_fwd_args *a = arguments;

    a->rows = rows(s);
    a->cols = s->width;
    a->eps = 1e-5F;
    a->x = a->y = v(a->rows * a->cols, t);
    a->gamma = a->beta = v(a->cols, t);
    a->mean = a->rstd = v(a->rows, LS_F32);
}

static void layernorm_of_sum(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_add_layernorm_args *a = arguments;

    a->rows = rows(s);
    a->cols = s->width;
    a->eps = 1e-5F;
    a->a = a->b = a->s = a->y = v(a->rows * a->cols, t);
    a->gamma = a->beta = v(a->cols, t);
    a->mean = a->rstd = v(a->rows, LS_F32);
}

static void layernorm_back(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_layernorm_bwd_args *a = arguments;

    a->rows = rows(s);
    a->cols = s->width;
    a->x = a->dy = a->dx = v(a->rows * a->cols, t);
    a->gamma = v(a->cols, t);
    a->mean = a->rstd = v(a->rows, LS_F32);
    a->dgamma = a->dbeta = v(a->cols, LS_F32);
}

/* ---- loss and embedding ------------------------------------------------------------------------------------------ */

static void softmax_case(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_softmax_xent_fwd_args *a = arguments;

    a->rows = rows(s);
    a->pitch = s->padded_vocab;
    a->classes = s->vocab;
    a->logits = v(a->rows * a->pitch, t);
    a->targets = v(a->rows, LS_I32);
    a->losses = a->lse = a->hits = v(a->rows, LS_F32);
}

static void softmax_both(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_softmax_xent_args *a = arguments;

    a->rows = rows(s);
    a->pitch = s->padded_vocab;
    a->classes = s->vocab;
    a->seed = 1.0F;
    a->logits = v(a->rows * a->pitch, t);
    a->targets = v(a->rows, LS_I32);
    a->losses = a->hits = v(a->rows, LS_F32);
}

static void softmax_back(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_softmax_xent_bwd_args *a = arguments;

    a->rows = rows(s);
    a->pitch = s->padded_vocab;
    a->classes = s->vocab;
    a->seed = 1.0F;
    a->logits = a->dlogits = v(a->rows * a->pitch, t);
    a->targets = v(a->rows, LS_I32);
    a->lse = v(a->rows, LS_F32);
}

static void mse_case(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_mse_fwd_args *a = arguments;

    a->x = v(rows(s) * s->width, t);
    a->targets = a->losses = v(rows(s) * s->width, LS_F32);
}

static void mse_back(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_mse_bwd_args *a = arguments;

    a->x = a->dx = v(rows(s) * s->width, t);
    a->targets = v(rows(s) * s->width, LS_F32);
    a->seed = 1.0F;
}

static void loss_sum_case(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_loss_sum_args *a = arguments;

    (void)t;
    a->losses = a->hits = v(rows(s), LS_F32);
    a->targets = v(rows(s), LS_I32);
    a->record = v((int64_t)(sizeof(ls_slot_record) / sizeof(double)), LS_F64);
}

static void embedding_case(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_embedding_fwd_args *a = arguments;

    a->samples = s->samples;
    a->context = s->context;
    a->width = s->width;
    a->tokens = v(rows(s), LS_I32);
    a->wte = v(s->padded_vocab * s->width, t);
    a->wpe = v(s->context * s->width, t);
    a->y = v(rows(s) * s->width, t);
}

/* Of the table only the rows of the tokens. */
static double embedding_bytes(const void *arguments)
{
    const lsi_embedding_fwd_args *a = arguments;

    return (2.0 * (double)a->y.count + (double)a->wpe.count) * (double)ls_dtype_bytes(a->y.dtype) +
           (double)a->tokens.count * (double)sizeof(int32_t);
}

static void embedding_back(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_embedding_bwd_args *a = arguments;

    a->samples = s->samples;
    a->context = s->context;
    a->width = s->width;
    a->rows = s->padded_vocab;
    a->tokens = v(rows(s), LS_I32);
    a->dy = v(rows(s) * s->width, t);
    a->dwte = v(a->rows * s->width, LS_F32);
    a->dwpe = v(s->context * s->width, LS_F32);
}

/* ---- the update -------------------------------------------------------------------------------------------------- */

static void norms_case(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_block_norms_args *a = arguments;

    (void)t;
    a->g = v(s->parameters, LS_F32);
    a->sums = v((s->parameters + LSI_BLOCK - 1) / LSI_BLOCK, LS_F64);
}

static ls_view copy_of(const ops_shape *s, ls_dtype t)
{
    return t == LS_F32 ? v(0, LS_F32) : v(s->parameters, t);
}

static void adamw_case(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_adamw_args *a = arguments;

    a->g = a->w = a->m = a->v = v(s->parameters, LS_F32);
    a->copy = copy_of(s, t);
    a->beta1 = 0.9;
    a->beta2 = 0.999;
    a->eps = 1e-8;
    a->weight_decay = 0.01;
}

static void sgd_case(const ops_shape *s, ls_dtype t, void *arguments)
{
    lsi_sgd_args *a = arguments;

    a->g = a->w = a->momentum = v(s->parameters, LS_F32);
    a->copy = copy_of(s, t);
    a->factor = 0.9;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* Views are counted inputs first, then outputs, then accumulated ones. */
static const ops_case cases[] = {
    {.op = &lsi_op_gemm, .what = "square", .make = gemm_square, .overwritten = 1U << 3},
    {.op = &lsi_op_gemm, .what = "forward", .make = gemm_forward, .overwritten = 1U << 3},
    {.op = &lsi_op_gemm, .what = "input gradient", .make = gemm_input_gradient, .overwritten = 1U << 3},
    {.op = &lsi_op_gemm, .what = "weight gradient", .make = gemm_weight_gradient},
    {.op = &lsi_op_gemm, .what = "logits", .make = gemm_logits, .overwritten = 1U << 3},
    {.op = &lsi_op_gemm_gelu, .what = "", .make = gemm_gelu_forward},
    {.op = &lsi_op_gemm_gelu_bwd, .what = "", .make = gemm_gelu_backward},
    {.op = &lsi_op_attention_fwd, .what = "", .make = attention_forward},
    {.op = &lsi_op_attention_bwd, .what = "", .make = attention_backward},
    {.op = &lsi_op_bias_bwd, .what = "", .make = bias_case, .overwritten = 1U << 1},
    {.op = &lsi_op_gelu_fwd, .what = "", .make = gelu_case},
    {.op = &lsi_op_gelu_bwd, .what = "", .make = gelu_back},
    {.op = &lsi_op_relu_fwd, .what = "", .make = relu_case},
    {.op = &lsi_op_relu_bwd, .what = "", .make = relu_back},
    {.op = &lsi_op_sigmoid_fwd, .what = "", .make = sigmoid_case},
    {.op = &lsi_op_sigmoid_bwd, .what = "", .make = sigmoid_back},
    {.op = &lsi_op_tanh_fwd, .what = "", .make = tanh_case},
    {.op = &lsi_op_tanh_bwd, .what = "", .make = tanh_back},
    {.op = &lsi_op_add, .what = "", .make = add_case},
    {.op = &lsi_op_mul, .what = "", .make = mul_case},
    {.op = &lsi_op_add_into, .what = "", .make = add_into_case},
    {.op = &lsi_op_slice_fwd, .what = "", .make = slice_case, .bytes = slice_bytes},
    {.op = &lsi_op_slice_bwd, .what = "", .make = slice_back, .overwritten = 1U << 1},
    {.op = &lsi_op_concat, .what = "", .make = concat_case},
    {.op = &lsi_op_dot_fwd, .what = "", .make = dot_case},
    {.op = &lsi_op_dot_bwd, .what = "", .make = dot_back, .overwritten = 1U << 2},
    {.op = &lsi_op_layernorm_fwd, .what = "", .make = layernorm_case},
    {.op = &lsi_op_add_layernorm, .what = "", .make = layernorm_of_sum},
    {.op = &lsi_op_layernorm_bwd, .what = "", .make = layernorm_back, .overwritten = 7U << 5},
    {.op = &lsi_op_softmax_xent_fwd, .what = "", .make = softmax_case},
    {.op = &lsi_op_softmax_xent_bwd, .what = "", .make = softmax_back},
    {.op = &lsi_op_softmax_xent, .what = "", .make = softmax_both},
    {.op = &lsi_op_mse_fwd, .what = "", .make = mse_case},
    {.op = &lsi_op_mse_bwd, .what = "", .make = mse_back},
    {.op = &lsi_op_loss_sum, .what = "", .make = loss_sum_case, .f32_only = true},
    {.op = &lsi_op_embedding_fwd, .what = "", .make = embedding_case, .bytes = embedding_bytes},
    {.op = &lsi_op_embedding_bwd, .what = "", .make = embedding_back, .overwritten = 3U << 2},
    {.op = &lsi_op_dropout, .what = "", .make = dropout_case},
    {.op = &lsi_op_block_norms, .what = "", .make = norms_case, .f32_only = true},
    {.op = &lsi_op_adamw, .what = "", .make = adamw_case},
    {.op = &lsi_op_sgd, .what = "", .make = sgd_case},
    {.op = &lsi_op_cast, .what = "", .make = cast_case},
};

/* One thread's work, and a fault that is only there in tests. */
static const ls_op *const left_out[] = {&lsi_op_commit, &lsi_op_poke};

const ops_case *ops_cases(int *n)
{
    *n = (int)(sizeof cases / sizeof cases[0]);
    return cases;
}

static bool is_known(const ls_op *op)
{
    for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++) {
        if (left_out[i] == op) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].op == op) {
            return true;
        }
    }
    return false;
}

ls_status ops_cases_check(void)
{
    static const ls_op *const all[] = {
#define LS_OP(op, in, out, acc, step_state, attr, flop_count) &lsi_op_##op,
#include "kernels/ops.def"
#undef LS_OP
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        LS_REQUIRE(is_known(all[i]), LS_ERR_INTERNAL, "bench/ops_cases.c has no case of the op '%s'", all[i]->name);
    }
    return LS_OK;
}
