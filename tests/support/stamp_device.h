/* A device that is nothing but a ring of stamps, which the test writes, and a clock that is wrong by what the test
 * says. Of the backend's table only what a reader of stamps needs is there. */
#ifndef LS_TESTS_SUPPORT_STAMP_DEVICE_H
#define LS_TESTS_SUPPORT_STAMP_DEVICE_H

#include <lockstep/backend.h>
#include <stdbool.h>

typedef struct stamp_device {
    ls_device head;
    uint64_t n_stamps;
    ls_stamp ring[LS_STAMP_RING];
    int64_t skew;               /* of the clock that queued stamps read, in nanoseconds */
    bool has_no_streams;        /* creating one fails */
    void (*on_count)(void);     /* called when the reader asks for the count: what another thread does meanwhile */
    ls_stream stream;
} stamp_device;

void stamp_device_open(stamp_device *device);
/* A stamp as streams write it: counted, and later written. */
uint64_t stamp_device_count(stamp_device *device);
void stamp_device_write(stamp_device *device, uint64_t sequence, uint32_t id, uint64_t nanoseconds);
/* Both. */
void stamp_device_put(stamp_device *device, uint32_t id, uint64_t nanoseconds);

#endif
