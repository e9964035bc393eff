/* Elementary functions of all kernels: own code, so that the bits depend on nothing but whether there is FMA, without
 * branches or tables, so that loops that call them are vectorised. Errors are stated and tested in units in the last
 * place (ulp) of the true result. */
#ifndef LSI_KERNELS_MATH_H
#define LSI_KERNELS_MATH_H

#include "base/host_device.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* a * b + c, rounded once where the ISA level has FMA, else after each operation. GPUs have it, so that the simulator
 * of one rounds once, too. */
LSI_HOST_DEVICE static inline float lsi_fma(float a, float b, float c)
{
#if defined(__FMA__) || defined(__CUDACC__) || defined(CUSIM)
    return fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

LSI_HOST_DEVICE static inline float lsi_float_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

LSI_HOST_DEVICE static inline uint32_t lsi_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* e^x within 2 ulp for every float: 0 and infinity where the result leaves the range, NaN stays NaN.
 * x = n ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + r + r^2 q(r), q interpolated at Chebyshev nodes (to 1e-8). */
LSI_HOST_DEVICE static inline float lsi_exp(float x)
{
    const float to_integer = 0x1.8p23f;     /* adding it rounds to a whole number and leaves that in the low bits */

    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float shifted = lsi_fma(x, 0x1.715476p+0f, to_integer);
    float n = shifted - to_integer;
    float r = lsi_fma(n, -0x1.63p-1f, x);   /* ln 2 = 0x1.63p-1 (n times it is exact) - 2.12194440e-4 */
    r = lsi_fma(n, 2.12194440e-4f, r);
    float q = lsi_fma(1.3926184e-3f, r, 8.3631791e-3f);
    q = lsi_fma(q, r, 4.1666555e-2f);
    q = lsi_fma(q, r, 1.6666577e-1f);
    q = lsi_fma(q, r, 0.5f);
    float e = lsi_fma(q, r * r, r) + 1.0f;

    /* 2^n in two factors: n reaches from -150 to 128, where one would not be a normal number. */
    int32_t whole = (int32_t)(lsi_float_bits(shifted) - lsi_float_bits(to_integer)), part = whole >> 1;
    float low = lsi_float_from_bits((uint32_t)(part + 127) << 23);
    float high = lsi_float_from_bits((uint32_t)(whole - part + 127) << 23);
    return e * low * high;
}

/* e^x for terms beside one that is near 1: exactly 0 below -80, so that what no sum can see costs no arithmetic on
 * subnormal numbers, which is many times slower; as lsi_exp otherwise. */
LSI_HOST_DEVICE static inline float lsi_exp_below(float x)
{
    float e = lsi_exp(x < -80.0f ? -80.0f : x);

    return x < -80.0f ? 0.0f : e;
}

/* 1 / (1 + e^-x) and its slope in x, both with a small relative error in either tail, where 1 - sigmoid cancels. */
typedef struct lsi_sigmoid_parts {
    float value, slope;
} lsi_sigmoid_parts;

LSI_HOST_DEVICE static inline lsi_sigmoid_parts lsi_sigmoid(float x)
{
    lsi_sigmoid_parts p;
    float e = lsi_exp(-fabsf(x)), q = 1.0f / (1.0f + e);

    p.value = x < 0.0f ? e * q : q;
    p.slope = e * q * q;
    return p;
}

/* tanh x within 3 ulp for every float; NaN stays NaN. Near 0, where (1 - e) / (1 + e) cancels: x + x^3 q(x^2), q
 * interpolated at Chebyshev nodes of x^2 in [0, 0.55^2] (to 4e-9). */
LSI_HOST_DEVICE static inline float lsi_tanh(float x)
{
    float size = fabsf(x), t = size > 0.55f ? 0.55f : size;
    float e = lsi_exp(-2.0f * size), far = (1.0f - e) / (1.0f + e);
    float w = t * t;
    float q = lsi_fma(-6.6102278e-3f, w, 2.1309389e-2f);
    q = lsi_fma(q, w, -5.3909429e-2f);
    q = lsi_fma(q, w, 1.3333114e-1f);
    q = lsi_fma(q, w, -3.3333332e-1f);
    float near = lsi_fma(t * w, q, t);
    return copysignf(size < 0.55f ? near : far, x);
}

/* ln x within 1 ulp, for positive normal x; infinity and NaN are returned as they are. In double and not for vectors:
 * softmax needs one per row. x = 2^n m, ln m = 2 artanh((m - 1) / (m + 1)). */
LSI_HOST_DEVICE static inline float lsi_log(float x)
{
    if (!(x <= FLT_MAX)) {
        return x;
    }
    uint32_t bits = lsi_float_bits(x);
    int32_t n = (int32_t)(bits >> 23) - 127;
    double m = (double)lsi_float_from_bits((bits & 0x007FFFFFu) | 0x3F800000u);
    if (m > 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        n++;
    }
    double z = (m - 1.0) / (m + 1.0), w = z * z;
    double series = 1.0 + w * (1.0 / 3 + w * (1.0 / 5 + w * (1.0 / 7 + w * (1.0 / 9 + w * (1.0 / 11 + w / 13)))));
    return (float)((double)n * 0x1.62e42fefa39efp-1 + 2.0 * z * series);
}

#endif
