/* Graphs: instantiated from captures, launched as one operation of a stream. A launch runs its nodes in any order their
 * edges allow, chosen at random, and each node has a ThreadSanitizer thread of its own, so that a missing edge is seen.
 */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

static void *need(void *memory)
{
    if (memory == NULL)
        cusim_die("out of host memory");
    return memory;
}

graph_node *cusim_graph_add(cusim_graph *graph, op *o, graph_node *const *after, int n_after)
{
    if (graph->n_nodes == graph->room) {
        graph->room = graph->room > 0 ? 2 * graph->room : 16;
        graph->nodes = need(realloc(graph->nodes, sizeof *graph->nodes * (size_t)graph->room));
    }
    graph_node *node = need(calloc(1, sizeof *node));
    node->op = o;
    node->index = graph->n_nodes;
    node->after = need(malloc(sizeof *node->after * (size_t)(n_after + 1)));
    for (int i = 0; i < n_after; i++)
        node->after[i] = after[i];
    node->n_after = n_after;
    graph->nodes[graph->n_nodes++] = node;
    return node;
}

void cusim_graph_clear(cusim_graph *graph)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        cusim_op_free(graph->nodes[i]->op);
        free(graph->nodes[i]->after);
        free(graph->nodes[i]);
    }
    free(graph->nodes);
    *graph = (cusim_graph){.nodes = NULL};
}

static void copy_graph(const cusim_graph *from, cusim_graph *out)
{
    for (int i = 0; i < from->n_nodes; i++) {
        const graph_node *node = from->nodes[i];
        graph_node *made = cusim_graph_add(out, cusim_op_clone(node->op), node->after, node->n_after);
        for (int k = 0; k < made->n_after; k++)
            made->after[k] = out->nodes[node->after[k]->index];
    }
}

static void drop_exec(cusim_graph_exec *exec)
{
    if (--exec->references > 0)
        return;
    cusim_graph_clear(&exec->graph);
    free(exec);
}

/* ---- a launch ------------------------------------------------------------------------------- */

#ifdef CUSIM_TSAN
/* In rotation: unordered nodes must not share one. */
enum { TSAN_NODES = 512 };
static void *next_tsan_fiber(void)
{
    static void *pool[TSAN_NODES];
    static int next;
    next = (next + 1) % TSAN_NODES;
    if (pool[next] == NULL)
        pool[next] = __tsan_create_fiber(0);
    return pool[next];
}
#endif

/* Which record an event's node means is decided here: a record node makes the event's new one, a wait node takes the
 * one it has now. */
static void bind_event(op *o, cusim_stream *stream)
{
    cusim_event *event = o->u.event.event;
    if (event == NULL)
        return;
    if (o->kind == OP_RECORD) {
        cusim_record_drop(event->record);
        event->record = cusim_record_new(stream);
        event->capture = 0;
    }
    o->u.event.record = event->record;
    if (event->record != NULL)
        event->record->references++;
}

static graph_run *new_run(cusim_graph_exec *exec, cusim_stream *stream)
{
    graph_run *run = need(calloc(1, sizeof *run));
    int n = exec->graph.n_nodes;
    run->exec = exec;
    run->n_left = n;
    run->steps = need(calloc((size_t)n + 1, sizeof *run->steps));
    exec->references++;
    for (int i = 0; i < n; i++) {
        run->steps[i].op = cusim_op_clone(exec->graph.nodes[i]->op);
        if (run->steps[i].op->kind == OP_RECORD || run->steps[i].op->kind == OP_WAIT)
            bind_event(run->steps[i].op, stream);
    }
    return run;
}

void cusim_run_free(graph_run *run)
{
    cusim_graph_exec *exec = run->exec;
    for (int i = 0; i < exec->graph.n_nodes; i++)
        cusim_op_free(run->steps[i].op);
    if (exec->active == run)
        exec->active = NULL;
    free(run->steps);
    free(run);
    drop_exec(exec);
}

static bool node_ready(const graph_run *run, const graph_node *node)
{
    const struct graph_step *step = &run->steps[node->index];
    if (step->state == STEP_DONE || !cusim_op_can_run(step->op))
        return false;
    for (int i = 0; i < node->n_after; i++)
        if (run->steps[node->after[i]->index].state != STEP_DONE)
            return false;
    return true;
}

static double node_start(const graph_run *run, const graph_node *node)
{
    double start = run->start;
    for (int i = 0; i < node->n_after; i++) {
        double end = run->steps[node->after[i]->index].end;
        start = end > start ? end : start;
    }
    const op *o = run->steps[node->index].op;
    if (o->kind == OP_WAIT && o->u.event.record != NULL && o->u.event.record->seconds > start)
        start = o->u.event.record->seconds;
    return start;
}

static progress perform_node(graph_run *run, const graph_node *node, cusim_stream *stream)
{
    struct graph_step *step = &run->steps[node->index];
    CUSIM_TS(void *self = __tsan_get_current_fiber();
             if (step->tsan_fiber == NULL) step->tsan_fiber = next_tsan_fiber();
             __tsan_switch_to_fiber(step->tsan_fiber, 1); if (step->state == STEP_NEW) {
                 __tsan_acquire(&run->tsan);
                 for (int i = 0; i < node->n_after; i++)
                     __tsan_acquire(&run->steps[node->after[i]->index].tsan);
             })
    double start = node_start(run, node);
    cusim.now = start;
    step->state = STEP_STARTED;
    progress made = cusim_perform(step->op, stream);
    if (made == PROGRESS_DONE) {
        step->state = STEP_DONE;
        step->end = start + step->op->seconds;
        run->n_left--;
        CUSIM_TS(__tsan_release(&step->tsan);)
        cusim_record_run(step->op, stream->id, node->index, start, step->end);
    }
    CUSIM_TS(__tsan_switch_to_fiber(self, 1);)
    return made;
}

progress cusim_perform_graph(op *o, cusim_stream *stream)
{
    graph_run *run = o->u.run;
    cusim_graph_exec *exec = run->exec;
    if (exec->active != NULL && exec->active != run)
        return PROGRESS_NONE; /* launches of one graph run one after another */
    if (exec->active == NULL) {
        exec->active = run;
        run->start = stream->seconds;
        CUSIM_TS(__tsan_acquire(&exec->tsan); __tsan_release(&run->tsan);)
    }
    int n = exec->graph.n_nodes;
    int first = n > 1 && cusim.policy != POLICY_EAGER ? (int)(cusim_random() % (unsigned)n) : 0;
    progress made = n > 0 ? PROGRESS_NONE : PROGRESS_DONE;
    for (int i = 0; i < n && made == PROGRESS_NONE; i++) {
        const graph_node *node = exec->graph.nodes[(first + i) % n];
        if (node_ready(run, node))
            made = perform_node(run, node, stream);
    }
    if (made != PROGRESS_DONE || run->n_left > 0)
        return made == PROGRESS_NONE ? PROGRESS_NONE : PROGRESS_SOME;
    for (int i = 0; i < n; i++) {
        CUSIM_TS(__tsan_acquire(&run->steps[i].tsan);)
        if (run->steps[i].end > stream->seconds)
            stream->seconds = run->steps[i].end;
    }
    CUSIM_TS(__tsan_release(&exec->tsan);)
    exec->active = NULL;
    return PROGRESS_DONE;
}

/* ---- the API -------------------------------------------------------------------------------- */

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *out_nodes, size_t *n)
{
    CUSIM_ENTER(cudaGraphGetNodes);
    if (out_nodes != NULL)
        for (size_t i = 0; i < *n; i++)
            out_nodes[i] = i < (size_t)graph->n_nodes ? graph->nodes[i] : NULL;
    if (out_nodes == NULL || *n > (size_t)graph->n_nodes)
        *n = (size_t)graph->n_nodes;
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    CUSIM_ENTER(cudaGraphDestroy);
    if (graph == NULL)
        return cusim_leave(cudaErrorInvalidValue);
    cusim_graph_clear(graph);
    free(graph);
    return cusim_leave(cudaSuccess);
}

static cudaError_t instantiate(cudaGraphExec_t *out, cudaGraph_t graph)
{
    if (out == NULL || graph == NULL)
        return cudaErrorInvalidValue;
    cusim_graph_exec *exec = need(calloc(1, sizeof *exec));
    exec->references = 1;
    copy_graph(graph, &exec->graph);
    *out = exec;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    CUSIM_ENTER_STREAM(cudaGraphInstantiateWithFlags, CUSIM_NO_STREAM, "flags=%llu", flags);
    return cusim_leave(instantiate(out, graph));
}

#if CUDART_VERSION >= 12000
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    CUSIM_ENTER_STREAM(cudaGraphInstantiate, CUSIM_NO_STREAM, "flags=%llu", flags);
    return cusim_leave(instantiate(out, graph));
}

static bool same_topology(const cusim_graph *a, const cusim_graph *b)
{
    if (a->n_nodes != b->n_nodes)
        return false;
    for (int i = 0; i < a->n_nodes; i++) {
        const graph_node *x = a->nodes[i], *y = b->nodes[i];
        if (x->op->kind != y->op->kind || x->n_after != y->n_after)
            return false;
        for (int k = 0; k < x->n_after; k++)
            if (x->after[k]->index != y->after[k]->index)
                return false;
    }
    return true;
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *out)
{
    CUSIM_ENTER(cudaGraphExecUpdate);
    bool same = same_topology(&exec->graph, graph);
    if (out != NULL) {
        memset(out, 0, sizeof *out);
        out->result = same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
    }
    if (!same)
        return cusim_leave(cudaErrorGraphExecUpdateFailure);
    for (int i = 0; i < graph->n_nodes; i++) { /* launches before have copies of their own */
        cusim_op_free(exec->graph.nodes[i]->op);
        exec->graph.nodes[i]->op = cusim_op_clone(graph->nodes[i]->op);
    }
    return cusim_leave(cudaSuccess);
}
#endif

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    CUSIM_ENTER(cudaGraphExecDestroy);
    if (exec == NULL)
        return cusim_leave(cudaErrorInvalidValue);
    drop_exec(exec);
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    CUSIM_ENTER_STREAM(cudaGraphUpload, stream, NULL);
    return cusim_leave(exec == NULL
                           ? cudaErrorInvalidValue
                           : cusim_queue(cusim_op_new(OP_NOTHING, "graph upload", 4e-6), cusim_stream_resolve(stream)));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    CUSIM_ENTER_STREAM(cudaGraphLaunch, stream, NULL);
    if (exec == NULL)
        return cusim_leave(cudaErrorInvalidValue);
    cusim_stream *s = cusim_stream_resolve(stream);
    op *o = cusim_op_new(OP_GRAPH, "graph", 4e-6);
    if (s->capture == NULL)
        o->u.run = new_run(exec, s);
    return cusim_leave(cusim_queue(o, s));
}
