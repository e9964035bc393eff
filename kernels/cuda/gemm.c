/* Matrix product by cuBLASLt, with sums in f32 (gemm_plan.h). What it does not do is done by one kernel of ours
 * (gemm_rows.h): products over nothing, and a bias of another type than c. */
#include "kernels/cuda/gemm.h"

#include <string.h>

#include "backend/cuda/cuda.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/gemm_rows.h"

/* As everything the runtime makes products of: its memory plans and the starts of parameters see to it. Other matrices
 * take other algorithms, and so have other bits. */
static bool is_aligned(const ls_view *view)
{
    return (uintptr_t)view->data % 256 == 0;
}

static lsi_gemm_shape shape_of(const lsi_gemm_args *a)
{
    lsi_gemm_shape shape;

    memset(&shape, 0, sizeof shape);
    shape.m = a->m;
    shape.n = a->n;
    shape.k = a->k;
    shape.trans_a = a->trans_a != 0;
    shape.trans_b = a->trans_b != 0;
    shape.factors = (int32_t)a->a.dtype;
    shape.c = (int32_t)a->c.dtype;
    shape.bias = a->bias.count > 0 && a->bias.dtype == a->c.dtype;
    shape.aligned =
        is_aligned(&a->a) && is_aligned(&a->b) && is_aligned(&a->c) && (!shape.bias || is_aligned(&a->bias));
    return shape;
}

static ls_status multiply(ls_stream *stream, const lsi_gemm_args *a, const lsi_gemm_shape *shape)
{
    const float one = 1.0f, beta = a->accumulate ? 1.0f : 0.0f;
    cublasLtHandle_t handle;
    lsi_gemm_plan *plan;

    LS_TRY(lsi_gemm_plan_get(stream->device, shape, &handle, &plan));
    if (shape->bias) {
        cublasStatus_t status = cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                               &a->bias.data, sizeof a->bias.data);
        if (status != CUBLAS_STATUS_SUCCESS) {
            return lsi_gemm_plan_fail(shape, status, "cublasLtMatmulDescSetAttribute", "cannot give the bias to a");
        }
    }
    cublasStatus_t status =
        cublasLtMatmul(handle, plan->operation, &one, a->b.data, plan->first, a->a.data, plan->second, &beta, a->c.data,
                       plan->result, a->c.data, plan->result, &plan->algorithm, lsi_cuda_workspace(stream),
                       plan->workspace_bytes, lsi_cuda_stream(stream));
    return status == CUBLAS_STATUS_SUCCESS ? LS_OK
                                           : lsi_gemm_plan_fail(shape, status, "cublasLtMatmul", "cuBLASLt refused a");
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

ls_status lsi_cuda_gemm(ls_stream *stream, const void *arguments)
{
    const lsi_gemm_args *a = arguments;
    lsi_gemm_shape shape = shape_of(a);

    LS_TRY(check_types((const ls_view *const[]){&a->a, &a->b, &a->bias, &a->c}, a->c.dtype == LS_F32 ? 3 : 4));
    if (a->m == 0 || a->n == 0) {
        return LS_OK;
    }
    if (a->k > 0) {
        LS_TRY(multiply(stream, a, &shape));
        return a->bias.count > 0 && !shape.bias ? lsi_gemm_rows_add(stream, &a->c, &a->bias, a->m, a->n) : LS_OK;
    }
    return a->accumulate ? LS_OK : lsi_gemm_rows_set(stream, &a->c, &a->bias, a->m, a->n);
}
