/* Flags: words of pinned memory. Streams use the driver's stream memory operations, host threads atomic loads and
 * stores; a waiting host thread looks again and again, with longer and longer naps, for the GPU wakes nobody. */
#include "backend/cuda/device.h"

#include <unistd.h>

#include "backend/cuda/release.h"
#include "backend/cuda/stream.h"
#include "base/clock.h"

enum { LOOKS_WITHOUT_NAP = 100, NAP_MICROSECONDS = 10, LONGEST_NAP_MICROSECONDS = 200 };

/* ---- streams ---------------------------------------------------------------------------------------------------- */

/* The driver's error as the runtime's: their numbers are the same. */
static cudaError_t queue_value(ls_stream *stream, lsi_cuda_stream_value_fn function, ls_flag *flag, uint32_t value,
                               unsigned int flags)
{
    return (cudaError_t)function(((lsi_cuda_queue *)stream)->cuda, (CUdeviceptr)(uintptr_t)&flag->word, value, flags);
}

ls_status lsi_cuda_flag_set(ls_stream *stream, ls_flag *flag, uint32_t value)
{
    lsi_cuda_device *d = (lsi_cuda_device *)stream->device;

    LS_TRY(lsi_cuda_stream_begin(stream, NULL));
    return lsi_cuda_stream_end(stream,
                               queue_value(stream, d->driver.write_value, flag, value, CU_STREAM_WRITE_VALUE_DEFAULT),
                               "cuStreamWriteValue32", "the set of a flag");
}

ls_status lsi_cuda_flag_wait(ls_stream *stream, ls_flag *flag, uint32_t value)
{
    lsi_cuda_device *d = (lsi_cuda_device *)stream->device;
    bool skip;

    LS_TRY(lsi_cuda_stream_begin(stream, &skip));
    if (skip) {
        return LS_OK;
    }
    LS_TRY(lsi_cuda_release_note(d, flag, value));
    return lsi_cuda_stream_end(stream, queue_value(stream, d->driver.wait_value, flag, value, CU_STREAM_WAIT_VALUE_EQ),
                               "cuStreamWaitValue32", "the wait for a flag");
}

/* ---- host threads ------------------------------------------------------------------------------------------------ */

void lsi_cuda_host_flag_set(ls_device *device, ls_flag *flag, uint32_t value)
{
    (void)device;
    __atomic_store_n(&flag->word, value, __ATOMIC_RELEASE);
}

/* Until (the word is the value) == `equal`, or the device has stopped; false when that takes too long. */
static bool wait_word(const lsi_cuda_device *d, const ls_flag *flag, bool equal, uint32_t value, double seconds,
                      uint32_t *seen)
{
    bool limited = seconds > 0 && seconds < 1e9;
    double deadline = limited ? lsi_clock_seconds() + seconds : 0;
    useconds_t nap = NAP_MICROSECONDS;

    for (int looks = 1;; looks++) {
        *seen = __atomic_load_n(&flag->word, __ATOMIC_ACQUIRE);
        if ((*seen == value) == equal || lsi_cuda_device_stopped(d)) {
            return true;
        }
        if (looks < LOOKS_WITHOUT_NAP) {
            continue;
        }
        if (limited && lsi_clock_seconds() >= deadline) {
            return false;
        }
        usleep(nap);
        nap = nap * 2 < LONGEST_NAP_MICROSECONDS ? nap * 2 : LONGEST_NAP_MICROSECONDS;
    }
}

/* After a failure the GPU may never get to setting the flag, or was not even told to. */
static ls_status host_wait(ls_device *device, const ls_flag *flag, bool equal, uint32_t value, double seconds,
                           uint32_t *seen)
{
    lsi_cuda_device *d = (lsi_cuda_device *)device;

    LS_REQUIRE(wait_word(d, flag, equal, value, seconds, seen), LS_ERR_TIMEOUT,
               "a flag did not become %s%u within %g s", equal ? "" : "other than ", value, seconds);
    /* Also where the flag is right: what it stands for may have been skipped. */
    return lsi_cuda_device_check(d);
}

ls_status lsi_cuda_host_flag_wait(ls_device *device, ls_flag *flag, uint32_t value, double seconds)
{
    uint32_t seen;

    return host_wait(device, flag, true, value, seconds, &seen);
}

ls_status lsi_cuda_host_flag_wait_change(ls_device *device, ls_flag *flag, uint32_t value, double seconds,
                                         uint32_t *out)
{
    return host_wait(device, flag, false, value, seconds, out);
}
