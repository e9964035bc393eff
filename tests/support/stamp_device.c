#include "support/stamp_device.h"

#include <string.h>

#include "base/clock.h"

static const ls_stamp *stamps(ls_device *device)
{
    return ((stamp_device *)device)->ring;
}

static uint64_t stamp_count(ls_device *device)
{
    stamp_device *d = (stamp_device *)device;

    if (d->on_count != NULL) {
        d->on_count();
    }
    return d->n_stamps;
}

static ls_status stream_create(ls_device *device, const char *name, int priority, ls_stream **out)
{
    stamp_device *d = (stamp_device *)device;

    (void)name, (void)priority;
    LS_REQUIRE(!d->has_no_streams, LS_ERR_DEVICE, "this device has no streams");
    *out = &d->stream;
    return LS_OK;
}

static void stream_destroy(ls_stream *stream)
{
    (void)stream;
}

static ls_status stream_sync(ls_stream *stream)
{
    (void)stream;
    return LS_OK;
}

static ls_status stamp(ls_stream *stream, uint32_t id)
{
    stamp_device *d = (stamp_device *)stream->device;

    stamp_device_put(d, id, lsi_clock_nanoseconds() + (uint64_t)d->skew);
    return LS_OK;
}

static const ls_backend backend = {
    .struct_size = sizeof backend,
    .name = "stamps",
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_sync = stream_sync,
    .stamp = stamp,
    .stamps = stamps,
    .stamp_count = stamp_count,
};

void stamp_device_open(stamp_device *device)
{
    memset(device, 0, sizeof *device);
    device->head.backend = &backend;
    device->stream.device = &device->head;
}

uint64_t stamp_device_count(stamp_device *device)
{
    return ++device->n_stamps;
}

void stamp_device_write(stamp_device *device, uint64_t sequence, uint32_t id, uint64_t nanoseconds)
{
    device->ring[sequence % LS_STAMP_RING] = (ls_stamp){.sequence = sequence, .nanoseconds = nanoseconds, .id = id};
}

void stamp_device_put(stamp_device *device, uint32_t id, uint64_t nanoseconds)
{
    stamp_device_write(device, stamp_device_count(device), id, nanoseconds);
}
