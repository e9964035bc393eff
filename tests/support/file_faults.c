/* A library for LD_PRELOAD that makes one file operation go wrong: the k-th of a process that changes something in a
 * folder. Python tests set what it reads:
 *
 *     FILE_FAULTS_FOLDER   absolute; operations on paths in it count, from 1
 *     FILE_FAULTS_RANK     the rank that it happens to (0)
 *     FILE_FAULTS_AT       the first operation that goes wrong; absent or 0: none
 *     FILE_FAULTS_TO       the last one (the first)
 *     FILE_FAULTS_HOW      kill: the process dies before it; torn: half of a write is done, then the process dies;
 *                          enospc, eio: it fails; short: half of a write is done, the next operation fails with ENOSPC
 *     FILE_FAULTS_ONLY     only operations of this name count
 *     FILE_FAULTS_LOG      file outside the folder: one line for each operation, number, name, path
 *
 * Descriptors are looked up in /proc, so that nothing has to be remembered. What libc does inside itself is not seen.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* dlsym gives data pointers; POSIX lets them be called. */
#define REAL(name) (*(__typeof__(&(name)) *)(void *)&(void *){dlsym(RTLD_NEXT, #name)})

typedef enum verdict { GOES_ON, FAILS, HALF, HALF_THEN_DIES } verdict;

static atomic_int n_operations;

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text != NULL && text[0] != '\0' ? atoi(text) : otherwise;
}

static bool is_inside(const char *path)
{
    const char *folder = getenv("FILE_FAULTS_FOLDER"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    size_t length = folder != NULL ? strlen(folder) : 0;

    return length > 0 && strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0') &&
           number("FILE_FAULTS_RANK", 0) == (rank != NULL ? atoi(rank) : 0);
}

static void note(int k, const char *name, const char *path)
{
    const char *log = getenv("FILE_FAULTS_LOG");
    char line[PATH_MAX + 64];
    int fd =
        log != NULL ? (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;

    if (fd >= 0) {
        int length = snprintf(line, sizeof line, "%d %s %s\n", k, name, path);
        (void)!syscall(SYS_write, fd, line, (size_t)length);
        syscall(SYS_close, fd);
    }
}

static void die(void)
{
    syscall(SYS_kill, getpid(), SIGKILL);
}

/* Counts an operation and says what becomes of it; errno is set where it fails. */
static verdict judge(const char *name, const char *path)
{
    const char *only = getenv("FILE_FAULTS_ONLY"), *how = getenv("FILE_FAULTS_HOW");
    int first = number("FILE_FAULTS_AT", 0), last = number("FILE_FAULTS_TO", first);
    bool writes = strstr(name, "write") != NULL;

    if (!is_inside(path) || (only != NULL && strcmp(only, name) != 0)) {
        return GOES_ON;
    }
    int k = atomic_fetch_add(&n_operations, 1) + 1;
    note(k, name, path);
    if (how != NULL && strcmp(how, "short") == 0) {
        errno = ENOSPC;
        return k == first && writes ? HALF : first > 0 && k == first + 1 ? FAILS : GOES_ON;
    }
    if (first == 0 || k < first || k > last || how == NULL) {
        return GOES_ON;
    }
    if (strcmp(how, "torn") == 0 && writes) {
        return HALF_THEN_DIES;
    }
    if (strcmp(how, "kill") == 0 || strcmp(how, "torn") == 0) {
        die();
    }
    errno = strcmp(how, "eio") == 0 ? EIO : ENOSPC;
    return FAILS;
}

/* ---- by path --------------------------------------------------------------------------------------------------- */

static void folder_of(int fd, char *out, size_t size)
{
    char link[64];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long n = syscall(SYS_readlinkat, AT_FDCWD, link, out, size - 1);
    out[n > 0 ? n : 0] = '\0';
}

static verdict judge_at(const char *name, int folder, const char *path)
{
    char full[2 * PATH_MAX];

    if (folder == AT_FDCWD || path[0] == '/') {
        return judge(name, path);
    }
    folder_of(folder, full, PATH_MAX);
    snprintf(full + strlen(full), PATH_MAX, "/%s", path);
    return judge(name, full);
}

static int open_judged(int folder, const char *path, int flags, mode_t mode)
{
    if ((flags & O_CREAT) != 0 && judge_at("open", folder, path) == FAILS) {
        return -1;
    }
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

#define MODE_OF(flags, mode)                                                                                           \
    do {                                                                                                               \
        va_list list;                                                                                                  \
        va_start(list, flags);                                                                                         \
        (mode) = ((flags) & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;                                    \
        va_end(list);                                                                                                  \
    } while (0)

int open(const char *path, int flags, ...)
{
    mode_t mode;
    MODE_OF(flags, mode);
    return open_judged(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    mode_t mode;
    MODE_OF(flags, mode);
    return open_judged(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    mode_t mode;
    MODE_OF(flags, mode);
    return open_judged(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...)
{
    mode_t mode;
    MODE_OF(flags, mode);
    return open_judged(folder, path, flags, mode);
}

int rename(const char *from, const char *to)
{
    return judge("rename", from) == FAILS ? -1 : REAL(rename)(from, to);
}

int unlink(const char *path)
{
    return judge("unlink", path) == FAILS ? -1 : REAL(unlink)(path);
}

int unlinkat(int folder, const char *path, int flags)
{
    return judge_at("unlinkat", folder, path) == FAILS ? -1 : REAL(unlinkat)(folder, path, flags);
}

int mkdir(const char *path, mode_t mode)
{
    return judge("mkdir", path) == FAILS ? -1 : REAL(mkdir)(path, mode);
}

int rmdir(const char *path)
{
    return judge("rmdir", path) == FAILS ? -1 : REAL(rmdir)(path);
}

int symlink(const char *target, const char *path)
{
    return judge("symlink", path) == FAILS ? -1 : REAL(symlink)(target, path);
}

/* ---- by descriptor ----------------------------------------------------------------------------------------------- */

static verdict judge_fd(const char *name, int fd)
{
    char path[PATH_MAX];
    int error = errno;

    folder_of(fd, path, sizeof path);
    errno = error;
    return judge(name, path);
}

/* How many of `size` bytes are written now; the process dies afterwards where `*dies`. -1: none. */
static ssize_t share_of_write(const char *name, int fd, size_t size, bool *dies)
{
    verdict v = judge_fd(name, fd);

    *dies = v == HALF_THEN_DIES;
    return v == FAILS ? -1 : (ssize_t)(v == GOES_ON ? size : (size + 1) / 2);
}

ssize_t write(int fd, const void *data, size_t size)
{
    bool dies;
    ssize_t n = share_of_write("write", fd, size, &dies);

    n = n < 0 ? n : REAL(write)(fd, data, (size_t)n);
    if (dies) {
        die();
    }
    return n;
}

static ssize_t write_at(int fd, const void *data, size_t size, off_t at)
{
    bool dies;
    ssize_t n = share_of_write("pwrite", fd, size, &dies);

    n = n < 0 ? n : (ssize_t)syscall(SYS_pwrite64, fd, data, (size_t)n, at);
    if (dies) {
        die();
    }
    return n;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    return write_at(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    return write_at(fd, data, size, at);
}

int fsync(int fd)
{
    return judge_fd("fsync", fd) == FAILS ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
    return judge_fd("fdatasync", fd) == FAILS ? -1 : REAL(fdatasync)(fd);
}

int ftruncate(int fd, off_t size)
{
    return judge_fd("ftruncate", fd) == FAILS ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

int ftruncate64(int fd, off64_t size)
{
    return judge_fd("ftruncate", fd) == FAILS ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

/* A failing close has closed all the same. Closing what was only read changes nothing and does not count. */
int close(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    bool counts = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
    verdict v = counts ? judge_fd("close", fd) : GOES_ON;
    int error = errno, result = (int)syscall(SYS_close, fd);

    if (v == FAILS) {
        errno = error;
        return -1;
    }
    return result;
}
