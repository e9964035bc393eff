/* Counted memory of the host: zeroed, 64-byte aligned. The count must be back at 0 when the runtime has closed. */
#ifndef LSI_BASE_MEMORY_H
#define LSI_BASE_MEMORY_H

#include <lockstep/status.h>
#include <stddef.h>

/* `what` names the purpose in the out-of-memory message. bytes 0 gives a valid pointer. */
LS_MUST_USE ls_status lsi_memory_alloc(size_t bytes, const char *what, void **out);
/* Makes *pointer (NULL: nothing yet) a block of `bytes` with the old contents at its front, the rest zeroed. On failure
 * the old block stays. */
LS_MUST_USE ls_status lsi_memory_resize(void **pointer, size_t bytes, const char *what);
/* Accepts NULL. */
void lsi_memory_free(void *pointer);
/* A counted copy of a string. */
LS_MUST_USE ls_status lsi_memory_strdup(const char *text, char **out);

/* Live blocks and bytes. */
size_t lsi_memory_live_blocks(void);
size_t lsi_memory_live_bytes(void);
/* Test hook: the k-th allocation from now on (1: the next) fails, once; 0: none. */
void lsi_memory_fail_at(long k);

#endif
