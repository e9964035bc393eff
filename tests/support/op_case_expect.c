/* What came out of an op, compared with what should have. */
#include "support/op_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "support/op_case_parts.h"

const ls_dtype op_case_types[OP_CASE_N_TYPES] = {LS_F32, LS_F16, LS_BF16};

uint16_t op_case_to_half(ls_dtype dtype, float value)
{
    return dtype == LS_F16 ? lsi_half_f16_from_f32(value) : lsi_half_bf16_from_f32(value);
}

float op_case_from_half(ls_dtype dtype, uint16_t half)
{
    return dtype == LS_F16 ? lsi_half_f16_to_f32(half) : lsi_half_bf16_to_f32(half);
}

/* ---- comparisons --------------------------------------------------------------------------------------------- */

static double element(const void *data, ls_dtype dtype, int64_t i)
{
    switch (dtype) {
    case LS_F32:
        return (double)((const float *)data)[i];
    case LS_F64:
        return ((const double *)data)[i];
    case LS_I32:
        return (double)((const int32_t *)data)[i];
    case LS_F16:
    case LS_BF16:
        return (double)op_case_from_half(dtype, ((const uint16_t *)data)[i]);
    default:
        fail_msg("no comparison for %s", ls_dtype_name(dtype));
        return 0.0;
    }
}

double op_case_rounding(ls_dtype dtype)
{
    return dtype == LS_F16 ? 0x1p-11 : dtype == LS_BF16 ? 0x1p-8 : 0.0;
}

/* What one rounding of `value` to the type may change; its smallest values are whole multiples of the least one. */
static double rounding_at(ls_dtype dtype, double value)
{
    double relative = op_case_rounding(dtype) * fabs(value);

    return dtype == LS_F16 ? fmax(relative, 0x1p-25) : relative;
}

/* Beyond the halfway point between f16's largest value and the next: infinity. bf16 has f32's range. */
static double in_range(ls_dtype dtype, double value)
{
    return dtype == LS_F16 && fabs(value) >= 65520.0 ? copysign((double)INFINITY, value) : value;
}

/* Element k of `expected` belongs to element k * stride of the view. */
static void compare(const op_case *c, const ls_view *view, const double *expected, int64_t n, int64_t stride,
                    double norm, double max)
{
    const op_case_slot *slot = &c->views[op_case_view_index(c, view)];

    for (int level = 0; level < op_case_levels(); level++) {
        const void *result = op_case_result(c, view, level);
        double difference_2 = 0.0, expected_2 = 0.0, largest = 0.0, worst = 0.0;
        int64_t worst_at = 0;

        assert_non_null(result);
        for (int64_t k = 0; k < n; k++) {
            double got = element(result, slot->dtype, k * stride), want = in_range(slot->dtype, expected[k]);
            if (!isfinite(want) || !isfinite(got)) {
                if (!(isnan(want) ? isnan(got) : got == want)) {
                    fail_msg("%s, %s: view %d, element %lld is %g, expected %g", c->op->name,
                             op_run_level_name(level), op_case_view_index(c, view), (long long)(k * stride), got,
                             want);
                }
                continue;
            }
            double difference = fmax(fabs(got - want) - rounding_at(slot->dtype, want), 0.0);
            difference_2 += difference * difference;
            expected_2 += want * want;
            largest = fmax(largest, fabs(want));
            if (difference > worst) {
                worst = difference;
                worst_at = k * stride;
            }
        }
        if (sqrt(difference_2) > norm * sqrt(expected_2) || worst > max * largest) {
            fail_msg("%s, %s: view %d is off by %.3g of its norm (allowed %.3g) and %.3g of its largest element "
                     "(allowed %.3g), worst at %lld", c->op->name, op_run_level_name(level),
                     op_case_view_index(c, view), sqrt(difference_2 / expected_2), norm, worst / largest, max,
                     (long long)worst_at);
        }
    }
}

void op_case_expect(const op_case *c, const ls_view *view, const double *expected, double norm, double max)
{
    compare(c, view, expected, c->views[op_case_view_index(c, view)].count, 1, norm, max);
}

static bool is_nan(const void *data, ls_dtype dtype, int64_t i)
{
    return dtype != LS_U8 && isnan(element(data, dtype, i));
}

/* The same bytes; or NaN in the same places, where that may have any. */
static bool same_elements(const op_case_slot *slot, const void *got, const void *want)
{
    size_t size = ls_dtype_bytes(slot->dtype);

    if (!op_run_any_nan()) {
        return memcmp(got, want, op_case_slot_bytes(slot)) == 0;
    }
    for (int64_t i = 0; i < slot->count; i++) {
        const char *a = (const char *)got + (size_t)i * size, *b = (const char *)want + (size_t)i * size;

        if (memcmp(a, b, size) != 0 && !(is_nan(got, slot->dtype, i) && is_nan(want, slot->dtype, i))) {
            return false;
        }
    }
    return true;
}

void op_case_expect_bytes(const op_case *c, const ls_view *view, const void *expected)
{
    const op_case_slot *slot = &c->views[op_case_view_index(c, view)];

    for (int level = 0; level < op_case_levels(); level++) {
        const void *result = op_case_result(c, view, level);
        assert_non_null(result);
        if (!same_elements(slot, result, expected)) {
            fail_msg("%s, %s: view %d has other bytes than expected", c->op->name, op_run_level_name(level),
                     op_case_view_index(c, view));
        }
    }
}

void op_case_expect_same(const op_case *c, const ls_view *view, const op_case *other, const ls_view *of_other)
{
    const op_case_slot *slot = &c->views[op_case_view_index(c, view)];
    int level = op_case_levels() - 1;

    assert_int_equal(op_case_slot_bytes(slot), op_case_slot_bytes(&other->views[op_case_view_index(other, of_other)]));
    assert_memory_equal(op_case_result(c, view, level), op_case_result(other, of_other, level),
                        op_case_slot_bytes(slot));
}

static bool is_half(ls_dtype dtype)
{
    return dtype == LS_F16 || dtype == LS_BF16;
}

/* A view of the twin: what the case's one holds, in f32 if that is 16-bit. */
static void widen_view(const op_case *c, op_case *twin, int index)
{
    const op_case_slot *slot = &c->views[index];
    ls_view *views = twin->arguments;

    if (slot->shares >= 0) {
        op_case_share(twin, &views[index], &views[slot->shares]);
        return;
    }
    if (slot->initial == NULL) {
        return;
    }
    void *initial = op_case_view(twin, &views[index], slot->count, is_half(slot->dtype) ? LS_F32 : slot->dtype);
    if (!is_half(slot->dtype)) {
        memcpy(initial, slot->initial, op_case_slot_bytes(slot));
        return;
    }
    for (int64_t i = 0; i < slot->count; i++) {
        ((float *)initial)[i] = op_case_from_half(slot->dtype, ((const uint16_t *)slot->initial)[i]);
    }
}

static void expect_rounded_twin(const op_case *c, const op_case *twin, int index, int level)
{
    const op_case_slot *slot = &c->views[index];
    const void *result = slot->result[level], *wide = twin->views[index].result[level];

    if (!is_half(slot->dtype)) {
        if (!same_elements(slot, result, wide)) {
            fail_msg("%s, %s: view %d has other bits than with f32 views", c->op->name,
                     op_run_level_name(level), index);
        }
        return;
    }
    for (int64_t i = 0; i < slot->count; i++) {
        uint16_t got = ((const uint16_t *)result)[i], want = op_case_to_half(slot->dtype, ((const float *)wide)[i]);
        bool both_nan = isnan(op_case_from_half(slot->dtype, got)) && isnan(op_case_from_half(slot->dtype, want));
        if (got != want && !(both_nan && op_run_any_nan())) {
            fail_msg("%s, %s: view %d, element %lld has bits 0x%04x, with f32 views and rounded 0x%04x", c->op->name,
                     op_run_level_name(level), index, (long long)i, (unsigned)got, (unsigned)want);
        }
    }
}

void op_case_expect_as_f32(const op_case *c)
{
    _Alignas(64) unsigned char arguments[LS_OP_MAX_ARGUMENTS];
    op_case twin;

    memcpy(arguments, c->arguments, c->op->arguments_bytes);
    op_case_open(&twin, c->op, arguments);
    twin.state = c->state;
    for (int pass = 0; pass < 2; pass++) {      /* what others share first */
        for (int i = 0; i < c->n_views; i++) {
            if ((c->views[i].shares >= 0) == (pass == 1)) {
                widen_view(c, &twin, i);
            }
        }
    }
    op_case_run_levels(&twin, 1, 1);
    for (int level = 0; level < op_case_levels(); level++) {
        for (int i = 0; i < c->n_views; i++) {
            if (c->views[i].initial != NULL && op_case_may_change(c, i)) {
                expect_rounded_twin(c, &twin, i, level);
            }
        }
    }
    op_case_close(&twin);
}

void op_case_expect_gradient(const op_case *c, const ls_view *view, double *x, int64_t n, op_case_scalar f,
                             void *argument, double tolerance)
{
    const double h = 1e-5;
    int64_t stride = n / 100 + 1, samples = (n + stride - 1) / stride;
    double *slope = op_case_zeros(samples);

    for (int64_t k = 0; k < samples; k++) {
        double *at = &x[k * stride], kept = *at;
        *at = kept + h;
        double above = f(argument);
        *at = kept - h;
        double below = f(argument);
        *at = kept;
        slope[k] = (above - below) / (2.0 * h);
    }
    compare(c, view, slope, samples, stride, tolerance, tolerance);
    free(slope);
}
