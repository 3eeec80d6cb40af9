/* SPDX-License-Identifier: Apache-2.0
 *
 * rmsnorm: a block does one row of n elements, `step` apart in x (1 if V > 1), in chunks of V. With K > 0 each thread
 * keeps its K chunks in registers between the two passes (n <= K * V * blockDim.x); with K == 0 it reads them again.
 */
#ifndef STEM_OPS_RMSNORM_CUH
#define STEM_OPS_RMSNORM_CUH

template <int V, typename T> __device__ __forceinline__ float stem_squares(const stem_vec<T, V> &v)
{
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < V; k++) {
        float f = stem_float(v.at[k]);
        sum += f * f;
    }
    return sum;
}

template <int V, typename T, typename W>
__device__ __forceinline__ stem_vec<T, V> stem_scaled(const stem_vec<T, V> &v, const stem_vec<W, V> &w, float scale)
{
    stem_vec<T, V> r;
#pragma unroll
    for (int k = 0; k < V; k++)
        r.at[k] = stem_round<T>::from(stem_float(v.at[k]) * scale * stem_float(w.at[k]));
    return r;
}

/* The same of a row that `sum(row, c)` makes chunk by chunk; it is stored to h. `sum` reads nothing of h and y. */
template <typename T, typename W, int V, int K, typename Sum>
__device__ __forceinline__ void stem_add_rmsnorm(const Sum &made, const W *weight, T *h, T *y, long long n, float eps)
{
    __shared__ float shared[33];
    const int chunks = (int)(n / V);
    constexpr int KEPT = K > 0 ? K : 1;
    stem_vec<T, V> v[KEPT];
    float sum = 0.0f;
    h += blockIdx.x * n;
    y += blockIdx.x * n;
    stem_launch_dependents();
    stem_wait();
    if (K > 0) {
        stem_vec<W, V> w[KEPT];
#pragma unroll
        for (int k = 0; k < KEPT; k++) {
            int c = threadIdx.x + k * blockDim.x;
            if (c < chunks) {
                v[k] = made(blockIdx.x, c);
                w[k] = stem_load<V>(weight + (long long)c * V);
                stem_store(h + (long long)c * V, v[k]);
                sum += stem_squares<V>(v[k]);
            }
        }
        float scale = rsqrtf(stem_block_sum(sum, shared) / (float)n + eps);
#pragma unroll
        for (int k = 0; k < KEPT; k++) {
            int c = threadIdx.x + k * blockDim.x;
            if (c < chunks)
                stem_store(y + (long long)c * V, stem_scaled<V>(v[k], w[k], scale));
        }
    } else {
        for (int c = threadIdx.x; c < chunks; c += blockDim.x) {
            v[0] = made(blockIdx.x, c);
            stem_store(h + (long long)c * V, v[0]);
            sum += stem_squares<V>(v[0]);
        }
        float scale = rsqrtf(stem_block_sum(sum, shared) / (float)n + eps);
        for (int c = threadIdx.x; c < chunks; c += blockDim.x) /* each thread reads what it wrote */
            stem_store(y + (long long)c * V, stem_scaled<V>(stem_load<V>(h + (long long)c * V),
                                                            stem_load<V>(weight + (long long)c * V), scale));
    }
}

/* A thread's chunks of x and of the weight; the sum of x's squares. */
template <int V, int KEPT, typename T, typename W>
__device__ __forceinline__ float stem_norm_load(const T *x, const W *weight, int chunks, long long step,
                                                stem_vec<T, V> (&v)[KEPT], stem_vec<W, V> (&w)[KEPT])
{
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        int c = threadIdx.x + k * blockDim.x;
        if (c < chunks) {
            v[k] = stem_load<V>(x + (long long)c * V * step);
            w[k] = stem_load<V>(weight + (long long)c * V);
            sum += stem_squares<V>(v[k]);
        }
    }
    return sum;
}

template <typename T, typename W, int V, int K>
__device__ __forceinline__ void stem_rmsnorm(const T *x, const W *weight, T *y, long long n, long long step,
                                             float eps)
{
    __shared__ float shared[33];
    const int chunks = (int)(n / V);
    constexpr int KEPT = K > 0 ? K : 1;
    stem_vec<T, V> v[KEPT];
    float sum = 0.0f;
    stem_launch_dependents();
    stem_wait();
    if (K > 0) {
        stem_vec<W, V> w[KEPT];
        sum = stem_norm_load<V, KEPT>(x, weight, chunks, step, v, w);
        float scale = rsqrtf(stem_block_sum(sum, shared) / (float)n + eps);
#pragma unroll
        for (int k = 0; k < KEPT; k++) {
            int c = threadIdx.x + k * blockDim.x;
            if (c < chunks)
                stem_store(y + (long long)c * V, stem_scaled<V>(v[k], w[k], scale));
        }
    } else {
        for (int c = threadIdx.x; c < chunks; c += blockDim.x)
            sum += stem_squares<V>(stem_load<V>(x + (long long)c * V * step));
        float scale = rsqrtf(stem_block_sum(sum, shared) / (float)n + eps);
        for (int c = threadIdx.x; c < chunks; c += blockDim.x)
            stem_store(y + (long long)c * V, stem_scaled<V>(stem_load<V>(x + (long long)c * V * step),
                                                            stem_load<V>(weight + (long long)c * V), scale));
    }
}

#endif
