/* Output of earlier runs moves aside, into a folder previous-<n> beside it; nothing is overwritten or deleted. */
#ifndef LSI_BASE_PREVIOUS_H
#define LSI_BASE_PREVIOUS_H

#include "base/text.h"
#include <lockstep/status.h>

/* Starts from {0}. What one run moves from one folder goes into one previous-<n>. */
typedef struct lsi_previous {
    char *beside; /* the folder it was last made in */
    lsi_text folder;
} lsi_previous;

/* Moves the file or folder `path`, n being the first number that is free. Says so once per previous-<n>. ERR_OUTPUT
 * names both places. */
LS_MUST_USE ls_status lsi_previous_move(lsi_previous *previous, const char *path);
/* The same for `path` inside the folder `home`: previous-<n> is made beside `home`, and has a folder of its name. */
LS_MUST_USE ls_status lsi_previous_move_from(lsi_previous *previous, const char *home, const char *path);
/* The same for a file that goes on being used: what is moved is a copy. */
LS_MUST_USE ls_status lsi_previous_copy(lsi_previous *previous, const char *path);
void lsi_previous_free(lsi_previous *previous);

#endif
