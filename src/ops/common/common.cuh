/* SPDX-License-Identifier: Apache-2.0
 *
 * What every device header may use: conversions between element types and f32, 16-byte accesses, reductions, and
 * programmatic dependent launch. Compiles under NVRTC: includes the toolkit's type headers and nothing else.
 */
#ifndef STEM_OPS_COMMON_CUH
#define STEM_OPS_COMMON_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

/* 1: kernels let their successor start early. The wait is always there: without the launch attribute it costs
 * nothing. The emitter defines this from the schedule. */
#ifndef STEM_PDL
#define STEM_PDL 0
#endif

/* Waits until the kernels that this one depends on have completed and their writes are visible. Must come before the
 * first access to anything that another kernel of the program reads or writes, weights excepted. Some thread of every
 * kernel calls it on every path: the end of a kernel implies the end of all before it. */
__device__ __forceinline__ void stem_wait()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Lets the next kernel's blocks be scheduled; its own stem_wait() still waits for this kernel's end. Comes after
 * stem_wait(), so that a kernel starts only when all that precedes its predecessor has completed; or before it, in
 * kernels that say so (`ahead` in ops/op.h). */
__device__ __forceinline__ void stem_launch_dependents()
{
#if STEM_PDL && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/* Past the first-level cache: what another kernel wrote while this one could already have been running. Volatile: the
 * compiler takes an ordinary load past the cache for a pure function of its address, and moves it to before the wait. */
template <typename T> __device__ __forceinline__ T stem_load_fresh(const T *p)
{
#if defined(__CUDA_ARCH__)
    T v;
    static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8, "one access");
    if (sizeof(T) == 2)
        asm volatile("ld.global.cg.u16 %0, [%1];" : "=h"(*reinterpret_cast<unsigned short *>(&v)) : "l"(p));
    else if (sizeof(T) == 4)
        asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(*reinterpret_cast<unsigned *>(&v)) : "l"(p));
    else
        asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(*reinterpret_cast<unsigned long long *>(&v)) : "l"(p));
    return v;
#else
    return *p;
#endif
}

/* ---- conversions: to f32 exactly, from f32 to nearest even ---- */

__device__ __forceinline__ float stem_float(float x) { return x; }
__device__ __forceinline__ float stem_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float stem_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float stem_float(__nv_fp8_e4m3 x) { return static_cast<float>(x); }
__device__ __forceinline__ float stem_float(int x) { return __int2float_rn(x); }
__device__ __forceinline__ float stem_float(long long x) { return __ll2float_rn(x); }
__device__ __forceinline__ float stem_float(unsigned char x) { return static_cast<float>(x); }

template <typename T> struct stem_round;
template <> struct stem_round<float> {
    static __device__ __forceinline__ float from(float x) { return x; }
};
template <> struct stem_round<__half> {
    static __device__ __forceinline__ __half from(float x) { return __float2half_rn(x); }
};
template <> struct stem_round<__nv_bfloat16> {
    static __device__ __forceinline__ __nv_bfloat16 from(float x) { return __float2bfloat16_rn(x); }
};
/* Saturates at 448; NaN stays NaN. */
template <> struct stem_round<__nv_fp8_e4m3> {
    static __device__ __forceinline__ __nv_fp8_e4m3 from(float x) { return __nv_fp8_e4m3(x); }
};
/* Integers: to nearest even, clamped to the range; NaN gives 0. */
template <> struct stem_round<int> {
    static __device__ __forceinline__ int from(float x) { return __float2int_rn(x); }
};
template <> struct stem_round<long long> {
    static __device__ __forceinline__ long long from(float x) { return x != x ? 0 : __float2ll_rn(x); }
};
template <> struct stem_round<unsigned char> {
    static __device__ __forceinline__ unsigned char from(float x)
    {
        int i = __float2int_rn(x);
        return static_cast<unsigned char>(i < 0 ? 0 : i > 255 ? 255 : i);
    }
};

/* One integer type as another: exactly, clamped to the range. */
template <typename T> struct stem_clamp;
template <> struct stem_clamp<long long> {
    static __device__ __forceinline__ long long from(long long x) { return x; }
};
template <> struct stem_clamp<int> {
    static __device__ __forceinline__ int from(long long x)
    {
        return static_cast<int>(x < -0x80000000ll ? -0x80000000ll : x > 0x7fffffffll ? 0x7fffffffll : x);
    }
};
template <> struct stem_clamp<unsigned char> {
    static __device__ __forceinline__ unsigned char from(long long x)
    {
        return static_cast<unsigned char>(x < 0 ? 0 : x > 255 ? 255 : x);
    }
};

/* ---- 16-byte accesses ---- */

/* N elements that are moved at once; N * sizeof(T) is 16, 8, 4, 2 or 1 and the address a multiple of it. */
template <typename T, int N> struct alignas(N * sizeof(T)) stem_vec {
    T at[N];
};

template <int N, typename T> __device__ __forceinline__ stem_vec<T, N> stem_load(const T *p)
{
    return *reinterpret_cast<const stem_vec<T, N> *>(p);
}

template <int N, typename T> __device__ __forceinline__ void stem_store(T *p, const stem_vec<T, N> &v)
{
    *reinterpret_cast<stem_vec<T, N> *>(p) = v;
}

/* ---- reductions: fixed order, so the same input gives the same bits ---- */

__device__ __forceinline__ float stem_warp_sum(float x)
{
#pragma unroll
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

__device__ __forceinline__ float stem_warp_max(float x)
{
#pragma unroll
    for (int d = 16; d; d >>= 1)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}

/* The block's sum in every thread. blockDim.x a multiple of 32, at most 1024; y and z are 1. `shared` has 33 floats
 * and may be used again after the call without a barrier. */
__device__ __forceinline__ float stem_block_sum(float x, float *shared)
{
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    x = stem_warp_sum(x);
    if (lane == 0)
        shared[warp] = x;
    __syncthreads();
    if (warp == 0) {
        float y = lane < warps ? shared[lane] : 0.0f;
        y = stem_warp_sum(y);
        if (lane == 0)
            shared[32] = y;
    }
    __syncthreads();
    return shared[32];
}

#endif
