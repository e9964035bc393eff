/* What nvcc's host code calls besides the documented API: it registers each kernel's stub under its name at start, and
 * launches by the stub's address. These functions are internal to the toolkit; here is what 11 to 13 use of them. */
#include "runtime.h"
#include "swapped.h"

#include <stdlib.h>
#include <string.h>
#include <vector_types.h>

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

static cusim_kernel *kernels;

void cusim_kernel_register(cusim_kernel *kernel)
{
    kernel->next = kernels;
    kernels = kernel;
}

static bool is_named(const cusim_kernel *kernel, const char *name)
{
    const char *equals = strrchr(kernel->signature, '=');
    if (equals == NULL)
        return false;
    equals += 1 + strspn(equals + 1, " &");
    size_t length = strlen(name);
    return strncmp(equals, name, length) == 0 && (equals[length] == ']' || equals[length] == ';');
}

/* One stub of the program's. */
typedef struct stub {
    struct stub *next;
    const void *address;
    const char *name;
    const cusim_kernel *kernel;
} stub;
static stub *stubs;

static const stub *find_stub(const void *address)
{
    for (const stub *s = stubs; s != NULL; s = s->next)
        if (s->address == address)
            return s;
    return NULL;
}

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *address, char *function, const char *name, int limit,
                            uint3 *thread, uint3 *block, dim3 *block_shape, dim3 *grid_shape, int *warp);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(void **out, const void *address);
cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                               struct CUstream_st *stream);

void **__cudaRegisterFatBinary(void *binary)
{
    (void)binary;
    static void *handle;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *address, char *function, const char *name, int limit,
                            uint3 *thread, uint3 *block, dim3 *block_shape, dim3 *grid_shape, int *warp)
{
    (void)handle, (void)function, (void)limit, (void)thread, (void)block, (void)block_shape, (void)grid_shape;
    (void)warp;
    stub *s = calloc(1, sizeof *s);
    if (s == NULL)
        cusim_die("out of host memory");
    *s = (stub){.next = stubs, .address = address, .name = name};
    for (const cusim_kernel *k = kernels; k != NULL && s->kernel == NULL; k = k->next)
        if (is_named(k, name))
            s->kernel = k;
    stubs = s;
}

/* ---- launches --------------------------------------------------------------------------------------------------- */

typedef struct shape {
    dim3 grid, block;
    size_t shared;
    struct CUstream_st *stream;
} shape;
static __thread shape pushed; /* <<<...>>> of the launch whose arguments come next */

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream)
{
    pushed = (shape){grid, block, shared, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    *grid = pushed.grid;
    *block = pushed.block;
    *shared = pushed.shared;
    memcpy(stream, &pushed.stream, sizeof pushed.stream);
    return cudaSuccess;
}

static cudaError_t launch(const stub *s, dim3 grid, dim3 block, void **arguments, size_t shared,
                          struct CUstream_st *stream)
{
    if (s->kernel == NULL)
        cusim_die("kernel %s is launched, and no .cu file of the simulator's build launches it", s->name);
    void *closure = malloc(s->kernel->closure_bytes);
    if (closure == NULL)
        cusim_die("out of host memory");
    s->kernel->fill(arguments, closure);
    int code = cusim_enqueue_kernel(
        &(cusim_launch){
            .name = s->name,
            .symbol = s->address,
            .grid = {grid.x, grid.y, grid.z},
            .block = {block.x, block.y, block.z},
            .shared_bytes = shared,
            .invoke = s->kernel->invoke,
            .closure = closure,
            .closure_bytes = s->kernel->closure_bytes,
        },
        stream);
    free(closure);
    return cusim_set_error((cudaError_t)code);
}

cudaError_t cudaLaunchKernel(const void *address, dim3 grid, dim3 block, void **arguments, size_t shared,
                             struct CUstream_st *stream)
{
    const stub *s = find_stub(address);
    return s != NULL ? launch(s, grid, block, arguments, shared, stream) : cusim_set_error(cudaErrorInvalidValue);
}

cudaError_t __cudaGetKernel(void **out, const void *address)
{
    *out = (void *)(uintptr_t)find_stub(address);
    return *out != NULL ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                               struct CUstream_st *stream)
{
    return launch(kernel, grid, block, arguments, shared, stream);
}
