#include "metrics/timeline.h"

#include <string.h>

void lsi_timeline_open(lsi_timeline *timeline, ls_device *device)
{
    memset(timeline, 0, sizeof *timeline);
    timeline->device = device;
    timeline->seen = device->backend->stamp_count(device);
}

static void take(lsi_timeline *timeline, const ls_stamp *stamp)
{
    int parity = (int)(stamp->id >> 8 & 1);
    uint32_t point = stamp->id & 0xff;

    if (point >= LSI_POINT_COUNT) {
        return;
    }
    if (point == LSI_POINT_COMM_END) {
        timeline->comm[parity] += stamp->nanoseconds - timeline->at[parity][LSI_POINT_COMM_BEGIN];
    }
    if (point == LSI_POINT_BEGIN) {
        timeline->comm[parity] = 0;
    }
    timeline->at[parity][point] = stamp->nanoseconds;
}

static double seconds(uint64_t from, uint64_t to)
{
    return from != 0 && to > from ? (double)(to - from) * 1e-9 : 0;
}

void lsi_timeline_read(lsi_timeline *timeline, int64_t step, lsi_step_times *out)
{
    const ls_backend *backend = timeline->device->backend;
    const ls_stamp *ring = backend->stamps(timeline->device);
    uint64_t newest = backend->stamp_count(timeline->device);
    uint64_t commit_id = lsi_timeline_id(step, LSI_POINT_COMMIT);

    if (newest - timeline->seen > LS_STAMP_RING) {
        timeline->seen = newest - LS_STAMP_RING;
    }
    /* Stop at this step's commit: what comes after belongs to the next reading. */
    while (timeline->seen < newest) {
        uint64_t sequence = timeline->seen + 1;
        const volatile ls_stamp *slot = &ring[sequence % LS_STAMP_RING];
        ls_stamp stamp = {.sequence = slot->sequence, .nanoseconds = slot->nanoseconds, .id = slot->id};

        if (stamp.sequence < sequence) {
            break;
        }
        timeline->seen = sequence;
        if (stamp.sequence == sequence) {
            take(timeline, &stamp);
            if (stamp.id == commit_id) {
                break;
            }
        }
    }

    const uint64_t *at = timeline->at[step & 1], *before = timeline->at[(step + 1) & 1];
    uint64_t start = timeline->last_commit != 0 ? timeline->last_commit : at[LSI_POINT_BEGIN];
    double update = timeline->last_commit != 0 ? seconds(before[LSI_POINT_COMMIT], before[LSI_POINT_END]) : 0;

    out->step = seconds(start, at[LSI_POINT_COMMIT]);
    out->data_wait = seconds(at[LSI_POINT_DATA_WAIT], at[LSI_POINT_DATA_HERE]);
    out->comm = (double)timeline->comm[step & 1] * 1e-9;
    out->comm_exposed = seconds(at[LSI_POINT_BACKWARD_END], at[LSI_POINT_COMMIT]);
    out->compute = seconds(at[LSI_POINT_BEGIN], at[LSI_POINT_BACKWARD_END]) - out->data_wait + update;
    timeline->last_commit = at[LSI_POINT_COMMIT];
}
