#include "train/memory.h"

#include "comm/registry.h"
#include "train/bucket.h"
#include "train/optimizer.h"
#include "train/trainer.h"

void lsi_sizes_make(const ls_runtime *runtime, const lsi_param_table *table, const ls_plan *train, const ls_plan *eval,
                    const ls_dataset *data, const lsi_lanes *lanes, const lsi_exchange *exchange, lsi_sizes *out)
{
    const ls_config *config = runtime->config;
    const lsi_geometry *geometry = &runtime->geometry;
    lsi_sizes s = {
        .n_elements = table->n_elements,
        .n_buckets = lsi_bucket_number(table->n_elements, config->comm.bucket_bytes),
        .gradient_copies = lanes->n_buffers,
        .moments = lsi_optimizer_moments(config),
        .n_local = lsi_geometry_n_local(geometry, geometry->rank),
        .input_bytes = (size_t)(geometry->micro_batch * ls_shape_count(&data->input_shape)) *
                       ls_dtype_bytes(data->input_dtype),
        .target_bytes = (size_t)(geometry->micro_batch * data->target_count) * sizeof(int32_t),
        .activation_bytes = lsi_plan_activation_bytes(train),
    };
    int64_t first;

    lsi_bucket_range(s.n_elements, config->comm.bucket_bytes, 0, &first, &s.largest_bucket);
    if (eval != NULL && lsi_plan_activation_bytes(eval) > s.activation_bytes) {
        s.activation_bytes = lsi_plan_activation_bytes(eval);
    }
    size_t flat = (size_t)s.n_elements * sizeof(float), slot = s.input_bytes + s.target_bytes;

    s.bytes[LSI_MEMORY_WEIGHTS] = flat;
    s.bytes[LSI_MEMORY_GRADIENTS] = (size_t)s.gradient_copies * flat;
    s.bytes[LSI_MEMORY_OPTIMIZER] = (size_t)s.moments * flat;
    s.bytes[LSI_MEMORY_ACTIVATIONS] = s.activation_bytes;
    /* Two slots on the device, two step shares in pinned memory; evaluation adds two pinned slots. */
    s.bytes[LSI_MEMORY_BATCH] = 2 * slot + 2 * (size_t)s.n_local * slot + (eval != NULL ? 2 * slot : 0);
    s.bytes[LSI_MEMORY_COMM] = (size_t)lsi_comm_staging_bytes(
        &(lsi_comm_options){
            .transport = config->comm.transport,
            .job = runtime->job,
            .n_lanes = geometry->n_lanes,
            .share = geometry->share,
        },
        s.largest_bucket);
    s.bytes[LSI_MEMORY_CONTROL] = (size_t)(exchange->stride * (geometry->world + 1)) * sizeof(double) +
                                  (size_t)(exchange->n_blocks + exchange->n_slots) * sizeof(int32_t) +
                                  sizeof(ls_step_state) + sizeof(lsi_control);
    *out = s;
}
