/* SPDX-License-Identifier: Apache-2.0
 *
 * argmax: one block for each row of n elements. An element and its index are one 64-bit key that grows with the
 * element and falls with the index, so the largest key is the answer.
 */
#ifndef STEM_OPS_ARGMAX_CUH
#define STEM_OPS_ARGMAX_CUH

__device__ __forceinline__ unsigned long long stem_argmax_key(float f, unsigned index)
{
    unsigned u = __float_as_uint(f + 0.0f); /* -0 becomes +0 */
    u = u >> 31 ? ~u : u | 0x80000000u;
    if (f != f)
        u = 0xffffffffu;
    return (unsigned long long)u << 32 | (0xffffffffu - index);
}

__device__ __forceinline__ unsigned long long stem_argmax_warp(unsigned long long best)
{
#pragma unroll
    for (int d = 16; d; d >>= 1) {
        unsigned long long other = __shfl_xor_sync(0xffffffffu, best, d);
        best = other > best ? other : best;
    }
    return best;
}

template <typename T, int V> __device__ __forceinline__ void stem_argmax(const T *x, int *y, long long n)
{
    __shared__ unsigned long long shared[32];
    unsigned long long best = 0;
    const unsigned chunks = (unsigned)(n / V);
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    x += blockIdx.x * n;
    stem_wait();
    stem_launch_dependents();
    for (unsigned c = threadIdx.x; c < chunks; c += blockDim.x) {
        stem_vec<T, V> v = stem_load<V>(x + (long long)c * V);
#pragma unroll
        for (int k = 0; k < V; k++) {
            unsigned long long key = stem_argmax_key(stem_float(v.at[k]), c * V + k);
            best = key > best ? key : best;
        }
    }
    best = stem_argmax_warp(best);
    if (lane == 0)
        shared[warp] = best;
    __syncthreads();
    if (warp == 0) {
        best = stem_argmax_warp(lane < blockDim.x >> 5 ? shared[lane] : 0);
        if (lane == 0)
            y[blockIdx.x] = (int)(0xffffffffu - (unsigned)best);
    }
}

#endif
