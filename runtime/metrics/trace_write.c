/* The trace file: spans of all ranks, gathered piece by piece, as one JSON object. */
#include "metrics/trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/version.h"
#include "metrics/span.h"

/* Most bytes of JSON: of one span, of what is said once per rank, and once. */
enum { SPAN_BYTES = 192, RANK_BYTES = 1792, FILE_BYTES = 1024 };

static const struct {
    lsi_trace_row row;
    const char *name, *counts;
} spans[] = {
#define SPAN(id, row, name, begin, end, counts) {LSI_ROW_##row, name, counts},
    LSI_TRACE_SPANS(SPAN)
#undef SPAN
};
static const char *const row_names[] = {
#define ROW(id, name) name,
    LSI_TRACE_ROWS(ROW)
#undef ROW
};

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Rank 0's file in memory. Elsewhere, and after a failure, there is none and appends do nothing. */
typedef struct sheet {
    char *data;
    size_t used, room;
} sheet;

__attribute__((format(printf, 2, 3)))
static void append(sheet *s, const char *format, ...)
{
    va_list arguments;

    if (s->data != NULL) {
        va_start(arguments, format);
        s->used += (size_t)vsnprintf(s->data + s->used, s->room - s->used, format, arguments);
        va_end(arguments);
    }
}

/* Microseconds with three digits, in any locale. */
static void append_time(sheet *s, const char *name, uint64_t nanoseconds)
{
    append(s, ",\"%s\":%" PRIu64 ".%03d", name, nanoseconds / 1000, (int)(nanoseconds % 1000));
}

static void append_top(sheet *s, const lsi_trace_head *heads, int world)
{
    uint64_t dropped = 0, lost = 0;
    int64_t accuracy = 0;

    for (int r = 0; r < world; r++) {
        dropped += heads[r].n_dropped;
        lost += heads[r].n_lost;
        accuracy = r > 0 && heads[r].offset.accuracy > accuracy ? heads[r].offset.accuracy : accuracy;
    }
    append(s, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"program\":\"lockstep %s %s\",\"world\":%d", lsi_version(),
           lsi_version_git(), world);
    append(s, ",\"dropped_spans\":%" PRIu64 ",\"lost_stamps\":%" PRIu64, dropped, lost);
    append_time(s, "clock_accuracy_us", (uint64_t)accuracy);
    append(s, "},\n\"traceEvents\":[");
}

/* Names and order of the rows. */
static void append_rank(sheet *s, int rank, const char *host)
{
    append(s, "%s\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"rank %d %s\"}}",
           rank > 0 ? "," : "", rank, rank, host);
    append(s, ",\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%d}}", rank, rank);
    for (int row = 0; row < LSI_ROW_COUNT; row++) {
        append(s, ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}", rank,
               row, row_names[row]);
        append(s, ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}}",
               rank, row, row);
    }
}

static void append_span(sheet *s, int rank, const lsi_trace_span *span, uint64_t start)
{
    const char *counts = spans[span->kind].counts;

    append(s, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\"", rank, (int)spans[span->kind].row,
           spans[span->kind].name);
    append_time(s, "ts", span->begin - start);
    append_time(s, "dur", span->end - span->begin);
    append(s, ",\"args\":{\"step\":%" PRId64, span->step + 1);
    if (counts[0] != '\0') {
        append(s, ",\"%s\":%" PRIu32, counts, span->index);
    }
    append(s, "}}");
}

/* ---- gathering --------------------------------------------------------------------------------------------------- */

static uint64_t n_dropped(const lsi_trace *trace)
{
    return trace->n_made > (uint64_t)trace->room ? trace->n_made - (uint64_t)trace->room : 0;
}

static void fill_head(const lsi_trace *trace, uint64_t n_lost, lsi_trace_head *head)
{
    memset(head, 0, sizeof *head);
    head->n_dropped = n_dropped(trace);
    head->n_spans = (int64_t)(trace->n_made - head->n_dropped);
    head->n_lost = n_lost;
    head->offset = trace->offset;
    head->first = UINT64_MAX;
    for (int64_t i = 0; i < head->n_spans; i++) {
        uint64_t begin = trace->ring[i].begin - (uint64_t)trace->offset.nanoseconds;

        head->first = begin < head->first ? begin : head->first;
    }
    snprintf(head->host, sizeof head->host, "%s", trace->job->host);
    for (char *at = head->host; *at != '\0'; at++) {
        if (*at < ' ' || *at > '~' || *at == '"' || *at == '\\') {
            *at = '?';
        }
    }
}

/* Spans [first, first + n) of this rank's, oldest first. */
static void copy_out(const lsi_trace *trace, int64_t first, int64_t n, lsi_trace_span *out)
{
    uint64_t from = n_dropped(trace) + (uint64_t)first;

    for (int64_t i = 0; i < n; i++) {
        out[i] = trace->ring[(from + (uint64_t)i) % (uint64_t)trace->room];
    }
}

/* Every rank hears every span; rank 0 writes them down. Times are moved to rank 0's clock. */
static ls_status gather_rank(lsi_trace *trace, int rank, uint64_t start, sheet *s)
{
    const lsi_trace_head *head = &trace->heads[rank];

    append_rank(s, rank, head->host);
    for (int64_t done = 0; done < head->n_spans; done += LSI_TRACE_PIECE) {
        int64_t n = head->n_spans - done < LSI_TRACE_PIECE ? head->n_spans - done : LSI_TRACE_PIECE;

        if (trace->job->rank == rank) {
            copy_out(trace, done, n, trace->piece);
        }
        LS_TRY(lsi_job_broadcast(trace->job, trace->piece, (size_t)n * sizeof *trace->piece, rank));
        for (int64_t i = 0; i < n; i++) {
            append_span(s, rank, &trace->piece[i], start + (uint64_t)head->offset.nanoseconds);
        }
    }
    return LS_OK;
}

static ls_status gather(lsi_trace *trace, sheet *s)
{
    int world = trace->job->world;
    uint64_t start = UINT64_MAX;

    for (int r = 0; r < world; r++) {
        start = trace->heads[r].first < start ? trace->heads[r].first : start;
    }
    append_top(s, trace->heads, world);
    for (int r = 0; r < world; r++) {
        LS_TRY(gather_rank(trace, r, start, s));
    }
    append(s, "\n]}\n");
    return LS_OK;
}

static ls_status make_sheet(const lsi_trace *trace, sheet *s)
{
    void *memory;

    s->room = FILE_BYTES;
    for (int r = 0; r < trace->job->world; r++) {
        s->room += RANK_BYTES + (size_t)trace->heads[r].n_spans * SPAN_BYTES;
    }
    LS_TRY(lsi_memory_alloc(s->room, "the trace file", &memory));
    s->data = memory;
    return LS_OK;
}

ls_status lsi_trace_write(lsi_trace *trace, uint64_t n_lost)
{
    bool writes = trace->job->rank == 0;
    lsi_trace_head head;
    sheet s = {0};

    fill_head(trace, n_lost, &head);
    LS_TRY(lsi_job_all_gather(trace->job, &head, sizeof head, trace->heads));
    /* Without memory for the file rank 0 still takes part: the others do not know. */
    ls_status made = writes ? make_sheet(trace, &s) : LS_OK;
    ls_status status = gather(trace, &s);
    if (status == LS_OK && made == LS_OK && writes) {
        status = lsi_file_replace(trace->path, s.data, s.used);
    }
    lsi_memory_free(s.data);
    return made != LS_OK ? made : status;
}
