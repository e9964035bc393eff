#include "backend/cpu/stream.h"

#include <stdio.h>
#include <string.h>

#include "backend/cpu/recording.h"
#include "backend/cpu/word.h"
#include "backend/op.h"
#include "base/failure.h"
#include "base/memory.h"
#include "base/thread.h"
#include "base/tsan.h"

/* ---- on the stream's thread --------------------------------------------------------------------------------- */

static void run_op(const lsi_cpu_stream *stream, const lsi_cpu_command *command)
{
    const ls_op *op = command->of.op;
    const void *arguments = lsi_cpu_command_extra(command);
    lsi_failure cause;

    lsi_op_declare_accesses(op, arguments);
    /* What the op declared is all that counts in edges mode. Its own accesses would also fill the sanitizer's history
     * of this thread, and a race whose earlier side is no longer in there is not reported. */
    lsi_tsan_hide();
    ls_status status = op->cpu(&stream->run, arguments);
    lsi_tsan_show();
    if (status == LS_OK) {
        return;
    }
    /* An op of a user may return a status without having said why. */
    lsi_failure_take(&cause);
    status = LS_FAIL(status, "op %s: %s", op->name, cause.status == status ? cause.message : ls_status_text(status));
    lsi_cpu_device_fail(stream->head.device, status, ls_failure_message());
}

static void copy(const lsi_cpu_command *command)
{
    lsi_tsan_reads(command->of.copy.source, command->of.copy.bytes);
    lsi_tsan_writes(command->of.copy.destination, command->of.copy.bytes);
    memcpy(command->of.copy.destination, command->of.copy.source, command->of.copy.bytes);
}

static void fill(const lsi_cpu_command *command)
{
    lsi_tsan_writes(command->of.copy.destination, command->of.copy.bytes);
    memset(command->of.copy.destination, (int)command->value, command->of.copy.bytes);
}

static void run_lane(const lsi_cpu_stream *stream, const lsi_cpu_lane *lane, uint32_t launch);

/* After a failure or an abort work is skipped and words are still set. Then the records that events and edges wait for
 * always come, and order is kept to the end; only a flag, which others set, may never be. */
static void run(const lsi_cpu_stream *stream, const lsi_cpu_command *command)
{
    lsi_cpu_device *device = (lsi_cpu_device *)stream->head.device;
    lsi_word_limit limit = {.stop = &device->stopped, .stop_bits = LSI_CPU_FAILED | LSI_CPU_ABORTED};
    bool stopped = lsi_cpu_device_stopped(device);

    switch (command->kind) {
    case LSI_CPU_COMMAND_OP:
        if (!stopped) {
            run_op(stream, command);
        }
        break;
    case LSI_CPU_COMMAND_COPY:
        if (!stopped) {
            copy(command);
        }
        break;
    case LSI_CPU_COMMAND_FILL:
        if (!stopped) {
            fill(command);
        }
        break;
    case LSI_CPU_COMMAND_STAMP:
        if (!stopped) {
            lsi_cpu_device_stamp(device, command->value);
        }
        break;
    case LSI_CPU_COMMAND_FLAG_SET:
        lsi_word_set(command->of.word, command->value);
        break;
    case LSI_CPU_COMMAND_FLAG_WAIT:
        lsi_word_wait(command->of.word, LSI_WORD_EQUAL, command->value, limit, NULL);
        break;
    case LSI_CPU_COMMAND_COUNTER_SET:
        lsi_counter_set(command->of.counter, command->value);
        break;
    case LSI_CPU_COMMAND_COUNTER_WAIT:
        lsi_counter_wait(command->of.counter, command->value);
        break;
    case LSI_CPU_COMMAND_LANE:
        run_lane(stream, command->of.lane, command->value);
        break;
    case LSI_CPU_COMMAND_EDGE_SET:      /* of lanes, which know their edges */
    case LSI_CPU_COMMAND_EDGE_WAIT:
    case LSI_CPU_COMMAND_SKIP:          /* of the queue and the thread */
    case LSI_CPU_COMMAND_STOP:
        break;
    }
    __atomic_fetch_add(&device->n_done, 1, __ATOMIC_RELAXED);
}

static void run_lane(const lsi_cpu_stream *stream, const lsi_cpu_lane *lane, uint32_t launch)
{
    lsi_cpu_edge *edges = lane->recording->edges;
    const unsigned char *next = lane->commands, *end = lane->commands + lane->used;

    /* After its last command, which lets the origin go on, the recording may be gone. */
    while (next < end) {
        const lsi_cpu_command *command = (const lsi_cpu_command *)next;

        next += command->bytes;
        if (command->kind == LSI_CPU_COMMAND_EDGE_SET) {
            lsi_counter_set(&edges[command->value].passed, launch);
        } else if (command->kind == LSI_CPU_COMMAND_EDGE_WAIT) {
            lsi_counter_wait(&edges[command->value].passed, launch);
        } else {
            run(stream, command);
        }
    }
}

static void *stream_main(void *argument)
{
    lsi_cpu_stream *stream = argument;

    for (;;) {
        const lsi_cpu_command *command = lsi_queue_take(&stream->queue);

        if (command->kind == LSI_CPU_COMMAND_STOP) {
            return NULL;
        }
        run(stream, command);
    }
}

/* ---- on the host's ---------------------------------------------------------------------------------------- */

ls_status lsi_cpu_stream_submit(ls_stream *stream, const lsi_cpu_command *command, const void *extra,
                                size_t extra_bytes)
{
    lsi_cpu_stream *s = (lsi_cpu_stream *)stream;

    if (((lsi_cpu_device *)stream->device)->capture != NULL) {
        return lsi_cpu_recording_append(s, command, extra, extra_bytes);
    }
    lsi_queue_give(&s->queue, command, extra, extra_bytes);
    return LS_OK;
}

ls_status lsi_cpu_stream_create(ls_device *device, const char *name, int priority, ls_stream **out)
{
    lsi_cpu_device *d = (lsi_cpu_device *)device;
    void *memory = NULL;
    ls_status status;

    LS_TRY(lsi_memory_alloc(sizeof(lsi_cpu_stream), "stream", &memory));
    lsi_cpu_stream *s = memory;
    s->head.device = device;
    s->run = d->run;
    s->run.priority = priority;
    snprintf(s->name, sizeof s->name, "%s", name);
    LS_TRY_GOTO(status, no_queue, lsi_queue_open(&s->queue));
    LS_TRY_GOTO(status, no_thread, lsi_thread_start(&s->thread, s->name, stream_main, s));
    d->n_streams++;
    *out = &s->head;
    return LS_OK;

no_thread:
    lsi_queue_close(&s->queue);
no_queue:
    lsi_memory_free(s);
    return status;
}

void lsi_cpu_stream_destroy(ls_stream *stream)
{
    lsi_cpu_stream *s = (lsi_cpu_stream *)stream;
    lsi_cpu_command stop = {.kind = LSI_CPU_COMMAND_STOP};

    if (s == NULL) {
        return;
    }
    lsi_queue_give(&s->queue, &stop, NULL, 0);
    pthread_join(s->thread, NULL);
    ((lsi_cpu_device *)stream->device)->n_streams--;
    lsi_queue_close(&s->queue);
    lsi_memory_free(s);
}

ls_status lsi_cpu_stream_sync(ls_stream *stream)
{
    lsi_cpu_stream *s = (lsi_cpu_stream *)stream;
    lsi_cpu_device *d = (lsi_cpu_device *)stream->device;
    lsi_cpu_command set = {.kind = LSI_CPU_COMMAND_COUNTER_SET, .value = s->n_syncs + 1, .of.counter = &s->synced};

    if (d->capture != NULL) {
        return lsi_cpu_recording_spoil(
            d, LS_FAIL(LS_ERR_INTERNAL, "the host waits for stream %s inside a capture", s->name));
    }
    s->n_syncs++;
    LS_TRY(lsi_cpu_stream_submit(stream, &set, NULL, 0));
    lsi_counter_wait(&s->synced, s->n_syncs);
    return lsi_cpu_device_check(d);
}
