#include "train/lanes.h"

#include "base/memory.h"

#include <string.h>

/* Nodes formed so far, ascending, so that siblings are neighbours. */
typedef struct open_nodes {
    int n;
    lsi_lane_root node[LSI_TREE_MAX_ROOTS * 2];
} open_nodes;

static int take_buffer(unsigned long long *used)
{
    int buffer = 0;

    while (*used >> buffer & 1) {
        buffer++;
    }
    *used |= 1ull << buffer;
    return buffer;
}

static void insert(open_nodes *open, int lane, int buffer)
{
    int at = open->n++;

    while (at > 0 && open->node[at - 1].span.lo > lane) {
        open->node[at] = open->node[at - 1];
        at--;
    }
    open->node[at] = (lsi_lane_root){{lane, lane + 1}, buffer};
}

/* Adds siblings until there are none left. */
static void combine(int n_lanes, open_nodes *open, lsi_lane *lane, unsigned long long *used)
{
    for (int i = 0; i + 1 < open->n;) {
        lsi_span parent;

        if (!lsi_tree_parent(n_lanes, open->node[i].span, open->node[i + 1].span, &parent)) {
            i++;
            continue;
        }
        lane->add[lane->n_adds++] = (lsi_lane_add){open->node[i].buffer, open->node[i + 1].buffer};
        *used &= ~(1ull << open->node[i + 1].buffer);
        open->node[i].span = parent;
        memmove(&open->node[i + 1], &open->node[i + 2], (size_t)(open->n - i - 2) * sizeof open->node[0]);
        open->n--;
        i = 0;
    }
}

ls_status lsi_lanes_make(int n_lanes, lsi_span share, lsi_lanes *out)
{
    lsi_lanes lanes = {.n = share.hi - share.lo};
    int order[4096];
    unsigned long long used = 0;
    open_nodes open = {0};

    LS_TRY(lsi_memory_alloc((size_t)lanes.n * sizeof *lanes.lane, "lane program", (void **)&lanes.lane));
    lsi_tree_schedule(n_lanes, share, order);
    for (int i = 0; i < lanes.n; i++) {
        lsi_lane *lane = &lanes.lane[i];

        lane->lane = order[i];
        lane->buffer = take_buffer(&used);
        if (lane->buffer + 1 > lanes.n_buffers) {
            lanes.n_buffers = lane->buffer + 1;
        }
        insert(&open, lane->lane, lane->buffer);
        combine(n_lanes, &open, lane, &used);
    }
    lanes.n_roots = open.n;
    memcpy(lanes.root, open.node, (size_t)open.n * sizeof open.node[0]);
    *out = lanes;
    return LS_OK;
}

ls_status lsi_lanes_make_single(int n_lanes, lsi_lanes *out)
{
    lsi_lanes lanes = {.n = 1, .n_buffers = 1, .n_roots = 1, .root = {{.span = {0, n_lanes}}}};

    LS_TRY(lsi_memory_alloc(sizeof *lanes.lane, "lane program", (void **)&lanes.lane));
    *out = lanes;
    return LS_OK;
}

void lsi_lanes_free(lsi_lanes *lanes)
{
    lsi_memory_free(lanes->lane);
    lanes->lane = NULL;
}
