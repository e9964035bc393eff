/* How many ranks hosts take, as mpirun counts them. */
#ifndef LSI_LAUNCH_SLOTS_H
#define LSI_LAUNCH_SLOTS_H

#include <lockstep/status.h>

/* Of --host: "a:4,b" is 5. */
int lsi_slots_of_hosts(const char *hosts);
/* Of a hostfile's lines `name slots=4`; 0 when one of them has no number, so that only mpirun can tell. */
LS_MUST_USE ls_status lsi_slots_of_file(const char *path, int *out);
/* Of the allocation of a batch system this process runs in: 0 when only mpirun can tell, -1 when there is none. */
int lsi_slots_of_allocation(void);
/* Physical cores among those this process may use: mpirun's slots of this host. */
int lsi_slots_here(void);

#endif
