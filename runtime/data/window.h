/* A sequence of token ids in memory, cut into windows of `context` tokens. Window k starts at token k * context; its
 * targets are the tokens that follow its inputs, so that neighbours share one token. */
#ifndef LSI_DATA_WINDOW_H
#define LSI_DATA_WINDOW_H

#include <lockstep/status.h>
#include <stdint.h>

typedef struct lsi_token_run {
    const char *path;               /* for messages; borrowed */
    const unsigned char *data;      /* the whole file */
    int64_t offset;                 /* of the first token in it, in bytes */
    int64_t n_tokens;
    int width;                      /* bytes of one token: 1, 2 or 4, little-endian */
} lsi_token_run;

/* Every token but the first is a target once; the last window may be short. */
int64_t lsi_window_count(int64_t n_tokens, int64_t context);
/* Writes `context` inputs and targets. Behind the end of the run inputs are 0 and targets ignored. ERR_DATA names path,
 * byte offset and id when an id is not below n_classes. */
LS_MUST_USE ls_status lsi_window_read(const lsi_token_run *run, int64_t context, int64_t n_classes, int64_t k,
                                      int32_t *input, int32_t *targets);

#endif
