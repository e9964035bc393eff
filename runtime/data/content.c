#include "data/content.h"

#include <string.h>

#include "base/hash.h"

enum { HASH_BYTES = 16 };

/* A hash over everything it was given so far, in order. */
typedef struct chain {
    unsigned char link[2][HASH_BYTES]; /* of what came before, of what comes now */
} chain;

static void absorb(chain *c, const void *data, size_t size)
{
    lsi_hash128(data, size, c->link[1]);
    lsi_hash128(c->link, sizeof c->link, c->link[0]);
}

static void absorb_size(chain *c, int64_t size)
{
    unsigned char byte[sizeof size];

    for (size_t i = 0; i < sizeof byte; i++) {
        byte[i] = (unsigned char)((uint64_t)size >> 8 * i);
    }
    absorb(c, byte, sizeof byte);
}

/* Bytes [from, to) of the parts laid end to end. */
static void absorb_range(chain *c, const lsi_content_part *part, int64_t n_parts, int64_t from, int64_t to)
{
    int64_t at = 0; /* where the part begins */

    for (int64_t i = 0; i < n_parts && at < to; at += part[i++].size) {
        int64_t first = from > at ? from - at : 0;
        int64_t last = to < at + part[i].size ? to - at : part[i].size;

        if (first < last) {
            absorb(c, part[i].data + first, (size_t)(last - first));
        }
    }
}

void lsi_content_append(const lsi_content_part *part, int64_t n_parts, lsi_text *out)
{
    const int64_t whole = (int64_t)LSI_CONTENT_PIECE * LSI_CONTENT_N_PIECES;
    char hex[2 * HASH_BYTES + 1];
    chain c = {{{0}}};
    int64_t total = 0;

    absorb_size(&c, n_parts);
    for (int64_t i = 0; i < n_parts; i++) {
        absorb_size(&c, part[i].size);
        total += part[i].size;
    }
    if (total <= whole) {
        absorb_range(&c, part, n_parts, 0, total);
    }
    for (int64_t k = 0; k < LSI_CONTENT_N_PIECES && total > whole; k++) {
        int64_t from = k * (total - LSI_CONTENT_PIECE) / (LSI_CONTENT_N_PIECES - 1);

        absorb_range(&c, part, n_parts, from, from + LSI_CONTENT_PIECE);
    }
    lsi_hash128_hex(c.link[0], hex);
    lsi_text_append(out, "xxh3 %s", hex);
}
