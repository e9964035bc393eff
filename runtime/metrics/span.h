/* The spans of a trace: which points they lie between, and the bounded memory that holds them. */
#ifndef LSI_METRICS_SPAN_H
#define LSI_METRICS_SPAN_H

#include "metrics/clock_offset.h"
#include "metrics/timeline.h"
#include "metrics/trace.h"

/* The rows of a rank, top to bottom: ROW(id, name) */
#define LSI_TRACE_ROWS(ROW)     \
    ROW(STEP, "step")           \
    ROW(COMPUTE, "compute")     \
    ROW(COPY, "copy")           \
    ROW(COMM, "comm")           \
    ROW(WAIT, "compute waits")

/* SPAN(id, row, name, begin, end, what its index counts or ""). Spans of one row do not overlap. */
#define LSI_TRACE_SPANS(SPAN)                                                                      \
    SPAN(STEP, STEP, "step", BEGIN, END, "")                                                       \
    SPAN(FORWARD, COMPUTE, "forward", SLOT_BEGIN, FORWARD_END, "slot")                             \
    SPAN(BACKWARD, COMPUTE, "backward", FORWARD_END, SLOT_END, "slot")                             \
    SPAN(COMMIT, COMPUTE, "commit", ARRIVED, COMMIT, "")                                           \
    SPAN(UPDATE, COMPUTE, "update", COMMIT, END, "")                                               \
    SPAN(COPY, COPY, "copy batch", COPY_BEGIN, COPY_END, "slot")                                   \
    SPAN(REDUCE, COMM, "reduce", REDUCE_BEGIN, REDUCE_END, "bucket")                               \
    SPAN(GATHER, COMM, "gather", GATHER_BEGIN, GATHER_END, "bucket")                               \
    SPAN(EXCHANGE, COMM, "exchange", EXCHANGE_BEGIN, EXCHANGE_END, "")                             \
    SPAN(DATA_WAIT, WAIT, "wait for data", DATA_WAIT, DATA_HERE, "")                               \
    SPAN(GATHER_WAIT, WAIT, "wait for weights", GATHER_WAIT_BEGIN, GATHER_WAIT_END, "bucket")      \
    SPAN(GRADIENT_WAIT, WAIT, "wait for gradients", BACKWARD_END, ARRIVED, "")

typedef enum lsi_trace_row {
#define ROW(id, name) LSI_ROW_##id,
    LSI_TRACE_ROWS(ROW)
#undef ROW
    LSI_ROW_COUNT
} lsi_trace_row;

typedef enum lsi_span_kind {
#define SPAN(id, row, name, begin, end, counts) LSI_SPAN_##id,
    LSI_TRACE_SPANS(SPAN)
#undef SPAN
    LSI_SPAN_COUNT
} lsi_span_kind;

/* As kept, and as sent between ranks. */
typedef struct lsi_trace_span {
    uint64_t begin, end;        /* nanoseconds of the rank's own device */
    int64_t step;               /* from 0 */
    uint32_t index;
    uint32_t kind;
} lsi_trace_span;

enum { LSI_TRACE_PIECE = 4096, LSI_TRACE_HOST_MAX = 64 };

/* What a rank says of itself before it sends its spans. */
typedef struct lsi_trace_head {
    int64_t n_spans;
    uint64_t n_dropped, n_lost;
    uint64_t first;             /* earliest begin, on rank 0's clock; UINT64_MAX: no span */
    lsi_clock_offset offset;
    char host[LSI_TRACE_HOST_MAX];
} lsi_trace_head;

struct lsi_trace {
    lsi_job *job;
    ls_device *device;
    lsi_memory_account *account;
    char *path;
    lsi_clock_offset offset;
    lsi_trace_span open[2][LSI_SPAN_COUNT];     /* begun, by parity of the step; begin 0: none */
    lsi_trace_span *ring;                       /* the newest `room` spans; number k at [k % room] */
    int64_t room;
    uint64_t n_made;
    lsi_trace_head *heads;                      /* of all ranks; for writing, as the next */
    lsi_trace_span *piece;
};

#endif
