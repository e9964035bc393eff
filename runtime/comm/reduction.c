#include "comm/reduction.h"

#include <stddef.h>

#include "base/memory.h"
#include "comm/evaluate.h"

/* ---- groups: what acts as one in the last stage ---------------------------------------------------------------------
 * The nodes when there are two stages; single ranks otherwise, so that the stage before is empty. */

void lsi_reduction_make(int n_lanes, int world, const int *node, const lsi_span *share, lsi_reduction *out)
{
    int n_nodes = 0;

    for (int r = 0; r < world; r++) {
        n_nodes = node[r] + 1 > n_nodes ? node[r] + 1 : n_nodes;
    }
    *out = (lsi_reduction){
        .n_lanes = n_lanes,
        .world = world,
        .n_nodes = n_nodes,
        .n_stages = n_nodes > 1 && n_nodes < world ? 2 : 1,
        .node = node,
        .share = share,
    };
}

static int group_of(const lsi_reduction *p, int rank)
{
    return p->n_stages == 2 ? p->node[rank] : rank;
}

static int n_groups(const lsi_reduction *p)
{
    return p->n_stages == 2 ? p->n_nodes : p->world;
}

/* The next rank of the group from `rank` on; world at the end. */
static int next_member(const lsi_reduction *p, int group, int rank)
{
    if (p->n_stages == 1) {
        return rank <= group ? group : p->world;
    }
    while (rank < p->world && p->node[rank] != group) {
        rank++;
    }
    return rank;
}

#define FOR_MEMBERS(p, group, r) \
    for (int r = next_member(p, group, 0); r < (p)->world; r = next_member(p, group, r + 1))

static int group_size(const lsi_reduction *p, int group)
{
    int size = 0;

    FOR_MEMBERS(p, group, r) {
        size++;
    }
    return size;
}

/* The rank through which `group` speaks in the chunk of `owner`: the owner for its own group; elsewhere the members
 * take turns with the owners of a group. */
static int speaker(const lsi_reduction *p, int group, int owner)
{
    int home = group_of(p, owner), index = 0, found = owner;

    if (group == home) {
        return owner;
    }
    FOR_MEMBERS(p, home, r) {
        index += r < owner;
    }
    int wanted = (int)((int64_t)index * group_size(p, group) / group_size(p, home));
    FOR_MEMBERS(p, group, r) {
        if (wanted-- == 0) {
            found = r;
        }
    }
    return found;
}

static int rank_roots(const lsi_reduction *p, int rank, lsi_span *out)
{
    return lsi_tree_roots(p->n_lanes, p->share[rank].lo, p->share[rank].hi, out);
}

/* Lanes are dealt by (node, rank): those of a group are consecutive. */
static int group_roots(const lsi_reduction *p, int group, lsi_span *out)
{
    lsi_span lanes = {p->n_lanes, 0};

    FOR_MEMBERS(p, group, r) {
        lanes.lo = p->share[r].lo < lanes.lo ? p->share[r].lo : lanes.lo;
        lanes.hi = p->share[r].hi > lanes.hi ? p->share[r].hi : lanes.hi;
    }
    return lsi_tree_roots(p->n_lanes, lanes.lo, lanes.hi, out);
}

/* ---- routes: the same walk counts (all arrays NULL) and fills ------------------------------------------------ */

/* The operands of one chunk and stage as they are collected. */
typedef struct terms {
    lsi_span *span;         /* of each */
    int first, n;           /* of the stage's operands */
} terms;

static void put_message(lsi_route_message *messages, int *n, int owner, int peer, lsi_route_place place)
{
    if (messages != NULL) {
        messages[*n] = (lsi_route_message){owner, peer, place};
    }
    (*n)++;
}

static void put_operand(lsi_route_stage *stage, terms *t, lsi_span span, lsi_route_place place)
{
    if (stage->operand != NULL) {
        stage->operand[stage->n_operands] = place;
        t->span[t->n] = span;
    }
    stage->n_operands++;
    t->n++;
}

/* Makes node `target` of the operands of t from number `used` on. Returns how many that takes. */
static int put_sum(lsi_route_stage *stage, const terms *t, int used, int owner, lsi_span target, int slot)
{
    int n = 0;

    if (stage->sum != NULL) {
        n = lsi_evaluate_plan(target, t->span + used, stage->step + stage->n_steps);
        stage->sum[stage->n_sums] = (lsi_route_sum){
            .owner = owner, .slot = slot, .first = t->first + used, .n = n, .step = stage->n_steps,
        };
        stage->n_steps += 2 * n - 1;
    }
    stage->n_sums++;
    return n;
}

/* Roots that `peer` (a rank or a group's speaker) sends for this chunk: each gets a slot. */
static void put_incoming(lsi_route_stage *stage, terms *t, int owner, int peer, const lsi_span *roots, int n)
{
    for (int i = 0; i < n; i++) {
        put_operand(stage, t, roots[i], stage->n_slots);
        put_message(stage->receive, &stage->n_receive, owner, peer, stage->n_slots++);
    }
}

/* What a group's speaker makes of its members' partials: the places, in the last stage, of the group's roots. */
static int speak(const lsi_reduction *p, int me, int owner, lsi_span *span, lsi_route *route, lsi_span *roots,
                 lsi_route_place *places)
{
    int group = group_of(p, me), n = group_roots(p, group, roots), used = 0;
    lsi_span own[LSI_TREE_MAX_ROOTS];
    lsi_route_stage *inner = &route->stage[0], *last = &route->stage[1];

    if (p->n_stages == 1) {
        for (int i = 0; i < n; i++) {
            places[i] = ~i;
        }
        return n;
    }
    terms t = {.span = span, .first = inner->n_operands};
    FOR_MEMBERS(p, group, r) {
        int n_own = rank_roots(p, r, own);

        if (r != me) {
            put_incoming(inner, &t, owner, r, own, n_own);
            continue;
        }
        for (int i = 0; i < n_own; i++) {
            put_operand(inner, &t, own[i], ~i);
        }
    }
    int n_before = rank_roots(p, me, own);
    for (int i = 0; i < n; i++) {
        places[i] = last->n_slots;
        for (int k = 0; k < n_before; k++) {    /* a root of the group that is a partial of ours stays where it is */
            if (own[k].lo == roots[i].lo && own[k].hi == roots[i].hi) {
                places[i] = ~k;
            }
        }
        if (places[i] < 0) {
            used++;
            continue;
        }
        used += put_sum(inner, &t, used, owner, roots[i], last->n_slots++);
    }
    return n;
}

/* The last stage at the owner of the chunk. */
static void put_total(const lsi_reduction *p, int me, lsi_span *span, lsi_route *route, const lsi_span *roots,
                      const lsi_route_place *places, int n)
{
    lsi_route_stage *last = &route->stage[p->n_stages - 1];
    terms t = {.span = span, .first = last->n_operands};
    lsi_span theirs[LSI_TREE_MAX_ROOTS];

    for (int group = 0; group < n_groups(p); group++) {
        if (group == group_of(p, me)) {
            for (int i = 0; i < n; i++) {
                put_operand(last, &t, roots[i], places[i]);
            }
        } else {
            int n_theirs = group_roots(p, group, theirs);

            put_incoming(last, &t, me, speaker(p, group, me), theirs, n_theirs);
        }
    }
    put_sum(last, &t, 0, me, (lsi_span){0, p->n_lanes}, LSI_ROUTE_TOTAL);
}

static void put_hops(const lsi_reduction *p, int me, int owner, int my_speaker, lsi_route *route)
{
    lsi_route_hop *outer = &route->hop[0], *inner = &route->hop[1];
    int group = group_of(p, me);

    if (me == owner) {
        for (int other = 0; other < n_groups(p); other++) {
            if (other != group) {
                put_message(outer->send, &outer->n_send, owner, speaker(p, other, owner), 0);
            }
        }
    } else if (me == my_speaker) {
        put_message(outer->receive, &outer->n_receive, owner, owner, 0);
    } else {
        put_message(inner->receive, &inner->n_receive, owner, my_speaker, 0);
    }
    if (me == my_speaker) {
        FOR_MEMBERS(p, group, r) {
            if (r != me) {
                put_message(inner->send, &inner->n_send, owner, r, 0);
            }
        }
    }
}

static void walk(const lsi_reduction *p, int me, int n_owners, lsi_span *span, lsi_route *route)
{
    lsi_span roots[LSI_TREE_MAX_ROOTS];
    lsi_route_place places[LSI_TREE_MAX_ROOTS];
    lsi_route_stage *inner = &route->stage[0], *last = &route->stage[p->n_stages - 1];

    route->n_stages = p->n_stages;
    for (int owner = 0; owner < n_owners; owner++) {
        int my_speaker = speaker(p, group_of(p, me), owner);

        if (me != my_speaker) {
            int n = rank_roots(p, me, roots);

            for (int i = 0; i < n; i++) {
                put_message(inner->send, &inner->n_send, owner, my_speaker, ~i);
            }
        } else {
            int n = speak(p, me, owner, span, route, roots, places);

            if (me == owner) {
                put_total(p, me, span, route, roots, places, n);
            } else {
                for (int i = 0; i < n; i++) {
                    put_message(last->send, &last->n_send, owner, owner, places[i]);
                }
            }
        }
        put_hops(p, me, owner, my_speaker, route);
    }
}

void lsi_route_count(const lsi_reduction *reduction, int rank, int n_owners, lsi_route *out)
{
    *out = (lsi_route){0};
    walk(reduction, rank, n_owners, NULL, out);
}

/* Hands out the arrays that the counts ask for, from `at` on; only measures where that is NULL. Returns the bytes. */
static size_t lay_out(lsi_route *route, char *at)
{
    size_t used = 0;

#define TAKE(array, n)                                      \
    do {                                                    \
        if (at != NULL) {                                   \
            (array) = (void *)(at + used);                  \
        }                                                   \
        used += (size_t)(n) * sizeof *(array);              \
    } while (0)

    for (int s = 0; s < route->n_stages; s++) {
        lsi_route_stage *stage = &route->stage[s];
        lsi_route_hop *hop = &route->hop[s];

        TAKE(stage->receive, stage->n_receive);
        TAKE(stage->send, stage->n_send);
        TAKE(stage->sum, stage->n_sums);
        TAKE(stage->operand, stage->n_operands);
        TAKE(hop->receive, hop->n_receive);
        TAKE(hop->send, hop->n_send);
    }
    for (int s = 0; s < route->n_stages; s++) {     /* bytes last: the others need alignment */
        TAKE(route->stage[s].step, 2 * route->stage[s].n_operands);
    }
#undef TAKE
    return used;
}

static void clear_counts(lsi_route *route)
{
    for (int s = 0; s < route->n_stages; s++) {
        lsi_route_stage *stage = &route->stage[s];
        lsi_route_hop *hop = &route->hop[s];

        stage->n_receive = stage->n_send = stage->n_sums = stage->n_operands = stage->n_steps = stage->n_slots = 0;
        hop->n_receive = hop->n_send = 0;
    }
}

ls_status lsi_route_create(const lsi_reduction *reduction, int rank, lsi_route *out)
{
    lsi_route route;
    void *span;

    lsi_route_count(reduction, rank, reduction->world, &route);
    LS_TRY(lsi_memory_alloc(lay_out(&route, NULL), "the reduction plan", &route.memory));
    ls_status status = lsi_memory_alloc((size_t)reduction->n_lanes * sizeof(lsi_span), "the reduction plan", &span);
    if (status != LS_OK) {
        lsi_memory_free(route.memory);
        return status;
    }
    lay_out(&route, route.memory);
    clear_counts(&route);
    walk(reduction, rank, reduction->world, span, &route);
    lsi_memory_free(span);
    *out = route;
    return LS_OK;
}

void lsi_route_destroy(lsi_route *route)
{
    lsi_memory_free(route->memory);
    *route = (lsi_route){0};
}
