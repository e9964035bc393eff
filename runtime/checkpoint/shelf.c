#include "checkpoint/shelf.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/folder.h"

static const char partial_suffix[] = ".partial", best_link[] = "best", best_partial[] = "best.partial";

/* ---- removing ------------------------------------------------------------------------------------------------ */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)at;
    return (kind == FTW_DP ? rmdir(path) : unlink(path)) != 0 && errno != ENOENT;
}

/* With whatever somebody has put into it. What is not there is removed. */
static ls_status remove_folder(const char *path)
{
    enum { DESCRIPTORS = 8 };

    LS_REQUIRE(nftw(path, remove_one, DESCRIPTORS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0 || errno == ENOENT,
               LS_ERR_CHECKPOINT, "%s: cannot remove: %s", path, strerror(errno));
    return LS_OK;
}

ls_status lsi_shelf_partial(const char *dir, int64_t step, char **out)
{
    char name[32];
    lsi_text text = {0};

    lsi_folder_name(step, name);
    lsi_text_append(&text, "%s/%s%s", dir, name, partial_suffix);
    LS_TRY(lsi_text_status(&text));
    *out = text.data;
    return LS_OK;
}

ls_status lsi_shelf_remove_partial(const char *dir, int64_t step)
{
    char *path;

    LS_TRY(lsi_shelf_partial(dir, step, &path));
    ls_status status = remove_folder(path);
    lsi_memory_free(path);
    return status;
}

/* The step of "step-<n>.partial", -1 of any other name. */
static int64_t partial_step(const char *name)
{
    const char *end = strstr(name, partial_suffix);
    char step[32];

    if (end == NULL || strcmp(end, partial_suffix) != 0 || end - name >= (ptrdiff_t)sizeof step) {
        return -1;
    }
    snprintf(step, sizeof step, "%.*s", (int)(end - name), name);
    return lsi_folder_step(step);
}

/* What a crash left half done. */
ls_status lsi_shelf_clean(const char *dir)
{
    DIR *listing = opendir(dir);
    struct dirent *entry;
    ls_status status = LS_OK;

    LS_REQUIRE(listing != NULL, LS_ERR_CHECKPOINT, "%s: cannot read the folder: %s", dir, strerror(errno));
    while (status == LS_OK && (entry = readdir(listing)) != NULL) {
        const char *name = entry->d_name;
        int64_t step = partial_step(name);

        if (step >= 0) {
            status = lsi_shelf_remove_partial(dir, step);
        } else if (strncmp(name, LSI_SHELF_PROBE, sizeof LSI_SHELF_PROBE - 1) == 0 || strcmp(name, best_partial) == 0) {
            unlinkat(dirfd(listing), name, 0);
        }
    }
    closedir(listing);
    return status;
}

/* ---- moving and naming --------------------------------------------------------------------------------------- */

/* Whether previous-<n> can lie beside the folder: on the same disk, where the user may write. */
static bool can_move_beside(const char *dir)
{
    struct stat here, above;
    char *parent;

    if (lsi_file_folder(dir, &parent) != LS_OK) {
        return true;
    }
    bool can = stat(dir, &here) != 0 || stat(parent, &above) != 0 ||
               (here.st_dev == above.st_dev && access(parent, W_OK) == 0);
    lsi_memory_free(parent);
    return can;
}

ls_status lsi_shelf_move_aside(const char *dir, lsi_previous *previous, int64_t after)
{
    int64_t *steps;
    int n;
    ls_status status = LS_OK;
    bool beside = can_move_beside(dir);

    LS_TRY(lsi_folder_list(dir, &steps, &n));
    for (int i = 0; status == LS_OK && i < n; i++) {
        char *path = NULL;

        if (steps[i] <= after) {
            continue;
        }
        status = lsi_folder_path(dir, steps[i], &path);
        if (status == LS_OK) {
            status = beside ? lsi_previous_move_from(previous, dir, path) : lsi_previous_move(previous, path);
        }
        lsi_memory_free(path);
    }
    lsi_memory_free(steps);
    return status;
}

ls_status lsi_shelf_publish(const char *dir, int64_t step)
{
    char *partial = NULL, *path = NULL;
    ls_status status;

    LS_TRY_GOTO(status, done, lsi_shelf_partial(dir, step, &partial));
    LS_TRY_GOTO(status, done, lsi_folder_path(dir, step, &path));
    LS_TRY_GOTO(status, done, lsi_file_sync_folder(partial));
    if (rename(partial, path) != 0) {
        status = LS_FAIL(LS_ERR_CHECKPOINT, "cannot rename %s to %s: %s", partial, path, strerror(errno));
        goto done;
    }
    status = lsi_file_sync_folder(dir);
done:
    lsi_memory_free(partial);
    lsi_memory_free(path);
    return status;
}

/* What is no folder of that name, but a file or a link of somebody's, is no checkpoint. */
static bool is_checkpoint(const char *dir, int64_t step)
{
    struct stat info;
    char *path;

    if (lsi_folder_path(dir, step, &path) != LS_OK) {
        return false;
    }
    bool is = lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
    lsi_memory_free(path);
    return is;
}

/* First out of its name, so that what a crash leaves is no torn checkpoint. */
static ls_status remove_checkpoint(const char *dir, int64_t step)
{
    char *partial = NULL, *path = NULL;
    ls_status status;

    LS_TRY_GOTO(status, done, lsi_shelf_partial(dir, step, &partial));
    LS_TRY_GOTO(status, done, lsi_folder_path(dir, step, &path));
    LS_TRY_GOTO(status, done, remove_folder(partial));
    if (rename(path, partial) != 0 && errno != ENOENT) {
        status = LS_FAIL(LS_ERR_CHECKPOINT, "%s: cannot remove: %s", path, strerror(errno));
        goto done;
    }
    status = remove_folder(partial);
done:
    lsi_memory_free(partial);
    lsi_memory_free(path);
    return status;
}

ls_status lsi_shelf_retain(const char *dir, int64_t newest, int64_t keep, int64_t best_step)
{
    int64_t *steps;
    int n, kept = 0;
    ls_status status = LS_OK;

    LS_TRY(lsi_folder_list(dir, &steps, &n));
    for (int i = 0; status == LS_OK && i < n && keep > 0; i++) {
        if (steps[i] <= newest && is_checkpoint(dir, steps[i]) && kept++ >= keep && steps[i] != best_step) {
            status = remove_checkpoint(dir, steps[i]);
        }
    }
    lsi_memory_free(steps);
    return status;
}

static ls_status link_best(const char *dir, const char *name, const char *link)
{
    lsi_text beside = {0};
    char now[32] = {0};

    if (readlink(link, now, sizeof now - 1) > 0 && strcmp(now, name) == 0) {
        return LS_OK;
    }
    lsi_text_append(&beside, "%s/%s", dir, best_partial);
    ls_status status = lsi_text_status(&beside);
    if (status == LS_OK && (symlink(name, beside.data) != 0 || rename(beside.data, link) != 0)) {
        status = LS_FAIL(LS_ERR_CHECKPOINT, "%s: cannot make the link: %s", link, strerror(errno));
        unlink(beside.data);
    }
    lsi_text_free(&beside);
    return status;
}

ls_status lsi_shelf_link_best(const char *dir, int64_t step)
{
    char name[32];
    lsi_text link = {0};
    struct stat info;

    lsi_folder_name(step, name);
    lsi_text_append(&link, "%s/%s", dir, best_link);
    ls_status status = lsi_text_status(&link);
    /* Something else of that name is not ours to replace. */
    bool is_there = status == LS_OK && lstat(link.data, &info) == 0, is_link = is_there && S_ISLNK(info.st_mode);
    bool has_target = is_checkpoint(dir, step);
    if (status == LS_OK && has_target && (is_link || !is_there)) {
        status = link_best(dir, name, link.data);
    } else if (is_link && !has_target) {
        unlink(link.data);
    }
    lsi_text_free(&link);
    return status;
}
