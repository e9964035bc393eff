#include "step_clock.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "median.h"

static struct {
    ls_backend table;
    const ls_backend *inner;
    ls_device *device;
    pthread_mutex_t mutex;      /* several streams run ops */
    bool cpu_time, in_step;
    int n_threads;
    double last;
    int n_rows;
    step_clock_row row[STEP_CLOCK_ROWS];
} the;

double step_clock_seconds(void)
{
    struct timespec used;

    if (!the.cpu_time) {
        return lsi_clock_seconds();
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return ((double)used.tv_sec + 1e-9 * (double)used.tv_nsec) / the.n_threads;
}

static bool same_form(const ls_op *op, const void *a, const void *b)
{
    const ls_view *x = a, *y = b;

    for (int i = 0; i < step_clock_n_views(op); i++) {
        if (x[i].count != y[i].count || x[i].dtype != y[i].dtype) {
            return false;
        }
    }
    if (op == &lsi_op_gemm) {
        const lsi_gemm_args *g = a, *h = b;

        return g->m == h->m && g->n == h->n && g->trans_a == h->trans_a && g->trans_b == h->trans_b &&
               g->accumulate == h->accumulate;
    }
    return true;
}

static step_clock_row *row_of(const ls_op *op, const void *arguments)
{
    for (int i = 0; i < the.n_rows; i++) {
        if (the.row[i].op == op && same_form(op, the.row[i].arguments, arguments)) {
            return &the.row[i];
        }
    }
    if (the.n_rows == STEP_CLOCK_ROWS) {
        return NULL;            /* a model of so many shapes: the rest is what the rows do not add up to */
    }
    step_clock_row *row = &the.row[the.n_rows++];
    *row = (step_clock_row){.op = op};
    memcpy(row->arguments, arguments, op->arguments_bytes);
    return row;
}

static ls_status timed(const ls_op *op, const ls_cpu_run *run, const void *arguments)
{
    double start = step_clock_seconds();
    ls_status status = op->cpu(run, arguments);
    double seconds = step_clock_seconds() - start;

    pthread_mutex_lock(&the.mutex);
    the.last = seconds;
    step_clock_row *row = the.in_step ? row_of(op, arguments) : NULL;
    if (row != NULL) {
        row->n++;
        row->sum += seconds;
    }
    pthread_mutex_unlock(&the.mutex);
    return status;
}

#define LS_OP(op, in, out, acc, step_state, attr, flop_count)                       \
    static ls_status op##_timed(const ls_cpu_run *run, const void *arguments)       \
    {                                                                               \
        return timed(&lsi_op_##op, run, arguments);                                 \
    }
#include "kernels/ops.def"
#undef LS_OP

static struct wrapped {
    const ls_op *op;
    ls_cpu_fn cpu;
    ls_op wrapper;
} wrapped[] = {
#define LS_OP(op, in, out, acc, step_state, attr, flop_count) {&lsi_op_##op, op##_timed, {0}},
#include "kernels/ops.def"
#undef LS_OP
};
enum { N_WRAPPED = sizeof wrapped / sizeof wrapped[0] };

/* An op from outside the library runs as it is. */
static ls_status launch(ls_stream *stream, const ls_op *op, const void *arguments)
{
    for (int i = 0; i < N_WRAPPED; i++) {
        if (wrapped[i].op == op) {
            return the.inner->launch(stream, &wrapped[i].wrapper, arguments);
        }
    }
    return the.inner->launch(stream, op, arguments);
}

ls_status step_clock_open(ls_device *device, bool cpu_time, int n_threads)
{
    LS_REQUIRE(strcmp(device->backend->name, "cpu") == 0, LS_ERR_CONFIG,
               "ops are timed on the cpu backend, this one is %s", device->backend->name);
    the.device = device;
    the.inner = device->backend;
    the.table = *device->backend;
    the.table.launch = launch;
    the.cpu_time = cpu_time;
    the.n_threads = n_threads;
    pthread_mutex_init(&the.mutex, NULL);
    for (int i = 0; i < N_WRAPPED; i++) {
        wrapped[i].wrapper = *wrapped[i].op;
        wrapped[i].wrapper.cpu = wrapped[i].cpu;
    }
    device->backend = &the.table;
    return LS_OK;
}

void step_clock_close(void)
{
    if (the.device != NULL) {
        the.device->backend = the.inner;
        the.device = NULL;
    }
}

void step_clock_begin(void)
{
    for (int i = 0; i < the.n_rows; i++) {
        the.row[i].n = 0;
        the.row[i].sum = 0.0;
    }
    the.in_step = true;
}

void step_clock_end(bool count)
{
    the.in_step = false;
    for (int i = 0; i < the.n_rows && count; i++) {
        step_clock_row *row = &the.row[i];

        if (row->n_steps < STEP_CLOCK_STEPS) {
            row->step[row->n_steps++] = row->sum;
        }
    }
}

const step_clock_row *step_clock_rows(int *n)
{
    *n = the.n_rows;
    return the.row;
}

double step_clock_last(void)
{
    return the.last;
}

double step_clock_median(const double *values, int n)
{
    double sorted[STEP_CLOCK_STEPS];

    memcpy(sorted, values, (size_t)n * sizeof *values);
    return bench_median(sorted, n);
}
