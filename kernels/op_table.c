/* Descriptions of the built-in ops, and the choice of the CPU variant: every kernel is compiled once per ISA level. */
#include "kernels/ops.h"

#include "backend/cpu/cpu.h"
#include "backend/cpu/isa.h"

/* Prototypes of every variant, and a trampoline that picks the one the device was opened with. */
#define LS_OP(op, in, out, acc, step_state, attr, flop_count)                            \
    LSI_ISA_LEVELS(LSI_DECLARE, op)                                                 \
    static ls_status op##_cpu(const ls_cpu_run *run, const void *arguments)         \
    {                                                                               \
        switch (run->isa) {                                                         \
            LSI_ISA_LEVELS(LSI_CASE, op)                                            \
        default:                                                                    \
            return LS_FAIL(LS_ERR_INTERNAL, "no kernel variant %d", run->isa);      \
        }                                                                           \
    }
#define LSI_DECLARE(level, op) ls_status lsi_cpu_##op##_##level(const ls_cpu_run *run, const void *arguments);
#define LSI_CASE(level, op) \
    case LSI_ISA_##level:   \
        return lsi_cpu_##op##_##level(run, arguments);
#include "kernels/ops.def"
#undef LS_OP

/* Launchers of the cuda kernels, where the build has them. */
#ifdef LOCKSTEP_HAVE_CUDA
#define LS_OP(op, in, out, acc, step_state, attr, flop_count) \
    ls_status lsi_cuda_##op(ls_stream *stream, const void *arguments);
#include "kernels/ops.def"
#undef LS_OP
#define LSI_CUDA_FUNCTION(op) lsi_cuda_##op
#else
#define LSI_CUDA_FUNCTION(op) NULL
#endif

/* FLOP formulas of the rows that have one. */
#define LS_NONE 0.0
#define LS_FLOPS(...) (__VA_ARGS__)
#define LS_OP(op, in, out, acc, step_state, attr, flop_count)    \
    static double op##_flops(const void *arguments)         \
    {                                                       \
        const lsi_##op##_args *a = arguments;               \
        (void)a;                                            \
        return flop_count;                                       \
    }
#include "kernels/ops.def"
#undef LS_OP
#undef LS_NONE
#undef LS_FLOPS

/* A list of views is counted by the size of a struct of them. */
#define LS_NONE 0
#define LS_IN(...) (int)(sizeof(struct { ls_view __VA_ARGS__; }) / sizeof(ls_view))
#define LS_OUT(...) LS_IN(__VA_ARGS__)
#define LS_ACC(...) LS_IN(__VA_ARGS__)
#define LS_READS LS_STATE_READ
#define LS_WRITES LS_STATE_WRITE
#define LS_OP(op, in, out, acc, step_state, attr, flop_count)                            \
    const ls_op lsi_op_##op = {                                                     \
        .struct_size = sizeof(ls_op),                                               \
        .name = #op,                                                                \
        .arguments_bytes = sizeof(lsi_##op##_args),                                 \
        .n_in = in,                                                                 \
        .n_out = out,                                                               \
        .n_acc = acc,                                                               \
        .state_access = (ls_state_access)step_state,                                \
        .state_offset = sizeof(ls_view) * (size_t)((in) + (out) + (acc)),           \
        .cpu = op##_cpu,                                                            \
        .cuda = LSI_CUDA_FUNCTION(op),                                              \
        .flops = op##_flops,                                                        \
    };
#include "kernels/ops.def"
