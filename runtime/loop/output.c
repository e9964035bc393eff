#include "loop/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "metrics/jsonl.h"

/* Makes `beside`/previous-<n>, n the first that is free; mkdir decides, so two runs never share one. */
static ls_status make_previous(const char *beside, lsi_text *out)
{
    for (int n = 1;; n++) {
        lsi_text_free(out);
        lsi_text_append(out, "%s/previous-%d", beside, n);
        LS_TRY(lsi_text_status(out));
        if (mkdir(out->data, 0777) == 0) {
            return LS_OK;
        }
        LS_REQUIRE(errno == EEXIST, LS_ERR_OUTPUT, "%s: cannot create the folder: %s", out->data, strerror(errno));
    }
}

/* Into a folder beside the file, which need not be on the file system of log.dir. */
static ls_status move_aside(const char *path)
{
    char *beside;
    const char *name = strrchr(path, '/');
    lsi_text folder = {0}, target = {0};

    LS_TRY(lsi_file_folder(path, &beside));
    ls_status status = make_previous(beside, &folder);
    lsi_memory_free(beside);
    if (status == LS_OK) {
        lsi_text_append(&target, "%s/%s", folder.data, name != NULL ? name + 1 : path);
        status = lsi_text_status(&target);
    }
    if (status == LS_OK && rename(path, target.data) != 0) {
        status = LS_FAIL(LS_ERR_OUTPUT, "cannot move %s to %s: %s", path, target.data, strerror(errno));
        rmdir(folder.data);
    }
    if (status == LS_OK) {
        lsi_log_info("the output of an earlier run is now in %s", folder.data);
    }
    lsi_text_free(&target);
    lsi_text_free(&folder);
    return status;
}

/* A run that is still writing keeps its file: the lock is held while the file moves, and is on the file that is there
 * now. */
static ls_status move_unused(const char *path)
{
    struct stat locked, there;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ls_status status = fd >= 0 ? lsi_jsonl_lock(path, fd) : LS_OK;

    if (status == LS_OK && fd >= 0 && fstat(fd, &locked) == 0 && stat(path, &there) == 0 &&
        (locked.st_ino != there.st_ino || locked.st_dev != there.st_dev)) {
        status = LS_FAIL(LS_ERR_OUTPUT, "%s: another run has begun to write to it just now", path);
    }
    if (status == LS_OK) {
        status = move_aside(path);
    }
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

ls_status lsi_output_prepare(const char *dir, const char *metrics_path)
{
    struct stat info;
    char *metrics_folder;
    bool exists = stat(metrics_path, &info) == 0;

    LS_REQUIRE(!exists || !S_ISDIR(info.st_mode), LS_ERR_OUTPUT,
               "%s: is a folder; log.metrics is the name of a file, log.dir that of a folder", metrics_path);
    LS_TRY(lsi_file_make_folders(dir));
    LS_TRY(lsi_file_folder(metrics_path, &metrics_folder));
    ls_status status = lsi_file_make_folders(metrics_folder);
    lsi_memory_free(metrics_folder);
    LS_TRY(status);
    /* Terminals, pipes and devices hold nothing to keep. */
    return exists && S_ISREG(info.st_mode) ? move_unused(metrics_path) : LS_OK;
}
