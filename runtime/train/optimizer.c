#include "train/optimizer.h"

#include <string.h>

#include "kernels/ops.h"

static bool is_adamw(const ls_config *config)
{
    return strcmp(config->optimizer.kind, "adamw") == 0;
}

int lsi_optimizer_moments(const ls_config *config)
{
    return is_adamw(config) ? 2 : 1;
}

static ls_status update_run(const ls_config *config, const lsi_optimizer_memory *memory, ls_step_state *state,
                            ls_stream *stream, int group, int64_t first, int64_t count)
{
    double decay = group == LSI_GROUP_DECAY ? config->optimizer.weight_decay : 0;
    ls_view g = ls_view_make((void *)(uintptr_t)(memory->gradients + first), count, LS_F32);
    ls_view w = ls_view_make(memory->weights + first, count, LS_F32);
    ls_view m = ls_view_make(memory->moment[0] + first, count, LS_F32);

    if (is_adamw(config)) {
        return lsi_adamw(stream, &(lsi_adamw_args){
                                     .g = g,
                                     .w = w,
                                     .m = m,
                                     .v = ls_view_make(memory->moment[1] + first, count, LS_F32),
                                     .state = state,
                                     .beta1 = config->optimizer.beta1,
                                     .beta2 = config->optimizer.beta2,
                                     .eps = config->optimizer.eps,
                                     .weight_decay = decay,
                                 });
    }
    return lsi_sgd(stream, &(lsi_sgd_args){
                               .g = g,
                               .w = w,
                               .momentum = m,
                               .state = state,
                               .factor = config->optimizer.momentum,
                               .weight_decay = decay,
                           });
}

ls_status lsi_optimizer_update(const ls_config *config, const lsi_param_table *table,
                               const lsi_optimizer_memory *memory, ls_step_state *state, ls_stream *stream,
                               int64_t first, int64_t count)
{
    int64_t end = first + count;

    for (int i = 0; i < table->n;) {
        int group = table->param[i].group;
        int64_t from = table->param[i].offset, to;

        /* The gap behind a parameter is zero and stays zero, so a run may reach over it. */
        while (i < table->n && table->param[i].group == group) {
            i++;
        }
        to = i < table->n ? table->param[i].offset : table->n_elements;
        from = from > first ? from : first;
        to = to < end ? to : end;
        if (from < to) {
            LS_TRY(update_run(config, memory, state, stream, group, from, to - from));
        }
    }
    return LS_OK;
}
