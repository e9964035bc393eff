/* What every .cu file includes first (lockstep/kernel.h), and constants of every device this can run on. */
#ifndef LSI_KERNELS_CUDA_LAUNCH_H
#define LSI_KERNELS_CUDA_LAUNCH_H

#include <lockstep/kernel.h>

#define WARP_SIZE 32
#define FULL_MASK 0xffffffffu

#endif
