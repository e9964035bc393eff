/* Dropout: y = x * mask / (1 - probability), the mask drawn anew from the counters at every call. A group of elements
 * begins at a multiple of 4 within its sample, so that it needs whole draws. */
#include "kernels/cuda/kernel.h"
#include "kernels/cuda/vector.h"
#include "kernels/dropout.h"

template <typename T>
static __device__ __forceinline__ void dropout(const lsi_dropout_args &a, const lsi_dropout_rule &rule)
{
    const int n = lsi_vector<T>();
    lsi_place p = lsi_matrix_place(a.per_sample, n);
    int64_t left = a.per_sample - p.column, at = p.row * a.per_sample + p.column;
    float v[n];

    if (at >= a.x.count || left <= 0) {
        return;
    }
    lsi_read<T, n>((const T *)a.x.data + at, left, v);
#pragma unroll
    for (int group = 0; group < n / 4; group++) {
        lsi_random4 words = lsi_random_philox(a.key, (uint32_t)(p.column / 4) + (uint32_t)group,
                                              (uint32_t)(a.first_sample + p.row), (uint32_t)a.state->attempted, 0);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[4 * group + i] = words.v[i] >= rule.threshold ? v[4 * group + i] * rule.scale : 0.0f;
        }
    }
    lsi_write<T, n>((T *)a.y.data + at, left, v);
}
LSI_KERNEL_TYPES(dropout, (lsi_dropout_args a, lsi_dropout_rule rule), (a, rule))

extern "C" ls_status lsi_cuda_dropout(ls_stream *stream, const void *arguments)
{
    lsi_dropout_args a = *(const lsi_dropout_args *)arguments;
    lsi_dropout_rule rule;

    LS_TRY(lsi_dropout_rule_make(a.probability, &rule));
    LSI_CHECK_TYPES("dropout", &a.x, &a.y);
    if (a.x.count == 0) {
        return LS_OK;
    }
    LS_REQUIRE(a.per_sample > 0 && a.x.count % a.per_sample == 0, LS_ERR_INTERNAL,
               "dropout: %lld elements are not whole samples of %lld", (long long)a.x.count, (long long)a.per_sample);
    LS_REQUIRE(a.per_sample <= INT64_C(4) << 32, LS_ERR_INTERNAL,
               "dropout: %lld elements per sample, at most 2^34 can be counted", (long long)a.per_sample);
    if (rule.threshold == 0) {
        if (a.x.data != a.y.data) {
            cudaError_t error = cudaMemcpyAsync(a.y.data, a.x.data, (size_t)a.x.count * ls_dtype_bytes(a.x.dtype),
                                                cudaMemcpyDeviceToDevice, lsi_cuda_stream(stream));
            return lsi_cuda_launched("dropout", error);
        }
        return LS_OK;
    }
    int group = lsi_cuda_group(a.x.dtype);
    return LSI_LAUNCH_TYPES("dropout", dropout, a.x.dtype,
                            lsi_matrix_grid(a.x.count / a.per_sample, a.per_sample, group),
                            lsi_matrix_block(a.per_sample, group), lsi_cuda_stream(stream), a, rule);
}
