/* SPDX-License-Identifier: BSD-3-Clause */
/* The instructions that Hopper (sm_90a) has beyond C++, one function each.
 *
 * How they work together.  Tiles come from memory by TMA: one thread names a box of a
 * tensor and the copy engine writes it to shared memory, then tells an mbarrier.
 * Products of tiles are done by warp groups, four warps whose first has a number
 * divisible by 4, with wgmma: asynchronous, operands in shared memory (A in registers
 * if wanted), sums in registers.  What a thread writes to shared memory itself, TMA and
 * wgmma see only after async_fence().
 *
 * Tiles in shared memory are panels of 64 16-bit elements (128 bytes) a row, rows one
 * after the other, and each 16-byte chunk c of row r is at chunk c ^ (r % 8): the
 * "128-byte swizzle" of TMA and wgmma, which avoids bank conflicts in either direction.
 * A wider tile is several panels, one after the other.  Panels begin at multiples of
 * 1024 bytes.
 *
 * PTX ISA 8.0: mbarrier, cp.async.bulk.tensor, wgmma, setmaxnreg. */
#ifndef MDSK_HOPPER_PTX_CUH
#define MDSK_HOPPER_PTX_CUH

#include <stdint.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <type_traits>

namespace mdsk::hopper
{

enum { PANEL = 64, PANEL_ROW = 128 }; /* elements, and bytes, of a panel's row */

__device__ inline uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* ---- mbarriers ----
 *
 * A barrier's phase ends when `count` arrivals and all bytes that were announced have
 * come.  Phases are numbered 0, 1, 2, ...; wait(parity) returns when the phase of that
 * parity has ended, given that the caller is at most one phase behind.  So a consumer
 * of a ring of stages waits for parity (round % 2), and a producer, which finds all
 * stages empty at first, for the parity before: (round % 2) ^ 1.
 *
 * An arrival comes after what that thread did before, not what others did: so each
 * thread that has read or written arrives itself. */

__device__ inline void barrier_init(uint64_t *b, uint32_t count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)),
                 "r"(count)
                 : "memory");
}

/* Make barriers just initialised visible to TMA; then synchronise the threads. */
__device__ inline void barrier_init_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void barrier_arrive(uint64_t *b)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b))
                 : "memory");
}

/* Arrive, and announce bytes that copies will bring in this phase. */
__device__ inline void barrier_expect(uint64_t *b, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     shared_address(b)),
                 "r"(bytes)
                 : "memory");
}

__device__ inline void barrier_wait(uint64_t *b, uint32_t parity)
{
    uint32_t at = shared_address(b), done;

    do
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(at), "r"(parity)
                     : "memory");
    while (!done);
}

/* A ring of stages as producer and consumers walk it: which stage, and the parity of
 * its round. */
template <int STAGES> struct ring {
    int stage = 0;
    uint32_t round = 0;

    __device__ void next()
    {
        if (++stage == STAGES) {
            stage = 0;
            round ^= 1;
        }
    }
};

/* Barrier `id` (1 to 15; 0 is __syncthreads) of `threads` threads: those that sync wait
 * for all, those that arrive do not wait. */
__device__ inline void named_sync(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ inline void named_arrive(int id, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* ---- the copy engine (TMA) ----
 *
 * map: a CUtensorMap (tensor_map.h), a __grid_constant__ parameter of the kernel.
 * Coordinates, innermost first, are in elements and may be outside the tensor: zeros
 * are read there, nothing is written.  One thread calls. */

__device__ inline void prefetch_map(const void *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* A box to shared memory; its bytes count at barrier b. */
__device__ inline void load_box(void *to, const void *map, uint64_t *b, int x, int y,
                                int z, int w)
{
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global"
        ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(
            shared_address(to)),
        "l"(map), "r"(shared_address(b)), "r"(x), "r"(y), "r"(z), "r"(w)
        : "memory");
}

__device__ inline void store_box(const void *map, const void *from, int x, int y, int z,
                                 int w)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group"
                 " [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(shared_address(from)), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

/* Add a box of floats to memory; each element once, so the sum is exact. */
__device__ inline void add_box(const void *map, const void *from, int x, int y, int z,
                               int w)
{
    asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group"
                 " [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(shared_address(from)), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

/* Add floats to memory that is contiguous: both ends and bytes multiples of 16. */
__device__ inline void add_floats(float *to, const void *from, uint32_t bytes)
{
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32"
                 " [%0], [%1], %2;" ::"l"(to),
                 "r"(shared_address(from)), "r"(bytes)
                 : "memory");
}

/* Contiguous bytes to shared memory: addresses and bytes multiples of 16. */
__device__ inline void load_bytes(void *to, const void *from, uint32_t bytes,
                                  uint64_t *b)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(b))
                 : "memory");
}

/* Stores and adds since the last commit are a group, of the thread that issued them. */
__device__ inline void store_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Until at most N groups still have to read shared memory. */
template <int N> __device__ inline void store_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

/* Until at most N groups are not complete. */
template <int N> __device__ inline void store_wait()
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

/* What this thread wrote to shared memory is seen by TMA and wgmma that are started
 * later, after a barrier if by another thread. */
__device__ inline void async_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- registers ---- */

/* Registers of each thread of this warp group: from the pool that others gave back, or
 * to it.  The kernel needs __launch_bounds__(threads, 1). */
template <int N> __device__ inline void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> __device__ inline void give_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

/* Two values as 16-bit ones, the first in the lower half. */
template <class T> __device__ inline uint32_t pack(float low, float high)
{
    uint32_t out;

    if constexpr (std::is_same_v<T, __nv_bfloat16>)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
}

/* 2^x, to 2 ulp. */
__device__ inline float exp2_fast(float x)
{
    float out;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
}

/* Four 8 x 8 matrices of 16-bit elements to shared memory.  Thread t gives the address
 * of row t % 8 of matrix t / 8, and of matrix i two elements in x_i: of row t / 4,
 * columns 2 (t % 4) and the next. */
__device__ inline void store_matrices(uint32_t at, uint32_t x0, uint32_t x1,
                                      uint32_t x2, uint32_t x3)
{
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
        "r"(x0), "r"(x1), "r"(x2), "r"(x3)
        : "memory");
}

/* The same from shared memory. */
__device__ inline void load_matrices(uint32_t at, uint32_t *x)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(at)
                 : "memory");
}

/* The place of 16-byte chunk c of row r in a panel, in bytes. */
__device__ inline uint32_t panel_chunk(uint32_t r, uint32_t c)
{
    return r * PANEL_ROW + ((c ^ (r & 7)) << 4);
}

/* ---- products of tiles (wgmma) ----
 *
 * d [64, N] += A [64, 16] B [16, N], for 16-bit A and B; f32 sums.  Thread t of warp w
 * of the group has of d, for j = 0 .. N/8 - 1,
 *   d[4j], d[4j + 1]      row 16w + t/4,     columns 8j + 2(t % 4) and the next
 *   d[4j + 2], d[4j + 3]  row 16w + t/4 + 8, the same columns
 * and of A, if it is in registers, two elements in each of
 *   a[0], a[1]  rows t/4 and + 8, columns 2(t % 4) and the next
 *   a[2], a[3]  the same rows, columns + 8
 * (rows within the 16 of warp w).  So d[8i .. 8i + 7], packed in pairs, are A for k =
 * 16i .. 16i + 15 of a next product.
 *
 * An operand in shared memory is named by a descriptor of its first element:
 *   by_k(p)        rows are m (of A) or n (of B), and k runs along the row, in a panel.
 *                  16 further k: + 2; the next panel: + its bytes / 16
 *   by_mn(p, next) rows are k, and m or n run along the row; `next` bytes to the panel
 *                  with 64 further m or n.  16 further k: + 128
 * and the product is told so by the template arguments mn_a and mn_b ("transposed").
 *
 *   wgmma_fence(); products; wgmma_commit(); ...; wgmma_wait<0>(); hold(d);
 *
 * fence: registers written before are seen by the products.  wait<N>: until at most N
 * commits are pending.  Between product and wait nothing may touch d or a; hold(d)
 * keeps the compiler from moving reads of d up. */

__device__ inline uint64_t by_k(const void *p)
{
    return (uint64_t)(shared_address(p) >> 4) | (uint64_t)1 << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

__device__ inline uint64_t by_mn(const void *p, uint32_t next)
{
    return (uint64_t)(shared_address(p) >> 4) | (uint64_t)(next >> 4) << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

__device__ inline void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int N> __device__ inline void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

template <int N> __device__ inline void hold(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

template <int N> __device__ inline void hold(uint32_t (&a)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+r"(a[i])::"memory");
}

/* Operands of the assembler: d's names and registers, in parts. */
#define MDSK_N0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define MDSK_N16                                                                       \
    ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, "              \
    "%29, %30, %31"
#define MDSK_N32                                                                       \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, "              \
    "%45, %46, %47"
#define MDSK_N48                                                                       \
    ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, "              \
    "%61, %62, %63"
#define MDSK_N64                                                                       \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "              \
    "%77, %78, %79"
#define MDSK_N80                                                                       \
    ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, "              \
    "%93, %94, %95"
#define MDSK_N96                                                                       \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "           \
    "%108, %109, %110, %111"
#define MDSK_N112                                                                      \
    ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "             \
    "%123, %124, %125, %126, %127"
#define MDSK_N32_8 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define MDSK_N16_8 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define MDSK_N48_8 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define MDSK_N80_8 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define MDSK_D8(i)                                                                     \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]),        \
        "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define MDSK_D16(i) MDSK_D8(i), MDSK_D8(i + 8)
#define MDSK_D32(i) MDSK_D16(i), MDSK_D16(i + 16)
#define MDSK_D64(i) MDSK_D32(i), MDSK_D32(i + 32)

/* For each N: the names and registers of d, and the numbers of the operands after d. */
#define MDSK_WGMMA_SHAPES(CASE)                                                        \
    CASE(32, (MDSK_N0), (MDSK_D16(0)), 16, 17, 18, 19, 20, 21, 22)                     \
    CASE(48, (MDSK_N0 MDSK_N16_8), (MDSK_D16(0), MDSK_D8(16)), 24, 25, 26, 27, 28, 29, \
         30)                                                                           \
    CASE(64, (MDSK_N0 MDSK_N16), (MDSK_D32(0)), 32, 33, 34, 35, 36, 37, 38)            \
    CASE(80, (MDSK_N0 MDSK_N16 MDSK_N32_8), (MDSK_D32(0), MDSK_D8(32)), 40, 41, 42,    \
         43, 44, 45, 46)                                                               \
    CASE(96, (MDSK_N0 MDSK_N16 MDSK_N32), (MDSK_D32(0), MDSK_D16(32)), 48, 49, 50, 51, \
         52, 53, 54)                                                                   \
    CASE(112, (MDSK_N0 MDSK_N16 MDSK_N32 MDSK_N48_8),                                  \
         (MDSK_D32(0), MDSK_D16(32), MDSK_D8(48)), 56, 57, 58, 59, 60, 61, 62)         \
    CASE(128, (MDSK_N0 MDSK_N16 MDSK_N32 MDSK_N48), (MDSK_D64(0)), 64, 65, 66, 67, 68, \
         69, 70)                                                                       \
    CASE(160, (MDSK_N0 MDSK_N16 MDSK_N32 MDSK_N48 MDSK_N64),                           \
         (MDSK_D64(0), MDSK_D16(64)), 80, 81, 82, 83, 84, 85, 86)                      \
    CASE(176, (MDSK_N0 MDSK_N16 MDSK_N32 MDSK_N48 MDSK_N64 MDSK_N80_8),                \
         (MDSK_D64(0), MDSK_D16(64), MDSK_D8(80)), 88, 89, 90, 91, 92, 93, 94)         \
    CASE(192, (MDSK_N0 MDSK_N16 MDSK_N32 MDSK_N48 MDSK_N64 MDSK_N80),                  \
         (MDSK_D64(0), MDSK_D32(64)), 96, 97, 98, 99, 100, 101, 102)                   \
    CASE(256,                                                                          \
         (MDSK_N0 MDSK_N16 MDSK_N32 MDSK_N48 MDSK_N64 MDSK_N80 MDSK_N96 MDSK_N112),    \
         (MDSK_D64(0), MDSK_D64(64)), 128, 129, 130, 131, 132, 133, 134)

#define MDSK_OPEN(...) __VA_ARGS__
#define MDSK_WGMMA_SS(TYPE, N, NAMES, D, n0, n1, n2, n3, n4)                           \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #n2 ", 0;\n"                     \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE       \
                 " {" MDSK_OPEN NAMES "}, %" #n0 ", %" #n1 ", p, 1, 1, %" #n3          \
                 ", %" #n4 ";\n}"                                                      \
                 : MDSK_OPEN D                                                         \
                 : "l"(a), "l"(b), "r"(accumulate), "n"(mn_a), "n"(mn_b))
#define MDSK_WGMMA_RS(TYPE, N, NAMES, D, n0, n1, n2, n3, n4, n5, n6)                   \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #n5 ", 0;\n"                     \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE       \
                 " {" MDSK_OPEN NAMES "}, {%" #n0 ", %" #n1 ", %" #n2 ", %" #n3        \
                 "}, %" #n4 ", p, 1, 1, %" #n6 ";\n}"                                  \
                 : MDSK_OPEN D                                                         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                 \
                   "r"(accumulate), "n"(mn_b))

/* A and B in shared memory.  T: bf16 or f16.  accumulate 0: d = A B. */
template <class T, int N, int mn_a, int mn_b>
__device__ inline void wgmma(float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate)
{
#define MDSK_CASE(n, NAMES, D, n0, n1, n2, n3, n4, n5, n6)                             \
    if constexpr (N == n && std::is_same_v<T, __nv_bfloat16>)                          \
        MDSK_WGMMA_SS("bf16", n, NAMES, D, n0, n1, n2, n3, n4);                        \
    else if constexpr (N == n)                                                         \
        MDSK_WGMMA_SS("f16", n, NAMES, D, n0, n1, n2, n3, n4);
    MDSK_WGMMA_SHAPES(MDSK_CASE)
#undef MDSK_CASE
}

/* A in registers: a[0 .. 3]. */
template <class T, int N, int mn_b>
__device__ inline void wgmma(float (&d)[N / 2], const uint32_t *a, uint64_t b,
                             int accumulate)
{
#define MDSK_CASE(n, NAMES, D, n0, n1, n2, n3, n4, n5, n6)                             \
    if constexpr (N == n && std::is_same_v<T, __nv_bfloat16>)                          \
        MDSK_WGMMA_RS("bf16", n, NAMES, D, n0, n1, n2, n3, n4, n5, n6);                \
    else if constexpr (N == n)                                                         \
        MDSK_WGMMA_RS("f16", n, NAMES, D, n0, n1, n2, n3, n4, n5, n6);
    MDSK_WGMMA_SHAPES(MDSK_CASE)
#undef MDSK_CASE
}

#undef MDSK_WGMMA_SHAPES
#undef MDSK_WGMMA_SS
#undef MDSK_WGMMA_RS
#undef MDSK_OPEN

} // namespace mdsk::hopper

#endif
