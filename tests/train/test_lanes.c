/* RUN: timeout=60 */
/* The lane program, replayed with sets of lanes instead of numbers. */
#include "support/test.h"

#include "comm/shares.h"
#include "train/lanes.h"

#include <string.h>

enum { MAX_LANES = 64 };

/* A buffer holds a span of summed lanes; adds join siblings only; a lane starts in a free buffer. */
static void replay(int n_lanes, lsi_span share)
{
    lsi_lanes program;
    lsi_span held[LSI_TREE_MAX_ROOTS + 2];
    lsi_span roots[LSI_TREE_MAX_ROOTS];

    CHECK_OK(lsi_lanes_make(n_lanes, share, &program));
    assert_int_equal(program.n, share.hi - share.lo);
    assert_int_equal(program.n_buffers, lsi_tree_buffers(n_lanes, share));
    memset(held, 0, sizeof held);
    for (int i = 0; i < program.n; i++) {
        const lsi_lane *lane = &program.lane[i];

        assert_in_range(lane->buffer, 0, program.n_buffers - 1);
        assert_true(held[lane->buffer].lo == held[lane->buffer].hi);
        held[lane->buffer] = (lsi_span){lane->lane, lane->lane + 1};
        for (int k = 0; k < lane->n_adds; k++) {
            lsi_span parent, *into = &held[lane->add[k].into], *from = &held[lane->add[k].from];

            assert_true(lsi_tree_parent(n_lanes, *into, *from, &parent));
            *into = parent;
            *from = (lsi_span){0, 0};
        }
    }
    assert_int_equal(program.n_roots, lsi_tree_roots(n_lanes, share.lo, share.hi, roots));
    for (int i = 0; i < program.n_roots; i++) {
        assert_memory_equal(&program.root[i].span, &roots[i], sizeof roots[i]);
        assert_memory_equal(&held[program.root[i].buffer], &roots[i], sizeof roots[i]);
    }
    lsi_lanes_free(&program);
}

static void every_share_of_every_tree(void **state)
{
    (void)state;
    for (int n_lanes = 1; n_lanes <= MAX_LANES; n_lanes += n_lanes < 20 ? 1 : 7) {
        for (int lo = 0; lo < n_lanes; lo++) {
            for (int hi = lo + 1; hi <= n_lanes; hi++) {
                replay(n_lanes, (lsi_span){lo, hi});
            }
        }
    }
    test_check_no_memory_live();
}

/* 1 + log2(L / W) copies when shares are aligned. */
static void aligned_shares_need_few_buffers(void **state)
{
    (void)state;
    for (int log_lanes = 0; log_lanes <= 6; log_lanes++) {
        for (int log_world = 0; log_world <= log_lanes; log_world++) {
            int lanes = 1 << log_lanes, per_rank = 1 << (log_lanes - log_world);

            for (int rank = 0; rank < 1 << log_world; rank++) {
                lsi_span share = {rank * per_rank, (rank + 1) * per_rank};

                assert_int_equal(lsi_tree_buffers(lanes, share), 1 + log_lanes - log_world);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_share_of_every_tree),
        cmocka_unit_test(aligned_shares_need_few_buffers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
