/* The tree over lanes: the order of every sum, a function of the number of lanes alone.
 *
 *   node(lo, hi) = lane lo                       when hi - lo == 1
 *                = node(lo, mid) + node(mid, hi)  mid = lo + largest power of two strictly below hi - lo */
#ifndef LSI_COMM_TREE_H
#define LSI_COMM_TREE_H

#include <stdbool.h>

typedef struct lsi_span {
    int lo, hi;
} lsi_span;

/* Maximal nodes inside any range: at most 2 log2(lanes). */
enum { LSI_TREE_MAX_ROOTS = 32, LSI_TREE_MAX_LANES = 65536 };

int lsi_tree_mid(int lo, int hi);
/* Maximal nodes of the tree over `lanes` that lie inside [lo, hi), ascending; out may be NULL. Returns their number. */
int lsi_tree_roots(int lanes, int lo, int hi, lsi_span *out);
/* True when a and b are left and right child of one node, which is then stored in *out. */
bool lsi_tree_parent(int lanes, lsi_span a, lsi_span b, lsi_span *out);

/* Order in which a rank computes its lanes: root by root, largest first, ascending inside; fewest live buffers. Fills
 * out[share.hi - share.lo]. */
void lsi_tree_schedule(int lanes, lsi_span share, int *out);
/* Gradient buffers alive at once when lanes are combined as soon as siblings are complete. */
int lsi_tree_buffers(int lanes, lsi_span share);

#endif
