#include "base/proc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool lsi_proc_find(const char *path, const char *key, char *out, size_t room)
{
    FILE *file = fopen(path, "re");
    size_t key_length = strlen(key), line_room = 0;
    char *line = NULL;
    bool found = false;

    if (file == NULL) {
        return false;
    }
    while (!found && getline(&line, &line_room, file) >= 0) {
        if (strncmp(line, key, key_length) != 0) {
            continue;
        }
        const char *value = line + key_length + strspn(line + key_length, " \t");

        if (*value == ':') {
            value += 1 + strspn(value + 1, " \t");
            snprintf(out, room, "%.*s", (int)strcspn(value, "\n"), value);
            found = true;
        }
    }
    free(line);
    fclose(file);
    return found;
}

bool lsi_proc_number(const char *path, uint64_t *out)
{
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        return false;
    }
    bool found = fscanf(file, "%" SCNu64, out) == 1;
    fclose(file);
    return found;
}

static bool own_bytes(const char *key, int64_t *out)
{
    char kib[32];

    if (!lsi_proc_find("/proc/self/status", key, kib, sizeof kib)) {
        return false;
    }
    *out = (int64_t)strtoll(kib, NULL, 10) * 1024;
    return true;
}

bool lsi_proc_resident(int64_t *now, int64_t *most)
{
    return own_bytes("VmRSS", now) && own_bytes("VmHWM", most);
}

void lsi_proc_boot_id(char out[LSI_PROC_BOOT_ID])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (file == NULL || fscanf(file, "%39s", out) != 1) {
        out[0] = '\0';
    }
    if (file != NULL) {
        fclose(file);
    }
}

bool lsi_proc_memory(size_t *free_bytes, size_t *total_bytes)
{
    char total_kib[32], free_kib[32];
    uint64_t limit;

    if (!lsi_proc_find("/proc/meminfo", "MemTotal", total_kib, sizeof total_kib) ||
        !lsi_proc_find("/proc/meminfo", "MemAvailable", free_kib, sizeof free_kib)) {
        return false;
    }

    size_t total = (size_t)strtoull(total_kib, NULL, 10) * 1024;
    size_t available = (size_t)strtoull(free_kib, NULL, 10) * 1024;

    /* A container may be allowed less than the machine has: control groups version 2, then 1. */
    if (lsi_proc_number("/sys/fs/cgroup/memory.max", &limit) ||
        lsi_proc_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", &limit)) {
        total = limit < total ? (size_t)limit : total;
    }
    *free_bytes = available < total ? available : total;
    *total_bytes = total;
    return true;
}
