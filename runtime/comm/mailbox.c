#include "comm/mailbox.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

typedef struct letter {
    int32_t rank;                       /* of the sender */
    unsigned char key[LSI_MAILBOX_KEY];    /* likewise */
} letter;

ls_status lsi_mailbox_open(const lsi_job *job, lsi_mailbox *out)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t length = sizeof name.sun_family;    /* no name: the kernel finds one that is free */
    const size_t before_name = offsetof(struct sockaddr_un, sun_path);
    const int on = 1;
    void *memory;

    *out = (lsi_mailbox){.socket = -1};
    LS_TRY(lsi_memory_alloc((size_t)job->world * sizeof *out->address, "addresses", &memory));
    out->address = memory;
    out->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    LS_REQUIRE(out->socket >= 0, LS_ERR_COMM, "cannot make a UNIX socket: %s", strerror(errno));
    LS_REQUIRE(setsockopt(out->socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
                   bind(out->socket, (struct sockaddr *)&name, length) == 0,
               LS_ERR_COMM, "cannot bind a UNIX socket: %s", strerror(errno));
    length = sizeof name;
    LS_REQUIRE(getsockname(out->socket, (struct sockaddr *)&name, &length) == 0, LS_ERR_COMM,
               "cannot tell a UNIX socket's name: %s", strerror(errno));
    LS_REQUIRE(length > before_name && length <= before_name + LSI_MAILBOX_NAME, LS_ERR_COMM,
               "the name of a UNIX socket has %zu bytes", (size_t)length - before_name);
    lsi_mailbox_address *mine = &out->address[job->rank];
    mine->length = (int32_t)(length - before_name);
    memcpy(mine->name, name.sun_path, (size_t)mine->length);
    LS_REQUIRE(getrandom(mine->key, sizeof mine->key, 0) == (ssize_t)sizeof mine->key, LS_ERR_COMM,
               "no random numbers: %s", strerror(errno));
    return LS_OK;
}

void lsi_mailbox_close(lsi_mailbox *mailbox)
{
    if (mailbox->socket >= 0) {
        close(mailbox->socket);
    }
    lsi_memory_free(mailbox->address);
    *mailbox = (lsi_mailbox){.socket = -1};
}

/* *sent: false when the receiver has no room now. */
static ls_status send_to(const lsi_mailbox *mailbox, int from, int to, int descriptor, bool *sent)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    const lsi_mailbox_address *address = &mailbox->address[to];
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    letter text = {.rank = from};
    struct iovec piece = {&text, sizeof text};
    struct msghdr message = {
        .msg_name = &name,
        .msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)address->length),
        .msg_iov = &piece,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control,
    };

    memcpy(name.sun_path, address->name, (size_t)address->length);
    memcpy(text.key, mailbox->address[from].key, sizeof text.key);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    *sent = sendmsg(mailbox->socket, &message, MSG_NOSIGNAL) == (ssize_t)sizeof text;
    LS_REQUIRE(*sent || errno == EAGAIN || errno == ENOBUFS || errno == EINTR, LS_ERR_COMM,
               "cannot reach rank %d by a UNIX socket: %s", to, strerror(errno));
    return LS_OK;
}

/* One letter with its descriptor; *rank -1 when there is none, or from somebody who is not of this job. */
static ls_status receive(const lsi_mailbox *mailbox, int world, int *rank, int *descriptor)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
    } control;
    letter text;
    struct iovec piece = {&text, sizeof text};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct ucred sender = {.uid = (uid_t)-1};
    int found = -1;

    *rank = -1;
    ssize_t bytes = recvmsg(mailbox->socket, &message, MSG_CMSG_CLOEXEC);
    LS_REQUIRE(bytes >= 0 || errno == EAGAIN || errno == EINTR, LS_ERR_COMM, "a UNIX socket does not receive: %s",
               strerror(errno));
    if (bytes < 0) {
        return LS_OK;
    }
    for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head != NULL; head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
            memcpy(&found, CMSG_DATA(head), sizeof found);
        } else if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_CREDENTIALS) {
            memcpy(&sender, CMSG_DATA(head), sizeof sender);
        }
    }
    bool known = bytes == (ssize_t)sizeof text && found >= 0 && sender.uid == geteuid() && text.rank >= 0 &&
                 text.rank < world && memcmp(text.key, mailbox->address[text.rank].key, sizeof text.key) == 0;
    if (!known) {
        if (found >= 0) {
            close(found);
        }
        return LS_OK;
    }
    *rank = text.rank;
    *descriptor = found;
    return LS_OK;
}

static int index_of(const int *rank, int n, int wanted)
{
    int i = 0;

    while (i < n && rank[i] != wanted) {
        i++;
    }
    return i;
}

ls_status lsi_mailbox_swap(lsi_mailbox *mailbox, lsi_job *job, const int *rank, int n, int self, double timeout_seconds,
                           int *file)
{
    lsi_mailbox_address here = mailbox->address[job->rank];
    double deadline = lsi_clock_seconds() + timeout_seconds;
    int n_taken = 0, next = 0;

    LS_TRY(lsi_job_all_gather(job, &here, sizeof here, mailbox->address));
    while (next < n || n_taken < n - 1) {
        bool sent = next == self;
        int from, descriptor;

        if (next < n && !sent) {
            LS_TRY(send_to(mailbox, job->rank, rank[next], file[self], &sent));
        }
        next += sent;
        LS_TRY(receive(mailbox, job->world, &from, &descriptor));
        int i = index_of(rank, n, from);
        if (from >= 0 && (i == n || file[i] >= 0)) {
            close(descriptor);
        } else if (from >= 0) {
            file[i] = descriptor;
            n_taken++;
        } else if (!sent) {
            struct pollfd arrives = {.fd = mailbox->socket, .events = POLLIN};
            const int look_again_ms = 2; /* nothing tells when a receiver has room again */

            poll(&arrives, 1, look_again_ms);
            LS_REQUIRE(lsi_clock_seconds() < deadline, LS_ERR_COMM,
                       "%d of the %d other ranks of this node have not sent their memory within %.3g s",
                       n - 1 - n_taken, n - 1, timeout_seconds);
        }
    }
    return LS_OK;
}
