/* How many ranks this host or an allocation takes, as mpirun counts them. */
#ifndef LSI_LAUNCH_SLOTS_H
#define LSI_LAUNCH_SLOTS_H

/* Of the allocation of a batch system this process runs in: 0 when only mpirun can tell, -1 when there is none. */
int lsi_slots_of_allocation(void);
/* Cores that this process may use, each thread of a physical one counted. */
int lsi_slots_cores_allowed(void);
/* Physical cores among those this process may use: mpirun's slots of this host. */
int lsi_slots_here(void);

#endif
