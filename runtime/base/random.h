/* Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
 * A pure function of (key, counter), the same on every backend; who uses which counter is said where it is used. */
#ifndef LSI_BASE_RANDOM_H
#define LSI_BASE_RANDOM_H

#include "base/host_device.h"

#include <stdint.h>

typedef struct lsi_random4 {
    uint32_t v[4];
} lsi_random4;

LSI_HOST_DEVICE static inline lsi_random4 lsi_random_philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0, n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;

        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    lsi_random4 r = {{c0, c1, c2, c3}};
    return r;
}

/* One key from a seed and the hash of a name, so that streams of different names are unrelated. */
LSI_HOST_DEVICE static inline uint64_t lsi_random_key(uint64_t seed, uint64_t name_hash)
{
    uint64_t x = name_hash ^ (seed * 0x9E3779B97F4A7C15u);

    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Uniform in [0, 1) with 24 bits. */
LSI_HOST_DEVICE static inline float lsi_random_unit(uint32_t bits)
{
    return (float)(bits >> 8) * 0x1p-24f;
}

#endif
