#include "launch/saves.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"

/* The step of a folder's name step-<n>, -1 for other names. */
static int64_t step_of(const char *name)
{
    static const char prefix[] = "step-";
    const size_t digits = strspn(name + (strncmp(name, prefix, 5) == 0 ? 5 : 0), "0123456789");
    int64_t step;

    if (strncmp(name, prefix, 5) != 0 || digits == 0 || name[5 + digits] != '\0' ||
        lsi_number_int(name + 5, &step) != NULL) {
        return -1;
    }
    return step;
}

static ls_status add(lsi_saves *saves, const char *folder, const char *name)
{
    lsi_text path = {0};
    struct stat info;
    int64_t step = step_of(name);
    void *list = saves->save;

    if (step < 0) {
        return LS_OK;
    }
    lsi_text_append(&path, "%s/%s/manifest.json", folder, name);
    ls_status status = lsi_text_status(&path);
    if (status == LS_OK && stat(path.data, &info) == 0) {
        status = lsi_memory_resize(&list, ((size_t)saves->n + 1) * sizeof *saves->save, "the list of checkpoints");
        if (status == LS_OK) {
            saves->save = list;
            saves->save[saves->n++] = (lsi_save){step, (uint64_t)info.st_dev, (uint64_t)info.st_ino};
        }
    }
    lsi_text_free(&path);
    return status;
}

ls_status lsi_saves_read(const char *folder, lsi_saves *out)
{
    lsi_saves saves = {0};
    ls_status status = LS_OK;
    struct dirent *entry;
    DIR *dir = opendir(folder);

    while (dir != NULL && status == LS_OK && (entry = readdir(dir)) != NULL) {
        status = add(&saves, folder, entry->d_name);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    if (status != LS_OK) {
        lsi_saves_free(&saves);
        return status;
    }
    *out = saves;
    return LS_OK;
}

void lsi_saves_free(lsi_saves *saves)
{
    lsi_memory_free(saves->save);
    *saves = (lsi_saves){0};
}

static bool contains(const lsi_saves *saves, const lsi_save *save)
{
    for (int i = 0; i < saves->n; i++) {
        const lsi_save *other = &saves->save[i];

        if (other->step == save->step && other->device == save->device && other->inode == save->inode) {
            return true;
        }
    }
    return false;
}

int64_t lsi_saves_newest(const lsi_saves *before, const lsi_saves *now)
{
    int64_t newest = -1;

    for (int i = 0; i < now->n; i++) {
        if (now->save[i].step > newest && !contains(before, &now->save[i])) {
            newest = now->save[i].step;
        }
    }
    return newest;
}
