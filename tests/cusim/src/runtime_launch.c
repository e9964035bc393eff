/* Kernel launches, what is asked about kernels, and the clocks kernels read. */
#include "runtime.h"
#include "exec.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PLAIN_SHARED = 48 << 10, MAX_THREADS_PER_SM = 2048, MAX_BLOCKS_PER_SM = 32 };

/* Shared memory a block may have at most, and an SM has: by compute capability, as the programming guide lists it. */
static int shared_per_sm(const cusim_gpu *gpu)
{
    switch (gpu->cc_major * 10 + gpu->cc_minor) {
    case 70:
        return 96 << 10;
    case 75:
        return 64 << 10;
    case 80:
    case 87:
        return 164 << 10;
    case 86:
    case 89:
        return 100 << 10;
    case 120:
    case 121:
        return 100 << 10;
    default:
        return gpu->cc_major >= 9 ? 228 << 10 : PLAIN_SHARED;
    }
}

int cusim_shared_per_sm(int device)
{
    return shared_per_sm(&cusim.devices[device].gpu);
}

int cusim_shared_per_block(int device)
{
    const cusim_gpu *gpu = &cusim.devices[device].gpu;
    int all = shared_per_sm(gpu);
    return gpu->cc_major >= 8 ? all - (1 << 10) : all; /* the system keeps a part since 8.0 */
}

/* cudaFuncAttributeMaxDynamicSharedMemorySize, by kernel and device. */
static struct limit {
    struct limit *next;
    const void *kernel;
    int device, bytes;
} * limits;

static int dynamic_limit(const void *kernel, int device)
{
    for (const struct limit *l = limits; l != NULL; l = l->next)
        if (l->kernel == kernel && l->device == device)
            return l->bytes;
    return PLAIN_SHARED;
}

static cudaError_t check_shape(const cusim_launch *l, const cusim_stream *stream)
{
    size_t threads = (size_t)l->block.x * l->block.y * l->block.z;
    if (stream->device != cusim_device)
        return cudaErrorInvalidResourceHandle;
    if (threads == 0 || threads > CUSIM_MAX_THREADS || l->block.z > 64 || l->grid.x == 0 || l->grid.x > 0x7fffffff ||
        l->grid.y == 0 || l->grid.y > 65535 || l->grid.z == 0 || l->grid.z > 65535)
        return cudaErrorInvalidConfiguration;
    if (l->shared_bytes > (size_t)dynamic_limit(l->symbol, cusim_device)) {
        cusim_note("%s: %zu bytes of dynamic shared memory, allowed are %d (cudaFuncSetAttribute)", l->name,
                   l->shared_bytes, dynamic_limit(l->symbol, cusim_device));
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
}

static int injected(const char *kernel)
{
    char name[64] = "kernel:";
    strncat(name, kernel, sizeof name - strlen(name) - 1);
    return cusim_inject(name);
}

static int enqueue(const cusim_launch *launch, cusim_stream *stream)
{
    cudaError_t error = check_shape(launch, stream);
    int code = injected(launch->name);
    if (error != cudaSuccess)
        return (int)error;
    if (code != 0 && !cusim_error_sticks(code))
        return code;
    double threads =
        (double)launch->grid.x * launch->grid.y * launch->grid.z * launch->block.x * launch->block.y * launch->block.z;
    op *o = cusim_op_new(OP_KERNEL, launch->name, 4e-6 + threads * 20e-12);
    void *closure = malloc(launch->closure_bytes);
    if (closure == NULL)
        cusim_die("out of host memory");
    memcpy(closure, launch->closure, launch->closure_bytes);
    o->u.kernel = *launch;
    o->u.kernel.name = o->name;
    o->u.kernel.closure = closure;
    o->fail_with = (cudaError_t)code;
    return (int)cusim_queue(o, stream);
}

int cusim_enqueue_kernel(const cusim_launch *launch, void *stream)
{
    CUSIM_ENTER_STREAM(cudaLaunchKernel, (cudaStream_t)stream, "kernel=%s grid=%u,%u,%u block=%u,%u,%u", launch->name,
                       launch->grid.x, launch->grid.y, launch->grid.z, launch->block.x, launch->block.y,
                       launch->block.z);
    int code = enqueue(launch, cusim_stream_resolve(stream));
    cusim_unlock(); /* the launch macro returns the error and leaves none behind */
    return code;
}

/* ---- clocks --------------------------------------------------------------------------------- */

/* Never twice the same: kernels that look twice see time pass. */
uint64_t cusim_global_timer(void)
{
    if (cusim.real_clock) {
        struct timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
    }
    return (uint64_t)(cusim.now * 1e9) + 1 + cusim_exec.slept_nanoseconds++;
}

int64_t cusim_clock(void)
{
    return (int64_t)((double)cusim_global_timer() * 1e-3 * cusim.devices[0].gpu.clock_mhz);
}

void cusim_sleep(unsigned nanoseconds)
{
    cusim_exec.slept_nanoseconds += nanoseconds;
}

/* ---- the API -------------------------------------------------------------------------------- */

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value)
{
    CUSIM_ENTER_STREAM(cudaFuncSetAttribute, CUSIM_NO_STREAM, "attribute=%d value=%d", (int)attribute, value);
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cusim_leave(attribute == cudaFuncAttributePreferredSharedMemoryCarveout ? cudaSuccess
                                                                                       : cudaErrorInvalidValue);
    if (value < 0 || value > cusim_shared_per_block(cusim_device))
        return cusim_leave(cudaErrorInvalidValue);
    struct limit *l = calloc(1, sizeof *l);
    if (l == NULL)
        cusim_die("out of host memory");
    *l = (struct limit){limits, kernel, cusim_device, value};
    limits = l;
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *kernel)
{
    CUSIM_ENTER(cudaFuncGetAttributes);
    const cusim_gpu *gpu = &cusim.devices[cusim_device].gpu;
    memset(out, 0, sizeof *out);
    out->maxThreadsPerBlock = CUSIM_MAX_THREADS;
    out->numRegs = 32;
    out->maxDynamicSharedSizeBytes = dynamic_limit(kernel, cusim_device);
    out->binaryVersion = out->ptxVersion = gpu->cc_major * 10 + gpu->cc_minor;
    return cusim_leave(cudaSuccess);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *out, const void *kernel, int block, size_t shared)
{
    CUSIM_ENTER(cudaOccupancyMaxActiveBlocksPerMultiprocessor);
    (void)kernel;
    if (block < 1 || block > CUSIM_MAX_THREADS)
        return cusim_leave(cudaErrorInvalidValue);
    int by_threads = MAX_THREADS_PER_SM / ((block + 31) / 32 * 32);
    int by_shared = shared > 0 ? (int)((size_t)cusim_shared_per_sm(cusim_device) / shared) : MAX_BLOCKS_PER_SM;
    int blocks = by_threads < by_shared ? by_threads : by_shared;
    *out = blocks < MAX_BLOCKS_PER_SM ? blocks : MAX_BLOCKS_PER_SM;
    return cusim_leave(cudaSuccess);
}
