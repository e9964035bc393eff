/* The cuda backend's table. */
#include "backend/registry.h"

#include "backend/cuda/device.h"
#include "backend/cuda/event.h"
#include "backend/cuda/recording.h"
#include "backend/cuda/stream.h"

void *lsi_cuda_workspace(ls_stream *stream)
{
    return ((lsi_cuda_queue *)stream)->workspace;
}

lsi_cuda_fault *lsi_cuda_faults(ls_stream *stream)
{
    return ((lsi_cuda_device *)stream->device)->fault;
}

const ls_backend lsi_cuda_backend = {
    .struct_size = sizeof(ls_backend),
    .name = "cuda",
    .host_memory = false,
    .stream_bytes = LSI_CUDA_WORKSPACE_BYTES,
    .open = lsi_cuda_device_open,
    .close = lsi_cuda_device_close,
    .memory_info = lsi_cuda_memory_info,
    .describe = lsi_cuda_device_describe,
    .place = lsi_cuda_device_place,
    .variant = lsi_cuda_device_variant,
    .alloc = lsi_cuda_memory_alloc,
    .release = lsi_cuda_memory_release,
    .stream_create = lsi_cuda_stream_create,
    .stream_destroy = lsi_cuda_stream_destroy,
    .stream_sync = lsi_cuda_stream_sync,
    .event_create = lsi_cuda_event_create,
    .event_destroy = lsi_cuda_event_destroy,
    .event_record = lsi_cuda_event_record,
    .event_wait = lsi_cuda_event_wait,
    .event_sync = lsi_cuda_event_sync,
    .copy = lsi_cuda_stream_copy,
    .fill = lsi_cuda_stream_fill,
    .launch = lsi_cuda_stream_launch,
    .flag_set = lsi_cuda_flag_set,
    .flag_wait = lsi_cuda_flag_wait,
    .host_flag_set = lsi_cuda_host_flag_set,
    .host_flag_wait = lsi_cuda_host_flag_wait,
    .host_flag_wait_change = lsi_cuda_host_flag_wait_change,
    .stamp = lsi_cuda_stamp,
    .stamps = lsi_cuda_stamps,
    .stamp_count = lsi_cuda_stamp_count,
    .work_count = lsi_cuda_stamp_count,     /* kernels are not seen one by one */
    .recordable = lsi_cuda_recording_possible,
    .capture_begin = lsi_cuda_recording_begin,
    .capture_end = lsi_cuda_recording_end,
    .replay = lsi_cuda_recording_replay,
    .recording_destroy = lsi_cuda_recording_destroy,
    .abort = lsi_cuda_device_abort,
    .fail = lsi_cuda_device_fail,
};
