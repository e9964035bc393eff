/* Rows of a product that cuBLASLt leaves to us. */
#ifndef LSI_KERNELS_CUDA_GEMM_ROWS_H
#define LSI_KERNELS_CUDA_GEMM_ROWS_H

#include <lockstep/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every row of c [m,n] becomes bias [n], or zeros when bias is not given. */
LS_MUST_USE ls_status lsi_gemm_rows_set(ls_stream *stream, const ls_view *c, const ls_view *bias, int64_t m, int64_t n);
/* Adds bias [n], of any of the float types, to every row of c [m,n] in f32. */
LS_MUST_USE ls_status lsi_gemm_rows_add(ls_stream *stream, const ls_view *c, const ls_view *bias, int64_t m, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
