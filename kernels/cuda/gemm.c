/* Matrix products by cuBLASLt, with sums in f32 (gemm_plan.h). What it does not do is done by kernels of ours
 * (gemm_rows.h, gelu): products over nothing, a bias of another type than c, and a gelu that is split off. */
#include "kernels/cuda/gemm.h"

#include "backend/cuda/cuda.h"
#include "backend/cuda/extension.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/gemm_rows.h"
#include "kernels/ops.h"

/* Launchers of elementwise.cu. */
ls_status lsi_cuda_gelu_fwd(ls_stream *stream, const void *arguments);
ls_status lsi_cuda_gelu_bwd(ls_stream *stream, const void *arguments);

/* ---- by the library ---------------------------------------------------------------------------------------------- */

/* Addresses that the descriptor holds: of the launch that follows. NULL: not used. */
static ls_status point(const lsi_gemm_plan *plan, const ls_view *bias, const ls_view *x)
{
    if (plan->shape.bias) {
        LSI_GEMM_TRY(&plan->shape,
                     cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias->data,
                                                    sizeof bias->data),
                     "cannot give the bias to a");
    }
    if (x != NULL) {
        LSI_GEMM_TRY(&plan->shape,
                     cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                                                    &x->data, sizeof x->data),
                     "cannot give the input of gelu to a");
    }
    return LS_OK;
}

/* c = op(a) op(b) (+ c), with the plan's epilogue. */
static ls_status multiply(ls_stream *stream, cublasLtHandle_t handle, const lsi_gemm_plan *plan, const ls_view *a,
                          const ls_view *b, const ls_view *c, bool accumulate)
{
    const float one = 1.0f, beta = accumulate ? 1.0f : 0.0f;

    LSI_GEMM_TRY(&plan->shape,
                 cublasLtMatmul(handle, plan->operation, &one, b->data, plan->first, a->data, plan->second, &beta,
                                c->data, plan->result, c->data, plan->result, lsi_gemm_plan_algorithm(&plan->algorithm),
                                lsi_cuda_workspace(stream), LSI_CUDA_WORKSPACE_BYTES,
                                lsi_cuda_stream(stream)),
                 "cuBLASLt refused a");
    return LS_OK;
}

/* All given views (count above 0) of one type, which is f32, f16 or bf16. */
static ls_status check_types(const ls_view *const *views, int n)
{
    const ls_view *first = NULL;

    for (int i = 0; i < n; i++) {
        const ls_view *v = views[i];

        if (v->count == 0) {
            continue;
        }
        LS_REQUIRE(v->dtype == LS_F32 || v->dtype == LS_F16 || v->dtype == LS_BF16, LS_ERR_INTERNAL,
                   "gemm: a view of %lld elements of %s", (long long)v->count, ls_dtype_name(v->dtype));
        first = first == NULL ? v : first;
        LS_REQUIRE(v->dtype == first->dtype, LS_ERR_INTERNAL, "gemm: views of %lld elements of %s and %lld of %s",
                   (long long)first->count, ls_dtype_name(first->dtype), (long long)v->count, ls_dtype_name(v->dtype));
    }
    return LS_OK;
}

/* ---- the ops ----------------------------------------------------------------------------------------------------- */

ls_status lsi_cuda_gemm(ls_stream *stream, const void *arguments)
{
    const lsi_gemm_args *a = arguments;
    cublasLtHandle_t handle;
    lsi_gemm_shape shape;
    lsi_gemm_plan *plan;

    LS_TRY(check_types((const ls_view *const[]){&a->a, &a->b, &a->bias, &a->c}, a->c.dtype == LS_F32 ? 3 : 4));
    if (a->m == 0 || a->n == 0) {
        return LS_OK;
    }
    if (!lsi_gemm_shape_of(&lsi_op_gemm, a, lsi_cuda_uses_tf32(stream->device), &shape)) {
        return a->accumulate ? LS_OK : lsi_gemm_rows_set(stream, &a->c, &a->bias, a->m, a->n);
    }
    LS_TRY(lsi_gemm_plan_get(stream->device, &shape, &handle, &plan));
    LS_TRY(point(plan, &a->bias, NULL));
    LS_TRY(multiply(stream, handle, plan, &a->a, &a->b, &a->c, a->accumulate != 0));
    return a->bias.count > 0 && !shape.bias ? lsi_gemm_rows_add(stream, &a->c, &a->bias, a->m, a->n) : LS_OK;
}

static ls_status gelu_apart(ls_stream *stream, const lsi_gemm_gelu_args *a)
{
    lsi_gemm_args product = {a->a, a->b, a->bias, a->x, a->m, a->n, a->k, a->trans_a, a->trans_b, 0};

    LS_TRY(lsi_cuda_gemm(stream, &product));
    return lsi_cuda_gelu_fwd(stream, &(lsi_gelu_fwd_args){.x = a->x, .y = a->y});
}

ls_status lsi_cuda_gemm_gelu(ls_stream *stream, const void *arguments)
{
    const lsi_gemm_gelu_args *a = arguments;
    cublasLtHandle_t handle;
    lsi_gemm_shape shape;
    lsi_gemm_plan *plan;

    LS_TRY(check_types((const ls_view *const[]){&a->a, &a->b, &a->bias, &a->x, &a->y}, 5));
    if (!lsi_gemm_shape_of(&lsi_op_gemm_gelu, a, lsi_cuda_uses_tf32(stream->device), &shape)) {
        return gelu_apart(stream, a);
    }
    LS_TRY(lsi_gemm_plan_get(stream->device, &shape, &handle, &plan));
    if (plan->algorithm.split) {
        return gelu_apart(stream, a);
    }
    LS_TRY(point(plan, &a->bias, &a->x));
    return multiply(stream, handle, plan, &a->a, &a->b, &a->y, false);
}

static ls_status slope_apart(ls_stream *stream, const lsi_gemm_gelu_bwd_args *a)
{
    lsi_gemm_args product = {a->a, a->b, {0}, a->dx, a->m, a->n, a->k, a->trans_a, a->trans_b, 0};

    LS_TRY(lsi_cuda_gemm(stream, &product));
    return lsi_cuda_gelu_bwd(stream, &(lsi_gelu_bwd_args){.x = a->x, .dy = a->dx, .dx = a->dx});
}

ls_status lsi_cuda_gemm_gelu_bwd(ls_stream *stream, const void *arguments)
{
    const lsi_gemm_gelu_bwd_args *a = arguments;
    cublasLtHandle_t handle;
    lsi_gemm_shape shape;
    lsi_gemm_plan *plan;

    LS_TRY(check_types((const ls_view *const[]){&a->a, &a->b, &a->x, &a->dx}, 4));
    if (!lsi_gemm_shape_of(&lsi_op_gemm_gelu_bwd, a, lsi_cuda_uses_tf32(stream->device), &shape)) {
        return slope_apart(stream, a);
    }
    LS_TRY(lsi_gemm_plan_get(stream->device, &shape, &handle, &plan));
    if (plan->algorithm.split) {
        return slope_apart(stream, a);
    }
    LS_TRY(point(plan, NULL, &a->x));
    return multiply(stream, handle, plan, &a->a, &a->b, &a->dx, false);
}
