/* Cores that are near a GPU, and binding a process to its share of them: device.cpu_affinity.
 *
 *     inherit   the cores this process was started with (mpirun, Slurm and cgroups decide)
 *     auto      of those, the ones of the GPU's NUMA node; processes whose GPUs share a node share its cores out
 *     none      as inherit, and nothing is said when mpirun has bound a process to one core
 *
 * A mask never grows: whoever set it knows what the other cores are for. Which cores are near is hwloc's answer; it
 * leaves out memory-only nodes, which some GPUs bring along. */
#ifndef LSI_DEVICE_NEAR_CORES_H
#define LSI_DEVICE_NEAR_CORES_H

#include "base/text.h"
#include "device/inventory.h"
#include "job/job.h"

/* Collective; before threads that compute are started: those that run already keep their cores. Appends a line to
 * `note` when the cores stay as they are, with the reason: that is no failure. */
LS_MUST_USE ls_status lsi_near_cores_bind(lsi_job *job, const lsi_gpu *gpu, lsi_text *note);

#endif
