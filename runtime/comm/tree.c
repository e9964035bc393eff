#include "comm/tree.h"

#include <stddef.h>

int lsi_tree_mid(int lo, int hi)
{
    int half = 1;

    while (2 * half < hi - lo) {
        half *= 2;
    }
    return lo + half;
}

/* Appends the maximal nodes of the subtree [lo, hi) inside `range` to the n already in out. */
static int append_roots(int lo, int hi, lsi_span range, lsi_span *out, int n)
{
    if (hi <= range.lo || range.hi <= lo) {
        return n;
    }
    if (range.lo <= lo && hi <= range.hi) {
        if (out != NULL) {
            out[n] = (lsi_span){lo, hi};
        }
        return n + 1;
    }
    int mid = lsi_tree_mid(lo, hi);
    n = append_roots(lo, mid, range, out, n);
    return append_roots(mid, hi, range, out, n);
}

int lsi_tree_roots(int lanes, int lo, int hi, lsi_span *out)
{
    return lo < hi ? append_roots(0, lanes, (lsi_span){lo, hi}, out, 0) : 0;
}

bool lsi_tree_parent(int lanes, lsi_span a, lsi_span b, lsi_span *out)
{
    int lo = 0, hi = lanes;

    if (a.lo < 0 || a.lo >= a.hi || a.hi != b.lo || b.lo >= b.hi || b.hi > lanes) {
        return false;
    }
    /* Down to the only node that could have them as children: the one that splits between them. */
    for (int mid = lsi_tree_mid(lo, hi); mid != a.hi; mid = lsi_tree_mid(lo, hi)) {
        if (a.hi < mid) {
            hi = mid;
        } else {
            lo = mid;
        }
    }
    if (lo != a.lo || hi != b.hi) {
        return false;
    }
    *out = (lsi_span){lo, hi};
    return true;
}

/* Sorts by falling size; equal sizes stay ascending. */
static void sort_largest_first(lsi_span *roots, int n)
{
    for (int i = 1; i < n; i++) {
        lsi_span moved = roots[i];
        int at = i;

        for (; at > 0 && roots[at - 1].hi - roots[at - 1].lo < moved.hi - moved.lo; at--) {
            roots[at] = roots[at - 1];
        }
        roots[at] = moved;
    }
}

void lsi_tree_schedule(int lanes, lsi_span share, int *out)
{
    lsi_span roots[LSI_TREE_MAX_ROOTS];
    int n_roots = lsi_tree_roots(lanes, share.lo, share.hi, roots), n = 0;

    sort_largest_first(roots, n_roots);
    for (int i = 0; i < n_roots; i++) {
        for (int lane = roots[i].lo; lane < roots[i].hi; lane++) {
            out[n++] = lane;
        }
    }
}

/* The left child is one finished buffer while the right one is made. */
static int node_buffers(int lo, int hi)
{
    if (hi - lo == 1) {
        return 1;
    }
    int mid = lsi_tree_mid(lo, hi), left = node_buffers(lo, mid), right = 1 + node_buffers(mid, hi);
    return left > right ? left : right;
}

int lsi_tree_buffers(int lanes, lsi_span share)
{
    lsi_span roots[LSI_TREE_MAX_ROOTS];
    int n_roots = lsi_tree_roots(lanes, share.lo, share.hi, roots), most = 0;

    sort_largest_first(roots, n_roots);
    for (int i = 0; i < n_roots; i++) {
        int alive = i + node_buffers(roots[i].lo, roots[i].hi);

        most = alive > most ? alive : most;
    }
    return most;
}
