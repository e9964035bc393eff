/* Buckets: runs of whole blocks of the flat parameter index, reduced together, in the order in which gradients become
 * ready, which is from the end of the index to its beginning. */
#ifndef LSI_TRAIN_BUCKET_H
#define LSI_TRAIN_BUCKET_H

#include <lockstep/comm.h>
#include <lockstep/status.h>

typedef struct lsi_bucket {
    int64_t first, count;       /* elements of the flat index */
    int64_t owned_first, owned_count;       /* this rank's chunk, of the flat index; may be empty */
    int64_t held_at;            /* where the owned chunk begins in arrays that hold owned chunks only, ascending */
    int64_t sums_at;            /* where the sums of squares of its blocks go in this rank's exchange message */
    ls_collective *reduce;
    ls_collective *gather;      /* of the layers' weights; NULL where every rank updates all of them */
    ls_event *gathered;
    int n_params, n_waiting;    /* parameters that reach into it; of those, how many gradients are not ready */
    bool awaited;               /* in this step's forward */
} lsi_bucket;

/* Refuses more buckets than can be counted and kept, naming the key. */
LS_MUST_USE ls_status lsi_bucket_check(int64_t n, int64_t bytes);
/* Number of buckets of at most `bytes` (at least one block) over n elements. */
int lsi_bucket_number(int64_t n, int64_t bytes);
/* Elements of bucket i. */
void lsi_bucket_range(int64_t n, int64_t bytes, int i, int64_t *first, int64_t *count);

#endif
