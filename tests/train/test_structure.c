/* RUN: timeout=120 */
/* What a step queues, and in which order: the real trainer on a backend that only writes down what is queued, as one
 * rank of a job that does not exist. "Before" means two things here: earlier in the queue, and ordered by the events
 * that the step records and awaits. */
#include "support/null_order.h"
#include "support/null_transport.h"
#include "support/test.h"

#include "base/memory.h"
#include "data/datasets.h"
#include "graph/compile.h"
#include "kernels/ops.h"
#include "models/models.h"
#include "train/precision.h"
#include "train/trainer.h"

#include <stdio.h>
#include <string.h>

enum { N_STEPS = 3, MAX_SETS = 32, SET_BYTES = 64 };

static lsi_job *job;

/* ---- the cases ------------------------------------------------------------------------------------------------- */

typedef struct structure_case {
    const char *model;          /* mlp, gpt, untied */
    int world, rank;
    int slots, lanes;           /* of each rank */
    int zero;
    bool overlap;
    long bucket_bytes;
} structure_case;

typedef struct structure {
    structure_case how;
    ls_runtime rt;
    ls_dataset *data, *val;
    lsi_model model;
    ls_trainer *t;
    size_t made;                /* by the null backend, when the first step began */
    long begin[N_STEPS + 1];    /* entry that begins the step */
    null_order order;
    size_t live;                /* blocks of counted memory before it was opened */
} structure;

static void set(char sets[MAX_SETS][SET_BYTES], int *n, const char *key, long value)
{
    snprintf(sets[(*n)++], SET_BYTES, "%s=%ld", key, value);
}

static void load_config(structure *s)
{
    static const char *const fixed[] = {"data.kind=synthetic", "data.samples=64", "data.features=64",
                                        "data.classes=10",     "data.workers=0",  "train.micro_batch=1",
                                        "device.graphs=off",   "comm.timeout=10s"};
    static const char *const mlp[] = {"model.kind=mlp", "model.hidden=256,192,128"};
    static const char *const gpt[] = {"model.kind=gpt", "model.layers=2",   "model.heads=2",
                                      "model.width=64", "model.context=16", "model.vocab=300"};
    static char sets[MAX_SETS][SET_BYTES];
    const char *all[MAX_SETS];
    const structure_case *how = &s->how;
    bool is_mlp = strcmp(how->model, "mlp") == 0;
    int n = 0;

    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        snprintf(sets[n++], SET_BYTES, "%s", fixed[i]);
    }
    for (size_t i = 0; i < (is_mlp ? sizeof mlp / sizeof mlp[0] : sizeof gpt / sizeof gpt[0]); i++) {
        snprintf(sets[n++], SET_BYTES, "%s", is_mlp ? mlp[i] : gpt[i]);
    }
    if (!is_mlp) {
        set(sets, &n, "model.tied", strcmp(how->model, "untied") != 0);
    }
    set(sets, &n, "train.steps", N_STEPS);
    set(sets, &n, "train.global_batch", (long)how->slots * how->world);
    set(sets, &n, "train.lanes", (long)how->lanes * how->world);
    set(sets, &n, "comm.zero", how->zero);
    set(sets, &n, "comm.bucket_bytes", how->bucket_bytes);
    snprintf(sets[n++], SET_BYTES, "comm.overlap=%s", how->overlap ? "true" : "false");
    for (int i = 0; i < n; i++) {
        all[i] = sets[i];
    }
    CHECK_OK(lsi_config_load(NULL, all, n, &s->rt.loaded));
    s->rt.config = lsi_config_values(s->rt.loaded);
}

/* A runtime made by hand: what lsi_runtime_open makes, with this backend, this transport, and a claimed world. */
static void open_trainer(structure *s)
{
    static int nodes[8];
    const lsi_job claimed = {.rank = s->how.rank, .world = s->how.world, .node = nodes};
    ls_device_options options = {.struct_size = sizeof options, .n_threads = 1};
    ls_runtime *rt = &s->rt;

    s->live = lsi_memory_live_blocks();
    load_config(s);
    rt->job = job;
    rt->backend = &null_backend;
    rt->affinity.threads = 1;
    CHECK_OK(null_backend.open(&options, &rt->device));
    CHECK_OK(lsi_geometry_make(rt->config, &claimed, &rt->geometry));
    CHECK_OK(null_transport_open(rt->device, s->how.rank, s->how.world, rt->geometry.n_lanes, &rt->comm));
    CHECK_OK(lsi_datasets_open(rt->config, &s->data, &s->val));
    CHECK_OK(lsi_model_build(rt->config, s->data, &s->model));
    CHECK_OK(lsi_trainer_create(rt, s->model.graph, s->model.loss, s->data, &(lsi_trainer_options){0}, &s->t));
}

static void run_steps(structure *s)
{
    ls_trainer *t = s->t;
    ls_step_info info;
    ls_slot *slot;

    s->made = null_made(s->rt.device);
    for (int step = 0; step < N_STEPS; step++) {
        s->begin[step] = (long)null_log_count(s->rt.device);
        CHECK_OK(ls_trainer_begin(t));
        while (ls_trainer_next_slot(t, &slot)) {
            CHECK_OK(ls_trainer_forward(t, slot));
            CHECK_OK(ls_trainer_backward(t, slot));
        }
        CHECK_OK(ls_trainer_end(t, &info));
        t->control->result[step & 1].state.attempted = step + 1;    /* what the commit op would have left */
    }
    s->begin[N_STEPS] = (long)null_log_count(s->rt.device);
}

static void close_trainer(structure *s)
{
    ls_runtime *rt = &s->rt;

    ls_trainer_destroy(&s->t);
    ls_graph_destroy(&s->model.graph);
    lsi_dataset_close(&s->val);
    lsi_dataset_close(&s->data);
    rt->comm->transport->close(rt->comm);
    assert_int_equal(null_alive(rt->device), 0);
    rt->backend->close(rt->device);
    lsi_geometry_free(&rt->geometry);
    lsi_config_destroy(&rt->loaded);
    assert_int_equal(lsi_memory_live_blocks(), s->live);
}

/* ---- what the log says ----------------------------------------------------------------------------------------- */

static const null_entry *entry_at(const structure *s, long i)
{
    return null_log_entry(s->rt.device, (size_t)i);
}

static bool is_on(const structure *s, long i, const char *stream)
{
    return strcmp(entry_at(s, i)->stream, stream) == 0;
}

/* An op of the library on the compute stream. */
static bool is_compute_op(const structure *s, long i)
{
    return entry_at(s, i)->kind == NULL_OP && is_on(s, i, "compute");
}

/* Whether the step's streams and events order entry `late` behind entry `early`. */
static bool is_ordered(const structure *s, long early, long late)
{
    return null_order_holds(&s->order, early, late);
}

/* The one launch of this collective in a step. */
static long launch_of(const structure *s, int step, const ls_collective *collective)
{
    long found = NULL_NONE;

    for (long i = s->begin[step]; i < s->begin[step + 1]; i++) {
        const null_collective *launched = null_transport_launched(entry_at(s, i));

        if (launched != NULL && &launched->head == collective) {
            assert_int_equal(found, NULL_NONE);
            found = i;
        }
    }
    assert_int_not_equal(found, NULL_NONE);
    return found;
}

/* ---- what ops touch -------------------------------------------------------------------------------------------- */

static bool meets(ls_view view, const void *base, size_t element_bytes, int64_t first, int64_t count)
{
    uintptr_t at = (uintptr_t)view.data, from = (uintptr_t)base + (uintptr_t)first * element_bytes;

    return view.count > 0 && at < from + (uintptr_t)count * element_bytes &&
           from < at + (uintptr_t)view.count * ls_dtype_bytes(view.dtype);
}

static ls_view view_at(const null_entry *entry, int i)
{
    ls_view view;

    memcpy(&view, entry->arguments + (size_t)i * sizeof view, sizeof view);
    return view;
}

/* Elements [first, first + count) of the flat index. */
static bool reads_weights(const structure *s, long i, int64_t first, int64_t count)
{
    const null_entry *entry = entry_at(s, i);
    bool reads = false;

    for (int v = 0; v < entry->op->n_in; v++) {
        reads = reads || meets(view_at(entry, v), s->t->layer_weights.data, s->t->sizes.element_bytes, first, count);
    }
    return reads;
}

static bool writes_gradients(const structure *s, long i, int64_t first, int64_t count)
{
    const null_entry *entry = entry_at(s, i);
    const ls_op *op = entry->op;
    bool writes = false;

    for (int v = op->n_in; v < op->n_in + op->n_out + op->n_acc; v++) {
        for (int b = 0; b < s->t->lanes.n_buffers; b++) {
            writes = writes || meets(view_at(entry, v), s->t->gradient[b].data, sizeof(float), first, count);
        }
    }
    return writes;
}

static bool is_lane_add(const structure *s, long i)
{
    return entry_at(s, i)->op == &lsi_op_add_into && writes_gradients(s, i, 0, s->t->sizes.n_elements);
}

/* A layer's op that uses the parameter: reads it or writes its gradient. */
static bool uses_param(const structure *s, long i, int param)
{
    const lsi_param *p = &s->t->params->param[param];

    return reads_weights(s, i, p->offset, p->padded_count) || writes_gradients(s, i, p->offset, p->padded_count);
}

static bool layer_uses(const structure *s, const lsi_step *layer, long i)
{
    bool uses = false;

    for (int k = 0; k < layer->node->layer.n_params; k++) {
        uses = uses || uses_param(s, i, layer->node->param[k]);
    }
    return uses;
}

/* Both use parameters of one layer. */
static bool are_of_one_layer(const structure *s, long i, long j)
{
    bool one = false;

    for (int p = 0; p < s->t->plan->n_steps; p++) {
        one = one || (layer_uses(s, &s->t->plan->step[p], i) && layer_uses(s, &s->t->plan->step[p], j));
    }
    return one;
}

/* The op belongs to a layer with a parameter in the bucket. */
static bool layer_is_in(const structure *s, long i, const lsi_bucket *bucket)
{
    bool in = false;

    for (int p = 0; p < s->t->plan->n_steps; p++) {
        const lsi_step *layer = &s->t->plan->step[p];
        bool uses = layer_uses(s, layer, i);

        for (int k = 0; k < layer->node->layer.n_params; k++) {
            const lsi_param *param = &s->t->params->param[layer->node->param[k]];

            in = in || (uses && lsi_param_reaches(param, bucket->first, bucket->count));
        }
    }
    return in;
}

/* Of a step: the first op that reads the bucket's weights. */
static long first_reader(const structure *s, int step, const lsi_bucket *bucket)
{
    long i = s->begin[step];

    while (!is_compute_op(s, i) || !reads_weights(s, i, bucket->first, bucket->count)) {
        assert_true(++i < s->begin[step + 1]);
    }
    return i;
}

/* Of a step: the last op of a layer that writes gradients of the bucket. */
static long last_writer(const structure *s, int step, int64_t first, int64_t count)
{
    long i = s->begin[step + 1] - 1;

    while (!is_compute_op(s, i) || is_lane_add(s, i) || !writes_gradients(s, i, first, count)) {
        assert_true(--i >= s->begin[step]);
    }
    return i;
}

/* ---- the laws -------------------------------------------------------------------------------------------------- */

typedef void (*law)(const structure *s, int step);

/* However many slots there are; the chunks alone under ZeRO-1, everything otherwise. */
static void one_reduction_per_bucket_and_one_exchange(const structure *s, int step)
{
    const ls_trainer *t = s->t;
    int n_of[4] = {0};
    long exchange = launch_of(s, step, t->exchange_collective);

    for (long i = s->begin[step]; i < s->begin[step + 1]; i++) {
        const null_collective *launched = null_transport_launched(entry_at(s, i));

        if (launched != NULL) {
            assert_true(is_on(s, i, "comm"));
            n_of[launched->kind]++;
        }
        if (entry_at(s, i)->kind == NULL_OP && entry_at(s, i)->op == &lsi_op_commit) {
            assert_true(is_ordered(s, exchange, i));
        }
    }
    assert_int_equal(n_of[NULL_REDUCE], t->sizes.n_buckets);
    assert_int_equal(n_of[NULL_GATHER], s->how.zero == 1 ? t->sizes.n_buckets : 0);
    assert_int_equal(n_of[NULL_EXCHANGE], 1);
    assert_int_equal(n_of[NULL_BROADCAST], 0);
    for (int k = 0; k < t->sizes.n_buckets; k++) {
        long reduce = launch_of(s, step, t->bucket[k].reduce);
        const null_collective *launched = null_transport_launched(entry_at(s, reduce));

        assert_ptr_equal(launched->data, lsi_trainer_total(t) + t->bucket[k].first);
        assert_int_equal(launched->n, t->bucket[k].count);
        assert_int_equal(launched->gather, s->how.zero == 0);
        assert_true(is_ordered(s, reduce, exchange));
    }
}

/* Of all slots: a lane's sums are formed before, too. */
static void a_reduction_follows_all_gradients_of_its_bucket(const structure *s, int step)
{
    for (int k = 0; k < s->t->sizes.n_buckets; k++) {
        const lsi_bucket *bucket = &s->t->bucket[k];
        long reduce = launch_of(s, step, bucket->reduce);
        int n_writes = 0;

        for (long i = s->begin[step]; i < s->begin[step + 1]; i++) {
            if (is_compute_op(s, i) && writes_gradients(s, i, bucket->first, bucket->count)) {
                assert_true(is_ordered(s, i, reduce));
                n_writes++;
            }
        }
        assert_true(n_writes >= s->how.slots);
    }
}

/* Right behind the layer that writes the bucket's last gradient, so before the backward of the layer below. */
static void with_overlap_a_reduction_comes_before_the_layer_below(const structure *s, int step)
{
    const ls_trainer *t = s->t;
    long end = last_writer(s, step, 0, t->sizes.n_elements);
    int n_hidden = 0;

    for (int k = 0; k < t->sizes.n_buckets; k++) {
        long reduce = launch_of(s, step, t->bucket[k].reduce);
        long last = last_writer(s, step, t->bucket[k].first, t->bucket[k].count);

        assert_true(last < reduce);
        for (long i = last + 1; i < reduce; i++) {
            assert_true(!is_compute_op(s, i) || is_lane_add(s, i) || are_of_one_layer(s, last, i));
        }
        n_hidden += reduce < end;
    }
    /* All but those of the lowest layer; a single bucket has nothing to hide behind. */
    assert_true(n_hidden > 0 || t->sizes.n_buckets == 1);
}

static void without_overlap_all_reductions_come_after_the_backward(const structure *s, int step)
{
    long end = s->begin[step + 1];

    for (int k = 0; k < s->t->sizes.n_buckets; k++) {
        long reduce = launch_of(s, step, s->t->bucket[k].reduce);

        end = reduce < end ? reduce : end;
    }
    for (long i = end; i < s->begin[step + 1] && entry_at(s, i)->op != &lsi_op_commit; i++) {
        assert_true(!is_compute_op(s, i) || is_lane_add(s, i));
    }
}

/* Before any op of the step, in the order in which the forward needs them, and behind the update of the step before. */
static void gathers_are_queued_where_the_step_begins(const structure *s, int step)
{
    long update = s->begin[step];

    do {
        update--;
    } while (!is_on(s, update, "compute"));
    for (int k = 0; k < s->t->sizes.n_buckets; k++) {
        long gather = launch_of(s, step, s->t->bucket[k].gather), reader = first_reader(s, step, &s->t->bucket[k]);

        assert_true(is_ordered(s, update, gather));
        for (long i = s->begin[step]; i < gather; i++) {
            assert_false(is_compute_op(s, i));
        }
        for (int other = 0; other < s->t->sizes.n_buckets; other++) {
            if (first_reader(s, step, &s->t->bucket[other]) < reader) {
                assert_true(launch_of(s, step, s->t->bucket[other].gather) < gather);
            }
        }
    }
}

/* The one wait of compute for what was recorded right behind the gather. */
static long wait_for_gather(const structure *s, int step, const lsi_bucket *bucket)
{
    long gather = launch_of(s, step, bucket->gather), record = gather, found = NULL_NONE;

    do {
        record++;
        assert_true(record < s->begin[step + 1] && null_transport_launched(entry_at(s, record)) == NULL);
    } while (entry_at(s, record)->kind != NULL_RECORD || !is_on(s, record, "comm"));
    for (long i = record; i < s->begin[step + 1]; i++) {
        if (entry_at(s, i)->kind == NULL_WAIT && is_on(s, i, "compute") &&
            null_order_record(s->rt.device, entry_at(s, i)->object, i) == record) {
            assert_int_equal(found, NULL_NONE);
            found = i;
        }
    }
    assert_int_not_equal(found, NULL_NONE);
    return found;
}

static void a_layer_awaits_its_weights_right_before_it_begins(const structure *s, int step)
{
    for (int k = 0; k < s->t->sizes.n_buckets; k++) {
        const lsi_bucket *bucket = &s->t->bucket[k];
        long wait = wait_for_gather(s, step, bucket), reader = first_reader(s, step, bucket), next = wait + 1;

        assert_true(wait < reader);
        assert_true(is_ordered(s, launch_of(s, step, bucket->gather), reader));
        while (!is_compute_op(s, next)) {
            next++;
        }
        assert_true(layer_is_in(s, next, bucket));
    }
}

/* ---- every law in every case ----------------------------------------------------------------------------------- */

static void check_case(const structure_case *how, law holds)
{
    structure s = {.how = *how};

    open_trainer(&s);
    run_steps(&s);
    null_order_make(s.rt.device, &s.order);
    for (int step = 0; step < N_STEPS; step++) {
        holds(&s, step);
    }
    null_order_free(&s.order);
    close_trainer(&s);
}

static void check(law holds, int zero, bool overlap)
{
    static const char *const models[] = {"mlp", "gpt", "untied"};
    static const struct {
        int world, rank, slots, lanes;
    } shapes[] = {{2, 0, 1, 1}, {2, 1, 3, 1}, {2, 0, 3, 3}, {2, 1, 8, 8}, {4, 0, 1, 1}, {4, 3, 3, 2}, {4, 2, 8, 1}};
    static const long buckets[] = {64 << 10, 192 << 10};

    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            for (size_t b = 0; b < sizeof buckets / sizeof buckets[0]; b++) {
                check_case(
                    &(structure_case){
                        .model = models[m],
                        .world = shapes[i].world,
                        .rank = shapes[i].rank,
                        .slots = shapes[i].slots,
                        .lanes = shapes[i].lanes,
                        .zero = zero,
                        .overlap = overlap,
                        .bucket_bytes = buckets[b],
                    },
                    holds);
            }
        }
    }
}

static void one_reduction_per_bucket_and_step(void **state)
{
    (void)state;
    check(one_reduction_per_bucket_and_one_exchange, 1, true);
    check(one_reduction_per_bucket_and_one_exchange, 1, false);
    check(one_reduction_per_bucket_and_one_exchange, 0, true);
}

static void reductions_follow_their_gradients(void **state)
{
    (void)state;
    check(a_reduction_follows_all_gradients_of_its_bucket, 1, true);
    check(a_reduction_follows_all_gradients_of_its_bucket, 1, false);
}

static void reductions_overlap_the_backward(void **state)
{
    (void)state;
    check(with_overlap_a_reduction_comes_before_the_layer_below, 1, true);
    check(with_overlap_a_reduction_comes_before_the_layer_below, 0, true);
}

static void reductions_come_last_without_overlap(void **state)
{
    (void)state;
    check(without_overlap_all_reductions_come_after_the_backward, 1, false);
}

static void gathers_begin_the_step(void **state)
{
    (void)state;
    check(gathers_are_queued_where_the_step_begins, 1, true);
}

static void weights_are_awaited_layer_by_layer(void **state)
{
    (void)state;
    check(a_layer_awaits_its_weights_right_before_it_begins, 1, true);
    check(a_layer_awaits_its_weights_right_before_it_begins, 1, false);
}

/* The trap lies armed from before the first step until behind the last: an allocation would have sprung it. */
static void steps_allocate_nothing(void **state)
{
    static const char *const models[] = {"mlp", "gpt"};
    void *memory;

    (void)state;
    for (int i = 0; i < 4; i++) {
        structure s = {
            .how = {models[i / 2], 2, .slots = 3, .lanes = 3, .zero = 1, .overlap = i % 2, .bucket_bytes = 64 << 10},
        };

        open_trainer(&s);
        lsi_memory_fail_at(1);
        run_steps(&s);
        CHECK_FAILS(lsi_memory_alloc(1, "the trap", &memory), LS_ERR_MEMORY, "the trap");
        assert_int_equal(null_made(s.rt.device), s.made);
        close_trainer(&s);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_reduction_per_bucket_and_step),
        cmocka_unit_test(reductions_follow_their_gradients),
        cmocka_unit_test(reductions_overlap_the_backward),
        cmocka_unit_test(reductions_come_last_without_overlap),
        cmocka_unit_test(gathers_begin_the_step),
        cmocka_unit_test(weights_are_awaited_layer_by_layer),
        cmocka_unit_test(steps_allocate_nothing),
    };

    if (lsi_job_open("test_structure", &argc, &argv, &job) != LS_OK) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lsi_job_close(&job);
    return failed;
}
