/* Files and paths. Messages name the path and the system's reason. */
#ifndef LSI_BASE_FILE_H
#define LSI_BASE_FILE_H

#include <lockstep/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whole file, NUL-terminated behind `size`; refuses directories and files above `limit` bytes. Free with
 * lsi_memory_free. `why` is the status of a failure. */
LS_MUST_USE ls_status lsi_file_read(const char *path, size_t limit, ls_status why, char **out, size_t *size);
/* Writes beside the target, fsyncs, renames, fsyncs the folder: the target is old or new, never torn. A link stays and
 * what it leads to is replaced; what is no regular file is refused. */
LS_MUST_USE ls_status lsi_file_replace(const char *path, const void *data, size_t size);
/* Makes what was created, renamed or removed in the folder outlast a crash of the machine. */
LS_MUST_USE ls_status lsi_file_sync_folder(const char *folder);
/* mkdir -p. */
LS_MUST_USE ls_status lsi_file_make_folders(const char *path);
/* Occupies those of the descriptors 0, 1, 2 that the process was started without. The next file opened would otherwise
 * get the number, and messages would be written into it. Reading and writing them fail as on closed ones. */
void lsi_file_hold_standard(void);
/* A file that grows beyond the limit of the process (RLIMIT_FSIZE) is a failure of the write, not the process's end. */
void lsi_file_outlive_limit(void);

/* Folder of a path ("." for a bare name), joined path (absolute `name` wins), name without folder and extension. All
 * are new counted strings. */
LS_MUST_USE ls_status lsi_file_folder(const char *path, char **out);
LS_MUST_USE ls_status lsi_file_join(const char *folder, const char *name, char **out);
LS_MUST_USE ls_status lsi_file_stem(const char *path, char **out);
LS_MUST_USE ls_status lsi_file_absolute(const char *path, char **out);

/* A read-only mapping of a whole regular file. Empty files give data NULL, size 0. */
typedef struct lsi_mapping {
    const unsigned char *data;
    size_t size;
} lsi_mapping;
LS_MUST_USE ls_status lsi_file_map(const char *path, ls_status why, lsi_mapping *out);
void lsi_file_unmap(lsi_mapping *mapping);

/* Whether the bytes begin as gzip data does. */
bool lsi_file_is_gzip(const unsigned char *data, size_t size);
/* Inflates the gzip data of the file `path` (several members allowed; a cut one is an error), NUL-terminated behind
 * `out_size`; refuses more than `limit` bytes. Free with lsi_memory_free. */
LS_MUST_USE ls_status lsi_file_inflate(const char *path, const unsigned char *data, size_t size, size_t limit,
                                       ls_status why, unsigned char **out, size_t *out_size);

#endif
