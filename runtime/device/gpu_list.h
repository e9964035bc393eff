/* Lists of GPUs as users write them: "0,2", "GPU-8932f937,GPU-a1", "0000:07:00.0". */
#ifndef LSI_DEVICE_GPU_LIST_H
#define LSI_DEVICE_GPU_LIST_H

#include "device/inventory.h"

typedef enum lsi_gpu_name {
    LSI_GPU_NAME_ENDED, /* no item is left */
    LSI_GPU_NAME_FOUND,
    LSI_GPU_NAME_NOT_HERE,  /* a good name of a GPU that this host does not have */
    LSI_GPU_NAME_AMBIGUOUS, /* a prefix that fits several */
    LSI_GPU_NAME_BAD        /* no number, UUID or PCI address */
} lsi_gpu_name;

typedef struct lsi_gpu_item {
    char text[LSI_GPU_UUID + 32]; /* without blanks around it, cut at the room */
    int place;                    /* in the inventory when FOUND */
    bool is_index;                /* CUDA's number in this process */
} lsi_gpu_item;

/* Takes the next item off the list. A number is CUDA's in this process; a UUID may be cut to a prefix that fits one. */
lsi_gpu_name lsi_gpu_list_next(const lsi_inventory *inventory, const char **list, lsi_gpu_item *out);

#endif
