/* What a trainer allocates, listed before anything is: --dry-run adds the list up, the trainer allocates by it. */
#ifndef LSI_TRAIN_MEMORY_H
#define LSI_TRAIN_MEMORY_H

#include "backend/buffer.h"
#include "graph/plan.h"
#include "train/exchange.h"
#include "train/lanes.h"
#include "train/runtime.h"
#include <lockstep/dataset.h>

/* Where bytes come from. Where the device's memory is the host's (ls_backend.host_memory) the first is all there is. */
typedef enum lsi_memory_side { LSI_MEMORY_SIDE_DEVICE, LSI_MEMORY_SIDE_HOST, LSI_MEMORY_SIDE_COUNT } lsi_memory_side;

typedef struct lsi_sizes {
    int64_t n_elements;                 /* flat parameter index */
    int n_buckets;
    int64_t largest_bucket;             /* elements */
    int gradient_copies, moments;
    bool mixed, sharded;                /* layers read a 16-bit copy; a rank has optimizer state for its chunks only */
    int64_t n_owned;                    /* elements of this rank's chunks */
    int64_t n_held;                     /* elements it updates: its chunks, or all */
    int64_t n_local;                    /* slots of this rank */
    size_t element_bytes;               /* of the layers' weights */
    size_t input_bytes, target_bytes;   /* of one slot */
    size_t activation_bytes;            /* the larger of the training and the evaluation plan */
    size_t exchange_bytes;              /* of one rank's message */
    size_t index_bytes;                 /* of the commit op's indices */
    bool evaluates, snapshots;
    bool poisons, traces;               /* each has a stream of its own for a moment */
    int world;
    size_t bytes[LSI_MEMORY_CLASS_COUNT];       /* what --dry-run says */
    size_t ahead_bytes;                 /* besides: samples that the loader prepares ahead, in ordinary memory */
    size_t pool[LSI_MEMORY_SIDE_COUNT];        /* all of it, by where it comes from */
} lsi_sizes;

/* Optimizer state is kept for a rank's own chunks only (ZeRO-1). */
bool lsi_sizes_is_sharded(const ls_config *config, int world);

/* `eval` may be NULL. */
void lsi_sizes_make(const ls_runtime *runtime, const lsi_param_table *table, const ls_plan *train, const ls_plan *eval,
                    const ls_dataset *data, const lsi_lanes *lanes, const lsi_exchange *exchange, bool snapshots,
                    lsi_sizes *out);
size_t lsi_sizes_total(const lsi_sizes *sizes);

/* What the sizes of this rank would be with another micro_batch; not collective. */
typedef struct lsi_sizes_trial {
    ls_status (*sizes)(void *argument, int64_t micro_batch, lsi_sizes *out);
    void *argument;
} lsi_sizes_trial;

/* Collective, agreed. Fails when what is planned is more than is free: said before the first byte is allocated, instead
 * of after minutes of filling memory that then runs out. The message has the sizes by class, what is free, and the
 * largest micro_batch that fits, or what else there is to do. */
LS_MUST_USE ls_status lsi_sizes_check(ls_runtime *runtime, const lsi_sizes *sizes, const lsi_sizes_trial *trial);
/* Collective. `mine` is what allocating came to on this rank, which holds `held` by now. Returns it; where memory was
 * missing, with the same words behind the cause. */
LS_MUST_USE ls_status lsi_sizes_explain(ls_runtime *runtime, const lsi_sizes *sizes, const lsi_sizes_trial *trial,
                                        const size_t held[LSI_MEMORY_SIDE_COUNT], ls_status mine);

/* One block of memory: which lsi_buffer of the trainer it goes to, and from where it comes. */
typedef struct lsi_memory_part {
    size_t buffer_at;                   /* offset of the lsi_buffer in ls_trainer */
    bool from_transport;                /* the transport moves it; else device memory of this kind */
    ls_memory kind;
    lsi_memory_class c;
    size_t bytes;
} lsi_memory_part;

enum { LSI_MEMORY_MAX_PARTS = LSI_TREE_MAX_ROOTS + 32 };

/* Returns how many. */
int lsi_memory_parts(const lsi_sizes *sizes, lsi_memory_part out[LSI_MEMORY_MAX_PARTS]);

#endif
