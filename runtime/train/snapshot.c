/* A copy of the state this rank owns, taken beside the next step. */
#include "train/trainer.h"

ls_status lsi_state_snapshot(ls_trainer *trainer)
{
    const ls_backend *b = trainer->backend;

    b->host_flag_set(trainer->device, &trainer->control->snapshot, 0);
    for (int a = 0; a < lsi_state_n_arrays(trainer); a++) {
        float *to = trainer->snapshot[a].data;

        for (int i = 0; i < trainer->n_runs; i++) {
            const lsi_state_run *run = &trainer->run[i];

            LS_TRY(b->copy(trainer->snapshot_stream, to, run->array[a], (size_t)run->count * sizeof(float)));
            to += run->count;
        }
    }
    trainer->snapshot_pending = true;
    LS_TRY(b->event_record(trainer->snapshot_taken, trainer->snapshot_stream));
    return b->flag_set(trainer->snapshot_stream, &trainer->control->snapshot, 1);
}

ls_status lsi_state_snapshot_wait(ls_trainer *trainer)
{
    /* Not by the event: the main thread may be recording a step, and events are its own. */
    return trainer->backend->host_flag_wait(trainer->device, &trainer->control->snapshot, 1, 0);
}

float *lsi_state_snapshot_of(const ls_trainer *trainer, int array)
{
    return trainer->snapshot[array].data;
}
