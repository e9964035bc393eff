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
static ls_status queue_value(ls_stream *stream, lsi_cuda_stream_value_fn function, ls_flag *flag, uint32_t value,
                             unsigned int flags, const char *what)
{
    CUresult result = function(((lsi_cuda_queue *)stream)->cuda, (CUdeviceptr)(uintptr_t)&flag->word, value, flags);

    return lsi_cuda_stream_end(stream, (cudaError_t)result, what);
}

ls_status lsi_cuda_flag_set(ls_stream *stream, ls_flag *flag, uint32_t value)
{
    lsi_cuda_device *d = (lsi_cuda_device *)stream->device;

    LS_TRY(lsi_cuda_stream_begin(stream, NULL));
    return queue_value(stream, d->driver.write_value, flag, value, CU_STREAM_WRITE_VALUE_DEFAULT, "the set of a flag");
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
    return queue_value(stream, d->driver.wait_value, flag, value, CU_STREAM_WAIT_VALUE_EQ, "the wait for a flag");
}

/* ---- host threads ------------------------------------------------------------------------------------------------ */

void lsi_cuda_host_flag_set(ls_device *device, ls_flag *flag, uint32_t value)
{
    (void)device;
    __atomic_store_n(&flag->word, value, __ATOMIC_RELEASE);
}

typedef enum wait_result { MET, STOPPED, TIMED_OUT } wait_result;

/* Until (the word is the value) == `equal`. */
static wait_result wait_word(const lsi_cuda_device *d, const ls_flag *flag, bool equal, uint32_t value, double seconds,
                             uint32_t *seen)
{
    bool limited = seconds > 0 && seconds < 1e9;
    double deadline = limited ? lsi_clock_seconds() + seconds : 0;
    useconds_t nap = NAP_MICROSECONDS;

    for (int looks = 1;; looks++) {
        *seen = __atomic_load_n(&flag->word, __ATOMIC_ACQUIRE);
        if ((*seen == value) == equal) {
            return MET;
        }
        if ((__atomic_load_n(&d->stopped, __ATOMIC_RELAXED) & LSI_CUDA_ABORTED) != 0) {
            return STOPPED;
        }
        if (looks < LOOKS_WITHOUT_NAP) {
            continue;
        }
        if (limited && lsi_clock_seconds() >= deadline) {
            return TIMED_OUT;
        }
        usleep(nap);
        nap = nap * 2 < LONGEST_NAP_MICROSECONDS ? nap * 2 : LONGEST_NAP_MICROSECONDS;
    }
}

static ls_status host_wait(ls_device *device, const ls_flag *flag, bool equal, uint32_t value, double seconds,
                           uint32_t *seen)
{
    const lsi_cuda_device *d = (lsi_cuda_device *)device;

    /* Also where the flag is right: the threads that wait for flags leave by this failure. */
    if ((__atomic_load_n(&d->stopped, __ATOMIC_RELAXED) & LSI_CUDA_ABORTED) != 0) {
        return LS_FAIL(LS_ERR_INTERNAL, "the device was aborted");
    }
    switch (wait_word(d, flag, equal, value, seconds, seen)) {
    case MET:
        return LS_OK;
    case STOPPED:
        return LS_FAIL(LS_ERR_INTERNAL, "the device was aborted during a wait for a flag");
    case TIMED_OUT:
        break;
    }
    return LS_FAIL(LS_ERR_TIMEOUT, "a flag did not become %s%u within %g s", equal ? "" : "other than ", value,
                   seconds);
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
