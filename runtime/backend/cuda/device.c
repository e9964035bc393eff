#include "backend/cuda/device.h"

#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/error.h"
#include "backend/cuda/recording.h"
#include "backend/cuda/release.h"
#include "backend/cuda/stamp.h"
#include "backend/registry.h"
#include "base/log.h"
#include "base/memory.h"

cudaError_t lsi_cuda_device_enter(const lsi_cuda_device *device)
{
    int current = -1;

    /* The question only saves the call. */
    return cudaGetDevice(&current) == cudaSuccess && current == device->ordinal ? cudaSuccess
                                                                                : cudaSetDevice(device->ordinal);
}

ls_status lsi_cuda_device_enter_for(lsi_cuda_device *device, const char *what)
{
    cudaError_t error = lsi_cuda_device_enter(device);

    if (error == cudaSuccess) {
        return LS_OK;
    }
    ls_status status = LSI_CUDA_FAIL(error, device->ordinal, "cudaSetDevice", "%s", what);
    if (device->capture != NULL) {
        return lsi_cuda_recording_spoil(device, status);
    }
    lsi_cuda_device_fail_queue(device, status);
    return lsi_cuda_device_check(device);
}

/* ---- opening -------------------------------------------------------------------------------------------------- */

/* Three digits, so that of two variants the lesser one sorts first. */
static void variant_name(int capability, char out[8])
{
    snprintf(out, 8, "sm%03d", capability);
}

/* A variant below the GPU's own is what ranks on unlike GPUs agree on. */
static ls_status choose_variant(lsi_cuda_device *d, const char *asked, int best)
{
    char best_name[8], *end = NULL;

    variant_name(best, best_name);
    d->capability = best;
    if (asked != NULL) {
        d->capability = strncmp(asked, "sm", 2) == 0 ? (int)strtol(asked + 2, &end, 10) : 0;
        LS_REQUIRE(d->capability > 0 && *end == '\0', LS_ERR_DEVICE, "kernel variant '%s' is unknown; this GPU's is %s",
                   asked, best_name);
        LS_REQUIRE(d->capability <= best, LS_ERR_DEVICE, "kernel variant '%s' needs another GPU; this one's is %s",
                   asked, best_name);
    }
    variant_name(d->capability, d->variant);
    return LS_OK;
}

/* Bits, times and plans of simulated GPUs are none of real ones of the same name. */
#ifdef LOCKSTEP_CUDA_SIM
static const char simulated[] = " simulated";
#else
static const char simulated[] = "";
#endif

/* The numbers of CUDA's runtime are those that the GPU was chosen by, or nothing that follows can be trusted. */
static ls_status check_address(const struct cudaDeviceProp *p, int ordinal, const char *address)
{
    unsigned domain, bus, device;

    if (address == NULL || sscanf(address, "%x:%x:%x", &domain, &bus, &device) != 3) {
        return LS_OK;
    }
    LS_REQUIRE((int)domain == p->pciDomainID && (int)bus == p->pciBusID && (int)device == p->pciDeviceID, LS_ERR_DEVICE,
               "cuda:%d is the GPU at %04x:%02x:%02x.0, the one at %s was chosen: CUDA_VISIBLE_DEVICES was changed "
               "after the start", ordinal, (unsigned)p->pciDomainID, (unsigned)p->pciBusID, (unsigned)p->pciDeviceID,
               address);
    return LS_OK;
}

static ls_status identify(lsi_cuda_device *d, const char *asked, const char *address)
{
    struct cudaDeviceProp properties;
    int driver = 0, runtime = 0, toolkit_lt = (int)cublasLtGetVersion();

    LSI_CUDA_TRY(d->ordinal, cudaGetDeviceProperties(&properties, d->ordinal), "cannot read what it is");
    LSI_CUDA_TRY(d->ordinal, cudaDriverGetVersion(&driver), "cannot read the driver's version");
    LSI_CUDA_TRY(d->ordinal, cudaRuntimeGetVersion(&runtime), "cannot read the CUDA runtime's version");
    for (size_t i = 0; i < sizeof properties.uuid.bytes; i++) {
        snprintf(d->place + 2 * i, 3, "%02x", (unsigned char)properties.uuid.bytes[i]);
    }
    LS_TRY(check_address(&properties, d->ordinal, address));
    LS_TRY(choose_variant(d, asked, properties.major * 10 + properties.minor));
    snprintf(d->library, sizeof d->library, "cuBLASLt %d.%d.%d%s", toolkit_lt / 10000, toolkit_lt / 100 % 100,
             toolkit_lt % 100, simulated);
    snprintf(d->model, sizeof d->model, "%s, %d SMs, %s", properties.name, properties.multiProcessorCount, d->variant);
    snprintf(d->description, sizeof d->description, "cuda %s, driver %d.%d, runtime %d.%d, %s", d->model,
             driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, d->library);
    return LS_OK;
}

/* Since CUDA 12 this makes the context; before, the first allocation does. */
static ls_status enter_first(int ordinal, const char *address)
{
    cudaError_t error = cudaSetDevice(ordinal);
    const char *where = address != NULL ? address : "address not given";

    if (error == cudaErrorDevicesUnavailable) {
        (void)cudaGetLastError();
        return LS_FAIL(LS_ERR_DEVICE, "GPU cuda:%d (PCI %s) is in exclusive compute mode and another process has it, "
                       "or it is prohibited: choose another one (device.exclude, device.select), wait for its end, or set "
                       "`nvidia-smi -c DEFAULT`", ordinal, where);
    }
    return error == cudaSuccess ? LS_OK : LSI_CUDA_FAIL(error, ordinal, "cudaSetDevice", "cannot use it (PCI %s)", where);
}

/* What is made on the GPU. A failure leaves what came before it to lsi_cuda_device_close. */
static ls_status set_up(lsi_cuda_device *d, const ls_device_options *options)
{
    LS_TRY(enter_first(d->ordinal, options->pci_address));
    LS_TRY(identify(d, options->isa, options->pci_address));
    cudaError_t kernels = lsi_cuda_kernels_check();
    if (kernels != cudaSuccess) {
        return LSI_CUDA_FAIL(kernels, d->ordinal, "cudaFuncGetAttributes",
                             "this build has no kernels for %s: it has them for compute capabilities "
                             LSI_CUDA_ARCHITECTURES "; build it with this one in -DLOCKSTEP_CUDA_ARCHITECTURES",
                             d->description);
    }
    LS_TRY(lsi_cuda_driver_load(d->ordinal, &d->driver));
    LS_TRY(lsi_cuda_release_open(d));
    LSI_CUDA_TRY(d->ordinal,
                 cudaHostAlloc((void **)&d->fault, sizeof *d->fault, cudaHostAllocPortable | cudaHostAllocMapped),
                 "cannot allocate %zu bytes of pinned memory", sizeof *d->fault);
    memset(d->fault, 0, sizeof *d->fault);
    return lsi_cuda_stamp_open(d);
}

ls_status lsi_cuda_device_open(const ls_device_options *options, ls_device **out)
{
    int count = 0;
    lsi_cuda_device *d;

    LS_REQUIRE(options->struct_size == sizeof *options, LS_ERR_INTERNAL,
               "device options of %zu bytes, this library's have %zu", options->struct_size, sizeof *options);
    LS_TRY(lsi_cuda_driver_count(&count));
    LS_REQUIRE(options->ordinal >= 0 && options->ordinal < count, LS_ERR_DEVICE,
               "cuda device %d does not exist; there are %d", options->ordinal, count);
    LS_TRY(lsi_memory_alloc(sizeof *d, "cuda device", (void **)&d));
    d->head.backend = &lsi_cuda_backend;
    d->ordinal = options->ordinal;
    d->sync_each_op = options->sync_each_op;
    d->tf32 = options->tf32;
    pthread_mutex_init(&d->mutex, NULL);
    ls_status status = set_up(d, options);
    if (status != LS_OK) {
        lsi_cuda_device_close(&d->head);
        return status;
    }
    *out = &d->head;
    return LS_OK;
}

/* ---- closing -------------------------------------------------------------------------------------------------- */

static void free_extensions(lsi_cuda_device *d)
{
    while (d->extensions != NULL) {
        lsi_cuda_extension *extension = d->extensions;

        d->extensions = extension->next;
        extension->destroy(extension);
    }
}

/* Whatever is still alive was made from the device and points to it: a mistake of the caller, worth a line. */
void lsi_cuda_device_close(ls_device *device)
{
    lsi_cuda_device *d = (lsi_cuda_device *)device;

    if (d == NULL) {
        return;
    }
    if (d->n_streams != 0 || d->n_events != 0 || d->n_recordings != 0 || d->n_blocks != 0) {
        lsi_log_warn("the cuda device closes with %d streams, %d events, %d recordings and %d blocks of memory (%zu "
                     "bytes) alive",
                     d->n_streams, d->n_events, d->n_recordings, d->n_blocks, d->n_bytes);
    }
    lsi_cuda_release_close(d);
    (void)lsi_cuda_device_enter(d);
    free_extensions(d);
    lsi_cuda_stamp_close(d);
    if (d->fault != NULL) {
        (void)cudaFreeHost(d->fault);
    }
    pthread_mutex_destroy(&d->mutex);
    lsi_memory_free(d);
}

/* ---- what it is ------------------------------------------------------------------------------------------------ */

const char *lsi_cuda_device_describe(ls_device *device)
{
    return ((lsi_cuda_device *)device)->description;
}

const char *lsi_cuda_device_place(ls_device *device)
{
    return ((lsi_cuda_device *)device)->place;
}

const char *lsi_cuda_device_variant(ls_device *device)
{
    return ((lsi_cuda_device *)device)->variant;
}

int lsi_cuda_ordinal(ls_device *device)
{
    return ((lsi_cuda_device *)device)->ordinal;
}

int lsi_cuda_capability(ls_device *device)
{
    return ((lsi_cuda_device *)device)->capability;
}

bool lsi_cuda_uses_tf32(ls_device *device)
{
    return ((lsi_cuda_device *)device)->tf32;
}

const char *lsi_cuda_model(ls_device *device)
{
    return ((lsi_cuda_device *)device)->model;
}

const char *lsi_cuda_library(ls_device *device)
{
    return ((lsi_cuda_device *)device)->library;
}

void lsi_cuda_enter(ls_device *device)
{
    lsi_cuda_device_enter((lsi_cuda_device *)device);
}

lsi_cuda_extension *lsi_cuda_extension_find(ls_device *device, const void *key)
{
    lsi_cuda_extension *extension = ((lsi_cuda_device *)device)->extensions;

    while (extension != NULL && extension->key != key) {
        extension = extension->next;
    }
    return extension;
}

void lsi_cuda_extension_keep(ls_device *device, lsi_cuda_extension *extension)
{
    lsi_cuda_device *d = (lsi_cuda_device *)device;

    extension->next = d->extensions;
    d->extensions = extension;
}
