/* Sums and maxima over a row in 32 fixed lanes: element i goes to lane i % 32, the lanes are folded in a fixed order.
 * What the compiler makes of the loop over the lanes, vectors of any width, changes no bit. (With 16 lanes gcc 12
 * unrolls that loop before it looks for vectors, and then makes poor ones.) */
#ifndef LSI_KERNELS_CPU_LANES_H
#define LSI_KERNELS_CPU_LANES_H

#include <stdint.h>

enum { LSI_LANES = 32 };

static inline float lsi_lanes_fold(float lanes[LSI_LANES])
{
    for (int width = LSI_LANES / 2; width > 0; width /= 2) {
        for (int l = 0; l < width; l++) {
            lanes[l] += lanes[l + width];
        }
    }
    return lanes[0];
}

/* Adds x[0 .. n) to the lanes. A row may be added in pieces, if all but the last are whole rounds of the lanes. */
static inline void lsi_lanes_add(float sum[LSI_LANES], const float *x, int64_t n)
{
    int64_t i = 0;

    for (; i + LSI_LANES <= n; i += LSI_LANES) {
        for (int l = 0; l < LSI_LANES; l++) {
            sum[l] += x[i + l];
        }
    }
    for (; i < n; i++) {
        sum[i % LSI_LANES] += x[i];
    }
}

/* Sum of x[0 .. n). */
static inline float lsi_lanes_sum(const float *x, int64_t n)
{
    float sum[LSI_LANES] = {0};

    lsi_lanes_add(sum, x, n);
    return lsi_lanes_fold(sum);
}

/* Raises the lanes, -infinity at first, to the largest of x[0 .. n); NaN elements are passed over. */
static inline void lsi_lanes_raise(float max[LSI_LANES], const float *x, int64_t n)
{
    int64_t i = 0;

    for (; i + LSI_LANES <= n; i += LSI_LANES) {
        for (int l = 0; l < LSI_LANES; l++) {
            max[l] = x[i + l] > max[l] ? x[i + l] : max[l];
        }
    }
    for (; i < n; i++) {
        max[0] = x[i] > max[0] ? x[i] : max[0];
    }
}

/* The largest of the lanes. */
static inline float lsi_lanes_largest(const float max[LSI_LANES])
{
    float largest = max[0];

    for (int l = 1; l < LSI_LANES; l++) {
        largest = max[l] > largest ? max[l] : largest;
    }
    return largest;
}

#endif
