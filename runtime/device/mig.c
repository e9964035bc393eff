#include "device/mig.h"

#include <stdlib.h>

#include "device/gpu_list.h"

static bool is_instance(const lsi_inventory *inventory, int place)
{
    return inventory->gpus[place].parent != LSI_GPU_UNKNOWN;
}

static uint64_t named(const lsi_inventory *inventory, const char *list)
{
    uint64_t out = 0;
    lsi_gpu_item item;
    lsi_gpu_name found;

    while ((found = lsi_gpu_list_next(inventory, &list, &item)) != LSI_GPU_NAME_ENDED) {
        if (found == LSI_GPU_NAME_FOUND && is_instance(inventory, item.place)) {
            out |= (uint64_t)1 << item.place;
        }
    }
    return out;
}

uint64_t lsi_mig_candidates(const lsi_inventory *inventory)
{
    const char *variable = getenv("CUDA_VISIBLE_DEVICES");
    uint64_t instances = 0;
    bool sees = false;

    for (int i = 0; i < inventory->n; i++) {
        bool visible = inventory->gpus[i].ordinal != LSI_GPU_UNKNOWN;

        if (visible && !is_instance(inventory, i)) {
            return 0;
        }
        sees = sees || visible;
        instances |= (uint64_t)is_instance(inventory, i) << i;
    }
    return !sees ? 0 : variable != NULL ? named(inventory, variable) : instances;
}
