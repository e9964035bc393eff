/* How a global batch is cut: samples -> slots -> lanes -> ranks. A function of the configuration, the number of
 * processes and the nodes they run on; every rank computes all of it. */
#ifndef LSI_TRAIN_GEOMETRY_H
#define LSI_TRAIN_GEOMETRY_H

#include "comm/tree.h"
#include "job/job.h"
#include <lockstep/config.h>

typedef struct lsi_geometry {
    int64_t global_batch, micro_batch;  /* samples */
    int64_t n_slots;                    /* of one step, over all ranks */
    int n_lanes, world, rank;
    lsi_span *share;                    /* lanes of every rank; owned */
    int64_t max_local;                  /* largest number of slots of any rank */
} lsi_geometry;

/* ERR_CONFIG names train.lanes when there are more processes than lanes. */
LS_MUST_USE ls_status lsi_geometry_make(const ls_config *config, const lsi_job *job, lsi_geometry *out);
void lsi_geometry_free(lsi_geometry *geometry);

/* One slot where it runs. */
typedef struct lsi_place {
    int64_t slot;
    int lane;
    int order;              /* of the lane, among this rank's lanes as they are computed */
    bool first_in_lane, last_in_lane;
} lsi_place;

/* Slots of one rank. */
int64_t lsi_geometry_n_local(const lsi_geometry *geometry, int rank);
/* In the order they run: lane after lane as the tree's schedule says, slots ascending inside a lane. */
void lsi_geometry_places(const lsi_geometry *geometry, int rank, lsi_place *out);

#endif
