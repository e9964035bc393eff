/* Lets streams go that wait for a flag which nobody will set any more: after a failure or an abort a thread of its own
 * writes the awaited values, one flag at a time, for as long as a stream has work. CUDA has no way to take queued work
 * back, so what stands behind such a wait runs. */
#ifndef LSI_BACKEND_CUDA_RELEASE_H
#define LSI_BACKEND_CUDA_RELEASE_H

#include "backend/cuda/device.h"

LS_MUST_USE ls_status lsi_cuda_release_open(lsi_cuda_device *device);
void lsi_cuda_release_close(lsi_cuda_device *device);
/* A stream is going to wait for the flag. */
LS_MUST_USE ls_status lsi_cuda_release_note(lsi_cuda_device *device, ls_flag *flag, uint32_t value);
/* The memory is going away: forgets the flags in it. */
void lsi_cuda_release_forget(lsi_cuda_device *device, const void *memory, size_t bytes);
/* Any thread; starts the thread, once. */
void lsi_cuda_release_start(lsi_cuda_device *device);

#endif
