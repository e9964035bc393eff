/* ThreadSanitizer's fiber interface: one of its threads for every CUDA thread and every stream, and order only where
 * CUDA promises it. The simulator itself is not instrumented. Everything is empty in other builds. */
#ifndef CUSIM_TSAN_H
#define CUSIM_TSAN_H

#ifdef CUSIM_TSAN
#include <sanitizer/tsan_interface.h>
#include <stddef.h>
#include <stdint.h>

/* Public, though in no header: forgets all accesses to a range, and the sync objects in a range. */
void __tsan_java_alloc(uintptr_t address, uintptr_t bytes);
void __tsan_java_free(uintptr_t address, uintptr_t bytes);
/* What instrumented atomics call: orders a word that the program and a stream share. */
uint32_t __tsan_atomic32_load(const volatile void *address, int order);
void __tsan_atomic32_store(volatile void *address, uint32_t value, int order);

#define CUSIM_TS(...) __VA_ARGS__

static inline void cusim_tsan_forget(void *address, size_t bytes)
{
    if (bytes > 0)
        __tsan_java_alloc((uintptr_t)address & ~(uintptr_t)7, (bytes + 15) & ~(size_t)7);
}
static inline void cusim_tsan_forget_order(void *address, size_t bytes)
{
    __tsan_java_free((uintptr_t)address, bytes);
}
#else
#define CUSIM_TS(...)
#endif

#endif
