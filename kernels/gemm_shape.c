#include <stdio.h>
#include <string.h>

#include "kernels/gemm_choice.h"
#include "kernels/ops.h"

static bool is_aligned(const ls_view *view)
{
    return view->count == 0 || (uintptr_t)view->data % 256 == 0;
}

/* ---- from a launch --------------------------------------------------------------------------------------------- */

static void of_plain(const lsi_gemm_args *a, lsi_gemm_shape *out)
{
    *out = (lsi_gemm_shape){.m = a->m, .n = a->n, .k = a->k};
    out->trans_a = a->trans_a != 0;
    out->trans_b = a->trans_b != 0;
    out->factors = (int32_t)a->a.dtype;
    out->c = (int32_t)a->c.dtype;
    /* A bias of another type than c is added by a kernel of ours. */
    out->bias = a->bias.count > 0 && a->bias.dtype == a->c.dtype;
    out->aligned = is_aligned(&a->a) && is_aligned(&a->b) && is_aligned(&a->c) && (!out->bias || is_aligned(&a->bias));
}

static void of_gelu(const lsi_gemm_gelu_args *a, lsi_gemm_shape *out)
{
    *out = (lsi_gemm_shape){.m = a->m, .n = a->n, .k = a->k, .epilogue = LSI_GEMM_GELU};
    out->trans_a = a->trans_a != 0;
    out->trans_b = a->trans_b != 0;
    out->factors = (int32_t)a->a.dtype;
    out->c = (int32_t)a->y.dtype;
    out->bias = a->bias.count > 0;
    out->aligned =
        is_aligned(&a->a) && is_aligned(&a->b) && is_aligned(&a->bias) && is_aligned(&a->x) && is_aligned(&a->y);
}

static void of_gelu_bwd(const lsi_gemm_gelu_bwd_args *a, lsi_gemm_shape *out)
{
    *out = (lsi_gemm_shape){.m = a->m, .n = a->n, .k = a->k, .epilogue = LSI_GEMM_GELU_BWD};
    out->trans_a = a->trans_a != 0;
    out->trans_b = a->trans_b != 0;
    out->factors = (int32_t)a->a.dtype;
    out->c = (int32_t)a->dx.dtype;
    out->aligned = is_aligned(&a->a) && is_aligned(&a->b) && is_aligned(&a->x) && is_aligned(&a->dx);
}

bool lsi_gemm_shape_of(const ls_op *op, const void *arguments, bool tf32, lsi_gemm_shape *out)
{
    if (op == &lsi_op_gemm) {
        of_plain(arguments, out);
    } else if (op == &lsi_op_gemm_gelu) {
        of_gelu(arguments, out);
    } else if (op == &lsi_op_gemm_gelu_bwd) {
        of_gelu_bwd(arguments, out);
    } else {
        return false;
    }
    out->tf32 = tf32 && out->factors == LS_F32;
    return out->m > 0 && out->n > 0 && out->k > 0;
}

/* ---- and back --------------------------------------------------------------------------------------------------- */

const ls_op *lsi_gemm_shape_op(const lsi_gemm_shape *s, void *arguments)
{
    ls_view a = {.count = s->m * s->k, .dtype = (ls_dtype)s->factors};
    ls_view b = {.count = s->k * s->n, .dtype = (ls_dtype)s->factors};
    ls_view bias = {.count = s->bias ? s->n : 0, .dtype = (ls_dtype)s->c};
    ls_view c = {.count = s->m * s->n, .dtype = (ls_dtype)s->c};

    switch (s->epilogue) {
    case LSI_GEMM_GELU:
        *(lsi_gemm_gelu_args *)arguments =
            (lsi_gemm_gelu_args){a, b, bias, c, c, s->m, s->n, s->k, s->trans_a, s->trans_b};
        return &lsi_op_gemm_gelu;
    case LSI_GEMM_GELU_BWD:
        *(lsi_gemm_gelu_bwd_args *)arguments =
            (lsi_gemm_gelu_bwd_args){a, b, c, c, s->m, s->n, s->k, s->trans_a, s->trans_b};
        return &lsi_op_gemm_gelu_bwd;
    default:
        *(lsi_gemm_args *)arguments = (lsi_gemm_args){a, b, bias, c, s->m, s->n, s->k, s->trans_a, s->trans_b, 0};
        return &lsi_op_gemm;
    }
}

lsi_gemm_shape lsi_gemm_shape_plain(const lsi_gemm_shape *shape)
{
    lsi_gemm_shape plain = *shape;

    plain.epilogue = LSI_GEMM_PLAIN;
    return plain;
}

lsi_gemm_text lsi_gemm_shape_text(const lsi_gemm_shape *s)
{
    static const char *const epilogues[LSI_GEMM_EPILOGUE_COUNT] = {"", ", gelu", ", slope of gelu"};
    const char *factors = s->tf32 ? "tf32" : ls_dtype_name((ls_dtype)s->factors);
    lsi_gemm_text out;

    snprintf(out.text, sizeof out.text, "m %lld, n %lld, k %lld, %s%s x %s%s to %s%s%s%s", (long long)s->m,
             (long long)s->n, (long long)s->k, factors, s->trans_a ? "'" : "", factors, s->trans_b ? "'" : "",
             ls_dtype_name((ls_dtype)s->c), s->bias ? ", bias" : "", epilogues[s->epilogue],
             s->aligned ? "" : ", not aligned");
    return out;
}
