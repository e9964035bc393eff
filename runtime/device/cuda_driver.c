#include "device/cuda_driver.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CUresult and CUdevice are ints, CUuuid is 16 bytes: cuda.h. */
#define DRIVER_FUNCTIONS(X)                                                                                            \
    X(cuInit, (unsigned flags))                                                                                        \
    X(cuDriverGetVersion, (int *out))                                                                                  \
    X(cuDeviceGetCount, (int *out))                                                                                    \
    X(cuDeviceGet, (int *out, int ordinal))                                                                            \
    X(cuDeviceGetName, (char *out, int room, int device))                                                              \
    X(cuDeviceTotalMem_v2, (size_t * out, int device))                                                                 \
    X(cuDeviceGetAttribute, (int *out, int which, int device))                                                         \
    X(cuDeviceGetUuid, (void *out, int device))                                                                        \
    X(cuDeviceGetUuid_v2, (void *out, int device))                                                                     \
    X(cuDevicePrimaryCtxRetain, (void **out, int device))                                                              \
    X(cuDevicePrimaryCtxRelease_v2, (int device))

enum {
    RESULT_OK = 0,
    RESULT_UNAVAILABLE = 46, /* CUDA_ERROR_DEVICE_UNAVAILABLE */
    RESULT_NO_DEVICE = 100,
    RESULT_MISSING = 500, /* CUDA_ERROR_NOT_FOUND: here, a driver without the function */
    RESULT_MISMATCH = 803 /* CUDA_ERROR_SYSTEM_DRIVER_MISMATCH */
};
enum {
    ATTRIBUTE_SMS = 16,
    ATTRIBUTE_COMPUTE_MODE = 20,
    ATTRIBUTE_PCI_BUS = 33,
    ATTRIBUTE_PCI_DEVICE = 34,
    ATTRIBUTE_PCI_DOMAIN = 50,
    ATTRIBUTE_MAJOR = 75,
    ATTRIBUTE_MINOR = 76
};

typedef struct driver {
#define MEMBER(name, parameters) int(*name) parameters;
    DRIVER_FUNCTIONS(MEMBER)
#undef MEMBER
} driver;

#define CALL(d, name, ...) ((d)->name != NULL ? (d)->name(__VA_ARGS__) : RESULT_MISSING)

static void look_up(void *library, driver *out)
{
#define LOOK_UP(name, parameters)                                                                                      \
    {                                                                                                                  \
        void *found = dlsym(library, #name);                                                                           \
        memcpy(&out->name, &found, sizeof out->name);                                                                  \
    }
    DRIVER_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
}

static int attribute(const driver *d, int which, int device)
{
    int value = -1;

    return CALL(d, cuDeviceGetAttribute, &value, which, device) == RESULT_OK ? value : -1;
}

/* The second version tells an instance's own UUID where the first tells its GPU's. */
static int read_uuid(const driver *d, int device, unsigned char out[16])
{
    return CALL(d, cuDeviceGetUuid_v2, out, device) == RESULT_OK || CALL(d, cuDeviceGetUuid, out, device) == RESULT_OK;
}

static void read_device(const driver *d, int ordinal, lsi_cuda_seen *out)
{
    int device = ordinal;
    size_t bytes;

    *out = (lsi_cuda_seen){.memory_total = -1};
    (void)CALL(d, cuDeviceGet, &device, ordinal);
    if (CALL(d, cuDeviceGetName, out->name, (int)sizeof out->name, device) != RESULT_OK) {
        out->name[0] = '\0';
    }
    out->has_uuid = read_uuid(d, device, out->uuid);
    if (CALL(d, cuDeviceTotalMem_v2, &bytes, device) == RESULT_OK) {
        out->memory_total = (int64_t)bytes;
    }
    out->pci_domain = attribute(d, ATTRIBUTE_PCI_DOMAIN, device);
    out->pci_bus = attribute(d, ATTRIBUTE_PCI_BUS, device);
    out->pci_device = attribute(d, ATTRIBUTE_PCI_DEVICE, device);
    out->sms = attribute(d, ATTRIBUTE_SMS, device);
    out->compute_mode = attribute(d, ATTRIBUTE_COMPUTE_MODE, device);
    int major = attribute(d, ATTRIBUTE_MAJOR, device), minor = attribute(d, ATTRIBUTE_MINOR, device);
    out->capability = major >= 0 && minor >= 0 ? 10 * major + minor : -1;
}

/* The driver stays loaded: CUDA's runtime shares it, and it does not survive being unloaded. */
static bool open_driver(driver *out)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (library != NULL) {
        look_up(library, out);
    }
    return library != NULL;
}

void lsi_cuda_driver_look(lsi_cuda_seen *out, int room, lsi_cuda_view *view)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    driver d;

    *view = (lsi_cuda_view){.version = -1};
    if (!open_driver(&d)) {
        snprintf(view->trouble, sizeof view->trouble, "no NVIDIA driver on this host (libcuda.so.1 is not there)");
        return;
    }
    (void)CALL(&d, cuDriverGetVersion, &view->version);
    int code = CALL(&d, cuInit, 0);
    if (code == RESULT_OK) {
        code = CALL(&d, cuDeviceGetCount, &view->n);
    }
    if (code == RESULT_NO_DEVICE || (code == RESULT_OK && view->n <= 0)) {
        view->n = 0;
        snprintf(view->trouble, sizeof view->trouble,
                 visible != NULL ? "no GPU is visible: CUDA_VISIBLE_DEVICES hides all there are, or there is none"
                                 : "the driver finds no GPU");
    } else if (code != RESULT_OK) {
        view->n = 0;
        snprintf(view->trouble, sizeof view->trouble, "the CUDA driver does not start: error %d%s", code,
                 code == RESULT_MISMATCH ? "; the driver was updated, the host must be restarted" : "");
    }
    view->n = view->n < room ? view->n : room;
    for (int i = 0; i < view->n; i++) {
        read_device(&d, i, &out[i]);
    }
}

lsi_cuda_hold lsi_cuda_driver_hold(int ordinal)
{
    void *context;
    int device, code;
    driver d;

    if (!open_driver(&d)) {
        return LSI_CUDA_NOT_HELD;
    }
    code = CALL(&d, cuDeviceGet, &device, ordinal);
    if (code == RESULT_OK) {
        code = CALL(&d, cuDevicePrimaryCtxRetain, &context, device);
    }
    return code == RESULT_OK ? LSI_CUDA_HELD : code == RESULT_UNAVAILABLE ? LSI_CUDA_OCCUPIED : LSI_CUDA_NOT_HELD;
}

void lsi_cuda_driver_let_go(int ordinal)
{
    int device;
    driver d;

    if (open_driver(&d) && CALL(&d, cuDeviceGet, &device, ordinal) == RESULT_OK) {
        (void)CALL(&d, cuDevicePrimaryCtxRelease_v2, device);
    }
}
