/* Copies and fills, with what CUDA documents about pageable memory: its source is read when the call is made, and a
 * copy to it is over when the call returns. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

static const double device_bytes_per_second = 1.5e12, host_bytes_per_second = 2.5e10, latency_seconds = 2e-6;

static bool pageable(const void *pointer)
{
    cusim_memory m;
    return !cusim_memory_find(pointer, 0, &m);
}

static bool on_device(const void *pointer)
{
    cusim_memory m;
    return cusim_memory_find(pointer, 0, &m) && m.kind == cudaMemoryTypeDevice;
}

typedef struct shape {
    size_t row, rows, target_pitch, source_pitch;
} shape;

static cudaError_t copy(void *target, const void *source, shape s, enum cudaMemcpyKind kind, cusim_stream *stream,
                        bool async)
{
    size_t bytes = s.row * s.rows;
    if (bytes == 0)
        return cudaSuccess;
    size_t target_span = s.target_pitch * (s.rows - 1) + s.row, source_span = s.source_pitch * (s.rows - 1) + s.row;
    size_t span = target_span < source_span ? target_span : source_span;
    cudaError_t error = cusim_memory_check_copy(target, source, span, kind);
    if (error != cudaSuccess)
        return error;
    bool inside = on_device(target) && on_device(source);
    op *o = cusim_op_new(OP_COPY, "copy",
                         latency_seconds + (double)bytes / (inside ? device_bytes_per_second : host_bytes_per_second));
    o->u.copy.target = target;
    o->u.copy.source = source;
    o->u.copy.bytes = bytes;
    o->u.copy.row = s.row;
    o->u.copy.target_pitch = s.target_pitch;
    o->u.copy.source_pitch = s.source_pitch;
    if (async && pageable(source)) {
        o->u.copy.staged = malloc(bytes);
        if (o->u.copy.staged == NULL)
            cusim_die("out of host memory");
        for (size_t i = 0; i < s.rows; i++) {
            CUSIM_READS((const char *)source + i * s.source_pitch, s.row);
            memcpy(o->u.copy.staged + i * s.row, (const char *)source + i * s.source_pitch, s.row);
        }
    }
    bool captured = stream->capture != NULL;
    error = cusim_queue(o, stream);
    if (error != cudaSuccess || captured)
        return error;
    if (async ? pageable(target) : !inside) /* within a device cudaMemcpy does not wait either */
        cusim_drain_stream(stream);
    return cudaSuccess;
}

static shape one_piece(size_t bytes)
{
    return (shape){bytes, 1, bytes, bytes};
}

cudaError_t cudaMemcpy(void *target, const void *source, size_t bytes, enum cudaMemcpyKind kind)
{
    CUSIM_ENTER_STREAM(cudaMemcpy, NULL, "bytes=%zu kind=%d", bytes, (int)kind);
    cudaError_t error = copy(target, source, one_piece(bytes), kind, cusim_stream_legacy(cusim_device), false);
    return cusim_leave(error != cudaSuccess ? error : cusim.devices[cusim_device].error);
}

cudaError_t cudaMemcpyAsync(void *target, const void *source, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    CUSIM_ENTER_STREAM(cudaMemcpyAsync, stream, "bytes=%zu kind=%d%s", bytes, (int)kind,
                       pageable(target) || pageable(source) ? " pageable" : "");
    return cusim_leave(copy(target, source, one_piece(bytes), kind, cusim_stream_resolve(stream), true));
}

cudaError_t cudaMemcpy2DAsync(void *target, size_t target_pitch, const void *source, size_t source_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    CUSIM_ENTER_STREAM(cudaMemcpy2DAsync, stream, "bytes=%zu kind=%d", width * height, (int)kind);
    if (width > target_pitch || width > source_pitch)
        return cusim_leave(cudaErrorInvalidPitchValue);
    shape s = {width, height, target_pitch, source_pitch};
    return cusim_leave(copy(target, source, s, kind, cusim_stream_resolve(stream), true));
}

cudaError_t cudaMemcpyPeerAsync(void *target, int target_device, const void *source, int source_device, size_t bytes,
                                cudaStream_t stream)
{
    CUSIM_ENTER_STREAM(cudaMemcpyPeerAsync, stream, "bytes=%zu from=%d to=%d", bytes, source_device, target_device);
    if (!cusim_is_device_range(target, bytes, target_device) || !cusim_is_device_range(source, bytes, source_device))
        return cusim_leave(cudaErrorInvalidValue);
    return cusim_leave(
        copy(target, source, one_piece(bytes), cudaMemcpyDeviceToDevice, cusim_stream_resolve(stream), true));
}

static cudaError_t set(void *target, int value, size_t bytes, cusim_stream *stream)
{
    cusim_memory m;
    if (bytes == 0)
        return cudaSuccess;
    if (!cusim_memory_find(target, bytes, &m) || m.freed)
        return cudaErrorInvalidValue;
    op *o = cusim_op_new(OP_SET, "memset", latency_seconds + (double)bytes / device_bytes_per_second);
    o->u.copy.target = target;
    o->u.copy.value = value;
    o->u.copy.bytes = o->u.copy.row = o->u.copy.target_pitch = bytes;
    return cusim_queue(o, stream);
}

cudaError_t cudaMemsetAsync(void *target, int value, size_t bytes, cudaStream_t stream)
{
    CUSIM_ENTER_STREAM(cudaMemsetAsync, stream, "bytes=%zu", bytes);
    return cusim_leave(set(target, value, bytes, cusim_stream_resolve(stream)));
}

cudaError_t cudaMemset(void *target, int value, size_t bytes)
{
    CUSIM_ENTER_STREAM(cudaMemset, NULL, "bytes=%zu", bytes);
    return cusim_leave(set(target, value, bytes, cusim_stream_legacy(cusim_device)));
}
