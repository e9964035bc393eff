/* Shared memory of the host, which NCCL and MPI carry data through between processes: containers often have 64 MB. */
#ifndef LSI_DEVICE_SHARED_MEMORY_H
#define LSI_DEVICE_SHARED_MEMORY_H

#include "base/text.h"

/* Appends one line when `folder` ("/dev/shm") is too small for n processes of this host, or is not there. */
void lsi_shared_memory_check(const char *folder, int n_processes, const char *host, lsi_text *out);

#endif
