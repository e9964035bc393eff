/* What running kernels ask of the simulator: the device shim (C++) stands on this, the executor (C) implements it. */
#ifndef CUSIM_EXEC_H
#define CUSIM_EXEC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cusim_dim3 {
    unsigned x, y, z;
} cusim_dim3;

/* What a running CUDA thread is told about itself, and about its block. */
typedef struct cusim_thread_view {
    cusim_dim3 index;
    unsigned linear, lane, warp;
} cusim_thread_view;
typedef struct cusim_block_view {
    cusim_dim3 index, block, grid;
    void *dynamic_shared;
} cusim_block_view;
extern cusim_thread_view *cusim_thread;
extern cusim_block_view cusim_block;

/* ---- barriers, warp operations -------------------------------------------------------------- */

enum { CUSIM_COUNT, CUSIM_OR, CUSIM_AND, CUSIM_PLAIN };
int cusim_barrier(int reduce, int predicate, const char *file, int line);

typedef enum cusim_warp_kind {
    CUSIM_WARP_SYNC,
    CUSIM_WARP_INDEX,
    CUSIM_WARP_UP,
    CUSIM_WARP_DOWN,
    CUSIM_WARP_XOR,
    CUSIM_WARP_BALLOT,
    CUSIM_WARP_ALL,
    CUSIM_WARP_ANY,
    CUSIM_WARP_MATCH,
    CUSIM_WARP_ADD,
    CUSIM_WARP_MAX,
    CUSIM_WARP_MIN,
    CUSIM_WARP_MAX_SIGNED,
    CUSIM_WARP_MIN_SIGNED,
    CUSIM_WARP_BIT_OR,
    CUSIM_WARP_BIT_AND,
    CUSIM_WARP_BIT_XOR,
    CUSIM_WARP_GATHER /* out: const void *[32], each lane's `in` (not copied); NULL for lanes outside the mask */
} cusim_warp_kind;
/* Every lane of the mask must come with the same kind and mask. argument, width: the shuffles' second and last. */
void cusim_warp(cusim_warp_kind kind, unsigned mask, const void *in, void *out, unsigned bytes, int argument, int width,
                const char *file, int line);
unsigned cusim_active_mask(void);

/* ---- memory order, asynchronous copies, clocks, faults -------------------------------------- */

void cusim_fence(void);
/* cp.async: lands as late as it may, at the wait; until then the target holds NaNs. */
void cusim_copy_async(void *shared, const void *global, unsigned bytes, const char *file, int line);
void cusim_copy_commit(void);
void cusim_copy_wait(unsigned groups_left);
uint64_t cusim_global_timer(void); /* nanoseconds of the virtual clock */
int64_t cusim_clock(void);         /* cycles */
void cusim_sleep(unsigned nanoseconds);
#ifdef __cplusplus
[[noreturn]]
#else
_Noreturn
#endif
void cusim_trap(const char *why, const char *file, int line);

/* ---- launches ------------------------------------------------------------------------------- */

/* Calls a kernel with the arguments in the closure. */
typedef void (*cusim_invoke)(const void *closure);
typedef struct cusim_launch {
    const char *name;
    const void *symbol; /* the kernel's address: what cudaFuncSetAttribute is asked about */
    cusim_dim3 grid, block;
    size_t shared_bytes;
    cusim_invoke invoke;
    const void *closure; /* copied */
    size_t closure_bytes;
} cusim_launch;
/* Queues it; returns a cudaError_t. */
int cusim_enqueue_kernel(const cusim_launch *launch, void *stream);
/* Runs it now (the scheduler, tests of the executor); 1: it ended with a device fault. */
int cusim_execute(const cusim_launch *launch);

/* Order of threads and blocks. */
enum { CUSIM_FORWARD, CUSIM_REVERSE, CUSIM_SHUFFLED };
void cusim_set_order(int order, uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif
