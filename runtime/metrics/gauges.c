#include "metrics/gauges.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

static const struct {
    const char *kind, *name, *help, *json;
    double factor;
} gpu_rows[LSI_GPU_GAUGES] = {
#define LS_GPU_GAUGE(field, kind, name, help, json, factor) {#kind, name, help, json, factor},
#define LS_TRAINER_GAUGE(field, kind, name, help)
#include "metrics/gauges.def"
#undef LS_GPU_GAUGE
#undef LS_TRAINER_GAUGE
};

static const struct {
    const char *kind, *name, *help;
} trainer_rows[LSI_TRAINER_GAUGES] = {
#define LS_GPU_GAUGE(field, kind, name, help, json, factor)
#define LS_TRAINER_GAUGE(field, kind, name, help) {#kind, name, help},
#include "metrics/gauges.def"
#undef LS_GPU_GAUGE
#undef LS_TRAINER_GAUGE
};

const char *lsi_gauges_json_name(lsi_gpu_gauge gauge)
{
    return gpu_rows[gauge].json;
}

double lsi_gauges_json_factor(lsi_gpu_gauge gauge)
{
    return gpu_rows[gauge].factor;
}

/* ---- numbers of a GPU ------------------------------------------------------------------------------------------ */

static double told(int64_t value, double factor)
{
    return value == LSI_GPU_UNKNOWN ? (double)NAN : (double)value * factor;
}

static bool is_ours(int64_t pid, const int64_t *pids, int n_pids)
{
    for (int i = 0; i < n_pids; i++) {
        if (pids[i] == pid) {
            return true;
        }
    }
    return false;
}

/* In a container the driver tells the host's process ids: none of them is ours then, and who is who is not known. A
 * desktop's windows are no strangers that matter. */
static int count_strangers(const lsi_gpu *gpu, const int64_t *pids, int n_pids)
{
    int listed = gpu->n_processes < LSI_GPU_PROCESSES ? gpu->n_processes : LSI_GPU_PROCESSES, ours = 0, strangers = 0;

    for (int i = 0; i < listed; i++) {
        bool mine = is_ours(gpu->processes[i].pid, pids, n_pids);

        ours += mine;
        strangers += !mine && !gpu->processes[i].graphics;
    }
    return gpu->n_processes == LSI_GPU_UNKNOWN || ours == 0 ? -1 : strangers;
}

static void whole_gpu(const lsi_gpu *gpu, double *value)
{
    value[LSI_GPU_GAUGE_temperature] = told(gpu->temperature_c, 1);
    value[LSI_GPU_GAUGE_power] = told(gpu->power_mw, 1e-3);
    value[LSI_GPU_GAUGE_energy] = told(gpu->energy_mj, 1);
    value[LSI_GPU_GAUGE_sm_clock] = told(gpu->sm_clock_mhz, 1);
    value[LSI_GPU_GAUGE_memory_clock] = told(gpu->memory_clock_mhz, 1);
    value[LSI_GPU_GAUGE_pcie_replays] = told(gpu->pcie_replays, 1);
    value[LSI_GPU_GAUGE_throttle] = told(gpu->throttle_reasons, 1);
    value[LSI_GPU_GAUGE_xid] = (double)NAN; /* the inventory does not know: it comes as an event */
}

void lsi_gauges_of_gpu(const lsi_inventory *inventory, int place, const int64_t *pids, int n_pids, lsi_gpu_numbers *out)
{
    const lsi_gpu *gpu = &inventory->gpus[place];
    bool sizes = gpu->memory_total != LSI_GPU_UNKNOWN && gpu->memory_free != LSI_GPU_UNKNOWN;

    *out = (lsi_gpu_numbers){.strangers = count_strangers(gpu, pids, n_pids), .valid = 1};
    whole_gpu(&inventory->gpus[lsi_inventory_whole(inventory, place)], out->value);
    out->value[LSI_GPU_GAUGE_utilization] = told(gpu->utilization, 1);
    out->value[LSI_GPU_GAUGE_memory_utilization] = told(gpu->memory_utilization, 1);
    out->value[LSI_GPU_GAUGE_memory_used] = told(sizes ? gpu->memory_total - gpu->memory_free : -1, 0x1p-20);
    out->value[LSI_GPU_GAUGE_memory_free] = told(gpu->memory_free, 0x1p-20);
    if (gpu->lost) {
        for (int i = 0; i < LSI_GPU_GAUGES; i++) {
            out->value[i] = (double)NAN;
        }
    }
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void append_head(lsi_text *out, const char *name, const char *help, const char *kind)
{
    lsi_text_append(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

/* The value of a label: backslash, quote and newline are escaped. */
static void append_label(lsi_text *out, const char *name, const char *value, bool first)
{
    lsi_text_append(out, "%s%s=\"", first ? "{" : ",", name);
    for (const char *at = value; *at != '\0'; at++) {
        if (*at == '\n') {
            lsi_text_append(out, "\\n");
        } else {
            lsi_text_append(out, "%s%c", *at == '\\' || *at == '"' ? "\\" : "", *at);
        }
    }
    lsi_text_append(out, "\"");
}

static void append_value(lsi_text *out, double value)
{
    lsi_text_append(out, "} ");
    if (isfinite(value)) {
        lsi_number_append_real(out, value);
    } else {
        lsi_text_append(out, "%s", isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
    }
    lsi_text_append(out, "\n");
}

static bool is_told(const lsi_gpu_numbers *numbers, int gauge)
{
    return numbers->valid && !isnan(numbers->value[gauge]);
}

static void append_gpu(lsi_text *out, const char *name, const lsi_gpu_label *label, double value)
{
    char index[24], device[32], rank[24];

    snprintf(index, sizeof index, "%d", label->index);
    snprintf(device, sizeof device, "nvidia%d", label->index);
    snprintf(rank, sizeof rank, "%d", label->rank);
    lsi_text_append(out, "%s", name);
    append_label(out, "gpu", index, true);
    append_label(out, "UUID", label->uuid, false);
    append_label(out, "device", device, false);
    append_label(out, "modelName", label->name, false);
    append_label(out, "Hostname", label->host, false);
    append_label(out, "rank", rank, false);
    append_value(out, value);
}

void lsi_gauges_append_gpus(const lsi_gpu_label *labels, const lsi_gpu_numbers *numbers, const int *which, int n,
                            lsi_text *out)
{
    for (int g = 0; g < LSI_GPU_GAUGES; g++) {
        bool headed = false;

        for (int i = 0; i < n; i++) {
            if (!is_told(&numbers[which[i]], g)) {
                continue;
            }
            if (!headed) {
                append_head(out, gpu_rows[g].name, gpu_rows[g].help, gpu_rows[g].kind);
                headed = true;
            }
            append_gpu(out, gpu_rows[g].name, &labels[which[i]], numbers[which[i]].value[g]);
        }
    }
}

void lsi_gauges_tell(lsi_trainer_numbers *numbers, lsi_trainer_gauge gauge, double value)
{
    numbers->value[gauge] = value;
    numbers->told[gauge] = true;
}

void lsi_gauges_append_trainer(const lsi_trainer_numbers *numbers, const char *host, int rank, lsi_text *out)
{
    char text[24];

    snprintf(text, sizeof text, "%d", rank);
    for (int g = 0; g < LSI_TRAINER_GAUGES; g++) {
        if (!numbers->told[g]) {
            continue;
        }
        append_head(out, trainer_rows[g].name, trainer_rows[g].help, trainer_rows[g].kind);
        lsi_text_append(out, "%s", trainer_rows[g].name);
        append_label(out, "host", host, true);
        append_label(out, "rank", text, false);
        append_value(out, numbers->value[g]);
    }
}
