#include "base/memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

/* Lies right before the block that the caller sees. */
typedef struct header {
    void *raw;      /* what calloc returned */
    size_t bytes;
} header;

static atomic_size_t live_blocks, live_bytes;
static atomic_long allocations_to_failure;

static bool must_fail(void)
{
    long left = atomic_load_explicit(&allocations_to_failure, memory_order_relaxed);

    while (left > 0) {
        if (atomic_compare_exchange_weak_explicit(&allocations_to_failure, &left, left - 1, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            return left == 1;
        }
    }
    return false;
}

ls_status lsi_memory_alloc(size_t bytes, const char *what, void **out)
{
    size_t overhead = sizeof(header) + ALIGNMENT - 1;
    /* calloc, aligned by hand: it gets large blocks zeroed from the system without touching their pages. */
    void *raw = must_fail() || bytes > PTRDIFF_MAX - overhead ? NULL : calloc(1, bytes + overhead);

    LS_REQUIRE(raw != NULL, LS_ERR_MEMORY, "out of memory: %zu bytes for %s", bytes, what);

    uintptr_t address = ((uintptr_t)raw + overhead) & ~(uintptr_t)(ALIGNMENT - 1);
    char *block = (char *)raw + (address - (uintptr_t)raw);
    ((header *)(void *)block)[-1] = (header){raw, bytes};
    atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&live_bytes, bytes, memory_order_relaxed);
    *out = block;
    return LS_OK;
}

ls_status lsi_memory_resize(void **pointer, size_t bytes, const char *what)
{
    void *block;

    LS_TRY(lsi_memory_alloc(bytes, what, &block));
    if (*pointer != NULL) {
        size_t old_bytes = ((header *)*pointer)[-1].bytes;
        memcpy(block, *pointer, old_bytes < bytes ? old_bytes : bytes);
        lsi_memory_free(*pointer);
    }
    *pointer = block;
    return LS_OK;
}

void lsi_memory_free(void *pointer)
{
    if (pointer == NULL) {
        return;
    }
    header h = ((header *)pointer)[-1];
    atomic_fetch_sub_explicit(&live_blocks, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&live_bytes, h.bytes, memory_order_relaxed);
    free(h.raw);
}

ls_status lsi_memory_strdup(const char *text, char **out)
{
    size_t bytes = strlen(text) + 1;
    void *copy;

    LS_TRY(lsi_memory_alloc(bytes, "a text", &copy));
    memcpy(copy, text, bytes);
    *out = copy;
    return LS_OK;
}

size_t lsi_memory_live_blocks(void)
{
    return atomic_load(&live_blocks);
}

size_t lsi_memory_live_bytes(void)
{
    return atomic_load(&live_bytes);
}

void lsi_memory_fail_at(long k)
{
    atomic_store(&allocations_to_failure, k);
}
