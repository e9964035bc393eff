#include "train/host.h"

#include "base/clock.h"
#include "base/log.h"
#include "job/stop.h"

/* comm.overlap = auto: one more step's time, as all ranks know it. */
static void weigh_overlap(ls_trainer *t)
{
    const double *header = t->last.header;
    double with, without;
    int64_t step = (int64_t)header[LS_EXCHANGE_TIMED_STEP] - 1 - t->first_step;

    if (step < 0 || !lsi_overlap_take(&t->overlap, step, header[LS_EXCHANGE_STEP_SECONDS])) {
        return;
    }
    lsi_overlap_medians(&t->overlap, &with, &without);
    lsi_log_info("overlap    %s: a step takes %.4g ms with it, %.4g ms without", t->overlap.on ? "on" : "off",
                 with * 1e3, without * 1e3);
}

static ls_status check_result(ls_trainer *t)
{
    int64_t step = t->n_done;
    const ls_step_state *state = &t->last.state;

    LS_REQUIRE(state->attempted == step, LS_ERR_INTERNAL, "step %lld left the result of step %lld", (long long)step,
               (long long)state->attempted);
    LS_REQUIRE(t->last.runs_wrong == 0, LS_ERR_INTERNAL, "%.0f slots of step %lld did not run exactly once",
               t->last.runs_wrong, (long long)step);
    if (state->in_a_row < t->rt->config->loss_scale.give_up_after) {
        return LS_OK;
    }
    /* Every rank reads the same state and gets here in the same step. */
    return lsi_runtime_agree(
        t->rt, LS_FAIL(LS_ERR_NUMERIC,
                       "step %lld: the gradient was not finite %lld times in a row (loss_scale.give_up_after) at loss "
                       "scale %g; lower optimizer.lr, or look for bad values in the data",
                       (long long)step, (long long)state->in_a_row, (double)t->last.scale_used));
}

ls_status lsi_host_collect(ls_trainer *trainer)
{
    ls_trainer *t = trainer;
    int64_t step = t->n_done;

    if (t->hooks.left_out != LSI_WAIT_HOST) {
        LS_TRY(t->backend->event_sync(t->committed[step & 1]));
    }
    t->last = t->control->result[step & 1];
    lsi_timeline_read(&t->timeline, step, &t->times, t->trace);
    t->n_done++;
    weigh_overlap(t);
    return t->hooks.left_out == LSI_WAIT_HOST ? LS_OK : check_result(t);
}

void lsi_trainer_fill_info(const ls_trainer *trainer, ls_step_info *info)
{
    const ls_trainer *t = trainer;
    const ls_step_state *state = &t->last.state;

    *info = (ls_step_info){
        .struct_size = sizeof *info,
        .step = t->n_done,
        .applied = state->applied,
        .skipped = state->skip != 0,
        .loss = state->loss,
        .grad_norm = state->grad_norm,
        .learning_rate = (double)state->learning_rate,
        .loss_scale = (double)t->last.scale_used,
        .step_seconds = t->times.step,
        .data_wait_seconds = t->times.data_wait,
        .compute_seconds = t->times.compute,
        .comm_seconds = t->times.comm,
        .comm_exposed_seconds = t->times.comm_exposed,
    };
}

int lsi_trainer_stop_reason(const ls_trainer *trainer)
{
    return (int)trainer->last.header[LS_EXCHANGE_STOP];
}

/* train.max_time: one rank's clock decides for all. */
static void watch_time(const ls_trainer *t)
{
    double most = t->rt->config->train.max_time;

    if (most > 0 && t->rt->job->rank == 0 && lsi_clock_seconds() - t->rt->opened_seconds > most) {
        lsi_stop_request(LSI_STOP_TIME);
    }
}

void lsi_host_hand_over(ls_trainer *trainer)
{
    ls_trainer *t = trainer;
    int parity = (int)(t->n_queued & 1);
    lsi_rates *rates = &t->control->rates[parity];
    double *header = t->control->header[parity];

    rates->base = (double)t->last.state.applied;
    for (int i = 0; i < (int)(sizeof rates->rate / sizeof rates->rate[0]); i++) {
        rates->rate[i] = t->schedule(t->schedule_argument, t->last.state.applied + i);
    }
    header[LS_EXCHANGE_STEP_SECONDS] = t->times.step;
    header[LS_EXCHANGE_DATA_WAIT] = t->times.data_wait;
    header[LS_EXCHANGE_COMPUTE] = t->times.compute;
    header[LS_EXCHANGE_COMM] = t->times.comm;
    header[LS_EXCHANGE_COMM_EXPOSED] = t->times.comm_exposed;
    header[LS_EXCHANGE_TIMED_STEP] = (double)t->n_done;
    watch_time(t);
    header[LS_EXCHANGE_STOP] = (double)lsi_stop_requested();
    header[LS_EXCHANGE_SAVING] = (double)t->saving;
}
