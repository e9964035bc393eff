/* A library for LD_PRELOAD that denies a process what shared memory needs, as sandboxes do. Python tests set
 *
 *     DENIED        memfd_create, bind (of UNIX sockets for datagrams), or mmap (of a file of a gigabyte and more)
 *     DENIED_RANK   the rank that it happens to
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

/* dlsym gives data pointers; POSIX lets them be called. */
#define REAL(name) (*(__typeof__(&(name)) *)(void *)&(void *){dlsym(RTLD_NEXT, #name)})

static bool is_denied(const char *what)
{
    const char *denied = getenv("DENIED"), *victim = getenv("DENIED_RANK"), *rank = getenv("OMPI_COMM_WORLD_RANK");

    return denied != NULL && victim != NULL && rank != NULL && strcmp(denied, what) == 0 && strcmp(victim, rank) == 0;
}

int memfd_create(const char *name, unsigned flags)
{
    if (is_denied("memfd_create")) {
        errno = EPERM;
        return -1;
    }
    return REAL(memfd_create)(name, flags);
}

int bind(int socket, __CONST_SOCKADDR_ARG address, socklen_t length)
{
    int type = 0;
    socklen_t type_length = sizeof type;

    getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &type_length);
    if (is_denied("bind") && address.__sockaddr__->sa_family == AF_UNIX && type == SOCK_DGRAM) {
        errno = EACCES;
        return -1;
    }
    return REAL(bind)(socket, address, length);
}

void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    if (is_denied("mmap") && file >= 0 && length >= (size_t)1 << 30) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return REAL(mmap)(address, length, protection, flags, file, offset);
}
