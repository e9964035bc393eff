#include "support/same_bits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/isa.h"
#include "base/half.h"
#include "support/test.h"
#include <lockstep/step_state.h>

#define ALL 0xffffffffu

/* Sums over rows differ: gpus share them out in another order than the cpu's lanes. Bit i: view i is equal. */
static const struct {
    const char *op;
    unsigned views;
} rules[] = {
    {"gelu_fwd", ALL}, {"gelu_bwd", ALL}, {"relu_fwd", ALL}, {"relu_bwd", ALL}, {"sigmoid_fwd", ALL},
    {"sigmoid_bwd", ALL}, {"tanh_fwd", ALL}, {"tanh_bwd", ALL}, {"add", ALL}, {"mul", ALL}, {"add_into", ALL},
    {"slice_fwd", ALL}, {"slice_bwd", ALL}, {"concat", ALL}, {"dot_bwd", ALL}, {"mse_fwd", ALL}, {"mse_bwd", ALL},
    {"dropout", ALL}, {"cast", ALL}, {"adamw", ALL}, {"sgd", ALL}, {"poke", ALL}, {"bias_bwd", ALL},
    {"embedding_fwd", ALL}, {"embedding_bwd", ALL}, {"commit", ALL}, {"softmax_xent_bwd", ALL},
    {"softmax_xent_fwd", 1u << 4},      /* hits */
    {"softmax_xent", 1u << 2},
    {"add_layernorm", 1u << 4},         /* s */
    {"layernorm_bwd", 3u << 6},         /* dgamma, dbeta */
};

struct same_bits {
    unsigned views;
    ls_status status;
    unsigned char **copies;
    int n;
    _Alignas(64) unsigned char arguments[LS_OP_MAX_ARGUMENTS];      /* views point into the copies */
};

static unsigned equal_views(const ls_op *op)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i].op, op->name) == 0) {
            return rules[i].views;
        }
    }
    return 0;
}

static bool has_fma(void)
{
#if defined(LSI_BUILD_ISA_X86)
    return lsi_isa_best() >= LSI_ISA_v3;
#else
    return false;   /* not known */
#endif
}

static void run_on_cpu(same_bits *s, const ls_op *op)
{
    ls_cpu_run run = {.isa = (int)lsi_isa_best()};
    ls_step_state *state = NULL, own;

    if (op->state_access != LS_STATE_NONE) {
        memcpy(&state, s->arguments + op->state_offset, sizeof state);
        own = *state;
        state = &own;
        memcpy(s->arguments + op->state_offset, &state, sizeof state);
    }
    CHECK_OK(lsi_pool_create(1, &run.pool));
    s->status = op->cpu(&run, s->arguments);
    lsi_pool_destroy(&run.pool);
}

same_bits *same_bits_begin(const ls_op *op, const void *arguments, const op_run_memory *memories, int n)
{
    unsigned views = equal_views(op);

    if (views == 0 || !has_fma()) {
        return NULL;
    }
    same_bits *s = aligned_alloc(64, (sizeof *s + 63) / 64 * 64);
    assert_non_null(s);
    s->views = views;
    s->n = n;
    s->copies = calloc((size_t)n, sizeof *s->copies);
    memcpy(s->arguments, arguments, op->arguments_bytes);
    for (int i = 0; i < n; i++) {
        if (memories[i].memory == NULL) {
            continue;
        }
        s->copies[i] = aligned_alloc(64, memories[i].bytes);
        assert_non_null(s->copies[i]);
        memcpy(s->copies[i], memories[i].memory, memories[i].bytes);
        for (int v = 0; v < op->n_in + op->n_out + op->n_acc; v++) {
            const ls_view *given = (const ls_view *)arguments + v;
            ptrdiff_t at = (unsigned char *)given->data - memories[i].memory;

            if (given->data != NULL && at >= 0 && (size_t)at < memories[i].bytes) {
                ((ls_view *)s->arguments)[v].data = s->copies[i] + at;
            }
        }
    }
    run_on_cpu(s, op);
    return s;
}

static bool is_nan(const ls_view *view, int64_t i)
{
    switch (view->dtype) {
    case LS_F32:
        return isnan(((const float *)view->data)[i]);
    case LS_F64:
        return isnan(((const double *)view->data)[i]);
    case LS_F16:
        return isnan(lsi_half_f16_to_f32(((const uint16_t *)view->data)[i]));
    case LS_BF16:
        return isnan(lsi_half_bf16_to_f32(((const uint16_t *)view->data)[i]));
    default:
        return false;
    }
}

static void compare(const ls_op *op, int index, const ls_view *got, const ls_view *want)
{
    size_t size = ls_dtype_bytes(got->dtype);

    for (int64_t i = 0; i < got->count; i++) {
        const char *a = (const char *)got->data + (size_t)i * size, *b = (const char *)want->data + (size_t)i * size;

        if (memcmp(a, b, size) != 0 && !(is_nan(got, i) && is_nan(want, i))) {
            fail_msg("%s: view %d, element %lld has other bits than the cpu's", op->name, index, (long long)i);
        }
    }
}

void same_bits_end(same_bits *s, const ls_op *op, const void *arguments)
{
    if (s == NULL) {
        return;
    }
    for (int v = op->n_in; v < op->n_in + op->n_out + op->n_acc && s->status == LS_OK; v++) {
        const ls_view *got = (const ls_view *)arguments + v;

        if ((s->views >> v & 1) != 0 && got->data != NULL) {
            compare(op, v, got, (const ls_view *)s->arguments + v);
        }
    }
    for (int i = 0; i < s->n; i++) {
        free(s->copies[i]);
    }
    free(s->copies);
    free(s);
}
