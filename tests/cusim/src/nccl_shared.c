#include "nccl_shared.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

bool cusim_nccl_control_make(cusim_nccl_id *out)
{
    int fd = memfd_create("cusim-nccl", MFD_CLOEXEC);
    cusim_nccl_id id = {.pid = getpid(), .fd = fd};

    if (fd < 0) {
        return false;
    }
    if (getrandom(&id.token, sizeof id.token, 0) != (ssize_t)sizeof id.token ||
        ftruncate(fd, sizeof(cusim_nccl_control)) != 0 ||
        pwrite(fd, &id.token, sizeof id.token, 0) != (ssize_t)sizeof id.token) {
        close(fd);
        return false;
    }
    *out = id;
    return true;
}

int cusim_nccl_open_fd(pid_t pid, int fd)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)pid, fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

cusim_nccl_control *cusim_nccl_control_attach(const cusim_nccl_id *id)
{
    int fd = cusim_nccl_open_fd(id->pid, id->fd);
    cusim_nccl_control *control;

    if (fd < 0) {
        return NULL;
    }
    control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (control == MAP_FAILED) {
        return NULL;
    }
    /* Another process may have got the number since. */
    if (control->token != id->token) {
        cusim_nccl_control_detach(control);
        return NULL;
    }
    return control;
}

void cusim_nccl_control_detach(cusim_nccl_control *control)
{
    if (control != NULL) {
        munmap(control, sizeof *control);
    }
}

bool cusim_nccl_segment_make(cusim_nccl_segment *out)
{
    *out = (cusim_nccl_segment){.fd = memfd_create("cusim-nccl-messages", MFD_CLOEXEC)};
    return out->fd >= 0;
}

char *cusim_nccl_segment_reach(cusim_nccl_segment *segment, size_t bytes, bool owner)
{
    size_t wanted = segment->bytes > 0 ? segment->bytes : (size_t)1 << 16;

    if (bytes <= segment->bytes) {
        return segment->base;
    }
    while (wanted < bytes) {
        wanted *= 2;
    }
    if (owner && ftruncate(segment->fd, (off_t)wanted) != 0) {
        cusim_die("NCCL: no memory for a message of %zu bytes: %s", bytes, strerror(errno));
    }
    void *base = segment->bytes == 0 ? mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd, 0)
                                     : mremap(segment->base, segment->bytes, wanted, MREMAP_MAYMOVE);
    if (base == MAP_FAILED) {
        cusim_die("NCCL: no memory for a message of %zu bytes: %s", bytes, strerror(errno));
    }
    segment->base = base;
    segment->bytes = wanted;
    return segment->base;
}

void cusim_nccl_segment_close(cusim_nccl_segment *segment)
{
    if (segment->bytes > 0) {
        munmap(segment->base, segment->bytes);
    }
    if (segment->fd >= 0) {
        close(segment->fd);
    }
    *segment = (cusim_nccl_segment){.fd = -1};
}

bool cusim_nccl_process_ended(pid_t pid, int *pidfd)
{
    if (*pidfd < 0) {
        *pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    }
    if (*pidfd < 0) {
        return kill(pid, 0) != 0 && errno == ESRCH;
    }
    struct pollfd wait = {.fd = *pidfd, .events = POLLIN};
    return poll(&wait, 1, 0) == 1;
}
