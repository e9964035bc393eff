#include "device/visibility.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char order_variable[] = "CUDA_DEVICE_ORDER", pci_order[] = "PCI_BUS_ID";

bool lsi_visibility_fix_order(void)
{
    return getenv(order_variable) == NULL && setenv(order_variable, pci_order, 1) == 0;
}

/* ---- what CUDA numbers before the variable chooses ----------------------------------------------------------- */

static bool can_be_numbered(const lsi_gpu *gpu)
{
    return !gpu->lost && !gpu->mig;
}

static bool all_alike(const lsi_inventory *inventory, const int *places, int n)
{
    for (int i = 1; i < n; i++) {
        if (strcmp(inventory->gpus[places[i]].name, inventory->gpus[places[0]].name) != 0) {
            return false;
        }
    }
    return true;
}

/* By PCI address, a GPU in MIG mode counting as its first instance. Under FASTEST_FIRST that is a guess unless all are
 * of one model: the driver does not tell its order of GPUs it does not show. */
static int number_all(const lsi_inventory *inventory, const char *order, int places[LSI_GPU_MAX], bool *known)
{
    int n = 0;

    for (int i = 0; i < inventory->n; i++) {
        const lsi_gpu *gpu = &inventory->gpus[i];
        bool first = gpu->parent == LSI_GPU_UNKNOWN || n == 0 || inventory->gpus[places[n - 1]].parent != gpu->parent;

        if (can_be_numbered(gpu) && first) {
            places[n++] = i;
        }
    }
    *known = (order != NULL && strcmp(order, pci_order) == 0) || all_alike(inventory, places, n);
    return n;
}

/* ---- single items ----------------------------------------------------------------------------------------------- */

/* "MIG-GPU-<uuid>/<gi>/<ci>", the form of drivers before 470. */
static bool is_old_instance_name(const lsi_inventory *inventory, const lsi_gpu *gpu, const char *item, int length)
{
    char name[LSI_GPU_UUID + 32];

    if (gpu->parent == LSI_GPU_UNKNOWN) {
        return false;
    }
    int n = snprintf(name, sizeof name, "MIG-%s/%d/%d", inventory->gpus[gpu->parent].uuid, gpu->gpu_instance,
                     gpu->compute_instance);
    return n == length && strncmp(name, item, (size_t)n) == 0;
}

static void read_uuid(const lsi_inventory *inventory, const char *item, lsi_visible_item *out)
{
    int hits = 0;

    for (int i = 0; i < inventory->n; i++) {
        const lsi_gpu *gpu = &inventory->gpus[i];

        if (can_be_numbered(gpu) && (strncmp(gpu->uuid, item, (size_t)out->length) == 0 ||
                                     is_old_instance_name(inventory, gpu, item, out->length))) {
            out->gpu = i;
            hits++;
        }
    }
    out->verdict = hits == 1 ? LSI_VISIBLE_YES : hits == 0 ? LSI_VISIBLE_UNKNOWN : LSI_VISIBLE_AMBIGUOUS;
    out->gpu = hits == 1 ? out->gpu : LSI_GPU_UNKNOWN;
}

/* As strtoul reads: blanks, a sign, digits, and whatever stands behind them. */
static void read_number(const char *item, const int *numbered, int n_numbered, lsi_visible_item *out)
{
    char *end;

    errno = 0;
    long value = strtol(item, &end, 10);
    if (end == item) {
        out->verdict = LSI_VISIBLE_NO_NUMBER;
    } else if (value < 0 && errno == 0) {
        out->verdict = LSI_VISIBLE_NEGATIVE;
    } else if (errno != 0 || value >= n_numbered) {
        out->verdict = LSI_VISIBLE_OUT_OF_RANGE;
    } else {
        out->gpu = numbered[value];
    }
}

static bool is_uuid(const char *item)
{
    return strncmp(item, "GPU-", 4) == 0 || strncmp(item, "MIG-", 4) == 0;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static void read_item(const lsi_inventory *inventory, const char *value, const int *numbered, int n_numbered,
                      lsi_visible_item *out)
{
    const char *item = value + out->begin;
    const char *text = item + strspn(item, " \t");

    if (strcspn(text, ",") == 0) {
        out->verdict = LSI_VISIBLE_EMPTY;
    } else if (is_uuid(value)) {
        if (strncmp(item, value, 4) == 0) {
            read_uuid(inventory, item, out);
        } else {
            out->verdict = text > item && is_uuid(text) ? LSI_VISIBLE_BLANK : LSI_VISIBLE_OTHER_KIND;
        }
    } else if (is_uuid(text)) {
        out->verdict = item == value ? LSI_VISIBLE_BLANK : LSI_VISIBLE_OTHER_KIND;
    } else {
        read_number(item, numbered, n_numbered, out);
    }
}

/* A process sees one instance, and no whole GPU beside it. */
static void keep_one_instance(const lsi_inventory *inventory, lsi_visibility *out)
{
    int instance = LSI_GPU_UNKNOWN;

    for (int i = 0; i < out->n && instance == LSI_GPU_UNKNOWN; i++) {
        if (inventory->gpus[out->gpus[i]].parent != LSI_GPU_UNKNOWN) {
            instance = out->gpus[i];
        }
    }
    if (instance == LSI_GPU_UNKNOWN) {
        return;
    }
    for (int i = 0; i < out->n_items && i <= LSI_GPU_MAX; i++) {
        if (out->items[i].verdict == LSI_VISIBLE_YES && out->items[i].gpu != instance) {
            out->items[i].verdict = LSI_VISIBLE_SECOND_INSTANCE;
        }
    }
    out->n = 1;
    out->gpus[0] = instance;
}

static bool is_listed(const lsi_visibility *v, int gpu)
{
    for (int i = 0; i < v->n; i++) {
        if (v->gpus[i] == gpu) {
            return true;
        }
    }
    return false;
}

static void read_list(const lsi_inventory *inventory, const int *numbered, int n_numbered, lsi_visibility *out)
{
    const char *value = out->value;
    bool ended = false;

    for (int begin = 0;; begin++) {
        lsi_visible_item item = {.begin = begin, .length = (int)strcspn(value + begin, ","), .gpu = LSI_GPU_UNKNOWN};

        if (ended) {
            item.verdict = LSI_VISIBLE_BEHIND_END;
        } else {
            read_item(inventory, value, numbered, n_numbered, &item);
            if (item.verdict == LSI_VISIBLE_YES && is_listed(out, item.gpu)) {
                item.verdict = LSI_VISIBLE_REPEATED;
                out->repeated = true;
            }
            ended = item.verdict != LSI_VISIBLE_YES || out->n == LSI_GPU_MAX;
            if (item.verdict == LSI_VISIBLE_YES && out->n < LSI_GPU_MAX) {
                out->gpus[out->n++] = item.gpu;
            }
        }
        if (out->n_items <= LSI_GPU_MAX) {
            out->items[out->n_items] = item;
        }
        out->n_items++;
        begin += item.length;
        if (value[begin] == '\0') {
            break;
        }
    }
    out->n = out->repeated ? 0 : out->n;
}

void lsi_visibility_read(const lsi_inventory *inventory, const char *value, const char *order, lsi_visibility *out)
{
    int numbered[LSI_GPU_MAX];

    *out = (lsi_visibility){.value = value};
    int n_numbered = number_all(inventory, order, numbered, &out->order_known);
    if (value == NULL) {
        memcpy(out->gpus, numbered, (size_t)n_numbered * sizeof *numbered);
        out->n = n_numbered;
    } else if (value[0] != '\0') {
        read_list(inventory, numbered, n_numbered, out);
        out->order_known = out->order_known || is_uuid(value);
    }
    keep_one_instance(inventory, out);
}
