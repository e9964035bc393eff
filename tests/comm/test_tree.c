/* RUN: timeout=60 */
/* The tree over lanes against its definition, for all ranges of up to 64 lanes. */
#include "support/test.h"

#include <stdbool.h>

#include "comm/tree.h"

enum { MAX_LANES = 64 };

/* Every node of the tree over `lanes` by the definition alone, parents before children. */
typedef struct tree {
    lsi_span node[2 * MAX_LANES];
    int parent[2 * MAX_LANES];
    int n;
} tree;

static void grow(tree *t, int lo, int hi, int parent)
{
    int half = 1, me = t->n++;

    t->node[me] = (lsi_span){lo, hi};
    t->parent[me] = parent;
    if (hi - lo == 1) {
        return;
    }
    while (half * 2 < hi - lo) {
        half *= 2;
    }
    grow(t, lo, lo + half, me);
    grow(t, lo + half, hi, me);
}

static bool inside(lsi_span a, int lo, int hi)
{
    return lo <= a.lo && a.hi <= hi;
}

static void test_roots_are_the_maximal_nodes(void **state)
{
    (void)state;
    for (int lanes = 1; lanes <= MAX_LANES; lanes++) {
        tree t = {.n = 0};

        grow(&t, 0, lanes, -1);
        for (int lo = 0; lo <= lanes; lo++) {
            for (int hi = lo; hi <= lanes; hi++) {
                lsi_span roots[LSI_TREE_MAX_ROOTS];
                int n = lsi_tree_roots(lanes, lo, hi, roots), n_true = 0, at = lo;

                for (int i = 0; i < t.n; i++) {
                    n_true += inside(t.node[i], lo, hi) && (t.parent[i] < 0 || !inside(t.node[t.parent[i]], lo, hi));
                }
                assert_int_equal(n, n_true);
                assert_int_equal(n, lsi_tree_roots(lanes, lo, hi, NULL));
                for (int i = 0; i < n; i++) {       /* ascending, without a gap: with the count, the same nodes */
                    bool is_node = false;

                    for (int k = 0; k < t.n; k++) {
                        is_node = is_node || (t.node[k].lo == roots[i].lo && t.node[k].hi == roots[i].hi);
                    }
                    assert_true(is_node);
                    assert_int_equal(roots[i].lo, at);
                    at = roots[i].hi;
                }
                assert_int_equal(at, hi);
            }
        }
    }
}

static void test_many_lanes_have_few_roots(void **state)
{
    (void)state;
    for (int lo = 0; lo < LSI_TREE_MAX_LANES; lo += 97) {
        for (int hi = lo + 1; hi <= LSI_TREE_MAX_LANES; hi += 1009) {
            assert_in_range(lsi_tree_roots(LSI_TREE_MAX_LANES, lo, hi, NULL), 1, LSI_TREE_MAX_ROOTS);
            assert_in_range(lsi_tree_roots(LSI_TREE_MAX_LANES - 1, lo, hi - 1, NULL), 0, LSI_TREE_MAX_ROOTS);
        }
    }
}

static void test_parents_are_those_of_siblings(void **state)
{
    (void)state;
    for (int lanes = 1; lanes <= MAX_LANES; lanes++) {
        tree t = {.n = 0};

        grow(&t, 0, lanes, -1);
        for (int a = 0; a < t.n; a++) {
            for (int b = 0; b < t.n; b++) {
                bool siblings = a != b && t.parent[a] == t.parent[b] && t.node[a].lo < t.node[b].lo;
                lsi_span up = {-1, -1};

                assert_int_equal(lsi_tree_parent(lanes, t.node[a], t.node[b], &up), siblings);
                if (siblings) {
                    assert_int_equal(up.lo, t.node[t.parent[a]].lo);
                    assert_int_equal(up.hi, t.node[t.parent[a]].hi);
                }
            }
        }
    }
}

/* Computes the lanes in the order given and combines siblings as soon as both are there. */
static int peak_of(int lanes, const int *order, int n)
{
    lsi_span alive[MAX_LANES];
    int n_alive = 0, peak = 0;

    for (int i = 0; i < n; i++) {
        alive[n_alive++] = (lsi_span){order[i], order[i] + 1};
        peak = n_alive > peak ? n_alive : peak;
        for (bool again = true; again;) {
            again = false;
            for (int a = 0; a < n_alive && !again; a++) {
                for (int b = 0; b < n_alive && !again; b++) {
                    if (lsi_tree_parent(lanes, alive[a], alive[b], &alive[a])) {
                        alive[b] = alive[--n_alive];
                        again = true;
                    }
                }
            }
        }
    }
    return peak;
}

static void test_schedule_needs_the_buffers_announced(void **state)
{
    (void)state;
    for (int lanes = 1; lanes <= MAX_LANES; lanes++) {
        for (int lo = 0; lo <= lanes; lo++) {
            for (int hi = lo; hi <= lanes; hi++) {
                int order[MAX_LANES], log2_held = 0;
                bool seen[MAX_LANES] = {false};
                lsi_span share = {lo, hi};
                int buffers = lsi_tree_buffers(lanes, share);

                lsi_tree_schedule(lanes, share, order);
                for (int i = 0; i < hi - lo; i++) {
                    assert_in_range(order[i], lo, hi - 1);
                    assert_false(seen[order[i]]);
                    seen[order[i]] = true;
                }
                assert_int_equal(buffers, peak_of(lanes, order, hi - lo));
                while (2 << log2_held <= hi - lo) {
                    log2_held++;
                }
                /* An aligned share: 1 + log2. One that is aligned at neither end may have more roots than that. */
                if (lsi_tree_roots(lanes, lo, hi, NULL) == 1 && 1 << log2_held == hi - lo) {
                    assert_int_equal(buffers, 1 + log2_held);
                }
                assert_true(buffers <= 2 + log2_held || buffers <= 2 * log2_held);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roots_are_the_maximal_nodes),
        cmocka_unit_test(test_many_lanes_have_few_roots),
        cmocka_unit_test(test_parents_are_those_of_siblings),
        cmocka_unit_test(test_schedule_needs_the_buffers_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
