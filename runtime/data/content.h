/* What a data set holds, said in one line that does not depend on where it lies: a resumed run must find the same. */
#ifndef LSI_DATA_CONTENT_H
#define LSI_DATA_CONTENT_H

#include <stdint.h>

#include "base/text.h"

/* Bytes that samples are made of, in memory and after inflating: a gzip file and a plain one have the same. */
typedef struct lsi_content_part {
    const unsigned char *data;
    int64_t size;
} lsi_content_part;

/* Up to this much is read whole; of more, this much: the first and the last piece and others evenly between them. */
enum { LSI_CONTENT_PIECE = 1 << 20, LSI_CONTENT_N_PIECES = 64 };

/* Appends "xxh3 " and 32 hex digits: a checksum of the sizes and the bytes of all parts in their order. Beyond 64 MiB
 * (of all parts together) a change outside the pieces that are read is not seen, so that a start stays cheap. */
void lsi_content_append(const lsi_content_part *part, int64_t n_parts, lsi_text *out);

#endif
