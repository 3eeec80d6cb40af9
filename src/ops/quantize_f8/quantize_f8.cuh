/* SPDX-License-Identifier: Apache-2.0
 *
 * quantize_f8: a warp does 128 columns of a row of k, four for each lane, in accesses of V. The last columns of a row may be
 * fewer.
 */
#ifndef STEM_OPS_QUANTIZE_F8_CUH
#define STEM_OPS_QUANTIZE_F8_CUH

/* Codes of V neighbours. */
template <int V> __device__ __forceinline__ stem_vec<unsigned char, V> stem_f8_codes(const float (&v)[V], float up)
{
    stem_vec<unsigned char, V> r;
#pragma unroll
    for (int i = 0; i < V; i += 2) {
        unsigned two = stem_f8_pair(v[i] * up, V > 1 ? v[V > 1 ? i + 1 : i] * up : 0.0f);
        r.at[i] = (unsigned char)(two & 255);
        if (V > 1)
            r.at[V > 1 ? i + 1 : i] = (unsigned char)(two >> 8);
    }
    return r;
}

template <typename T, int V>
__device__ __forceinline__ void stem_quantize_f8(const T *x, unsigned char *code, float *scale, long long rows, long long k)
{
    int lane = threadIdx.x & 31;
    long long blocks = (k + 127) / 128, own = (long long)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    long long row = own / blocks, first = (own - row * blocks) * 128 + lane * V;
    float v[4 / V][V], most = 0.0f;
    stem_launch_dependents();
    stem_wait();
    if (row >= rows)
        return;
#pragma unroll
    for (int i = 0; i < 4 / V; i++) {
        stem_vec<T, V> part = {};
        if (first + i * 32 * V < k)
            part = stem_load<V>(x + row * k + first + i * 32 * V);
#pragma unroll
        for (int j = 0; j < V; j++) {
            v[i][j] = first + i * 32 * V < k ? stem_float(part.at[j]) : 0.0f;
            most = fmaxf(most, fabsf(v[i][j]));
        }
    }
    stem_f8_scale s = stem_f8_scale_of(stem_warp_max(most));
#pragma unroll
    for (int i = 0; i < 4 / V; i++)
        if (first + i * 32 * V < k)
            stem_store(code + row * k + first + i * 32 * V, stem_f8_codes<V>(v[i], s.up));
    if (lane == 0)
        scale[own] = s.down;
}

#endif
