#include "base/tsan.h"

#ifdef LSI_TSAN

#include <stdlib.h>
#include <string.h>

/* Of the sanitizer's run-time library, which has no header for them in C. */
void AnnotateIgnoreSyncBegin(const char *file, int line);
void AnnotateIgnoreSyncEnd(const char *file, int line);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
void __tsan_acquire(void *address);
void __tsan_release(void *address);
void __tsan_read_range(void *address, unsigned long bytes);
void __tsan_write_range(void *address, unsigned long bytes);

/* Set before main() and constant from then on: choosing the mode at the first use would itself be a synchronisation. */
static int edges_mode;

__attribute__((constructor)) static void choose_mode(void)
{
    const char *value = getenv("LOCKSTEP_TSAN_EDGES");

    edges_mode = value != NULL && strcmp(value, "1") == 0;
}

void lsi_tsan_hide(void)
{
    if (edges_mode) {
        AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
}

void lsi_tsan_show(void)
{
    if (edges_mode) {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
        AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    }
}

void lsi_tsan_release(void *address)
{
    if (edges_mode) {
        __tsan_release(address);
    }
}

void lsi_tsan_acquire(void *address)
{
    if (edges_mode) {
        __tsan_acquire(address);
    }
}

/* The ranges count in both modes: the pool's blocks are instrumented, but library calls inside them are not. */
void lsi_tsan_reads(const void *data, size_t bytes)
{
    __tsan_read_range((void *)data, bytes);
}

void lsi_tsan_writes(void *data, size_t bytes)
{
    __tsan_write_range(data, bytes);
}

#else

/* ISO C wants something in every file. */
typedef int lsi_tsan_is_off;

#endif
