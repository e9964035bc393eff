#include "device/shared_memory.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/statvfs.h>

/* NCCL takes some 10 MB for each channel between two processes that it cannot connect directly, and has up to 32.
 * Docker's default is 64 MB, and an allocation that does not fit there is a bus error, not a message. */
static const uint64_t enough = (uint64_t)256 << 20;

void lsi_shared_memory_check(const char *folder, int n_processes, const char *host, lsi_text *out)
{
    struct statvfs status;

    if (n_processes < 2) {
        return;
    }
    if (statvfs(folder, &status) != 0) {
        lsi_text_append(out, "host %s: %s: %s; processes of one host exchange data there", host, folder,
                        strerror(errno));
        return;
    }
    uint64_t bytes = (uint64_t)status.f_blocks * status.f_frsize;
    if (bytes < enough) {
        lsi_text_append(
            out,
            "host %s: %s has %llu MiB, NCCL may need more for %d processes and then ends without a reason: "
            "start the container with --shm-size=1g or --ipc=host (Kubernetes: an emptyDir of medium Memory)",
            host, folder, (unsigned long long)(bytes >> 20), n_processes);
    }
}
