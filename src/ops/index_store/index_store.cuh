/* SPDX-License-Identifier: Apache-2.0
 *
 * index_store: a warp normalises a row of D elements, turns the first N and writes the row to its slot. What is normalised is
 * rounded before it is turned.
 */
#ifndef STEM_OPS_INDEX_STORE_CUH
#define STEM_OPS_INDEX_STORE_CUH

template <typename T, typename W, typename P, int D, int N, bool INTERLEAVED>
__device__ __forceinline__ void stem_index_store(T *cache, const T *x, const W *gain, const W *bias, const P *pos, const int *slot,
                                                 const double *turns, float amplitude, long long slots, long long x_row,
                                                 long long x_step, float eps)
{
    constexpr int EACH = (D + 31) / 32, PAIRS = N / 2 > 0 ? (N / 2 + 31) / 32 : 1;
    __shared__ float kept[D];
    int lane = threadIdx.x;
    float v[EACH], g[EACH], b[EACH], sum = 0.0f, squares = 0.0f;
    double turn[PAIRS];
#pragma unroll
    for (int i = 0; i < PAIRS; i++)
        turn[i] = lane + 32 * i < N / 2 ? turns[lane + 32 * i] : 0.0;
    stem_launch_dependents();
    stem_wait();
    long long position = pos[blockIdx.x], row = slot[blockIdx.x];
    x += blockIdx.x * x_row;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int at = lane + 32 * i;
        v[i] = at < D ? stem_float(x[at * x_step]) : 0.0f;
        g[i] = at < D ? stem_float(gain[at]) : 0.0f;
        b[i] = at < D ? stem_float(bias[at]) : 0.0f;
    }
    float sine[PAIRS], cosine[PAIRS]; /* while the row is on its way */
#pragma unroll
    for (int i = 0; i < PAIRS; i++)
        stem_rope_angle(turn[i], position, amplitude, sine[i], cosine[i]);
#pragma unroll
    for (int i = 0; i < EACH; i++)
        sum += v[i];
    float mean = stem_warp_sum(sum) / D;
#pragma unroll
    for (int i = 0; i < EACH; i++)
        squares += lane + 32 * i < D ? (v[i] - mean) * (v[i] - mean) : 0.0f;
    float scale = rsqrtf(stem_warp_sum(squares) / D + eps);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        v[i] = stem_float(stem_round<T>::from((v[i] - mean) * scale * g[i] + b[i]));
        if (lane + 32 * i < N)
            kept[lane + 32 * i] = v[i];
    }
    __syncwarp();
    if (row < 0 || row >= slots)
        return;
    cache += row * D;
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        int pair = lane + 32 * i, low = INTERLEAVED ? 2 * pair : pair, high = low + (INTERLEAVED ? 1 : N / 2);
        if (pair < N / 2) {
            float s = kept[low], t = kept[high];
            stem_rope_turn(s, t, sine[i], cosine[i]);
            cache[low] = stem_round<T>::from(s);
            cache[high] = stem_round<T>::from(t);
        }
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
        if (lane + 32 * i >= N && lane + 32 * i < D)
            cache[lane + 32 * i] = stem_round<T>::from(v[i]);
}

#endif
