#include "backend/cpu/device.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>

#include "backend/cpu/event.h"
#include "backend/cpu/isa.h"
#include "backend/registry.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/proc.h"
#include "base/text.h"
#include "base/tsan.h"

/* ---- opening and closing ------------------------------------------------------------------------------------ */

static ls_status choose_isa(const char *name, int *out)
{
    lsi_isa best = lsi_isa_best();
    int chosen = name == NULL ? (int)best : lsi_isa_find(name);

    if (chosen < 0 || chosen > (int)best) {
        lsi_text choices = {0};

        for (int isa = 0; isa <= (int)best; isa++) {
            lsi_text_append(&choices, "%s%s", isa == 0 ? "" : ", ", lsi_isa_name((lsi_isa)isa));
        }
        ls_status status = lsi_text_status(&choices);
        if (status == LS_OK) {
            status = LS_FAIL(LS_ERR_DEVICE, "kernel variant '%s' %s; choices: %s", name,
                             chosen < 0 ? "is unknown" : "needs another processor", choices.data);
        }
        lsi_text_free(&choices);
        return status;
    }
    *out = chosen;
    return LS_OK;
}

static const char *dnnl_isa_name(dnnl_cpu_isa_t isa)
{
    switch (isa) {
    case dnnl_cpu_isa_sse41:
        return "sse4.1";
    case dnnl_cpu_isa_avx:
        return "avx";
    case dnnl_cpu_isa_avx2:
        return "avx2";
    case dnnl_cpu_isa_avx2_vnni:
        return "avx2_vnni";
    case dnnl_cpu_isa_avx512_core:
        return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni:
        return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16:
        return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_amx:
        return "avx512_core_amx";
    default:
        return NULL;
    }
}

/* Without the number of threads: it changes no bits, and the line is part of the numeric fingerprint. */
static void describe(lsi_cpu_device *d)
{
    const dnnl_version_t *version = dnnl_version();
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    char model[96] = "unknown model", isa_name[24];

    lsi_proc_find("/proc/cpuinfo", "model name", model, sizeof model);
    snprintf(isa_name, sizeof isa_name, "isa 0x%x", (unsigned)isa);
    snprintf(d->description, sizeof d->description, "cpu %s, %s, oneDNN %d.%d.%d (%s)", model,
             lsi_isa_name((lsi_isa)d->run.isa), version->major, version->minor, version->patch,
             dnnl_isa_name(isa) != NULL ? dnnl_isa_name(isa) : isa_name);
}

ls_status lsi_cpu_device_open(const ls_device_options *options, ls_device **out)
{
    void *memory = NULL, *stamps = NULL;
    lsi_pool *pool = NULL;
    ls_status status;
    int isa = 0;

    LS_REQUIRE(options->struct_size == sizeof *options, LS_ERR_INTERNAL,
               "device options of %zu bytes, this library's have %zu", options->struct_size, sizeof *options);
    LS_REQUIRE(options->ordinal == 0, LS_ERR_DEVICE, "cpu device %d does not exist; the host is device 0",
               options->ordinal);
    LS_REQUIRE(!options->tf32, LS_ERR_DEVICE, "the cpu has no TF32: precision.compute = tf32 needs a GPU");
    LS_TRY(choose_isa(options->isa, &isa));
    LS_TRY(lsi_memory_alloc(sizeof(lsi_cpu_device), "cpu device", &memory));
    LS_TRY_GOTO(status, failed, lsi_memory_alloc(LS_STAMP_RING * sizeof(ls_stamp), "time stamps", &stamps));
    LS_TRY_GOTO(status, failed, lsi_pool_create(options->n_threads, &pool));

    lsi_cpu_device *d = memory;
    d->head.backend = &lsi_cpu_backend;
    d->run = (struct ls_cpu_run){.pool = pool, .isa = isa};
    d->stamps = stamps;
    pthread_mutex_init(&d->failure_mutex, NULL);
    describe(d);
    *out = &d->head;
    return LS_OK;

failed:
    lsi_memory_free(stamps);
    lsi_memory_free(memory);
    return status;
}

/* Whatever is still alive was made from the device and points to it: a mistake of the caller, worth a line. */
void lsi_cpu_device_close(ls_device *device)
{
    lsi_cpu_device *d = (lsi_cpu_device *)device;

    if (d == NULL) {
        return;
    }
    if (d->n_streams != 0 || d->n_events != 0 || d->n_recordings != 0 || d->n_blocks != 0) {
        lsi_log_warn("the cpu device closes with %d streams, %d events, %d recordings and %d blocks of memory (%zu "
                     "bytes) alive",
                     d->n_streams, d->n_events, d->n_recordings, d->n_blocks, d->n_bytes);
    }
    lsi_cpu_event_free_all(d);
    lsi_pool_destroy(&d->run.pool);
    pthread_mutex_destroy(&d->failure_mutex);
    lsi_memory_free(d->stamps);
    lsi_memory_free(d);
}

const char *lsi_cpu_device_place(ls_device *device)
{
    (void)device;
    return "host";
}

const char *lsi_cpu_device_describe(ls_device *device)
{
    return ((lsi_cpu_device *)device)->description;
}

const char *lsi_cpu_device_variant(ls_device *device)
{
    return lsi_isa_name((lsi_isa)((lsi_cpu_device *)device)->run.isa);
}

/* ---- failures ----------------------------------------------------------------------------------------------- */

bool lsi_cpu_device_stopped(const lsi_cpu_device *device)
{
    return __atomic_load_n(&device->stopped, __ATOMIC_RELAXED) != 0;
}

void lsi_cpu_device_abort(ls_device *device)
{
    __atomic_fetch_or(&((lsi_cpu_device *)device)->stopped, LSI_CPU_ABORTED, __ATOMIC_RELAXED);
}

void lsi_cpu_device_fail(ls_device *device, ls_status status, const char *message)
{
    lsi_cpu_device *d = (lsi_cpu_device *)device;

    lsi_tsan_hide();
    pthread_mutex_lock(&d->failure_mutex);
    if (d->failure.status == LS_OK) {
        d->failure.status = status;
        d->failure.file = __FILE__;
        d->failure.line = __LINE__;
        snprintf(d->failure.message, sizeof d->failure.message, "%s", message);
    }
    pthread_mutex_unlock(&d->failure_mutex);
    __atomic_fetch_or(&d->stopped, LSI_CPU_FAILED, __ATOMIC_RELAXED);
    lsi_tsan_show();
}

ls_status lsi_cpu_device_check(lsi_cpu_device *device)
{
    lsi_failure failure;

    if (!lsi_cpu_device_stopped(device)) {
        return LS_OK;
    }
    lsi_tsan_hide();
    pthread_mutex_lock(&device->failure_mutex);
    failure = device->failure;
    pthread_mutex_unlock(&device->failure_mutex);
    lsi_tsan_show();
    return failure.status != LS_OK ? lsi_failure_adopt(&failure) : LS_FAIL(LS_ERR_INTERNAL, "the device was aborted");
}

/* ---- time stamps -------------------------------------------------------------------------------------------- */

/* The release lets a reader that finds the sequence find the rest too; edges mode does not see it. */
void lsi_cpu_device_stamp(lsi_cpu_device *device, uint32_t id)
{
    uint64_t sequence = __atomic_add_fetch(&device->n_stamps, 1, __ATOMIC_RELAXED);
    ls_stamp *stamp = &device->stamps[sequence % LS_STAMP_RING];

    lsi_tsan_hide();
    __atomic_store_n(&stamp->id, id, __ATOMIC_RELAXED);
    __atomic_store_n(&stamp->nanoseconds, lsi_clock_nanoseconds(), __ATOMIC_RELAXED);
    __atomic_store_n(&stamp->sequence, sequence, __ATOMIC_RELEASE);
    lsi_tsan_show();
}

const ls_stamp *lsi_cpu_device_stamps(ls_device *device)
{
    return ((lsi_cpu_device *)device)->stamps;
}

uint64_t lsi_cpu_device_stamp_count(ls_device *device)
{
    return __atomic_load_n(&((lsi_cpu_device *)device)->n_stamps, __ATOMIC_RELAXED);
}

uint64_t lsi_cpu_device_work_count(ls_device *device)
{
    return __atomic_load_n(&((lsi_cpu_device *)device)->n_done, __ATOMIC_RELAXED);
}
