/* Whether a GPU can be had, one at a time: the filters of device.select. */
#ifndef LSI_DEVICE_JUDGE_H
#define LSI_DEVICE_JUDGE_H

#include "device/select.h"

/* Bit g of `listed` and `excluded`: place g is in device.select, in device.exclude. `seen`: visible to some process. */
typedef struct lsi_judge {
    const lsi_inventory *inventory;
    const lsi_select_rules *rules;
    const lsi_select_taken *taken; /* NULL: nothing is */
    uint64_t seen, listed, excluded;
    bool named; /* device.select is a list */
} lsi_judge;

void lsi_judge_gpu(const lsi_judge *judge, int place, lsi_verdict *out);
/* Below 0: a is the better one of two that can be had, in the order of device.select = auto. */
int lsi_judge_compare(const lsi_inventory *inventory, int a, int b);

#endif
