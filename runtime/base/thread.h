/* Threads of ours: signals blocked (the main thread handles them), floating-point mode at its default (no flush to
 * zero), the maths library told to stay on the calling thread. */
#ifndef LSI_BASE_THREAD_H
#define LSI_BASE_THREAD_H

#include <lockstep/status.h>
#include <pthread.h>

LS_MUST_USE ls_status lsi_thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *argument);
/* Puts the calling thread's floating-point mode at the default. Every thread that computes calls it; threads started
 * above have. */
void lsi_thread_set_float_mode(void);

#endif
