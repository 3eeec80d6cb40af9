/* SPDX-License-Identifier: Apache-2.0
 *
 * gqa_store: a warp for each (token, head). A lane holds D / 64 pairs (more if D / 2 is no multiple of 32), V at
 * once. Angles are there before x is: positions, slots and, if EARLY, the norms are read before the wait.
 */
#ifndef STEM_OPS_GQA_STORE_CUH
#define STEM_OPS_GQA_STORE_CUH

template <typename T, typename P, int D, int V, bool INTERLEAVED, bool Q_NORM, bool K_NORM, bool EARLY>
__device__ __forceinline__ void
stem_gqa_store(T *k, T *v, const T *x, const T *q_norm, const T *k_norm, const P *pos, const int *slot, T *y,
               const double *turns, float amplitude, int tokens, int heads, int groups, long long slots,
               long long token_stride, long long head_stride, long long stride, float eps)
{
    constexpr int UNITS = D / 2 / V, EACH = (UNITS + 31) / 32;
    const int lane = threadIdx.x & 31, row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, token = row / heads;
    const int h = row - token * heads, queries = heads - 2 * groups;
    const bool query = h < queries, value = h >= queries + groups, last = token >= tokens;
    auto low = [](int unit) { return (INTERLEAVED ? 2 : 1) * unit * V; };
    constexpr int STEP = INTERLEAVED ? 1 : D / 2; /* V is 1 if they are neighbours */
    const bool normal = query ? Q_NORM : K_NORM && !value;
    const T *norm = query ? q_norm : k_norm;
    const long long at = stem_load_fresh(slot + (last ? 0 : token)), position = stem_load_fresh(pos + (last ? 0 : token));
    float sine[EACH][V], cosine[EACH][V], gain[EACH][2 * V] = {};
    auto gains = [&] {
#pragma unroll
        for (int e = 0; e < EACH; e++)
#pragma unroll
            for (int i = 0; i < 2 * V; i++)
                if (lane + 32 * e < UNITS)
                    gain[e][i] = stem_float(norm[low(lane + 32 * e) + i % V + i / V * STEP]);
    };
    if (EARLY && normal)
        gains();
#pragma unroll
    for (int e = 0; e < EACH; e++)
#pragma unroll
        for (int i = 0; i < V; i++)
            stem_rope_angle(lane + 32 * e < UNITS ? turns[(lane + 32 * e) * V + i] : 0, position, amplitude, sine[e][i],
                            cosine[e][i]);
    stem_launch_dependents();
    stem_wait();
    if (last)
        return;
    if (!EARLY && normal)
        gains();
    const T *from = x + token * token_stride + h * head_stride;
    stem_vec<T, V> a[EACH], b[EACH];
    float sum = 0.0f;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        a[e] = b[e] = {};
        if (lane + 32 * e < UNITS) {
            a[e] = stem_rope_load<V>(from, low(lane + 32 * e), stride);
            b[e] = stem_rope_load<V>(from, low(lane + 32 * e) + STEP, stride);
        }
#pragma unroll
        for (int i = 0; i < V; i++)
            sum += stem_float(a[e].at[i]) * stem_float(a[e].at[i]) + stem_float(b[e].at[i]) * stem_float(b[e].at[i]);
    }
    const float scale = rsqrtf(stem_warp_sum(sum) / (float)D + eps);
    if (!query && (at < 0 || at >= slots))
        return;
    T *to = query ? y + ((long long)token * queries + h) * D
                  : (value ? v : k) + (at * groups + (h - queries) % groups) * D;
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
            if (!value)
                stem_rope_turn(s, t, sine[e][i], cosine[e][i]);
            a[e].at[i] = stem_round<T>::from(s);
            b[e].at[i] = stem_round<T>::from(t);
        }
        if (INTERLEAVED) {
            to[low(unit)] = a[e].at[0];
            to[low(unit) + 1] = b[e].at[0];
        } else {
            stem_store(to + low(unit), a[e]);
            stem_store(to + low(unit) + STEP, b[e]);
        }
    }
}

#endif
