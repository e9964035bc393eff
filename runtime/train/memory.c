#include "train/memory.h"

#include <stddef.h>
#include <string.h>

#include "comm/registry.h"
#include "train/bucket.h"
#include "train/optimizer.h"
#include "train/precision.h"
#include "train/trainer.h"

bool lsi_sizes_is_sharded(const ls_config *config, int world)
{
    return strcmp(config->comm.zero, "auto") == 0 ? world > 1 : strcmp(config->comm.zero, "1") == 0;
}

/* ---- the list ------------------------------------------------------------------------------------------------ */

typedef struct list {
    lsi_memory_part *part;
    int n;
} list;

static void add(list *l, size_t buffer_at, ls_memory kind, lsi_memory_class c, size_t bytes)
{
    l->part[l->n++] = (lsi_memory_part){.buffer_at = buffer_at, .kind = kind, .c = c, .bytes = bytes};
}

static void add_comm(list *l, size_t buffer_at, lsi_memory_class c, size_t bytes)
{
    l->part[l->n++] = (lsi_memory_part){.buffer_at = buffer_at, .from_transport = true, .c = c, .bytes = bytes};
}

#define BUFFER(member) offsetof(ls_trainer, member)
#define BUFFER_OF(array, i) (offsetof(ls_trainer, array) + (size_t)(i) * sizeof(lsi_buffer))

/* Two slots on the device, two step shares in pinned memory; evaluation adds two pinned slots. */
static void add_batches(list *l, const lsi_sizes *s)
{
    size_t n = (size_t)s->n_local;

    for (int i = 0; i < 2; i++) {
        add(l, BUFFER_OF(batch_input, i), LS_MEM_DEVICE, LSI_MEMORY_BATCH, s->input_bytes);
        add(l, BUFFER_OF(batch_targets, i), LS_MEM_DEVICE, LSI_MEMORY_BATCH, s->target_bytes);
        add(l, BUFFER_OF(share_input, i), LS_MEM_PINNED, LSI_MEMORY_BATCH, n * s->input_bytes);
        add(l, BUFFER_OF(share_targets, i), LS_MEM_PINNED, LSI_MEMORY_BATCH, n * s->target_bytes);
        if (s->evaluates) {
            add(l, BUFFER_OF(eval_input, i), LS_MEM_PINNED, LSI_MEMORY_BATCH, s->input_bytes);
            add(l, BUFFER_OF(eval_targets, i), LS_MEM_PINNED, LSI_MEMORY_BATCH, s->target_bytes);
        }
    }
}

int lsi_memory_parts(const lsi_sizes *sizes, lsi_memory_part out[LSI_MEMORY_MAX_PARTS])
{
    const lsi_sizes *s = sizes;
    size_t flat = (size_t)s->n_elements * sizeof(float), held = (size_t)s->n_held * sizeof(float);
    list l = {.part = out};

    add_comm(&l, BUFFER(layer_weights), LSI_MEMORY_WEIGHTS, (size_t)s->n_elements * s->element_bytes);
    if (s->mixed) {
        add(&l, BUFFER(masters), LS_MEM_DEVICE, LSI_MEMORY_WEIGHTS, held);
    }
    for (int i = 0; i < s->moments; i++) {
        add(&l, BUFFER_OF(moment, i), LS_MEM_DEVICE, LSI_MEMORY_OPTIMIZER, held);
    }
    for (int i = 0; i < s->gradient_copies; i++) {
        add_comm(&l, BUFFER_OF(gradient, i), LSI_MEMORY_GRADIENTS, flat);
    }
    add(&l, BUFFER(activations), LS_MEM_DEVICE, LSI_MEMORY_ACTIVATIONS, s->activation_bytes);
    add_batches(&l, s);
    for (int i = 0; s->snapshots && i <= s->moments; i++) {
        add(&l, BUFFER_OF(snapshot, i), LS_MEM_PINNED, LSI_MEMORY_SNAPSHOT, (size_t)s->n_owned * sizeof(float));
    }
    add(&l, BUFFER(state), LS_MEM_DEVICE, LSI_MEMORY_CONTROL, sizeof(ls_step_state));
    add(&l, BUFFER(control_memory), LS_MEM_PINNED, LSI_MEMORY_CONTROL, sizeof(lsi_control));
    add(&l, BUFFER(indices), LS_MEM_DEVICE, LSI_MEMORY_CONTROL, s->index_bytes);
    add_comm(&l, BUFFER(exchange_mine), LSI_MEMORY_CONTROL, s->exchange_bytes);
    add_comm(&l, BUFFER(exchange_all), LSI_MEMORY_CONTROL, s->exchange_bytes * (size_t)s->world);
    return l.n;
}

/* ---- sizes --------------------------------------------------------------------------------------------------- */

static int64_t owned_elements(const ls_runtime *runtime, int64_t n)
{
    int64_t bytes = runtime->config->comm.bucket_bytes, owned = 0;

    for (int i = 0; i < lsi_bucket_number(n, bytes); i++) {
        int64_t first, count;

        lsi_exchange_owned(runtime->comm, n, bytes, i, runtime->geometry.rank, &first, &count);
        owned += count;
    }
    return owned;
}

static void count(const ls_runtime *runtime, lsi_sizes *s, bool pinned, lsi_memory_class c, size_t bytes)
{
    s->bytes[c] += bytes;
    s->pool[pinned && !runtime->backend->host_memory ? LSI_MEMORY_SIDE_HOST : LSI_MEMORY_SIDE_DEVICE] += bytes;
}

static void add_up(const ls_runtime *runtime, lsi_sizes *s)
{
    const ls_config *config = runtime->config;
    const char *transport = runtime->comm->transport->name;
    lsi_memory_part part[LSI_MEMORY_MAX_PARTS];
    int n = lsi_memory_parts(s, part), n_streams = lsi_trainer_n_streams(s) + (s->poisons || s->traces);

    memset(s->bytes, 0, sizeof s->bytes);
    memset(s->pool, 0, sizeof s->pool);
    for (int i = 0; i < n; i++) {
        count(runtime, s, !part[i].from_transport && part[i].kind == LS_MEM_PINNED, part[i].c, part[i].bytes);
    }
    count(runtime, s, false, LSI_MEMORY_SCRATCH, (size_t)n_streams * runtime->backend->stream_bytes);
    size_t staging = (size_t)lsi_comm_staging_bytes(
        &(lsi_comm_options){
            .transport = transport,
            .job = runtime->job,
            .device = runtime->device,
            .n_lanes = runtime->geometry.n_lanes,
            .share = runtime->geometry.share,
            .fast = lsi_precision_is_fast(config),
            .wire = lsi_precision_wire(config),
        },
        s->largest_bucket, s->exchange_bytes);
    count(runtime, s, strcmp(transport, "mpi") == 0, LSI_MEMORY_COMM, staging);

    if (config->data.workers > 0) {
        s->ahead_bytes = (size_t)config->data.prefetch * (size_t)s->n_local * (s->input_bytes + s->target_bytes);
    }
    s->pool[runtime->backend->host_memory ? LSI_MEMORY_SIDE_DEVICE : LSI_MEMORY_SIDE_HOST] += s->ahead_bytes;
}

void lsi_sizes_make(const ls_runtime *runtime, const lsi_param_table *table, const ls_plan *train, const ls_plan *eval,
                    const ls_dataset *data, const lsi_lanes *lanes, const lsi_exchange *exchange, bool snapshots,
                    lsi_sizes *out)
{
    const ls_config *config = runtime->config;
    const lsi_geometry *geometry = &runtime->geometry;
    int64_t micro = geometry->micro_batch, first;
    lsi_sizes s = {
        .n_elements = table->n_elements,
        .n_buckets = lsi_bucket_number(table->n_elements, config->comm.bucket_bytes),
        .gradient_copies = lanes->n_buffers,
        .moments = lsi_optimizer_moments(config),
        .mixed = lsi_precision_is_mixed(config),
        .sharded = lsi_sizes_is_sharded(config, geometry->world),
        .n_owned = owned_elements(runtime, table->n_elements),
        .n_local = lsi_geometry_n_local(geometry, geometry->rank),
        .element_bytes = ls_dtype_bytes(lsi_precision_compute(config)),
        .input_bytes = (size_t)(micro * ls_shape_count(&data->input_shape)) * ls_dtype_bytes(data->input_dtype),
        .target_bytes = (size_t)(micro * data->target_count) * sizeof(int32_t),
        .activation_bytes = lsi_plan_activation_bytes(train),
        .exchange_bytes = (size_t)exchange->stride * sizeof(double),
        .index_bytes = (size_t)(exchange->n_blocks + exchange->n_slots) * sizeof(int32_t),
        .evaluates = eval != NULL,
        .snapshots = snapshots,
        .poisons = config->device.poison,
        .traces = config->log.trace[0] != '\0',
        .world = geometry->world,
    };

    s.n_held = s.sharded ? s.n_owned : s.n_elements;
    lsi_bucket_range(s.n_elements, config->comm.bucket_bytes, 0, &first, &s.largest_bucket);
    if (eval != NULL && lsi_plan_activation_bytes(eval) > s.activation_bytes) {
        s.activation_bytes = lsi_plan_activation_bytes(eval);
    }
    add_up(runtime, &s);
    *out = s;
}
