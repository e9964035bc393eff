#include "device/lease_fault.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/proc.h"
#include "base/text.h"
#include "device/lease_file.h"

ls_status lsi_lease_fault_put(const char *folder, const char *uuid, int xid)
{
    lsi_text path = {0}, text = {0};
    char boot[LSI_PROC_BOOT_ID];

    lsi_proc_boot_id(boot);
    lsi_text_append(&path, "%s/%s.fault", folder, uuid);
    lsi_text_append(&text, "%d %s\n", xid, boot);
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
    char noted[LSI_PROC_BOOT_ID] = "", boot[LSI_PROC_BOOT_ID];
    int xid = 0;

    snprintf(name, sizeof name, "%s.fault", uuid);
    if (lsi_lease_path(leases, name, path) != LS_OK) {
        return 0;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    int n = fscanf(file, "%d %39s", &xid, noted);
    fclose(file);
    lsi_proc_boot_id(boot);
    if (n == 2 && strcmp(noted, boot) == 0) {
        return xid;
    }
    (void)unlink(path);
    return 0;
}
