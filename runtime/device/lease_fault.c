#include "device/lease_fault.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "device/lease_file.h"

typedef struct boot {
    char id[40];
} boot;

static boot this_boot(void)
{
    boot out = {""};
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (file != NULL) {
        if (fscanf(file, "%39s", out.id) != 1) {
            out.id[0] = '\0';
        }
        fclose(file);
    }
    return out;
}

ls_status lsi_lease_fault_put(const char *folder, const char *uuid, int xid)
{
    lsi_text path = {0}, text = {0};

    lsi_text_append(&path, "%s/%s.fault", folder, uuid);
    lsi_text_append(&text, "%d %s\n", xid, this_boot().id);
    ls_status status = lsi_text_status(&path);
    status = status == LS_OK ? lsi_text_status(&text) : status;
    status = status == LS_OK ? lsi_file_replace(path.data, text.data, text.length) : status;
    if (status == LS_OK) {
        (void)chmod(path.data, 0644); /* whatever the umask is: it is for all users */
    }
    lsi_text_free(&path);
    lsi_text_free(&text);
    return status;
}

int lsi_lease_fault_find(const lsi_leases *leases, const char *uuid)
{
    char name[LSI_GPU_UUID + 8], path[LSI_LEASE_PATH];
    boot noted = {""};
    int xid = 0;

    snprintf(name, sizeof name, "%s.fault", uuid);
    if (lsi_lease_path(leases, name, path) != LS_OK) {
        return 0;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    int n = fscanf(file, "%d %39s", &xid, noted.id);
    fclose(file);
    if (n == 2 && strcmp(noted.id, this_boot().id) == 0) {
        return xid;
    }
    (void)unlink(path);
    return 0;
}
