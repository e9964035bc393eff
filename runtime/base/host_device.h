/* Functions that cpu and cuda kernels share: plain arithmetic in a header, compiled for both. */
#ifndef LSI_BASE_HOST_DEVICE_H
#define LSI_BASE_HOST_DEVICE_H

#ifdef __CUDACC__
#define LSI_HOST_DEVICE __host__ __device__
#else
#define LSI_HOST_DEVICE
#endif

#endif
