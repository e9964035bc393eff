/* Words that order the threads of this process: flags, events, edges of recordings. A set releases and a met wait
 * acquires, so what was written before the set is seen after the wait. Waits sleep on a futex and never spin. */
#ifndef LSI_BACKEND_CPU_WORD_H
#define LSI_BACKEND_CPU_WORD_H

#include <stdint.h>

#include "base/tsan.h"

typedef enum lsi_word_test {
    LSI_WORD_EQUAL,         /* the word is the value */
    LSI_WORD_DIFFERENT,     /* the word is anything else */
    LSI_WORD_REACHED        /* it has come as far as the value, wrapping around: of counters */
} lsi_word_test;

typedef enum lsi_word_result { LSI_WORD_MET, LSI_WORD_STOPPED, LSI_WORD_TIMED_OUT } lsi_word_result;

/* When to give up. Zeroed: never. */
typedef struct lsi_word_limit {
    const uint32_t *stop;       /* give up when any of these bits is set; looked at every 50 ms */
    uint32_t stop_bits;
    double seconds;             /* <= 0, or a billion and more: no deadline */
} lsi_word_limit;

void lsi_word_set(uint32_t *word, uint32_t value);
/* A test that holds wins over the limit. `seen` (may be NULL): what the word was at the end. */
lsi_word_result lsi_word_wait(uint32_t *word, lsi_word_test test, uint32_t value, lsi_word_limit limit, uint32_t *seen);

/* A word that counts up: events, edges of recordings, syncs. A wait is for one value, but finds a later one where the
 * setter is ahead, and is then ordered after more than was promised. In ThreadSanitizer's edges mode only the promise
 * counts: there each value has an edge of its own, so that a missing wait is seen however the threads happen to run. */
typedef struct lsi_counter {
    uint32_t reached;
#ifdef LSI_TSAN
    uint64_t edge[8];       /* by value; reused long after its waits */
#endif
} lsi_counter;

void lsi_counter_set(lsi_counter *counter, uint32_t value);
/* Without a limit: counters are set even after a failure or an abort. */
void lsi_counter_wait(lsi_counter *counter, uint32_t value);

#endif
