#include "train/recorder.h"

#include <string.h>

#include "base/failure.h"
#include "base/log.h"
#include "train/step.h"
#include "train/trainer.h"

/* What comm.overlap = auto measures begins where recordings do. */
_Static_assert((int)LSI_RECORDER_WARM_UP == (int)LSI_OVERLAP_WARM_UP, "the same first steps are left alone");

/* ---- whether steps are recorded ------------------------------------------------------------------------------- */

/* Under auto, for one rank. */
static bool is_glad(ls_trainer *t, ls_recordable answer, const char *why)
{
    lsi_recorder *r = &t->recorder;

    if (answer == LS_RECORD_IF_ASKED) {
        return false; /* the backend's rule, which the help of the key tells */
    }
    r->why = answer == LS_RECORD_NEVER ? why : t->rt->comm->transport->not_recorded;
    return r->why == NULL;
}

ls_status lsi_recorder_open(ls_trainer *trainer)
{
    ls_trainer *t = trainer;
    lsi_recorder *r = &t->recorder;
    const char *wish = t->rt->config->device.graphs, *why = NULL;
    ls_recordable answer = t->backend->recordable(t->device, &why);
    ls_status status = LS_OK;
    double unwilling;

    r->must = strcmp(wish, "on") == 0;
    if (r->must && answer == LS_RECORD_NEVER) {
        status = LS_FAIL(LS_ERR_CONFIG, "device.graphs = on: %s; use auto or off", why);
    }
    LS_TRY(lsi_runtime_agree(t->rt, status));
    unwilling = r->must || (strcmp(wish, "auto") == 0 && is_glad(t, answer, why)) ? 0 : 1;
    LS_TRY(lsi_job_max(t->rt->job, &unwilling, 1));
    r->records = unwilling == 0;
    return LS_OK;
}

/* ---- recording ------------------------------------------------------------------------------------------------ */

static void drop(ls_trainer *t, int parity)
{
    if (t->recorder.of[parity] != NULL) {
        t->backend->recording_destroy(t->recorder.of[parity]);
        t->recorder.of[parity] = NULL;
    }
}

void lsi_recorder_close(ls_trainer *trainer)
{
    drop(trainer, 0);
    drop(trainer, 1);
}

static ls_status capture(ls_trainer *t, ls_recording **out)
{
    lsi_failure failure;

    LS_TRY(t->backend->capture_begin(t->compute));
    t->recorder.capturing = true;
    lsi_ranges_push(t->ranges, "recording");
    ls_status status = lsi_step_queue(t);
    lsi_ranges_pop(t->ranges);
    t->recorder.capturing = false;
    if (status == LS_OK) {
        return t->backend->capture_end(t->compute, out);
    }
    /* Ends the capture; what it says of that is not the cause. */
    lsi_failure_take(&failure);
    if (t->backend->capture_end(t->compute, out) == LS_OK) {
        t->backend->recording_destroy(*out);
    }
    *out = NULL;
    return lsi_failure_adopt(&failure);
}

/* What the device will not record it may still run: so goes on who only wished for recordings. Other ranks need not
 * know, for the order of what is queued stays the same. */
static ls_status give_up(ls_trainer *t, ls_status status)
{
    lsi_failure cause;

    if (status != LS_ERR_DEVICE && status != LS_ERR_MEMORY) {
        return status;
    }
    lsi_failure_take(&cause);
    if (t->recorder.must) {
        return LS_FAIL(status, "device.graphs = on, but a step cannot be recorded: %s; use auto or off", cause.message);
    }
    lsi_log_warn("a step cannot be recorded, so each one is queued anew (device.graphs = off does not try): %s",
                 cause.message);
    t->recorder.records = false;
    lsi_recorder_close(t);
    return LS_OK;
}

ls_status lsi_recorder_step(ls_trainer *trainer, ls_recording **out)
{
    ls_trainer *t = trainer;
    lsi_recorder *r = &t->recorder;
    int64_t step = t->n_queued - t->first_step;
    int parity = (int)(t->n_queued & 1);
    bool overlaps = lsi_overlap_of_step(&t->overlap, step);

    *out = NULL;
    if (!r->records || step < LSI_RECORDER_WARM_UP) {
        return LS_OK;
    }
    if (r->of[parity] == NULL || r->overlaps[parity] != overlaps) {
        drop(t, parity);
        ls_status status = capture(t, &r->of[parity]);

        if (status != LS_OK) {
            return give_up(t, status);
        }
        r->overlaps[parity] = overlaps;
    }
    *out = r->of[parity];
    return LS_OK;
}
