/* The device of the execution contract's tests: the cpu, or with LOCKSTEP_TEST_BACKEND=cuda a GPU. There the tests' ops
 * are host functions of their streams, which leave the same marks as on the cpu in memory that both sides see. */
#ifndef LS_TESTS_SUPPORT_BACKEND_CASE_H
#define LS_TESTS_SUPPORT_BACKEND_CASE_H

#include "support/test.h"

#include "backend/registry.h"

/* The cpu where the variable is not set. */
const ls_backend *test_backend(void);
/* Ends a test that looks at what only the cpu backend promises. */
#define SKIP_UNLESS_CPU(backend)                                                                                       \
    do {                                                                                                               \
        if (!(backend)->host_memory) {                                                                                 \
            skip();                                                                                                    \
        }                                                                                                              \
    } while (0)

ls_device *test_device_open(int n_threads);
/* Releases what test_memory has given, then closes. Accepts NULL. */
void test_device_close(ls_device *device);
/* Zeroed pinned memory: what streams, flags and the host use together. */
void *test_memory(ls_device *device, size_t bytes);
ls_stream *test_stream(ls_device *device, const char *name);
ls_event *test_event(ls_device *device);

/* ---- ops ----------------------------------------------------------------------------------------------------- */

/* Queues `cpu` as a host function. It is skipped once the device has been stopped, and fails as ops do. */
ls_status test_op_on_cuda(ls_stream *stream, const char *name, ls_cpu_fn cpu, const void *arguments, size_t bytes);

/* Declares NAME_on_cuda, a launcher for the op's description, of the cpu function NAME and its argument struct. */
#define TEST_OP_ON_CUDA(name, bytes)                                                                                   \
    static ls_status name##_on_cuda(ls_stream *stream, const void *arguments)                                          \
    {                                                                                                                  \
        return test_op_on_cuda(stream, #name, name, arguments, bytes);                                                 \
    }

#endif
