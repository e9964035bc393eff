/* XXH3 (xxHash library), spelled once. */
#ifndef LSI_BASE_HASH_H
#define LSI_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t lsi_hash64(const void *data, size_t size);
/* Of a NUL-terminated string: keys of layers and parameters. */
uint64_t lsi_hash_text(const char *text);
/* XXH3-128 in canonical byte order (big-endian). */
void lsi_hash128(const void *data, size_t size, unsigned char out[16]);
/* 32 lower-case hex digits and NUL. */
void lsi_hash128_hex(const unsigned char hash[16], char out[33]);

#endif
