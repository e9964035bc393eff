#include "base/previous.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

/* mkdir decides which number is free, so two runs never share one. */
static ls_status make_numbered(lsi_previous *previous)
{
    for (int n = 1;; n++) {
        lsi_text_clear(&previous->folder);
        lsi_text_append(&previous->folder, "%s/previous-%d", previous->beside, n);
        LS_TRY(lsi_text_status(&previous->folder));
        if (mkdir(previous->folder.data, 0777) == 0) {
            return LS_OK;
        }
        LS_REQUIRE(errno == EEXIST, LS_ERR_OUTPUT, "%s: cannot create the folder: %s", previous->folder.data,
                   strerror(errno));
    }
}

static ls_status make_beside(lsi_previous *previous, const char *path)
{
    char *beside;

    LS_TRY(lsi_file_folder(path, &beside));
    if (previous->beside != NULL && strcmp(previous->beside, beside) == 0) {
        lsi_memory_free(beside);
        return LS_OK;
    }
    lsi_memory_free(previous->beside);
    previous->beside = beside;
    ls_status status = make_numbered(previous);
    if (status != LS_OK) {
        lsi_memory_free(previous->beside);
        previous->beside = NULL;
        return status;
    }
    lsi_log_info("the output of an earlier run is now in %s", previous->folder.data);
    return LS_OK;
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* Where `path` goes; the folders exist. home NULL: it stands alone. */
static ls_status find_target(lsi_previous *previous, const char *home, const char *path, lsi_text *out)
{
    LS_TRY(make_beside(previous, home != NULL ? home : path));
    lsi_text_append(out, "%s", previous->folder.data);
    if (home != NULL) {
        lsi_text_append(out, "/%s", last_name(home));
        LS_TRY(lsi_text_status(out));
        LS_TRY(lsi_file_make_folders(out->data));
    }
    lsi_text_append(out, "/%s", last_name(path));
    return lsi_text_status(out);
}

ls_status lsi_previous_move_from(lsi_previous *previous, const char *home, const char *path)
{
    lsi_text target = {0};
    ls_status status = find_target(previous, home, path, &target);

    if (status == LS_OK && rename(path, target.data) != 0) {
        status = LS_FAIL(LS_ERR_OUTPUT, "cannot move %s to %s: %s", path, target.data, strerror(errno));
        rmdir(previous->folder.data); /* unless something is in it */
    }
    lsi_text_free(&target);
    return status;
}

ls_status lsi_previous_move(lsi_previous *previous, const char *path)
{
    return lsi_previous_move_from(previous, NULL, path);
}

ls_status lsi_previous_copy(lsi_previous *previous, const char *path)
{
    lsi_mapping mapping = {0};
    lsi_text target = {0};

    ls_status status = find_target(previous, NULL, path, &target);

    if (status == LS_OK) {
        status = lsi_file_map(path, LS_ERR_OUTPUT, &mapping);
    }
    if (status == LS_OK) {
        status = lsi_file_replace(target.data, mapping.data, mapping.size);
    }
    lsi_file_unmap(&mapping);
    lsi_text_free(&target);
    return status;
}

void lsi_previous_free(lsi_previous *previous)
{
    lsi_memory_free(previous->beside);
    lsi_text_free(&previous->folder);
    *previous = (lsi_previous){0};
}
