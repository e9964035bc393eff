/* The two halves of the embedding's gradient. */
#ifndef LSI_KERNELS_CUDA_EMBEDDING_H
#define LSI_KERNELS_CUDA_EMBEDDING_H

#include "kernels/cuda/kernel.h"

/* Queues what makes dwte. */
extern "C" LS_MUST_USE ls_status lsi_cuda_embedding_tokens(ls_stream *stream, const lsi_embedding_bwd_args *arguments);

#endif
