/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_store: block t normalises L elements of kv[t], turns the R after them, and writes both into a row of the cache.
 * mla_query on operands that the tensor cores do not take.
 */
#ifndef STEM_OPS_MLA_CUH
#define STEM_OPS_MLA_CUH

/* V elements at once; K > 0 chunks of them in each thread's registers, or read twice. */
template <typename T, typename P, int L, int R, int V, int K, bool INTERLEAVED>
__device__ __forceinline__ void stem_mla_store(T *cache, const T *kv, const T *norm, const P *pos, const int *slot,
                                               const double *turns, float amplitude, long long slots,
                                               long long kv_row, long long kv_step, float eps)
{
    constexpr int PAIRS = stem_rope_pairs<R, V, INTERLEAVED>, UNITS = R / 2 / PAIRS, KEPT = K > 0 ? K : 1;
    __shared__ float shared[33];
    const int token = blockIdx.x, chunks = L / V;
    stem_vec<T, V> v[KEPT], w[KEPT];
    double turn[PAIRS];
#pragma unroll
    for (int k = 0; k < KEPT && K > 0; k++) /* the gain is a weight or not: it is read after the wait */
        v[k] = w[k] = {};
    if (threadIdx.x < UNITS) {
#pragma unroll
        for (int k = 0; k < PAIRS; k++)
            turn[k] = turns[threadIdx.x * PAIRS + k];
    }
    stem_launch_dependents();
    stem_wait();
    kv += token * kv_row;
    long long position = pos[token], row = slot[token];
    float sum = 0.0f;
    for (int k = 0, c = threadIdx.x; c < chunks; k++, c += blockDim.x) {
        stem_vec<T, V> x = stem_rope_load<V>(kv, c * V, kv_step);
        if (K > 0) {
            v[k % KEPT] = x;
            w[k % KEPT] = stem_load<V>(norm + c * V);
        }
#pragma unroll
        for (int i = 0; i < V; i++)
            sum += stem_float(x.at[i]) * stem_float(x.at[i]);
    }
    float scale = rsqrtf(stem_block_sum(sum, shared) / (float)L + eps);
    if (row < 0 || row >= slots)
        return;
    cache += row * (L + R);
    for (int k = 0, c = threadIdx.x; c < chunks; k++, c += blockDim.x) {
        stem_vec<T, V> x = K > 0 ? v[k % KEPT] : stem_rope_load<V>(kv, c * V, kv_step);
        stem_vec<T, V> g = K > 0 ? w[k % KEPT] : stem_load<V>(norm + c * V);
#pragma unroll
        for (int i = 0; i < V; i++)
            x.at[i] = stem_round<T>::from(stem_float(x.at[i]) * scale * stem_float(g.at[i]));
        stem_store(cache + c * V, x);
    }
    for (int unit = threadIdx.x; unit < UNITS; unit += blockDim.x) {
        if (unit != threadIdx.x) {
#pragma unroll
            for (int k = 0; k < PAIRS; k++)
                turn[k] = turns[unit * PAIRS + k];
        }
        stem_rope_unit<R, V, INTERLEAVED>(kv + L * kv_step, cache + L, unit, kv_step, turn, position, amplitude);
    }
}

/* ---- mla_query, any shape, strides and type ---- */

/* A thread for each of the n + R elements of (token, head): a product with w[h], or one of a turned pair. */
template <int R, bool INTERLEAVED, class E, class P>
__device__ __forceinline__ void stem_mla_query_plain(const E *q, const E *w, const P *pos, E *y, const double *turns,
                                                     float amplitude, int tokens, int heads, int n, int k,
                                                     long long qt, long long qh, long long qk, long long wh,
                                                     long long wk, long long wn)
{
    long long id = (long long)blockIdx.x * blockDim.x + threadIdx.x, row = id / (n + R), token = row / heads;
    int h = (int)(row - token * heads), column = (int)(id - row * (n + R));
    stem_launch_dependents();
    stem_wait();
    if (token >= tokens)
        return;
    q += token * qt + h * qh;
    if (column < n) {
        const E *b = w + h * wh + column * wn;
        float sum = 0;
        for (int i = 0; i < k; i++)
            sum += stem_float(q[i * qk]) * stem_float(b[i * wk]);
        y[id] = stem_round<E>::from(sum);
        return;
    }
    int j = column - n, pair = INTERLEAVED ? j / 2 : j % (R / 2), low = INTERLEAVED ? 2 * pair : pair;
    int high = low + (INTERLEAVED ? 1 : R / 2);
    float sine, cosine, a = stem_float(q[(k + low) * qk]), b = stem_float(q[(k + high) * qk]);
    stem_rope_angle(turns[pair], pos[token], amplitude, sine, cosine);
    stem_rope_turn(a, b, sine, cosine);
    y[id] = stem_round<E>::from(j == low ? a : b);
}

#endif
