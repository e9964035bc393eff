#include "device/gpu_list.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static lsi_gpu_name by_number(const lsi_inventory *inventory, const char *text, int *place)
{
    int value;
    char rest;

    if (strlen(text) > 6 || sscanf(text, "%d%c", &value, &rest) != 1) {
        return LSI_GPU_NAME_BAD;
    }
    *place = lsi_inventory_find_ordinal(inventory, value);
    return *place != LSI_GPU_UNKNOWN ? LSI_GPU_NAME_FOUND : LSI_GPU_NAME_NOT_HERE;
}

static lsi_gpu_name by_uuid(const lsi_inventory *inventory, const char *text, int *place)
{
    size_t length = strlen(text);
    int hits = 0;

    for (int i = 0; i < inventory->n; i++) {
        if (strncasecmp(inventory->gpus[i].uuid, text, length) == 0) {
            *place = i;
            hits++;
        }
    }
    return hits == 1 ? LSI_GPU_NAME_FOUND : hits == 0 ? LSI_GPU_NAME_NOT_HERE : LSI_GPU_NAME_AMBIGUOUS;
}

/* Domains have four digits or eight; numbers are compared. An address without one is in domain 0. */
static lsi_gpu_name by_address(const lsi_inventory *inventory, const char *text, int *place)
{
    unsigned domain = 0, bus, device, function = 0;
    char rest;
    int n = sscanf(text, "%8x:%2x:%2x.%1x%c", &domain, &bus, &device, &function, &rest);

    if (n != 3 && n != 4) {
        domain = function = 0;
        n = sscanf(text, "%2x:%2x.%1x%c", &bus, &device, &function, &rest);
        if (n != 2 && n != 3) {
            return LSI_GPU_NAME_BAD;
        }
    }
    *place = lsi_inventory_find_pci(inventory, (int)domain, (int)bus, (int)device);
    return *place != LSI_GPU_UNKNOWN && function == 0 ? LSI_GPU_NAME_FOUND : LSI_GPU_NAME_NOT_HERE;
}

lsi_gpu_name lsi_gpu_list_next(const lsi_inventory *inventory, const char **list, lsi_gpu_item *out)
{
    const char *text = *list;

    if (text == NULL) {
        return LSI_GPU_NAME_ENDED;
    }
    size_t length = strcspn(text, ",");
    *list = text[length] == ',' ? text + length + 1 : NULL;
    while (length > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        length--;
    }
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t')) {
        length--;
    }
    *out = (lsi_gpu_item){.place = LSI_GPU_UNKNOWN};
    snprintf(out->text, sizeof out->text, "%.*s", (int)length, text);
    if (strncasecmp(out->text, "GPU-", 4) == 0 || strncasecmp(out->text, "MIG-", 4) == 0) {
        return by_uuid(inventory, out->text, &out->place);
    }
    if (strchr(out->text, ':') != NULL) {
        return by_address(inventory, out->text, &out->place);
    }
    out->is_index = true;
    return by_number(inventory, out->text, &out->place);
}
