#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"

/* ---- reading ---------------------------------------------------------------------------------------------- */

static ls_status open_for_reading(const char *path, ls_status why, int *fd, struct stat *info)
{
    int opened = open(path, O_RDONLY | O_CLOEXEC);

    LS_REQUIRE(opened >= 0, why, "%s: cannot open: %s", path, strerror(errno));
    if (fstat(opened, info) != 0) {
        ls_status status = LS_FAIL(why, "%s: cannot open: %s", path, strerror(errno));
        close(opened);
        return status;
    }
    if (S_ISDIR(info->st_mode)) {
        close(opened);
        return LS_FAIL(why, "%s: is a directory, not a file", path);
    }
    *fd = opened;
    return LS_OK;
}

/* Reads to the end, which for pipes, files that grow and those of /proc is not known before. */
static ls_status read_to_end(int fd, const char *path, size_t expected, size_t limit, ls_status why, void **block,
                             size_t *size)
{
    size_t used = 0, room = expected < limit ? expected + 1 : limit + 1;

    LS_TRY(lsi_memory_resize(block, room, path));
    for (;;) {
        ssize_t n = read(fd, (char *)*block + used, room - used);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        LS_REQUIRE(n >= 0, why, "%s: cannot read: %s", path, strerror(errno));
        if (n == 0) {
            break;
        }
        used += (size_t)n;
        LS_REQUIRE(used <= limit, why, "%s: is larger than %zu bytes", path, limit);
        if (used == room) {
            room = room < limit / 2 ? room * 2 + 4096 : limit + 1;
            LS_TRY(lsi_memory_resize(block, room, path));
        }
    }
    ((char *)*block)[used] = '\0';      /* used < room */
    *size = used;
    return LS_OK;
}

ls_status lsi_file_read(const char *path, size_t limit, ls_status why, char **out, size_t *size)
{
    struct stat info;
    void *block = NULL;
    int fd = -1;

    if (limit > PTRDIFF_MAX) {
        limit = PTRDIFF_MAX;
    }
    LS_TRY(open_for_reading(path, why, &fd, &info));
    size_t expected = S_ISREG(info.st_mode) ? (size_t)info.st_size : 0;
    ls_status status = expected <= limit
                           ? read_to_end(fd, path, expected, limit, why, &block, size)
                           : LS_FAIL(why, "%s: is larger than %zu bytes", path, limit);
    close(fd);
    if (status != LS_OK) {
        lsi_memory_free(block);
        return status;
    }
    *out = block;
    return LS_OK;
}

ls_status lsi_file_map(const char *path, ls_status why, lsi_mapping *out)
{
    struct stat info;
    ls_status status = LS_OK;
    void *data = NULL;
    int fd = -1;

    LS_TRY(open_for_reading(path, why, &fd, &info));
    if (!S_ISREG(info.st_mode)) {
        status = LS_FAIL(why, "%s: is not a regular file", path);
    } else if (info.st_size > 0) {
        data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) {
            status = LS_FAIL(why, "%s: cannot map %lld bytes: %s", path, (long long)info.st_size, strerror(errno));
        }
    }
    close(fd);
    if (status == LS_OK) {
        *out = (lsi_mapping){data, (size_t)info.st_size};
    }
    return status;
}

void lsi_file_unmap(lsi_mapping *mapping)
{
    if (mapping->size > 0) {
        munmap((void *)(uintptr_t)mapping->data, mapping->size);
    }
    *mapping = (lsi_mapping){0};
}

/* ---- writing ---------------------------------------------------------------------------------------------- */

static ls_status write_and_sync(int fd, const char *path, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        LS_REQUIRE(n >= 0, LS_ERR_OUTPUT, "%s: cannot write %zu bytes: %s", path, size, strerror(errno));
        data += n;
        size -= (size_t)n;
    }
    LS_REQUIRE(fsync(fd) == 0, LS_ERR_OUTPUT, "%s: cannot write to disk: %s", path, strerror(errno));
    return LS_OK;
}

ls_status lsi_file_sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ls_status status = LS_OK;

    /* Some file systems do not sync folders and say EINVAL; they leave us nothing to do. */
    if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL)) {
        status = LS_FAIL(LS_ERR_OUTPUT, "%s: cannot write to disk: %s", folder, strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

static ls_status sync_folder_of(const char *path)
{
    char *folder;

    LS_TRY(lsi_file_folder(path, &folder));
    ls_status status = lsi_file_sync_folder(folder);
    lsi_memory_free(folder);
    return status;
}

static ls_status replace_through(const char *path, const char *beside, const void *data, size_t size)
{
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

    LS_REQUIRE(fd >= 0, LS_ERR_OUTPUT, "%s: cannot create: %s", beside, strerror(errno));
    ls_status status = write_and_sync(fd, beside, data, size);
    if (close(fd) != 0 && status == LS_OK) {
        status = LS_FAIL(LS_ERR_OUTPUT, "%s: cannot write: %s", beside, strerror(errno));
    }
    if (status == LS_OK && rename(beside, path) != 0) {
        status = LS_FAIL(LS_ERR_OUTPUT, "%s: cannot replace: %s", path, strerror(errno));
    }
    if (status != LS_OK) {
        unlink(beside);
        return status;
    }
    return sync_folder_of(path);
}

/* A rename would put a file in the place of a device or pipe, and root may do that to /dev/null. */
static ls_status check_replaceable(const char *path)
{
    struct stat info;

    LS_REQUIRE(stat(path, &info) != 0 || S_ISREG(info.st_mode), LS_ERR_OUTPUT, "%s: cannot replace: %s", path,
               S_ISDIR(info.st_mode) ? strerror(EISDIR) : "not a regular file");
    return LS_OK;
}

ls_status lsi_file_replace(const char *path, const void *data, size_t size)
{
    lsi_text beside = {0};

    LS_TRY(check_replaceable(path));
    char *real = realpath(path, NULL);      /* NULL where there is nothing yet */
    const char *target = real != NULL ? real : path;
    lsi_text_append(&beside, "%s.tmp-%ld", target, (long)getpid());
    ls_status status = lsi_text_status(&beside);
    if (status == LS_OK) {
        status = replace_through(target, beside.data, data, size);
    }
    lsi_text_free(&beside);
    free(real);
    return status;
}

ls_status lsi_file_make_folders(const char *path)
{
    struct stat info;
    char *partial;
    ls_status status = LS_OK;

    LS_TRY(lsi_memory_strdup(path, &partial));
    for (char *p = partial; status == LS_OK && *p != '\0';) {
        p += strspn(p, "/");
        p += strcspn(p, "/");
        char separator = *p;
        *p = '\0';
        if (mkdir(partial, 0777) != 0) {
            int error = errno;
            /* On a read-only file system an existing folder gives EROFS. */
            if (stat(partial, &info) != 0) {
                status = LS_FAIL(LS_ERR_OUTPUT, "%s: cannot create the folder: %s", partial, strerror(error));
            } else if (!S_ISDIR(info.st_mode)) {
                status = LS_FAIL(LS_ERR_OUTPUT, "%s: is not a folder", partial);
            }
        }
        *p = separator;
    }
    lsi_memory_free(partial);
    return status;
}

void lsi_file_hold_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            /* The lowest free number is fd's own. A folder can be neither read nor written. */
            (void)open("/", O_RDONLY | O_DIRECTORY);
        }
    }
}
