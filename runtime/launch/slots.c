#include "launch/slots.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/proc.h"

static const size_t hostfile_most = 1 << 20;

int lsi_slots_of_hosts(const char *hosts)
{
    long n = 0;

    while (*hosts != '\0') {
        size_t length = strcspn(hosts, ",");
        const char *colon = memchr(hosts, ':', length);
        long slots = colon != NULL ? strtol(colon + 1, NULL, 10) : 1;

        n += length > 0 && slots > 0 ? slots : 0;
        hosts += length + (hosts[length] == ',' ? 1 : 0);
    }
    return n < INT_MAX ? (int)n : INT_MAX;
}

/* One line of a hostfile: its slots, 0 for none named, -1 for a line without a host. */
static long slots_of_line(char *line)
{
    line[strcspn(line, "#\r")] = '\0';
    char *rest = line, *name = strtok_r(line, " \t", &rest), *word;
    long slots = 0;

    if (name == NULL) {
        return -1;
    }
    while ((word = strtok_r(NULL, " \t", &rest)) != NULL) {
        if (strncmp(word, "slots=", 6) == 0) {
            slots = strtol(word + 6, NULL, 10);
        }
    }
    return slots > 0 ? slots : 0;
}

ls_status lsi_slots_of_file(const char *path, int *out)
{
    char *text, *rest, *line;
    size_t size;
    long total = 0;
    bool known = true;

    LS_TRY(lsi_file_read(path, hostfile_most, LS_ERR_USAGE, &text, &size));
    rest = text;
    while ((line = strsep(&rest, "\n")) != NULL) {
        long slots = slots_of_line(line);

        known = known && slots != 0;
        total += slots > 0 ? slots : 0;
    }
    lsi_memory_free(text);
    LS_REQUIRE(total > 0 || !known, LS_ERR_USAGE, "%s: names no host", path);
    *out = known ? (int)(total < INT_MAX ? total : INT_MAX) : 0;
    return LS_OK;
}

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
