/* Sums and maxima over a row in 32 fixed lanes: element i goes to lane i % 32, the lanes are folded in a fixed order.
 * What the compiler makes of the loop over the lanes, vectors of any width, changes no bit. (With 16 lanes gcc 12
 * unrolls that loop before it looks for vectors, and then makes poor ones.) */
#ifndef LSI_KERNELS_CPU_LANES_H
#define LSI_KERNELS_CPU_LANES_H

#include <stdint.h>

enum { LSI_LANES = 32 };

/* In a loop over rounds of the lanes, which gcc then does not unroll before it looks for vectors: the lanes stay in
 * registers, where they would go through memory in every round. */
#if defined(__GNUC__) && !defined(__clang__)
#define LSI_LANES_KEPT __asm__("");
#else
#define LSI_LANES_KEPT
#endif

static inline float lsi_lanes_fold(float lanes[LSI_LANES])
{
    /* Widths that are known make vectors of it; a loop over widths goes through memory lane by lane. */
    float half[LSI_LANES / 2], quarter[LSI_LANES / 4], eighth[LSI_LANES / 8];

    for (int l = 0; l < LSI_LANES / 2; l++) {
        half[l] = lanes[l] + lanes[l + LSI_LANES / 2];
    }
    for (int l = 0; l < LSI_LANES / 4; l++) {
        quarter[l] = half[l] + half[l + LSI_LANES / 4];
    }
    for (int l = 0; l < LSI_LANES / 8; l++) {
        eighth[l] = quarter[l] + quarter[l + LSI_LANES / 8];
    }
    return (eighth[0] + eighth[2]) + (eighth[1] + eighth[3]);
}

/* Adds x[0 .. n) to the lanes. A row may be added in pieces, if all but the last are whole rounds of the lanes. */
static inline void lsi_lanes_add(float sum[LSI_LANES], const float *x, int64_t n)
{
    int64_t i = 0;

    for (; i + LSI_LANES <= n; i += LSI_LANES) {
        LSI_LANES_KEPT
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
        LSI_LANES_KEPT
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
