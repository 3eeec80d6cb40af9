/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses k experts for each token; one block for each token. Each warp picks the best k of its share of the experts
 * (expert (i * WARPS + warp) * 32 + lane is slot i of a lane); the picks of all warps are then ranked against each
 * other. Greatest first; equal ones, and NaN (below every number), by the smaller index.
 */
#ifndef STEM_ROUTE_CUH
#define STEM_ROUTE_CUH

#define STEM_INF __int_as_float(0x7f800000)

enum stem_score { STEM_SCORE_SOFTMAX, STEM_SCORE_SIGMOID, STEM_SCORE_NONE };

/* One warp's picks, best first; key 0: none. */
struct stem_picks {
    unsigned key[4 * 32], expert[4 * 32];
    float score[4 * 32];
};

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

/* score[] of the softmax; `shared` has room for 2 * WARPS floats. */
template <int SLOTS, int WARPS>
__device__ __forceinline__ void stem_route_softmax(float (&score)[SLOTS], int experts, float *shared)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float top = -STEM_INF, sum = 0;
#pragma unroll
    for (int i = 0; i < SLOTS; i++)
        top = fmaxf(top, score[i]);
    top = stem_warp_max(top);
    if (lane == 0)
        shared[warp] = top;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        top = fmaxf(top, shared[w]);
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        score[i] = (i * WARPS + warp) * 32 + lane < experts ? expf(score[i] - top) : 0.0f;
        sum += score[i];
    }
    sum = stem_warp_sum(sum);
    if (lane == 0)
        shared[WARPS + warp] = sum;
    __syncthreads();
    sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        sum += shared[WARPS + w];
#pragma unroll
    for (int i = 0; i < SLOTS; i++)
        score[i] /= sum;
}

/* Bit g: group g is among the top_groups with the largest group score. Each warp finds it for itself. */
template <bool TOP2>
__device__ __forceinline__ unsigned stem_route_groups(const float *choice, int experts, int groups, int top_groups)
{
    const unsigned all = 0xffffffffu;
    int lane = threadIdx.x & 31, size = experts / groups;
    unsigned own = 0, kept = 0;
    if (lane < groups) {
        float first = -STEM_INF, second = -STEM_INF;
        for (int i = 0; i < size; i++) {
            float v = choice[lane * size + i];
            if (v > first) {
                second = first;
                first = v;
            } else if (v > second) {
                second = v;
            }
        }
        own = stem_route_key(TOP2 && size > 1 ? first + second : first);
    }
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < top_groups; i++) {
        unsigned best = __reduce_max_sync(all, own);
        int winner = __ffs(__ballot_sync(all, own == best)) - 1;
        kept |= 1u << winner;
        if (lane == winner)
            own = 0;
    }
    return kept;
}

/* The warp's best k, into picks[warp * k ...]. */
template <int SLOTS, int WARPS>
__device__ __forceinline__ void stem_route_pick(unsigned (&key)[SLOTS], const float (&score)[SLOTS], int k,
                                                stem_picks *picks)
{
    const unsigned all = 0xffffffffu;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll 1
    for (int j = 0; j < k; j++) {
        unsigned best = 0, expert = all;
        float value = 0;
#pragma unroll
        for (int i = 0; i < SLOTS; i++)
            if (key[i] > best) {
                best = key[i];
                expert = (i * WARPS + warp) * 32 + lane;
                value = score[i];
            }
        unsigned top = __reduce_max_sync(all, best);
        unsigned winner = __reduce_min_sync(all, best == top ? expert : all);
        if (expert == winner && (best || lane == 0)) {
            picks->key[warp * k + j] = best;
            picks->expert[warp * k + j] = expert;
            picks->score[warp * k + j] = value;
        }
#pragma unroll
        for (int i = 0; i < SLOTS; i++)
            if ((unsigned)((i * WARPS + warp) * 32 + lane) == winner)
                key[i] = 0;
    }
}

/* Block: 32 * WARPS threads, WARPS <= 4; grid: tokens. SLOTS * WARPS * 32 >= experts; k <= 32. */
template <class E, int SLOTS, int WARPS, stem_score SCORE, bool BIAS, bool LIMIT, bool TOP2>
__device__ __forceinline__ void stem_route(const E *logits, const float *bias, int *ids, float *weights, int experts,
                                           int k, int groups, int top_groups, int renormalize, float scale)
{
    __shared__ stem_picks picks;
    __shared__ float shared[LIMIT ? SLOTS * WARPS * 32 : 2 * WARPS];
    __shared__ float chosen[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float score[SLOTS], choice[SLOTS];
    unsigned key[SLOTS];
    logits += (long long)blockIdx.x * experts;
    ids += (long long)blockIdx.x * k;
    weights += (long long)blockIdx.x * k;
    stem_wait();
    stem_launch_dependents();
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        int e = (i * WARPS + warp) * 32 + lane;
        score[i] = e < experts ? stem_float(logits[e]) : -STEM_INF;
        choice[i] = BIAS && e < experts ? bias[e] : 0.0f;
    }
    if (SCORE == STEM_SCORE_SOFTMAX)
        stem_route_softmax<SLOTS, WARPS>(score, experts, shared);
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        if (SCORE == STEM_SCORE_SIGMOID)
            score[i] = 1.0f / (1.0f + expf(-score[i]));
        choice[i] = BIAS ? score[i] + choice[i] : score[i];
        key[i] = (i * WARPS + warp) * 32 + lane < experts ? stem_route_key(choice[i]) : 0;
    }
    if (LIMIT) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < SLOTS; i++)
            shared[(i * WARPS + warp) * 32 + lane] = choice[i];
        __syncthreads();
        unsigned kept = stem_route_groups<TOP2>(shared, experts, groups, top_groups);
#pragma unroll
        for (int i = 0; i < SLOTS; i++) {
            int e = (i * WARPS + warp) * 32 + lane;
            if (e < experts && !(kept >> (e / (experts / groups)) & 1))
                key[i] = 0;
        }
    }
    stem_route_pick<SLOTS, WARPS>(key, score, k, &picks);
    __syncwarp();
    __syncthreads();
    if (warp > 0)
        return;
    for (int c = lane; c < WARPS * k; c += 32) {
        unsigned own = picks.key[c], expert = picks.expert[c];
        int rank = 0;
#pragma unroll 4
        for (int q = 0; q < WARPS * k; q++)
            rank += picks.key[q] > own || (picks.key[q] == own && picks.expert[q] < expert);
        if (rank < k && own) {
            ids[rank] = (int)expert;
            chosen[rank] = picks.score[c];
        }
    }
    __syncwarp();
    float sum = 1e-20f;
    for (int j = 0; j < k; j++)
        sum += chosen[j];
    if (lane < k)
        weights[lane] = renormalize ? chosen[lane] / sum * scale : chosen[lane] * scale;
}

#endif
