/* Which stream goes on, and when. Nothing runs by itself: each call of the API lets streams go on within what the
 * policy allows, and a call that waits runs what it needs. */
#include "runtime.h"

#include <time.h>

/* ---- one step of one stream ----------------------------------------------------------------- */

static bool can_run(const cusim_stream *stream)
{
    return stream->first != NULL && !stream->blocked && cusim_op_can_run(stream->first);
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* Before the first step of an operation: where it begins in the virtual clock, and what it is ordered after. */
static void begin(op *o, cusim_stream *stream)
{
    stream->seconds = later(stream->seconds, o->queued_at);
    CUSIM_TS(__tsan_acquire(&o->tsan);)
    for (int i = 0; i < o->n_after; i++) {
        stream->seconds = later(stream->seconds, o->after[i].stream->seconds);
        CUSIM_TS(__tsan_acquire(&o->after[i].stream->tsan);)
    }
}

static void finish(op *o, cusim_stream *stream)
{
    double start = stream->seconds;
    if (o->kind == OP_WAIT && o->u.event.record != NULL)
        stream->seconds = later(stream->seconds, o->u.event.record->seconds);
    else if (o->kind == OP_WAIT_VALUE)
        stream->seconds = later(stream->seconds, cusim.host_seconds);
    stream->seconds += o->seconds;
    cusim_record_run(o, stream->id, -1, start, stream->seconds);
    stream->first = o->next;
    if (stream->first == NULL)
        stream->last = NULL;
    stream->n_done = o->sequence;
    CUSIM_TS(__tsan_release(&stream->tsan);)
    cusim_op_free(o);
}

static void pause_for(long nanoseconds)
{
    struct timespec time = {0, nanoseconds};
    nanosleep(&time, NULL);
}

/* Whether no other thread has destroyed the stream while the lock was free. */
static bool is_alive(const cusim_stream *stream)
{
    const cusim_stream *s = cusim.streams;
    while (s != NULL && s != stream)
        s = s->next;
    return s != NULL;
}

/* A host function runs on its own thread, which may need what the caller's holds; so wait for it, but not for ever:
 * most programs stay reproducible, and none deadlocks. */
static void wait_for_host_function(const cusim_stream *stream, const op *o)
{
    if (cusim_lock_is_nested())
        return;
    /* Once it is done another thread may go on with the stream. */
    for (int i = 0; i < 200 && is_alive(stream) && stream->first == o && o->u.host.state == HOST_RUNNING; i++) {
        cusim_unlock();
        pause_for(100000);
        cusim_lock();
    }
}

/* True if something happened. */
static bool step(cusim_stream *stream)
{
    op *o = stream->first;
    CUSIM_TS(void *self = __tsan_get_current_fiber(); __tsan_switch_to_fiber(stream->tsan_fiber, 1);)
    if (!o->started)
        begin(o, stream);
    cusim.running = true;
    cusim.now = stream->seconds;
    progress made = cusim_perform(o, stream);
    if (made == PROGRESS_DONE)
        finish(o, stream);
    CUSIM_TS(__tsan_switch_to_fiber(self, 1);)
    cusim_memory_close();
    cusim.running = false;
    if (made == PROGRESS_NONE)
        stream->blocked = true;
    if (made == PROGRESS_SOME && o->kind == OP_HOST)
        wait_for_host_function(stream, o);
    return made != PROGRESS_NONE;
}

/* ---- choosing ------------------------------------------------------------------------------- */

/* Who must go on so that `stream` can. */
static cusim_stream *needed_by(cusim_stream *stream, int depth)
{
    if (depth > 64 || stream->first == NULL)
        return NULL;
    if (can_run(stream))
        return stream;
    const op *o = stream->first;
    for (int i = 0; i < o->n_after; i++) {
        if (o->after[i].stream->n_done >= o->after[i].sequence)
            continue;
        cusim_stream *other = needed_by(o->after[i].stream, depth + 1);
        if (other != NULL)
            return other;
    }
    if (o->kind == OP_WAIT && o->u.event.record != NULL && !o->u.event.record->done &&
        o->u.event.record->stream != NULL)
        return needed_by(o->u.event.record->stream, depth + 1);
    return NULL;
}

static cusim_stream *slowest(void)
{
    cusim_stream *best = NULL;
    for (cusim_stream *s = cusim.streams; s != NULL; s = s->next)
        if (best == NULL || s->weight < best->weight)
            best = s;
    return best;
}

static cusim_stream *fastest(const cusim_stream *except, bool must_run)
{
    cusim_stream *best = NULL;
    for (cusim_stream *s = cusim.streams; s != NULL; s = s->next)
        if (s != except && (!must_run || can_run(s)) && (best == NULL || s->weight > best->weight))
            best = s;
    return best;
}

/* Any that can run: the oldest stream, or at random by weight. */
static cusim_stream *any(bool at_random)
{
    cusim_stream *last = NULL;
    double total = 0;
    for (cusim_stream *s = cusim.streams; s != NULL; s = s->next)
        if (can_run(s)) {
            total += s->weight;
            last = s;
        }
    if (!at_random || last == NULL)
        return last;
    double at = total * ((double)(cusim_random() >> 11) / 9007199254740992.0);
    for (cusim_stream *s = cusim.streams; s != NULL; s = s->next)
        if (can_run(s) && (at -= s->weight) <= 0)
            return s;
    return last;
}

/* The stream that goes on, NULL: none does now. wanted: what the host waits for, if it is a stream. */
static cusim_stream *pick(cusim_stream *wanted, bool host_waits)
{
    cusim_stream *s;
    switch (cusim.policy) {
    case POLICY_EAGER:
        return any(false);
    case POLICY_RANDOM:
        return any(true);
    case POLICY_FAST:
        s = fastest(NULL, false);
        if (s != NULL && can_run(s))
            return s;
        break;
    case POLICY_SLOW:
        s = fastest(slowest(), true);
        if (s != NULL)
            return s;
        break;
    case POLICY_OTHERS:
        if (host_waits && (s = fastest(wanted, true)) != NULL)
            return s;
        break;
    case POLICY_LAZY:
        break;
    }
    if (!host_waits)
        return NULL;
    if (wanted != NULL && cusim.policy != POLICY_SLOW && (s = needed_by(wanted, 0)) != NULL)
        return s;
    return any(false);
}

static void unblock(void)
{
    for (cusim_stream *s = cusim.streams; s != NULL; s = s->next)
        s->blocked = false;
}

/* One step of some stream; false if none could make any. */
static bool step_one(cusim_stream *wanted, bool host_waits)
{
    cusim_stream *s;
    unblock();
    while ((s = pick(wanted, host_waits)) != NULL)
        if (step(s))
            return true;
    return false;
}

/* ---- for the rest of the runtime ------------------------------------------------------------ */

void cusim_run_some(void)
{
    if (cusim.running)
        return;
    if (cusim.policy == POLICY_RANDOM) {
        if (cusim_random() % 4 != 0)
            return;
        for (int n = (int)(cusim_random() % 8); n > 0 && step_one(NULL, false); n--) {
        }
        return;
    }
    while (step_one(NULL, false)) {
    }
}

void cusim_poll_stream(cusim_stream *stream)
{
    if (!cusim.running)
        step_one(stream, true);
}

void cusim_pass_by_host(void)
{
    for (int i = 0; i < 64 && !cusim.running && step_one(NULL, true); i++) {
    }
}

static void wait_for(bool (*ready)(void *argument), void *argument, cusim_stream *wanted, int device)
{
    if (cusim.running)
        cusim_die("a CUDA call that waits was made while an operation runs");
    for (int idle = 0; !ready(argument) && (device < 0 || cusim.devices[device].error == cudaSuccess);) {
        if (step_one(wanted, true)) {
            idle = 0;
            continue;
        }
        if (++idle > 2) {
            cusim_unlock();
            pause_for(idle > 100 ? 500000 : 20000);
            cusim_lock();
        }
    }
}

void cusim_wait_until(bool (*ready)(void *argument), void *argument)
{
    wait_for(ready, argument, NULL, -1);
}

struct drain {
    cusim_stream *stream;
    uint64_t sequence;
};

static bool drained(void *argument)
{
    const struct drain *d = argument;
    return d->stream->n_done >= d->sequence;
}

void cusim_drain_stream(cusim_stream *stream)
{
    struct drain d = {stream, stream->n_queued};
    wait_for(drained, &d, stream, stream->device);
    CUSIM_TS(__tsan_acquire(&stream->tsan);)
    cusim.host_seconds = later(cusim.host_seconds, stream->seconds);
}

void cusim_drain_device(int device)
{
    /* Other threads may make and destroy streams meanwhile: look from the start after each wait. */
    cusim_stream *s = cusim.streams;
    while (s != NULL) {
        if (s->device == device && s->n_done < s->n_queued && cusim.devices[device].error == cudaSuccess) {
            cusim_drain_stream(s);
            s = cusim.streams;
            continue;
        }
        if (s->device == device) {
            CUSIM_TS(__tsan_acquire(&s->tsan);)
            cusim.host_seconds = later(cusim.host_seconds, s->seconds);
        }
        s = s->next;
    }
}

static bool recorded(void *argument)
{
    return ((event_record *)argument)->done;
}

void cusim_wait_record(event_record *record, int device)
{
    record->references++;
    wait_for(recorded, record, record->stream, device);
    CUSIM_TS(__tsan_acquire(&record->tsan);)
    cusim.host_seconds = later(cusim.host_seconds, record->seconds);
    cusim_record_drop(record);
}
