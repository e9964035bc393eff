#include "support/op_run.h"

#include "support/backend_case.h"

static const op_runner *runner(void)
{
#ifdef LOCKSTEP_HAVE_CUDA
    if (!test_backend()->host_memory) {
        return &op_runner_cuda;
    }
#endif
    return &op_runner_cpu;
}

int op_run_levels(void)
{
    return runner()->levels();
}

const char *op_run_level_name(int level)
{
    return runner()->level_name(level);
}

int op_run_max_threads(void)
{
    return runner()->max_threads();
}

bool op_run_any_nan(void)
{
    return runner()->any_nan;
}

void op_run_begin(int level, int n_threads)
{
    runner()->begin(level, n_threads);
}

void op_run_end(void)
{
    runner()->end();
}

ls_status op_run(const ls_op *op, const void *arguments, const op_run_memory *memories, int n_memories)
{
    return runner()->run(op, arguments, memories, n_memories);
}
