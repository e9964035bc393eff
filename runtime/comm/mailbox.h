/* File descriptors from each rank of a node to all others of it, over UNIX sockets without a name in any file system:
 * the kernel forgets them with the process, however it ends. */
#ifndef LSI_COMM_MAILBOX_H
#define LSI_COMM_MAILBOX_H

#include "job/job.h"

enum { LSI_MAILBOX_NAME = 16, LSI_MAILBOX_KEY = 16 };

/* Where a rank receives, and what it says to be known by. */
typedef struct lsi_mailbox_address {
    int32_t length;             /* of the name, which the kernel chose */
    char name[LSI_MAILBOX_NAME];
    unsigned char key[LSI_MAILBOX_KEY];    /* random */
} lsi_mailbox_address;

typedef struct lsi_mailbox {
    int socket;
    lsi_mailbox_address *address;    /* of every rank of the job */
} lsi_mailbox;

/* Not collective. */
LS_MUST_USE ls_status lsi_mailbox_open(const lsi_job *job, lsi_mailbox *out);
/* Accepts what an open that failed has left. */
void lsi_mailbox_close(lsi_mailbox *mailbox);
/* Collective. file[self] goes to the n - 1 other ranks of this node (rank[]: all n, ascending), and file[i] becomes a
 * descriptor of what rank[i] has given: the caller's to close, also after a failure. The others are -1 before. */
LS_MUST_USE ls_status lsi_mailbox_swap(lsi_mailbox *mailbox, lsi_job *job, const int *rank, int n, int self,
                                       double timeout_seconds, int *file);

#endif
