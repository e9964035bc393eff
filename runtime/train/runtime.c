#include "train/runtime.h"

#include <stdio.h>
#include <string.h>

#include "backend/registry.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/version.h"
#include "comm/registry.h"
#include "device/capability.h"
#include "device/near_cores.h"
#include "job/stop.h"
#include "kernels/ops.h"
#include "train/precision.h"
#include <lockstep/checkpoint.h>

ls_status lsi_runtime_agree(ls_runtime *runtime, ls_status mine)
{
    ls_status status = lsi_job_agree(runtime->job, mine);

    if (status != LS_OK) {
        runtime->agreed = true;
    }
    return status;
}

ls_status lsi_runtime_stopped(ls_runtime *runtime, int reason, bool saved)
{
    if (saved) {
        runtime->agreed = true;
        return LS_STOPPED;
    }
    runtime->stopped_code = reason >= LSI_STOP_SIGNAL ? 128 + reason - LSI_STOP_SIGNAL : 0;
    return LS_OK;
}

void lsi_runtime_abort(void *runtime, ls_status why)
{
    lsi_job_abort(((ls_runtime *)runtime)->job, why);
}

ls_status lsi_runtime_share_config(lsi_job *job, ls_status mine, lsi_config **config)
{
    lsi_text text = {0};
    char *copy = NULL;

    if (job->rank == 0 && mine == LS_OK) {
        lsi_config_print(*config, &text);
        mine = lsi_text_status(&text);
        if (mine == LS_OK) {
            mine = lsi_memory_strdup(text.data, &copy);
        }
    }
    lsi_text_free(&text);
    ls_status status = lsi_job_agree(job, mine);
    if (status == LS_OK) {
        status = lsi_job_broadcast_text(job, &copy, 0);
    }
    if (status == LS_OK) {
        /* Rank 0 keeps what it resolved (with the origins); the text reads back to the same values. */
        status = lsi_job_agree(job, job->rank == 0 ? LS_OK : lsi_config_parse(copy, config));
    }
    lsi_memory_free(copy);
    return status;
}

/* ---- opening ------------------------------------------------------------------------------------------------- */

static ls_status check_capability(const ls_runtime *rt)
{
    lsi_text advice = {0};
    ls_status status =
        lsi_capability_check(&rt->binding->gpu, rt->config->precision.compute, rt->job->host, &advice);

    if (advice.length > 0) {
        lsi_log_warn("%s", advice.data);
    }
    lsi_text_free(&advice);
    return status;
}

/* Collective. The name others of the host read is that of the folder the run writes to. */
static ls_status bind_device(ls_runtime *rt)
{
    const char *dir = rt->config->log.dir, *slash = strrchr(dir, '/');

    if (strcmp(rt->backend->name, "cpu") == 0) {
        return LS_OK;
    }
    ls_status status =
        lsi_binding_open(rt->job, rt->config, slash != NULL ? slash + 1 : dir, rt->watchdog, &rt->binding);
    rt->agreed = rt->agreed || status != LS_OK;
    return status == LS_OK ? lsi_runtime_agree(rt, check_capability(rt)) : status;
}

/* Collective. Before the device: its threads get the cores of the one that starts them. */
static ls_status choose_cores(ls_runtime *rt)
{
    const char *how = rt->config->device.cpu_affinity;
    lsi_text note = {0};

    if (rt->binding != NULL && strcmp(how, "auto") == 0) {
        LS_TRY(lsi_runtime_agree(rt, lsi_near_cores_bind(rt->job, &rt->binding->gpu, &note)));
    }
    if (note.length > 0) {
        lsi_log_warn("%s", note.data);
    }
    lsi_text_clear(&note);
    LS_TRY(lsi_affinity_decide(rt->job, (int)rt->config->device.threads, &rt->affinity));
    if (rt->config->device.threads == 0 && strcmp(how, "none") != 0) {
        lsi_affinity_warning(&rt->affinity, &note);
        if (note.length > 0 && rt->job->rank == 0) {
            lsi_log_warn("%s", note.data);
        }
    }
    lsi_text_free(&note);
    return LS_OK;
}

static ls_status open_device(ls_runtime *rt, const char *isa)
{
    char address[24];
    ls_device_options options = {
        .struct_size = sizeof options,
        .n_threads = rt->affinity.threads,
        .isa = isa,
        .sync_each_op = rt->config->device.sync_each_op,
        .tf32 = strcmp(rt->config->precision.compute, "tf32") == 0,
    };

    if (rt->binding != NULL) {
        lsi_inventory_pci_text(&rt->binding->gpu, address);
        options.ordinal = rt->binding->gpu.ordinal;
        options.pci_address = address;
    }
    return rt->backend->open(&options, &rt->device);
}

enum { VARIANT_BYTES = 32 };

/* Lowest kernel variant over all ranks: names of one family sort by level. */
static ls_status common_variant(ls_runtime *rt, char out[VARIANT_BYTES])
{
    char mine[VARIANT_BYTES] = {0}, *all;

    snprintf(mine, sizeof mine, "%s", rt->backend->variant(rt->device));
    LS_TRY(lsi_memory_alloc((size_t)rt->job->world * VARIANT_BYTES, "kernel variants", (void **)&all));
    ls_status status = lsi_job_all_gather(rt->job, mine, VARIANT_BYTES, all);
    memcpy(out, mine, VARIANT_BYTES);
    for (int r = 0; status == LS_OK && r < rt->job->world; r++) {
        if (strcmp(all + r * VARIANT_BYTES, out) < 0) {
            memcpy(out, all + r * VARIANT_BYTES, VARIANT_BYTES);
        }
    }
    lsi_memory_free(all);
    return status;
}

enum { PLAN_LIMIT = 64 << 20 };

/* Rank 0 has the file. */
static ls_status read_plan(const ls_runtime *rt, char **out)
{
    size_t size;

    return rt->job->rank == 0 ? lsi_file_read(rt->config->device.gemm_plan, PLAN_LIMIT, LS_ERR_CONFIG, out, &size)
                              : LS_OK;
}

static ls_status install_plan(ls_runtime *rt, const char *text)
{
    const char *path = rt->config->device.gemm_plan;

    LS_TRY(lsi_memory_alloc(sizeof *rt->tuning, "plan of matrix products", (void **)&rt->tuning));
    LS_TRY(lsi_tuning_parse(path, text, strlen(text), rt->tuning));
    return lsi_tuning_install(rt->tuning, path, rt->device);
}

/* Collective. */
static ls_status load_plan(ls_runtime *rt)
{
    char *text = NULL;

    if (rt->config->device.gemm_plan[0] == '\0') {
        return LS_OK;
    }
    ls_status status = lsi_runtime_agree(rt, read_plan(rt, &text));
    if (status == LS_OK) {
        status = lsi_runtime_agree(rt, lsi_job_broadcast_text(rt->job, &text, 0));
    }
    if (status == LS_OK) {
        status = lsi_runtime_agree(rt, install_plan(rt, text));
    }
    lsi_memory_free(text);
    return status;
}

static void free_plan(ls_runtime *rt)
{
    if (rt->tuning != NULL) {
        lsi_tuning_free(rt->tuning);
        lsi_memory_free(rt->tuning);
    }
}

/* Equal bits are promised only between equal fingerprints, so the ranks of one job must share it. */
static ls_status agree_on_fingerprint(ls_runtime *rt)
{
    enum { BYTES = sizeof rt->fingerprint };
    char *all, note[LSI_PRECISION_NOTE];
    bool differs = false;

    lsi_precision_note(rt->config, rt->device, note);
    snprintf(rt->fingerprint, BYTES, "lockstep %s %s, %s; %s; %s%s%s%s; lanes %d, block %d", lsi_version(),
             lsi_version_git(), lsi_version_compiler(), rt->backend->describe(rt->device),
             rt->config->precision.compute, note,
             rt->tuning != NULL ? ", gemm plan " : "", rt->tuning != NULL ? rt->tuning->hash : "",
             rt->geometry.n_lanes, LSI_BLOCK);
    LS_TRY(lsi_memory_alloc((size_t)rt->job->world * BYTES, "fingerprints", (void **)&all));
    ls_status status = lsi_job_all_gather(rt->job, rt->fingerprint, BYTES, all);
    for (int r = 0; status == LS_OK && r < rt->job->world; r++) {
        if (strncmp(all + (size_t)r * BYTES, rt->fingerprint, BYTES) != 0) {
            if (strcmp(rt->config->device.mixed, "allow") == 0) {
                differs = true;
                continue;
            }
            status = LS_FAIL(LS_ERR_DEVICE, "this rank and rank %d would not give the same bits: '%s' against '%.*s'",
                             r, rt->fingerprint, BYTES, all + (size_t)r * BYTES);
        }
    }
    differs = differs && status == LS_OK;
    if (differs && rt->job->rank == 0) {
        lsi_log_warn("device.mixed = allow: ranks round differently, so that no other set of devices gives these bits");
    }
    lsi_memory_free(all);
    return status;
}

static ls_status open_comm(ls_runtime *rt)
{
    lsi_comm_options options = {
        .transport = rt->config->comm.transport,
        .job = rt->job,
        .device = rt->device,
        .account = &rt->account,
        .n_lanes = rt->geometry.n_lanes,
        .share = rt->geometry.share,
        .fast = lsi_precision_is_fast(rt->config),
        .wire = lsi_precision_wire(rt->config),
        .timeout_seconds = rt->config->comm.timeout,
        .watchdog = rt->watchdog,
        .on_failure = lsi_runtime_abort,
        .failure_argument = rt,
    };

    return lsi_comm_open(&options, &rt->comm);
}

static ls_status open_all(ls_runtime *rt)
{
    char variant[VARIANT_BYTES];

    LS_TRY(lsi_watchdog_start(rt->job, rt->config->comm.timeout, &rt->watchdog));
    lsi_watchdog_enter(rt->watchdog, "opening the device");
    LS_TRY(lsi_runtime_agree(rt, lsi_geometry_make(rt->config, rt->job, &rt->geometry)));
    LS_TRY(lsi_runtime_agree(rt, lsi_backend_find(rt->config->device.backend, &rt->backend)));
    LS_TRY(bind_device(rt));
    LS_TRY(choose_cores(rt));
    lsi_watchdog_enter(rt->watchdog, "opening the device");
    LS_TRY(lsi_runtime_agree(rt, open_device(rt, NULL)));
    LS_TRY(lsi_runtime_agree(rt, common_variant(rt, variant)));
    if (strcmp(variant, rt->backend->variant(rt->device)) != 0) {
        rt->backend->close(rt->device);
        rt->device = NULL;
    }
    LS_TRY(lsi_runtime_agree(rt, rt->device == NULL ? open_device(rt, variant) : LS_OK));
    LS_TRY(load_plan(rt));
    LS_TRY(lsi_runtime_agree(rt, agree_on_fingerprint(rt)));
    rt->account.poison = rt->config->device.poison;
    return lsi_runtime_agree(rt, open_comm(rt));
}

ls_status lsi_runtime_open(lsi_job *job, lsi_config *config, ls_runtime **out)
{
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    ls_runtime *rt;

    ls_status status = lsi_job_agree(job, lsi_memory_alloc(sizeof *rt, "runtime", (void **)&rt));
    if (status != LS_OK) {
        lsi_config_destroy(&config);
        lsi_job_close(&job);
        return status;
    }
    rt->opened_seconds = lsi_clock_seconds();
    rt->job = job;
    rt->loaded = config;
    rt->config = lsi_config_values(config);
    for (int level = 0; level < 4; level++) {
        if (strcmp(rt->config->log.level, levels[level]) == 0) {
            lsi_log_set_level((lsi_log_level)level);
        }
    }
    status = open_all(rt);
    if (status != LS_OK) {
        (void)ls_runtime_close(&rt, status);
        return status;
    }
    *out = rt;
    return LS_OK;
}

/* ---- closing ------------------------------------------------------------------------------------------------- */

void lsi_runtime_adopt(ls_runtime *runtime, lsi_runtime_child *child)
{
    child->older = runtime->newest;
    runtime->newest = child;
}

void lsi_runtime_disown(ls_runtime *runtime, lsi_runtime_child *child)
{
    for (lsi_runtime_child **link = &runtime->newest; *link != NULL; link = &(*link)->older) {
        if (*link == child) {
            *link = child->older;
            return;
        }
    }
}

int ls_runtime_close(ls_runtime **runtime, ls_status why)
{
    ls_runtime *rt = *runtime;

    if (rt == NULL) {
        return ls_status_exit_code(why);
    }
    if (why != LS_OK && !rt->agreed) {
        lsi_job_abort(rt->job, why);
    }
    while (rt->newest != NULL) {
        rt->newest->release(rt->newest);
    }
    if (rt->comm != NULL) {
        rt->comm->transport->close(rt->comm);
    }
    if (rt->device != NULL) {
        rt->backend->close(rt->device);
    }
    lsi_binding_close(&rt->binding);
    lsi_watchdog_stop(&rt->watchdog);
    lsi_geometry_free(&rt->geometry);
    free_plan(rt);
    lsi_config_destroy(&rt->loaded);
    lsi_job_close(&rt->job);
    int stopped_code = rt->stopped_code;
    lsi_memory_free(rt);
    *runtime = NULL;
    return why == LS_OK ? stopped_code : ls_status_exit_code(why);
}

const ls_config *ls_runtime_config(const ls_runtime *runtime)
{
    return runtime->config;
}

int ls_rank(const ls_runtime *runtime)
{
    return runtime->job->rank;
}

int ls_world(const ls_runtime *runtime)
{
    return runtime->job->world;
}

ls_device *ls_runtime_device(const ls_runtime *runtime)
{
    return runtime->device;
}

void ls_request_stop(void)
{
    lsi_stop_request(LSI_STOP_PROGRAM);
}
