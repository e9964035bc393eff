/* The cpu device that the backend's tests open. */
#ifndef LS_TESTS_BACKEND_DEVICE_H
#define LS_TESTS_BACKEND_DEVICE_H

#include "support/test.h"

#include "backend/registry.h"

static inline ls_device *test_device_open(int n_threads)
{
    ls_device_options options = {.struct_size = sizeof options, .n_threads = n_threads};
    ls_device *device = NULL;

    CHECK_OK(lsi_cpu_backend.open(&options, &device));
    return device;
}

static inline ls_stream *test_stream(ls_device *device, const char *name)
{
    ls_stream *stream = NULL;

    CHECK_OK(device->backend->stream_create(device, name, 0, &stream));
    return stream;
}

static inline ls_event *test_event(ls_device *device)
{
    ls_event *event = NULL;

    CHECK_OK(device->backend->event_create(device, &event));
    return event;
}

#endif
