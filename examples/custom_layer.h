/* The arguments of custom_layer's op, as its two kernels see them: custom_layer.c and custom_layer.cu. */
#ifndef CUSTOM_LAYER_H
#define CUSTOM_LAYER_H

#include <lockstep/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RMS_EPS 1e-5F

/* An op's arguments begin with its views, inputs first. Forward leaves dy out (count 0); backward writes dx to y. */
typedef struct rms_args {
    ls_view x, dy, y;
    int64_t cols; /* of a row */
} rms_args;

#ifdef WITH_CUDA
/* custom_layer.cu; a cudaError_t. */
int rms_launch(const rms_args *a, struct CUstream_st *stream);

static inline ls_status rms_cuda(ls_stream *stream, const void *arguments)
{
    int error = rms_launch((const rms_args *)arguments, ls_cuda_stream(stream));

    LS_REQUIRE(error == 0, LS_ERR_DEVICE, "rms: the kernel was not launched: CUDA error %d", error);
    return LS_OK;
}
#else
#define rms_cuda NULL
#endif

#ifdef __cplusplus
}
#endif
#endif
