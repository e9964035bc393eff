#include "device/near_cores.h"

#include <errno.h>
#include <hwloc.h>
#include <sched.h>
#include <string.h>

#include "base/memory.h"

/* cpu_set_t ends at 1024 cores; the system wants room for all it has. */
enum { MAX_CORES = 8192, WORD_BITS = 8 * sizeof(unsigned long) };

typedef struct mask {
    unsigned long words[MAX_CORES / WORD_BITS];
} mask;

static bool has(const mask *m, int core)
{
    return (m->words[core / (int)WORD_BITS] >> (core % (int)WORD_BITS) & 1) != 0;
}

static void add(mask *m, int core)
{
    m->words[core / (int)WORD_BITS] |= 1ul << (core % (int)WORD_BITS);
}

static int count(const mask *m)
{
    int n = 0;

    for (size_t i = 0; i < sizeof m->words / sizeof m->words[0]; i++) {
        n += __builtin_popcountl(m->words[i]);
    }
    return n;
}

/* ---- near a GPU -----------------------------------------------------------------------------------------------------
 */

/* False: hwloc does not know the GPU, or where it is. */
static bool read_near(const lsi_gpu *gpu, mask *out)
{
    hwloc_topology_t topology;
    hwloc_obj_t device, near;
    bool found = false;

    if (gpu->pci_bus == LSI_GPU_UNKNOWN || hwloc_topology_init(&topology) != 0) {
        return false;
    }
    if (hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) == 0 &&
        hwloc_topology_load(topology) == 0) {
        device = hwloc_get_pcidev_by_busid(topology, (unsigned)gpu->pci_domain, (unsigned)gpu->pci_bus,
                                           (unsigned)gpu->pci_device, 0);
        near = device != NULL ? hwloc_get_non_io_ancestor_obj(topology, device) : NULL;
        for (int core = near != NULL ? hwloc_bitmap_first(near->cpuset) : -1; core >= 0 && core < MAX_CORES;
             core = hwloc_bitmap_next(near->cpuset, core)) {
            add(out, core);
            found = true;
        }
    }
    hwloc_topology_destroy(topology);
    return found;
}

/* ---- sharing out
 * -------------------------------------------------------------------------------------------------------- */

/* Slice k of n of the cores in rising order; all of them where they do not do for n. */
static mask slice(const mask *cores, int k, int n)
{
    int total = count(cores), seen = 0;
    mask out = {{0}};

    if (total < n) {
        return *cores;
    }
    for (int core = 0; core < MAX_CORES; core++) {
        if (has(cores, core)) {
            if (seen >= k * total / n && seen < (k + 1) * total / n) {
                add(&out, core);
            }
            seen++;
        }
    }
    return out;
}

static void append_cores(const mask *m, lsi_text *out)
{
    const char *separator = "";

    for (int core = 0; core < MAX_CORES; core++) {
        int last = core;

        if (!has(m, core)) {
            continue;
        }
        while (last + 1 < MAX_CORES && has(m, last + 1)) {
            last++;
        }
        lsi_text_append(out, last > core ? "%s%d-%d" : "%s%d", separator, core, last);
        separator = ",";
        core = last;
    }
}

/* False: nothing to bind to, and `note` says why. */
static bool make_offer(const lsi_gpu *gpu, const mask *mine, mask *out, lsi_text *note)
{
    mask near = {{0}};
    char pci[24];

    lsi_inventory_pci_text(gpu, pci);
    if (!read_near(gpu, &near)) {
        lsi_text_append(note,
                        "device.cpu_affinity = auto: which cores are near the GPU at %s is not known, so the cores "
                        "stay as they are",
                        pci);
        return false;
    }
    for (int core = 0; core < MAX_CORES; core++) {
        if (has(&near, core) && has(mine, core)) {
            add(out, core);
        }
    }
    if (count(out) == 0) {
        lsi_text_append(note, "device.cpu_affinity = auto: no core near the GPU at %s (", pci);
        append_cores(&near, note);
        lsi_text_append(note, ") is among those this process was started with (");
        append_cores(mine, note);
        lsi_text_append(note, "), so they stay as they are; `mpirun --bind-to none` leaves the choice to this program");
        return false;
    }
    return true;
}

/* Processes of this host with the same offer share it out. */
static mask own_share(const lsi_job *job, const mask *offers)
{
    int before = 0, sharing = 0;

    for (int r = 0; r < job->world; r++) {
        bool same =
            job->node[r] == job->node[job->rank] && memcmp(&offers[r], &offers[job->rank], sizeof offers[r]) == 0;

        before += same && r < job->rank;
        sharing += same;
    }
    return slice(&offers[job->rank], before, sharing);
}

ls_status lsi_near_cores_bind(lsi_job *job, const lsi_gpu *gpu, lsi_text *note)
{
    void *memory;
    mask mine = {{0}}, offered = {{0}};

    LS_TRY(lsi_job_agree(job, lsi_memory_alloc((size_t)job->world * sizeof offered, "cores near GPUs", &memory)));
    mask *offers = memory;
    if (sched_getaffinity(0, sizeof mine, (cpu_set_t *)(void *)&mine) != 0) {
        lsi_text_append(note, "device.cpu_affinity = auto: cannot read this process's cores: %s", strerror(errno));
    } else {
        (void)make_offer(gpu, &mine, &offered, note);
    }
    ls_status status = lsi_job_agree(job, lsi_job_all_gather(job, &offered, sizeof offered, offers));
    if (status == LS_OK && count(&offered) > 0) {
        mask share = own_share(job, offers);

        if (sched_setaffinity(0, sizeof share, (const cpu_set_t *)(const void *)&share) != 0) {
            lsi_text_append(note, "device.cpu_affinity = auto: cannot bind to cores: %s", strerror(errno));
        }
    }
    lsi_memory_free(memory);
    return status;
}
