/* A fault on purpose: one element of one step gets a value that it should not have. */
#include "kernels/cuda/kernel.h"

extern "C" __global__ void lsi_poke_one(lsi_poke_args a)
{
    if (a.state->attempted != a.attempted) {
        return;
    }
    if (a.y.dtype == LS_F32) {
        ((float *)a.y.data)[a.element] = a.value;
    } else {
        ((double *)a.y.data)[a.element] = (double)a.value;
    }
}

extern "C" ls_status lsi_cuda_poke(ls_stream *stream, const void *arguments)
{
    lsi_poke_args a = *(const lsi_poke_args *)arguments;

    LS_REQUIRE(a.y.dtype == LS_F32 || a.y.dtype == LS_F64, LS_ERR_INTERNAL, "poke: a view of %s; choices: f32, f64",
               ls_dtype_name(a.y.dtype));
    LS_REQUIRE(a.element >= 0 && a.element < a.y.count, LS_ERR_INTERNAL, "poke: element %lld of %lld",
               (long long)a.element, (long long)a.y.count);
    return lsi_cuda_launched("poke", LAUNCH(lsi_poke_one, 1, 1, 0, lsi_cuda_stream(stream), a));
}
