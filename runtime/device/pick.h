/* Which n of the GPUs that can be had: of one model, well connected, each seen by the process that gets it. */
#ifndef LSI_DEVICE_PICK_H
#define LSI_DEVICE_PICK_H

#include "device/select.h"

/* Members of `candidates`, best first, that a job may use together: all of them when `mixed`, else those of the model
 * of candidates[first]. Returns how many. */
int lsi_pick_alike(const lsi_inventory *inventory, const int *candidates, int n, int first, bool mixed, int *out);
/* The n best-connected of m candidates (best first): few that are in use, then the weakest link, all links, the
 * ranking. False: LSI_LINKS_REQUIRE and no n of them are all connected by NVLink. */
bool lsi_pick_connected(const lsi_inventory *inventory, const int *candidates, int m, int n, lsi_links links, int *out);
/* Gives each process a candidate that it sees, none twice, preferring those in front: out[i] is process i's, UNKNOWN
 * where none is left. Returns how many have one. */
int lsi_pick_matching(const int *candidates, int m, const uint64_t *sees, int n, int *out);

#endif
