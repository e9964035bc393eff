#include "comm/transports.h"

ls_status lsi_partials_check(const ls_comm *comm, lsi_span share, bool fast, const ls_partial *partials, int n_partials)
{
    lsi_span roots[LSI_TREE_MAX_ROOTS];
    int n_roots = lsi_tree_roots(comm->n_lanes, share.lo, share.hi, roots);

    if (fast) {
        LS_REQUIRE(n_partials == 1, LS_ERR_INTERNAL, "rank %d hands over %d partial sums; a fast reduction takes one",
                   comm->rank, n_partials);
        return LS_OK;
    }
    LS_REQUIRE(n_partials == n_roots, LS_ERR_INTERNAL, "rank %d hands over %d partial sums; lanes %d to %d have %d",
               comm->rank, n_partials, share.lo, share.hi, n_roots);
    for (int i = 0; i < n_roots; i++) {
        LS_REQUIRE(partials[i].lo == roots[i].lo && partials[i].hi == roots[i].hi, LS_ERR_INTERNAL,
                   "partial sum %d of rank %d is of lanes %d to %d, not %d to %d", i, comm->rank, partials[i].lo,
                   partials[i].hi, roots[i].lo, roots[i].hi);
    }
    return LS_OK;
}
