/* Greedy best fit: requests are placed one after the other, each into the tightest gap between those placed before that
 * live at the same time. Which order is best depends on the graph, so a few are tried: the smallest block wins. */
#include "graph/memory_plan.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

typedef struct item {
    size_t bytes;       /* rounded up */
    size_t offset;
    int begin, end;
    int index;          /* of the request; the last word of every order, so that no tie is left to qsort */
} item;

static int compare_sizes(size_t a, size_t b)
{
    return (a < b) - (a > b);
}

static int largest_first(const void *a, const void *b)
{
    const item *x = a, *y = b;
    int order = compare_sizes(x->bytes, y->bytes);

    return order != 0 ? order : x->index - y->index;
}

static int longest_first(const void *a, const void *b)
{
    const item *x = a, *y = b;
    int order = (y->end - y->begin) - (x->end - x->begin);

    return order != 0 ? order : largest_first(a, b);
}

static int earliest_first(const void *a, const void *b)
{
    const item *x = a, *y = b;

    return x->begin != y->begin ? x->begin - y->begin : longest_first(a, b);
}

/* The tightest gap for `it` between the n placed items, which ascend by offset; the end of all when none fits. */
static size_t best_offset(const item *const *placed, int n, const item *it)
{
    size_t best = SIZE_MAX, best_gap = SIZE_MAX, free_from = 0;

    for (int i = 0; i < n; i++) {
        const item *p = placed[i];

        if (p->end < it->begin || it->end < p->begin) {
            continue;
        }
        if (p->offset > free_from) {
            size_t gap = p->offset - free_from;

            if (gap >= it->bytes && gap < best_gap) {
                best_gap = gap;
                best = free_from;
            }
        }
        if (p->offset + p->bytes > free_from) {
            free_from = p->offset + p->bytes;
        }
    }
    return best != SIZE_MAX ? best : free_from;
}

/* Gives every item its offset, in the order they stand in; returns the size of the block. */
static size_t place_all(item *items, int n, const item **placed)
{
    size_t total = 0;

    for (int i = 0; i < n; i++) {
        item *it = &items[i];
        int low = 0, high = i;

        it->offset = best_offset(placed, i, it);
        while (low < high) {
            int middle = low + (high - low) / 2;

            if (placed[middle]->offset <= it->offset) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        memmove(&placed[low + 1], &placed[low], (size_t)(i - low) * sizeof *placed);
        placed[low] = it;
        if (it->offset + it->bytes > total) {
            total = it->offset + it->bytes;
        }
    }
    return total;
}

static int earlier_end(const void *a, const void *b)
{
    const item *x = a, *y = b;

    return x->end != y->end ? (x->end > y->end) - (x->end < y->end) : x->index - y->index;
}

/* Bytes live at the fullest time; by_begin is sorted by begin, by_end by end. */
static size_t fullest(const item *by_begin, const item *by_end, int n)
{
    size_t live = 0, most = 0;
    int ended = 0;

    for (int i = 0; i < n; i++) {
        while (by_end[ended].end < by_begin[i].begin) {
            live -= by_end[ended++].bytes;
        }
        live += by_begin[i].bytes;
        if (live > most) {
            most = live;
        }
    }
    return most;
}

static void plan(lsi_memory_request *request, int n, item *items, item *by_end, const item **placed,
                 lsi_memory_size *out)
{
    int (*const orders[])(const void *, const void *) = {earliest_first, longest_first, largest_first};
    lsi_memory_size size = {SIZE_MAX, 0, 0};

    for (int i = 0; i < n; i++) {
        size_t bytes = (request[i].bytes + LSI_MEMORY_ALIGN - 1) / LSI_MEMORY_ALIGN * LSI_MEMORY_ALIGN;

        items[i] = (item){.bytes = bytes, .begin = request[i].begin, .end = request[i].end, .index = i};
        size.sum += bytes;
    }
    memcpy(by_end, items, (size_t)n * sizeof *items);
    qsort(by_end, (size_t)n, sizeof *by_end, earlier_end);
    for (size_t o = 0; o < sizeof orders / sizeof orders[0] && size.bytes > size.bound; o++) {
        qsort(items, (size_t)n, sizeof *items, orders[o]);
        if (o == 0) {
            size.bound = fullest(items, by_end, n);
        }
        size_t bytes = place_all(items, n, placed);

        if (bytes < size.bytes) {
            size.bytes = bytes;
            for (int i = 0; i < n; i++) {
                request[items[i].index].offset = items[i].offset;
            }
        }
    }
    *out = size;
}

ls_status lsi_memory_plan(lsi_memory_request *request, int n, lsi_memory_size *out)
{
    void *memory;
    size_t count = (size_t)n;

    if (n == 0) {
        *out = (lsi_memory_size){0, 0, 0};
        return LS_OK;
    }
    LS_TRY(lsi_memory_alloc(count * (2 * sizeof(item) + sizeof(item *)), "memory plan", &memory));
    item *items = memory;

    plan(request, n, items, items + count, (const item **)(void *)(items + 2 * count), out);
    lsi_memory_free(memory);
    return LS_OK;
}
