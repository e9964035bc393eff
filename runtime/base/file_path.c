/* The part of base/file.h that only handles the text of paths. */
#include "base/file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"

/* A counted copy of `n` bytes of text. */
static ls_status copy(const char *text, size_t n, char **out)
{
    void *block;

    LS_TRY(lsi_memory_alloc(n + 1, "a path", &block));
    memcpy(block, text, n);
    *out = block;
    return LS_OK;
}

ls_status lsi_file_folder(const char *path, char **out)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL) {
        return copy(".", 1, out);
    }
    return copy(path, slash == path ? 1 : (size_t)(slash - path), out);
}

ls_status lsi_file_join(const char *folder, const char *name, char **out)
{
    size_t n = strlen(folder);
    void *block;

    if (name[0] == '/' || n == 0) {
        return lsi_memory_strdup(name, out);
    }
    LS_TRY(lsi_memory_alloc(n + 1 + strlen(name) + 1, "a path", &block));
    char *end = (char *)memcpy(block, folder, n) + n;
    if (end[-1] != '/') {
        *end++ = '/';
    }
    memcpy(end, name, strlen(name) + 1);
    *out = block;
    return LS_OK;
}

ls_status lsi_file_stem(const char *path, char **out)
{
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    const char *point = strrchr(name, '.');

    return copy(name, point == NULL || point == name ? strlen(name) : (size_t)(point - name), out);
}

ls_status lsi_file_absolute(const char *path, char **out)
{
    if (path[0] == '/') {
        return lsi_memory_strdup(path, out);
    }
    void *folder = NULL;
    ls_status status = LS_OK;
    for (size_t room = 256; status == LS_OK; room *= 2) {
        status = lsi_memory_resize(&folder, room, "the current folder");
        if (status == LS_OK && getcwd(folder, room) != NULL) {
            status = lsi_file_join(folder, path, out);
            break;
        }
        if (status == LS_OK && errno != ERANGE) {
            status = LS_FAIL(LS_ERR_USAGE, "the current folder is not readable: %s", strerror(errno));
        }
    }
    lsi_memory_free(folder);
    return status;
}
