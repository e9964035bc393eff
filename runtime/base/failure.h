/* The thread's failure record: the message of its last LS_FAIL, and how to hand it to another thread. */
#ifndef LSI_BASE_FAILURE_H
#define LSI_BASE_FAILURE_H

#include <lockstep/status.h>

enum { LSI_FAILURE_MAX = 1024 };

typedef struct lsi_failure {
    ls_status status;
    int line;
    const char *file;               /* string literal */
    char message[LSI_FAILURE_MAX];  /* cut at a character when longer */
} lsi_failure;

/* Copies this thread's record; status LS_OK when it has none. */
void lsi_failure_take(lsi_failure *out);
/* Makes `failure` this thread's record and returns its status. */
ls_status lsi_failure_adopt(const lsi_failure *failure);

#endif
