/* Which GPUs CUDA shows to a process: CUDA_VISIBLE_DEVICES, item by item, CUDA_DEVICE_ORDER, NVIDIA_VISIBLE_DEVICES.
 *
 * What a process really sees the driver tells (inventory.h), and only that is used to choose. Reading the variable is
 * for explaining, and for starting other processes. The rules, as the CUDA documentation and the driver have them:
 * unset shows all, empty shows none; items stand between commas, in the order that CUDA will number them; an item that
 * is not valid ends the list; a repeated one empties it; numbers are read like strtoul ("1gpu2" is 1); a UUID may be
 * cut to a prefix that fits one GPU only; numbers, GPU- and MIG- do not mix, the first item says which; of MIG
 * instances a process sees one. */
#ifndef LSI_DEVICE_VISIBILITY_H
#define LSI_DEVICE_VISIBILITY_H

#include "base/text.h"
#include "device/inventory.h"

/* What becomes of an item. */
typedef enum lsi_visible_verdict {
    LSI_VISIBLE_YES,
    LSI_VISIBLE_EMPTY,     /* nothing between two commas */
    LSI_VISIBLE_NO_NUMBER, /* neither a number nor GPU- nor MIG- */
    LSI_VISIBLE_NEGATIVE,  /* the usual way to end a list on purpose */
    LSI_VISIBLE_OUT_OF_RANGE,
    LSI_VISIBLE_UNKNOWN,    /* no GPU's UUID begins so */
    LSI_VISIBLE_AMBIGUOUS,  /* several GPUs' UUIDs begin so */
    LSI_VISIBLE_OTHER_KIND, /* a number among UUIDs, or the other way round */
    LSI_VISIBLE_BLANK,      /* a blank before a UUID, which CUDA takes for a part of it */
    LSI_VISIBLE_REPEATED,
    LSI_VISIBLE_SECOND_INSTANCE, /* valid, but a process sees one MIG instance */
    LSI_VISIBLE_BEHIND_END       /* not read: an item before it ended the list */
} lsi_visible_verdict;

typedef struct lsi_visible_item {
    int begin, length; /* in the value */
    lsi_visible_verdict verdict;
    int gpu; /* place in the inventory; LSI_GPU_UNKNOWN: none */
} lsi_visible_item;

typedef struct lsi_visibility {
    const char *value; /* NULL: not set */
    int n_items;       /* the array has at most LSI_GPU_MAX + 1 of them */
    lsi_visible_item items[LSI_GPU_MAX + 1];
    int n;                 /* visible GPUs */
    int gpus[LSI_GPU_MAX]; /* their places in the inventory: CUDA's device i is gpus[i] */
    bool repeated;         /* an item names a GPU twice: nothing is visible */
    bool order_known;      /* false: numbers follow an order that only the driver knows (FASTEST_FIRST, unlike GPUs) */
} lsi_visibility;

/* What a process would see that is started with these values (NULL: not set). `value` is borrowed. */
void lsi_visibility_read(const lsi_inventory *inventory, const char *value, const char *order, lsi_visibility *out);
/* Why this process sees what it sees, in sentences for someone who has never met the variable: what the list comes to
 * item by item, where the driver disagrees, who set the order, containers, Slurm and Kubernetes. order_is_ours: what
 * lsi_visibility_fix_order returned. */
void lsi_visibility_explain(const lsi_inventory *inventory, bool order_is_ours, lsi_text *out);

/* Sets CUDA_DEVICE_ORDER to PCI_BUS_ID, nvidia-smi's order, unless the environment has it; true when it did. To be
 * called before anything initialises CUDA (MPI may) and before there are threads. */
bool lsi_visibility_fix_order(void);

#endif
