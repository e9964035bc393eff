#include "backend/op.h"

#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/tsan.h"
#include <lockstep/step_state.h>

ls_status ls_op_register(ls_device *device, const ls_op *op)
{
    LS_REQUIRE(op != NULL && op->struct_size == sizeof(ls_op), LS_ERR_INTERNAL,
               "op description of %zu bytes, this library's has %zu: it was built against another version",
               op == NULL ? (size_t)0 : op->struct_size, sizeof(ls_op));
    LS_REQUIRE(op->name != NULL && op->name[0] != '\0', LS_ERR_INTERNAL, "op without a name");
    LS_REQUIRE(op->n_in >= 0 && op->n_out >= 0 && op->n_acc >= 0, LS_ERR_INTERNAL, "op %s: negative number of views",
               op->name);
    LS_REQUIRE(op->arguments_bytes <= LS_OP_MAX_ARGUMENTS, LS_ERR_INTERNAL,
               "op %s: %zu bytes of arguments, at most %d are possible", op->name, op->arguments_bytes,
               LS_OP_MAX_ARGUMENTS);

    size_t views_end = sizeof(ls_view) * ((size_t)op->n_in + (size_t)op->n_out + (size_t)op->n_acc);

    LS_REQUIRE(views_end <= op->arguments_bytes, LS_ERR_INTERNAL,
               "op %s: %zu bytes of arguments cannot begin with %zu bytes of views", op->name, op->arguments_bytes,
               views_end);
    LS_REQUIRE(op->state_access == LS_STATE_NONE ||
                   (op->state_offset >= views_end && op->state_offset % sizeof(void *) == 0 &&
                    op->state_offset + sizeof(void *) <= op->arguments_bytes),
               LS_ERR_INTERNAL, "op %s: the step state cannot stand at offset %zu of its arguments", op->name,
               op->state_offset);

    const char *backend = device->backend->name;
    bool on_cuda = strcmp(backend, "cuda") == 0;

    LS_REQUIRE(on_cuda ? op->cuda != NULL : op->cpu != NULL, LS_ERR_DEVICE, "op %s: no function for the %s backend",
               op->name, backend);
    return LS_OK;
}

ls_status ls_op_launch(ls_stream *stream, const ls_op *op, const void *arguments)
{
    return stream->device->backend->launch(stream, op, arguments);
}

void ls_parallel_for(const ls_cpu_run *run, int64_t n_blocks, ls_block_fn fn, void *argument)
{
    lsi_pool_run(run->pool, run->priority, n_blocks, fn, argument);
}

#ifdef LSI_TSAN

void lsi_op_declare_accesses(const ls_op *op, const void *arguments)
{
    const ls_view *views = arguments;

    for (int i = 0; i < op->n_in + op->n_out + op->n_acc; i++) {
        size_t bytes = (size_t)views[i].count * ls_dtype_bytes(views[i].dtype);

        if (i < op->n_in) {
            lsi_tsan_reads(views[i].data, bytes);
        } else {
            lsi_tsan_writes(views[i].data, bytes);
        }
    }
    if (op->state_access != LS_STATE_NONE) {
        ls_step_state *state;

        memcpy(&state, (const char *)arguments + op->state_offset, sizeof state);
        if (op->state_access == LS_STATE_READ) {
            lsi_tsan_reads(state, sizeof *state);
        } else {
            lsi_tsan_writes(state, sizeof *state);
        }
    }
}

#else

void lsi_op_declare_accesses(const ls_op *op, const void *arguments)
{
    (void)op, (void)arguments;
}

#endif
