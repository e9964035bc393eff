/* Barriers and warp operations for kernels under the simulator; each tells where it stands in the source. */
#ifndef CUSIM_DEVICE_WARP_H
#define CUSIM_DEVICE_WARP_H

#include "cusim_exec.h"

#define __syncthreads() ((void)cusim_barrier(CUSIM_PLAIN, 0, __FILE__, __LINE__))
#define __syncthreads_count(p) cusim_barrier(CUSIM_COUNT, (p) != 0, __FILE__, __LINE__)
#define __syncthreads_or(p) cusim_barrier(CUSIM_OR, (p) != 0, __FILE__, __LINE__)
#define __syncthreads_and(p) cusim_barrier(CUSIM_AND, (p) != 0, __FILE__, __LINE__)

static inline unsigned cusim_mask_or_all(unsigned mask = 0xffffffffu)
{
    return mask;
}
static inline int cusim_width_or_warp(int width = 32)
{
    return width;
}
#define __syncwarp(...)                                                                                                \
    cusim_warp(CUSIM_WARP_SYNC, cusim_mask_or_all(__VA_ARGS__), nullptr, nullptr, 0, 0, 32, __FILE__, __LINE__)
#define __activemask() cusim_active_mask()

template <class T>
static inline T cusim_shuffle(cusim_warp_kind kind, unsigned mask, T value, int argument, int width, const char *file,
                              int line)
{
    static_assert(sizeof(T) <= 16, "a shuffle moves at most 16 bytes here");
    T result;
    cusim_warp(kind, mask, &value, &result, sizeof value, argument, width, file, line);
    return result;
}
#define CUSIM_SHUFFLE(kind, mask, value, argument, ...)                                                                \
    cusim_shuffle(kind, (mask), (value), (int)(argument), cusim_width_or_warp(__VA_ARGS__), __FILE__, __LINE__)
#define __shfl_sync(mask, value, ...) CUSIM_SHUFFLE(CUSIM_WARP_INDEX, mask, value, __VA_ARGS__)
#define __shfl_up_sync(mask, value, ...) CUSIM_SHUFFLE(CUSIM_WARP_UP, mask, value, __VA_ARGS__)
#define __shfl_down_sync(mask, value, ...) CUSIM_SHUFFLE(CUSIM_WARP_DOWN, mask, value, __VA_ARGS__)
#define __shfl_xor_sync(mask, value, ...) CUSIM_SHUFFLE(CUSIM_WARP_XOR, mask, value, __VA_ARGS__)

static inline unsigned cusim_vote(cusim_warp_kind kind, unsigned mask, unsigned value, const char *file, int line)
{
    unsigned result;
    cusim_warp(kind, mask, &value, &result, sizeof value, 0, 32, file, line);
    return result;
}
static inline int cusim_vote(cusim_warp_kind kind, unsigned mask, int value, const char *file, int line)
{
    if (kind == CUSIM_WARP_MAX || kind == CUSIM_WARP_MIN)
        kind = kind == CUSIM_WARP_MAX ? CUSIM_WARP_MAX_SIGNED : CUSIM_WARP_MIN_SIGNED;
    return (int)cusim_vote(kind, mask, (unsigned)value, file, line);
}
#define CUSIM_VOTE(kind, mask, value) cusim_vote(kind, (mask), (value), __FILE__, __LINE__)
#define __ballot_sync(mask, p) CUSIM_VOTE(CUSIM_WARP_BALLOT, mask, (unsigned)((p) != 0))
#define __all_sync(mask, p) CUSIM_VOTE(CUSIM_WARP_ALL, mask, (int)((p) != 0))
#define __any_sync(mask, p) CUSIM_VOTE(CUSIM_WARP_ANY, mask, (int)((p) != 0))
#define __reduce_add_sync(mask, value) CUSIM_VOTE(CUSIM_WARP_ADD, mask, value)
#define __reduce_max_sync(mask, value) CUSIM_VOTE(CUSIM_WARP_MAX, mask, value)
#define __reduce_min_sync(mask, value) CUSIM_VOTE(CUSIM_WARP_MIN, mask, value)
#define __reduce_or_sync(mask, value) CUSIM_VOTE(CUSIM_WARP_BIT_OR, mask, value)
#define __reduce_and_sync(mask, value) CUSIM_VOTE(CUSIM_WARP_BIT_AND, mask, value)
#define __reduce_xor_sync(mask, value) CUSIM_VOTE(CUSIM_WARP_BIT_XOR, mask, value)

template <class T> static inline unsigned cusim_match(unsigned mask, T value, const char *file, int line)
{
    static_assert(sizeof(T) <= 8, "a match compares 4 or 8 bytes");
    uint64_t wide = 0, result;
    memcpy(&wide, &value, sizeof value);
    cusim_warp(CUSIM_WARP_MATCH, mask, &wide, &result, sizeof wide, 0, 32, file, line);
    return (unsigned)result;
}
#define __match_any_sync(mask, value) cusim_match((mask), (value), __FILE__, __LINE__)

#endif
