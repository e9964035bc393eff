/* From ops.def: an argument struct, a description and a launcher for every op.
 *
 *   lsi_gelu_fwd(stream, &(lsi_gelu_fwd_args){.x = x, .y = y})
 *
 * Wrong names and types do not compile. Launches return at once; arguments are copied. */
#ifndef LSI_KERNELS_OPS_H
#define LSI_KERNELS_OPS_H

#include <lockstep/backend.h>
#include <lockstep/step_state.h>

#define LS_NONE
#define LS_IN(...) ls_view __VA_ARGS__;
#define LS_OUT(...) ls_view __VA_ARGS__;
#define LS_ACC(...) ls_view __VA_ARGS__;
#define LS_READS ls_step_state *state;
#define LS_WRITES ls_step_state *state;
#define LS_ATTR(...) __VA_ARGS__
#define LS_FLOPS(...)
#define LS_OP(op, in, out, acc, step_state, attr, flop_count)        \
    typedef struct lsi_##op##_args {                            \
        in out acc step_state attr                              \
    } lsi_##op##_args;                                          \
    extern const ls_op lsi_op_##op;                             \
    LS_MUST_USE static inline ls_status lsi_##op(ls_stream *stream, const lsi_##op##_args *arguments) \
    {                                                           \
        return ls_op_launch(stream, &lsi_op_##op, arguments);   \
    }
#include "kernels/ops.def"
#undef LS_OP
#undef LS_NONE
#undef LS_IN
#undef LS_OUT
#undef LS_ACC
#undef LS_READS
#undef LS_WRITES
#undef LS_ATTR
#undef LS_FLOPS

/* Elements of one block: sums of squares are made per block, and every cut of the flat parameter index that depends on
 * the number of processes, buckets or threads falls on a multiple of it. */
enum { LSI_BLOCK = 16384 };

/* Largest head_size of the attention ops: their tiles lie on the stack. */
enum { LSI_HEAD_SIZE_MAX = 256 };

#endif
