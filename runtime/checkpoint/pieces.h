/* What this process writes of a checkpoint's files: contiguous pieces, each hashed by whoever writes it. */
#ifndef LSI_CHECKPOINT_PIECES_H
#define LSI_CHECKPOINT_PIECES_H

#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "job/watchdog.h"

typedef struct lsi_piece {
    int file;          /* LSI_LAYOUT_* */
    int64_t at, bytes; /* in the file; at most LSI_PIECE_BYTES */
    unsigned char hash[16];
} lsi_piece;

/* Elements [first, first + count) of the flat index, as they lie in memory: run after run in each array. */
typedef struct lsi_piece_run {
    int64_t first, count;
} lsi_piece_run;

typedef struct lsi_pieces {
    const lsi_layout *layout; /* borrowed */
    lsi_piece_run *run;       /* ascending */
    int n_runs;
    float *array[LSI_STATE_MAX_ARRAYS]; /* borrowed: flat when a snapshot is taken, packed in place after it */
    bool with_headers;                  /* also what each file begins with */
    lsi_watchdog *watchdog;         /* set by the owner; told of each piece that is hashed or written. NULL: none */
    lsi_piece *piece;
    const void **data; /* of each piece */
    int n;
} lsi_pieces;

/* Takes a copy of the runs. The list is the same for every checkpoint of a run of the program. */
LS_MUST_USE ls_status lsi_pieces_make(const lsi_layout *layout, const lsi_piece_run *run, int n_runs,
                                      float *const *array, bool with_headers, lsi_pieces *out);
void lsi_pieces_free(lsi_pieces *pieces);
/* Leaves the padding out of the arrays, and hashes. */
void lsi_pieces_pack(lsi_pieces *pieces);
/* Writes all pieces into their files in `folder`, which are made where they do not exist, and waits for the disk.
 * ERR_CHECKPOINT names path, place and bytes. */
LS_MUST_USE ls_status lsi_pieces_write(const lsi_pieces *pieces, const char *folder);

#endif
