/* Commands of a stream, and the bounded queue between the host thread that gives them and the stream's thread. */
#ifndef LSI_BACKEND_CPU_QUEUE_H
#define LSI_BACKEND_CPU_QUEUE_H

#include "backend/cpu/word.h"
#include <lockstep/backend.h>
#include <pthread.h>
#include <stdalign.h>

struct lsi_cpu_lane;

typedef enum lsi_cpu_command_kind {
    LSI_CPU_COMMAND_OP,             /* its arguments stand behind the command */
    LSI_CPU_COMMAND_COPY,
    LSI_CPU_COMMAND_FILL,           /* value: the byte */
    LSI_CPU_COMMAND_FLAG_SET,
    LSI_CPU_COMMAND_FLAG_WAIT,
    LSI_CPU_COMMAND_COUNTER_SET,    /* of events and syncs */
    LSI_CPU_COMMAND_COUNTER_WAIT,
    LSI_CPU_COMMAND_EDGE_SET,       /* value: number of the edge in the recording */
    LSI_CPU_COMMAND_EDGE_WAIT,
    LSI_CPU_COMMAND_STAMP,          /* value: the id */
    LSI_CPU_COMMAND_LANE,           /* a recording's commands for this stream; value: number of the launch */
    LSI_CPU_COMMAND_SKIP,           /* fills the end of the ring where the next command does not fit */
    LSI_CPU_COMMAND_STOP
} lsi_cpu_command_kind;

typedef struct lsi_cpu_command {
    alignas(16) lsi_cpu_command_kind kind;
    uint32_t bytes;             /* of the command and what stands behind it; set when it is stored */
    uint32_t value;
    union {
        const ls_op *op;
        uint32_t *word;
        lsi_counter *counter;
        const struct lsi_cpu_lane *lane;
        struct {
            void *destination;
            const void *source;
            size_t bytes;
        } copy;                 /* fills have no source */
    } of;
} lsi_cpu_command;

/* Room that the command takes with `extra` bytes behind it. */
size_t lsi_cpu_command_room(size_t extra);
/* Stores it there. */
void lsi_cpu_command_store(void *room, const lsi_cpu_command *command, const void *extra, size_t extra_bytes);
static inline const void *lsi_cpu_command_extra(const lsi_cpu_command *command)
{
    return command + 1;
}

typedef struct lsi_queue {
    pthread_mutex_t mutex;
    pthread_cond_t not_empty, not_full;
    size_t taken, given;        /* bytes since the start */
    size_t running;             /* bytes of the command that the taker holds */
    bool taker_sleeps, giver_sleeps;
    unsigned char *ring;
} lsi_queue;

LS_MUST_USE ls_status lsi_queue_open(lsi_queue *queue);
void lsi_queue_close(lsi_queue *queue);
/* Copies the command; sleeps while the ring is full. */
void lsi_queue_give(lsi_queue *queue, const lsi_cpu_command *command, const void *extra, size_t extra_bytes);
/* Gives up the command taken before and sleeps until there is another one, which stays in the ring while it runs. */
const lsi_cpu_command *lsi_queue_take(lsi_queue *queue);

#endif
