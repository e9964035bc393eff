#include "base/hash.h"

#include <string.h>
#include <xxhash.h>

uint64_t lsi_hash64(const void *data, size_t size)
{
    return XXH3_64bits(data, size);
}

uint64_t lsi_hash_text(const char *text)
{
    return lsi_hash64(text, strlen(text));
}

void lsi_hash128(const void *data, size_t size, unsigned char out[16])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, size));
    memcpy(out, canonical.digest, 16);
}

void lsi_hash128_hex(const unsigned char hash[16], char out[33])
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < 16; i++) {
        out[2 * i] = digits[hash[i] >> 4];
        out[2 * i + 1] = digits[hash[i] & 15];
    }
    out[32] = '\0';
}
