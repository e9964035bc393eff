/* Several files named by one text: comma-separated paths and patterns (glob(7)). */
#ifndef LSI_DATA_PATH_LIST_H
#define LSI_DATA_PATH_LIST_H

#include <lockstep/status.h>
#include <stdint.h>

typedef struct lsi_path_list {
    char **path;
    int64_t n;
} lsi_path_list;

/* All files, sorted by the bytes of their paths: the same order in every locale. ERR_DATA when a pattern matches
 * nothing or a file is named twice. `out` starts all zero, and is freed by the caller after a failure, too. */
LS_MUST_USE ls_status lsi_path_list_expand(const char *text, lsi_path_list *out);
void lsi_path_list_free(lsi_path_list *list);

#endif
