#include "kernels/cuda/gemm_rows.h"

#include "kernels/cuda/launch.h"

#include "backend/cuda/cuda.h"

enum { THREADS = 256 };

/* Off the path of training: one element a thread, its type looked up. */
static __device__ float load(const void *data, int dtype, int64_t i)
{
    return dtype == LS_F16    ? __half2float(((const __half *)data)[i])
           : dtype == LS_BF16 ? __bfloat162float(((const __nv_bfloat16 *)data)[i])
                              : ((const float *)data)[i];
}

static __device__ void store(void *data, int dtype, int64_t i, float value)
{
    if (dtype == LS_F16) {
        ((__half *)data)[i] = __float2half_rn(value);
    } else if (dtype == LS_BF16) {
        ((__nv_bfloat16 *)data)[i] = __float2bfloat16_rn(value);
    } else {
        ((float *)data)[i] = value;
    }
}

extern "C" __global__ void lsi_gemm_rows(void *c, int c_type, const void *bias, int bias_type, int64_t count, int64_t n,
                                         int add)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i < count) {
        float value = bias != nullptr ? load(bias, bias_type, i % n) : 0.0f;

        store(c, c_type, i, add ? load(c, c_type, i) + value : value);
    }
}

static ls_status launch(ls_stream *stream, const ls_view *c, const ls_view *bias, int64_t m, int64_t n, int add)
{
    const void *bias_data = bias->count > 0 ? bias->data : nullptr;
    cudaError_t error =
        (cudaError_t)LAUNCH(lsi_gemm_rows, (unsigned)((m * n + THREADS - 1) / THREADS), THREADS, 0,
                            lsi_cuda_stream(stream), c->data, (int)c->dtype, bias_data, (int)bias->dtype, m * n, n,
                            add);

    LS_REQUIRE(error == cudaSuccess, LS_ERR_DEVICE, "the kernel for rows of a product was not launched: %s (%s)",
               cudaGetErrorString(error), cudaGetErrorName(error));
    return LS_OK;
}

extern "C" ls_status lsi_gemm_rows_set(ls_stream *stream, const ls_view *c, const ls_view *bias, int64_t m, int64_t n)
{
    return launch(stream, c, bias, m, n, 0);
}

extern "C" ls_status lsi_gemm_rows_add(ls_stream *stream, const ls_view *c, const ls_view *bias, int64_t m, int64_t n)
{
    return launch(stream, c, bias, m, n, 1);
}
