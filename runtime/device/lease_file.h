/* Between lease.c and claim.c: the files of the folder. */
#ifndef LSI_DEVICE_LEASE_FILE_H
#define LSI_DEVICE_LEASE_FILE_H

#include "device/lease.h"

enum { LSI_LEASE_PATH = 4096, LSI_LEASE_TEXT = 4096 + LSI_GPU_MAX * LSI_GPU_UUID };

struct lsi_leases {
    char *folder;
    const char *what;
    int lock_fd;  /* decide.lock */
    int claim_fd; /* -1: none is put */
    char claim_path[LSI_LEASE_PATH];
    int n_held;
    struct {
        char uuid[LSI_GPU_UUID];
        int fd;
    } held[LSI_GPU_MAX];
};

LS_MUST_USE ls_status lsi_lease_path(const lsi_leases *leases, const char *name, char out[LSI_LEASE_PATH]);
/* Opens a file of the folder, making it when it is missing. */
LS_MUST_USE ls_status lsi_lease_file_open(const char *path, int *out);
/* Three lines about this process, then `rest`. */
void lsi_lease_holder_write(int fd, const char *what, const char *rest);
/* Reads them; returns where the rest begins, in `text`. */
const char *lsi_lease_holder_read(int fd, char text[LSI_LEASE_TEXT], lsi_lease_holder *out);

#endif
