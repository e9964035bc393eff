/* The executor's sync objects: addresses ThreadSanitizer hangs order on. Forgotten at every block and launch. */
#ifndef CUSIM_EXEC_TSAN_H
#define CUSIM_EXEC_TSAN_H

#include "tsan.h"

#ifdef CUSIM_TSAN
typedef struct cusim_exec_sync {
    _Alignas(64) char launch[8]; /* host -> every thread */
    char done[8];                /* every thread -> host */
    char barrier[2][8];          /* by phase: a barrier must not order what follows the next one */
    int phase;
    _Alignas(64) char warp[32][8]; /* __syncwarp */
    _Alignas(64) char fence[8];
} cusim_exec_sync;
extern cusim_exec_sync cusim_sync;
#endif

#endif
