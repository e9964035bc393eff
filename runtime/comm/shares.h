/* Who computes which lanes: the only place that divides by the number of processes. */
#ifndef LSI_COMM_SHARES_H
#define LSI_COMM_SHARES_H

#include "comm/tree.h"
#include <lockstep/status.h>
#include <stdint.h>

/* Lanes of every rank, in the order (node, rank), balanced to one lane. Among the balanced shares: fewest roots summed
 * over nodes, then over ranks, then the smallest maximum. node[r]: node of rank r, numbered by first appearance. world
 * may exceed lanes: some shares are empty then. */
LS_MUST_USE ls_status lsi_shares(int lanes, int world, const int *node, lsi_span *out);
/* Chunk of a rank of n elements: [*start, *start + *count), in whole blocks. Lower ranks get one block more; where
 * there are fewer blocks than ranks the higher ones have an empty chunk at the end. */
void lsi_shares_chunk(int64_t n, int world, int rank, int64_t *start, int64_t *count);
/* Slots of a lane: [*first, *first + *count). */
void lsi_lane_slots(int lanes, int64_t n_slots, int lane, int64_t *first, int64_t *count);

#endif
