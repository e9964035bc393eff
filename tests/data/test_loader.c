/* RUN: label=tsan timeout=60 */
#include "support/test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/registry.h"
#include "data/loader.h"
#include "support/data_file.h"

enum { MICRO = 3, FEATURES = 5, TARGETS = 2, N_SAMPLES = 101, GLOBAL = 18, MAX_SLOTS = 6, MAX_STEPS = 24 };
enum { SHARE_INPUT = MAX_SLOTS * MICRO * FEATURES, SHARE_TARGETS = MAX_SLOTS * MICRO * TARGETS };

/* A data set whose samples tell their index. */
typedef struct formula_dataset {
    ls_dataset base;
    int64_t fails_at;           /* index; -1: never */
    long delay_nanoseconds;     /* of one read */
    atomic_int *n_reads;
} formula_dataset;

static void formula_close(ls_dataset *dataset)
{
    (void)dataset;
}

static void nap(long nanoseconds)
{
    struct timespec time = {0, nanoseconds};

    nanosleep(&time, NULL);
}

static void formula(int64_t index, float *input, int32_t *targets)
{
    for (int i = 0; i < FEATURES; i++) {
        input[i] = (float)(index * 10 + i);
    }
    for (int i = 0; i < TARGETS; i++) {
        targets[i] = (int32_t)(index * 3 + i);
    }
}

static ls_status formula_read(const ls_dataset *dataset, int64_t index, void *input, void *targets)
{
    const formula_dataset *data = (const formula_dataset *)dataset;

    LS_REQUIRE(index != data->fails_at, LS_ERR_DATA, "sample %d is bad", (int)index);
    atomic_fetch_add(data->n_reads, 1);
    if (data->delay_nanoseconds > 0) {
        nap(data->delay_nanoseconds);
    }
    formula(index, input, targets);
    return LS_OK;
}

static const ls_dataset_ops formula_ops = {sizeof(ls_dataset_ops), "formula", formula_close, formula_read};

/* Everything one run of a loader needs. */
typedef struct bench {
    const ls_backend *backend;
    ls_device *device;
    ls_stream *copy;
    void *pinned[2];            /* inputs, then targets */
    ls_flag *flag[2];
    formula_dataset data;
    atomic_int n_reads;
    lsi_loader_options options;
} bench;

enum { PINNED_BYTES = (SHARE_INPUT + SHARE_TARGETS) * 4 };

static void must_not_fail(void *argument, ls_status status)
{
    (void)argument;
    print_error("a loader thread failed: %s: %s\n", ls_status_text(status), ls_failure_message());
    abort();
}

static void bench_open(bench *b)
{
    ls_device_options options = {.struct_size = sizeof options, .n_threads = 1};

    memset(b, 0, sizeof *b);
    b->backend = &lsi_cpu_backend;
    CHECK_OK(b->backend->open(&options, &b->device));
    CHECK_OK(b->backend->stream_create(b->device, "copy", 0, &b->copy));
    b->data = (formula_dataset){.base = {.ops = &formula_ops, .n_samples = N_SAMPLES, .input_dtype = LS_F32,
                                         .input_shape = ls_shape1(FEATURES), .target_count = TARGETS,
                                         .n_classes = 1000, .description = "formula"},
                                .fails_at = -1, .n_reads = &b->n_reads};
    b->options = (lsi_loader_options){.device = b->device, .data = &b->data.base, .sampler = {N_SAMPLES, 5, true},
                                      .global_batch = GLOBAL, .micro_batch = MICRO, .prefetch = 2,
                                      .on_failure = must_not_fail};
    for (int parity = 0; parity < 2; parity++) {
        void *word;

        CHECK_OK(b->backend->alloc(b->device, LS_MEM_PINNED, PINNED_BYTES, &b->pinned[parity]));
        CHECK_OK(b->backend->alloc(b->device, LS_MEM_PINNED, sizeof(ls_flag), &word));
        b->flag[parity] = word;
        b->backend->host_flag_set(b->device, b->flag[parity], 0);
        b->options.share[parity] = (lsi_share){b->pinned[parity], (int32_t *)b->pinned[parity] + SHARE_INPUT, word};
    }
}

static void bench_close(bench *b)
{
    b->backend->stream_destroy(b->copy);
    for (int parity = 0; parity < 2; parity++) {
        b->backend->release(b->device, LS_MEM_PINNED, PINNED_BYTES, b->pinned[parity]);
        b->backend->release(b->device, LS_MEM_PINNED, sizeof(ls_flag), b->flag[parity]);
    }
    b->backend->close(b->device);
}

/* Queues what the trainer's copy stream does with the share of one step. */
static void queue_step(bench *b, int64_t step, void *out)
{
    ls_flag *flag = b->flag[step % 2];

    CHECK_OK(b->backend->flag_wait(b->copy, flag, 1));
    CHECK_OK(b->backend->copy(b->copy, out, b->pinned[step % 2], PINNED_BYTES));
    CHECK_OK(b->backend->flag_set(b->copy, flag, 0));
}

/* Fails unless `share` holds this rank's slots of `step`. */
static void check_share(const lsi_loader_options *o, int64_t step, const void *share)
{
    const float *input = share;
    const int32_t *targets = (const int32_t *)share + SHARE_INPUT;

    for (int64_t k = 0; k < o->n_slots * MICRO; k++) {
        int64_t position = step * GLOBAL + o->slot[k / MICRO] * MICRO + k % MICRO;
        float expected_input[FEATURES];
        int32_t expected_targets[TARGETS];

        formula(lsi_sampler_index(&o->sampler, position), expected_input, expected_targets);
        assert_memory_equal(input + k * FEATURES, expected_input, sizeof expected_input);
        assert_memory_equal(targets + k * TARGETS, expected_targets, sizeof expected_targets);
    }
}

static void run_and_check(bench *b, int64_t first, int64_t end)
{
    static uint32_t out[MAX_STEPS][PINNED_BYTES / 4];
    lsi_loader *loader;

    memset(out, 0, sizeof out);
    atomic_store(&b->n_reads, 0);
    b->options.first_step = first;
    b->options.end_step = end;
    CHECK_OK(lsi_loader_create(&b->options, &loader));
    for (int64_t step = first; step < end; step++) {
        if (b->options.workers == 0) {
            CHECK_OK(b->backend->stream_sync(b->copy));
            CHECK_OK(lsi_loader_fill(loader, step));
        }
        queue_step(b, step, out[step]);
    }
    CHECK_OK(b->backend->stream_sync(b->copy));
    lsi_loader_destroy(&loader);
    assert_null(loader);
    for (int64_t step = first; step < end; step++) {
        check_share(&b->options, step, out[step]);
    }
    /* Each sample once, and none beyond the last step. */
    assert_int_equal(atomic_load(&b->n_reads), (end - first) * b->options.n_slots * MICRO);
}

static void shares_depend_on_the_step_alone(void **state)
{
    static const int64_t slots[3][MAX_SLOTS] = {{0, 1, 2, 3, 4, 5}, {5, 2}, {3}};
    static const int64_t n_slots[3] = {6, 2, 1};
    bench b;
    (void)state;

    bench_open(&b);
    for (int s = 0; s < 3; s++) {
        b.options.slot = slots[s];
        b.options.n_slots = n_slots[s];
        for (b.options.workers = 0; b.options.workers <= 4; b.options.workers++) {
            for (b.options.prefetch = 1; b.options.prefetch <= 3; b.options.prefetch++) {
                run_and_check(&b, 0, MAX_STEPS);
                run_and_check(&b, 3, 10);
                run_and_check(&b, 4, 5);
            }
        }
    }
    bench_close(&b);
}

static void a_slow_reader_changes_nothing(void **state)
{
    static const int64_t slots[3] = {1, 4, 0};
    bench b;
    (void)state;

    bench_open(&b);
    b.options.slot = slots;
    b.options.n_slots = 3;
    b.data.delay_nanoseconds = 200000;
    b.options.workers = 3;
    run_and_check(&b, 0, MAX_STEPS);
    bench_close(&b);
}

static void without_slots_nothing_is_touched(void **state)
{
    bench b;
    (void)state;

    bench_open(&b);
    for (b.options.workers = 0; b.options.workers <= 2; b.options.workers++) {
        lsi_loader *loader;

        b.options.end_step = 10;
        CHECK_OK(lsi_loader_create(&b.options, &loader));
        if (b.options.workers == 0) {
            CHECK_OK(lsi_loader_fill(loader, 0));
        }
        CHECK_FAILS(b.backend->host_flag_wait(b.device, b.flag[0], 1, 0.01), LS_ERR_TIMEOUT, NULL);
        lsi_loader_destroy(&loader);
    }
    assert_int_equal(atomic_load(&b.n_reads), 0);
    bench_close(&b);
}

/* The end comes while nobody consumes: at once, after some work, with both shares full, in the middle of reads. */
static void destroy_at_any_moment(void **state)
{
    static const int64_t slots[2] = {1, 4};
    bench b;
    (void)state;

    bench_open(&b);
    b.options.slot = slots;
    b.options.n_slots = 2;
    b.options.end_step = INT64_MAX / 1000;
    for (int i = 0; i < 200; i++) {
        lsi_loader *loader;

        b.options.workers = 1 + i % 4;
        b.options.prefetch = 1 + i % 3;
        b.data.delay_nanoseconds = i % 5 == 0 ? 100000 : 0;
        for (int parity = 0; parity < 2; parity++) {
            b.backend->host_flag_set(b.device, b.flag[parity], 0);
        }
        CHECK_OK(lsi_loader_create(&b.options, &loader));
        if (i % 10 == 9) {
            CHECK_OK(b.backend->host_flag_wait(b.device, b.flag[0], 1, 10));
            CHECK_OK(b.backend->host_flag_wait(b.device, b.flag[1], 1, 10));
        } else {
            nap(i % 10 * 20000);
        }
        lsi_loader_destroy(&loader);
    }
    bench_close(&b);
}

static void destroy_after_an_abort(void **state)
{
    static const int64_t slots[1] = {0};
    static uint32_t out[2][PINNED_BYTES / 4];
    (void)state;

    for (int i = 0; i < 10; i++) {
        bench b;
        lsi_loader *loader;

        bench_open(&b);
        b.options.slot = slots;
        b.options.n_slots = 1;
        b.options.workers = 2;
        b.options.end_step = 1000;
        b.data.delay_nanoseconds = i % 2 * 50000;
        CHECK_OK(lsi_loader_create(&b.options, &loader));
        for (int64_t step = 0; step < i; step++) {
            queue_step(&b, step, out[step % 2]);
        }
        nap(i * 20000);
        b.backend->abort(b.device);
        lsi_loader_destroy(&loader);
        bench_close(&b);
    }
}

typedef struct failure_note {
    atomic_int n;
    ls_status status;
    char message[64];
} failure_note;

static void note_failure(void *argument, ls_status status)
{
    failure_note *note = argument;

    if (atomic_fetch_add(&note->n, 1) == 0) {
        note->status = status;
        strncpy(note->message, ls_failure_message(), sizeof note->message - 1);
    }
}

static void a_bad_sample_is_reported_on_its_thread(void **state)
{
    static const int64_t slots[MAX_SLOTS] = {0, 1, 2, 3, 4, 5};
    failure_note note = {.n = 0};
    lsi_loader *loader;
    bench b;
    (void)state;

    bench_open(&b);
    b.options.slot = slots;
    b.options.n_slots = MAX_SLOTS;
    b.options.workers = 1;
    b.options.end_step = 2;
    b.options.on_failure = note_failure;
    b.options.failure_argument = &note;
    b.data.fails_at = lsi_sampler_index(&b.options.sampler, GLOBAL + 4);
    CHECK_OK(lsi_loader_create(&b.options, &loader));
    for (int i = 0; i < 10000 && atomic_load(&note.n) == 0; i++) {
        nap(1000000);
    }
    lsi_loader_destroy(&loader);
    assert_int_equal(atomic_load(&note.n), 1);
    assert_int_equal(note.status, LS_ERR_DATA);
    assert_non_null(strstr(note.message, "is bad"));

    /* Beyond the last step nothing is read, so nothing can be bad there. */
    b.data.fails_at = lsi_sampler_index(&b.options.sampler, 2 * GLOBAL);
    b.options.on_failure = must_not_fail;
    b.options.workers = 4;
    for (int parity = 0; parity < 2; parity++) {
        b.backend->host_flag_set(b.device, b.flag[parity], 0);
    }
    run_and_check(&b, 0, 2);

    /* Without threads the caller gets the failure. */
    b.options.workers = 0;
    b.options.end_step = 3;
    CHECK_OK(lsi_loader_create(&b.options, &loader));
    CHECK_FAILS(lsi_loader_fill(loader, 2), LS_ERR_DATA, "is bad");
    lsi_loader_destroy(&loader);
    bench_close(&b);
}

static void destroy_accepts_null(void **state)
{
    lsi_loader *loader = NULL;
    (void)state;

    lsi_loader_destroy(&loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shares_depend_on_the_step_alone, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(a_slow_reader_changes_nothing, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(without_slots_nothing_is_touched, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(destroy_at_any_moment, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(destroy_after_an_abort, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(a_bad_sample_is_reported_on_its_thread, data_file_setup, data_file_teardown),
        cmocka_unit_test_setup_teardown(destroy_accepts_null, data_file_setup, data_file_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
