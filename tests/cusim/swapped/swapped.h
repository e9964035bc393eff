/* Kernels by name: how host code that nvcc compiled finds the bodies that a host compiler made of the same .cu files.
 * (swapped.cmake says what this is for.) */
#ifndef CUSIM_SWAPPED_H
#define CUSIM_SWAPPED_H

#include "cusim_exec.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cusim_kernel {
    const char *signature; /* gcc's text of a function of a template over the kernel; "... = NAME]" */
    size_t closure_bytes;
    void (*fill)(void *const *arguments, void *closure); /* arguments: pointers to them, as cudaLaunchKernel takes them */
    cusim_invoke invoke;
    struct cusim_kernel *next;
} cusim_kernel;

void cusim_kernel_register(cusim_kernel *kernel);

#ifdef __cplusplus
}
#endif
#endif
