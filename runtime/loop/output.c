#include "loop/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

static ls_status move_aside(const char *dir, const char *metrics_path)
{
    char folder[4096], target[4200];
    const char *name = strrchr(metrics_path, '/');
    int n = 1;

    name = name != NULL ? name + 1 : metrics_path;
    do {
        LS_REQUIRE((size_t)snprintf(folder, sizeof folder, "%s/previous-%d", dir, n) < sizeof folder, LS_ERR_OUTPUT,
                   "%s: path too long", dir);
        n++;
    } while (lsi_file_exists(folder));
    LS_TRY(lsi_file_make_folders(folder));
    snprintf(target, sizeof target, "%s/%s", folder, name);
    LS_REQUIRE(rename(metrics_path, target) == 0, LS_ERR_OUTPUT, "cannot move %s to %s: %s", metrics_path, target,
               strerror(errno));
    lsi_log_info("the output of an earlier run is now in %s", folder);
    return LS_OK;
}

ls_status lsi_output_prepare(const char *dir, const char *metrics_path)
{
    char *metrics_folder;

    LS_TRY(lsi_file_make_folders(dir));
    LS_TRY(lsi_file_folder(metrics_path, &metrics_folder));
    ls_status status = lsi_file_make_folders(metrics_folder);
    lsi_memory_free(metrics_folder);
    LS_TRY(status);
    return lsi_file_exists(metrics_path) ? move_aside(dir, metrics_path) : LS_OK;
}
