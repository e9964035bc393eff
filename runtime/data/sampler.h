/* Which sample comes when: sample i of the run is element i mod n of the permutation of epoch i / n. Stateless: a pure
 * function of (seed, n, i), without an array of indices. */
#ifndef LSI_DATA_SAMPLER_H
#define LSI_DATA_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct lsi_sampler {
    int64_t n;          /* samples of the data set, at least 1 */
    uint64_t seed;
    bool shuffle;       /* false: in file order */
} lsi_sampler;

int64_t lsi_sampler_index(const lsi_sampler *sampler, int64_t i);

#endif
