/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses k experts for each token; one warp for each token, lane l holds experts l, l + 32, ...
 * Greatest first; equal ones, and NaN (below every number), by the smaller index.
 */
#ifndef STEM_ROUTE_CUH
#define STEM_ROUTE_CUH

#define STEM_INF __int_as_float(0x7f800000)

enum stem_score { STEM_SCORE_SOFTMAX, STEM_SCORE_SIGMOID, STEM_SCORE_NONE };

/* Keeps order: a < b exactly if key(a) < key(b); NaN is 1, and 0 is free for "taken". */
__device__ __forceinline__ unsigned stem_route_key(float v)
{
    unsigned u = __float_as_uint(v);
    if (v != v)
        return 1;
    if (v == 0.0f)
        u = 0;
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* score[] from the token's logits. */
template <class E, int SLOTS, stem_score SCORE>
__device__ __forceinline__ void stem_route_scores(const E *logits, int experts, float (&score)[SLOTS])
{
    int lane = threadIdx.x & 31;
    float top = -STEM_INF, sum = 0;
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        int e = i * 32 + lane;
        score[i] = e < experts ? stem_float(logits[e]) : -STEM_INF;
        top = fmaxf(top, score[i]);
    }
    if (SCORE == STEM_SCORE_SOFTMAX) {
        top = stem_warp_max(top);
#pragma unroll
        for (int i = 0; i < SLOTS; i++) {
            score[i] = i * 32 + lane < experts ? expf(score[i] - top) : 0.0f;
            sum += score[i];
        }
        sum = stem_warp_sum(sum);
    }
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        if (SCORE == STEM_SCORE_SOFTMAX)
            score[i] /= sum;
        else if (SCORE == STEM_SCORE_SIGMOID)
            score[i] = 1.0f / (1.0f + expf(-score[i]));
    }
}

/* Keeps the top_groups groups with the largest group score; the experts of the others get key 0. `shared` has room for
 * the warp's keys. */
template <int SLOTS, bool TOP2>
__device__ __forceinline__ void stem_route_limit(unsigned (&key)[SLOTS], const float (&choice)[SLOTS], float *shared,
                                                 int experts, int groups, int top_groups)
{
    const unsigned all = 0xffffffffu;
    int lane = threadIdx.x & 31, size = experts / groups;
#pragma unroll
    for (int i = 0; i < SLOTS; i++)
        if (i * 32 + lane < experts)
            shared[i * 32 + lane] = choice[i];
    __syncwarp();
    unsigned own = 0;
    if (lane < groups) {
        float first = -STEM_INF, second = -STEM_INF;
        for (int i = 0; i < size; i++) {
            float v = shared[lane * size + i];
            if (v > first) {
                second = first;
                first = v;
            } else if (v > second) {
                second = v;
            }
        }
        own = stem_route_key(TOP2 && size > 1 ? first + second : first);
    }
    unsigned kept = 0;
    for (int i = 0; i < top_groups; i++) {
        unsigned best = __reduce_max_sync(all, own);
        int winner = __ffs(__ballot_sync(all, own == best)) - 1;
        kept |= 1u << winner;
        if (lane == winner)
            own = 0;
    }
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        int e = i * 32 + lane;
        if (e < experts && !(kept >> (e / size) & 1))
            key[i] = 0;
    }
}

/* Block: 32 * WARPS threads, a token for each warp; grid: tokens / WARPS. SLOTS = experts / 32, rounded up. */
template <class E, int SLOTS, int WARPS, stem_score SCORE, bool BIAS, bool LIMIT, bool TOP2>
__device__ __forceinline__ void stem_route(const E *logits, const float *bias, int *ids, float *weights, int tokens,
                                           int experts, int k, int groups, int top_groups, int renormalize, float scale)
{
    __shared__ float shared[WARPS][SLOTS * 32];
    const unsigned all = 0xffffffffu;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, token = blockIdx.x * WARPS + warp;
    if (token >= tokens)
        return;
    float score[SLOTS];
    float choice[SLOTS];
    unsigned key[SLOTS];
    stem_wait();
    stem_route_scores<E, SLOTS, SCORE>(logits + (long long)token * experts, experts, score);
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        int e = i * 32 + lane;
        choice[i] = BIAS && e < experts ? score[i] + bias[e] : score[i];
        key[i] = e < experts ? stem_route_key(choice[i]) : 0;
    }
    if (LIMIT)
        stem_route_limit<SLOTS, TOP2>(key, choice, shared[warp], experts, groups, top_groups);

    float sum = 0, mine = 0; /* lane j keeps choice j, j < 32 */
    int my_id = 0;
    for (int j = 0; j < k; j++) {
        unsigned best = 0;
        int at = 0;
        float value = 0;
#pragma unroll
        for (int i = 0; i < SLOTS; i++)
            if (key[i] > best) {
                best = key[i];
                at = i;
                value = score[i];
            }
        unsigned top = __reduce_max_sync(all, best);
        unsigned winner = __reduce_min_sync(all, best == top ? (unsigned)(at * 32 + lane) : all);
        value = __shfl_sync(all, value, winner & 31);
        sum += value;
        if (lane == j) {
            mine = value;
            my_id = (int)winner;
        }
#pragma unroll
        for (int i = 0; i < SLOTS; i++)
            if ((unsigned)(i * 32 + lane) == winner)
                key[i] = 0;
    }
    if (lane < k) {
        ids[(long long)token * k + lane] = my_id;
        weights[(long long)token * k + lane] = renormalize ? mine / (sum + 1e-20f) * scale : mine * scale;
    }
}

#endif
