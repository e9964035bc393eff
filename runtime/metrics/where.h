/* What a device is at, in the words of a trace, from its newest stamps: for whoever finds it standing still. */
#ifndef LSI_METRICS_WHERE_H
#define LSI_METRICS_WHERE_H

#include <lockstep/backend.h>
#include <stdbool.h>

/* Any thread, while streams stamp. The newest stamp of *compute*, and what *comm* is in the middle of: "step 18,
 * compute: forward of slot 3; comm: reduce of bucket 1". Slots are counted among those of this rank. `step` (from 1) is
 * the last one that was begun; stamps of the other parity are of the step before it. "step 18, before its work" when
 * there is no stamp. Returns whether *compute* has nothing to do until *comm* has heard from other ranks. */
bool lsi_where_describe(ls_device *device, int64_t step, char *out, size_t room);

#endif
