/* Leases: which GPU of this host belongs to which running job, so that two jobs never take one GPU.
 *
 * A folder (device.leases) that all users share holds a file per GPU, named by its UUID. A process that uses the GPU
 * keeps a lock (flock) on it: the kernel drops the lock when the process ends, however it ends, so a lease needs no
 * cleaning up. Jobs that share GPUs hold shared locks. What is written in a file only tells people who has it.
 *
 * `decide.lock` is held while a job looks and takes, so that at one time one job decides. A claim, `claim-<pid>-<n>`,
 * is put by a job of higher priority that waits (device.reserve): jobs of lower priority leave that many of the GPUs
 * listed in it alone. It counts while its file is locked, so it dies with its process, too; what is left of it is
 * removed by the next one who looks.
 *
 * Leases reach as far as the folder: containers see each other's only where it is mounted into them. Not collective;
 * one thread. */
#ifndef LSI_DEVICE_LEASE_H
#define LSI_DEVICE_LEASE_H

#include <lockstep/status.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/inventory.h"

typedef struct lsi_leases lsi_leases;

typedef enum lsi_priority { LSI_PRIORITY_LOW, LSI_PRIORITY_NORMAL, LSI_PRIORITY_HIGH } lsi_priority;

/* "low", "normal", "high": device.priority. */
lsi_priority lsi_lease_priority(const char *name);

/* What the holder of a lease, or the owner of a claim, wrote; empty texts and 0 where nothing can be read. */
typedef struct lsi_lease_holder {
    int64_t pid;
    char user[LSI_GPU_USER], what[64]; /* name of the configuration, or of the program */
} lsi_lease_holder;

/* Makes the folder when it is missing, open to all users. ERR_DEVICE names it and the reason. `what` is what others
 * read of this job; borrowed. */
LS_MUST_USE ls_status lsi_lease_open(const char *folder, const char *what, lsi_leases **out);
/* Equal for two processes that see the same folder of the same host, under whatever host name. */
void lsi_lease_folder_id(const lsi_leases *leases, unsigned char out[16]);
/* Gives back all leases and the claim. Accepts NULL. */
void lsi_lease_close(lsi_leases **leases);

/* Waits at most `seconds` for the others who decide; ERR_TIMEOUT names the one who does. */
LS_MUST_USE ls_status lsi_lease_lock(lsi_leases *leases, double seconds);
void lsi_lease_unlock(lsi_leases *leases);

/* The three below only while this job holds the lock above, in this or another of its processes. */

/* Whether a job that would share (or not) could have it now. *holder tells who has it, if nobody: pid 0. */
LS_MUST_USE ls_status lsi_lease_is_free(lsi_leases *leases, const char *uuid, bool shared, bool *out,
                                        lsi_lease_holder *holder);
/* Holds it until the close or the end of the process. A second take of the same one does nothing. ERR_DEVICE: taken. */
LS_MUST_USE ls_status lsi_lease_take(lsi_leases *leases, const char *uuid, bool shared);
/* Gives back what was taken. */
void lsi_lease_release(lsi_leases *leases);

/* A living claim: its owner waits for n of these. */
typedef struct lsi_claim {
    lsi_priority priority;
    lsi_lease_holder owner;
    int n, n_uuids;
    char uuids[LSI_GPU_MAX][LSI_GPU_UUID]; /* best first */
} lsi_claim;

enum { LSI_CLAIMS_MAX = 32 };

/* Puts this process's claim, or replaces it. */
LS_MUST_USE ls_status lsi_lease_claim(lsi_leases *leases, const lsi_claim *claim);
void lsi_lease_unclaim(lsi_leases *leases);
/* Those of other processes that live, at most LSI_CLAIMS_MAX, highest priority first; removes dead ones. */
LS_MUST_USE ls_status lsi_lease_claims(lsi_leases *leases, lsi_claim *out, int *n);

#endif
