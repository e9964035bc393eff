#include "metrics/timeline.h"

#include <string.h>

#include "metrics/trace.h"

void lsi_timeline_open(lsi_timeline *timeline, ls_device *device)
{
    memset(timeline, 0, sizeof *timeline);
    timeline->device = device;
    timeline->seen = device->backend->stamp_count(device);
}

/* ---- what a stamp adds to its step ------------------------------------------------------------------------------- */

/* From the begin of a pair, which it uses up, to now. */
static uint64_t since(lsi_timeline_step *s, lsi_point begin, uint64_t now)
{
    uint64_t from = s->at[begin];

    s->at[begin] = 0;
    return from != 0 && now > from ? now - from : 0;
}

static void add_to_step(lsi_timeline_step *s, lsi_point point, uint64_t now)
{
    switch (point) {
    case LSI_POINT_BEGIN:
        memset(s, 0, sizeof *s);
        break;
    case LSI_POINT_DATA_HERE:
        s->data_wait += since(s, LSI_POINT_DATA_WAIT, now);
        break;
    case LSI_POINT_GATHER_WAIT_END:
        s->gather_wait += since(s, LSI_POINT_GATHER_WAIT_BEGIN, now);
        break;
    case LSI_POINT_REDUCE_END:
        s->comm += since(s, LSI_POINT_REDUCE_BEGIN, now);
        break;
    case LSI_POINT_GATHER_END:
        s->comm += since(s, LSI_POINT_GATHER_BEGIN, now);
        break;
    case LSI_POINT_EXCHANGE_END:
        s->comm += since(s, LSI_POINT_EXCHANGE_BEGIN, now);
        break;
    default:
        break;
    }
    s->at[point] = now;
}

/* While `step` is read, the other parity is the step before it until the one after it begins. */
static void take(lsi_timeline *timeline, int64_t step, const ls_stamp *stamp, lsi_trace *trace)
{
    int parity = (int)(stamp->id >> 8 & 1);
    uint32_t point = lsi_timeline_point_of(stamp->id);

    if (point >= LSI_POINT_COUNT) {
        return;
    }
    if (parity != (int)(step & 1)) {
        timeline->ahead = timeline->ahead || point == LSI_POINT_BEGIN;
        step += timeline->ahead ? 1 : -1;
    }
    add_to_step(&timeline->of[parity], (lsi_point)point, stamp->nanoseconds);
    if (trace != NULL) {
        lsi_trace_stamp(trace, step, stamp);
    }
}

/* ---- the ring ---------------------------------------------------------------------------------------------------- */

typedef enum found { HERE, NOT_YET, GONE } found;

/* Streams write while we read. A stamp's sequence is written last; and it is whole if, after it was copied, not so many
 * have been counted that another may be on the way to its place. */
static found read_stamp(const lsi_timeline *timeline, uint64_t sequence, ls_stamp *out)
{
    const ls_backend *backend = timeline->device->backend;
    const ls_stamp *slot = &backend->stamps(timeline->device)[sequence % LS_STAMP_RING];

    out->sequence = __atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE);
    out->nanoseconds = __atomic_load_n(&slot->nanoseconds, __ATOMIC_ACQUIRE);
    out->id = __atomic_load_n(&slot->id, __ATOMIC_ACQUIRE);
    if (backend->stamp_count(timeline->device) >= sequence + LS_STAMP_RING || out->sequence > sequence) {
        return GONE;
    }
    return out->sequence == sequence ? HERE : NOT_YET;
}

/* Takes the late stamps that have come; the others stay. Looks at the newest first: when it has been written, so have
 * the older ones of its stream, and no stamp is taken before one of them. */
static void take_late(lsi_timeline *timeline, int64_t step, lsi_trace *trace)
{
    ls_stamp stamp[LSI_TIMELINE_MAX_LATE];
    found result[LSI_TIMELINE_MAX_LATE];
    int kept = 0, n = timeline->n_late;

    for (int i = n - 1; i >= 0; i--) {
        result[i] = read_stamp(timeline, timeline->late[i], &stamp[i]);
    }
    for (int i = 0; i < n; i++) {
        if (result[i] == NOT_YET) {
            timeline->late[kept++] = timeline->late[i];
        } else if (result[i] == HERE) {
            take(timeline, step, &stamp[i], trace);
        } else {
            timeline->n_lost++;
        }
    }
    timeline->n_late = kept;
}

/* Passes over stamps that are not written yet: they are of other streams than the ones waited for, and must not hold up
 * what is there. Ends behind the stamp called `last`, or with the newest one. */
static void read_until(lsi_timeline *timeline, int64_t step, uint32_t last, lsi_trace *trace)
{
    uint64_t newest = timeline->device->backend->stamp_count(timeline->device);
    bool done = false;

    if (newest - timeline->seen > LS_STAMP_RING) {
        timeline->n_lost += newest - LS_STAMP_RING - timeline->seen;
        timeline->seen = newest - LS_STAMP_RING;
    }
    take_late(timeline, step, trace);
    while (!done && timeline->seen < newest) {
        uint64_t sequence = ++timeline->seen;
        ls_stamp stamp;
        found result = read_stamp(timeline, sequence, &stamp);

        if (result == HERE) {
            /* A stream's stamps are written in its order: an earlier one of this stream has been by now. */
            take_late(timeline, step, trace);
            take(timeline, step, &stamp, trace);
            done = stamp.id == last;
        } else if (result == NOT_YET && timeline->n_late < LSI_TIMELINE_MAX_LATE) {
            timeline->late[timeline->n_late++] = sequence;
        } else {
            timeline->n_lost++;
        }
    }
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

static double seconds(uint64_t from, uint64_t to)
{
    return from != 0 && to > from ? (double)(to - from) * 1e-9 : 0;
}

void lsi_timeline_read(lsi_timeline *timeline, int64_t step, lsi_step_times *out, lsi_trace *trace)
{
    const lsi_timeline_step *s = &timeline->of[step & 1];
    lsi_timeline_step *other = &timeline->of[(step + 1) & 1];

    timeline->ahead = false;
    read_until(timeline, step, lsi_timeline_id(step, LSI_POINT_COMMIT, 0), trace);

    uint64_t commit = s->at[LSI_POINT_COMMIT];
    uint64_t arrived = s->at[LSI_POINT_ARRIVED] != 0 ? s->at[LSI_POINT_ARRIVED] : commit;
    double gather_wait = (double)s->gather_wait * 1e-9;
    double update = timeline->ahead ? 0 : seconds(other->at[LSI_POINT_COMMIT], other->at[LSI_POINT_END]);

    out->data_wait = (double)s->data_wait * 1e-9;
    out->comm = (double)s->comm * 1e-9;
    out->comm_exposed = gather_wait + seconds(s->at[LSI_POINT_BACKWARD_END], arrived);
    out->compute = seconds(s->at[LSI_POINT_BEGIN], s->at[LSI_POINT_BACKWARD_END]) - out->data_wait - gather_wait;
    out->compute = (out->compute > 0 ? out->compute : 0) + update;
    out->step = seconds(timeline->last_commit, commit);
    if (timeline->last_commit == 0 && s->at[LSI_POINT_BEGIN] != 0 && commit != 0) {
        out->step = update + seconds(s->at[LSI_POINT_BEGIN], commit);
    }
    timeline->last_commit = commit;
    if (!timeline->ahead) {
        memset(other, 0, sizeof *other);    /* the next step's: nothing of an older one may stand in for what is lost */
    }
}

void lsi_timeline_pause(lsi_timeline *timeline, int64_t step, lsi_trace *trace)
{
    /* Nothing of the step before can be left. */
    timeline->ahead = true;
    read_until(timeline, step, UINT32_MAX, trace);
    timeline->last_commit = 0;
}
