/* Spans made of stamps, in bounded memory. What is written of them: trace_write.c. */
#include "metrics/trace.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "metrics/span.h"

/* ---- life -------------------------------------------------------------------------------------------------------- */

static ls_status put_empty_file(const char *path)
{
    static const char empty[] = "{\"traceEvents\":[]}\n";
    char *folder;

    LS_TRY(lsi_file_folder(path, &folder));
    ls_status status = lsi_file_make_folders(folder);
    lsi_memory_free(folder);
    LS_TRY(status);
    return lsi_file_replace(path, empty, sizeof empty - 1);
}

ls_status lsi_trace_open(const lsi_trace_options *options, lsi_trace **out)
{
    int world = options->job->world;
    int64_t max = options->max_spans > 0 ? options->max_spans : LSI_TRACE_MAX_SPANS;
    ls_status status;
    void *memory;

    LS_TRY(lsi_memory_alloc(sizeof(lsi_trace), "the trace", &memory));
    lsi_trace *trace = memory;
    trace->job = options->job;
    trace->device = options->device;
    trace->account = options->account;
    trace->room = max / world > 0 ? max / world : 1;
    LS_TRY_GOTO(status, failed, lsi_memory_strdup(options->path, &trace->path));
    LS_TRY_GOTO(status, failed,
                lsi_memory_alloc((size_t)trace->room * sizeof *trace->ring, "spans of the trace", &memory));
    trace->ring = memory;
    LS_TRY_GOTO(status, failed,
                lsi_memory_alloc((size_t)world * sizeof *trace->heads, "the trace of all ranks", &memory));
    trace->heads = memory;
    LS_TRY_GOTO(status, failed,
                lsi_memory_alloc(LSI_TRACE_PIECE * sizeof *trace->piece, "the trace of all ranks", &memory));
    trace->piece = memory;
    if (options->job->rank == 0) {
        LS_TRY_GOTO(status, failed, put_empty_file(trace->path));
    }
    *out = trace;
    return LS_OK;
failed:
    lsi_trace_close(&trace);
    return status;
}

void lsi_trace_close(lsi_trace **trace)
{
    if (*trace != NULL) {
        lsi_memory_free((*trace)->piece);
        lsi_memory_free((*trace)->heads);
        lsi_memory_free((*trace)->ring);
        lsi_memory_free((*trace)->path);
        lsi_memory_free(*trace);
        *trace = NULL;
    }
}

/* ---- the device's clock ------------------------------------------------------------------------------------------ */

/* A lsi_clock_fn over a stream: a stamp, waited for. It lies between the call and the return, which is all that the
 * comparison of clocks needs. */
static ls_status read_device_clock(void *argument, uint64_t *nanoseconds)
{
    ls_stream *stream = argument;
    ls_device *device = stream->device;
    const ls_backend *backend = device->backend;
    uint32_t id = lsi_timeline_id(0, LSI_POINT_CLOCK, 0);

    LS_TRY(backend->stamp(stream, id));
    LS_TRY(backend->stream_sync(stream));
    const ls_stamp *stamp = &backend->stamps(device)[backend->stamp_count(device) % LS_STAMP_RING];
    LS_REQUIRE(stamp->id == id, LS_ERR_INTERNAL, "the clock of the device was read while work was queued on it");
    *nanoseconds = stamp->nanoseconds;
    return LS_OK;
}

/* Stands in for a clock that cannot be read: the other ranks still need this one's part. */
static ls_status no_clock(void *argument, uint64_t *nanoseconds)
{
    (void)argument;
    *nanoseconds = 0;
    return LS_OK;
}

ls_status lsi_trace_align(lsi_trace *trace)
{
    ls_stream *stream = NULL;
    ls_status made = lsi_buffer_stream_create(trace->device, trace->account, "trace", 0, &stream);
    ls_status status = lsi_clock_offset_measure(trace->job, made == LS_OK ? read_device_clock : no_clock, stream,
                                                &trace->offset);

    lsi_buffer_stream_destroy(trace->account, stream);
    return made != LS_OK ? made : status;
}

/* ---- spans ------------------------------------------------------------------------------------------------------- */

static void keep(lsi_trace *trace, const lsi_trace_span *span)
{
    if (trace->n_made == (uint64_t)trace->room && trace->job->rank == 0) {
        lsi_log_warn("log.trace: %lld spans of each process fill its memory at step %lld: from here on the oldest are "
                     "dropped; trace a shorter run to keep all",
                     (long long)trace->room, (long long)span->step + 1);
    }
    trace->ring[trace->n_made++ % (uint64_t)trace->room] = *span;
}

void lsi_trace_stamp(lsi_trace *trace, int64_t step, const ls_stamp *stamp)
{
    static const struct {
        lsi_point begin, end;
    } spans[] = {
#define SPAN(id, row, name, begin, end, counts) {LSI_POINT_##begin, LSI_POINT_##end},
        LSI_TRACE_SPANS(SPAN)
#undef SPAN
    };
    uint32_t point = lsi_timeline_point_of(stamp->id), index = (uint32_t)lsi_timeline_index_of(stamp->id);

    for (uint32_t kind = 0; kind < LSI_SPAN_COUNT; kind++) {
        lsi_trace_span *span = &trace->open[step & 1][kind];

        if (spans[kind].end == point) {
            /* Otherwise a stamp in between was lost, and so is the span. */
            if (span->begin != 0 && span->step == step && span->index == index && span->begin <= stamp->nanoseconds) {
                span->end = stamp->nanoseconds;
                keep(trace, span);
            }
            span->begin = 0;
        } else if (spans[kind].begin == point) {
            *span = (lsi_trace_span){.begin = stamp->nanoseconds, .step = step, .index = index, .kind = kind};
        }
    }
}
