/* What a GPU can compute with: whether precision.compute runs on it at all, and whether it is worth it. */
#ifndef LSI_DEVICE_CAPABILITY_H
#define LSI_DEVICE_CAPABILITY_H

#include "base/text.h"
#include "device/inventory.h"

/* ERR_DEVICE names host, GPU, what the type needs and what to use instead. One that runs without tensor cores appends a
 * line to `advice`. A GPU whose capability is not known passes. Sources: compute capabilities in the CUDA programming
 * guide (bf16 and tf32 from 8.0, f16 arithmetic from 5.3, tensor cores from 7.0, none in the GTX 16 series). */
LS_MUST_USE ls_status lsi_capability_check(const lsi_gpu *gpu, const char *compute, const char *host, lsi_text *advice);

#endif
