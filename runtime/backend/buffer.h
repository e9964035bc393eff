/* Device memory counted by class, so that what is allocated can be held against what --dry-run planned. */
#ifndef LSI_BACKEND_BUFFER_H
#define LSI_BACKEND_BUFFER_H

#include <lockstep/backend.h>

/* Rows: name in enums, text for people. */
#define LSI_MEMORY_CLASSES(ROW)         \
    ROW(WEIGHTS, "weights")             \
    ROW(GRADIENTS, "gradients")         \
    ROW(OPTIMIZER, "optimizer state")   \
    ROW(ACTIVATIONS, "activations")     \
    ROW(BATCH, "batch")                 \
    ROW(COMM, "communication staging")  \
    ROW(CONTROL, "step control")        \
    ROW(SNAPSHOT, "checkpoint snapshot") \
    ROW(SCRATCH, "op scratch")

typedef enum lsi_memory_class {
#define ROW(name, text) LSI_MEMORY_##name,
    LSI_MEMORY_CLASSES(ROW)
#undef ROW
    LSI_MEMORY_CLASS_COUNT
} lsi_memory_class;

const char *lsi_memory_class_text(lsi_memory_class c);

/* Live and highest bytes, per class and in all. One per opened device; not shared between threads. */
typedef struct lsi_memory_account {
    size_t live[LSI_MEMORY_CLASS_COUNT], peak[LSI_MEMORY_CLASS_COUNT];
    size_t live_total, peak_total;
    bool poison;            /* fill new memory with NaN */
} lsi_memory_account;

typedef struct lsi_buffer {
    void *data;
    size_t bytes;
    ls_memory kind;
    lsi_memory_class c;
} lsi_buffer;

/* Out of memory names class, size, and what is free. Contents are undefined (poisoned where asked for). */
LS_MUST_USE ls_status lsi_buffer_alloc(ls_device *device, lsi_memory_account *account, ls_memory kind,
                                       lsi_memory_class c, size_t bytes, lsi_buffer *out);
/* Makes the buffer at least this large; its contents are lost when it grows. */
LS_MUST_USE ls_status lsi_buffer_grow(ls_device *device, lsi_memory_account *account, ls_memory kind,
                                      lsi_memory_class c, size_t bytes, lsi_buffer *buffer);
/* Accepts an empty buffer and empties it. */
void lsi_buffer_release(ls_device *device, lsi_memory_account *account, lsi_buffer *buffer);
/* The failure of an allocation that gave ERR_MEMORY, being this thread's record: with class, size and what is free. */
ls_status lsi_buffer_refused(ls_device *device, const lsi_memory_account *account, lsi_memory_class c, size_t bytes);
/* A stream whose scratch memory is counted. */
LS_MUST_USE ls_status lsi_buffer_stream_create(ls_device *device, lsi_memory_account *account, const char *name,
                                               int priority, ls_stream **out);
/* Accepts NULL. */
void lsi_buffer_stream_destroy(lsi_memory_account *account, ls_stream *stream);
/* For memory that a transport allocates: counts it. */
void lsi_memory_account_add(lsi_memory_account *account, lsi_memory_class c, size_t bytes);
void lsi_memory_account_remove(lsi_memory_account *account, lsi_memory_class c, size_t bytes);

#endif
