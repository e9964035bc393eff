/* The only inline PTX of the project: each instruction is a small function with two bodies, PTX for nvcc, and for the
 * simulator (CUSIM) an emulation over the warp, written from the fragment layouts of the PTX manual.
 *
 * Fragments, lane = 4 g + t: A[16 x K] row-major in pairs along k: a0 (g, 2t), a1 (g+8, 2t), and for K = 16 a2 (g,
 * 2t+8), a3 (g+8, 2t+8). B[K x 8]: b0 (k = 2t, column g), b1 (k = 2t+8). D[16 x 8] f32: d0, d1 (g, 2t and 2t+1), d2, d3
 * (g+8). A function for hardware newer than the architecture being compiled for traps: launchers choose by compute
 * capability. */
#ifndef LSI_KERNELS_CUDA_MMA_H
#define LSI_KERNELS_CUDA_MMA_H

#include "kernels/cuda/launch.h"

#ifdef CUSIM

/* ---- emulation ------------------------------------------------------------------------------ */

struct mma_f16 {
    static float value(uint16_t bits)
    {
        __half_raw raw;
        raw.x = bits;
        return __half2float(raw);
    }
};
struct mma_bf16 {
    static float value(uint16_t bits)
    {
        uint32_t wide = (uint32_t)bits << 16;
        float f;
        memcpy(&f, &wide, sizeof f);
        return f;
    }
};
struct mma_fragments {
    uint32_t a[4], b[2];
};

/* Every lane reads every lane's registers. Those are no memory on the device: hidden from ThreadSanitizer, and the
 * second meeting, which only keeps the frames alive until all have read, must not order memory either (a vote, no
 * __syncwarp). */
template <class Type, int K>
__attribute__((no_sanitize("thread"), noinline)) static void mma_emulate(float *d, const uint32_t *a, const uint32_t *b)
{
    mma_fragments mine, *all[32];
    for (int i = 0; i < K / 4; i++)
        mine.a[i] = a[i];
    for (int i = 0; i < K / 8; i++)
        mine.b[i] = b[i];
    cusim_warp(CUSIM_WARP_GATHER, FULL_MASK, &mine, all, sizeof mine, 0, 32, __FILE__, __LINE__);
    unsigned lane = cusim_thread->lane;
    for (int i = 0; i < 4; i++) {
        unsigned row = lane / 4 + (i >= 2 ? 8 : 0), column = lane % 4 * 2 + (i & 1);
        float sum = 0;
        for (unsigned k = 0; k < K; k++) {
            uint32_t pair_a = all[row % 8 * 4 + k % 8 / 2]->a[(row >= 8) + 2 * (k >= 8)];
            uint32_t pair_b = all[column * 4 + k % 8 / 2]->b[k >= 8];
            sum += Type::value((uint16_t)(pair_a >> (k & 1) * 16)) * Type::value((uint16_t)(pair_b >> (k & 1) * 16));
        }
        d[i] += sum;
    }
    unsigned vote = 0;
    cusim_warp(CUSIM_WARP_BALLOT, FULL_MASK, &vote, &vote, sizeof vote, 0, 32, __FILE__, __LINE__);
}

static inline void mma_f16_16816(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    mma_emulate<mma_f16, 16>(d, a, b);
}
static inline void mma_bf16_16816(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    mma_emulate<mma_bf16, 16>(d, a, b);
}
static inline void mma_f16_1688(float d[4], const uint32_t a[2], const uint32_t b[1])
{
    mma_emulate<mma_f16, 8>(d, a, b);
}

/* Matrix j's rows are at the addresses of lanes 8j..8j+7, 16 bytes each. */
template <int N, bool Transposed> static inline void ldmatrix_emulate(uint32_t *r, const void *row)
{
    const void *rows[32];
    if ((uintptr_t)row % 16 != 0)
        cusim_trap("ldmatrix of a row that is not 16-byte aligned", __FILE__, __LINE__);
    cusim_warp(CUSIM_WARP_GATHER, FULL_MASK, row, rows, sizeof row, 0, 32, __FILE__, __LINE__);
    unsigned lane = cusim_thread->lane;
    for (int j = 0; j < N; j++)
        for (unsigned low = 0; low < 2; low++) {
            unsigned from = Transposed ? lane % 4 * 2 + low : lane / 4,
                     element = Transposed ? lane / 4 : lane % 4 * 2 + low;
            memcpy((char *)&r[j] + 2 * low, (const char *)rows[j * 8 + from] + 2 * element, 2);
        }
}
static inline void ldmatrix_x2(uint32_t r[2], const void *row)
{
    ldmatrix_emulate<2, false>(r, row);
}
static inline void ldmatrix_x4(uint32_t r[4], const void *row)
{
    ldmatrix_emulate<4, false>(r, row);
}
static inline void ldmatrix_x2_trans(uint32_t r[2], const void *row)
{
    ldmatrix_emulate<2, true>(r, row);
}
static inline void ldmatrix_x4_trans(uint32_t r[4], const void *row)
{
    ldmatrix_emulate<4, true>(r, row);
}

static inline void cp_async_16(void *shared, const void *global)
{
    cusim_copy_async(shared, global, 16, __FILE__, __LINE__);
}
static inline void cp_async_commit()
{
    cusim_copy_commit();
}
template <int N> static inline void cp_async_wait()
{
    cusim_copy_wait(N);
}

static inline uint64_t global_timer_ns()
{
    return cusim_global_timer();
}

#else

/* ---- hardware ------------------------------------------------------------------------------- */

#define LSI_DEVICE static __device__ __forceinline__
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define LSI_SM80(...) __trap()
#else
#define LSI_SM80(...) __VA_ARGS__
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 750
#define LSI_SM75(...) __trap()
#else
#define LSI_SM75(...) __VA_ARGS__
#endif

/* d[16 x 8] += a[16 x 16] b[16 x 8]; sm_80. */
LSI_DEVICE void mma_f16_16816(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    LSI_SM80(asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                          "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])));
}
LSI_DEVICE void mma_bf16_16816(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    LSI_SM80(asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                          "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])));
}
/* d[16 x 8] += a[16 x 8] b[8 x 8]; sm_75. */
LSI_DEVICE void mma_f16_1688(float d[4], const uint32_t a[2], const uint32_t b[1])
{
    LSI_SM75(
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(b[0])));
}

/* 8 x 8 matrices of 16-bit elements from shared memory; row: the address of one 16-byte row per lane; sm_75. */
LSI_DEVICE unsigned lsi_shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}
LSI_DEVICE void ldmatrix_x2(uint32_t r[2], const void *row)
{
    LSI_SM75(asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                          : "=r"(r[0]), "=r"(r[1])
                          : "r"(lsi_shared_address(row))
                          : "memory"));
}
LSI_DEVICE void ldmatrix_x4(uint32_t r[4], const void *row)
{
    LSI_SM75(asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                          : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                          : "r"(lsi_shared_address(row))
                          : "memory"));
}
LSI_DEVICE void ldmatrix_x2_trans(uint32_t r[2], const void *row)
{
    LSI_SM75(asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                          : "=r"(r[0]), "=r"(r[1])
                          : "r"(lsi_shared_address(row))
                          : "memory"));
}
LSI_DEVICE void ldmatrix_x4_trans(uint32_t r[4], const void *row)
{
    LSI_SM75(asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                          : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                          : "r"(lsi_shared_address(row))
                          : "memory"));
}

/* 16 bytes from global to shared memory behind the thread's back, both 16-byte aligned. wait<N>: until at most the N
 * newest committed groups are under way; what others copied is visible only after a barrier besides. sm_80. */
LSI_DEVICE void cp_async_16(void *shared, const void *global)
{
    LSI_SM80(asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(lsi_shared_address(shared)), "l"(global)
                          : "memory"));
}
LSI_DEVICE void cp_async_commit()
{
    LSI_SM80(asm volatile("cp.async.commit_group;" ::: "memory"));
}
template <int N> LSI_DEVICE void cp_async_wait()
{
    LSI_SM80(asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"));
}

/* The device's clock in nanoseconds: common to all its streams. */
LSI_DEVICE uint64_t global_timer_ns()
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

#undef LSI_SM80
#undef LSI_SM75

#endif
#endif
