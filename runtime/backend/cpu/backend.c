/* The cpu backend's table, and those of its entries that only queue one command. */
#include "backend/registry.h"

#include "backend/cpu/device.h"
#include "backend/cpu/event.h"
#include "backend/cpu/recording.h"
#include "backend/cpu/stream.h"
#include "backend/cpu/word.h"

static ls_status copy(ls_stream *stream, void *destination, const void *source, size_t bytes)
{
    lsi_cpu_command command = {.kind = LSI_CPU_COMMAND_COPY, .of.copy = {destination, source, bytes}};

    return bytes == 0 ? LS_OK : lsi_cpu_stream_submit(stream, &command, NULL, 0);
}

static ls_status fill(ls_stream *stream, void *destination, int byte, size_t bytes)
{
    lsi_cpu_command command = {.kind = LSI_CPU_COMMAND_FILL,
                           .value = (unsigned char)byte,
                           .of.copy = {.destination = destination, .bytes = bytes}};

    return bytes == 0 ? LS_OK : lsi_cpu_stream_submit(stream, &command, NULL, 0);
}

static ls_status launch(ls_stream *stream, const ls_op *op, const void *arguments)
{
    lsi_cpu_command command = {.kind = LSI_CPU_COMMAND_OP, .of.op = op};

    LS_REQUIRE(op->cpu != NULL, LS_ERR_DEVICE, "op %s: no function for the cpu backend", op->name);
    LS_REQUIRE(op->arguments_bytes <= LS_OP_MAX_ARGUMENTS, LS_ERR_INTERNAL,
               "op %s: %zu bytes of arguments, at most %d are possible", op->name, op->arguments_bytes,
               LS_OP_MAX_ARGUMENTS);
    return lsi_cpu_stream_submit(stream, &command, arguments, op->arguments_bytes);
}

static ls_status flag_set(ls_stream *stream, ls_flag *flag, uint32_t value)
{
    lsi_cpu_command command = {.kind = LSI_CPU_COMMAND_FLAG_SET, .value = value, .of.word = &flag->word};

    return lsi_cpu_stream_submit(stream, &command, NULL, 0);
}

static ls_status flag_wait(ls_stream *stream, ls_flag *flag, uint32_t value)
{
    lsi_cpu_command command = {.kind = LSI_CPU_COMMAND_FLAG_WAIT, .value = value, .of.word = &flag->word};

    return lsi_cpu_stream_submit(stream, &command, NULL, 0);
}

static ls_status stamp(ls_stream *stream, uint32_t id)
{
    lsi_cpu_command command = {.kind = LSI_CPU_COMMAND_STAMP, .value = id};

    return lsi_cpu_stream_submit(stream, &command, NULL, 0);
}

static void host_flag_set(ls_device *device, ls_flag *flag, uint32_t value)
{
    (void)device;
    lsi_word_set(&flag->word, value);
}

static ls_status host_wait(ls_device *device, ls_flag *flag, lsi_word_test test, uint32_t value, double seconds,
                           uint32_t *seen)
{
    lsi_cpu_device *d = (lsi_cpu_device *)device;
    lsi_word_limit limit = {
        .stop = &d->stopped, .stop_bits = LSI_CPU_FAILED | LSI_CPU_ABORTED, .seconds = seconds};

    LS_REQUIRE(lsi_word_wait(&flag->word, test, value, limit, seen) != LSI_WORD_TIMED_OUT, LS_ERR_TIMEOUT,
               "a flag did not become %s%u within %g s", test == LSI_WORD_EQUAL ? "" : "other than ", value, seconds);
    /* Also where the flag is right: what it stands for may have been skipped. */
    return lsi_cpu_device_check(d);
}

static ls_status host_flag_wait(ls_device *device, ls_flag *flag, uint32_t value, double seconds)
{
    return host_wait(device, flag, LSI_WORD_EQUAL, value, seconds, NULL);
}

static ls_status host_flag_wait_change(ls_device *device, ls_flag *flag, uint32_t value, double seconds, uint32_t *out)
{
    return host_wait(device, flag, LSI_WORD_DIFFERENT, value, seconds, out);
}

static ls_recordable recordable(ls_device *device, const char **out_why)
{
    (void)device;
    *out_why = "queueing costs the cpu backend next to nothing";
    return LS_RECORD_IF_ASKED;
}

const ls_backend lsi_cpu_backend = {
    .struct_size = sizeof(ls_backend),
    .name = "cpu",
    .host_memory = true,
    .open = lsi_cpu_device_open,
    .close = lsi_cpu_device_close,
    .memory_info = lsi_cpu_memory_info,
    .place = lsi_cpu_device_place,
    .describe = lsi_cpu_device_describe,
    .variant = lsi_cpu_device_variant,
    .alloc = lsi_cpu_memory_alloc,
    .release = lsi_cpu_memory_release,
    .stream_create = lsi_cpu_stream_create,
    .stream_destroy = lsi_cpu_stream_destroy,
    .stream_sync = lsi_cpu_stream_sync,
    .event_create = lsi_cpu_event_create,
    .event_destroy = lsi_cpu_event_destroy,
    .event_record = lsi_cpu_event_record,
    .event_wait = lsi_cpu_event_wait,
    .event_sync = lsi_cpu_event_sync,
    .copy = copy,
    .fill = fill,
    .launch = launch,
    .flag_set = flag_set,
    .flag_wait = flag_wait,
    .host_flag_set = host_flag_set,
    .host_flag_wait = host_flag_wait,
    .host_flag_wait_change = host_flag_wait_change,
    .stamp = stamp,
    .stamps = lsi_cpu_device_stamps,
    .stamp_count = lsi_cpu_device_stamp_count,
    .work_count = lsi_cpu_device_work_count,
    .recordable = recordable,
    .capture_begin = lsi_cpu_recording_begin,
    .capture_end = lsi_cpu_recording_end,
    .replay = lsi_cpu_recording_replay,
    .recording_destroy = lsi_cpu_recording_destroy,
    .abort = lsi_cpu_device_abort,
    .fail = lsi_cpu_device_fail,
};
