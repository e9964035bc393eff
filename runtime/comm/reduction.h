/* The reduction plan: how the ranks evaluate the tree over lanes, chunk by chunk.
 *
 * Every rank holds the maximal tree nodes of its lanes (its roots); the chunk of an owner is done when that rank
 * has the root of the whole tree. With several nodes of several ranks there are two stages. Inside a node all send
 * their roots to the node's speaker for this chunk, which adds siblings until only the maximal tree nodes of the
 * node's lanes are left; then the speakers send those to the owner, which adds up the rest. Otherwise the first
 * stage has no transfers and is dropped. Totals go back the same way. Siblings meet in exactly one place and left +
 * right is the only sum made, so the bits depend on none of this. A rank without lanes sends no partials: a zero
 * would turn -0.0 into +0.0.
 *
 * A route is one rank's part in the chunks of all owners. Messages between two ranks are posted in the same order
 * on both sides (by owner, then ascending in the tree) within each stage and hop, so nothing needs naming. */
#ifndef LSI_COMM_REDUCTION_H
#define LSI_COMM_REDUCTION_H

#include "comm/tree.h"
#include <lockstep/status.h>
#include <stdint.h>

enum { LSI_REDUCTION_MAX_STAGES = 2 };

/* What all ranks compute alike. Borrows node and share. */
typedef struct lsi_reduction {
    int n_lanes, world, n_nodes, n_stages;
    const int *node;            /* of every rank, numbered by first appearance */
    const lsi_span *share;      /* of every rank */
} lsi_reduction;

void lsi_reduction_make(int n_lanes, int world, const int *node, const lsi_span *share, lsi_reduction *out);

/* Where a partial sum lies: slot s of the stage's staging (s >= 0), or partial ~s of the rank itself (s < 0). */
typedef int lsi_route_place;

enum { LSI_ROUTE_TOTAL = -1 };  /* the place of a sum that is the total: the result, at the owner's chunk */

typedef struct lsi_route_message {
    int owner;                  /* of the chunk */
    int peer;                   /* sent to, or received from */
    lsi_route_place place;
} lsi_route_message;

/* One sum the rank forms at the end of a stage. */
typedef struct lsi_route_sum {
    int owner;
    int slot;                   /* in the next stage's staging, or LSI_ROUTE_TOTAL */
    int first, n;               /* of the stage's operands, ascending in the tree */
    int step;                   /* in the stage's steps: 2n - 1 in postfix order, see evaluate.h */
} lsi_route_sum;

typedef struct lsi_route_stage {
    lsi_route_message *receive, *send;
    lsi_route_sum *sum;
    lsi_route_place *operand;
    uint8_t *step;
    int n_receive, n_send, n_sums, n_operands, n_steps, n_slots;
} lsi_route_stage;

/* Totals on their way back: a message's place is not used. */
typedef struct lsi_route_hop {
    lsi_route_message *receive, *send;
    int n_receive, n_send;
} lsi_route_hop;

typedef struct lsi_route {
    int n_stages;
    lsi_route_stage stage[LSI_REDUCTION_MAX_STAGES];
    lsi_route_hop hop[LSI_REDUCTION_MAX_STAGES];        /* in this order, after the last stage */
    void *memory;
} lsi_route;

LS_MUST_USE ls_status lsi_route_create(const lsi_reduction *reduction, int rank, lsi_route *out);
void lsi_route_destroy(lsi_route *route);
/* Fills the counts only: of the chunks of the first n_owners ranks. Slots are numbered by owner, so that where only
 * those have a chunk, only these slots are used. */
void lsi_route_count(const lsi_reduction *reduction, int rank, int n_owners, lsi_route *out);

#endif
