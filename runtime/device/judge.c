#include "device/judge.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "device/xid.h"

static bool reject(lsi_verdict *out, lsi_reject why, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool reject(lsi_verdict *out, lsi_reject why, const char *format, ...)
{
    va_list arguments;

    out->reject = why;
    va_start(arguments, format);
    vsnprintf(out->reason, sizeof out->reason, format, arguments);
    va_end(arguments);
    return true;
}

typedef struct human {
    char text[32];
} human;

static human bytes(int64_t n)
{
    lsi_text text = {0};
    human out;

    lsi_number_append_bytes_human(&text, (double)n);
    snprintf(out.text, sizeof out.text, "%s", text.data != NULL ? text.data : "?");
    lsi_text_free(&text);
    return out;
}

/* The first process that computes; NULL: none is told. */
static const lsi_gpu_process *first_user(const lsi_gpu *gpu)
{
    for (int i = 0; i < gpu->n_processes && i < LSI_GPU_PROCESSES; i++) {
        if (!gpu->processes[i].graphics) {
            return &gpu->processes[i];
        }
    }
    return NULL;
}

static human name_user(const lsi_gpu *gpu)
{
    const lsi_gpu_process *user = first_user(gpu);
    human out = {"a process"};

    if (user != NULL && user->user[0] != '\0') {
        snprintf(out.text, sizeof out.text, "process %lld of %.10s", (long long)user->pid, user->user);
    } else if (user != NULL) {
        snprintf(out.text, sizeof out.text, "process %lld", (long long)user->pid);
    }
    return out;
}

/* ---- what does not change ------------------------------------------------------------------------------------------
 */

static bool contains(const char *text, const char *part)
{
    return strcasestr(text, part) != NULL;
}

static bool cannot_be_used(const lsi_judge *j, int place, lsi_verdict *out)
{
    const lsi_gpu *gpu = &j->inventory->gpus[place];

    if (gpu->lost) {
        return reject(out, LSI_REJECT_LOST, "does not answer");
    }
    if (gpu->mig) {
        return reject(out, LSI_REJECT_MIG, "in MIG mode: only its instances can be used, one a process");
    }
    if ((j->seen >> place & 1) == 0) {
        return reject(out, LSI_REJECT_HIDDEN, "not visible to this job (see `gpus --explain`)");
    }
    if (gpu->compute_mode == LSI_COMPUTE_PROHIBITED) {
        return reject(out, LSI_REJECT_PROHIBITED, "its compute mode is prohibited");
    }
    if (gpu->row_remap_failed == 1) {
        return reject(out, LSI_REJECT_UNHEALTHY, "its memory is faulty and has no spare rows left");
    }
    return false;
}

/* Who names a GPU gets it all the same. */
static bool has_failed(const lsi_judge *j, int place, lsi_verdict *out)
{
    int number = j->taken != NULL ? j->taken[place].xid : 0;

    if (number == 0 || j->named) {
        return false;
    }
    lsi_xid xid = lsi_xid_find(number);
    return reject(out, LSI_REJECT_UNHEALTHY, "Xid %d since the host's start: %s; %s, then remove its .fault file from "
                  "device.leases", number, xid.words, xid.advice);
}

static bool is_not_wanted(const lsi_judge *j, int place, lsi_verdict *out)
{
    const lsi_gpu *gpu = &j->inventory->gpus[place];
    const lsi_select_rules *rules = j->rules;

    if ((j->listed >> place & 1) == 0) {
        return reject(out, LSI_REJECT_NOT_LISTED, "not in device.select");
    }
    if ((j->excluded >> place & 1) != 0) {
        return reject(out, LSI_REJECT_EXCLUDED, "in device.exclude");
    }
    if (rules->name[0] != '\0' && !contains(gpu->name, rules->name)) {
        return reject(out, LSI_REJECT_NAME, "device.name is '%.60s'", rules->name);
    }
    if (rules->min_capability > 0 && gpu->capability < rules->min_capability) {
        return gpu->capability == LSI_GPU_UNKNOWN
                   ? reject(out, LSI_REJECT_CAPABILITY, "its compute capability is not told")
                   : reject(out, LSI_REJECT_CAPABILITY, "compute capability %d.%d, device.min_capability is %d.%d",
                            gpu->capability / 10, gpu->capability % 10, rules->min_capability / 10,
                            rules->min_capability % 10);
    }
    if (gpu->memory_total != LSI_GPU_UNKNOWN && gpu->memory_total < rules->min_free) {
        return reject(out, LSI_REJECT_TOO_SMALL, "%s in all, device.min_free is %s", bytes(gpu->memory_total).text,
                      bytes(rules->min_free).text);
    }
    return false;
}

/* ---- what may pass
 * --------------------------------------------------------------------------------------------------- */

static bool is_taken(const lsi_judge *j, int place, lsi_verdict *out)
{
    const lsi_gpu *gpu = &j->inventory->gpus[place];
    const lsi_select_taken *taken = j->taken != NULL ? &j->taken[place] : NULL;

    if (taken != NULL && taken->leased) {
        return reject(out, LSI_REJECT_LEASED, "leased by %s", taken->holder);
    }
    if (taken != NULL && taken->reserved) {
        return reject(out, LSI_REJECT_RESERVED, "reserved for %s", taken->holder);
    }
    if (gpu->compute_mode == LSI_COMPUTE_EXCLUSIVE && first_user(gpu) != NULL) {
        return reject(out, LSI_REJECT_EXCLUSIVE, "its compute mode is exclusive and %s has it", name_user(gpu).text);
    }
    if (taken != NULL && taken->occupied) {
        return reject(out, LSI_REJECT_OCCUPIED,
                      "in exclusive compute mode, and CUDA says that another process has it (device unavailable, 46)");
    }
    return false;
}

static bool is_busy(const lsi_judge *j, int place, lsi_verdict *out)
{
    const lsi_gpu *gpu = &j->inventory->gpus[place];
    const lsi_select_rules *rules = j->rules;

    if (rules->idle && gpu->n_processes == LSI_GPU_UNKNOWN) {
        return reject(out, LSI_REJECT_BUSY, "who uses it is not told, so device.idle cannot be kept");
    }
    if (rules->idle && first_user(gpu) != NULL) {
        return reject(out, LSI_REJECT_BUSY, "%s computes on it", name_user(gpu).text);
    }
    if (rules->min_free > 0 && gpu->memory_free < rules->min_free) {
        return gpu->memory_free == LSI_GPU_UNKNOWN
                   ? reject(out, LSI_REJECT_MEMORY, "its free memory is not told, so device.min_free cannot be kept")
                   : reject(out, LSI_REJECT_MEMORY, "%s free, device.min_free is %s", bytes(gpu->memory_free).text,
                            bytes(rules->min_free).text);
    }
    if (rules->max_utilization < 100 && gpu->utilization == LSI_GPU_UNKNOWN) {
        return reject(out, LSI_REJECT_UTILIZATION, "its load is not told, so device.max_utilization cannot be kept");
    }
    if (gpu->utilization > rules->max_utilization) {
        return reject(out, LSI_REJECT_UTILIZATION, "%d %% busy, device.max_utilization is %d", gpu->utilization,
                      rules->max_utilization);
    }
    return false;
}

void lsi_judge_gpu(const lsi_judge *judge, int place, lsi_verdict *out)
{
    *out = (lsi_verdict){LSI_REJECT_NO, ""};
    (void)(cannot_be_used(judge, place, out) || is_not_wanted(judge, place, out) || has_failed(judge, place, out) ||
           is_taken(judge, place, out) || is_busy(judge, place, out));
}

/* ---- which one is better
 * ----------------------------------------------------------------------------------------------- */

/* In steps, so that what a driver keeps for itself on an idle GPU does not decide. */
static int64_t free_gib(const lsi_gpu *gpu)
{
    int64_t free = gpu->memory_free != LSI_GPU_UNKNOWN ? gpu->memory_free : gpu->memory_total;

    return (free + ((int64_t)1 << 29)) >> 30;
}

int lsi_judge_compare(const lsi_inventory *inventory, int a, int b)
{
    const lsi_gpu *x = &inventory->gpus[a], *y = &inventory->gpus[b];
    int64_t differences[] = {
        (x->ecc_errors > 0) - (y->ecc_errors > 0),
        (first_user(x) != NULL) - (first_user(y) != NULL),
        free_gib(y) - free_gib(x),
        x->utilization / 5 - y->utilization / 5,
        a - b,
    };

    for (size_t i = 0; i < sizeof differences / sizeof differences[0]; i++) {
        if (differences[i] != 0) {
            return differences[i] < 0 ? -1 : 1;
        }
    }
    return 0;
}
