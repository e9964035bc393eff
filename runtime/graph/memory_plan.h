/* Places for buffers with known lifetimes in one block of memory. */
#ifndef LSI_GRAPH_MEMORY_PLAN_H
#define LSI_GRAPH_MEMORY_PLAN_H

#include <lockstep/status.h>
#include <stddef.h>

enum { LSI_MEMORY_ALIGN = 256 };

/* Two requests may share bytes unless their times [begin, end], both inclusive, meet. */
typedef struct lsi_memory_request {
    size_t bytes;
    int begin, end;
    size_t offset;      /* the answer, a multiple of LSI_MEMORY_ALIGN */
} lsi_memory_request;

typedef struct lsi_memory_size {
    size_t bytes;       /* of the block */
    size_t sum;         /* if nothing were shared */
    size_t bound;       /* live at the fullest time: no plan can be smaller */
} lsi_memory_size;

/* Deterministic: the same requests get the same places. */
LS_MUST_USE ls_status lsi_memory_plan(lsi_memory_request *request, int n, lsi_memory_size *out);

#endif
