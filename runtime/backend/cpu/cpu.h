/* What the files of the cpu backend share. */
#ifndef LSI_BACKEND_CPU_CPU_H
#define LSI_BACKEND_CPU_CPU_H

#include "base/pool.h"
#include <lockstep/backend.h>

/* What an op gets: the pool, the priority of the stream it runs on, and the kernel variant (backend/cpu/isa.h). Op
 * tests and benchmarks make one themselves. */
struct ls_cpu_run {
    lsi_pool *pool;
    int priority;
    int isa;
};

#endif
