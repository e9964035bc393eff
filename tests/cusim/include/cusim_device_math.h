/* Scalar intrinsics of kernels under the simulator. Approximate ones of the device are the exact ones here. */
#ifndef CUSIM_DEVICE_MATH_H
#define CUSIM_DEVICE_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* The C library has names like __expf of its own: only macros can take them. */
#define __expf expf
#define __exp10f(x) powf(10.0f, (x))
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __sinf sinf
#define __cosf cosf
#define __powf powf
#define __saturatef(x) fminf(fmaxf((x), 0.0f), 1.0f)

static inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
static inline double rsqrt(double x)
{
    return 1.0 / sqrt(x);
}
static inline float normcdff(float x)
{
    return 0.5f * erfcf(-x * 0.70710678118654752f);
}
static inline float __fdividef(float a, float b)
{
    return a / b;
}

/* Arithmetic that a compiler must not contract. */
#define CUSIM_BINARY(name, T, operator)                                                                                \
    static inline T name(T a, T b)                                                                                     \
    {                                                                                                                  \
        return a operator b;                                                                                           \
    }
CUSIM_BINARY(__fadd_rn, float, +)
CUSIM_BINARY(__fsub_rn, float, -)
CUSIM_BINARY(__fmul_rn, float, *)
CUSIM_BINARY(__fdiv_rn, float, /)
CUSIM_BINARY(__dadd_rn, double, +)
CUSIM_BINARY(__dsub_rn, double, -)
CUSIM_BINARY(__dmul_rn, double, *)
CUSIM_BINARY(__ddiv_rn, double, /)
#undef CUSIM_BINARY
#define __fmaf_rn fmaf
#define __fma_rn fma
#define __fsqrt_rn sqrtf
#define __dsqrt_rn sqrt
#define __frcp_rn(x) (1.0f / (x))
#define __frsqrt_rn rsqrtf

/* Conversions. */
#define __float2int_rn(x) ((int)lrintf(x))
#define __float2int_rz(x) ((int)(x))
#define __float2int_rd(x) ((int)floorf(x))
#define __float2int_ru(x) ((int)ceilf(x))
#define __float2uint_rn(x) ((unsigned)llrintf(x))
#define __float2uint_rz(x) ((unsigned)(x))
#define __float2ll_rn(x) llrintf(x)
#define __double2int_rn(x) ((int)lrint(x))
#define __double2ll_rn(x) llrint(x)
#define __double2float_rn(x) ((float)(x))
#define __int2float_rn(x) ((float)(int)(x))
#define __uint2float_rn(x) ((float)(unsigned)(x))
#define __ll2float_rn(x) ((float)(long long)(x))
#define __ull2float_rn(x) ((float)(unsigned long long)(x))
#define __int2double_rn(x) ((double)(int)(x))

template <class To, class From> static inline To cusim_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "same size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
#define __float_as_int(x) cusim_bits<int, float>(x)
#define __float_as_uint(x) cusim_bits<unsigned, float>(x)
#define __int_as_float(x) cusim_bits<float, int>(x)
#define __uint_as_float(x) cusim_bits<float, unsigned>(x)
#define __double_as_longlong(x) cusim_bits<long long, double>(x)
#define __longlong_as_double(x) cusim_bits<double, long long>(x)

/* Bits and integers. */
#define __popc(x) __builtin_popcount((unsigned)(x))
#define __popcll(x) __builtin_popcountll((unsigned long long)(x))
#define __ffs(x) __builtin_ffs((int)(x))
#define __ffsll(x) __builtin_ffsll((long long)(x))
static inline int __clz(int x)
{
    return x != 0 ? __builtin_clz((unsigned)x) : 32;
}
static inline int __clzll(long long x)
{
    return x != 0 ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline unsigned __brev(unsigned x)
{
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++)
        reversed |= (x >> i & 1u) << (31 - i);
    return reversed;
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}
static inline int __mulhi(int a, int b)
{
    return (int)((long long)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}

/* Loads and stores with cache hints. */
#define CUSIM_LOAD(name)                                                                                               \
    template <class T> static inline T name(const T *address)                                                          \
    {                                                                                                                  \
        return *address;                                                                                               \
    }
#define CUSIM_STORE(name)                                                                                              \
    template <class T> static inline void name(T *address, T value)                                                    \
    {                                                                                                                  \
        *address = value;                                                                                              \
    }
CUSIM_LOAD(__ldg)
CUSIM_LOAD(__ldca)
CUSIM_LOAD(__ldcg)
CUSIM_LOAD(__ldcs)
CUSIM_LOAD(__ldlu)
CUSIM_LOAD(__ldcv)
CUSIM_STORE(__stwb)
CUSIM_STORE(__stcg)
CUSIM_STORE(__stcs)
CUSIM_STORE(__stwt)
#undef CUSIM_LOAD
#undef CUSIM_STORE

#define CUSIM_MINMAX(T)                                                                                                \
    static inline T min(T a, T b)                                                                                      \
    {                                                                                                                  \
        return b < a ? b : a;                                                                                          \
    }                                                                                                                  \
    static inline T max(T a, T b)                                                                                      \
    {                                                                                                                  \
        return a < b ? b : a;                                                                                          \
    }
CUSIM_MINMAX(int)
CUSIM_MINMAX(unsigned)
CUSIM_MINMAX(long)
CUSIM_MINMAX(unsigned long)
CUSIM_MINMAX(long long)
CUSIM_MINMAX(unsigned long long)
#undef CUSIM_MINMAX
#define CUSIM_MINMAX(T, smaller, larger)                                                                               \
    static inline T min(T a, T b)                                                                                      \
    {                                                                                                                  \
        return smaller(a, b);                                                                                          \
    }                                                                                                                  \
    static inline T max(T a, T b)                                                                                      \
    {                                                                                                                  \
        return larger(a, b);                                                                                           \
    }
CUSIM_MINMAX(float, fminf, fmaxf)
CUSIM_MINMAX(double, fmin, fmax)
#undef CUSIM_MINMAX

#endif
