/* SPDX-License-Identifier: Apache-2.0
 *
 * argmax: one block, or a cluster, for each row of n elements. An element and its index are one 64-bit key that grows
 * with the element and falls with the index, so the largest key is the answer.
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

/* The key at the place of `p` in block `rank` of the cluster. */
__device__ __forceinline__ unsigned long long stem_argmax_of(const unsigned long long *p, int rank)
{
    const float *half = reinterpret_cast<const float *>(p);
    return (unsigned long long)__float_as_uint(stem_cluster_load(half + 1, rank)) << 32 |
           __float_as_uint(stem_cluster_load(half, rank));
}

/* CLUSTER blocks for each row: a vocabulary of logits is too much for one multiprocessor. */
template <typename T, int V, int CLUSTER> __device__ __forceinline__ void stem_argmax(const T *x, int *y, long long n)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    unsigned long long *shared = (unsigned long long *)stem_smem, best = 0; /* 33 */
    const unsigned chunks = (unsigned)(n / V), row = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    x += row * n;
    stem_wait();
    stem_launch_dependents();
#pragma unroll 4
    for (unsigned c = rank * blockDim.x + threadIdx.x; c < chunks; c += CLUSTER * blockDim.x) {
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
            shared[32] = best;
    }
    if (CLUSTER > 1) {
        __syncwarp();
        stem_cluster_sync();
        if (rank == 0 && warp == 0)
            best = stem_argmax_warp(lane < CLUSTER ? stem_argmax_of(shared + 32, lane) : 0);
        stem_cluster_sync(); /* no block may end while its memory is read */
    }
    if (rank == 0 && threadIdx.x == 0)
        y[row] = (int)(0xffffffffu - (unsigned)best);
}

#endif
