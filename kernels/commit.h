/* The decision at the end of a step, as plain arithmetic that every backend's commit op calls: one thread, double. */
#ifndef LSI_KERNELS_COMMIT_H
#define LSI_KERNELS_COMMIT_H

#include "kernels/ops.h"

/* Sums losses, counts and squared norms in slot and block order; decides skip, clip factor, learning rate, Adam's
 * powers and counters; writes the result for the host. */
void lsi_commit_decide(const lsi_commit_args *arguments);

#endif
