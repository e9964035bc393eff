#include "device/inventory_source.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The id is the host's: in a container it may be nobody's here, or another process's, so nothing depends on it. */
void lsi_inventory_process_owner(lsi_gpu_process *process)
{
    char path[64], memory[1024];
    struct stat status;
    struct passwd entry, *found = NULL;
    FILE *file;

    process->user[0] = process->command[0] = '\0';
    snprintf(path, sizeof path, "/proc/%lld", (long long)process->pid);
    if (stat(path, &status) != 0) {
        return;
    }
    if (getpwuid_r(status.st_uid, &entry, memory, sizeof memory, &found) == 0 && found != NULL) {
        snprintf(process->user, sizeof process->user, "%s", entry.pw_name);
    } else {
        snprintf(process->user, sizeof process->user, "uid %u", (unsigned)status.st_uid);
    }
    snprintf(path, sizeof path, "/proc/%lld/comm", (long long)process->pid);
    file = fopen(path, "re");
    if (file != NULL) {
        if (fgets(process->command, sizeof process->command, file) == NULL) {
            process->command[0] = '\0';
        }
        process->command[strcspn(process->command, "\n")] = '\0';
        fclose(file);
    }
}
