/* What the processes of one simulated NCCL communicator share: a control block that the process of ncclGetUniqueId
 * made, and per rank the messages that others read. All of it is anonymous memory (memfd) that peers open through
 * /proc/PID/fd/N: no name, so nothing is left behind however a process ends. */
#ifndef CUSIM_NCCL_SHARED_H
#define CUSIM_NCCL_SHARED_H

#include <nccl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { CUSIM_NCCL_RANKS = 32, CUSIM_NCCL_RING = 16, CUSIM_NCCL_TEXT = 160 };

typedef enum cusim_nccl_kind {
    CUSIM_NCCL_ALL_REDUCE,
    CUSIM_NCCL_REDUCE,
    CUSIM_NCCL_REDUCE_SCATTER,
    CUSIM_NCCL_ALL_GATHER,
    CUSIM_NCCL_BROADCAST,
    CUSIM_NCCL_SEND,
    CUSIM_NCCL_RECV
} cusim_nccl_kind;

/* What the ranks of a collective, or the two ends of a message, must agree on. */
typedef struct cusim_nccl_call {
    int kind, type, reduction, root; /* root: also the peer of a message */
    size_t count;
} cusim_nccl_call;

/* Messages from one rank to another, in order. */
typedef struct cusim_nccl_channel {
    _Atomic uint64_t posted;   /* by the sender */
    _Atomic uint64_t consumed; /* by the receiver */
    /* How far both are when what they do now is finished; whoever looks for a deadlock compares with `consumed`. */
    _Atomic uint64_t send_goal, recv_goal;
    struct {
        cusim_nccl_call call;
        size_t offset; /* in the sender's message memory */
    } ring[CUSIM_NCCL_RING];
} cusim_nccl_channel;

/* Messages of even collectives, of odd collectives, and from rank to rank. */
enum { CUSIM_NCCL_SEGMENTS = 3, CUSIM_NCCL_MESSAGES = 2 };

typedef enum cusim_nccl_activity {
    CUSIM_NCCL_IDLE,
    CUSIM_NCCL_IN_COLLECTIVE,
    CUSIM_NCCL_IN_MESSAGES
} cusim_nccl_activity;

/* A rank on its way into a communicator. Nobody closes what others may still have to open: all are in, or it failed. */
typedef enum cusim_nccl_presence {
    CUSIM_NCCL_ABSENT,
    CUSIM_NCCL_ARRIVING,
    CUSIM_NCCL_ANNOUNCED, /* the fields up to `gone` are set */
    CUSIM_NCCL_JOINED,    /* has opened what the others announced */
    CUSIM_NCCL_FAILED
} cusim_nccl_presence;

typedef struct cusim_nccl_rank {
    _Atomic int presence; /* cusim_nccl_presence */
    pid_t pid;
    int n_ranks; /* as this rank was told */
    int segment_fds[CUSIM_NCCL_SEGMENTS];
    char host[64], bus[20];
    _Atomic int gone; /* aborted */
    _Atomic int finalized;
    /* Collectives, by their number: posted and finished by this rank; the two last calls. */
    _Atomic uint64_t posted, finished;
    cusim_nccl_call calls[2];
    /* What it does now, for the search for deadlocks; `changes` counts. */
    _Atomic int activity;
    _Atomic uint64_t changes, collective, needs; /* needs: bits of the ranks whose post it awaits */
    char text[CUSIM_NCCL_TEXT];
} cusim_nccl_rank;

typedef struct cusim_nccl_control {
    uint64_t token;        /* of the unique id */
    _Atomic int id_closed; /* by the process that made it, once all have joined */
    cusim_nccl_rank ranks[CUSIM_NCCL_RANKS];
    cusim_nccl_channel channels[CUSIM_NCCL_RANKS][CUSIM_NCCL_RANKS]; /* [from][to] */
} cusim_nccl_control;

/* The 128 bytes of ncclUniqueId. */
typedef struct cusim_nccl_id {
    uint64_t token;
    pid_t pid;
    int fd;
} cusim_nccl_id;

/* All return false (or NULL) where the system refuses. */
bool cusim_nccl_control_make(cusim_nccl_id *out);
cusim_nccl_control *cusim_nccl_control_attach(const cusim_nccl_id *id);
void cusim_nccl_control_detach(cusim_nccl_control *control);
int cusim_nccl_open_fd(pid_t pid, int fd); /* -1: not possible */

/* Message memory of one rank in this process. */
typedef struct cusim_nccl_segment {
    int fd;
    size_t bytes; /* mapped */
    char *base;
} cusim_nccl_segment;

bool cusim_nccl_segment_make(cusim_nccl_segment *out);
/* Maps at least so many bytes; the owner makes the memory as large. Dies where the system refuses. */
char *cusim_nccl_segment_reach(cusim_nccl_segment *segment, size_t bytes, bool owner);
void cusim_nccl_segment_close(cusim_nccl_segment *segment);

/* Has this process ended? `pidfd` is kept by the caller, -1 at first. A zombie has ended. */
bool cusim_nccl_process_ended(pid_t pid, int *pidfd);

#endif
