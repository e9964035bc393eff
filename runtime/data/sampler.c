#include "data/sampler.h"

#include "base/random.h"

/* A permutation of [0, n) is a Feistel network on the next even number of bits, walked until it lands in [0, n): the
 * network is a bijection of its whole domain, so following its cycles is one of the part below n. The domain is less
 * than 4 n, so the walk takes less than four turns on average; below 64 the network has too few bits to mix (with 16,
 * some orders of 3 samples come measurably more often than others). */
enum { ROUNDS = 8, MIN_HALF_BITS = 3 };

static const uint64_t epoch_stream = 0x5341504D4C455221u;   /* keeps these keys apart from other uses of the seed */

static uint64_t feistel(uint64_t x, uint64_t key, int half_bits)
{
    uint64_t mask = (UINT64_C(1) << half_bits) - 1;
    uint64_t left = x >> half_bits, right = x & mask;

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t mixed = lsi_random_key(key + (uint64_t)round, right) >> (64 - half_bits);
        uint64_t next = left ^ mixed;

        left = right;
        right = next;
    }
    return left << half_bits | right;
}

int64_t lsi_sampler_index(const lsi_sampler *sampler, int64_t i)
{
    uint64_t n = (uint64_t)sampler->n, epoch = (uint64_t)i / n, x = (uint64_t)i % n;

    if (!sampler->shuffle) {
        return (int64_t)x;
    }
    uint64_t key = lsi_random_key(sampler->seed, lsi_random_key(epoch, epoch_stream));
    int half_bits = MIN_HALF_BITS;

    while ((n - 1) >> (2 * half_bits) != 0) {
        half_bits++;
    }
    do {
        x = feistel(x, key, half_bits);
    } while (x >= n);
    return (int64_t)x;
}
