/* Everything one step decides, in device memory: one struct per rank, equal bits on all ranks.
 *
 * The commit op alone writes it; optimizer, dropout and loss kernels read it (LS_STATE in ops.def). Whatever changes
 * from step to step reaches a kernel through this struct, never by value: a captured step can then be replayed. */
#ifndef LS_STEP_STATE_H
#define LS_STEP_STATE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_step_state {
    int64_t attempted;    /* steps committed so far, skipped ones included; during step t it reads t - 1 */
    int64_t applied;      /* steps that changed the weights */
    int64_t in_a_row;     /* non-finite steps in a row, for loss_scale.give_up_after; a dynamic scale counts those that
                           * ran at its minimum */
    int64_t growth_tracker;     /* good steps since the scale last changed or overflowed */
    int64_t hysteresis_left;    /* overflows until the scale backs off */
    int64_t skipped;            /* non-finite steps so far */
    double beta1_power;   /* beta1 ^ (applied, this step included), as Adam's bias correction needs it */
    double beta2_power;
    double unscale;       /* gradient = accumulated sum * unscale; 2^k / (scale of the backward * counted targets) */
    double grad_norm;     /* L2 norm of the unscaled gradient before clipping; non-finite on an overflow */
    double loss;          /* mean over the counted targets of the global batch; NaN when there was none */
    int64_t counted;      /* targets counted in the global batch */
    float clip_factor;    /* 1 when the gradient was not clipped */
    float learning_rate;  /* of this step */
    float loss_scale;     /* the backward of the next step runs with it */
    int32_t skip;         /* 1: the optimizer leaves weights, moments and counters untouched */
} ls_step_state;

/* Sums over one slot (micro-batch), written by the loss_sum op. All doubles, so that records travel in the scalar
 * exchange as they are; the counts are whole numbers below 2^53. */
typedef struct ls_slot_record {
    double loss_sum;      /* over counted targets, in order */
    double counted;       /* targets that are not ignored */
    double hits;          /* counted targets whose largest logit (the first among equals) is the target's */
    double runs;          /* executions of this slot in this step: 1, or a slot ran twice or never */
} ls_slot_record;

/* What one rank contributes to the scalar exchange begins with this; the commit op takes maxima over ranks. */
enum { LS_EXCHANGE_HEADER = 8 };
enum {
    LS_EXCHANGE_STEP_SECONDS, LS_EXCHANGE_DATA_WAIT, LS_EXCHANGE_COMPUTE, LS_EXCHANGE_COMM, LS_EXCHANGE_COMM_EXPOSED,
    LS_EXCHANGE_TIMED_STEP,     /* the step these times are of, from 1; 0: none yet */
    LS_EXCHANGE_STOP,           /* why this rank wants to stop, 0: it does not */
    LS_EXCHANGE_SAVING          /* 1 while this rank is writing its part of a checkpoint */
};

/* What the commit op writes for the host, in pinned memory. */
typedef struct ls_step_result {
    ls_step_state state;                        /* after this step */
    double hits;                                /* over the global batch */
    double header[LS_EXCHANGE_HEADER];          /* maxima over ranks */
    double runs_wrong;                          /* slots that did not run exactly once: 0 */
    float scale_used;                           /* loss scale the step's backward ran with */
    int32_t reserved;
    int64_t bad_element;                        /* of the flat index: the first gradient that is not finite; -1: none */
} ls_step_result;

#ifdef __cplusplus
}
#endif
#endif
