/* What decides which GPUs a process sees, in sentences. */
#include <stdlib.h>
#include <string.h>

#include "device/visibility.h"

static void append_gpu(const lsi_inventory *inventory, int place, lsi_text *out)
{
    const lsi_gpu *gpu = &inventory->gpus[place];
    char pci[24];

    lsi_inventory_pci_text(gpu, pci);
    lsi_text_append(out, "%s (%s, PCI %s)", gpu->name[0] != '\0' ? gpu->name : "a GPU",
                    gpu->uuid[0] != '\0' ? gpu->uuid : "UUID n/a", pci);
}

static const char *plural(int n)
{
    return n == 1 ? "" : "s";
}

/* ---- CUDA_VISIBLE_DEVICES ---------------------------------------------------------------------------------------- */

static int count_numbered(const lsi_inventory *inventory)
{
    lsi_visibility all;
    int n = 0;

    for (int i = 0; i < inventory->n; i++) {
        n += !inventory->gpus[i].lost && inventory->gpus[i].parent == LSI_GPU_UNKNOWN;
    }
    lsi_visibility_read(inventory, NULL, getenv("CUDA_DEVICE_ORDER"), &all);
    return n > all.n ? n : all.n;
}

static void append_verdict(const lsi_inventory *inventory, const lsi_visible_item *item, int ended_by, lsi_text *out)
{
    switch (item->verdict) {
    case LSI_VISIBLE_YES:
        append_gpu(inventory, item->gpu, out);
        break;
    case LSI_VISIBLE_EMPTY:
        lsi_text_append(out, "is empty, which is not a GPU: CUDA stops reading here");
        break;
    case LSI_VISIBLE_NO_NUMBER:
        lsi_text_append(out, "is neither a number nor a UUID (GPU-... or MIG-...): CUDA stops reading here");
        break;
    case LSI_VISIBLE_NEGATIVE:
        lsi_text_append(out, "is negative, which ends the list: CUDA stops reading here");
        break;
    case LSI_VISIBLE_OUT_OF_RANGE:
        lsi_text_append(out, "is no GPU of this host, which has %d: CUDA stops reading here",
                        count_numbered(inventory));
        break;
    case LSI_VISIBLE_UNKNOWN:
        lsi_text_append(out, "is no GPU of this host that can be used: CUDA stops reading here");
        break;
    case LSI_VISIBLE_AMBIGUOUS:
        lsi_text_append(out, "fits several GPUs: CUDA stops reading here; write more of the UUID");
        break;
    case LSI_VISIBLE_OTHER_KIND:
        lsi_text_append(out,
                        "is of another kind than item 1 (numbers, GPU- and MIG- do not mix): CUDA stops reading here");
        break;
    case LSI_VISIBLE_BLANK:
        lsi_text_append(out, "has a blank before the UUID, which CUDA takes for a part of it: it stops reading here");
        break;
    case LSI_VISIBLE_REPEATED:
        lsi_text_append(out, "names the same GPU again, and that makes CUDA show none at all: ");
        append_gpu(inventory, item->gpu, out);
        break;
    case LSI_VISIBLE_SECOND_INSTANCE:
        lsi_text_append(out, "is valid, but a process sees one MIG instance and nothing beside it: ");
        append_gpu(inventory, item->gpu, out);
        break;
    case LSI_VISIBLE_BEHIND_END:
        lsi_text_append(out, "is not read, because of item %d", ended_by);
        break;
    }
}

static void explain_items(const lsi_inventory *inventory, const lsi_visibility *v, lsi_text *out)
{
    int n = v->n_items < LSI_GPU_MAX + 1 ? v->n_items : LSI_GPU_MAX + 1, ended_by = 0;

    for (int i = 0; i < n; i++) {
        const lsi_visible_item *item = &v->items[i];

        lsi_text_append(out, "    %d. '%.*s' ", i + 1, item->length, v->value + item->begin);
        append_verdict(inventory, item, ended_by, out);
        lsi_text_append(out, "\n");
        if (ended_by == 0 && item->verdict != LSI_VISIBLE_YES && item->verdict != LSI_VISIBLE_SECOND_INSTANCE) {
            ended_by = i + 1;
        }
    }
    if (v->n == 0) {
        lsi_text_append(out, "  So no GPU is visible.\n");
    } else {
        lsi_text_append(out, "  So %d GPU%s visible", v->n, v->n == 1 ? " is" : "s are");
        if (v->n_items > v->n) {
            lsi_text_append(out, ", and %d of the %d items do%s nothing", v->n_items - v->n, v->n_items,
                            v->n_items - v->n == 1 ? "es" : "");
        }
        lsi_text_append(out, ".\n");
    }
}

static void explain_list(const lsi_inventory *inventory, const lsi_visibility *v, lsi_text *out)
{
    if (v->value == NULL) {
        lsi_text_append(out, "CUDA_VISIBLE_DEVICES is not set: CUDA shows all GPUs to this process.\n");
    } else if (v->value[0] == '\0') {
        lsi_text_append(out, "CUDA_VISIBLE_DEVICES is set and empty: CUDA shows no GPU to this process. Unset it "
                             "(`unset CUDA_VISIBLE_DEVICES`) to see all.\n");
    } else {
        lsi_text_append(out,
                        "CUDA_VISIBLE_DEVICES = '%s' says which GPUs CUDA shows to this process, and in which order:\n",
                        v->value);
        explain_items(inventory, v, out);
    }
}

/* ---- what the driver says ---------------------------------------------------------------------------------------- */

static bool agrees(const lsi_inventory *inventory, const lsi_visibility *v)
{
    if (inventory->n_visible != v->n) {
        return false;
    }
    for (int i = 0; i < v->n; i++) {
        if (inventory->gpus[v->gpus[i]].ordinal != i) {
            return false;
        }
    }
    return true;
}

static void explain_numbers(const lsi_inventory *inventory, const lsi_visibility *v, lsi_text *out)
{
    if (inventory->n_visible == 0) {
        lsi_text_append(out, "The driver shows no GPU to this process: %s.\n", inventory->cuda_trouble);
    } else {
        lsi_text_append(out, "The driver shows %d GPU%s to this process, under these numbers:\n", inventory->n_visible,
                        plural(inventory->n_visible));
    }
    for (int i = 0; i < inventory->n_visible; i++) {
        int place = lsi_inventory_find_ordinal(inventory, i);

        if (place == LSI_GPU_UNKNOWN) {
            continue;
        }
        lsi_text_append(out, "    cuda:%d is ", i);
        if (inventory->gpus[place].nvml_index != LSI_GPU_UNKNOWN) {
            lsi_text_append(out, "nvidia-smi's GPU %d, ", inventory->gpus[place].nvml_index);
        }
        append_gpu(inventory, place, out);
        lsi_text_append(out, "\n");
    }
    if (inventory->n_visible == 1) {
        lsi_text_append(out, "  A process that sees one GPU calls it 0, whatever its number elsewhere.\n");
    }
    if (inventory->n > 0 && v->order_known && !agrees(inventory, v)) {
        lsi_text_append(out, "  That is not what the list above comes to by the documented rules. The driver's word "
                             "counts: something else restricts this process (a container, a cgroup, MPS), or the "
                             "variable was changed after CUDA had read it.\n");
    }
}

static void explain_hidden(const lsi_inventory *inventory, lsi_text *out)
{
    for (int i = 0; i < inventory->n; i++) {
        const lsi_gpu *gpu = &inventory->gpus[i];

        if (gpu->lost) {
            lsi_text_append(out,
                            "nvidia-smi's GPU %d does not answer (it fell off the bus, or is being reset): it "
                            "cannot be used until the host or the GPU is reset.\n",
                            gpu->nvml_index);
        } else if (gpu->mig) {
            lsi_text_append(out,
                            "nvidia-smi's GPU %d is in MIG mode: it is used by its instances only, and a process "
                            "sees one. Give each process CUDA_VISIBLE_DEVICES = the UUID of its own (MIG-...), as "
                            "`launch` does.\n",
                            gpu->nvml_index);
        }
    }
}

/* ---- what else has a say ----------------------------------------------------------------------------------------- */

static void explain_order(bool order_is_ours, bool order_known, lsi_text *out)
{
    const char *order = getenv("CUDA_DEVICE_ORDER");

    if (order_is_ours) {
        lsi_text_append(out, "Numbers follow the PCI address, as nvidia-smi's do: CUDA_DEVICE_ORDER was not set, and "
                             "this program sets it to PCI_BUS_ID. Other programs' numbers may differ: their default is "
                             "FASTEST_FIRST.\n");
    } else if (order != NULL && strcmp(order, "PCI_BUS_ID") == 0) {
        lsi_text_append(out, "Numbers follow the PCI address, as nvidia-smi's do: the environment has "
                             "CUDA_DEVICE_ORDER = PCI_BUS_ID.\n");
    } else {
        lsi_text_append(out,
                        "Numbers may differ from nvidia-smi's: the environment has CUDA_DEVICE_ORDER = '%s'%s. UUIDs "
                        "are safe; so is CUDA_DEVICE_ORDER=PCI_BUS_ID.\n",
                        order != NULL ? order : "",
                        order_known ? ""
                                    : ", and the GPUs are of different models, so which number is which GPU above "
                                      "the driver alone knows");
    }
}

static void explain_container(lsi_text *out)
{
    const char *devices = getenv("NVIDIA_VISIBLE_DEVICES");

    if (devices == NULL) {
        return;
    }
    lsi_text_append(out, "NVIDIA_VISIBLE_DEVICES = '%s': ", devices);
    if (strcmp(devices, "all") == 0) {
        lsi_text_append(out,
                        "the container was given all GPUs of the host. In Kubernetes that also happens to a pod that "
                        "asks for none, where the image sets it: ask for nvidia.com/gpu, or set it to none.\n");
    } else if (devices[0] == '\0' || strcmp(devices, "void") == 0) {
        lsi_text_append(out, "the container was started without GPUs.\n");
    } else if (strcmp(devices, "none") == 0) {
        lsi_text_append(out, "the container has the driver's libraries and no GPU.\n");
    } else {
        lsi_text_append(out, "the container was given these GPUs of the host. Inside they are numbered from 0, and "
                             "CUDA_VISIBLE_DEVICES chooses among them by those numbers.\n");
    }
}

static void explain_scheduler(const lsi_inventory *inventory, lsi_text *out)
{
    const char *step = getenv("SLURM_STEP_GPUS"), *job = getenv("SLURM_JOB_GPUS");

    if (getenv("SLURM_JOB_ID") != NULL) {
        lsi_text_append(out, "This is a Slurm job");
        if (step != NULL || job != NULL) {
            lsi_text_append(out, ", which Slurm gave GPUs '%s' of the host", step != NULL ? step : job);
        }
        lsi_text_append(out, ". Slurm sets CUDA_VISIBLE_DEVICES for each step; where it confines jobs by cgroups the "
                             "numbers begin at 0 again.\n");
        if (inventory->n_visible == 1 && getenv("SLURM_GPUS_PER_TASK") != NULL) {
            lsi_text_append(out,
                            "  With --gpus-per-task every process sees its own GPU only, and NCCL may then not find "
                            "NVLink; --gpus-per-node with --ntasks-per-node shows all to each.\n");
        }
    }
    if (getenv("KUBERNETES_SERVICE_HOST") != NULL) {
        lsi_text_append(out, "This is a Kubernetes pod: the device plugin decides which GPUs it has; do not set "
                             "CUDA_VISIBLE_DEVICES in it.\n");
    }
    if (getenv("CUDA_MPS_PIPE_DIRECTORY") != NULL || getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") != NULL) {
        lsi_text_append(out, "MPS is in use: its daemon applies its own CUDA_VISIBLE_DEVICES first, and numbers count "
                             "what is left; use UUIDs.\n");
    }
}

void lsi_visibility_explain(const lsi_inventory *inventory, bool order_is_ours, lsi_text *out)
{
    lsi_visibility v;

    lsi_visibility_read(inventory, getenv("CUDA_VISIBLE_DEVICES"), getenv("CUDA_DEVICE_ORDER"), &v);
    explain_list(inventory, &v, out);
    explain_numbers(inventory, &v, out);
    explain_hidden(inventory, out);
    explain_order(order_is_ours, v.order_known, out);
    explain_container(out);
    explain_scheduler(inventory, out);
}
