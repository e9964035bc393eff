/* Times single matrix products where they will run, with memory of its own, by the device's time stamps. */
#ifndef LSI_TRAIN_GEMM_TIME_H
#define LSI_TRAIN_GEMM_TIME_H

#include "train/gemm_list.h"

typedef struct lsi_gemm_timer lsi_gemm_timer;

/* Memory for the n items' operands, filled with numbers around 0, and a stream. Between runs only: nothing else may
 * stamp while something is timed. */
LS_MUST_USE ls_status lsi_gemm_timer_open(ls_device *device, const lsi_gemm_item *item, int n, lsi_gemm_timer **out);
void lsi_gemm_timer_close(lsi_gemm_timer **timer);
/* Seconds of one launch by the algorithm that is installed: the median of several runs, each of which takes a few
 * launches so that their beginning does not count, after one that warms up. */
LS_MUST_USE ls_status lsi_gemm_timer_measure(lsi_gemm_timer *timer, const lsi_gemm_shape *shape, double *out);

#endif
