/* Data sets by kind, their split into training and validation, and parts of them. */
#ifndef LSI_DATA_DATASETS_H
#define LSI_DATA_DATASETS_H

#include <lockstep/config.h>
#include <lockstep/dataset.h>

/* Opens what [data] names. `val` is NULL when there is none. The validation set has the training set's n_classes: a
 * larger label or id in it is an error. */
LS_MUST_USE ls_status lsi_datasets_open(const ls_config *config, ls_dataset **train, ls_dataset **val);
/* Opens what is held out alone: data.val, for which the training data need not be there, or the part that
 * data.val_fraction takes of it. A larger label or id than n_classes allows is an error. ERR_CONFIG when there is
 * none. */
LS_MUST_USE ls_status lsi_dataset_open_val(const ls_config *config, int64_t n_classes, ls_dataset **out);
/* Accepts NULL and clears the pointer. */
void lsi_dataset_close(ls_dataset **dataset);

/* Constructors of the kinds; messages name path and position, those of lsi_datasets_open the key, too. n_classes 0:
 * from the data. labels "": the configuration could not tell them by the images' name, an error. `glob`: paths and
 * patterns, separated by commas. */
LS_MUST_USE ls_status lsi_dataset_synthetic(const ls_config *config, ls_dataset **out);
LS_MUST_USE ls_status lsi_dataset_idx(const char *images, const char *labels, int64_t n_classes, ls_dataset **out);
LS_MUST_USE ls_status lsi_dataset_text(const char *path, int64_t context, int64_t n_classes, ls_dataset **out);
LS_MUST_USE ls_status lsi_dataset_tokens(const char *glob, int64_t context, int64_t n_classes, ls_dataset **out);

#endif
