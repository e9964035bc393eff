/* RUN: timeout=60 */
/* Cutting a batch: every slot runs once, on one rank; every block and slot has one place in the exchange. */
#include "support/test.h"

#include "kernels/ops.h"
#include "train/bucket.h"
#include "train/geometry.h"

#include <string.h>

static void make(int world, int64_t slots, int64_t lanes, lsi_geometry *out)
{
    static int nodes[64];
    ls_config config = {0};
    lsi_job job = {.world = world, .node = nodes};

    config.train.micro_batch = 3;
    config.train.global_batch = 3 * slots;
    config.train.lanes = lanes;
    CHECK_OK(lsi_geometry_make(&config, &job, out));
}

static void every_slot_runs_once(void **state)
{
    (void)state;
    for (int64_t lanes = 1; lanes <= 16; lanes++) {
        for (int64_t slots = lanes; slots < 40; slots += 3) {
            for (int world = 1; world <= lanes; world++) {
                lsi_geometry g;
                lsi_place places[64];
                char runs[64] = {0};

                make(world, slots, lanes, &g);
                for (int rank = 0; rank < world; rank++) {
                    int64_t n = lsi_geometry_n_local(&g, rank);
                    int order = -1;

                    assert_in_range(n, 1, g.max_local);
                    lsi_geometry_places(&g, rank, places);
                    for (int64_t j = 0; j < n; j++) {
                        runs[places[j].slot]++;
                        order += places[j].first_in_lane;
                        assert_int_equal(places[j].order, order);
                        if (!places[j].first_in_lane) {
                            assert_int_equal(places[j].slot, places[j - 1].slot + 1);
                            assert_int_equal(places[j].lane, places[j - 1].lane);
                        }
                        assert_true(places[j].last_in_lane == (j == n - 1 || places[j + 1].first_in_lane));
                    }
                }
                for (int64_t s = 0; s < slots; s++) {
                    assert_int_equal(runs[s], 1);
                }
                lsi_geometry_free(&g);
            }
        }
    }
    test_check_no_memory_live();
}

static void more_processes_than_lanes_is_refused(void **state)
{
    static int nodes[8];
    ls_config config = {0};
    lsi_job job = {.world = 5, .node = nodes};
    lsi_geometry g;

    (void)state;
    config.train.micro_batch = 1;
    config.train.global_batch = 4;
    CHECK_FAILS(lsi_geometry_make(&config, &job, &g), LS_ERR_CONFIG, "train.lanes");
}

static void buckets_cover_the_index_from_the_end(void **state)
{
    (void)state;
    for (int64_t blocks = 1; blocks < 40; blocks++) {
        for (int64_t bytes = 1; bytes < 20 * 65536; bytes += 40000) {
            int64_t n = blocks * LSI_BLOCK, end = n, first, count;

            for (int i = 0; i < lsi_bucket_number(n, bytes); i++) {
                lsi_bucket_range(n, bytes, i, &first, &count);
                assert_int_equal(first + count, end);
                assert_int_equal(first % LSI_BLOCK, 0);
                assert_true(count > 0 && (count * 4 <= bytes || count == LSI_BLOCK));
                end = first;
            }
            assert_int_equal(end, 0);
        }
    }
}

/* The number is an int: what would not fit is refused, never wrapped round. */
static void buckets_beyond_counting_are_refused(void **state)
{
    (void)state;
    for (int power = 0; power < 48; power++) {
        int64_t blocks = (int64_t)1 << power, n = blocks * LSI_BLOCK;

        if (power <= 24) {
            CHECK_OK(lsi_bucket_check(n, 65536));
            assert_int_equal(lsi_bucket_number(n, 65536), blocks);
        } else {
            CHECK_FAILS(lsi_bucket_check(n, 65536), LS_ERR_CONFIG, "comm.bucket_bytes = 65536");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_slot_runs_once),
        cmocka_unit_test(more_processes_than_lanes_is_refused),
        cmocka_unit_test(buckets_cover_the_index_from_the_end),
        cmocka_unit_test(buckets_beyond_counting_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
