/* GELU in its tanh form, for all backends: gelu(x) = x (1 + tanh(u)) / 2 = x s(2u), u = sqrt(2/pi) (x + 0.044715 x^3), s
 * the logistic function: this form keeps the relative accuracy of the tail, where 1 + tanh(u) cancels. */
#ifndef LSI_KERNELS_GELU_H
#define LSI_KERNELS_GELU_H

#include "kernels/math.h"

typedef struct lsi_gelu_parts {
    float s;            /* s(2u) */
    float ds;           /* s'(2u) = s(2u) (1 - s(2u)) */
    float du2;          /* d(2u)/dx */
} lsi_gelu_parts;

LSI_HOST_DEVICE static inline lsi_gelu_parts lsi_gelu_at(float x)
{
    const float c1 = 1.5957691216057308f, c3 = 0.071354816272600241f;   /* 2 sqrt(2/pi), 0.044715 times that */
    lsi_gelu_parts p;

    /* Beyond +-16 s is 0 or 1 to the last bit; the clamp keeps x^3 finite. */
    float t = x < -16.0f ? -16.0f : x;
    t = t > 16.0f ? 16.0f : t;
    float square = t * t;
    float u2 = t * lsi_fma(c3, square, c1);
    lsi_sigmoid_parts s = lsi_sigmoid(u2);
    p.s = s.value;
    p.ds = s.slope;
    p.du2 = lsi_fma(3.0f * c3, square, c1);
    return p;
}

LSI_HOST_DEVICE static inline float lsi_gelu(float x)
{
    return x * lsi_gelu_at(x).s;
}

/* Its derivative. */
LSI_HOST_DEVICE static inline float lsi_gelu_slope(float x)
{
    lsi_gelu_parts p = lsi_gelu_at(x);

    return lsi_fma(x * p.ds, p.du2, p.s);
}

#endif
