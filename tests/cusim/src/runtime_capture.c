/* Capturing streams into graphs: what a stream's calls become nodes of, and what a capture forbids. */
#include "runtime.h"

#include <stdlib.h>

static _Thread_local enum cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

capture *cusim_capture_find(uint64_t id)
{
    for (capture *c = cusim.captures; c != NULL; c = c->next)
        if (c->id == id)
            return c;
    return NULL;
}

void cusim_capture_invalidate(cusim_stream *stream)
{
    stream->capture->invalid = true;
}

/* The documented rule of the three modes: an unsafe call is refused to a thread while a capture of its own is open that
 * is not relaxed, or anybody's global one, unless the thread itself exchanged its mode for a laxer one. */
cudaError_t cusim_capture_forbids(void)
{
    int self = cusim_thread_number();
    for (capture *c = cusim.captures; c != NULL; c = c->next) {
        bool own = c->thread == self && c->mode != cudaStreamCaptureModeRelaxed;
        bool global = c->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
        if (thread_mode == cudaStreamCaptureModeRelaxed || (!own && !global))
            continue;
        c->invalid = true;
        return cudaErrorStreamCaptureUnsupported;
    }
    return cudaSuccess;
}

/* Work on the legacy stream would have to wait for blocking streams, which cannot be while one captures. */
cudaError_t cusim_capture_legacy_use(int device)
{
    for (cusim_stream *s = cusim.streams; s != NULL; s = s->next)
        if (s->device == device && s->capture != NULL && (s->flags & cudaStreamNonBlocking) == 0) {
            cusim_capture_invalidate(s);
            return cudaErrorStreamCaptureImplicit;
        }
    return cudaSuccess;
}

static cudaError_t set_frontier(cusim_stream *stream, graph_node *const *nodes, int n)
{
    graph_node **frontier = malloc(sizeof *frontier * (size_t)(n + 1));
    if (frontier == NULL)
        return cudaErrorMemoryAllocation;
    for (int i = 0; i < n; i++)
        frontier[i] = nodes[i];
    free(stream->frontier);
    stream->frontier = frontier;
    stream->n_frontier = n;
    return cudaSuccess;
}

cudaError_t cusim_capture_add(op *o, cusim_stream *stream)
{
    capture *c = stream->capture;
    cudaError_t error = cudaSuccess;
    if (c->invalid)
        error = cudaErrorStreamCaptureInvalidated;
    else if (o->kind == OP_FREE || (o->kind == OP_COPY && o->u.copy.staged != NULL) || o->kind == OP_GRAPH) {
        cusim_note("%s is not simulated inside a capture",
                   o->kind == OP_COPY ? "a copy from pageable memory" : o->name);
        c->invalid = true;
        error = cudaErrorStreamCaptureUnsupported;
    }
    if (error != cudaSuccess) {
        cusim_op_free(o);
        return error;
    }
    graph_node *node = cusim_graph_add(c->graph, o, stream->frontier, stream->n_frontier);
    cusim_record_queued(o, stream->id, node->index);
    return set_frontier(stream, &node, 1);
}

/* ---- the API -------------------------------------------------------------------------------- */

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    CUSIM_ENTER(cudaThreadExchangeStreamCaptureMode);
    enum cudaStreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    CUSIM_ENTER_STREAM(cudaStreamBeginCapture, stream, "mode=%d", (int)mode);
    cusim_stream *s = cusim_stream_resolve(stream);
    if (s->legacy)
        return cusim_leave(cudaErrorStreamCaptureUnsupported);
    if (s->capture != NULL)
        return cusim_leave(cudaErrorIllegalState);
    capture *c = calloc(1, sizeof *c);
    cusim_graph *graph = calloc(1, sizeof *graph);
    if (c == NULL || graph == NULL)
        cusim_die("out of host memory");
    *c = (capture){.next = cusim.captures,
                   .id = ++cusim.n_captures,
                   .graph = graph,
                   .origin = s,
                   .mode = mode,
                   .thread = cusim_thread_number()};
    cusim.captures = c;
    s->capture = c;
    s->n_frontier = 0;
    return cusim_leave(cudaSuccess);
}

/* How many nodes the origin's last ones do not come after. */
static int count_unjoined(const capture *c)
{
    const cusim_graph *g = c->graph;
    bool *seen = calloc((size_t)g->n_nodes + 1, sizeof *seen);
    if (seen == NULL)
        cusim_die("out of host memory");
    for (int i = 0; i < c->origin->n_frontier; i++)
        seen[c->origin->frontier[i]->index] = true;
    int n_left = g->n_nodes;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        if (!seen[i])
            continue;
        n_left--;
        for (int k = 0; k < g->nodes[i]->n_after; k++)
            seen[g->nodes[i]->after[k]->index] = true;
    }
    free(seen);
    return n_left;
}

static void end(capture *c)
{
    for (cusim_stream *s = cusim.streams; s != NULL; s = s->next)
        if (s->capture == c) {
            s->capture = NULL;
            s->n_frontier = 0;
        }
    capture **link = &cusim.captures;
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    free(c);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    CUSIM_ENTER_STREAM(cudaStreamEndCapture, stream, NULL);
    cusim_stream *s = cusim_stream_resolve(stream);
    capture *c = s->capture;
    *out = NULL;
    if (c == NULL)
        return cusim_leave(cudaErrorIllegalState);
    if (c->origin != s) {
        c->invalid = true;
        return cusim_leave(cudaErrorStreamCaptureUnmatched);
    }
    if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != cusim_thread_number()) {
        c->invalid = true;
        return cusim_leave(cudaErrorStreamCaptureWrongThread);
    }
    cusim_graph *graph = c->graph;
    cudaError_t error = c->invalid              ? cudaErrorStreamCaptureInvalidated
                        : count_unjoined(c) > 0 ? cudaErrorStreamCaptureUnjoined
                                                : cudaSuccess;
    end(c);
    if (error == cudaSuccess) {
        *out = graph;
    } else {
        cusim_graph_clear(graph);
        free(graph);
    }
    return cusim_leave(error);
}

static enum cudaStreamCaptureStatus status_of(const cusim_stream *s)
{
    return s->capture == NULL    ? cudaStreamCaptureStatusNone
           : s->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out)
{
    CUSIM_ENTER_STREAM(cudaStreamIsCapturing, stream, NULL);
    *out = status_of(cusim_stream_resolve(stream));
    return cusim_leave(cudaSuccess);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *out_status,
                                     unsigned long long *out_id, cudaGraph_t *out_graph,
                                     const cudaGraphNode_t **out_nodes, const cudaGraphEdgeData **out_edges,
                                     size_t *out_n)
{
    CUSIM_ENTER_STREAM(cudaStreamGetCaptureInfo, stream, NULL);
    const cusim_stream *s = cusim_stream_resolve(stream);
    *out_status = status_of(s);
    bool active = *out_status == cudaStreamCaptureStatusActive;
    if (out_id != NULL)
        *out_id = active ? s->capture->id : 0;
    if (out_graph != NULL)
        *out_graph = active ? s->capture->graph : NULL;
    if (out_nodes != NULL)
        *out_nodes = active ? s->frontier : NULL;
    if (out_edges != NULL)
        *out_edges = NULL;
    if (out_n != NULL)
        *out_n = active ? (size_t)s->n_frontier : 0;
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *nodes,
                                                const cudaGraphEdgeData *edges, size_t n, unsigned flags)
{
    CUSIM_ENTER_STREAM(cudaStreamUpdateCaptureDependencies, stream, "n=%zu flags=%u", n, flags);
    (void)edges;
    cusim_stream *s = cusim_stream_resolve(stream);
    if (s->capture == NULL)
        return cusim_leave(cudaErrorIllegalState);
    int kept = flags == cudaStreamSetCaptureDependencies ? 0 : s->n_frontier;
    graph_node **all = malloc(sizeof *all * ((size_t)kept + n + 1));
    if (all == NULL)
        return cusim_leave(cudaErrorMemoryAllocation);
    for (int i = 0; i < kept; i++)
        all[i] = s->frontier[i];
    for (size_t i = 0; i < n; i++)
        all[(size_t)kept + i] = nodes[i];
    cudaError_t error = set_frontier(s, all, kept + (int)n);
    free(all);
    return cusim_leave(error);
}
#endif
