#include "backend/cpu/recording.h"

#include "base/memory.h"

/* Makes room for `needed` bytes. */
static ls_status grow(void **data, size_t needed, size_t *room)
{
    size_t larger = *room > 0 ? *room : 4096;

    if (needed <= *room) {
        return LS_OK;
    }
    while (larger < needed) {
        larger *= 2;
    }
    LS_TRY(lsi_memory_resize(data, larger, "captured commands"));
    *room = larger;
    return LS_OK;
}

static ls_status lane_add(lsi_cpu_recording *recording, lsi_cpu_stream *stream)
{
    lsi_cpu_lane **last = &recording->lanes;
    void *memory = NULL;

    while (*last != NULL) {
        last = &(*last)->next;
    }
    LS_TRY(lsi_memory_alloc(sizeof(lsi_cpu_lane), "captured stream", &memory));
    lsi_cpu_lane *lane = memory;
    lane->recording = recording;
    lane->stream = stream;
    stream->lane = lane;
    *last = lane;
    return LS_OK;
}

static ls_status append(lsi_cpu_stream *stream, const lsi_cpu_command *command, const void *extra, size_t extra_bytes)
{
    lsi_cpu_lane *lane = stream->lane;

    LS_REQUIRE(lane != NULL, LS_ERR_INTERNAL,
               "work for stream %s while a capture is open that it is not part of: it joins by waiting for an event "
               "recorded inside",
               stream->name);
    size_t end = lane->used + lsi_cpu_command_room(extra_bytes);
    void *commands = lane->commands;

    LS_TRY(grow(&commands, end, &lane->room));
    lane->commands = commands;
    lsi_cpu_command_store(lane->commands + lane->used, command, extra, extra_bytes);
    lane->last = lane->used;
    lane->used = end;
    return LS_OK;
}

ls_status lsi_cpu_recording_spoil(lsi_cpu_device *device, ls_status status)
{
    device->capture->broken = true;
    return status;
}

ls_status lsi_cpu_recording_append(lsi_cpu_stream *stream, const lsi_cpu_command *command, const void *extra,
                                   size_t extra_bytes)
{
    ls_status status = append(stream, command, extra, extra_bytes);

    return status == LS_OK ? LS_OK : lsi_cpu_recording_spoil((lsi_cpu_device *)stream->head.device, status);
}

ls_status lsi_cpu_recording_mark(lsi_cpu_stream *stream, uint32_t *out_edge)
{
    lsi_cpu_recording *recording = ((lsi_cpu_device *)stream->head.device)->capture;
    lsi_cpu_command set = {.kind = LSI_CPU_COMMAND_EDGE_SET, .value = (uint32_t)recording->n_edges};
    size_t needed = (recording->n_edges + 1) * sizeof(lsi_cpu_edge);
    void *edges = recording->edges;

    LS_TRY(lsi_cpu_recording_append(stream, &set, NULL, 0));
    ls_status status = grow(&edges, needed, &recording->edges_room);
    if (status != LS_OK) {
        return lsi_cpu_recording_spoil((lsi_cpu_device *)stream->head.device, status);
    }
    recording->edges = edges;
    *out_edge = (uint32_t)recording->n_edges++;
    return LS_OK;
}

ls_status lsi_cpu_recording_join(lsi_cpu_stream *stream, uint32_t edge)
{
    lsi_cpu_device *device = (lsi_cpu_device *)stream->head.device;
    lsi_cpu_command wait = {.kind = LSI_CPU_COMMAND_EDGE_WAIT, .value = edge};

    if (stream->lane == NULL) {
        ls_status status = lane_add(device->capture, stream);

        if (status != LS_OK) {
            return lsi_cpu_recording_spoil(device, status);
        }
    }
    device->capture->edges[edge].awaited = true;
    return lsi_cpu_recording_append(stream, &wait, NULL, 0);
}

/* ---- the table's entries ------------------------------------------------------------------------------------ */

ls_status lsi_cpu_recording_begin(ls_stream *origin)
{
    lsi_cpu_device *device = (lsi_cpu_device *)origin->device;
    lsi_cpu_stream *stream = (lsi_cpu_stream *)origin;
    void *memory = NULL;

    LS_REQUIRE(device->capture == NULL, LS_ERR_INTERNAL, "stream %s: a capture is already open", stream->name);
    LS_TRY(lsi_memory_alloc(sizeof(lsi_cpu_recording), "recording", &memory));
    lsi_cpu_recording *recording = memory;
    recording->head.device = origin->device;
    ls_status status = lane_add(recording, stream);
    if (status != LS_OK) {
        lsi_memory_free(recording);
        return status;
    }
    recording->number = ++device->n_captures;
    device->capture = recording;
    device->n_recordings++;
    return LS_OK;
}

/* Every stream but the origin began with a wait, or it would not be here, and must end with a record that is awaited.
 * Then a replay cannot overlap the one before, and one event on the origin covers all of it. */
static ls_status check_closed(const lsi_cpu_recording *recording)
{
    LS_REQUIRE(!recording->broken, LS_ERR_INTERNAL, "the capture is not whole: a call inside it failed");
    for (const lsi_cpu_lane *lane = recording->lanes->next; lane != NULL; lane = lane->next) {
        const lsi_cpu_command *last = (const lsi_cpu_command *)(lane->commands + lane->last);

        LS_REQUIRE(last->kind == LSI_CPU_COMMAND_EDGE_SET && recording->edges[last->value].awaited, LS_ERR_INTERNAL,
                   "stream %s does not end the capture with a record that another stream waits for",
                   lane->stream->name);
    }
    return LS_OK;
}

ls_status lsi_cpu_recording_end(ls_stream *origin, ls_recording **out)
{
    lsi_cpu_device *device = (lsi_cpu_device *)origin->device;
    lsi_cpu_recording *recording = device->capture;

    LS_REQUIRE(recording != NULL && &recording->lanes->stream->head == origin, LS_ERR_INTERNAL,
               "stream %s ends a capture that it did not begin", ((lsi_cpu_stream *)origin)->name);
    device->capture = NULL;
    for (lsi_cpu_lane *lane = recording->lanes; lane != NULL; lane = lane->next) {
        lane->stream->lane = NULL;
    }
    ls_status status = check_closed(recording);
    if (status != LS_OK) {
        lsi_cpu_recording_destroy(&recording->head);
        return status;
    }
    *out = &recording->head;
    return LS_OK;
}

ls_status lsi_cpu_recording_replay(ls_recording *recording)
{
    lsi_cpu_recording *r = (lsi_cpu_recording *)recording;
    lsi_cpu_device *device = (lsi_cpu_device *)recording->device;

    if (device->capture != NULL) {
        return lsi_cpu_recording_spoil(device, LS_FAIL(LS_ERR_INTERNAL, "a replay inside a capture"));
    }
    r->n_launches++;
    for (lsi_cpu_lane *lane = r->lanes; lane != NULL; lane = lane->next) {
        lsi_cpu_command run = {.kind = LSI_CPU_COMMAND_LANE, .value = r->n_launches, .of.lane = lane};

        LS_TRY(lsi_cpu_stream_submit(&lane->stream->head, &run, NULL, 0));
    }
    return LS_OK;
}

void lsi_cpu_recording_destroy(ls_recording *recording)
{
    lsi_cpu_recording *r = (lsi_cpu_recording *)recording;

    if (r == NULL) {
        return;
    }
    while (r->lanes != NULL) {
        lsi_cpu_lane *lane = r->lanes;

        r->lanes = lane->next;
        lsi_memory_free(lane->commands);
        lsi_memory_free(lane);
    }
    ((lsi_cpu_device *)recording->device)->n_recordings--;
    lsi_memory_free(r->edges);
    lsi_memory_free(r);
}
