#include "train/gemm_list.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

typedef struct adding {
    lsi_gemm_list *list;
    bool tf32;
} adding;

static ls_status add(lsi_gemm_list *list, const lsi_gemm_shape *shape, const char *layer, int n_launches)
{
    for (int i = 0; i < list->n; i++) {
        if (memcmp(&list->item[i].shape, shape, sizeof *shape) == 0) {
            list->item[i].n_launches += n_launches;
            return LS_OK;
        }
    }
    if (list->n == list->room) {
        int room = list->room > 0 ? 2 * list->room : 32;
        lsi_gemm_item *grown;

        LS_TRY(lsi_memory_alloc((size_t)room * sizeof *grown, "list of matrix products", (void **)&grown));
        for (int i = 0; i < list->n; i++) {
            grown[i] = list->item[i];
        }
        lsi_memory_free(list->item);
        list->item = grown;
        list->room = room;
    }
    lsi_gemm_item *item = &list->item[list->n++];

    item->shape = *shape;
    item->n_launches = n_launches;
    snprintf(item->layer, sizeof item->layer, "%s", layer);
    return LS_OK;
}

static ls_status visit(void *argument, const char *layer, const ls_op *op, const void *arguments)
{
    const adding *a = argument;
    lsi_gemm_shape shape;

    if (!lsi_gemm_shape_of(op, arguments, a->tf32, &shape)) {
        return LS_OK;
    }
    if (shape.epilogue != LSI_GEMM_PLAIN) {
        lsi_gemm_shape plain = lsi_gemm_shape_plain(&shape);

        LS_TRY(add(a->list, &plain, layer, 0));
    }
    return add(a->list, &shape, layer, 1);
}

ls_status lsi_gemm_list_add(lsi_gemm_list *list, const ls_plan *plan, bool tf32)
{
    adding a = {list, tf32};

    return lsi_plan_survey(plan, visit, &a);
}

void lsi_gemm_list_free(lsi_gemm_list *list)
{
    lsi_memory_free(list->item);
    *list = (lsi_gemm_list){0};
}

double lsi_gemm_item_flops(const lsi_gemm_item *item)
{
    return 2.0 * (double)item->shape.m * (double)item->shape.n * (double)item->shape.k;
}

const lsi_gemm_item *lsi_gemm_list_largest(const lsi_gemm_list *list)
{
    const lsi_gemm_item *largest = NULL;

    for (int i = 0; i < list->n; i++) {
        if (largest == NULL || lsi_gemm_item_flops(&list->item[i]) > lsi_gemm_item_flops(largest)) {
            largest = &list->item[i];
        }
    }
    return largest;
}
