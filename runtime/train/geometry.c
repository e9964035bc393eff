#include "train/geometry.h"

#include "base/memory.h"
#include "comm/shares.h"
#include "config/rules.h"

ls_status lsi_geometry_make(const ls_config *config, const lsi_job *job, lsi_geometry *out)
{
    lsi_geometry g = {
        .global_batch = config->train.global_batch,
        .micro_batch = config->train.micro_batch,
        .n_slots = config->train.global_batch / config->train.micro_batch,
        .n_lanes = (int)lsi_config_lanes(config),
        .world = job->world,
        .rank = job->rank,
    };

    LS_REQUIRE(
        g.world <= g.n_lanes, LS_ERR_CONFIG,
        "%d processes but train.lanes = %d: a process needs at least one lane; start at most %d, or set train.lanes "
        "to %d or more (at most the %lld slots of a step; another value gives other bits)",
        g.world, g.n_lanes, g.n_lanes, g.world, (long long)g.n_slots);
    LS_TRY(lsi_memory_alloc((size_t)g.world * sizeof *g.share, "lane shares", (void **)&g.share));
    ls_status status = lsi_shares(g.n_lanes, g.world, job->node, g.share);
    if (status != LS_OK) {
        lsi_memory_free(g.share);
        return status;
    }
    for (int rank = 0; rank < g.world; rank++) {
        int64_t n = lsi_geometry_n_local(&g, rank);
        g.max_local = n > g.max_local ? n : g.max_local;
    }
    *out = g;
    return LS_OK;
}

void lsi_geometry_free(lsi_geometry *geometry)
{
    lsi_memory_free(geometry->share);
    geometry->share = NULL;
}

int64_t lsi_geometry_n_local(const lsi_geometry *geometry, int rank)
{
    int64_t n = 0, first, count;

    for (int lane = geometry->share[rank].lo; lane < geometry->share[rank].hi; lane++) {
        lsi_lane_slots(geometry->n_lanes, geometry->n_slots, lane, &first, &count);
        n += count;
    }
    return n;
}

void lsi_geometry_places(const lsi_geometry *geometry, int rank, lsi_place *out)
{
    lsi_span share = geometry->share[rank];
    int n_lanes = share.hi - share.lo;
    int order[4096];

    lsi_tree_schedule(geometry->n_lanes, share, order);
    for (int i = 0; i < n_lanes; i++) {
        int64_t first, count;

        lsi_lane_slots(geometry->n_lanes, geometry->n_slots, order[i], &first, &count);
        for (int64_t s = 0; s < count; s++) {
            *out++ = (lsi_place){
                .slot = first + s,
                .lane = order[i],
                .order = i,
                .first_in_lane = s == 0,
                .last_in_lane = s == count - 1,
            };
        }
    }
}
