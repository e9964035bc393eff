#include "loop/progress.h"

#include "base/log.h"
#include "base/number.h"
#include "base/text.h"

void lsi_progress_open(lsi_progress *progress, const ls_trainer *trainer, bool tokens)
{
    const ls_config *config = trainer->rt->config;

    *progress = (lsi_progress){
        .first_step = trainer->first_step,
        .seen = trainer->first_step,
        .end_step = trainer->end_step,
        .every = config->train.log_every,
        .per_step = config->train.global_batch * (tokens ? trainer->data->target_count : 1),
        .unit = tokens ? "tokens" : "samples",
        .work = &trainer->work,
    };
}

void lsi_progress_step(lsi_progress *progress, const ls_step_info *info)
{
    lsi_text behind = {0};

    if (info->step <= progress->seen) {     /* settling describes the last step again */
        return;
    }
    progress->seen = info->step;
    if (info->step > progress->first_step + 2 && info->step_seconds > 0) {
        progress->recent_seconds = progress->recent_seconds == 0
                                       ? info->step_seconds
                                       : 0.95 * progress->recent_seconds + 0.05 * info->step_seconds;
    }
    bool first = info->step == progress->first_step + 1, last = info->step == progress->end_step;
    if (info->step % progress->every != 0 && !first && !last) {
        return;
    }
    double seconds = progress->recent_seconds > 0 ? progress->recent_seconds : info->step_seconds;
    /* The first step's time is the start-up's too. */
    if (progress->work->product_flops > 0 && progress->recent_seconds > 0) {
        lsi_text_append(&behind, "  mfu %.0f%%", 100 * lsi_work_utilization(progress->work, seconds));
    }
    if (info->step < progress->end_step && progress->recent_seconds > 0) {
        lsi_text_append(&behind, "  ");
        lsi_number_append_seconds_human(&behind, seconds * (double)(progress->end_step - info->step));
        lsi_text_append(&behind, " left");
    }
    lsi_log_progress("step %lld/%lld  loss %.4f  norm %.3f  lr %.3g  %.0f %s/s%s", (long long)info->step,
                     (long long)progress->end_step, info->loss, info->grad_norm, info->learning_rate,
                     seconds > 0 ? (double)progress->per_step / seconds : 0, progress->unit,
                     behind.data != NULL ? behind.data : "");
    lsi_text_free(&behind);
}
