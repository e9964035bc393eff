/* From descriptors to a product, with the rules that the documentation of cublasLtMatmul states. Where it leaves a
 * choice, the simulator refuses: code that it accepts has the better chance on a GPU. */
#include <string.h>

#include "blaslt.h"
#include "machine.h"

enum { COMPUTE, SCALE, A, B, C, D };

/* f32 accumulation, f32 scalars: the part of the documentation's table that a trainer needs. */
bool cusim_lt_types_known(const uint8_t types[6])
{
    bool f32 = types[A] == CUDA_R_32F, half = types[A] == CUDA_R_16F || types[A] == CUDA_R_16BF;

    if (types[SCALE] != CUDA_R_32F || types[A] != types[B] || types[C] != types[D]) {
        return false;
    }
    switch (types[COMPUTE]) {
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
        return (f32 && types[D] == CUDA_R_32F) || (half && (types[D] == CUDA_R_32F || types[D] == types[A]));
    case CUBLAS_COMPUTE_32F_FAST_TF32:
        return f32 && types[D] == CUDA_R_32F;
    default:
        return false;
    }
}

static bool layout_known(const cusim_lt_layout *l)
{
    return l->batch_count >= 1 && l->rows >= 1 && l->cols >= 1 && l->rows <= INT32_MAX && l->cols <= INT32_MAX &&
           (l->order == CUBLASLT_ORDER_COL || l->order == CUBLASLT_ORDER_ROW) &&
           l->ld >= (int64_t)(l->order == CUBLASLT_ORDER_COL ? l->rows : l->cols);
}

static cusim_matrix matrix(const cusim_lt_layout *l, bool transposed)
{
    cusim_matrix m = {.type = (int)l->type,
                      .rows = (int64_t)l->rows,
                      .cols = (int64_t)l->cols,
                      .row_step = 1,
                      .col_step = l->ld,
                      .batch_stride = l->batch_stride};

    if (l->order == CUBLASLT_ORDER_ROW) {
        m.row_step = l->ld;
        m.col_step = 1;
    }
    if (transposed) {
        cusim_matrix t = m;

        m.rows = t.cols;
        m.cols = t.rows;
        m.row_step = t.col_step;
        m.col_step = t.row_step;
    }
    return m;
}

static uint32_t alignment_of(const cusim_lt_layout *l)
{
    uint64_t size = cusim_blas_type_size((int)l->type), bytes = (uint64_t)l->ld * size | 256;

    if (l->batch_count > 1) {
        bytes |= (uint64_t)l->batch_stride * size;
    }
    return (uint32_t)(bytes & (~bytes + 1));
}

static cublasStatus_t add_epilogue(const cusim_lt_desc *desc, cusim_product *p)
{
    switch (desc->epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
        break;
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    p->epilogue = desc->epilogue;
    p->bias_type = desc->bias_type >= 0 ? desc->bias_type : p->d.type;
    if (desc->epilogue == CUBLASLT_EPILOGUE_DEFAULT) {
        return CUBLAS_STATUS_SUCCESS;
    }
    if (p->bias_type != p->d.type || p->d.row_step != 1) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    p->bias_stride = desc->bias_stride;
    if (desc->epilogue & 128) { /* the input of GELU is written or read */
        int type = desc->aux_type >= 0 ? desc->aux_type : p->d.type;

        if (type != p->d.type) {
            return CUBLAS_STATUS_NOT_SUPPORTED;
        }
        if (desc->aux_ld < p->m || desc->aux_ld % 8 != 0 || desc->aux_stride % 8 != 0) {
            return CUBLAS_STATUS_INVALID_VALUE;
        }
        p->aux = (cusim_matrix){.type = type,
                                .rows = p->m,
                                .cols = p->n,
                                .row_step = 1,
                                .col_step = desc->aux_ld,
                                .batch_stride = desc->aux_stride};
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cusim_lt_problem_make(const struct cusim_gpu *gpu, const cusim_lt_desc *desc, const cusim_lt_layout *a,
                                     const cusim_lt_layout *b, const cusim_lt_layout *c, const cusim_lt_layout *d,
                                     cusim_lt_problem *out)
{
    if (gpu == NULL || desc == NULL || a == NULL || b == NULL || c == NULL || d == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!layout_known(a) || !layout_known(b) || !layout_known(c) || !layout_known(d)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    *out = (cusim_lt_problem){
        .types = {(uint8_t)desc->compute_type, (uint8_t)desc->scale_type, (uint8_t)a->type, (uint8_t)b->type,
                  (uint8_t)c->type, (uint8_t)d->type},
        .alignment = {alignment_of(a), alignment_of(b), alignment_of(c), alignment_of(d)},
        .capability = gpu->cc_major * 10 + gpu->cc_minor,
        .sms = gpu->sms,
    };
    if (!cusim_lt_types_known(out->types) || desc->pointer_mode != CUBLASLT_POINTER_MODE_HOST ||
        desc->trans_c != CUBLAS_OP_N || desc->trans_a > CUBLAS_OP_T || desc->trans_b > CUBLAS_OP_T ||
        c->order != d->order) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    cusim_product *p = &out->product;
    p->a = matrix(a, desc->trans_a == CUBLAS_OP_T);
    p->b = matrix(b, desc->trans_b == CUBLAS_OP_T);
    p->c = matrix(c, false);
    p->d = matrix(d, false);
    p->m = p->d.rows;
    p->n = p->d.cols;
    p->k = p->a.cols;
    p->batch = d->batch_count;
    p->round_tf32 = desc->compute_type == CUBLAS_COMPUTE_32F_FAST_TF32;
    if (p->a.rows != p->m || p->b.rows != p->k || p->b.cols != p->n || p->c.rows != p->m || p->c.cols != p->n ||
        a->batch_count != p->batch || b->batch_count != p->batch || c->batch_count != p->batch) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    return add_epilogue(desc, p);
}
