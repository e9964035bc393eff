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

/* Elements [at, at + count) of the run, all of one group. */
static ls_status update_stretch(const ls_config *config, const lsi_optimizer_run *run, ls_step_state *state,
                                ls_stream *stream, int group, int64_t at, int64_t count)
{
    double decay = group == LSI_GROUP_DECAY ? config->optimizer.weight_decay : 0;
    ls_view g = ls_view_make((void *)(uintptr_t)(run->gradients + at), count, LS_F32);
    ls_view w = ls_view_make(run->weights + at, count, LS_F32);
    ls_view m = ls_view_make(run->moment[0] + at, count, LS_F32);
    ls_view copy = {0};

    if (run->copy != NULL) {
        copy = ls_view_make(run->copy + at, count, run->copy_type);
    }
    if (is_adamw(config)) {
        return lsi_adamw(stream, &(lsi_adamw_args){
                                     .g = g,
                                     .copy = copy,
                                     .w = w,
                                     .m = m,
                                     .v = ls_view_make(run->moment[1] + at, count, LS_F32),
                                     .state = state,
                                     .beta1 = config->optimizer.beta1,
                                     .beta2 = config->optimizer.beta2,
                                     .eps = config->optimizer.eps,
                                     .weight_decay = decay,
                                 });
    }
    return lsi_sgd(stream, &(lsi_sgd_args){
                               .g = g,
                               .copy = copy,
                               .w = w,
                               .momentum = m,
                               .state = state,
                               .factor = config->optimizer.momentum,
                               .weight_decay = decay,
                           });
}

ls_status lsi_optimizer_update(const ls_config *config, const lsi_param_table *table, const lsi_optimizer_run *run,
                               ls_step_state *state, ls_stream *stream)
{
    int64_t end = run->first + run->count;

    for (int i = 0; i < table->n;) {
        int group = table->param[i].group;
        int64_t from = table->param[i].offset, to;

        /* The gap behind a parameter is zero and stays zero, so a stretch may reach over it. */
        while (i < table->n && table->param[i].group == group) {
            i++;
        }
        to = i < table->n ? table->param[i].offset : table->n_elements;
        from = from > run->first ? from : run->first;
        to = to < end ? to : end;
        if (from < to) {
            LS_TRY(update_stretch(config, run, state, stream, group, from - run->first, to - from));
        }
    }
    return LS_OK;
}
