/* RUN: timeout=120 */
/* Replays the routes of all ranks with sets of lanes in place of numbers. The replay knows what a message, a sum and a
 * sibling are, and nothing of how routes are made. */
#include "support/test.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/memory.h"
#include "comm/evaluate.h"
#include "comm/reduction.h"
#include "comm/shares.h"

enum { MAX_WORLD = 64, N_MAPS = 6 };

static const lsi_span nothing = {-1, -1};

typedef struct replay {
    lsi_reduction plan;
    int node[MAX_WORLD];
    lsi_span share[MAX_WORLD];
    lsi_route route[MAX_WORLD];
    lsi_span *slot[MAX_WORLD][LSI_REDUCTION_MAX_STAGES];    /* what lies in each slot */
    bool has_total[MAX_WORLD][MAX_WORLD];                   /* [owner][rank] */
} replay;

static void make_nodes(int map, int world, int *node)
{
    for (int r = 0; r < world; r++) {
        node[r] = map == 0 ? 0 : map == 1 ? r / 2 : map == 2 ? r % 2 : map == 3 ? r != 0 : map == 4 ? r % 3 : r;
    }
}

static void begin(replay *p, int lanes, int world, int map)
{
    make_nodes(map, world, p->node);
    CHECK_OK(lsi_shares(lanes, world, p->node, p->share));
    lsi_reduction_make(lanes, world, p->node, p->share, &p->plan);
    for (int r = 0; r < world; r++) {
        CHECK_OK(lsi_route_create(&p->plan, r, &p->route[r]));
        assert_int_equal(p->route[r].n_stages, p->plan.n_stages);
        for (int s = 0; s < p->plan.n_stages; s++) {
            int n = p->route[r].stage[s].n_slots;

            p->slot[r][s] = malloc((size_t)(n + 1) * sizeof(lsi_span));
            assert_non_null(p->slot[r][s]);
            for (int i = 0; i < n; i++) {
                p->slot[r][s][i] = nothing;
            }
        }
        for (int owner = 0; owner < world; owner++) {
            p->has_total[owner][r] = false;
        }
    }
}

static void end(replay *p)
{
    for (int r = 0; r < p->plan.world; r++) {
        lsi_route_destroy(&p->route[r]);
        for (int s = 0; s < p->plan.n_stages; s++) {
            free(p->slot[r][s]);
        }
    }
}

static lsi_span at_place(const replay *p, int rank, int s, lsi_route_place place)
{
    lsi_span roots[LSI_TREE_MAX_ROOTS], found = nothing;

    if (place < 0) {
        int n = lsi_tree_roots(p->plan.n_lanes, p->share[rank].lo, p->share[rank].hi, roots);

        assert_in_range(~place, 0, n - 1);
        found = roots[~place];
    } else {
        assert_in_range(place, 0, p->route[rank].stage[s].n_slots - 1);
        found = p->slot[rank][s][place];
    }
    assert_true(found.lo >= 0);     /* nothing is used before it is there */
    return found;
}

static void fill(replay *p, int rank, int s, int slot, lsi_span span)
{
    assert_in_range(slot, 0, p->route[rank].stage[s].n_slots - 1);
    assert_int_equal(p->slot[rank][s][slot].lo, nothing.lo);        /* nothing is overwritten */
    p->slot[rank][s][slot] = span;
}

/* The next message of the list to or from `peer`, from *at on; NULL at the end. */
static const lsi_route_message *next_of(const lsi_route_message *messages, int n, int peer, int *at)
{
    while (*at < n) {
        const lsi_route_message *m = &messages[(*at)++];

        if (m->peer == peer) {
            return m;
        }
    }
    return NULL;
}

/* Matches the messages of each pair of ranks in the order in which they are posted. Returns those between nodes. */
static int deliver_stage(replay *p, int s)
{
    int between_nodes = 0;

    for (int from = 0; from < p->plan.world; from++) {
        for (int to = 0; to < p->plan.world; to++) {
            const lsi_route_stage *a = &p->route[from].stage[s], *b = &p->route[to].stage[s];
            const lsi_route_message *sent;
            int at_sent = 0, at_received = 0;

            while ((sent = next_of(a->send, a->n_send, to, &at_sent)) != NULL) {
                const lsi_route_message *received = next_of(b->receive, b->n_receive, from, &at_received);

                assert_non_null(received);
                assert_int_not_equal(from, to);
                assert_int_equal(sent->owner, received->owner);
                fill(p, to, s, received->place, at_place(p, from, s, sent->place));
                between_nodes += p->node[from] != p->node[to];
                if (p->plan.n_stages == 2) {
                    assert_int_equal(p->node[from] == p->node[to], s == 0);
                }
            }
            assert_null(next_of(b->receive, b->n_receive, from, &at_received));
        }
    }
    return between_nodes;
}

static lsi_span add_siblings(lsi_span left, lsi_span right)
{
    int half = 1;

    assert_int_equal(left.hi, right.lo);
    while (half * 2 < right.hi - left.lo) {
        half *= 2;
    }
    assert_int_equal(left.hi - left.lo, half);
    assert_true(right.hi - right.lo <= half);
    return (lsi_span){left.lo, right.hi};
}

static void form_sums(replay *p, int rank, int s)
{
    const lsi_route_stage *stage = &p->route[rank].stage[s];

    for (int i = 0; i < stage->n_sums; i++) {
        const lsi_route_sum *sum = &stage->sum[i];
        lsi_span stack[LSI_TREE_MAX_ROOTS];
        int depth = 0, next = 0;

        assert_true(sum->step + 2 * sum->n - 1 <= stage->n_steps && sum->first + sum->n <= stage->n_operands);
        for (int k = 0; k < 2 * sum->n - 1; k++) {
            if (stage->step[sum->step + k] == LSI_STEP_PUSH) {
                assert_true(depth < LSI_TREE_MAX_ROOTS && next < sum->n);
                stack[depth++] = at_place(p, rank, s, stage->operand[sum->first + next++]);
            } else {
                assert_true(depth >= 2);
                depth--;
                stack[depth - 1] = add_siblings(stack[depth - 1], stack[depth]);
            }
        }
        assert_true(depth == 1 && next == sum->n);
        if (sum->slot == LSI_ROUTE_TOTAL) {
            assert_int_equal(s, p->plan.n_stages - 1);
            assert_int_equal(sum->owner, rank);
            assert_true(stack[0].lo == 0 && stack[0].hi == p->plan.n_lanes);
            assert_false(p->has_total[rank][rank]);
            p->has_total[rank][rank] = true;
        } else {
            fill(p, rank, s + 1, sum->slot, stack[0]);
        }
    }
}

static int deliver_hop(replay *p, int h)
{
    int between_nodes = 0;

    for (int from = 0; from < p->plan.world; from++) {
        for (int to = 0; to < p->plan.world; to++) {
            const lsi_route_hop *a = &p->route[from].hop[h], *b = &p->route[to].hop[h];
            const lsi_route_message *sent;
            int at_sent = 0, at_received = 0;

            while ((sent = next_of(a->send, a->n_send, to, &at_sent)) != NULL) {
                const lsi_route_message *received = next_of(b->receive, b->n_receive, from, &at_received);

                assert_non_null(received);
                assert_int_equal(sent->owner, received->owner);
                assert_true(p->has_total[sent->owner][from]);
                assert_false(p->has_total[sent->owner][to]);
                p->has_total[sent->owner][to] = true;
                between_nodes += p->node[from] != p->node[to];
            }
            assert_null(next_of(b->receive, b->n_receive, from, &at_received));
        }
    }
    return between_nodes;
}

/* Between nodes a node's maximal tree nodes go once to each owner elsewhere, and a total once to each other node. */
static int fewest_between_nodes(const replay *p)
{
    int n = 0;

    for (int m = 0; m < p->plan.n_nodes; m++) {
        int lo = p->plan.n_lanes, hi = 0, elsewhere = 0;

        for (int r = 0; r < p->plan.world; r++) {
            if (p->node[r] == m) {
                lo = p->share[r].lo < lo ? p->share[r].lo : lo;
                hi = p->share[r].hi > hi ? p->share[r].hi : hi;
            } else {
                elsewhere++;
            }
        }
        n += elsewhere * (lsi_tree_roots(p->plan.n_lanes, lo, hi, NULL) + 1);
    }
    return n;
}

/* Slots of the chunks of the first owners come first, and the count announces them. */
static void check_counts(const replay *p, int rank)
{
    for (int n_owners = 0; n_owners <= p->plan.world; n_owners++) {
        lsi_route counts;

        lsi_route_count(&p->plan, rank, n_owners, &counts);
        for (int s = 0; s < p->plan.n_stages; s++) {
            const lsi_route_stage *stage = &p->route[rank].stage[s];
            int used = 0;

            for (int i = 0; i < stage->n_receive; i++) {
                if (stage->receive[i].owner < n_owners && stage->receive[i].place >= used) {
                    used = stage->receive[i].place + 1;
                }
            }
            for (int i = 0; s > 0 && i < p->route[rank].stage[s - 1].n_sums; i++) {
                const lsi_route_sum *sum = &p->route[rank].stage[s - 1].sum[i];

                if (sum->owner < n_owners && sum->slot >= used) {
                    used = sum->slot + 1;
                }
            }
            assert_int_equal(counts.stage[s].n_slots, used);
        }
    }
}

static void run_case(int lanes, int world, int map)
{
    static replay p;
    int between_nodes = 0;

    begin(&p, lanes, world, map);
    for (int s = 0; s < p.plan.n_stages; s++) {
        between_nodes += deliver_stage(&p, s);
        for (int r = 0; r < world; r++) {
            form_sums(&p, r, s);
        }
    }
    for (int h = 0; h < p.plan.n_stages; h++) {
        between_nodes += deliver_hop(&p, h);
    }
    for (int r = 0; r < world; r++) {
        for (int owner = 0; owner < world; owner++) {
            assert_true(p.has_total[owner][r]);
        }
        check_counts(&p, r);
    }
    assert_int_equal(between_nodes, fewest_between_nodes(&p));
    end(&p);
}

static void test_every_chunk_becomes_the_total(void **state)
{
    (void)state;
    for (int map = 0; map < N_MAPS; map++) {
        for (int world = 1; world <= 8; world++) {
            for (int lanes = 1; lanes <= 64; lanes += lanes < 16 ? 1 : 7) {
                run_case(lanes, world, map);
            }
        }
    }
    test_check_no_memory_live();
}

static void test_larger_worlds(void **state)
{
    static const int worlds[] = {9, 16, 17, 33, 64};

    (void)state;
    for (int map = 0; map < N_MAPS; map++) {
        for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
            run_case(worlds[i] * 4, worlds[i], map);
            run_case(61, worlds[i], map);
        }
    }
    test_check_no_memory_live();
}

static void test_stages(void **state)
{
    static const struct {
        int world, map, n_stages;
    } cases[] = {{1, 0, 1}, {8, 0, 1}, {8, 1, 2}, {2, 1, 1}, {8, 2, 2}, {2, 3, 1}, {3, 3, 2}, {8, 5, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int node[8];
        lsi_span share[8];
        lsi_reduction plan;

        make_nodes(cases[i].map, cases[i].world, node);
        CHECK_OK(lsi_shares(8, cases[i].world, node, share));
        lsi_reduction_make(8, cases[i].world, node, share, &plan);
        assert_int_equal(plan.n_stages, cases[i].n_stages);
    }
}

/* One rank of a job of 1,024 on 128 nodes: its route is made in a moment and its size is that of the job. */
static void test_thousand_ranks(void **state)
{
    enum { WORLD = 1024, LANES = 4096, PER_NODE = 8 };
    static int node[WORLD];
    static lsi_span share[WORLD];
    static const int ranks[] = {0, 511, 1023};
    lsi_reduction plan;

    (void)state;
    for (int r = 0; r < WORLD; r++) {
        node[r] = r / PER_NODE;
    }
    CHECK_OK(lsi_shares(LANES, WORLD, node, share));
    lsi_reduction_make(LANES, WORLD, node, share, &plan);
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        lsi_route route;

        CHECK_OK(lsi_route_create(&plan, ranks[i], &route));
        /* It speaks for every eighth chunk. */
        assert_int_equal(route.stage[0].n_slots, WORLD / PER_NODE * (PER_NODE - 1));
        assert_int_equal(route.stage[1].n_receive, WORLD / PER_NODE - 1);
        lsi_route_destroy(&route);
    }
    test_check_no_memory_live();
}

static void test_no_memory(void **state)
{
    int node[3] = {0, 0, 1};
    lsi_span share[3];
    lsi_reduction plan;
    lsi_route route;

    (void)state;
    CHECK_OK(lsi_shares(8, 3, node, share));
    lsi_reduction_make(8, 3, node, share, &plan);
    for (long k = 1; k <= 2; k++) {
        lsi_memory_fail_at(k);
        CHECK_FAILS(lsi_route_create(&plan, 1, &route), LS_ERR_MEMORY, "the reduction plan");
        test_check_no_memory_live();
    }
    lsi_memory_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_chunk_becomes_the_total),
        cmocka_unit_test(test_larger_worlds),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_thousand_ranks),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
