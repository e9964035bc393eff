/* Parameters of a graph and their place in the flat parameter index, in declaration order. */
#ifndef LSI_GRAPH_PARAM_H
#define LSI_GRAPH_PARAM_H

#include <lockstep/graph.h>
#include <lockstep/layers.h>

enum {
    LSI_PARAM_ALIGN = 256,          /* parameters start at multiples of this many elements */
    LSI_GROUP_NO_DECAY = 0,         /* fewer than two dimensions */
    LSI_GROUP_DECAY = 1
};

typedef struct lsi_param {
    char *name;
    ls_shape shape;         /* as users see it */
    int64_t count;          /* elements of that shape */
    int64_t padded_count;   /* elements inside; those beyond `count` stay zero (rows are padded at the end) */
    int64_t offset;         /* in the flat index */
    int group;
    ls_init init;
    uint64_t key;           /* hash of the name */
} lsi_param;

typedef struct lsi_param_table {
    int n;
    lsi_param *param;
    int64_t n_elements;     /* length of the flat index, a multiple of LSI_BLOCK */
    int64_t n_counted;      /* parameters as users count them, without padding */
} lsi_param_table;

const lsi_param_table *lsi_graph_params(const ls_graph *graph);
/* Equal where names, shapes and initial values of all parameters are. */
uint64_t lsi_param_identity(const lsi_param_table *table);
/* Index of a parameter, or -1. */
int lsi_param_find(const lsi_param_table *table, const char *name);
/* The parameter that holds element `element` (>= 0) of the flat index, in its padding or in the gap behind it, too. The
 * table is not empty. */
int lsi_param_at(const lsi_param_table *table, int64_t element);
/* Whether the parameter, padding included, has elements among [first, first + count) of the flat index. */
static inline bool lsi_param_reaches(const lsi_param *param, int64_t first, int64_t count)
{
    return param->offset < first + count && first < param->offset + param->padded_count;
}
/* Writes the initial values of elements [first, first + count) of the flat index, padding zero; `first` is a multiple of
 * 4. Element e of a parameter draws word e % 4 (normal: Box-Muller on pairs of words) of philox(key(seed, name), low and
 * high half of e / 4, 0, 1), so that a value depends on seed, name and element alone. Any thread. */
void lsi_param_init(const lsi_param_table *table, uint64_t seed, int64_t first, int64_t count, float *out);
/* Brings `count` elements of the flat index from `first` on to host memory. */
typedef ls_status (*lsi_param_reader)(void *argument, int64_t first, int64_t count, float *host);
/* The weights hash of DESIGN: 32 hex digits. Reads a few MiB at a time: no second copy of the weights is needed. */
LS_MUST_USE ls_status lsi_param_hash(const lsi_param_table *table, lsi_param_reader read, void *argument,
                                     char out[33]);

#endif
