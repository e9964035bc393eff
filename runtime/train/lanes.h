/* Where the lanes of this rank accumulate and how finished lanes are added up: a fixed program over gradient buffers,
 * so that a step only replays it. */
#ifndef LSI_TRAIN_LANES_H
#define LSI_TRAIN_LANES_H

#include "comm/tree.h"
#include <lockstep/status.h>

/* buffer[into] += buffer[from]; `from` is free afterwards. `into` holds the left sibling: left + right. */
typedef struct lsi_lane_add {
    int into, from;
} lsi_lane_add;

typedef struct lsi_lane {
    int lane, buffer;
    int n_adds;                             /* sums that become possible when this lane is complete, in order */
    lsi_lane_add add[LSI_TREE_MAX_ROOTS];
} lsi_lane;

/* What is left at the end: one maximal node of the tree per entry. */
typedef struct lsi_lane_root {
    lsi_span span;
    int buffer;
} lsi_lane_root;

typedef struct lsi_lanes {
    int n;                                  /* lanes of this rank, in the order they are computed */
    lsi_lane *lane;
    int n_buffers;
    int n_roots;
    lsi_lane_root root[LSI_TREE_MAX_ROOTS]; /* ascending */
} lsi_lanes;

LS_MUST_USE ls_status lsi_lanes_make(int n_lanes, lsi_span share, lsi_lanes *out);
/* Where the order of sums is free: one buffer for everything this rank computes. */
LS_MUST_USE ls_status lsi_lanes_make_single(int n_lanes, lsi_lanes *out);
void lsi_lanes_free(lsi_lanes *lanes);

#endif
