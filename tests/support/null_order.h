/* What the streams and events of a null backend's log put in order. */
#ifndef LS_TESTS_SUPPORT_NULL_ORDER_H
#define LS_TESTS_SUPPORT_NULL_ORDER_H

#include "support/null_backend.h"

enum { NULL_ORDER_STREAMS = 4, NULL_NONE = -1 };

/* Entries are numbered from 0. The latest one of each stream that is ordered before a point; NULL_NONE: none is. */
typedef struct null_moment {
    long seen[NULL_ORDER_STREAMS];
} null_moment;

typedef struct null_order {
    const ls_device *device;
    const char *name[NULL_ORDER_STREAMS];       /* of the streams, by first appearance */
    int n_streams;
    null_moment *at;                            /* of every entry; owned, not counted */
} null_order;

/* Of the log as it is now, which must not change while the order is used. Fails the test where it cannot. */
void null_order_make(const ls_device *device, null_order *out);
void null_order_free(null_order *order);
/* Whether `late` runs behind `early`, an entry of a stream. The host's waits count for nothing. */
bool null_order_holds(const null_order *order, long early, long late);
/* The last record of the event that was queued before entry i, or NULL_NONE. */
long null_order_record(const ls_device *device, const void *event, long i);

#endif
