/* SPDX-License-Identifier: Apache-2.0
 *
 * gqa_store: a warp for each (token, head). A lane holds D / 64 pairs (more if D / 2 is no multiple of 32), V at
 * once. Angles are there before x is: positions, slots and, if EARLY, the norms are read before the wait.
 */
#ifndef STEM_OPS_GQA_STORE_CUH
#define STEM_OPS_GQA_STORE_CUH

/* A lane's part of a head: UNITS of V pairs, every 32nd. Partners lie D / 2 apart, or are neighbours (INTERLEAVED; V is 1 then). */
template <typename T, int D, int V, bool INTERLEAVED> struct stem_gqa_head {
    static constexpr int UNITS = D / 2 / V, EACH = (UNITS + 31) / 32, STEP = INTERLEAVED ? 1 : D / 2;
    stem_vec<T, V> a[EACH], b[EACH];

    static __device__ __forceinline__ int low(int unit)
    {
        return (INTERLEAVED ? 2 : 1) * unit * V;
    }
    static __device__ __forceinline__ void gains(const T *norm, float (&gain)[EACH][2 * V])
    {
        const int lane = threadIdx.x & 31;
#pragma unroll
        for (int e = 0; e < EACH; e++)
#pragma unroll
            for (int i = 0; i < 2 * V; i++)
                if (lane + 32 * e < UNITS)
                    gain[e][i] = stem_float(norm[low(lane + 32 * e) + i % V + i / V * STEP]);
    }
    static __device__ __forceinline__ void angles(const double *turns, long long position, float amplitude,
                                                  float (&sine)[EACH][V], float (&cosine)[EACH][V])
    {
        const int lane = threadIdx.x & 31;
#pragma unroll
        for (int e = 0; e < EACH; e++)
#pragma unroll
            for (int i = 0; i < V; i++)
                stem_rope_angle(lane + 32 * e < UNITS ? turns[(lane + 32 * e) * V + i] : 0, position, amplitude, sine[e][i],
                                cosine[e][i]);
    }
    template <bool FRESH> static __device__ __forceinline__ stem_vec<T, V> piece(const T *from, int i, long long stride)
    {
        if constexpr (FRESH)
            return stem_load_fresh(reinterpret_cast<const stem_vec<T, V> *>(from + i));
        else
            return stem_rope_load<V>(from, i, stride);
    }
    /* The sum of the lane's squares. FRESH: past the first-level cache; the stride is 1. */
    template <bool FRESH = false> __device__ __forceinline__ float load(const T *from, long long stride)
    {
        const int lane = threadIdx.x & 31;
        float sum = 0.0f;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            a[e] = b[e] = {};
            if (lane + 32 * e < UNITS) {
                a[e] = piece<FRESH>(from, low(lane + 32 * e), stride);
                b[e] = piece<FRESH>(from, low(lane + 32 * e) + STEP, stride);
            }
#pragma unroll
            for (int i = 0; i < V; i++)
                sum += stem_float(a[e].at[i]) * stem_float(a[e].at[i]) + stem_float(b[e].at[i]) * stem_float(b[e].at[i]);
        }
        return sum;
    }
    static __device__ __forceinline__ float scale_of(float sum, float eps)
    {
        return rsqrtf(stem_warp_sum(sum) / (float)D + eps);
    }
    /* Normalised and rounded, if normal, and then turned, if turned: put(column, v) gets V columns at a time. */
    template <class PUT>
    __device__ __forceinline__ void finish(bool normal, bool turned, float scale, const float (&gain)[EACH][2 * V],
                                           const float (&sine)[EACH][V], const float (&cosine)[EACH][V], PUT put)
    {
        const int lane = threadIdx.x & 31;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            int unit = lane + 32 * e;
            if (unit >= UNITS)
                break;
#pragma unroll
            for (int i = 0; i < V; i++) {
                float s = stem_float(a[e].at[i]), t = stem_float(b[e].at[i]);
                if (normal) {
                    s = stem_float(stem_round<T>::from(s * scale * gain[e][i]));
                    t = stem_float(stem_round<T>::from(t * scale * gain[e][V + i]));
                }
                if (turned)
                    stem_rope_turn(s, t, sine[e][i], cosine[e][i]);
                a[e].at[i] = stem_round<T>::from(s);
                b[e].at[i] = stem_round<T>::from(t);
            }
            put(low(unit), a[e]);
            put(low(unit) + STEP, b[e]);
        }
    }
    template <class PUT> __device__ __forceinline__ void each(PUT put) const
    {
        const int lane = threadIdx.x & 31;
#pragma unroll
        for (int e = 0; e < EACH; e++)
            if (lane + 32 * e < UNITS) {
                put(low(lane + 32 * e), a[e]);
                put(low(lane + 32 * e) + STEP, b[e]);
            }
    }
};

template <typename T, typename P, int D, int V, bool INTERLEAVED, bool Q_NORM, bool K_NORM, bool EARLY>
__device__ __forceinline__ void
stem_gqa_store(T *k, T *v, const T *x, const T *q_norm, const T *k_norm, const P *pos, const int *slot, T *y,
               const double *turns, float amplitude, int tokens, int heads, int groups, long long slots,
               long long token_stride, long long head_stride, long long stride, float eps)
{
    typedef stem_gqa_head<T, D, V, INTERLEAVED> part;
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, token = row / heads;
    const int h = row - token * heads, queries = heads - 2 * groups;
    const bool query = h < queries, value = h >= queries + groups, last = token >= tokens;
    const bool normal = query ? Q_NORM : K_NORM && !value;
    const T *norm = query ? q_norm : k_norm;
    const long long at = stem_load_fresh(slot + (last ? 0 : token)), position = stem_load_fresh(pos + (last ? 0 : token));
    float sine[part::EACH][V], cosine[part::EACH][V], gain[part::EACH][2 * V] = {};
    if (EARLY && normal)
        part::gains(norm, gain);
    part::angles(turns, position, amplitude, sine, cosine);
    stem_launch_dependents();
    stem_wait();
    if (last)
        return;
    if (!EARLY && normal)
        part::gains(norm, gain);
    part own;
    float scale = part::scale_of(own.load(x + token * token_stride + h * head_stride, stride), eps);
    if (!query && (at < 0 || at >= slots))
        return;
    T *to = query ? y + ((long long)token * queries + h) * D
                  : (value ? v : k) + (at * groups + (h - queries) % groups) * D;
    own.finish(normal, !value, scale, gain, sine, cosine,
               [&](int column, const stem_vec<T, V> &of) { stem_store(to + column, of); });
}

#endif
