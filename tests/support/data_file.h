/* Data files that tests make for themselves. Each call returns the path, valid until the sixteenth call after it. */
#ifndef LS_TESTS_SUPPORT_DATA_FILE_H
#define LS_TESTS_SUPPORT_DATA_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For cmocka: a new folder for the files; and its removal, which also checks that all counted memory was freed. */
int data_file_setup(void **state);
int data_file_teardown(void **state);

const char *data_file_path(const char *name);
const char *data_file_write(const char *name, const void *data, size_t size);
const char *data_file_write_gzip(const char *name, const void *data, size_t size);
/* IDX of unsigned bytes. */
const char *data_file_write_idx(const char *name, bool gzip, int rank, const int64_t *dim,
                                const unsigned char *elements);
/* An llm.c shard; width 2 or 4 decides the kind. */
const char *data_file_write_shard(const char *name, int width, int64_t n, const uint32_t *ids);

#endif
