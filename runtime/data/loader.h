/* Fills the pinned step shares: all samples of this rank's slots of one step.
 *
 * Worker threads prepare shares in ordinary memory, `prefetch` steps ahead; a stager moves the next one into the pinned
 * share of its step's parity when that is free. Flags: the loader waits for 0 (free) and sets 1 (full); the copy stream
 * waits for 1 and sets 0. With workers = 0 there are no threads: the caller fills a share by lsi_loader_fill before it
 * queues the step. What is in a share depends on the step alone. */
#ifndef LSI_DATA_LOADER_H
#define LSI_DATA_LOADER_H

#include "data/sampler.h"
#include <lockstep/backend.h>
#include <lockstep/dataset.h>

typedef struct lsi_share {
    void *input;            /* n_slots * micro_batch samples, slot after slot */
    void *targets;          /* int32 or f32, as the data set says */
    ls_flag *full;
} lsi_share;

typedef struct lsi_loader_options {
    ls_device *device;
    const ls_dataset *data;
    lsi_sampler sampler;
    int64_t global_batch, micro_batch;
    const int64_t *slot;    /* this rank's slots in the order they run; copied */
    int64_t n_slots;        /* may be 0: nothing is read and no flag is touched */
    int workers, prefetch;
    int64_t first_step;     /* attempted steps before this run: 0 for a fresh one */
    int64_t end_step;       /* nothing from this step on is read */
    lsi_share share[2];     /* pinned, by step parity; step numbers count from 0 */
    /* Called on a loader thread when a sample cannot be read, with the failure on record; should end the process. When
     * it returns, the loader loads nothing more. */
    void (*on_failure)(void *argument, ls_status status);
    void *failure_argument;
} lsi_loader_options;

typedef struct lsi_loader lsi_loader;

LS_MUST_USE ls_status lsi_loader_create(const lsi_loader_options *options, lsi_loader **out);
/* workers = 0 only: fills the share of `step`, which must be free. */
LS_MUST_USE ls_status lsi_loader_fill(lsi_loader *loader, int64_t step);
/* Ends the threads, also while they wait for a share. First sync the streams that read the shares, or abort the device;
 * the flags mean nothing any more. Accepts NULL. */
void lsi_loader_destroy(lsi_loader **loader);

#endif
