#include "device/xid.h"

#include <unistd.h>

#include "base/memory.h"
#include "device/inventory_source.h"

static const lsi_xid known[] = {
#define LS_XID(number, fatal, words, advice) {number, fatal, words, advice},
#include "device/xid.def"
#undef LS_XID
};

lsi_xid lsi_xid_find(int number)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].number == number) {
            return known[i];
        }
    }
    return (lsi_xid){number, false, "an error that Lockstep has no words for", "look it up in NVIDIA's Xid catalog"};
}

struct lsi_xid_watch {
    const lsi_inventory *inventory;
    nvmlEventSet_t set;
    int n, places[LSI_GPU_MAX];
    nvmlEventData_t event; /* what is handed out */
    int next;              /* the first of `places` that it was not held against; n: it is done with */
};

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static bool ask(lsi_xid_watch *w, int place)
{
    const struct lsi_inventory_sources *s = w->inventory->sources;
    nvmlDevice_t device = s->handle[lsi_inventory_whole(w->inventory, place)];
    unsigned long long can = 0;

    return device != NULL && LSI_NVML_CALL(&s->nvml, nvmlDeviceGetSupportedEventTypes, device, &can) == NVML_SUCCESS &&
           (can & NVML_EVENT_XID) != 0 &&
           LSI_NVML_CALL(&s->nvml, nvmlDeviceRegisterEvents, device, NVML_EVENT_XID, w->set) == NVML_SUCCESS;
}

ls_status lsi_xid_watch_open(const lsi_inventory *inventory, const int *places, int n, lsi_xid_watch **out)
{
    const lsi_nvml *nvml = &inventory->sources->nvml;
    lsi_xid_watch *w;

    *out = NULL;
    LS_TRY(lsi_memory_alloc(sizeof *w, "watching for Xids", (void **)&w));
    w->inventory = inventory;
    if (nvml->nvmlEventSetWait_v2 == NULL || LSI_NVML_CALL(nvml, nvmlEventSetCreate, &w->set) != NVML_SUCCESS) {
        lsi_memory_free(w);
        return LS_OK;
    }
    for (int i = 0; i < n && i < LSI_GPU_MAX; i++) {
        if (ask(w, places[i])) {
            w->places[w->n++] = places[i];
        }
    }
    w->next = w->n;
    if (w->n == 0) {
        lsi_xid_watch_close(&w);
    }
    *out = w;
    return LS_OK;
}

void lsi_xid_watch_close(lsi_xid_watch **watch)
{
    lsi_xid_watch *w = *watch;

    if (w != NULL) {
        (void)LSI_NVML_CALL(&w->inventory->sources->nvml, nvmlEventSetFree, w->set);
        lsi_memory_free(w);
        *watch = NULL;
    }
}

/* ---- being told -------------------------------------------------------------------------------------------------- */

static bool concerns(const lsi_xid_watch *w, int place)
{
    const lsi_gpu *gpu = &w->inventory->gpus[place];

    if (w->inventory->sources->handle[lsi_inventory_whole(w->inventory, place)] != w->event.device) {
        return false;
    }
    return gpu->parent == LSI_GPU_UNKNOWN || w->event.gpuInstanceId == NVML_INSTANCE_ANY ||
           (int)w->event.gpuInstanceId == gpu->gpu_instance;
}

bool lsi_xid_watch_next(lsi_xid_watch *w, double seconds, int *place, int *xid)
{
    const lsi_nvml *nvml = &w->inventory->sources->nvml;

    if (w->next == w->n) {
        nvmlReturn_t code = nvml->nvmlEventSetWait_v2(w->set, &w->event, (unsigned)(seconds * 1e3));

        if (code != NVML_SUCCESS || w->event.eventType != NVML_EVENT_XID) {
            if (code != NVML_ERROR_TIMEOUT && code != NVML_SUCCESS) {
                usleep((useconds_t)(seconds * 1e6)); /* a GPU is lost: NVML does not wait any more */
            }
            return false;
        }
        w->next = 0;
    }
    while (w->next < w->n) {
        int candidate = w->places[w->next++];

        if (concerns(w, candidate)) {
            *place = candidate;
            *xid = (int)w->event.eventData;
            return true;
        }
    }
    return false;
}
