#include "device/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/proc.h"
#include "device/lease_file.h"

static const mode_t for_all = 0666;

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

lsi_priority lsi_lease_priority(const char *name)
{
    return strcmp(name, "high") == 0  ? LSI_PRIORITY_HIGH
           : strcmp(name, "low") == 0 ? LSI_PRIORITY_LOW
                                      : LSI_PRIORITY_NORMAL;
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

/* As /tmp is: everyone makes files, nobody removes another's. */
static ls_status make_folder(const char *folder)
{
    struct stat status;

    if (mkdir(folder, 01777) == 0) {
        (void)chmod(folder, 01777); /* whatever the umask took away */
    } else if (errno != EEXIST) {
        return LS_FAIL(LS_ERR_DEVICE,
                       "cannot make %s, where jobs note which GPUs they have: %s; device.leases names "
                       "another folder, empty: none",
                       folder, strerror(errno));
    }
    LS_REQUIRE(lstat(folder, &status) == 0 && S_ISDIR(status.st_mode), LS_ERR_DEVICE,
               "%s, where jobs note which GPUs they have, is no folder; device.leases names another one", folder);
    return LS_OK;
}

ls_status lsi_lease_open(const char *folder, const char *what, lsi_leases **out)
{
    lsi_leases *leases;
    char path[LSI_LEASE_PATH];

    LS_TRY(make_folder(folder));
    LS_TRY(lsi_memory_alloc(sizeof *leases, "leases", (void **)&leases));
    leases->what = what;
    leases->lock_fd = leases->claim_fd = -1;
    ls_status status = lsi_memory_strdup(folder, &leases->folder);
    if (status == LS_OK) {
        status = lsi_lease_path(leases, "decide.lock", path);
    }
    if (status == LS_OK) {
        status = lsi_lease_file_open(path, &leases->lock_fd);
    }
    if (status != LS_OK) {
        lsi_lease_close(&leases);
        return status;
    }
    *out = leases;
    return LS_OK;
}

void lsi_lease_folder_id(const lsi_leases *leases, unsigned char out[16])
{
    struct {
        char boot[LSI_PROC_BOOT_ID];
        uint64_t device, inode;
    } id;
    struct stat status;

    memset(&id, 0, sizeof id);
    lsi_proc_boot_id(id.boot);
    if (fstat(leases->lock_fd, &status) == 0) {
        id.device = (uint64_t)status.st_dev;
        id.inode = (uint64_t)status.st_ino;
    }
    lsi_hash128(&id, sizeof id, out);
}

void lsi_lease_close(lsi_leases **leases)
{
    lsi_leases *old = *leases;

    if (old != NULL) {
        lsi_lease_unclaim(old);
        lsi_lease_release(old);
        close_fd(&old->lock_fd);
        lsi_memory_free(old->folder);
        lsi_memory_free(old);
        *leases = NULL;
    }
}

/* ---- files --------------------------------------------------------------------------------------------------------
 */

ls_status lsi_lease_path(const lsi_leases *leases, const char *name, char out[LSI_LEASE_PATH])
{
    int n = snprintf(out, LSI_LEASE_PATH, "%s/%s", leases->folder, name);

    LS_REQUIRE(n > 0 && n < LSI_LEASE_PATH, LS_ERR_DEVICE, "device.leases = '%.60s...': the path is too long",
               leases->folder);
    return LS_OK;
}

/* A lock needs no right to write. In a folder as /tmp is, systems refuse O_CREAT on a file that another user has made.
 */
ls_status lsi_lease_file_open(const char *path, int *out)
{
    for (int attempt = 0; attempt < 3; attempt++) {
        int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

        if (fd < 0 && errno == EACCES) {
            fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        }
        if (fd < 0 && errno == ENOENT) {
            fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, for_all);
            if (fd >= 0) {
                (void)fchmod(fd, for_all);
            } else if (errno == EEXIST) {
                continue; /* another job was faster */
            }
        }
        if (fd >= 0) {
            *out = fd;
            return LS_OK;
        }
        break;
    }
    return LS_FAIL(LS_ERR_DEVICE,
                   "cannot open %s, where jobs note which GPUs they have: %s; device.leases names another "
                   "folder, empty: none",
                   path, strerror(errno));
}

void lsi_lease_holder_write(int fd, const char *what, const char *rest)
{
    char text[LSI_LEASE_TEXT], user[LSI_GPU_USER];
    struct passwd entry, *found = NULL;
    char memory[1024];

    if (getpwuid_r(getuid(), &entry, memory, sizeof memory, &found) == 0 && found != NULL) {
        snprintf(user, sizeof user, "%s", entry.pw_name);
    } else {
        snprintf(user, sizeof user, "uid %u", (unsigned)getuid());
    }
    int n = snprintf(text, sizeof text, "%ld\n%s\n%.60s\n%s", (long)getpid(), user, what, rest);
    n = n < (int)sizeof text ? n : (int)sizeof text - 1;
    /* For people alone: a lease without it is one all the same. */
    if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) != n) {
        (void)ftruncate(fd, 0);
    }
}

static void take_line(const char **text, char *out, size_t room)
{
    size_t n = strcspn(*text, "\n");

    snprintf(out, room, "%.*s", (int)n, *text);
    *text += n + ((*text)[n] == '\n');
}

const char *lsi_lease_holder_read(int fd, char text[LSI_LEASE_TEXT], lsi_lease_holder *out)
{
    ssize_t n = pread(fd, text, LSI_LEASE_TEXT - 1, 0);
    const char *at = text;
    char pid[24];
    long long value;

    *out = (lsi_lease_holder){0};
    text[n > 0 ? n : 0] = '\0';
    take_line(&at, pid, sizeof pid);
    out->pid = sscanf(pid, "%lld", &value) == 1 && value > 0 ? (int64_t)value : 0;
    take_line(&at, out->user, sizeof out->user);
    take_line(&at, out->what, sizeof out->what);
    return at;
}

/* ---- one decides at a time ----------------------------------------------------------------------------------------
 */

ls_status lsi_lease_lock(lsi_leases *leases, double seconds)
{
    double end = lsi_clock_seconds() + seconds;
    char text[LSI_LEASE_TEXT];
    lsi_lease_holder holder;

    while (flock(leases->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        LS_REQUIRE(errno == EWOULDBLOCK || errno == EINTR, LS_ERR_DEVICE, "cannot lock %s/decide.lock: %s",
                   leases->folder, strerror(errno));
        if (lsi_clock_seconds() > end) {
            (void)lsi_lease_holder_read(leases->lock_fd, text, &holder);
            return LS_FAIL(LS_ERR_TIMEOUT,
                           "process %lld of %s (%s) has been choosing GPUs for more than %.0f s and keeps "
                           "%s/decide.lock; if it hangs, end it",
                           (long long)holder.pid, holder.user, holder.what, seconds, leases->folder);
        }
        usleep(10000);
    }
    lsi_lease_holder_write(leases->lock_fd, leases->what, "");
    return LS_OK;
}

void lsi_lease_unlock(lsi_leases *leases)
{
    (void)flock(leases->lock_fd, LOCK_UN);
}

/* ---- leases --------------------------------------------------------------------------------------------------------
 */

static bool has(const lsi_leases *leases, const char *uuid)
{
    for (int i = 0; i < leases->n_held; i++) {
        if (strcmp(leases->held[i].uuid, uuid) == 0) {
            return true;
        }
    }
    return false;
}

static ls_status open_lease(const lsi_leases *leases, const char *uuid, int *out)
{
    char name[LSI_GPU_UUID + 8], path[LSI_LEASE_PATH];

    LS_REQUIRE(uuid[0] != '\0' && strchr(uuid, '/') == NULL, LS_ERR_INTERNAL, "'%s' is no UUID to lease", uuid);
    snprintf(name, sizeof name, "%s.lease", uuid);
    LS_TRY(lsi_lease_path(leases, name, path));
    return lsi_lease_file_open(path, out);
}

ls_status lsi_lease_is_free(lsi_leases *leases, const char *uuid, bool shared, bool *out, lsi_lease_holder *holder)
{
    char text[LSI_LEASE_TEXT];
    int fd = -1;

    *holder = (lsi_lease_holder){0};
    *out = has(leases, uuid);
    if (*out) {
        return LS_OK;
    }
    LS_TRY(open_lease(leases, uuid, &fd));
    *out = flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0;
    if (!*out) {
        (void)lsi_lease_holder_read(fd, text, holder);
    }
    close(fd); /* and the lock with it */
    return LS_OK;
}

ls_status lsi_lease_take(lsi_leases *leases, const char *uuid, bool shared)
{
    char text[LSI_LEASE_TEXT];
    lsi_lease_holder holder;
    int fd = -1;

    if (has(leases, uuid)) {
        return LS_OK;
    }
    LS_REQUIRE(leases->n_held < LSI_GPU_MAX, LS_ERR_INTERNAL, "more than %d leases", LSI_GPU_MAX);
    LS_TRY(open_lease(leases, uuid, &fd));
    if (flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
        (void)lsi_lease_holder_read(fd, text, &holder);
        close(fd);
        return LS_FAIL(LS_ERR_DEVICE,
                       "GPU %s was just taken by process %lld of %s (%s), which does not ask the folder "
                       "%s first",
                       uuid, (long long)holder.pid, holder.user, holder.what, leases->folder);
    }
    lsi_lease_holder_write(fd, leases->what, "");
    snprintf(leases->held[leases->n_held].uuid, LSI_GPU_UUID, "%s", uuid);
    leases->held[leases->n_held++].fd = fd;
    return LS_OK;
}

void lsi_lease_release(lsi_leases *leases)
{
    for (int i = 0; i < leases->n_held; i++) {
        close(leases->held[i].fd);
    }
    leases->n_held = 0;
}
