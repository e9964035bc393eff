/* The bytes of a data file: a plain file is mapped, a gzip file is inflated into memory. */
#ifndef LSI_DATA_CONTENTS_H
#define LSI_DATA_CONTENTS_H

#include "base/file.h"

typedef struct lsi_contents {
    const unsigned char *data;
    int64_t size;
    lsi_mapping mapping;        /* one of these two holds the bytes */
    unsigned char *inflated;
} lsi_contents;

/* ERR_DATA names the path. */
LS_MUST_USE ls_status lsi_contents_open(const char *path, lsi_contents *out);
/* Accepts one that is all zero, and empties it. */
void lsi_contents_close(lsi_contents *contents);

#endif
