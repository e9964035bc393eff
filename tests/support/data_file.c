#include "support/data_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "support/test.h"

static const char *test_folder;

int data_file_setup(void **state)
{
    (void)state;
    test_folder = test_folder_make();
    return 0;
}

int data_file_teardown(void **state)
{
    (void)state;
    test_folder_remove();
    test_check_no_memory_live();
    return 0;
}

const char *data_file_path(const char *name)
{
    static char ring[16][512];
    static int next;
    char *path = ring[next++ % 16];

    snprintf(path, sizeof ring[0], "%s/%s", test_folder, name);
    return path;
}

const char *data_file_write(const char *name, const void *data, size_t size)
{
    const char *path = data_file_path(name);
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

const char *data_file_write_gzip(const char *name, const void *data, size_t size)
{
    const char *path = data_file_path(name);
    gzFile file = gzopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(gzwrite(file, data, (unsigned)size), size);
    assert_int_equal(gzclose(file), Z_OK);
    return path;
}

const char *data_file_write_idx(const char *name, bool gzip, int rank, const int64_t *dim,
                                const unsigned char *elements)
{
    size_t header = 4 + 4 * (size_t)rank, count = 1;
    unsigned char *data = NULL;

    for (int i = 0; i < rank; i++) {
        count *= (size_t)dim[i];
    }
    data = malloc(header + count);
    assert_non_null(data);
    memcpy(data, (unsigned char[4]){0, 0, 8, (unsigned char)rank}, 4);
    for (int i = 0; i < 4 * rank; i++) {
        data[4 + i] = (unsigned char)(dim[i / 4] >> (24 - 8 * (i % 4)));
    }
    memcpy(data + header, elements, count);
    const char *path = gzip ? data_file_write_gzip(name, data, header + count)
                            : data_file_write(name, data, header + count);

    free(data);
    return path;
}

static void put_little_endian(unsigned char *at, uint32_t value, int width)
{
    for (int i = 0; i < width; i++) {
        at[i] = (unsigned char)(value >> (8 * i));
    }
}

const char *data_file_write_shard(const char *name, int width, int64_t n, const uint32_t *ids)
{
    size_t size = 1024 + (size_t)n * (size_t)width;
    unsigned char *data = calloc(1, size);

    assert_non_null(data);
    put_little_endian(data, width == 2 ? 20240520 : 20240801, 4);
    put_little_endian(data + 4, width == 2 ? 1 : 7, 4);
    put_little_endian(data + 8, (uint32_t)n, 4);
    for (int64_t i = 0; i < n; i++) {
        put_little_endian(data + 1024 + i * width, ids[i], width);
    }
    const char *path = data_file_write(name, data, size);

    free(data);
    return path;
}
