#include "metrics/clock_offset.h"

enum { ROUNDS = 24 };

typedef struct passage {
    uint64_t enter, exit;
} passage;

/* The interval that all rounds allow, and the point in it. */
static void meet(const passage *mine, const passage *root, lsi_clock_offset *out)
{
    int64_t low = INT64_MIN, high = INT64_MAX;

    for (int i = 0; i < ROUNDS; i++) {
        int64_t from = (int64_t)(mine[i].enter - root[i].exit), to = (int64_t)(mine[i].exit - root[i].enter);

        low = from > low ? from : low;
        high = to < high ? to : high;
    }
    int64_t offset = low <= 0 && high >= 0 ? 0 : low + (high - low) / 2;
    out->nanoseconds = offset;
    out->accuracy = offset - low > high - offset ? offset - low : high - offset;
}

ls_status lsi_clock_offset_measure(lsi_job *job, lsi_clock_fn clock, void *argument, lsi_clock_offset *out)
{
    passage mine[ROUNDS] = {{0, 0}}, root[ROUNDS];
    ls_status broken = LS_OK;

    for (int i = 0; i < ROUNDS; i++) {
        if (broken == LS_OK) {
            broken = clock(argument, &mine[i].enter);
        }
        LS_TRY(lsi_job_barrier(job));
        if (broken == LS_OK) {
            broken = clock(argument, &mine[i].exit);
        }
    }
    for (int i = 0; i < ROUNDS; i++) {
        root[i] = mine[i];
    }
    LS_TRY(lsi_job_broadcast(job, root, sizeof root, 0));
    if (broken == LS_OK) {
        meet(mine, root, out);
    }
    return broken;
}
