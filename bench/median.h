/* Medians, of which the benchmarks make all their numbers. */
#ifndef LS_BENCH_MEDIAN_H
#define LS_BENCH_MEDIAN_H

#include <stdlib.h>

static inline int bench_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts the values. Of an even number, the mean of the two in the middle; of none, 0. */
static inline double bench_median(double *values, int n)
{
    if (n == 0) {
        return 0;
    }
    qsort(values, (size_t)n, sizeof *values, bench_by_value);
    return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

#endif
