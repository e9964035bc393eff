/* Layout of the one scalar exchange of a step: what each rank tells all others, in doubles.
 *
 * A rank's message is LS_EXCHANGE_HEADER words, then the records of its slots, then the sums of squares of its blocks;
 * every rank's message has the same length. Which slots and blocks a rank has is known to all. */
#ifndef LSI_TRAIN_EXCHANGE_H
#define LSI_TRAIN_EXCHANGE_H

#include "train/geometry.h"
#include <lockstep/comm.h>

typedef struct lsi_exchange {
    int64_t stride;             /* doubles per rank */
    int64_t records;            /* where a message's slot records begin */
    int64_t sums;               /* where its sums of squares begin, bucket after bucket */
    int64_t n_blocks, n_slots;
} lsi_exchange;

/* Blocks that `rank` owns of bucket i: whole blocks of the flat index. */
void lsi_exchange_owned(const ls_comm *comm, int64_t n, int64_t bucket_bytes, int i, int rank, int64_t *first,
                        int64_t *count);

void lsi_exchange_layout(const lsi_geometry *geometry, const ls_comm *comm, int64_t n, int64_t bucket_bytes,
                         lsi_exchange *out);
/* Fills the indices of the commit op: block_index[n_blocks], record_index[n_slots], positions in the gathered doubles.
 */
LS_MUST_USE ls_status lsi_exchange_index(const lsi_exchange *exchange, const lsi_geometry *geometry,
                                         const ls_comm *comm, int64_t n, int64_t bucket_bytes, int32_t *block_index,
                                         int32_t *record_index);

#endif
