/* What ThreadSanitizer is told; empty in other builds.
 *
 * Plain mode sees the runtime's own locks and so checks the runtime. Edges mode (LOCKSTEP_TSAN_EDGES=1) hides them, so
 * that only the order the contract promises (queue -> run, record -> wait, set -> wait) counts: it checks the users of
 * the runtime, and finds a missing wait that plain mode misses because locks order things by accident. */
#ifndef LSI_BASE_TSAN_H
#define LSI_BASE_TSAN_H

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LSI_TSAN 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define LSI_TSAN 1
#endif

#ifdef LSI_TSAN
#include <stddef.h>
void lsi_tsan_hide(void);               /* from here on this thread's locks and accesses are not seen (edges mode) */
void lsi_tsan_show(void);
void lsi_tsan_release(void *address);   /* one end of a promised edge (edges mode) */
void lsi_tsan_acquire(void *address);
void lsi_tsan_reads(const void *data, size_t bytes);
void lsi_tsan_writes(void *data, size_t bytes);
#else
#define lsi_tsan_hide() ((void)0)
#define lsi_tsan_show() ((void)0)
#define lsi_tsan_release(address) ((void)(address))
#define lsi_tsan_acquire(address) ((void)(address))
#define lsi_tsan_reads(data, bytes) ((void)(data), (void)(bytes))
#define lsi_tsan_writes(data, bytes) ((void)(data), (void)(bytes))
#endif

#endif
