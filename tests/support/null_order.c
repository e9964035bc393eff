#include "support/null_order.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

static int stream_of(null_order *order, const null_entry *entry)
{
    if (entry->stream[0] == '\0') {
        return NULL_NONE;
    }
    for (int i = 0; i < order->n_streams; i++) {
        if (strcmp(entry->stream, order->name[i]) == 0) {
            return i;
        }
    }
    assert_true(order->n_streams < NULL_ORDER_STREAMS);
    order->name[order->n_streams] = entry->stream;
    return order->n_streams++;
}

long null_order_record(const ls_device *device, const void *event, long i)
{
    while (--i >= 0) {
        const null_entry *entry = null_log_entry(device, (size_t)i);

        if (entry->kind == NULL_RECORD && entry->object == event) {
            return i;
        }
    }
    return NULL_NONE;
}

static void join(null_moment *moment, const null_moment *other)
{
    for (int s = 0; s < NULL_ORDER_STREAMS; s++) {
        moment->seen[s] = other->seen[s] > moment->seen[s] ? other->seen[s] : moment->seen[s];
    }
}

/* A stream orders its own entries; a wait adds what is ordered before the record. */
void null_order_make(const ls_device *device, null_order *out)
{
    long n = (long)null_log_count(device);
    null_moment now[NULL_ORDER_STREAMS];

    *out = (null_order){.device = device, .at = malloc((size_t)n * sizeof *out->at)};
    assert_non_null(out->at);
    memset(now, 0xff, sizeof now);      /* NULL_NONE everywhere */
    for (long i = 0; i < n; i++) {
        const null_entry *entry = null_log_entry(device, (size_t)i);
        int stream = stream_of(out, entry);

        if (stream == NULL_NONE) {
            continue;
        }
        if (entry->kind == NULL_WAIT) {
            long record = null_order_record(device, entry->object, i);

            if (record != NULL_NONE) {
                join(&now[stream], &out->at[record]);
            }
        }
        now[stream].seen[stream] = i;
        out->at[i] = now[stream];
    }
}

void null_order_free(null_order *order)
{
    free(order->at);
    order->at = NULL;
}

bool null_order_holds(const null_order *order, long early, long late)
{
    const null_entry *entry = null_log_entry(order->device, (size_t)early);
    int stream = 0;

    while (strcmp(entry->stream, order->name[stream]) != 0) {
        stream++;
    }
    return order->at[late].seen[stream] >= early;
}
