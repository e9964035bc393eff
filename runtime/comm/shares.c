/* The balanced shares with the least communication, found exactly for any number of ranks.
 *
 * Rank i (in the order node, rank) gets lanes/world lanes, or one more; `extra` of the ranks get one more. The
 * choice is a path through states (ranks served, extras handed out), and its cost is the sum of what each rank and
 * each node adds, so the cheapest path is found state by state: first inside a node, for every number of extras
 * handed out before it, then over the nodes. */
#include "comm/shares.h"

#include <string.h>

#include "base/memory.h"
#include "kernels/ops.h"

/* Roots over nodes, roots over ranks, largest number of roots of a rank: compared in this order. */
typedef uint64_t cost;
enum { COST_RANKS_SHIFT = 8, COST_NODES_SHIFT = 36 };
#define COST_NONE UINT64_MAX

typedef struct problem {
    int lanes, world, n_nodes;
    int base, extra;        /* lanes of every rank; how many ranks have one more */
    int *order;             /* ranks by (node, rank) */
    int *first;             /* position in `order` of each node's first rank; n_nodes + 1 */
    uint8_t *roots;         /* [position][extras before it][0 or 1 more]: roots of the rank there */
    cost *node_cost;        /* [extras inside]: the cheapest way through one node */
    uint8_t *took;          /* [position in node][extras inside]: whether that way gives this rank one more */
    cost *best;             /* [nodes served][extras]: the cheapest way there */
    int *from;              /* and the extras handed out before its last node */
} problem;

static int lane_at(const problem *p, int position, int extras)
{
    return position * p->base + extras;
}

static cost add_costs(cost a, cost b)
{
    const cost most = (1u << COST_RANKS_SHIFT) - 1;

    return (a & ~most) + (b & ~most) + ((a & most) > (b & most) ? a & most : b & most);
}

static cost rank_cost(const problem *p, int position, int extras, int more)
{
    cost n = p->roots[((size_t)position * (size_t)(p->extra + 1) + (size_t)extras) * 2 + (size_t)more];

    return n << COST_RANKS_SHIFT | n;
}

/* The cheapest ways through node `m` when `before` extras have been handed out before it. Returns the most extras it
 * can take. */
static int solve_node(problem *p, int m, int before)
{
    int size = p->first[m + 1] - p->first[m], left = p->extra - before, most = 0;

    p->node_cost[0] = 0;
    for (int i = 0; i < size; i++) {
        int position = p->first[m] + i, reach = i + 1 < left ? i + 1 : left;

        for (int k = reach; k >= 0; k--) {      /* downwards: [k] and [k - 1] still belong to the rank before */
            cost stay = k <= most ? add_costs(p->node_cost[k], rank_cost(p, position, before + k, 0)) : COST_NONE;
            cost more = k > 0 ? add_costs(p->node_cost[k - 1], rank_cost(p, position, before + k - 1, 1)) : COST_NONE;

            p->node_cost[k] = more < stay ? more : stay;
            p->took[(size_t)i * (size_t)(p->extra + 1) + (size_t)k] = more < stay;
        }
        most = reach;
    }
    return most;
}

static void solve(problem *p)
{
    size_t row = (size_t)p->extra + 1;

    for (size_t i = 0; i < row * (size_t)(p->n_nodes + 1); i++) {
        p->best[i] = COST_NONE;
    }
    p->best[0] = 0;
    for (int m = 0; m < p->n_nodes; m++) {
        const cost *reached = p->best + (size_t)m * row;
        cost *next = p->best + ((size_t)m + 1) * row;
        int ranks_after = p->world - p->first[m + 1];

        for (int before = 0; before <= p->extra; before++) {
            if (reached[before] == COST_NONE) {
                continue;
            }
            int most = solve_node(p, m, before);
            for (int k = p->extra - before - ranks_after > 0 ? p->extra - before - ranks_after : 0; k <= most; k++) {
                int lo = lane_at(p, p->first[m], before), hi = lane_at(p, p->first[m + 1], before + k);
                cost nodes = (cost)lsi_tree_roots(p->lanes, lo, hi, NULL) << COST_NODES_SHIFT;
                cost all = add_costs(add_costs(reached[before], p->node_cost[k]), nodes);

                if (all < next[before + k]) {
                    next[before + k] = all;
                    p->from[((size_t)m + 1) * row + (size_t)(before + k)] = before;
                }
            }
        }
    }
}

/* Walks the cheapest way back, from the last rank to the first. */
static void deal(problem *p, lsi_span *out)
{
    size_t row = (size_t)p->extra + 1;
    int extras = p->extra;

    for (int m = p->n_nodes - 1; m >= 0; m--) {
        int before = p->from[((size_t)m + 1) * row + (size_t)extras];

        solve_node(p, m, before);
        for (int i = p->first[m + 1] - p->first[m] - 1; i >= 0; i--) {
            int position = p->first[m] + i, more = p->took[(size_t)i * row + (size_t)(extras - before)];
            int lo = lane_at(p, position, extras - more);

            out[p->order[position]] = (lsi_span){lo, lo + p->base + more};
            extras -= more;
        }
    }
}

static void sort_by_node(problem *p, const int *node)
{
    int n = 0;

    for (int m = 0; n < p->world; m++) {
        p->first[m] = n;
        for (int r = 0; r < p->world; r++) {
            if (node[r] == m) {
                p->order[n++] = r;
            }
        }
        p->n_nodes = m + 1;
    }
    p->first[p->n_nodes] = n;
}

static void count_roots(problem *p)
{
    uint8_t *at = p->roots;

    for (int position = 0; position < p->world; position++) {
        for (int extras = 0; extras <= p->extra; extras++) {
            for (int more = 0; more < 2; more++) {
                int lo = lane_at(p, position, extras);

                /* States past the last lane are never asked for. */
                *at++ = lo + p->base + more <= p->lanes
                            ? (uint8_t)lsi_tree_roots(p->lanes, lo, lo + p->base + more, NULL)
                            : 0;
            }
        }
    }
}

ls_status lsi_shares(int lanes, int world, const int *node, lsi_span *out)
{
    problem p = {.lanes = lanes, .world = world, .base = lanes / world, .extra = lanes % world};
    size_t ranks = (size_t)world, row = (size_t)p.extra + 1;
    struct {
        void **array;
        size_t bytes;
    } tables[] = {
        {(void **)&p.order, ranks * sizeof *p.order},
        {(void **)&p.first, (ranks + 1) * sizeof *p.first},
        {(void **)&p.roots, ranks * row * 2},
        {(void **)&p.node_cost, row * sizeof *p.node_cost},
        {(void **)&p.took, ranks * row},
        {(void **)&p.best, (ranks + 1) * row * sizeof *p.best},
        {(void **)&p.from, (ranks + 1) * row * sizeof *p.from},
    };
    ls_status status = LS_OK;

    LS_REQUIRE(lanes <= LSI_TREE_MAX_LANES, LS_ERR_CONFIG, "train.lanes = %d: at most %d", lanes, LSI_TREE_MAX_LANES);
    for (size_t i = 0; i < sizeof tables / sizeof *tables && status == LS_OK; i++) {
        status = lsi_memory_alloc(tables[i].bytes, "sharing out the lanes", tables[i].array);
    }
    if (status == LS_OK) {
        sort_by_node(&p, node);
        count_roots(&p);
        solve(&p);
        deal(&p, out);
    }
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        lsi_memory_free(*tables[i].array);
    }
    return status;
}

void lsi_shares_chunk(int64_t n, int world, int rank, int64_t *start, int64_t *count)
{
    int64_t n_blocks = (n + LSI_BLOCK - 1) / LSI_BLOCK, base = n_blocks / world, extra = n_blocks % world;
    int64_t first = (rank * base + (rank < extra ? rank : extra)) * LSI_BLOCK;
    int64_t end = first + (base + (rank < extra)) * LSI_BLOCK;

    *start = first < n ? first : n;
    *count = (end < n ? end : n) - *start;
}

void lsi_lane_slots(int lanes, int64_t n_slots, int lane, int64_t *first, int64_t *count)
{
    *first = lane * n_slots / lanes;
    *count = (lane + 1) * n_slots / lanes - *first;
}
