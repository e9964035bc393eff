/* RUN: cuda label=contract,tsan timeout=60 */
/* A training step in miniature, on the calls that the real one is made of: a loader thread fills shares, the copy
 * stream moves them, compute runs forward and backward, comm stands for the reduction, then update and commit.
 *
 * It gives one hash whatever the threads, eager or replayed, with one or two steps in flight. And none of its waits is
 * there for nothing: ThreadSanitizer reports each one that is left out (edges mode, two steps in flight). */
#include "support/backend_case.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/thread.h"
#include "base/tsan.h"
#include <lockstep/step_state.h>

static const ls_backend *b;

enum { ROWS = 16, INPUTS = 48, OUTPUTS = 32, BUCKETS = 3, BUCKET_ROWS = INPUTS / BUCKETS, SLOTS = 5, RING = 4 };
enum { BUCKET = BUCKET_ROWS * OUTPUTS };

/* The waits of a step, in the order in which it needs them. */
typedef enum wait_id {
    WAIT_NONE,
    WAIT_FORK,          /* copy: for the start of the step */
    WAIT_FULL,          /* copy: until the loader has filled the share */
    WAIT_FREE,          /* loader: until the copy stream has emptied it */
    WAIT_COPIED,        /* compute: for the slot's data */
    WAIT_USED,          /* copy: until the buffer's last slot has been computed */
    WAIT_BUCKET,        /* comm: for the gradients of the bucket */
    WAIT_REDUCED,       /* compute: for the bucket's sums */
    WAIT_HOST,          /* host: for the end of the step, before it reads the loss */
    WAIT_COUNT
} wait_id;

typedef struct run_options {
    int threads, steps, depth;  /* depth: steps in flight */
    bool replay;
    wait_id drop;
    int abort_at;               /* -1: never */
} run_options;

typedef struct mini {
    run_options options;
    ls_device *device;
    ls_stream *compute, *copy, *comm;
    ls_event *fork, *copied[SLOTS], *used[SLOTS], *bucket[BUCKETS], *reduced[BUCKETS], *done[RING];
    ls_flag full[2];            /* by parity of the slot in its step: 1 full, 0 free */
    float share[2][ROWS * INPUTS], x[2][ROWS * INPUTS];
    float w[INPUTS * OUTPUTS], y[ROWS * OUTPUTS], g[INPUTS * OUTPUTS], r[INPUTS * OUTPUTS];
    double row_loss[SLOTS][ROWS];
    double loss[2];             /* by step parity */
    int parity;                 /* of the step being queued */
    ls_step_state state;
} mini;

static float noise(uint64_t i)
{
    i *= 0x9E3779B97F4A7C15u;
    i ^= i >> 29;
    i *= 0xBF58476D1CE4E5B9u;
    i ^= i >> 32;
    return (float)(int32_t)(i & 0xffffff) / 8388608.0f - 1.0f;
}

/* ---- ops ----------------------------------------------------------------------------------------------------- */

typedef struct forward_args {
    ls_view x, w, y, row_loss;
} forward_args;

/* One row: y = x w, its loss, and in place of y the gradient of it. */
static void forward_row(void *argument, int64_t row)
{
    const forward_args *a = argument;
    const float *x = (const float *)a->x.data + row * INPUTS, *w = a->w.data;
    float *y = (float *)a->y.data + row * OUTPUTS;
    double loss = 0;

    for (int o = 0; o < OUTPUTS; o++) {
        y[o] = 0;
        for (int i = 0; i < INPUTS; i++) {
            y[o] += x[i] * w[i * OUTPUTS + o];
        }
        y[o] -= 0.25f;
        loss += (double)y[o] * (double)y[o];
    }
    ((double *)a->row_loss.data)[row] = loss;
}

static ls_status forward(const ls_cpu_run *run, const void *arguments)
{
    forward_args a = *(const forward_args *)arguments;

    ls_parallel_for(run, ROWS, forward_row, &a);
    return LS_OK;
}

TEST_OP_ON_CUDA(forward, sizeof(forward_args))
static const ls_op op_forward = {.struct_size = sizeof(ls_op), .name = "forward", .n_in = 2, .n_out = 2,
                                 .cpu = forward, .cuda = forward_on_cuda, .arguments_bytes = sizeof(forward_args)};

typedef struct backward_args {
    ls_view x, y, g;
    int first_row, accumulate;
} backward_args;

static void backward_row(void *argument, int64_t row)
{
    const backward_args *a = argument;
    const float *x = (const float *)a->x.data + a->first_row + row, *y = a->y.data;
    float *g = (float *)a->g.data + row * OUTPUTS;

    for (int o = 0; o < OUTPUTS; o++) {
        float sum = a->accumulate ? g[o] : 0;

        for (int s = 0; s < ROWS; s++) {
            sum += x[s * INPUTS] * y[s * OUTPUTS + o];
        }
        g[o] = sum;
    }
}

static ls_status backward(const ls_cpu_run *run, const void *arguments)
{
    backward_args a = *(const backward_args *)arguments;

    ls_parallel_for(run, BUCKET_ROWS, backward_row, &a);
    return LS_OK;
}

TEST_OP_ON_CUDA(backward, sizeof(backward_args))
static const ls_op op_backward = {.struct_size = sizeof(ls_op), .name = "backward", .n_in = 2, .n_acc = 1,
                                  .cpu = backward, .cuda = backward_on_cuda, .arguments_bytes = sizeof(backward_args)};

typedef struct pair_args {
    ls_view from, to;
    ls_step_state *state;
} pair_args;

static void reduce_row(void *argument, int64_t row)
{
    const pair_args *a = argument;

    for (int64_t i = row * OUTPUTS; i < (row + 1) * OUTPUTS; i++) {
        ((float *)a->to.data)[i] = 0.5f * (((const float *)a->from.data)[i] + 0.001f * noise((uint64_t)i));
    }
}

static ls_status reduce(const ls_cpu_run *run, const void *arguments)
{
    pair_args a = *(const pair_args *)arguments;

    ls_parallel_for(run, BUCKET_ROWS, reduce_row, &a);
    return LS_OK;
}

TEST_OP_ON_CUDA(reduce, sizeof(pair_args))
static const ls_op op_reduce = {.struct_size = sizeof(ls_op), .name = "reduce", .n_in = 1, .n_out = 1,
                                .cpu = reduce, .cuda = reduce_on_cuda,
                                .arguments_bytes = sizeof(pair_args)};

/* The rate changes with the step, so it is read from the state: a captured value would be frozen. */
static void update_row(void *argument, int64_t row)
{
    const pair_args *a = argument;
    float rate = 0.001f / (1.0f + 0.1f * (float)a->state->attempted);

    for (int64_t i = row * OUTPUTS; i < (row + 1) * OUTPUTS; i++) {
        ((float *)a->to.data)[i] -= rate * ((const float *)a->from.data)[i];
    }
}

static ls_status update(const ls_cpu_run *run, const void *arguments)
{
    pair_args a = *(const pair_args *)arguments;

    ls_parallel_for(run, BUCKET_ROWS, update_row, &a);
    return LS_OK;
}

TEST_OP_ON_CUDA(update, sizeof(pair_args))
static const ls_op op_update = {.struct_size = sizeof(ls_op), .name = "update", .n_in = 1, .n_acc = 1,
                                .state_access = LS_STATE_READ, .state_offset = offsetof(pair_args, state),
                                .cpu = update, .cuda = update_on_cuda, .arguments_bytes = sizeof(pair_args)};

typedef struct commit_args {
    ls_view row_loss, loss;
    ls_step_state *state;
} commit_args;

static ls_status commit(const ls_cpu_run *run, const void *arguments)
{
    const commit_args *a = arguments;
    double sum = 0;

    (void)run;
    for (int64_t i = 0; i < a->row_loss.count; i++) {
        sum += ((const double *)a->row_loss.data)[i];
    }
    *(double *)a->loss.data = sum;
    a->state->attempted++;
    return LS_OK;
}

TEST_OP_ON_CUDA(commit, sizeof(commit_args))
static const ls_op op_commit = {.struct_size = sizeof(ls_op), .name = "commit", .n_in = 1, .n_out = 1,
                                .state_access = LS_STATE_WRITE, .state_offset = offsetof(commit_args, state),
                                .cpu = commit, .cuda = commit_on_cuda, .arguments_bytes = sizeof(commit_args)};

/* ---- the step ------------------------------------------------------------------------------------------------ */

static bool keeps(const mini *m, wait_id id)
{
    return m->options.drop != id;
}

static ls_view floats(float *data, int64_t count)
{
    return ls_view_make(data, count, LS_F32);
}

static ls_status queue_slot(mini *m, int s)
{
    int parity = s % 2;
    ls_view x = floats(m->x[parity], ROWS * INPUTS), y = floats(m->y, ROWS * OUTPUTS);

    if (s >= 2 && keeps(m, WAIT_USED)) {
        LS_TRY(b->event_wait(m->copy, m->used[s - 2]));
    }
    if (keeps(m, WAIT_FULL)) {
        LS_TRY(b->flag_wait(m->copy, &m->full[parity], 1));
    }
    LS_TRY(b->copy(m->copy, m->x[parity], m->share[parity], sizeof m->x[parity]));
    LS_TRY(b->flag_set(m->copy, &m->full[parity], 0));
    LS_TRY(b->event_record(m->copied[s], m->copy));

    if (keeps(m, WAIT_COPIED)) {
        LS_TRY(b->event_wait(m->compute, m->copied[s]));
    }
    LS_TRY(ls_op_launch(m->compute, &op_forward,
                        &(forward_args){x, floats(m->w, INPUTS * OUTPUTS), y,
                                        ls_view_make(m->row_loss[s], ROWS, LS_F64)}));
    for (int k = 0; k < BUCKETS; k++) {
        backward_args backward_of = {x, y, floats(m->g + k * BUCKET, BUCKET), k * BUCKET_ROWS, s > 0};
        pair_args sums = {floats(m->g + k * BUCKET, BUCKET), floats(m->r + k * BUCKET, BUCKET), NULL};

        LS_TRY(ls_op_launch(m->compute, &op_backward, &backward_of));
        if (s == SLOTS - 1) {
            LS_TRY(b->event_record(m->bucket[k], m->compute));
            if (keeps(m, WAIT_BUCKET)) {
                LS_TRY(b->event_wait(m->comm, m->bucket[k]));
            }
            LS_TRY(ls_op_launch(m->comm, &op_reduce, &sums));
            LS_TRY(b->event_record(m->reduced[k], m->comm));
        }
    }
    return b->event_record(m->used[s], m->compute);
}

static ls_status queue_step(mini *m)
{
    LS_TRY(b->stamp(m->compute, 1));
    LS_TRY(b->event_record(m->fork, m->compute));
    if (keeps(m, WAIT_FORK)) {
        LS_TRY(b->event_wait(m->copy, m->fork));
    }
    for (int s = 0; s < SLOTS; s++) {
        LS_TRY(queue_slot(m, s));
    }
    for (int k = 0; k < BUCKETS; k++) {
        pair_args weights = {floats(m->r + k * BUCKET, BUCKET), floats(m->w + k * BUCKET, BUCKET), &m->state};

        if (keeps(m, WAIT_REDUCED)) {
            LS_TRY(b->event_wait(m->compute, m->reduced[k]));
        }
        LS_TRY(ls_op_launch(m->compute, &op_update, &weights));
    }
    LS_TRY(ls_op_launch(m->compute, &op_commit,
                        &(commit_args){ls_view_make(m->row_loss, SLOTS * ROWS, LS_F64),
                                       ls_view_make(&m->loss[m->parity], 1, LS_F64), &m->state}));
    return b->stamp(m->compute, 2);
}

static void *load(void *argument)
{
    mini *m = argument;
    /* A loader that does not wait must still be at work when the first share is copied, to be caught. */
    int64_t end = keeps(m, WAIT_FREE) ? m->options.steps * SLOTS : INT64_MAX;

    for (int64_t n = 0; n < end; n++) {
        int64_t parity = n % SLOTS % 2;

        if (keeps(m, WAIT_FREE) && b->host_flag_wait(m->device, &m->full[parity], 0, 0) != LS_OK) {
            return NULL;
        }
        for (int i = 0; i < ROWS * INPUTS; i++) {
            m->share[parity][i] = noise((uint64_t)n * ROWS * INPUTS + (uint64_t)i);
        }
        b->host_flag_set(m->device, &m->full[parity], 1);
    }
    return NULL;
}

static ls_status run_steps(mini *m, uint64_t *hash)
{
    run_options o = m->options;
    ls_recording *recording[2] = {NULL, NULL};
    double losses[64];
    ls_status status = LS_OK;

    for (int parity = 0; parity < 2 && o.replay; parity++) {
        LS_TRY(b->capture_begin(m->compute));
        m->parity = parity;
        status = queue_step(m);
        ls_status ended = b->capture_end(m->compute, &recording[parity]);
        LS_TRY(status);
        LS_TRY(ended);
    }
    for (int t = 0; t < o.steps + o.depth && status == LS_OK; t++) {
        if (t >= o.depth) {
            if (keeps(m, WAIT_HOST)) {
                LS_TRY_GOTO(status, done, b->event_sync(m->done[(t - o.depth) % RING]));
            }
            losses[t - o.depth] = m->loss[(t - o.depth) % 2];
        }
        m->parity = t % 2;
        if (t < o.steps) {
            LS_TRY_GOTO(status, done, o.replay ? b->replay(recording[t % 2]) : queue_step(m));
            LS_TRY_GOTO(status, done, b->event_record(m->done[t % RING], m->compute));
        }
        if (t == o.abort_at) {
            b->abort(m->device);
        }
    }
    LS_TRY_GOTO(status, done, b->stream_sync(m->compute));
    *hash = lsi_hash64(losses, (size_t)o.steps * sizeof losses[0]) ^ lsi_hash64(m->w, sizeof m->w);

done:
    (void)!b->stream_sync(m->compute);      /* covers all of a replay, after an abort too */
    b->recording_destroy(recording[0]);
    b->recording_destroy(recording[1]);
    return status;
}

static ls_status run_mini(run_options options, uint64_t *hash)
{
    ls_device *device = test_device_open(options.threads);
    mini *m = test_memory(device, sizeof *m);
    ls_event **const groups[] = {&m->fork, m->copied, m->used, m->bucket, m->reduced, m->done};
    static const int sizes[] = {1, SLOTS, SLOTS, BUCKETS, BUCKETS, RING};
    pthread_t loader;

    m->options = options;
    for (int i = 0; i < INPUTS * OUTPUTS; i++) {
        m->w[i] = 0.1f * noise(1u << 30 | (unsigned)i);
    }
    m->device = device;
    m->compute = test_stream(m->device, "compute");
    m->copy = test_stream(m->device, "copy");
    CHECK_OK(b->stream_create(m->device, "comm", 1, &m->comm));
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < sizes[i]; k++) {
            groups[i][k] = test_event(m->device);
        }
    }
    CHECK_OK(lsi_thread_start(&loader, "loader", load, m));

    ls_status status = run_steps(m, hash);

    /* First whoever makes work for others, then those who wait for flags, then the streams. */
    b->abort(m->device);
    pthread_join(loader, NULL);
    b->stream_destroy(m->copy);
    b->stream_destroy(m->comm);
    b->stream_destroy(m->compute);
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < sizes[i]; k++) {
            b->event_destroy(groups[i][k]);
        }
    }
    test_device_close(device);
    test_check_no_memory_live();
    return status;
}

/* ---- one hash ------------------------------------------------------------------------------------------------ */

static void one_hash(void **state)
{
    uint64_t expected = 0;

    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        for (int depth = 1; depth <= 2; depth++) {
            for (int replay = 0; replay <= 1; replay++) {
                run_options o = {.threads = threads, .steps = 20, .depth = depth, .replay = replay, .abort_at = -1};
                uint64_t hash = 0;

                CHECK_OK(run_mini(o, &hash));
                if (expected == 0) {
                    expected = hash;
                }
                assert_true(hash == expected);
            }
        }
    }
}

static void abort_in_mid_step_ends_cleanly(void **state)
{
    (void)state;
    for (int replay = 0; replay <= 1; replay++) {
        run_options o = {.threads = 2, .steps = 50, .depth = 2, .replay = replay, .abort_at = 9};
        uint64_t hash;

        CHECK_FAILS(run_mini(o, &hash), LS_ERR_INTERNAL, "aborted");
    }
}

/* ---- no wait for nothing ------------------------------------------------------------------------------------- */

#ifdef LSI_TSAN

enum { EXIT_REPORTED = 66, EXIT_REFUSED = 3, EXIT_WRONG = 1 };

/* Runs this program again with a wait left out; its exit code. */
static int run_without(wait_id drop, bool replay)
{
    char drop_text[16];
    int status = -1;

    snprintf(drop_text, sizeof drop_text, "%d", (int)drop);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("LOCKSTEP_TSAN_EDGES", "1", 1);
        setenv("TSAN_OPTIONS", "ignore_noninstrumented_modules=1 halt_on_error=1 exitcode=66", 1);
        if (drop != WAIT_NONE && freopen("/dev/null", "w", stderr) == NULL) {
            _exit(EXIT_WRONG);
        }
        execl("/proc/self/exe", "test_mini_step", "--drop", drop_text, replay ? "replay" : "eager", (char *)NULL);
        _exit(EXIT_WRONG);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_WRONG;
}

static void every_missing_wait_is_reported(void **state)
{
    (void)state;
    for (int drop = WAIT_NONE; drop < WAIT_COUNT; drop++) {
        /* Without one of these a captured step is not closed, which the capture itself finds. */
        bool refused = drop == WAIT_FORK || drop == WAIT_COPIED || drop == WAIT_BUCKET || drop == WAIT_REDUCED;
        int eager = run_without((wait_id)drop, false), replayed = run_without((wait_id)drop, true);

        if (eager != (drop == WAIT_NONE ? 0 : EXIT_REPORTED)) {
            fail_msg("wait %d left out, eager: exit code %d", drop, eager);
        }
        if (replayed != (drop == WAIT_NONE ? 0 : refused ? EXIT_REFUSED : EXIT_REPORTED)) {
            fail_msg("wait %d left out, replayed: exit code %d", drop, replayed);
        }
    }
}

#else

static void every_missing_wait_is_reported(void **state)
{
    (void)state;
    skip();     /* only ThreadSanitizer sees a missing wait */
}

#endif

static int run_child(char **arguments)
{
    run_options o = {.threads = 2, .steps = 8, .depth = 2, .drop = (wait_id)atoi(arguments[0]),
                     .replay = strcmp(arguments[1], "replay") == 0, .abort_at = -1};
    uint64_t hash;

    alarm(20);      /* a step with a wait left out may hang, and that is not a report */
    ls_status status = run_mini(o, &hash);
    return status == LS_OK ? 0 : status == LS_ERR_INTERNAL ? 3 : 1;
}

int main(int argc, char **argv)
{
    b = test_backend();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_hash),
        cmocka_unit_test(abort_in_mid_step_ends_cleanly),
        cmocka_unit_test(every_missing_wait_is_reported),
    };

    if (argc == 4 && strcmp(argv[1], "--drop") == 0) {
        return run_child(argv + 2);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
