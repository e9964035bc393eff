/* RUN: timeout=60 */
/* Random lifetimes: no two requests that live at the same time overlap, and the block is near its lower bound. */
#include "support/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "graph/memory_plan.h"

enum { MAX_REQUESTS = 300, N_PLANS = 200 };

static uint32_t draws;

static int draw(int below)
{
    return (int)(lsi_random_philox(11, draws++, 0, 0, 98).v[0] % (uint32_t)below);
}

static void check(const lsi_memory_request *r, int n, const lsi_memory_size *size)
{
    size_t sum = 0, bound = 0;

    for (int i = 0; i < n; i++) {
        assert_int_equal(r[i].offset % LSI_MEMORY_ALIGN, 0);
        assert_true(r[i].offset + r[i].bytes <= size->bytes);
        sum += (r[i].bytes + 255) / 256 * 256;
        for (int j = 0; j < i; j++) {
            bool same_time = r[i].begin <= r[j].end && r[j].begin <= r[i].end;
            bool same_bytes = r[i].offset < r[j].offset + r[j].bytes && r[j].offset < r[i].offset + r[i].bytes;

            assert_false(same_time && same_bytes);
        }
    }
    for (int i = 0; i < n; i++) {
        size_t live = 0;

        for (int j = 0; j < n; j++) {
            live += r[j].begin <= r[i].begin && r[i].begin <= r[j].end ? (r[j].bytes + 255) / 256 * 256 : 0;
        }
        bound = live > bound ? live : bound;
    }
    assert_int_equal(size->sum, sum);
    assert_int_equal(size->bound, bound);
    assert_true(size->bytes >= bound && size->bytes <= sum);
}

/* Lifetimes of any kind. */
static int make_any(lsi_memory_request *r)
{
    int n = 1 + draw(MAX_REQUESTS);

    for (int i = 0; i < n; i++) {
        int begin = draw(200);

        r[i] = (lsi_memory_request){.bytes = 1 + (size_t)draw(draw(2) ? 500 : 100000), .begin = begin,
                                    .end = begin + draw(draw(3) ? 10 : 200)};
    }
    return n;
}

/* As training has them: pairs of short ones, and nested ones that wait for the backward. */
static int make_nested(lsi_memory_request *r)
{
    int layers = 5 + draw(60), n = 0;

    for (int l = 0; l < layers; l++) {
        size_t bytes = 256 * (1 + (size_t)draw(4)) * 100;

        r[n++] = (lsi_memory_request){.bytes = bytes, .begin = l, .end = 2 * layers - 1 - l};
        r[n++] = (lsi_memory_request){.bytes = bytes, .begin = l, .end = l + 1};
        r[n++] = (lsi_memory_request){.bytes = bytes, .begin = 2 * layers - 1 - l, .end = 2 * layers - l};
    }
    return n;
}

static void check_kind(int (*make)(lsi_memory_request *r), double limit)
{
    static lsi_memory_request r[MAX_REQUESTS], again[MAX_REQUESTS];
    double bytes = 0, bound = 0;

    for (int p = 0; p < N_PLANS; p++) {
        int n = make(r);
        lsi_memory_size size;

        memcpy(again, r, sizeof r);
        CHECK_OK(lsi_memory_plan(r, n, &size));
        check(r, n, &size);
        bytes += (double)size.bytes;
        bound += (double)size.bound;
        CHECK_OK(lsi_memory_plan(again, n, &size));
        assert_memory_equal(again, r, (size_t)n * sizeof *r);
    }
    print_message("block / lower bound = %.3f\n", bytes / bound);
    assert_true(bytes < limit * bound);
}

static void test_any(void **state)
{
    (void)state;
    check_kind(make_any, 1.1);
}

static void test_nested(void **state)
{
    (void)state;
    check_kind(make_nested, 1.02);
}

static void test_nothing(void **state)
{
    lsi_memory_size size;

    (void)state;
    CHECK_OK(lsi_memory_plan(NULL, 0, &size));
    assert_int_equal(size.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
