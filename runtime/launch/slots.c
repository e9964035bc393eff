#include "launch/slots.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/proc.h"

int lsi_slots_of_allocation(void)
{
    static const char *const others[] = {"PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE"};
    const char *tasks = getenv("SLURM_NTASKS");

    if (getenv("SLURM_JOB_ID") != NULL) {
        return tasks != NULL && atoi(tasks) > 0 ? atoi(tasks) : 0;
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (getenv(others[i]) != NULL) {
            return 0;
        }
    }
    return -1;
}

int lsi_slots_cores_allowed(void)
{
    cpu_set_t mask;

    return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
}

int lsi_slots_here(void)
{
    cpu_set_t mask;
    int n = 0;

    if (sched_getaffinity(0, sizeof mask, &mask) != 0) {
        return 1;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char path[96];
        uint64_t first; /* of the list "0,4" of threads on the same core */

        if (!CPU_ISSET(cpu, &mask)) {
            continue;
        }
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        FILE *file = fopen(path, "r");
        unsigned long sibling;

        first = file != NULL && fscanf(file, "%lu", &sibling) == 1 ? sibling : (uint64_t)cpu;
        if (file != NULL) {
            fclose(file);
        }
        n += (int)first == cpu || !CPU_ISSET((int)first, &mask) ? 1 : 0;
    }
    return n > 0 ? n : 1;
}
