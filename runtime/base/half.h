/* f16 (IEEE binary16) and bf16 (the upper half of an f32), kept as 16-bit words: to f32, which is exact, and back, to
 * the nearest, ties to even. Beyond the largest value: infinity. Subnormal values are kept. A NaN stays one, with its
 * sign and the bits of its payload that fit; quiet, but for bf16 to f32, which only moves bits. Plain C and the
 * processor's instructions give the same bits. */
#ifndef LSI_BASE_HALF_H
#define LSI_BASE_HALF_H

#include <stdint.h>
#include <string.h>

#if defined(__F16C__)
#include <immintrin.h>
#endif

/* Without branches, so that loops over them are vectorised; hence the sums that only some values need. */
static inline float lsi_half_f16_to_f32(uint16_t half)
{
    const uint32_t rebias = (uint32_t)(127 - 15) << 23, smallest_normal = 0x38800000;      /* 2^-14 */
    uint32_t magnitude = half & 0x7fffu, shifted = magnitude << 13, bits, small_bits;
    float small, value;

    bits = shifted + smallest_normal;
    memcpy(&small, &bits, sizeof small);
    small -= 0x1p-14f;                                      /* magnitude * 2^-24 where the exponent is 0 */
    memcpy(&small_bits, &small, sizeof small_bits);
    bits = magnitude < 0x0400 ? small_bits : shifted + rebias;
    bits = magnitude >= 0x7c00 ? shifted + 2 * rebias : bits;
    bits |= magnitude > 0x7c00 ? 0x00400000u : 0u;
    bits |= (half & 0x8000u) << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t lsi_half_f16_from_f32(float value)
{
    const uint32_t rebias = (uint32_t)(127 - 15) << 23;
    uint32_t bits, magnitude, half, small_bits;
    float small;

    memcpy(&bits, &value, sizeof bits);
    magnitude = bits & 0x7fffffffu;
    memcpy(&small, &magnitude, sizeof small);
    small += 0.5f;                                          /* whose unit in the last place is 2^-24 */
    memcpy(&small_bits, &small, sizeof small_bits);
    half = (magnitude - rebias + 0x0fff + (magnitude >> 13 & 1)) >> 13;
    half = magnitude < 0x38800000 ? small_bits - 0x3f000000 : half;        /* below 2^-14 */
    half = magnitude >= 0x47800000 ? 0x7c00u : half;                       /* from 65536 on */
    half = magnitude > 0x7f800000 ? 0x7e00u | (magnitude >> 13 & 0x03ff) : half;
    return (uint16_t)(half | (bits >> 16 & 0x8000u));
}

static inline float lsi_half_bf16_to_f32(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t lsi_half_bf16_from_f32(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    uint32_t odd = (uint32_t)((int32_t)(bits << 15) >> 31);    /* all ones if what stays is odd: compilers like it so */
    uint32_t rounded = bits + 0x7fff - odd;
    rounded = value != value ? bits | 0x00400000u : rounded;
    return (uint16_t)(rounded >> 16);
}

/* ---- arrays, which may not overlap -------------------------------------------------------------------------- */

static inline void lsi_half_f16_widen(const uint16_t *restrict x, int64_t n, float *restrict out)
{
    int64_t i = 0;

#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16) {
        _mm512_storeu_ps(out + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(x + i))));
    }
#endif
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + i))));
    }
#endif
    for (; i < n; i++) {
        out[i] = lsi_half_f16_to_f32(x[i]);
    }
}

static inline void lsi_half_f16_narrow(const float *restrict x, int64_t n, uint16_t *restrict out)
{
    int64_t i = 0;

#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16) {
        _mm256_storeu_si256((__m256i *)(void *)(out + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    }
#endif
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        _mm_storeu_si128((__m128i *)(void *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    }
#endif
    for (; i < n; i++) {
        out[i] = lsi_half_f16_from_f32(x[i]);
    }
}

static inline void lsi_half_bf16_widen(const uint16_t *restrict x, int64_t n, float *restrict out)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = lsi_half_bf16_to_f32(x[i]);
    }
}

static inline void lsi_half_bf16_narrow(const float *restrict x, int64_t n, uint16_t *restrict out)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = lsi_half_bf16_from_f32(x[i]);
    }
}

#endif
