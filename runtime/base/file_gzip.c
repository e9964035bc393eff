/* The part of base/file.h that inflates. */
#include "base/file.h"

#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "base/memory.h"

enum { GZIP_WINDOW = 15 + 16 };     /* zlib: the largest window, and gzip's wrapper instead of its own */

bool lsi_file_is_gzip(const unsigned char *data, size_t size)
{
    return size >= 2 && data[0] == 0x1f && data[1] == 0x8b;
}

/* A first guess of the inflated size: that of the last member, kept at its end modulo 2^32. Deflate shrinks to 1/1032
 * at best, so that a damaged or hostile file cannot make us ask for more. */
static size_t guess_size(const unsigned char *data, size_t size)
{
    size_t most = size > PTRDIFF_MAX / 1032 ? PTRDIFF_MAX : size * 1032;

    if (size < 18) {
        return 1;
    }
    const unsigned char *end = data + size - 4;
    size_t last = (size_t)end[0] | (size_t)end[1] << 8 | (size_t)end[2] << 16 | (size_t)end[3] << 24;
    return last < most ? last : most;
}

/* Inflates all members of data[size]. *block grows as needed and is the caller's to free, also after a failure. */
static ls_status inflate_members(z_stream *z, const char *path, const unsigned char *data, size_t size, size_t limit,
                                 ls_status why, void **block, size_t *out_size)
{
    size_t taken = 0, made = 0, room = guess_size(data, size);

    room = (room < limit ? room : limit) + 1;
    LS_TRY(lsi_memory_resize(block, room, path));
    for (;;) {
        if (made == room) {
            room = room < limit / 2 ? room * 2 : limit + 1;
            LS_TRY(lsi_memory_resize(block, room, path));
        }
        /* zlib counts in 32 bits. */
        uInt in = size - taken < INT_MAX ? (uInt)(size - taken) : INT_MAX;
        uInt out = room - made < INT_MAX ? (uInt)(room - made) : INT_MAX;
        z->next_in = (z_const Bytef *)(uintptr_t)(data + taken);
        z->avail_in = in;
        z->next_out = (Bytef *)*block + made;
        z->avail_out = out;
        int result = inflate(z, Z_NO_FLUSH);
        taken += in - z->avail_in;
        made += out - z->avail_out;
        LS_REQUIRE(made <= limit, why, "%s: is larger than %zu bytes when unpacked", path, limit);

        if (result == Z_STREAM_END) {
            if (taken == size) {
                break;
            }
            LS_REQUIRE(lsi_file_is_gzip(data + taken, size - taken), why,
                       "%s: %zu bytes that are not gzip behind its gzip data", path, size - taken);
            inflateReset(z);
        } else if (result == Z_MEM_ERROR) {
            return LS_FAIL(LS_ERR_MEMORY, "out of memory: unpacking %s", path);
        } else if (result != Z_OK && result != Z_BUF_ERROR) {
            return LS_FAIL(why, "%s: damaged gzip data near byte %zu: %s", path, taken,
                           z->msg != NULL ? z->msg : "not inflatable");
        } else if (taken == size && z->avail_out > 0) {
            return LS_FAIL(why, "%s: the gzip data is cut short: it ends inside a member, after %zu bytes", path, size);
        }
    }
    if (made == room) {
        LS_TRY(lsi_memory_resize(block, made + 1, path));
    }
    ((char *)*block)[made] = '\0';
    *out_size = made;
    return LS_OK;
}

ls_status lsi_file_inflate(const char *path, const unsigned char *data, size_t size, size_t limit, ls_status why,
                           unsigned char **out, size_t *out_size)
{
    z_stream z = {0};
    void *block = NULL;

    if (limit > PTRDIFF_MAX / 2) {
        limit = PTRDIFF_MAX / 2;
    }
    LS_REQUIRE(inflateInit2(&z, GZIP_WINDOW) == Z_OK, LS_ERR_MEMORY, "out of memory: unpacking %s", path);
    ls_status status = inflate_members(&z, path, data, size, limit, why, &block, out_size);
    inflateEnd(&z);
    if (status != LS_OK) {
        lsi_memory_free(block);
        return status;
    }
    *out = block;
    return LS_OK;
}
