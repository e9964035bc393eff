/* Number formats of devices, as the simulated libraries store them: to f32 exactly, back to nearest, ties to even. Own
 * code on purpose: the project's conversions are among what the simulator tests. */
#ifndef CUSIM_NUMBER_H
#define CUSIM_NUMBER_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float cusim_bits_to_float(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t cusim_float_to_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float cusim_from_bf16(uint16_t half)
{
    return cusim_bits_to_float((uint32_t)half << 16);
}

static inline uint16_t cusim_to_bf16(float value)
{
    uint32_t bits = cusim_float_to_bits(value);

    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return 0x7fff;
    }
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float cusim_from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;

    if (magnitude >= 0x7c00) {
        return cusim_bits_to_float(sign | 0x7f800000u | (magnitude & 0x3ff) << 13);
    }
    /* Times 2^112 moves the exponent's bias; subnormal halves become normal on the way. */
    float value = cusim_bits_to_float(magnitude << 13) * 0x1p112f;
    return cusim_bits_to_float(cusim_float_to_bits(value) | sign);
}

static inline uint16_t cusim_to_f16(float value)
{
    uint32_t bits = cusim_float_to_bits(value), magnitude = bits & 0x7fffffffu;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);

    if (magnitude > 0x7f800000u) {
        return 0x7fff;
    }
    if (magnitude >= 0x477ff000u) { /* rounds to 65536 or more */
        return sign | 0x7c00;
    }
    if (magnitude < 0x38800000u) { /* subnormal: whole multiples of 2^-24 */
        return sign | (uint16_t)nearbyintf(cusim_bits_to_float(magnitude) * 0x1p24f);
    }
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return sign | (uint16_t)((magnitude - 0x38000000u) >> 13);
}

/* Ten bits of mantissa, ties away from zero, as the conversion instruction does. */
static inline float cusim_round_tf32(float value)
{
    uint32_t bits = cusim_float_to_bits(value);

    if ((bits & 0x7f800000u) == 0x7f800000u) {
        return value;
    }
    return cusim_bits_to_float((bits + 0x1000) & ~0x1fffu);
}

#endif
