/* RUN: timeout=60 */
/* Shares against the enumeration of all balanced choices; chunks and slots of lanes. */
#include "support/test.h"

#include "base/memory.h"
#include "comm/shares.h"
#include "kernels/ops.h"

enum { MAX_WORLD = 1024, ENUMERATED = 8, N_MAPS = 5 };

/* Pretended nodes: one; pairs; alternating; one and the rest; three in turn. Numbered by first appearance. */
static void make_nodes(int map, int world, int *node)
{
    for (int r = 0; r < world; r++) {
        node[r] = map == 0 ? 0 : map == 1 ? r / 2 : map == 2 ? r % 2 : map == 3 ? r != 0 : r % 3;
    }
}

static int order_of(int world, const int *node, int *order)
{
    int n = 0, m = 0;

    for (; n < world; m++) {
        for (int r = 0; r < world; r++) {
            if (node[r] == m) {
                order[n++] = r;
            }
        }
    }
    return m;
}

/* Fails unless the shares cover all lanes in the order (node, rank) and differ by one lane at most. */
static void check_dealt(int lanes, int world, const int *node, const lsi_span *share)
{
    static int order[MAX_WORLD];
    int at = 0;

    order_of(world, node, order);
    for (int i = 0; i < world; i++) {
        lsi_span s = share[order[i]];

        assert_int_equal(s.lo, at);
        assert_in_range(s.hi - s.lo, lanes / world, (lanes + world - 1) / world);
        at = s.hi;
    }
    assert_int_equal(at, lanes);
}

/* Roots over nodes, over ranks, largest of a rank. */
static long cost_of(int lanes, int world, const int *node, const lsi_span *share)
{
    static int order[MAX_WORLD];
    int n_nodes = order_of(world, node, order), over_nodes = 0, over_ranks = 0, most = 0;

    for (int m = 0; m < n_nodes; m++) {
        int lo = lanes, hi = 0;

        for (int r = 0; r < world; r++) {
            if (node[r] == m) {
                lo = share[r].lo < lo ? share[r].lo : lo;
                hi = share[r].hi > hi ? share[r].hi : hi;
            }
        }
        over_nodes += lsi_tree_roots(lanes, lo, hi, NULL);
    }
    for (int r = 0; r < world; r++) {
        int n = lsi_tree_roots(lanes, share[r].lo, share[r].hi, NULL);

        over_ranks += n;
        most = n > most ? n : most;
    }
    return ((long)over_nodes * 4096 + over_ranks) * 4096 + most;
}

static long cheapest(int lanes, int world, const int *node)
{
    int order[ENUMERATED];
    long best = -1;

    order_of(world, node, order);
    for (unsigned mask = 0; mask < 1u << world; mask++) {
        lsi_span share[ENUMERATED];
        int at = 0;

        for (int i = 0; i < world; i++) {
            int n = lanes / world + (int)(mask >> i & 1);

            share[order[i]] = (lsi_span){at, at + n};
            at += n;
        }
        if (at == lanes) {
            long cost = cost_of(lanes, world, node, share);

            best = best < 0 || cost < best ? cost : best;
        }
    }
    return best;
}

/* What the memory plan promises of the shares that are dealt: at most 1 + ceil(log2(lanes held)) gradient buffers. */
static void check_buffers(int lanes, lsi_span share)
{
    int most = share.hi > share.lo;

    for (int held = 1; held < share.hi - share.lo; held *= 2) {
        most++;
    }
    assert_in_range(lsi_tree_buffers(lanes, share), 0, most);
}

static void test_shares_are_the_cheapest(void **state)
{
    (void)state;
    for (int map = 0; map < N_MAPS; map++) {
        for (int world = 1; world <= ENUMERATED; world++) {
            int node[ENUMERATED];

            make_nodes(map, world, node);
            for (int lanes = 1; lanes <= 64; lanes += lanes < 20 ? 1 : 3) {
                lsi_span share[ENUMERATED];

                CHECK_OK(lsi_shares(lanes, world, node, share));
                check_dealt(lanes, world, node, share);
                assert_int_equal(cost_of(lanes, world, node, share), cheapest(lanes, world, node));
                for (int r = 0; r < world; r++) {
                    check_buffers(lanes, share[r]);
                }
            }
        }
    }
    test_check_no_memory_live();
}

static void test_powers_of_two_give_one_root_each(void **state)
{
    (void)state;
    for (int lanes = 1; lanes <= 4096; lanes *= 2) {
        for (int world = 1; world <= lanes && world <= MAX_WORLD; world *= 2) {
            static int node[MAX_WORLD];
            static lsi_span share[MAX_WORLD];

            make_nodes(0, world, node);
            CHECK_OK(lsi_shares(lanes, world, node, share));
            for (int r = 0; r < world; r++) {
                assert_int_equal(lsi_tree_roots(lanes, share[r].lo, share[r].hi, NULL), 1);
            }
        }
    }
}

static void test_large_jobs(void **state)
{
    static const struct {
        int lanes, world, per_node;
    } cases[] = {{4096, 1024, 8}, {1500, 1000, 1000}, {4095, 1000, 8}, {100, 1024, 4}, {1023, 512, 256}};
    static int node[MAX_WORLD];
    static lsi_span share[MAX_WORLD];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int r = 0; r < cases[i].world; r++) {
            node[r] = r / cases[i].per_node;
        }
        CHECK_OK(lsi_shares(cases[i].lanes, cases[i].world, node, share));
        check_dealt(cases[i].lanes, cases[i].world, node, share);
    }
    CHECK_FAILS(lsi_shares(LSI_TREE_MAX_LANES + 1, 2, node, share), LS_ERR_CONFIG,
                "train.lanes = 65537: at most 65536");
    test_check_no_memory_live();
}

static void test_no_memory(void **state)
{
    int node[3] = {0, 1, 1};
    lsi_span share[3];

    (void)state;
    for (long k = 1; k <= 7; k++) {
        lsi_memory_fail_at(k);
        CHECK_FAILS(lsi_shares(8, 3, node, share), LS_ERR_MEMORY, "sharing out the lanes");
        test_check_no_memory_live();
    }
    lsi_memory_fail_at(0);
}

static void test_chunks_are_whole_blocks(void **state)
{
    static const int64_t sizes[] = {0, 1, 1000, LSI_BLOCK, LSI_BLOCK + 1, 9 * LSI_BLOCK + 123, 100 * LSI_BLOCK,
                                    (int64_t)300000 * LSI_BLOCK + 5};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int world = 1; world <= 70; world++) {
            int64_t at = 0, start, count, before = INT64_MAX;

            for (int r = 0; r < world; r++) {
                lsi_shares_chunk(sizes[i], world, r, &start, &count);
                assert_true(start == at && count >= 0);
                assert_true(start % LSI_BLOCK == 0 || count == 0);
                assert_true(count <= before);       /* so the empty ones are at the end, and the first is the largest */
                before = count;
                at += count;
            }
            assert_true(at == sizes[i]);
        }
    }
}

static void test_slots_of_lanes(void **state)
{
    (void)state;
    for (int lanes = 1; lanes <= 16; lanes++) {
        for (int64_t n_slots = lanes; n_slots < 100; n_slots++) {
            int64_t at = 0, first, count;

            for (int lane = 0; lane < lanes; lane++) {
                lsi_lane_slots(lanes, n_slots, lane, &first, &count);
                assert_true(first == at);
                assert_true(count == n_slots / lanes || count == n_slots / lanes + 1);
                at += count;
            }
            assert_true(at == n_slots);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_are_the_cheapest),
        cmocka_unit_test(test_powers_of_two_give_one_root_each),
        cmocka_unit_test(test_large_jobs),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_chunks_are_whole_blocks),
        cmocka_unit_test(test_slots_of_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
