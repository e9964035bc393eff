/* One data set cut into two. */
#ifndef LSI_DATA_SLICE_H
#define LSI_DATA_SLICE_H

#include <lockstep/dataset.h>

typedef enum lsi_slice_choice {
    LSI_SLICE_LAST,         /* the second part is the last samples */
    LSI_SLICE_SPREAD,       /* the second part is one random sample out of each of n_second equal strata */
} lsi_slice_choice;

/* Cuts `whole` into a second part of n_second samples and a first part of all others, both in the order of `whole`;
 * 0 < n_second < n_samples. The choice depends on the two numbers alone. The parts own `whole` from now on and it is
 * closed with the last of them; after a failure it still is the caller's. */
LS_MUST_USE ls_status lsi_slice_split(ls_dataset *whole, int64_t n_second, lsi_slice_choice choice, ls_dataset **first,
                                      ls_dataset **second);

#endif
