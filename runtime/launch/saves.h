/* Which checkpoints lie in a folder, to tell whether a run has saved any since. */
#ifndef LSI_LAUNCH_SAVES_H
#define LSI_LAUNCH_SAVES_H

#include <lockstep/status.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct lsi_save {
    int64_t step;
    uint64_t device, inode; /* of its manifest: a checkpoint of the same step that was written later differs */
} lsi_save;

typedef struct lsi_saves {
    lsi_save *save;
    int n;
} lsi_saves;

/* A folder that is not there has none. */
LS_MUST_USE ls_status lsi_saves_read(const char *folder, lsi_saves *out);
void lsi_saves_free(lsi_saves *saves);
/* Newest step of `now` that `before` does not have; -1: none. */
int64_t lsi_saves_newest(const lsi_saves *before, const lsi_saves *now);

#endif
