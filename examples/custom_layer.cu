/* The kernel of custom_layer's op on a GPU: a block for each row. It needs the CUDA toolkit and nothing of the library
 * but its headers, so that it can be tested alone; runtime/docs/checking_kernels.md does that, without a GPU. */
#include <lockstep/kernel.h>

#include "custom_layer.h"

enum { THREADS = 128 }; /* fixed, so that the order of every sum is, too */

/* f32 here, whatever type the plan stores. */
static __device__ float load(const ls_view &v, int64_t i)
{
    return v.dtype == LS_F16    ? __half2float(((const __half *)v.data)[i])
           : v.dtype == LS_BF16 ? __bfloat162float(((const __nv_bfloat16 *)v.data)[i])
                                : ((const float *)v.data)[i];
}

static __device__ void store(const ls_view &v, int64_t i, float value)
{
    if (v.dtype == LS_F16) {
        ((__half *)v.data)[i] = __float2half_rn(value);
    } else if (v.dtype == LS_BF16) {
        ((__nv_bfloat16 *)v.data)[i] = __float2bfloat16_rn(value);
    } else {
        ((float *)v.data)[i] = value;
    }
}

/* Over the threads of the block, the same in all of them. */
static __device__ float sum_over_block(float mine, float *shared)
{
    int me = (int)threadIdx.x;

    shared[me] = mine;
    __syncthreads();
    for (int apart = THREADS / 2; apart > 0; apart /= 2) {
        if (me < apart) {
            shared[me] += shared[me + apart];
        }
        __syncthreads();
    }
    float sum = shared[0];
    __syncthreads(); /* the next sum lies in the same memory */
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS) rms_row(rms_args a)
{
    __shared__ float shared[THREADS];
    int64_t first = (int64_t)blockIdx.x * a.cols;
    bool backward = a.dy.count > 0;
    float squares = 0.0f, products = 0.0f;

    for (int64_t i = threadIdx.x; i < a.cols; i += THREADS) {
        float x = load(a.x, first + i);
        squares += x * x;
        products += backward ? x * load(a.dy, first + i) : 0.0f;
    }
    squares = sum_over_block(squares, shared);
    products = sum_over_block(products, shared);
    float r = 1.0f / sqrtf(squares / (float)a.cols + RMS_EPS), slope = products * r * r * r / (float)a.cols;
    for (int64_t i = threadIdx.x; i < a.cols; i += THREADS) {
        float x = load(a.x, first + i);
        store(a.y, first + i, backward ? r * load(a.dy, first + i) - slope * x : r * x);
    }
}

extern "C" int rms_launch(const rms_args *a, struct CUstream_st *stream)
{
    int64_t rows = a->y.count / a->cols;

    return rows == 0 ? 0 : (int)LAUNCH(rms_row, (unsigned)rows, THREADS, 0, stream, *a);
}
