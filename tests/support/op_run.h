/* How op_case executes an op: by the cpu kernels of every ISA level, or with LOCKSTEP_TEST_BACKEND=cuda on a GPU. */
#ifndef LS_TESTS_SUPPORT_OP_RUN_H
#define LS_TESTS_SUPPORT_OP_RUN_H

#include <lockstep/backend.h>

enum { OP_RUN_LEVELS_MAX = 4 };

/* Memory of a view, guard bands included, on the host: the op's views point into it. */
typedef struct op_run_memory {
    unsigned char *memory;
    size_t bytes;
} op_run_memory;

/* Ways of running that may differ in bits, or that have to agree with each other: 0 .. op_run_levels() - 1. */
int op_run_levels(void);
const char *op_run_level_name(int level);
/* Numbers of threads that are worth a run of their own: 1 .. */
int op_run_max_threads(void);
/* Whether a NaN may have any bits: processors keep sign and payload through a conversion, GPUs do not. */
bool op_run_any_nan(void);

/* Before the first op_run of a level and number of threads, and after the last. */
void op_run_begin(int level, int n_threads);
void op_run_end(void);
/* Executes the op and waits for it. What it writes is in `memories` afterwards, and in the step state that the arguments
 * point to, if any. A failure is this thread's failure record. */
LS_MUST_USE ls_status op_run(const ls_op *op, const void *arguments, const op_run_memory *memories, int n_memories);

/* The same per backend. */
typedef struct op_runner {
    int (*levels)(void);
    const char *(*level_name)(int level);
    int (*max_threads)(void);
    bool any_nan;
    void (*begin)(int level, int n_threads);
    void (*end)(void);
    ls_status (*run)(const ls_op *op, const void *arguments, const op_run_memory *memories, int n_memories);
} op_runner;

extern const op_runner op_runner_cpu;
#ifdef LOCKSTEP_HAVE_CUDA
extern const op_runner op_runner_cuda;
#endif

#endif
