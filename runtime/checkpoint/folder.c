#include "checkpoint/folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

static const char prefix[] = "step-";

void lsi_folder_name(int64_t step, char out[32])
{
    snprintf(out, 32, "%s%08" PRId64, prefix, step);
}

int64_t lsi_folder_step(const char *name)
{
    const size_t n_prefix = sizeof prefix - 1;
    char same[32];

    if (strncmp(name, prefix, n_prefix) != 0 || name[n_prefix] < '0' || name[n_prefix] > '9') {
        return -1;
    }
    long long step = strtoll(name + n_prefix, NULL, 10);
    lsi_folder_name(step, same); /* neither more in the name, nor the number written another way */
    return strcmp(name, same) == 0 ? step : -1;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x < y) - (x > y);
}

/* Appends the step of every name that has one. */
static ls_status read_names(DIR *folder, const char *dir, void **steps, int *n)
{
    int room = 0;

    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        LS_REQUIRE(entry != NULL || errno == 0, LS_ERR_CHECKPOINT, "%s: cannot read: %s", dir, strerror(errno));
        if (entry == NULL) {
            return LS_OK;
        }
        int64_t step = lsi_folder_step(entry->d_name);
        if (step < 0) {
            continue;
        }
        if (*n == room) {
            room = room == 0 ? 16 : 2 * room;
            LS_TRY(lsi_memory_resize(steps, (size_t)room * sizeof step, "list of checkpoints"));
        }
        ((int64_t *)*steps)[(*n)++] = step;
    }
}

ls_status lsi_folder_list(const char *dir, int64_t **steps, int *n)
{
    void *list = NULL;
    DIR *folder = opendir(dir);
    int count = 0;

    *steps = NULL;
    *n = 0;
    if (folder == NULL && errno == ENOENT) {
        return LS_OK;
    }
    LS_REQUIRE(folder != NULL, LS_ERR_CHECKPOINT, "%s: cannot read the folder of checkpoints: %s", dir,
               strerror(errno));
    ls_status status = read_names(folder, dir, &list, &count);
    closedir(folder);
    if (status != LS_OK) {
        lsi_memory_free(list);
        return status;
    }
    if (count > 1) {
        qsort(list, (size_t)count, sizeof **steps, newest_first);
    }
    *steps = list;
    *n = count;
    return LS_OK;
}

ls_status lsi_folder_path(const char *dir, int64_t step, char **out)
{
    char name[32];

    lsi_folder_name(step, name);
    return lsi_file_join(dir, name, out);
}
