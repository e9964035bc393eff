#include "step_probe.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/clock.h"
#include "median.h"

enum { BYTES = 256 << 20, PIECE = 256 << 10, REPS = 7 };
/* Rallies are short, and the fastest one counts: most of them see both threads on a core all the time, even where two
 * processes measure at once on two cores. */
enum { RALLIES = 200, TRIPS = 500, PATIENCE = 20000 };

/* ---- copy -------------------------------------------------------------------------------------------------------- */

typedef struct copy_arguments {
    ls_view from, to;
    double *seconds;
    double (*clock)(void);
} copy_arguments;

static void copy_piece(void *argument, int64_t block)
{
    const copy_arguments *a = argument;
    const float *from = (const float *)a->from.data + block * (PIECE / 4);
    float *to = (float *)a->to.data + block * (PIECE / 4);

#ifdef __SSE2__
    for (int i = 0; i < PIECE / 4; i += 4) {
        _mm_stream_ps(to + i, _mm_load_ps(from + i));
    }
    _mm_sfence();
#else
    memcpy(to, from, PIECE);
#endif
}

static ls_status copy_run(const ls_cpu_run *run, const void *arguments)
{
    copy_arguments a = *(const copy_arguments *)arguments;
    double start = a.clock();

    ls_parallel_for(run, BYTES / PIECE, copy_piece, &a);
    *a.seconds = a.clock() - start;
    return LS_OK;
}

static const ls_op copy_op = {
    .struct_size = sizeof(ls_op),
    .name = "streaming copy",
    .arguments_bytes = sizeof(copy_arguments),
    .n_in = 1,
    .n_out = 1,
    .cpu = copy_run,
};

static ls_status run_copies(ls_device *device, ls_stream *stream, void *from, void *to, double (*clock)(void),
                            double *out)
{
    double seconds[REPS], one;
    copy_arguments a = {.from = ls_view_make(from, BYTES / 4, LS_F32),
                        .to = ls_view_make(to, BYTES / 4, LS_F32),
                        .seconds = &one,
                        .clock = clock};

    for (int i = -1; i < REPS; i++) {
        LS_TRY(ls_op_launch(stream, &copy_op, &a));
        LS_TRY(device->backend->stream_sync(stream));
        if (i >= 0) {
            seconds[i] = one;
        }
    }
    *out = 2.0 * BYTES / bench_median(seconds, REPS);
    return LS_OK;
}

ls_status step_probe_copy(ls_device *device, double (*clock)(void), double *out)
{
    const ls_backend *b = device->backend;
    ls_stream *stream = NULL;
    void *from = NULL, *to = NULL;
    ls_status status;

    LS_TRY_GOTO(status, out, b->stream_create(device, "probe", 0, &stream));
    LS_TRY_GOTO(status, out, b->alloc(device, LS_MEM_DEVICE, BYTES, &from));
    LS_TRY_GOTO(status, out, b->alloc(device, LS_MEM_DEVICE, BYTES, &to));
    memset(from, 1, BYTES);
    memset(to, 1, BYTES);
    status = run_copies(device, stream, from, to, clock, out);
out:
    b->release(device, LS_MEM_DEVICE, BYTES, from);
    b->release(device, LS_MEM_DEVICE, BYTES, to);
    if (stream != NULL) {
        b->stream_destroy(stream);
    }
    return status;
}

/* ---- ping-pong --------------------------------------------------------------------------------------------------- */

typedef struct ball {
    _Atomic uint32_t word, ready;
    char line[56];
} ball;

static void play(ball *b, uint32_t side)
{
    for (uint32_t i = 0; i < TRIPS; i++) {
        for (int spins = 1; atomic_load_explicit(&b->word, memory_order_acquire) != 2 * i + side; spins++) {
            if (spins % PATIENCE == 0) {
                sched_yield();      /* the other one may wait for this core */
            }
        }
        atomic_store_explicit(&b->word, 2 * i + side + 1, memory_order_release);
    }
}

static void *other_side(void *argument)
{
    ball *b = argument;

    atomic_store_explicit(&b->ready, 1, memory_order_release);
    play(b, 1);
    return NULL;
}

ls_status step_probe_ping(double *out)
{
    double best = INFINITY;

    for (int rally = 0; rally < RALLIES; rally++) {
        _Alignas(64) ball b = {0};
        pthread_t other;

        LS_REQUIRE(pthread_create(&other, NULL, other_side, &b) == 0, LS_ERR_INTERNAL, "no thread for a ping-pong");
        /* The first trip waits for the thread to start. */
        while (atomic_load_explicit(&b.ready, memory_order_acquire) == 0) {
            sched_yield();
        }
        double start = lsi_clock_seconds();
        play(&b, 0);
        double seconds = (lsi_clock_seconds() - start) / (2 * TRIPS);
        best = seconds < best ? seconds : best;
        pthread_join(other, NULL);
    }
    *out = best;
    return LS_OK;
}

static bool far_apart(double a, double b)
{
    return a > 1.2 * b || b > 1.2 * a;
}

bool step_probe_differs(const step_probe *before, const step_probe *after)
{
    return far_apart(before->copy, after->copy) || far_apart(before->ping, after->ping);
}
