#include "loop/output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "metrics/jsonl.h"

/* Cuts the file to the checkpoint's length. A shorter one has lost lines: of a machine that crashed, or somebody's. */
static ls_status cut(const lsi_output *output, int fd, int64_t size, lsi_previous *previous)
{
    if (size < output->keep_bytes) {
        lsi_log_warn("%s: has %lld bytes, the checkpoint knows of %lld: lines of steps before it are missing",
                     output->metrics, (long long)size, (long long)output->keep_bytes);
        return LS_OK;
    }
    if (size > output->keep_bytes && output->copy_first) {
        LS_TRY(lsi_previous_copy(previous, output->metrics));
    }
    LS_REQUIRE(ftruncate(fd, output->keep_bytes) == 0, LS_ERR_OUTPUT, "%s: cannot cut to %lld bytes: %s",
               output->metrics, (long long)output->keep_bytes, strerror(errno));
    return LS_OK;
}

/* A run that is still writing keeps its file: the lock is held while the file moves or is cut, and is on the file that
 * is there now. */
static ls_status take_over(const lsi_output *output, lsi_previous *previous)
{
    const char *path = output->metrics;
    struct stat locked, there;
    int fd = open(path, O_RDWR | O_CLOEXEC);

    LS_REQUIRE(fd >= 0, LS_ERR_OUTPUT, "%s: cannot open for writing: %s", path, strerror(errno));
    ls_status status = lsi_jsonl_lock(path, fd);
    if (status == LS_OK && fstat(fd, &locked) == 0 && stat(path, &there) == 0 &&
        (locked.st_ino != there.st_ino || locked.st_dev != there.st_dev)) {
        status = LS_FAIL(LS_ERR_OUTPUT, "%s: another run has begun to write to it just now", path);
    }
    if (status == LS_OK) {
        status = output->keep_bytes >= 0 ? cut(output, fd, (int64_t)there.st_size, previous)
                                         : lsi_previous_move(previous, path);
    }
    close(fd);
    return status;
}

ls_status lsi_output_check(const char *metrics)
{
    struct stat info;

    LS_REQUIRE(stat(metrics, &info) != 0 || !S_ISDIR(info.st_mode), LS_ERR_OUTPUT,
               "%s: is a folder; log.metrics is the name of a file, log.dir that of a folder", metrics);
    return LS_OK;
}

ls_status lsi_output_prepare(const lsi_output *output, lsi_previous *previous)
{
    struct stat info;
    char *metrics_folder;
    bool exists = stat(output->metrics, &info) == 0;

    LS_TRY(lsi_file_make_folders(output->dir));
    LS_TRY(lsi_file_folder(output->metrics, &metrics_folder));
    ls_status status = lsi_file_make_folders(metrics_folder);
    lsi_memory_free(metrics_folder);
    LS_TRY(status);
    if (!exists && output->keep_bytes > 0) {
        lsi_log_warn("%s: is gone; the lines of the steps before the checkpoint are missing", output->metrics);
    }
    /* Terminals, pipes and devices hold nothing to keep. */
    return exists && S_ISREG(info.st_mode) ? take_over(output, previous) : LS_OK;
}
