#include "support/graph_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "base/random.h"
#include "kernels/ops.h"
#include <lockstep/dataset.h>

enum { N_DIRECTIONS = 3 };

/* ---- 16 bits --------------------------------------------------------------------------------------------------- */

/* bits of the significand, the implicit one included; the largest number; the exponent of the smallest normal one */
typedef struct format {
    int bits, min_exponent;
    double largest;
} format;

static format format_of(ls_dtype dtype)
{
    return dtype == LS_F16 ? (format){11, -14, 65504.0} : (format){8, -126, 0x1.fep127};
}

/* To nearest, ties to even, by the unit in the last place at the number's size. */
static float rounded(float x, const format *f)
{
    int exponent;

    if (x == 0.0f || !isfinite(x)) {
        return x;
    }
    (void)frexpf(x, &exponent);
    exponent = exponent - 1 < f->min_exponent ? f->min_exponent : exponent - 1;
    double unit = ldexp(1.0, exponent - f->bits + 1), y = rint((double)x / unit) * unit;

    return fabs(y) > f->largest ? copysignf(INFINITY, x) : (float)y;
}

void graph_case_round(float *numbers, int64_t n, ls_dtype dtype)
{
    const format f = format_of(dtype);

    for (int64_t i = 0; i < n && dtype != LS_F32; i++) {
        numbers[i] = rounded(numbers[i], &f);
    }
}

static float widened(uint16_t bits, const format *f)
{
    int stored = f->bits - 1, exponent = (bits & 0x7fff) >> stored;
    double fraction = (double)(bits & ((1 << stored) - 1));
    double size = exponent == 0 ? ldexp(fraction, f->min_exponent - stored)
                                : ldexp(fraction + (double)(1 << stored), f->min_exponent - stored + exponent - 1);

    if (exponent == (1 << (15 - stored)) - 1) {
        size = fraction == 0.0 ? (double)INFINITY : (double)NAN;
    }
    return (float)((bits & 0x8000) != 0 ? -size : size);
}

float graph_case_element(const ls_view *view, int64_t i)
{
    const format f = format_of(view->dtype);

    return view->dtype == LS_F32 ? ((const float *)view->data)[i] : widened(((const uint16_t *)view->data)[i], &f);
}

/* ---- one slot -------------------------------------------------------------------------------------------------- */

static float uniform(uint32_t key, int64_t i)
{
    return 2.0f * lsi_random_unit(lsi_random_philox(key, (uint32_t)i, 0, 0, 97).v[0]) - 1.0f;
}

static void fill_weights(graph_case *c)
{
    c->weights = calloc((size_t)c->params->n_elements, sizeof *c->weights);
    c->gradients = calloc((size_t)c->params->n_elements, sizeof *c->gradients);
    for (int k = 0; k < c->params->n; k++) {
        const lsi_param *p = &c->params->param[k];
        float base = p->shape.rank == 1 && strstr(p->name, ".weight") != NULL ? 1.0f : 0.0f;

        for (int64_t e = 0; e < p->count; e++) {
            c->weights[p->offset + e] = base + 0.4f * uniform((uint32_t)k + 1, e);
        }
    }
    graph_case_round(c->weights, c->params->n_elements, c->compute);
    c->layer_weights = c->compute == LS_F32 ? (void *)c->weights : calloc((size_t)c->params->n_elements, 2);
}

static void fill_targets(graph_case *c, ls_dtype dtype, int64_t n_classes)
{
    for (int64_t i = 0; i < c->targets_count; i++) {
        lsi_random4 r = lsi_random_philox(1003, (uint32_t)i, 0, 0, 97);
        float real = 2.0f * lsi_random_unit(r.v[0]) - 1.0f;

        if (r.v[1] % 7 == 0) {
            c->targets[i] = LS_TARGET_IGNORED;
        } else if (dtype == LS_F32) {
            memcpy(&c->targets[i], &real, sizeof real);
        } else {
            c->targets[i] = (int32_t)(r.v[0] % (uint32_t)n_classes);
        }
    }
}

static void fill_data(graph_case *c, int64_t n_classes)
{
    lsi_graph_io io;

    lsi_graph_get_io(c->graph, &io);
    c->input_count = ls_shape_count(&io.input_shape) * lsi_plan_micro_batch(c->plan);
    c->targets_count = io.targets_count * lsi_plan_micro_batch(c->plan);
    c->input = calloc((size_t)c->input_count, 4);
    c->targets = calloc((size_t)c->targets_count + 1, sizeof *c->targets);
    for (int64_t i = 0; i < c->input_count; i++) {
        lsi_random4 r = lsi_random_philox(1001, (uint32_t)i, 0, 0, 97);

        if (io.input_dtype == LS_I32) {
            ((int32_t *)c->input)[i] = (int32_t)(r.v[0] % (uint32_t)n_classes);
        } else {
            ((float *)c->input)[i] = uniform(1002, i);
        }
    }
    fill_targets(c, io.targets_dtype, n_classes);
}

void graph_case_open(graph_case *c, ls_graph *graph, const ls_compile_options *options, int n_threads,
                     int64_t n_classes)
{
    ls_device_options device_options = {.struct_size = sizeof device_options, .n_threads = n_threads};
    void *activations;

    *c = (graph_case){.graph = graph, .poison = 0xff, .trains = options->mode == LS_TRAIN,
                      .compute = options->compute};
    CHECK_OK(ls_graph_compile(graph, options, &c->plan));
    CHECK_OK(lsi_cpu_backend.open(&device_options, &c->device));
    CHECK_OK(lsi_cpu_backend.stream_create(c->device, "compute", 0, &c->stream));
    CHECK_OK(lsi_cpu_backend.alloc(c->device, LS_MEM_DEVICE, lsi_plan_activation_bytes(c->plan), &activations));
    c->activations = activations;
    c->params = lsi_graph_params(graph);
    c->state.loss_scale = 1.0f;
    fill_weights(c);
    fill_data(c, n_classes);
}

void graph_case_close(graph_case *c)
{
    lsi_cpu_backend.stream_destroy(c->stream);
    lsi_cpu_backend.release(c->device, LS_MEM_DEVICE, lsi_plan_activation_bytes(c->plan), c->activations);
    lsi_cpu_backend.close(c->device);
    if (c->layer_weights != c->weights) {
        free(c->layer_weights);
    }
    free(c->weights);
    free(c->gradients);
    free(c->input);
    free(c->targets);
}

static double run(graph_case *c, int64_t first_sample, bool first_in_lane, bool backward)
{
    lsi_plan_run r = {.stream = c->stream,
                      .state = &c->state,
                      .weights = c->layer_weights,
                      .gradients = c->gradients,
                      .activations = c->activations,
                      .input = c->input,
                      .targets = c->targets,
                      .record = &c->record,
                      .first_sample = first_sample,
                      .seed = 42,
                      .loss_seed = 1.0f,
                      .first_in_lane = first_in_lane};

    c->record = (ls_slot_record){0};
    CHECK_OK(lsi_cpu_backend.fill(c->stream, c->activations, c->poison, lsi_plan_activation_bytes(c->plan)));
    if (c->layer_weights != c->weights) {
        int64_t n = c->params->n_elements;

        CHECK_OK(lsi_cast(c->stream, &(lsi_cast_args){.x = ls_view_make(c->weights, n, LS_F32),
                                                      .y = ls_view_make(c->layer_weights, n, c->compute)}));
    }
    CHECK_OK(lsi_plan_forward(c->plan, &r));
    if (backward) {
        CHECK_OK(lsi_plan_backward(c->plan, &r));
    }
    CHECK_OK(lsi_cpu_backend.stream_sync(c->stream));
    return c->record.loss_sum;
}

double graph_case_run(graph_case *c, int64_t first_sample, bool first_in_lane)
{
    return run(c, first_sample, first_in_lane, c->trains);
}

/* (L(w + e d) - L(w - e d)) / 2e */
static double difference(graph_case *c, const lsi_param *p, const double *direction, double epsilon)
{
    float *w = c->weights + p->offset;
    float *kept = malloc((size_t)p->count * sizeof *kept);
    double loss[2];

    memcpy(kept, w, (size_t)p->count * sizeof *kept);
    for (int side = 0; side < 2; side++) {
        for (int64_t e = 0; e < p->count; e++) {
            w[e] = (float)((double)kept[e] + (side == 0 ? epsilon : -epsilon) * direction[e]);
        }
        loss[side] = run(c, 3, true, false);
    }
    memcpy(w, kept, (size_t)p->count * sizeof *kept);
    free(kept);
    return (loss[0] - loss[1]) / (2.0 * epsilon);
}

/* Direction 0 is the gradient's; all have norm 1. */
static void make_direction(const float *gradient, int64_t n, int which, double *out)
{
    double square = 0.0;

    for (int64_t e = 0; e < n; e++) {
        out[e] = which == 0 ? (double)gradient[e] : (double)uniform(5000 + (uint32_t)which, e);
        square += out[e] * out[e];
    }
    for (int64_t e = 0; e < n; e++) {
        out[e] /= sqrt(square) + 1e-30;
    }
}

/* A step across one of ReLU's kinks misjudges the slope; a shorter one is unlikely to meet it, too. */
static void check_along(graph_case *c, const lsi_param *p, const double *direction, double along, double tolerance)
{
    static const double steps[] = {0.01, 0.002, 0.0005};
    double expected[3];

    for (int i = 0; i < 3; i++) {
        expected[i] = difference(c, p, direction, steps[i]);
        if (fabs(along - expected[i]) <= tolerance) {
            return;
        }
    }
    fail_msg("gradient of %s along a direction: %g, differences give %g, %g, %g (tolerance %g)", p->name, along,
             expected[0], expected[1], expected[2], tolerance);
}

static void check_gradient(graph_case *c, const lsi_param *p, const float *gradient)
{
    double *direction = malloc((size_t)p->count * sizeof *direction), norm = 0.0;

    for (int64_t e = 0; e < p->count; e++) {
        norm += (double)gradient[e] * (double)gradient[e];
    }
    norm = sqrt(norm);
    for (int which = 0; which <= N_DIRECTIONS; which++) {
        double along = 0.0;

        make_direction(gradient, p->count, which, direction);
        for (int64_t e = 0; e < p->count; e++) {
            along += (double)gradient[e] * direction[e];
        }
        check_along(c, p, direction, along, 0.01 * norm + 2e-3);
    }
    for (int64_t e = p->count; e < p->padded_count; e++) {
        assert_true(gradient[e] == 0.0f);
    }
    free(direction);
}

void graph_case_check_gradients(graph_case *c)
{
    size_t bytes = (size_t)c->params->n_elements * sizeof(float);
    float *gradients = malloc(bytes);

    run(c, 3, true, true);
    memcpy(gradients, c->gradients, bytes);
    for (int k = 0; k < c->params->n; k++) {
        check_gradient(c, &c->params->param[k], gradients + c->params->param[k].offset);
    }
    free(gradients);
}

static void check_precision(const graph_case *wide, const graph_case *narrow, double tolerance)
{
    double worst = 0.0;

    for (int k = 0; k < wide->params->n; k++) {
        const lsi_param *p = &wide->params->param[k];
        double distance = graph_case_distance(narrow->gradients + p->offset, wide->gradients + p->offset, p->count);

        if (!(distance < tolerance)) {
            fail_msg("%s: gradient of %s is off by %g", ls_dtype_name(narrow->compute), p->name, distance);
        }
        assert_true(distance > 0.0);
        worst = distance > worst ? distance : worst;
    }
    print_message("%s: gradients off by %.1e at most, loss by %.1e\n", ls_dtype_name(narrow->compute), worst,
                  fabs(narrow->record.loss_sum / wide->record.loss_sum - 1.0));
    assert_true(worst > tolerance / 100);
}

void graph_case_check_precision(ls_graph *graph, ls_var loss, int64_t micro_batch, int64_t n_classes)
{
    static const struct {
        ls_dtype compute;
        double gradient, loss;
    } types[] = {{LS_F16, 5e-3, 1e-4}, {LS_BF16, 3e-2, 1e-3}};
    ls_compile_options options = {.struct_size = sizeof options, .mode = LS_TRAIN, .micro_batch = micro_batch,
                                  .loss = loss};

    for (int t = 0; t < 2; t++) {
        graph_case wide, narrow;

        options.compute = LS_F32;
        graph_case_open(&wide, graph, &options, 1, n_classes);
        options.compute = types[t].compute;
        graph_case_open(&narrow, graph, &options, 2, n_classes);
        memcpy(wide.weights, narrow.weights, (size_t)wide.params->n_elements * sizeof(float));
        double expected = graph_case_run(&wide, 0, true), got = graph_case_run(&narrow, 0, true);

        check_precision(&wide, &narrow, types[t].gradient);
        assert_true(got != expected && fabs(got - expected) < types[t].loss * expected);
        graph_case_close(&wide);
        graph_case_close(&narrow);
    }
}

double graph_case_distance(const float *a, const float *b, int64_t n)
{
    double difference_square = 0.0, square = 0.0;

    for (int64_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];

        difference_square += d * d;
        square += (double)b[i] * (double)b[i];
    }
    return sqrt(difference_square) / (sqrt(square) + 1e-30);
}
