#include "device/inventory_text.h"

/* Names come from drivers and file systems: whatever is no printable ASCII is escaped byte by byte, so that the line is
 * JSON whatever they hold. */
static void append_string(lsi_text *out, const char *name, const char *value)
{
    lsi_text_append(out, ",\"%s\":", name);
    if (value[0] == '\0') {
        lsi_text_append(out, "null");
        return;
    }
    lsi_text_append(out, "\"");
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            lsi_text_append(out, "\\%c", *c);
        } else if (*c >= 0x20 && *c < 0x7f) {
            lsi_text_append(out, "%c", *c);
        } else {
            lsi_text_append(out, "\\u%04x", (unsigned)(unsigned char)*c);
        }
    }
    lsi_text_append(out, "\"");
}

static void append_int(lsi_text *out, const char *name, int64_t value)
{
    if (value == LSI_GPU_UNKNOWN) {
        lsi_text_append(out, ",\"%s\":null", name);
    } else {
        lsi_text_append(out, ",\"%s\":%lld", name, (long long)value);
    }
}

static void append_watts(lsi_text *out, const char *name, int milliwatts)
{
    if (milliwatts == LSI_GPU_UNKNOWN) {
        lsi_text_append(out, ",\"%s\":null", name);
    } else {
        lsi_text_append(out, ",\"%s\":%d.%03d", name, milliwatts / 1000, milliwatts % 1000);
    }
}

static void append_bool(lsi_text *out, const char *name, bool value)
{
    lsi_text_append(out, ",\"%s\":%s", name, value ? "true" : "false");
}

static void append_mode(lsi_text *out, int mode)
{
    append_string(out, "compute_mode",
                  mode == LSI_COMPUTE_DEFAULT      ? "default"
                  : mode == LSI_COMPUTE_PROHIBITED ? "prohibited"
                  : mode == LSI_COMPUTE_EXCLUSIVE  ? "exclusive"
                                                   : "");
}

static void append_processes(lsi_text *out, const lsi_gpu *gpu)
{
    int told = gpu->n_processes < LSI_GPU_PROCESSES ? gpu->n_processes : LSI_GPU_PROCESSES;

    append_int(out, "n_processes", gpu->n_processes);
    lsi_text_append(out, ",\"processes\":[");
    for (int i = 0; i < told; i++) {
        const lsi_gpu_process *p = &gpu->processes[i];

        lsi_text_append(out, "%s{\"pid\":%lld", i > 0 ? "," : "", (long long)p->pid);
        append_int(out, "bytes", p->bytes);
        append_string(out, "user", p->user);
        append_string(out, "command", p->command);
        append_bool(out, "graphics", p->graphics);
        lsi_text_append(out, "}");
    }
    lsi_text_append(out, "]");
}

static int rank_of(const lsi_choice *choice, int place)
{
    for (int i = 0; i < choice->n_ranked; i++) {
        if (choice->ranking[i] == place) {
            return i + 1;
        }
    }
    return LSI_GPU_UNKNOWN;
}

static void append_gpu(const lsi_inventory *inventory, int place, const lsi_choice *choice, lsi_text *out)
{
    const lsi_gpu *gpu = &inventory->gpus[place];
    char pci[24];

    lsi_inventory_pci_text(gpu, pci);
    lsi_text_append(out, "{\"place\":%d", place);
    append_int(out, "index", gpu->nvml_index);
    append_int(out, "cuda", gpu->ordinal);
    append_string(out, "uuid", gpu->uuid);
    append_string(out, "name", gpu->name);
    append_string(out, "pci", gpu->pci_bus == LSI_GPU_UNKNOWN ? "" : pci);
    append_int(out, "parent", gpu->parent);
    append_int(out, "gpu_instance", gpu->gpu_instance);
    append_int(out, "compute_instance", gpu->compute_instance);
    append_bool(out, "mig", gpu->mig);
    append_bool(out, "lost", gpu->lost);
    append_int(out, "compute_capability", gpu->capability);
    append_int(out, "sms", gpu->sms);
    append_int(out, "numa_node", gpu->numa_node);
    append_mode(out, gpu->compute_mode);
    append_int(out, "memory_total_bytes", gpu->memory_total);
    append_int(out, "memory_free_bytes", gpu->memory_free);
    append_int(out, "utilization_percent", gpu->utilization);
    append_int(out, "memory_utilization_percent", gpu->memory_utilization);
    append_int(out, "temperature_c", gpu->temperature_c);
    append_watts(out, "power_watts", gpu->power_mw);
    append_watts(out, "power_limit_watts", gpu->power_limit_mw);
    append_int(out, "sm_clock_mhz", gpu->sm_clock_mhz);
    append_int(out, "max_sm_clock_mhz", gpu->max_sm_clock_mhz);
    append_int(out, "throttle_reasons", gpu->throttle_reasons);
    append_int(out, "ecc_errors", gpu->ecc_errors);
    append_int(out, "row_remap_failed", gpu->row_remap_failed);
    append_processes(out, gpu);
    lsi_text_append(out, ",\"links\":[");
    for (int b = 0; b < inventory->n; b++) {
        lsi_text_append(out, "%s\"%s\"", b > 0 ? "," : "",
                        b == place ? "self" : lsi_inventory_link_text(inventory->link[place][b]));
    }
    lsi_text_append(out, "]");
    if (choice != NULL) {
        append_int(out, "choice", rank_of(choice, place));
        append_string(out, "not_taken", choice->verdicts[place].reason);
    }
    lsi_text_append(out, "}");
}

void lsi_inventory_json(const lsi_inventory *inventory, const lsi_choice *choice, lsi_text *out)
{
    lsi_text_append(out, "{\"n\":%d,\"n_visible\":%d", inventory->n, inventory->n_visible);
    append_string(out, "driver", inventory->driver);
    append_int(out, "cuda_version", inventory->cuda_version);
    append_string(out, "nvml_trouble", inventory->nvml_trouble);
    append_string(out, "cuda_trouble", inventory->cuda_trouble);
    lsi_text_append(out, ",\"gpus\":[");
    for (int i = 0; i < inventory->n; i++) {
        lsi_text_append(out, "%s", i > 0 ? "," : "");
        append_gpu(inventory, i, choice, out);
    }
    lsi_text_append(out, "]}\n");
}
