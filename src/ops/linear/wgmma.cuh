/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of warpgroups (wgmma, sm_90a): what their kernels share. STEM_WGMMA is defined where there are any; elsewhere a
 * kernel of the same launch has another body. Operands lie in shared memory in rows of 128 bytes, swizzled: 16-byte piece c of
 * row r is at c ^ r % 8, and eight rows begin at a multiple of 1024 bytes.
 */
#ifndef STEM_WGMMA_CUH
#define STEM_WGMMA_CUH

/* Where piece c of row r is. */
__device__ __forceinline__ int stem_wgmma_place(int r, int c)
{
    return r * 128 + ((c ^ (r & 7)) << 4);
}

#ifdef STEM_EMULATED
#define STEM_WGMMA 1
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define STEM_WGMMA 1

/* A barrier of a block's warpgroup `which`. */
__device__ __forceinline__ void stem_warpgroup_sync(int which)
{
    asm volatile("bar.sync %0, 128;" ::"r"(1 + which) : "memory");
}
/* A barrier of the first warpgroup. */
__device__ __forceinline__ void stem_warpgroup_sync()
{
    asm volatile("bar.sync 1, 128;" ::: "memory");
}
/* What this thread wrote to shared memory is what wgmma reads. Before the barrier between them. */
__device__ __forceinline__ void stem_wgmma_written()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- wgmma ---- */

typedef unsigned long long stem_wgmma_matrix;

/* Rows of 128 bytes, the eight rows of a swizzle after each other; slabs, where a matrix has columns of several,
 * STRIDE bytes apart. */
__device__ __forceinline__ stem_wgmma_matrix stem_wgmma_at(unsigned address, int stride)
{
    return (stem_wgmma_matrix)(address >> 4) | (stem_wgmma_matrix)(stride >> 4) << 16 |
           (stem_wgmma_matrix)(1024 >> 4) << 32 | 1ull << 62;
}
__device__ __forceinline__ void stem_wgmma_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void stem_wgmma_end()
{
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}
/* The compiler may not move accesses to the sums across this. */
template <int N> __device__ __forceinline__ void stem_wgmma_hold(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

#define STEM_D8(i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define STEM_D32(i) STEM_D8(i), STEM_D8(i + 8), STEM_D8(i + 16), STEM_D8(i + 24)

#define STEM_WGMMA_KEYS(TYPE)                                                                                         \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                                                          \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE                                          \
                 " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                            \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "                   \
                 "%32, %33, p, 1, 1, 0, 0;\n}"                                                                         \
                 : STEM_D32(0)                                                                                        \
                 : "l"(a), "l"(b), "r"(add))

/* d of 64 rows and 64 columns: element 4j + c of a thread is row 16 * warp + 8 * (c / 2) + lane / 4, column 8j + 2 *
 * (lane % 4) + c % 2. Both operands have k along their rows. */
__device__ __forceinline__ void stem_wgmma_keys(const __nv_bfloat16 *, float (&d)[32], stem_wgmma_matrix a,
                                                stem_wgmma_matrix b, int add)
{
    STEM_WGMMA_KEYS("bf16");
}
__device__ __forceinline__ void stem_wgmma_keys(const __half *, float (&d)[32], stem_wgmma_matrix a,
                                                stem_wgmma_matrix b, int add)
{
    STEM_WGMMA_KEYS("f16");
}

/* d of 64 rows and 8 * NT columns, 4 * NT elements of a thread: number 4j + c is row 16 * warp + 8 * (c / 2) + lane / 4, column 8j + 2 *
 * (lane % 4) + c % 2. Codes of e4m3, 32 along the rows of both operands. */
__device__ __forceinline__ void stem_wgmma_f8(float (&d)[4], stem_wgmma_matrix a, stem_wgmma_matrix b, int add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 "
                 "{%0, %1, %2, %3}, "
                 "%4, %5, p, 1, 1;\n}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "l"(a), "l"(b), "r"(add));
}
__device__ __forceinline__ void stem_wgmma_f8(float (&d)[8], stem_wgmma_matrix a, stem_wgmma_matrix b, int add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7}, "
                 "%8, %9, p, 1, 1;\n}"
                 : STEM_D8(0)
                 : "l"(a), "l"(b), "r"(add));
}
__device__ __forceinline__ void stem_wgmma_f8(float (&d)[16], stem_wgmma_matrix a, stem_wgmma_matrix b, int add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
                 "%16, %17, p, 1, 1;\n}"
                 : STEM_D8(0), STEM_D8(8)
                 : "l"(a), "l"(b), "r"(add));
}
__device__ __forceinline__ void stem_wgmma_f8(float (&d)[32], stem_wgmma_matrix a, stem_wgmma_matrix b, int add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, p, 1, 1;\n}"
                 : STEM_D32(0)
                 : "l"(a), "l"(b), "r"(add));
}

#endif

#ifdef STEM_WGMMA
/* Part = a b over 128 codes of k, which is what a pair of scales is for: four of these products, and their end. */
template <int N> __device__ __forceinline__ void stem_wgmma_f8_128(float (&part)[N], stem_wgmma_matrix a, stem_wgmma_matrix b)
{
    stem_wgmma_hold(part);
    stem_wgmma_begin();
#pragma unroll
    for (int i = 0; i < 4; i++)
        stem_wgmma_f8(part, a + 2 * i, b + 2 * i, i > 0);
    stem_wgmma_end();
    stem_wgmma_hold(part);
}
#endif

#endif
