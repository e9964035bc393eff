/* A backend that orders work and computes nothing. Everything queued goes to a log that tests read; a stream is never
 * behind, so that waits for it return at once. Memory is real. Stream flag sets happen when they are queued. */
#ifndef LS_TESTS_SUPPORT_NULL_BACKEND_H
#define LS_TESTS_SUPPORT_NULL_BACKEND_H

#include <lockstep/backend.h>

extern const ls_backend null_backend;

typedef enum null_kind {
    NULL_OP,
    NULL_COPY,
    NULL_FILL,
    NULL_RECORD,
    NULL_WAIT,
    NULL_FLAG_SET,
    NULL_FLAG_WAIT,
    NULL_STAMP,
    NULL_STREAM_SYNC,
    NULL_EVENT_SYNC,
    NULL_CAPTURE_BEGIN,
    NULL_CAPTURE_END,
    NULL_REPLAY
} null_kind;

typedef struct null_entry {
    null_kind kind;
    bool captured;              /* queued while a capture was open */
    char stream[16];            /* name; "" for the host's calls */
    const ls_op *op;
    const void *object;         /* event, flag, recording; destination of copies and fills */
    const void *source;
    size_t bytes;
    uint32_t value;             /* of flags and fills; id of stamps */
    unsigned char arguments[LS_OP_MAX_ARGUMENTS];
} null_entry;

size_t null_log_count(const ls_device *device);
/* Valid until the next call on the device. */
const null_entry *null_log_entry(const ls_device *device, size_t index);
void null_log_clear(ls_device *device);
/* Blocks of memory, streams, events and recordings that have not been given back. */
size_t null_alive(const ls_device *device);
/* Those that have ever been made. */
size_t null_made(const ls_device *device);

#endif
