/* Ranges for profilers cost nothing where none listens: there are none then. What one sees: train/test_ranges.py. */
#include "support/test.h"

#include <stdlib.h>

#include "backend/ranges.h"

static void nobody_listens(void **state)
{
    (void)state;
    (void)unsetenv("NVTX_INJECTION64_PATH");
    lsi_ranges *ranges = lsi_ranges_open();

    assert_null(ranges);
    lsi_ranges_push(ranges, "step %d", 1);
    lsi_ranges_pop(ranges);
    lsi_ranges_close(ranges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_listens)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
