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
/* Writes beside the target, fsyncs, renames, fsyncs the folder: the target is old or new, never torn. */
LS_MUST_USE ls_status lsi_file_replace(const char *path, const void *data, size_t size);
/* mkdir -p. */
LS_MUST_USE ls_status lsi_file_make_folders(const char *path);
bool lsi_file_exists(const char *path);

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

/* Whole contents of a plain or gzip file (several members allowed), inflated; a cut gzip stream is an error. `limit` as
 * above, of the inflated size. Free with lsi_memory_free. */
LS_MUST_USE ls_status lsi_file_read_maybe_gzip(const char *path, size_t limit, ls_status why, unsigned char **out,
                                               size_t *size);

#endif
