/* The matrix products of a model, each shape once: what algorithms are chosen for, what is tuned, timed, warned about.
 */
#ifndef LSI_TRAIN_GEMM_LIST_H
#define LSI_TRAIN_GEMM_LIST_H

#include "graph/survey.h"
#include "kernels/gemm_choice.h"
#include <lockstep/layer.h>

typedef struct lsi_gemm_item {
    lsi_gemm_shape shape;
    char layer[LS_NAME_MAX]; /* the first one that has it */
    int64_t n_launches;      /* in one slot; 0: only in place of another item, whose epilogue is split off */
} lsi_gemm_item;

typedef struct lsi_gemm_list {
    lsi_gemm_item *item; /* in the order of launching; a product stands before the same one with an epilogue */
    int n, room;
} lsi_gemm_list;

/* Adds what the plan launches. On failure the list is as good as before. */
LS_MUST_USE ls_status lsi_gemm_list_add(lsi_gemm_list *list, const ls_plan *plan, bool tf32);
void lsi_gemm_list_free(lsi_gemm_list *list);
/* The item with the most FLOPs, the first of several; NULL in an empty list. */
const lsi_gemm_item *lsi_gemm_list_largest(const lsi_gemm_list *list);
double lsi_gemm_item_flops(const lsi_gemm_item *item);

#endif
