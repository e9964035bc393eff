/* Atomics of kernels under the simulator: relaxed, as on the device, so that they order nothing by accident. */
#ifndef CUSIM_DEVICE_ATOMIC_H
#define CUSIM_DEVICE_ATOMIC_H

#include <string.h>

/* Replaces *address by update(old) and returns old; for 4- and 8-byte types of any kind, read as the integer `Bits`. */
template <class Bits, class T, class Update> static inline T cusim_atomic(T *address, Update update)
{
    static_assert(sizeof(Bits) == sizeof(T), "atomics take 4 or 8 bytes");
    Bits *bits = (Bits *)(void *)address;
    Bits seen = __atomic_load_n(bits, __ATOMIC_RELAXED), wanted;
    T old, next;
    do {
        memcpy(&old, &seen, sizeof old);
        next = update(old);
        memcpy(&wanted, &next, sizeof next);
    } while (!__atomic_compare_exchange_n(bits, &seen, wanted, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}

#define CUSIM_ATOMICS(T, Bits)                                                                                         \
    static inline T atomicAdd(T *address, T value)                                                                     \
    {                                                                                                                  \
        return cusim_atomic<Bits>(address, [value](T old) { return (T)(old + value); });                               \
    }                                                                                                                  \
    static inline T atomicExch(T *address, T value)                                                                    \
    {                                                                                                                  \
        return cusim_atomic<Bits>(address, [value](T) { return value; });                                              \
    }
#define CUSIM_ATOMICS_INTEGER(T, Bits)                                                                                 \
    CUSIM_ATOMICS(T, Bits)                                                                                             \
    static inline T atomicSub(T *address, T value)                                                                     \
    {                                                                                                                  \
        return cusim_atomic<Bits>(address, [value](T old) { return (T)(old - value); });                               \
    }                                                                                                                  \
    static inline T atomicMax(T *address, T value)                                                                     \
    {                                                                                                                  \
        return cusim_atomic<Bits>(address, [value](T old) { return old > value ? old : value; });                      \
    }                                                                                                                  \
    static inline T atomicMin(T *address, T value)                                                                     \
    {                                                                                                                  \
        return cusim_atomic<Bits>(address, [value](T old) { return old < value ? old : value; });                      \
    }                                                                                                                  \
    static inline T atomicAnd(T *address, T value)                                                                     \
    {                                                                                                                  \
        return cusim_atomic<Bits>(address, [value](T old) { return (T)(old & value); });                               \
    }                                                                                                                  \
    static inline T atomicOr(T *address, T value)                                                                      \
    {                                                                                                                  \
        return cusim_atomic<Bits>(address, [value](T old) { return (T)(old | value); });                               \
    }                                                                                                                  \
    static inline T atomicXor(T *address, T value)                                                                     \
    {                                                                                                                  \
        return cusim_atomic<Bits>(address, [value](T old) { return (T)(old ^ value); });                               \
    }                                                                                                                  \
    static inline T atomicCAS(T *address, T compare, T value)                                                          \
    {                                                                                                                  \
        return cusim_atomic<Bits>(address, [=](T old) { return old == compare ? value : old; });                       \
    }

CUSIM_ATOMICS_INTEGER(int, unsigned)
CUSIM_ATOMICS_INTEGER(unsigned, unsigned)
CUSIM_ATOMICS_INTEGER(long long, unsigned long long)
CUSIM_ATOMICS_INTEGER(unsigned long long, unsigned long long)
CUSIM_ATOMICS(float, unsigned)
CUSIM_ATOMICS(double, unsigned long long)

static inline unsigned atomicInc(unsigned *address, unsigned limit)
{
    return cusim_atomic<unsigned>(address, [limit](unsigned old) { return old >= limit ? 0u : old + 1; });
}
static inline unsigned atomicDec(unsigned *address, unsigned limit)
{
    return cusim_atomic<unsigned>(address, [limit](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}

#endif
