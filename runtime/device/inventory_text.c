#include "device/inventory_text.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"

static const double bytes_per_gib = 1024.0 * 1024.0 * 1024.0;

/* ---- one GPU -------------------------------------------------------------------------------------------------------
 */

static void append_title(const lsi_gpu *gpu, lsi_text *out)
{
    if (gpu->nvml_index != LSI_GPU_UNKNOWN) {
        lsi_text_append(out, "GPU %d", gpu->nvml_index);
    } else {
        lsi_text_append(out, "GPU of CUDA's number %d", gpu->ordinal);
    }
    if (gpu->parent != LSI_GPU_UNKNOWN) {
        lsi_text_append(out, ", instance %d/%d", gpu->gpu_instance, gpu->compute_instance);
    }
    if (gpu->lost) {
        lsi_text_append(out, ": does not answer\n");
    } else {
        lsi_text_append(out, ": %s (UUID: %s)\n", gpu->name[0] != '\0' ? gpu->name : "n/a",
                        gpu->uuid[0] != '\0' ? gpu->uuid : "n/a");
    }
}

static void append_memory(const lsi_gpu *gpu, lsi_text *out)
{
    if (gpu->memory_total == LSI_GPU_UNKNOWN) {
        lsi_text_append(out, ", memory n/a");
    } else if (gpu->memory_free == LSI_GPU_UNKNOWN) {
        lsi_text_append(out, ", %.1f GiB (free: n/a)", (double)gpu->memory_total / bytes_per_gib);
    } else {
        lsi_text_append(out, ", %.1f of %.1f GiB free", (double)gpu->memory_free / bytes_per_gib,
                        (double)gpu->memory_total / bytes_per_gib);
    }
}

static void append_figure(int value, const char *unit, lsi_text *out)
{
    if (value != LSI_GPU_UNKNOWN) {
        lsi_text_append(out, ", %d%s", value, unit);
    }
}

/* NVML's bits that mean trouble; that a GPU idles, or that someone has set its clocks, is none. */
static const struct {
    int64_t bit;
    const char *text;
} throttles[] = {
    {0x4, "power limit"},
    {0x8, "hardware slowdown"},
    {0x20, "temperature (software)"},
    {0x40, "temperature (hardware)"},
    {0x80, "power brake"},
};

void lsi_inventory_append_throttles(int64_t bits, const char *before, lsi_text *out)
{
    for (size_t i = 0; i < sizeof throttles / sizeof throttles[0]; i++) {
        if ((bits & throttles[i].bit) != 0) {
            lsi_text_append(out, "%s%s", before, throttles[i].text);
        }
    }
}

static void append_trouble(const lsi_gpu *gpu, lsi_text *out)
{
    static const char *const modes[] = {"", "", "prohibited", "exclusive process"};

    if (gpu->compute_mode == LSI_COMPUTE_PROHIBITED || gpu->compute_mode == LSI_COMPUTE_EXCLUSIVE) {
        lsi_text_append(out, ", compute mode %s", modes[gpu->compute_mode]);
    }
    if (gpu->mig) {
        lsi_text_append(out, ", MIG mode");
    }
    if (gpu->throttle_reasons != LSI_GPU_UNKNOWN) {
        lsi_inventory_append_throttles(gpu->throttle_reasons, ", slowed down by ", out);
    }
    if (gpu->ecc_errors > 0) {
        lsi_text_append(out, ", %lld uncorrected memory errors", (long long)gpu->ecc_errors);
    }
    if (gpu->row_remap_failed == 1) {
        lsi_text_append(out, ", faulty memory (no spare rows left)");
    }
}

static void append_facts(const lsi_gpu *gpu, lsi_text *out)
{
    char pci[24];

    lsi_inventory_pci_text(gpu, pci);
    if (gpu->ordinal != LSI_GPU_UNKNOWN) {
        lsi_text_append(out, "    cuda:%d", gpu->ordinal);
    } else {
        lsi_text_append(out, "    not visible to this process");
    }
    lsi_text_append(out, ", PCI %s", pci);
    if (gpu->capability != LSI_GPU_UNKNOWN) {
        lsi_text_append(out, ", compute capability %d.%d", gpu->capability / 10, gpu->capability % 10);
    }
    append_memory(gpu, out);
    append_figure(gpu->utilization, " % busy", out);
    append_figure(gpu->temperature_c, " C", out);
    if (gpu->power_mw != LSI_GPU_UNKNOWN && gpu->power_limit_mw != LSI_GPU_UNKNOWN) {
        lsi_text_append(out, ", %d of %d W", gpu->power_mw / 1000, gpu->power_limit_mw / 1000);
    }
    if (gpu->sm_clock_mhz != LSI_GPU_UNKNOWN && gpu->max_sm_clock_mhz != LSI_GPU_UNKNOWN) {
        lsi_text_append(out, ", %d of %d MHz", gpu->sm_clock_mhz, gpu->max_sm_clock_mhz);
    }
    if (gpu->numa_node != LSI_GPU_UNKNOWN) {
        lsi_text_append(out, ", NUMA node %d", gpu->numa_node);
    }
    append_trouble(gpu, out);
    lsi_text_append(out, "\n");
}

static void append_process(const lsi_gpu_process *process, lsi_text *out)
{
    const char *separator = " (";

    lsi_text_append(out, "%lld", (long long)process->pid);
    if (process->user[0] != '\0') {
        lsi_text_append(out, "%s%s", separator, process->user);
        separator = ", ";
    }
    if (process->command[0] != '\0') {
        lsi_text_append(out, "%s%s", separator, process->command);
        separator = ", ";
    }
    if (process->bytes != LSI_GPU_UNKNOWN) {
        lsi_text_append(out, "%s%.1f GiB", separator, (double)process->bytes / bytes_per_gib);
        separator = ", ";
    }
    if (process->graphics) {
        lsi_text_append(out, "%sgraphics", separator);
        separator = ", ";
    }
    lsi_text_append(out, "%s", separator[0] == ',' ? ")" : "");
}

static void append_processes(const lsi_gpu *gpu, lsi_text *out)
{
    int told = gpu->n_processes < LSI_GPU_PROCESSES ? gpu->n_processes : LSI_GPU_PROCESSES;

    for (int i = 0; i < told; i++) {
        lsi_text_append(out, "%s", i == 0 ? "    in use by " : ", ");
        append_process(&gpu->processes[i], out);
    }
    if (told > 0) {
        lsi_text_append(out, told < gpu->n_processes ? " and others\n" : "\n");
    }
}

static void append_choice(const lsi_choice *choice, int place, lsi_text *out)
{
    if (choice->verdicts[place].reject != LSI_REJECT_NO) {
        lsi_text_append(out, "    not taken: %s\n", choice->verdicts[place].reason);
        return;
    }
    for (int i = 0; i < choice->n_ranked; i++) {
        if (choice->ranking[i] == place) {
            lsi_text_append(out, "    can be taken: choice %d of %d\n", i + 1, choice->n_ranked);
        }
    }
}

void lsi_inventory_describe(const lsi_inventory *inventory, int place, const lsi_choice *choice, lsi_text *out)
{
    const lsi_gpu *gpu = &inventory->gpus[place];

    append_title(gpu, out);
    if (!gpu->lost) {
        append_facts(gpu, out);
        append_processes(gpu, out);
    }
    if (choice != NULL) {
        append_choice(choice, place, out);
    }
}

/* ---- all of them
 * ----------------------------------------------------------------------------------------------------- */

static bool has_links(const lsi_inventory *inventory)
{
    for (int a = 0; a < inventory->n; a++) {
        for (int b = a + 1; b < inventory->n; b++) {
            if (inventory->link[a][b] != LSI_LINK_UNKNOWN) {
                return true;
            }
        }
    }
    return false;
}

static bool is_whole(const lsi_gpu *gpu)
{
    return gpu->parent == LSI_GPU_UNKNOWN && !gpu->lost && gpu->nvml_index != LSI_GPU_UNKNOWN;
}

static void append_links(const lsi_inventory *inventory, lsi_text *out)
{
    lsi_text_append(out, "links  ");
    for (int b = 0; b < inventory->n; b++) {
        if (is_whole(&inventory->gpus[b])) {
            lsi_text_append(out, " %6d", inventory->gpus[b].nvml_index);
        }
    }
    lsi_text_append(out, "\n");
    for (int a = 0; a < inventory->n; a++) {
        if (!is_whole(&inventory->gpus[a])) {
            continue;
        }
        lsi_text_append(out, "GPU %2d ", inventory->gpus[a].nvml_index);
        for (int b = 0; b < inventory->n; b++) {
            if (is_whole(&inventory->gpus[b])) {
                lsi_text_append(out, " %6s", a == b ? "-" : lsi_inventory_link_text(inventory->link[a][b]));
            }
        }
        lsi_text_append(out, "\n");
    }
}

void lsi_inventory_list(const lsi_inventory *inventory, const lsi_choice *choice, lsi_text *out)
{
    for (int i = 0; i < inventory->n; i++) {
        lsi_inventory_describe(inventory, i, choice, out);
    }
    if (has_links(inventory)) {
        append_links(inventory, out);
    }
    lsi_text_append(out, "%d GPU%s, %d visible to this process", inventory->n, inventory->n == 1 ? "" : "s",
                    inventory->n_visible);
    if (inventory->driver[0] != '\0') {
        lsi_text_append(out, "; driver %s", inventory->driver);
    }
    if (inventory->cuda_version != LSI_GPU_UNKNOWN) {
        lsi_text_append(out, "; runs CUDA up to %d.%d", inventory->cuda_version / 1000,
                        inventory->cuda_version % 1000 / 10);
    }
    lsi_text_append(out, "\n");
    if (inventory->nvml_trouble[0] != '\0') {
        lsi_text_append(out, "NVML: %s\n", inventory->nvml_trouble);
    }
    if (inventory->cuda_trouble[0] != '\0') {
        lsi_text_append(out, "CUDA: %s\n", inventory->cuda_trouble);
    }
}

/* ---- a table to watch
 * -------------------------------------------------------------------------------------------------- */

static const char *cell(int value, const char *format, char room[16])
{
    if (value == LSI_GPU_UNKNOWN) {
        snprintf(room, 16, "n/a");
    } else {
        snprintf(room, 16, format, value);
    }
    return room;
}

static void append_row(const lsi_gpu *gpu, lsi_text *out)
{
    char index[16], cuda[16], busy[16], heat[16], power[16], clock[16], memory[24] = "n/a", users[16];

    if (gpu->memory_total != LSI_GPU_UNKNOWN && gpu->memory_free != LSI_GPU_UNKNOWN) {
        snprintf(memory, sizeof memory, "%.1f/%.1f", (double)(gpu->memory_total - gpu->memory_free) / bytes_per_gib,
                 (double)gpu->memory_total / bytes_per_gib);
    }
    lsi_text_append(out, "%4s %5s  %-28.28s %12s %6s %6s %6s %8s %6s\n", cell(gpu->nvml_index, "%d", index),
                    cell(gpu->ordinal, "%d", cuda), gpu->lost ? "does not answer" : gpu->name, memory,
                    cell(gpu->utilization, "%d %%", busy), cell(gpu->temperature_c, "%d C", heat),
                    cell(gpu->power_mw == LSI_GPU_UNKNOWN ? LSI_GPU_UNKNOWN : gpu->power_mw / 1000, "%d W", power),
                    cell(gpu->sm_clock_mhz, "%d MHz", clock), cell(gpu->n_processes, "%d", users));
}

void lsi_inventory_table(const lsi_inventory *inventory, lsi_text *out)
{
    lsi_text_append(out, "%4s %5s  %-28s %12s %6s %6s %6s %8s %6s\n", "GPU", "cuda", "name", "used GiB", "busy", "temp",
                    "power", "SM", "procs");
    for (int i = 0; i < inventory->n; i++) {
        append_row(&inventory->gpus[i], out);
    }
}
