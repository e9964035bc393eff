/* Named, nested stretches of the time in which a host thread queues work, for profilers that show them beside the GPU's
 * work (NVTX: Nsight Systems and others). Without a profiler, and in builds without NVTX's header, `ranges` is NULL and
 * nothing is made of a name. */
#ifndef LSI_BACKEND_RANGES_H
#define LSI_BACKEND_RANGES_H

typedef struct lsi_ranges lsi_ranges;

/* NULL: nobody listens. */
lsi_ranges *lsi_ranges_open(void);
void lsi_ranges_close(lsi_ranges *ranges);
/* Of the calling thread. Every push has its pop, also where what lies between fails. */
void lsi_ranges_push(lsi_ranges *ranges, const char *format, ...) __attribute__((format(printf, 2, 3)));
void lsi_ranges_pop(lsi_ranges *ranges);

#endif
