#include "support/null_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"

typedef struct null_device {
    ls_device head;
    null_entry *log;
    size_t n_log, log_room, alive, made;
    bool capturing;
    uint32_t aborted;
    ls_status failure;
    char message[256];
    uint64_t n_stamps;
    ls_stamp stamps[LS_STAMP_RING];
} null_device;

typedef struct null_stream {
    ls_stream head;
    char name[16];
} null_stream;

size_t null_log_count(const ls_device *device)
{
    return ((const null_device *)device)->n_log;
}

const null_entry *null_log_entry(const ls_device *device, size_t index)
{
    return &((const null_device *)device)->log[index];
}

void null_log_clear(ls_device *device)
{
    ((null_device *)device)->n_log = 0;
}

size_t null_alive(const ls_device *device)
{
    return ((const null_device *)device)->alive;
}

size_t null_made(const ls_device *device)
{
    return ((const null_device *)device)->made;
}

static void count_made(ls_device *device)
{
    ((null_device *)device)->alive++;
    ((null_device *)device)->made++;
}

static ls_status append(ls_device *device, const ls_stream *stream, null_entry entry)
{
    null_device *d = (null_device *)device;

    if (d->n_log == d->log_room) {
        /* Not counted memory: a test may forbid that while the log grows. */
        size_t room = d->log_room > 0 ? 2 * d->log_room : 256;
        void *memory = realloc(d->log, room * sizeof(null_entry));

        LS_REQUIRE(memory != NULL, LS_ERR_MEMORY, "no memory for the log of the null backend");
        d->log = memory;
        d->log_room = room;
    }
    entry.captured = d->capturing;
    if (stream != NULL) {
        snprintf(entry.stream, sizeof entry.stream, "%s", ((const null_stream *)stream)->name);
    }
    d->log[d->n_log++] = entry;
    return LS_OK;
}

/* A counted object with a common head, which is a pointer to the device in all of them. */
static ls_status make(ls_device *device, size_t bytes, const char *what, void *out)
{
    void *memory = NULL;

    LS_TRY(lsi_memory_alloc(bytes, what, &memory));
    count_made(device);
    memcpy(memory, &device, sizeof device);
    memcpy(out, &memory, sizeof memory);
    return LS_OK;
}

static void unmake(ls_device *device, void *object)
{
    ((null_device *)device)->alive--;
    lsi_memory_free(object);
}

static ls_status null_open(const ls_device_options *options, ls_device **out)
{
    void *memory = NULL;

    LS_REQUIRE(options->struct_size == sizeof *options, LS_ERR_INTERNAL, "device options of another version");
    LS_TRY(lsi_memory_alloc(sizeof(null_device), "null device", &memory));
    null_device *d = memory;
    d->head.backend = &null_backend;
    *out = &d->head;
    return LS_OK;
}

static void null_close(ls_device *device)
{
    if (device != NULL) {
        free(((null_device *)device)->log);
        lsi_memory_free(device);
    }
}

static ls_status null_memory_info(ls_device *device, size_t *free_bytes, size_t *total_bytes)
{
    (void)device;
    *free_bytes = *total_bytes = (size_t)1 << 40;
    return LS_OK;
}

static const char *null_place(ls_device *device)
{
    (void)device;
    return "nowhere";
}

static const char *null_describe(ls_device *device)
{
    (void)device;
    return "null device";
}

static const char *null_variant(ls_device *device)
{
    (void)device;
    return "null";
}

static ls_status null_alloc(ls_device *device, ls_memory kind, size_t bytes, void **out)
{
    (void)kind;
    LS_REQUIRE(posix_memalign(out, 256, bytes > 0 ? bytes : 1) == 0, LS_ERR_MEMORY, "no memory");
    count_made(device);
    return LS_OK;
}

static void null_release(ls_device *device, ls_memory kind, size_t bytes, void *pointer)
{
    (void)kind, (void)bytes;
    if (pointer != NULL) {
        ((null_device *)device)->alive--;
        free(pointer);
    }
}

static ls_status null_stream_create(ls_device *device, const char *name, int priority, ls_stream **out)
{
    (void)priority;
    LS_TRY(make(device, sizeof(null_stream), "null stream", out));
    null_stream *stream = (null_stream *)*out;
    snprintf(stream->name, sizeof stream->name, "%s", name);
    return LS_OK;
}

static void null_stream_destroy(ls_stream *stream)
{
    if (stream != NULL) {
        unmake(stream->device, stream);
    }
}

static ls_status check(ls_device *device)
{
    const null_device *d = (const null_device *)device;

    LS_REQUIRE(d->failure == LS_OK, d->failure, "%s", d->message);
    LS_REQUIRE(!__atomic_load_n(&d->aborted, __ATOMIC_RELAXED), LS_ERR_INTERNAL, "the device was aborted");
    return LS_OK;
}

static ls_status null_stream_sync(ls_stream *stream)
{
    LS_TRY(append(stream->device, stream, (null_entry){.kind = NULL_STREAM_SYNC}));
    return check(stream->device);
}

static ls_status null_event_create(ls_device *device, ls_event **out)
{
    return make(device, sizeof(ls_event), "null event", out);
}

static void null_event_destroy(ls_event *event)
{
    if (event != NULL) {
        unmake(event->device, event);
    }
}

static ls_status null_event_record(ls_event *event, ls_stream *stream)
{
    return append(stream->device, stream, (null_entry){.kind = NULL_RECORD, .object = event});
}

static ls_status null_event_wait(ls_stream *stream, ls_event *event)
{
    return append(stream->device, stream, (null_entry){.kind = NULL_WAIT, .object = event});
}

static ls_status null_event_sync(ls_event *event)
{
    LS_TRY(append(event->device, NULL, (null_entry){.kind = NULL_EVENT_SYNC, .object = event}));
    return check(event->device);
}

static ls_status null_copy(ls_stream *stream, void *destination, const void *source, size_t bytes)
{
    return append(stream->device, stream,
                  (null_entry){.kind = NULL_COPY, .object = destination, .source = source, .bytes = bytes});
}

static ls_status null_fill(ls_stream *stream, void *destination, int byte, size_t bytes)
{
    return append(stream->device, stream,
                  (null_entry){.kind = NULL_FILL, .object = destination, .value = (uint32_t)byte, .bytes = bytes});
}

static ls_status null_launch(ls_stream *stream, const ls_op *op, const void *arguments)
{
    null_entry entry = {.kind = NULL_OP, .op = op, .bytes = op->arguments_bytes};

    LS_REQUIRE(op->arguments_bytes <= LS_OP_MAX_ARGUMENTS, LS_ERR_INTERNAL, "op %s: too many arguments", op->name);
    if (op->arguments_bytes > 0) {
        memcpy(entry.arguments, arguments, op->arguments_bytes);
    }
    return append(stream->device, stream, entry);
}

static void null_host_flag_set(ls_device *device, ls_flag *flag, uint32_t value)
{
    (void)device;
    __atomic_store_n(&flag->word, value, __ATOMIC_RELEASE);
}

static ls_status null_flag_set(ls_stream *stream, ls_flag *flag, uint32_t value)
{
    null_host_flag_set(stream->device, flag, value);
    return append(stream->device, stream, (null_entry){.kind = NULL_FLAG_SET, .object = flag, .value = value});
}

static ls_status null_flag_wait(ls_stream *stream, ls_flag *flag, uint32_t value)
{
    return append(stream->device, stream, (null_entry){.kind = NULL_FLAG_WAIT, .object = flag, .value = value});
}

/* Until (word == value) is `equal`. */
static ls_status poll_flag(ls_device *device, ls_flag *flag, uint32_t value, bool equal, double seconds, uint32_t *out)
{
    double end = lsi_clock_seconds() + seconds;

    for (;;) {
        uint32_t now = __atomic_load_n(&flag->word, __ATOMIC_ACQUIRE);

        LS_REQUIRE(!__atomic_load_n(&((null_device *)device)->aborted, __ATOMIC_RELAXED), LS_ERR_INTERNAL,
                   "the device was aborted");
        if ((now == value) == equal) {
            *out = now;
            return LS_OK;
        }
        LS_REQUIRE(seconds <= 0 || lsi_clock_seconds() < end, LS_ERR_TIMEOUT, "no change of a flag within %g s",
                   seconds);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static ls_status null_host_flag_wait(ls_device *device, ls_flag *flag, uint32_t value, double seconds)
{
    uint32_t now;

    return poll_flag(device, flag, value, true, seconds, &now);
}

static ls_status null_host_flag_wait_change(ls_device *device, ls_flag *flag, uint32_t value, double seconds,
                                            uint32_t *out)
{
    return poll_flag(device, flag, value, false, seconds, out);
}

static ls_status null_stamp(ls_stream *stream, uint32_t id)
{
    null_device *d = (null_device *)stream->device;
    uint64_t sequence = ++d->n_stamps;

    d->stamps[sequence % LS_STAMP_RING] =
        (ls_stamp){.sequence = sequence, .nanoseconds = lsi_clock_nanoseconds(), .id = id};
    return append(stream->device, stream, (null_entry){.kind = NULL_STAMP, .value = id});
}

static const ls_stamp *null_stamps(ls_device *device)
{
    return ((null_device *)device)->stamps;
}

static uint64_t null_stamp_count(ls_device *device)
{
    return ((null_device *)device)->n_stamps;
}

static uint64_t null_work_count(ls_device *device)
{
    return ((null_device *)device)->n_stamps;
}

static ls_status null_capture_begin(ls_stream *origin)
{
    ((null_device *)origin->device)->capturing = true;
    return append(origin->device, origin, (null_entry){.kind = NULL_CAPTURE_BEGIN});
}

static ls_status null_capture_end(ls_stream *origin, ls_recording **out)
{
    ((null_device *)origin->device)->capturing = false;
    LS_TRY(make(origin->device, sizeof(ls_recording), "null recording", out));
    return append(origin->device, origin, (null_entry){.kind = NULL_CAPTURE_END, .object = *out});
}

static ls_status null_replay(ls_recording *recording)
{
    return append(recording->device, NULL, (null_entry){.kind = NULL_REPLAY, .object = recording});
}

static void null_recording_destroy(ls_recording *recording)
{
    if (recording != NULL) {
        unmake(recording->device, recording);
    }
}

static void null_abort(ls_device *device)
{
    __atomic_store_n(&((null_device *)device)->aborted, 1, __ATOMIC_RELAXED);
}

static ls_recordable null_recordable(ls_device *device, const char **out_why)
{
    (void)device;
    *out_why = NULL;
    return LS_RECORD_GLADLY;
}

static void null_fail(ls_device *device, ls_status status, const char *message)
{
    null_device *d = (null_device *)device;

    if (d->failure == LS_OK) {
        snprintf(d->message, sizeof d->message, "%s", message);
        d->failure = status;
    }
}

const ls_backend null_backend = {
    .struct_size = sizeof(ls_backend),
    .name = "null",
    .open = null_open,
    .close = null_close,
    .memory_info = null_memory_info,
    .place = null_place,
    .describe = null_describe,
    .variant = null_variant,
    .alloc = null_alloc,
    .release = null_release,
    .stream_create = null_stream_create,
    .stream_destroy = null_stream_destroy,
    .stream_sync = null_stream_sync,
    .event_create = null_event_create,
    .event_destroy = null_event_destroy,
    .event_record = null_event_record,
    .event_wait = null_event_wait,
    .event_sync = null_event_sync,
    .copy = null_copy,
    .fill = null_fill,
    .launch = null_launch,
    .flag_set = null_flag_set,
    .flag_wait = null_flag_wait,
    .host_flag_set = null_host_flag_set,
    .host_flag_wait = null_host_flag_wait,
    .host_flag_wait_change = null_host_flag_wait_change,
    .stamp = null_stamp,
    .stamps = null_stamps,
    .stamp_count = null_stamp_count,
    .work_count = null_work_count,
    .recordable = null_recordable,
    .capture_begin = null_capture_begin,
    .capture_end = null_capture_end,
    .replay = null_replay,
    .recording_destroy = null_recording_destroy,
    .abort = null_abort,
    .fail = null_fail,
};
