/* SPDX-License-Identifier: Apache-2.0
 *
 * rmsnorm, then quantize_f8 of what it stores, with the bits of the two. As in rmsnorm.cuh, a block does a row of n elements in
 * chunks of V and keeps K chunks of a thread. WHOLE: a chunk is 16 bytes, so that neighbouring threads of one warp have
 * 128 columns. KEEP: y is stored, too.
 */
#ifndef STEM_OPS_RMSNORM_QUANTIZE_CUH
#define STEM_OPS_RMSNORM_QUANTIZE_CUH

template <typename T, typename W, int V, int K, bool WHOLE, bool KEEP>
__device__ __forceinline__ void stem_rmsnorm_quantize(const T *x, const W *weight, T *y, unsigned char *code, float *down,
                                                      long long n, long long step, float eps)
{
    __shared__ float shared[33];
    const int chunks = (int)(n / V), lane = threadIdx.x & 31;
    constexpr int KEPT = WHOLE && K > 0 ? K : 1;
    stem_vec<T, V> v[KEPT];
    float sum = 0.0f;
    stem_launch_dependents();
    stem_wait();
    if constexpr (WHOLE && K > 0) {
        constexpr int LANES = 128 / V; /* of 128 columns */
        stem_vec<W, V> w[KEPT];
        sum = stem_norm_load<V, KEPT>(x, weight, chunks, step, v, w);
        float scale = rsqrtf(stem_block_sum(sum, shared) / (float)n + eps);
#pragma unroll
        for (int k = 0; k < KEPT; k++) {
            int c = threadIdx.x + k * blockDim.x;
            float f[V], most = 0.0f;
            stem_vec<T, V> r = {};
            if (c < chunks)
                r = stem_scaled<V>(v[k], w[k], scale);
#pragma unroll
            for (int i = 0; i < V; i++) {
                f[i] = c < chunks ? stem_float(r.at[i]) : 0.0f;
                most = fmaxf(most, fabsf(f[i]));
            }
#pragma unroll
            for (int d = LANES / 2; d; d >>= 1)
                most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, d));
            stem_f8_scale s = stem_f8_scale_of(most);
            if (c < chunks) {
                if (KEEP)
                    stem_store(y + (long long)c * V, r);
                stem_store(code + (long long)c * V, stem_f8_codes<V>(f, s.up));
                if (c % LANES == 0)
                    down[c / LANES] = s.down;
            }
        }
    } else {
        for (int c = threadIdx.x; c < chunks; c += blockDim.x)
            sum += stem_squares<V>(stem_load<V>(x + (long long)c * V * step));
        float scale = rsqrtf(stem_block_sum(sum, shared) / (float)n + eps);
        for (int b = threadIdx.x >> 5; b * 128 < n; b += blockDim.x >> 5) {
            float f[4][1], most = 0.0f;
            stem_vec<T, 1> r[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                long long at = b * 128 + 32 * i + lane;
                f[i][0] = 0.0f;
                if (at < n) {
                    r[i] = stem_scaled<1>(stem_load<1>(x + at * step), stem_load<1>(weight + at), scale);
                    f[i][0] = stem_float(r[i].at[0]);
                }
                most = fmaxf(most, fabsf(f[i][0]));
            }
            stem_f8_scale s = stem_f8_scale_of(stem_warp_max(most));
#pragma unroll
            for (int i = 0; i < 4; i++) {
                long long at = b * 128 + 32 * i + lane;
                if (at < n) {
                    if (KEEP)
                        stem_store(y + at, r[i]);
                    stem_store(code + at, stem_f8_codes<1>(f[i], s.up));
                }
            }
            if (lane == 0)
                down[b] = s.down;
        }
    }
}

#endif
