/* device.graphs: a step is recorded once for each parity, and from then on queued by one launch.
 *
 * The first two steps are queued as they are written: kernels and communication that set themselves up when they are
 * first used do it there. From then on, before a step is queued, its recording is looked for; where there is none, or
 * one of a step that was queued in another way, the whole step is queued into a capture, which runs nothing. */
#ifndef LSI_TRAIN_RECORDER_H
#define LSI_TRAIN_RECORDER_H

#include <lockstep/backend.h>
#include <lockstep/train.h>
#include <stdbool.h>

enum { LSI_RECORDER_WARM_UP = 2 };

typedef struct lsi_recorder {
    bool records;        /* the same on all ranks, until one has to give up */
    bool must;           /* device.graphs = on: giving up is an error */
    const char *why;     /* under auto: what stands against it, for messages; NULL: nothing, or nobody wonders */
    bool capturing;      /* the step being queued goes into a recording */
    ls_recording *of[2]; /* by step parity; NULL: none */
    bool overlaps[2];    /* whether the recorded step reduces its buckets during the backward */
} lsi_recorder;

/* Collective. What the configuration wishes, and what backend, transport and the other ranks make of it: under auto
 * nobody records where one rank cannot. LS_ERR_CONFIG where device.graphs = on cannot be. */
LS_MUST_USE ls_status lsi_recorder_open(ls_trainer *trainer);
void lsi_recorder_close(ls_trainer *trainer);

/* Of the step about to be queued: *out is its recording, made now if it has to be, or NULL. What used an old one is
 * over by then, for the host has waited for the last step of the same parity. */
LS_MUST_USE ls_status lsi_recorder_step(ls_trainer *trainer, ls_recording **out);

#endif
