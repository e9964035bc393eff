#include "train/probe_plants.h"

#include <string.h>

#include "kernels/ops.h"

/* ---- the host waits ------------------------------------------------------------------------------------------- */

static ls_status sync_stream(ls_trainer *t)
{
    return t->backend->stream_sync(t->copy);
}

static ls_status sync_event(ls_trainer *t)
{
    return t->backend->event_sync(t->committed[(t->n_queued + 1) & 1]);
}

/* ---- something is made ---------------------------------------------------------------------------------------- */

static ls_status take_memory(ls_trainer *t, ls_memory kind)
{
    void *memory;

    LS_TRY(t->backend->alloc(t->device, kind, 4096, &memory));
    t->backend->release(t->device, kind, 4096, memory);
    return LS_OK;
}

static ls_status take_device_memory(ls_trainer *t)
{
    return take_memory(t, LS_MEM_DEVICE);
}

static ls_status take_pinned_memory(ls_trainer *t)
{
    return take_memory(t, LS_MEM_PINNED);
}

static ls_status make_event(ls_trainer *t)
{
    ls_event *event;

    LS_TRY(t->backend->event_create(t->device, &event));
    t->backend->event_destroy(event);
    return LS_OK;
}

/* Of a shape that no layer has: an algorithm is looked for. The activations hold nothing between steps. */
static ls_status multiply_anew(ls_trainer *t)
{
    ls_view x = ls_view_make(t->activations.data, 9, LS_F32);

    return lsi_gemm(t->compute, &(lsi_gemm_args){
                                    .a = x,
                                    .b = ls_view_make((float *)t->activations.data + 64, 9, LS_F32),
                                    .c = ls_view_make((float *)t->activations.data + 128, 9, LS_F32),
                                    .m = 3,
                                    .n = 3,
                                    .k = 3,
                                });
}

/* ---- more is queued ------------------------------------------------------------------------------------------- */

static ls_status launch(ls_trainer *t, ls_collective *collective)
{
    return t->rt->comm->transport->launch(collective, t->comm_stream);
}

static ls_status reduce_again(ls_trainer *t)
{
    return launch(t, t->bucket[0].reduce);
}

static ls_status gather_again(ls_trainer *t)
{
    return launch(t, t->bucket[0].gather);
}

static ls_status exchange_again(ls_trainer *t)
{
    return launch(t, t->exchange_collective);
}

static ls_status fill(ls_trainer *t)
{
    return t->backend->fill(t->compute, t->activations.data, 0, 256);
}

static ls_status replay_again(ls_trainer *t)
{
    return t->replayed != NULL ? t->backend->replay(t->replayed) : LS_OK;
}

/* ---- too much order ------------------------------------------------------------------------------------------- */

/* The copy of a slot's batch waits until the slot before has been computed. */
static ls_status copy_after_compute(ls_trainer *t)
{
    LS_TRY(t->backend->event_record(t->ready, t->compute));
    return t->backend->event_wait(t->copy, t->ready);
}

const probe_plant *probe_plant_find(const char *name)
{
    static const probe_plant plants[] = {
        {"sync-stream", sync_stream, NULL},
        {"sync-event", sync_event, NULL},
        {"device-memory", take_device_memory, NULL},
        {"pinned-memory", take_pinned_memory, NULL},
        {"make-event", make_event, NULL},
        {"new-product", multiply_anew, NULL},
        {"reduce-again", reduce_again, NULL},
        {"reduce-each-slot", NULL, reduce_again},
        {"gather-again", gather_again, NULL},
        {"exchange-again", exchange_again, NULL},
        {"fill", fill, NULL},
        {"replay-again", replay_again, NULL},
        {"copy-after-compute", NULL, copy_after_compute},
    };

    for (size_t i = 0; i < sizeof plants / sizeof plants[0]; i++) {
        if (strcmp(plants[i].name, name) == 0) {
            return &plants[i];
        }
    }
    return NULL;
}
