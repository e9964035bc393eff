#include "metrics/where.h"

#include <stdio.h>
#include <string.h>

#include "metrics/span.h"

static const char *const row_name[] = {
#define ROW(id, name) name,
    LSI_TRACE_ROWS(ROW)
#undef ROW
};

static const struct span {
    lsi_trace_row row;
    const char *name;
    lsi_point begin, end;
    const char *counts;
} spans[] = {
#define SPAN(id, row, name, begin, end, counts) {LSI_ROW_##row, name, LSI_POINT_##begin, LSI_POINT_##end, counts},
    LSI_TRACE_SPANS(SPAN)
#undef SPAN
};

/* How far back the newest stamp of a stream is looked for. */
enum { LOOK_BACK = 256 };

/* The span that begins at this point (`begins`) or ends there; NULL: none but the step itself. */
static const struct span *find(uint32_t point, bool begins)
{
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        if (spans[i].row != LSI_ROW_STEP && (begins ? spans[i].begin : spans[i].end) == (lsi_point)point) {
            return &spans[i];
        }
    }
    return NULL;
}

static bool is_of(const struct span *span, bool comm)
{
    return comm ? span->row == LSI_ROW_COMM : span->row == LSI_ROW_COMPUTE || span->row == LSI_ROW_WAIT;
}

/* The stamp with this sequence number; false when it is not written yet, or not any more. */
static bool read_stamp(ls_device *device, uint64_t sequence, uint32_t *id)
{
    const ls_stamp *slot = &device->backend->stamps(device)[sequence % LS_STAMP_RING];

    if (__atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE) != sequence) {
        return false;
    }
    *id = __atomic_load_n(&slot->id, __ATOMIC_ACQUIRE);
    return __atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE) == sequence;
}

/* The newest stamp of compute, or of comm; false when there is none. */
static bool newest(ls_device *device, bool comm, uint32_t *out)
{
    uint64_t last = device->backend->stamp_count(device);

    for (uint64_t sequence = last; sequence > 0 && sequence + LOOK_BACK > last; sequence--) {
        uint32_t id;

        if (read_stamp(device, sequence, &id)) {
            uint32_t point = lsi_timeline_point_of(id);
            const struct span *span = find(point, true) != NULL ? find(point, true) : find(point, false);

            if (span != NULL ? is_of(span, comm) : !comm && point == LSI_POINT_BEGIN) {
                *out = id;
                return true;
            }
        }
    }
    return false;
}

enum { PART = 64 };

/* Whether this stamp of compute leaves it with work of its own: all but a wait for other ranks, or the end of a step.
 */
static bool is_busy(uint32_t id)
{
    const struct span *begun = find(lsi_timeline_point_of(id), true);

    if (begun == NULL) {
        return lsi_timeline_point_of(id) != LSI_POINT_END;
    }
    return begun->row != LSI_ROW_WAIT || begun->begin == LSI_POINT_DATA_WAIT;
}

/* "compute: forward of slot 3", "compute: after update". */
static void say(uint32_t id, char out[PART])
{
    const struct span *begun = find(lsi_timeline_point_of(id), true), *over = find(lsi_timeline_point_of(id), false);
    const struct span *span = begun != NULL ? begun : over;
    char counted[PART] = "";

    if (span == NULL) {
        snprintf(out, PART, "at its beginning");
        return;
    }
    if (span->counts[0] != '\0') {
        snprintf(counted, sizeof counted, " of %s %d", span->counts, lsi_timeline_index_of(id));
    }
    snprintf(out, PART, "%s: %s%s%.20s", row_name[span->row], begun != NULL ? "" : "after ", span->name, counted);
}

bool lsi_where_describe(ls_device *device, int64_t step, char *out, size_t room)
{
    char compute_part[PART] = "before its work", comm_part[PART] = "";
    uint32_t compute = 0, comm = 0;
    bool busy = true, communicates = false;

    if (newest(device, false, &compute)) {
        busy = is_busy(compute);
        say(compute, compute_part);
        /* Steps are counted from 0 in a stamp. */
        step -= (compute >> 8 & 1) != ((uint32_t)(step - 1) & 1);
    }
    if (newest(device, true, &comm) && find(lsi_timeline_point_of(comm), true) != NULL) {
        communicates = true;
        say(comm, comm_part);
    }
    snprintf(out, room, "step %lld, %s%s%s", (long long)step, compute_part, comm_part[0] != '\0' ? "; " : "",
             comm_part);
    return communicates && !busy;
}
