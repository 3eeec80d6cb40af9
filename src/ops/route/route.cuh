/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses k experts for each token; one block for each token, one thread for each expert. Greatest first; equal ones,
 * and NaN (below every number), by the smaller index.
 *
 * The greatest of each segment of SEGMENT experts are ranked among themselves: the k-th of these bounds the k-th of
 * all experts from below, so that few experts are left as candidates, and these are ranked against each other. With
 * fewer than k segments every expert is a candidate.
 *
 * Up to 128 experts are one warp's, which takes the greatest k times: few instructions, which all have to be fetched, and no
 * barrier.
 */
#ifndef STEM_ROUTE_CUH
#define STEM_ROUTE_CUH

#define STEM_INF __int_as_float(0x7f800000)

enum stem_score { STEM_SCORE_SOFTMAX, STEM_SCORE_SIGMOID, STEM_SCORE_NONE };

struct stem_candidates {
    unsigned top[1024];               /* the greatest key of each segment */
    unsigned key[1024], expert[1024]; /* of each candidate */
    float score[1024];
    float chosen[32]; /* scores of the k best */
    int n;            /* candidates */
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

/* The score of the softmax; `shared` has room for 2 * WARPS floats. */
template <int WARPS> __device__ __forceinline__ float stem_route_softmax(float logit, bool inside, float *shared)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float top = stem_warp_max(logit);
    if (lane == 0)
        shared[warp] = top;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        top = fmaxf(top, shared[w]);
    float score = inside ? expf(logit - top) : 0.0f, sum = stem_warp_sum(score);
    if (lane == 0)
        shared[WARPS + warp] = sum;
    __syncthreads();
    sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        sum += shared[WARPS + w];
    return score / sum;
}

/* The best choice of a group of SIZE lanes, or the sum of the best two; NaN counts as -infinity. In all of its lanes. */
template <bool TOP2, int SIZE> __device__ __forceinline__ float stem_route_group_score(float choice)
{
    float first = choice == choice ? choice : -STEM_INF, second = -STEM_INF;
#pragma unroll
    for (int d = 1; d < SIZE; d <<= 1) {
        float a = __shfl_xor_sync(0xffffffffu, first, d);
        if (TOP2)
            second = fmaxf(fmaxf(second, __shfl_xor_sync(0xffffffffu, second, d)), fminf(first, a));
        first = fmaxf(first, a);
    }
    return TOP2 && SIZE > 1 ? first + second : first;
}

/* The same of a group of any size, whose choices are at `choice`, by one lane. */
template <bool TOP2> __device__ __forceinline__ float stem_route_any_score(const float *choice, int size)
{
    float first = -STEM_INF, second = -STEM_INF;
    for (int i = 0; i < size; i++) {
        float v = choice[i];
        if (v > first) {
            second = first;
            first = v;
        } else if (v > second) {
            second = v;
        }
    }
    return TOP2 && size > 1 ? first + second : first;
}

/* Bit g: group g is among the top_groups with the largest group score. SIZE: experts of a group if that divides 32, else 0.
 * `shared`: a float for each thread. */
template <bool TOP2, int SIZE>
__device__ __forceinline__ unsigned stem_route_groups(float choice, float *shared, int experts, int groups, int top_groups)
{
    int lane = threadIdx.x & 31, size = experts / groups, rank = 0;
    if constexpr (SIZE > 0) {
        float score = stem_route_group_score<TOP2, SIZE>(choice);
        if (lane % SIZE == 0 && (int)threadIdx.x < experts)
            shared[threadIdx.x / SIZE] = score;
        __syncthreads();
        choice = lane < groups ? shared[lane] : 0.0f;
    } else {
        shared[threadIdx.x] = choice;
        __syncthreads();
        choice = lane < groups ? stem_route_any_score<TOP2>(shared + lane * size, size) : 0.0f;
    }
    unsigned own = lane < groups ? stem_route_key(choice) : 0;
#pragma unroll 8
    for (int g = 0; g < groups; g++) {
        unsigned other = __shfl_sync(0xffffffffu, own, g);
        rank += other > own || (other == own && g < lane);
    }
    return __ballot_sync(0xffffffffu, lane < groups && rank < top_groups);
}

/* The k-th greatest of the segments' greatest keys, 0 if there are fewer segments. The same in every warp. */
template <int SEGMENTS> __device__ __forceinline__ unsigned stem_route_bound(const unsigned *top, int k)
{
    int lane = threadIdx.x & 31;
    unsigned bound = 0;
#pragma unroll
    for (int base = 0; base < SEGMENTS; base += 32) {
        int own = base + lane, rank = 0;
        unsigned key = own < SEGMENTS ? top[own] : 0;
#pragma unroll 8
        for (int i = 0; i < SEGMENTS; i++)
            rank += top[i] > key || (top[i] == key && i < own);
        if (own < SEGMENTS && rank == k - 1)
            bound = key;
    }
    return __reduce_max_sync(0xffffffffu, bound);
}

/* Puts this thread's expert among the candidates if it is one; the order is that of nothing. */
__device__ __forceinline__ void stem_route_add(stem_candidates *c, unsigned key, unsigned bound, float score)
{
    int lane = threadIdx.x & 31, base = 0;
    unsigned who = __ballot_sync(0xffffffffu, key && key >= bound);
    if (!who)
        return;
    if (lane == 0)
        base = atomicAdd(&c->n, __popc(who));
    base = __shfl_sync(0xffffffffu, base, 0);
    if (who >> lane & 1) {
        int at = base + __popc(who & ((1u << lane) - 1));
        c->key[at] = key;
        c->expert[at] = threadIdx.x;
        c->score[at] = score;
    }
}

/* Candidate number `at` takes the place that its rank is. */
__device__ __forceinline__ void stem_route_place(stem_candidates *c, int at, int n, int k, int *ids)
{
    unsigned own = c->key[at], expert = c->expert[at];
    int rank = 0;
#pragma unroll 4
    for (int q = 0; q < n; q++)
        rank += c->key[q] > own || (c->key[q] == own && c->expert[q] < expert);
    if (rank < k) {
        c->chosen[rank] = c->score[at];
        if (ids)
            ids[rank] = (int)expert;
    }
}

/* The weights of the k chosen, whose scores are the first k lanes'. */
__device__ __forceinline__ void stem_route_weights(float own, int k, int renormalize, float scale, float *weights)
{
    int lane = threadIdx.x & 31;
    if (renormalize) {
        float sum = 1e-20f;
#pragma unroll 8
        for (int j = 0; j < k; j++)
            sum += __shfl_sync(0xffffffffu, own, j);
        own /= sum;
    }
    if (lane < k)
        weights[lane] = own * scale;
}

/* Block: 32 * WARPS threads, an expert each; grid: tokens. k <= 32; SEGMENT divides 32. EARLY: bias is a weight. LIMIT: to
 * groups, of SIZE experts if that divides 32. */
template <class E, int WARPS, int SEGMENT, stem_score SCORE, bool BIAS, bool EARLY, bool LIMIT, bool TOP2, int SIZE>
__device__ __forceinline__ void stem_route(const E *logits, const float *bias, int *ids, float *weights, int experts,
                                           int k, int groups, int top_groups, int renormalize, float scale)
{
    __shared__ stem_candidates found;
    __shared__ float shared[LIMIT ? WARPS * 32 : 2 * WARPS];
    constexpr int segments = WARPS * (32 / SEGMENT);
    int tid = threadIdx.x, lane = tid & 31;
    bool inside = tid < experts;
    float own_bias = BIAS && EARLY && inside ? bias[tid] : 0.0f, score = 0.0f;
    if (tid == 0)
        found.n = 0;
    stem_wait();
    stem_launch_dependents();
    if (inside)
        score = stem_float(stem_load_fresh(logits + (long long)blockIdx.x * experts + tid));
    if (BIAS && !EARLY && inside)
        own_bias = stem_load_fresh(bias + tid);
    if (SCORE == STEM_SCORE_SOFTMAX)
        score = stem_route_softmax<WARPS>(inside ? score : -STEM_INF, inside, shared);
    if (SCORE == STEM_SCORE_SIGMOID)
        score = 1.0f / (1.0f + expf(-score));
    float choice = BIAS ? score + own_bias : score;
    unsigned key = inside ? stem_route_key(choice) : 0;
    if (LIMIT) {
        if (SCORE == STEM_SCORE_SOFTMAX)
            __syncthreads(); /* `shared` is used again */
        unsigned kept = stem_route_groups<TOP2, SIZE>(inside ? choice : -STEM_INF, shared, experts, groups, top_groups);
        if (inside && !(kept >> (SIZE > 0 ? tid / (SIZE > 0 ? SIZE : 1) : tid / (experts / groups)) & 1))
            key = 0;
    }
    unsigned top = key;
#pragma unroll
    for (int d = SEGMENT / 2; d; d >>= 1) {
        unsigned other = __shfl_xor_sync(0xffffffffu, top, d);
        top = other > top ? other : top;
    }
    if (lane % SEGMENT == 0)
        found.top[tid / SEGMENT] = top;
    __syncthreads();
    stem_route_add(&found, key, stem_route_bound<segments>(found.top, k), score);
    __syncwarp();
    __syncthreads();
    int n = found.n;
    if (tid < n)
        stem_route_place(&found, tid, n, k, ids + (long long)blockIdx.x * k);
    __syncwarp();
    if (n > 32)
        __syncthreads();
    if (tid < 32)
        stem_route_weights(lane < k ? found.chosen[lane] : 0.0f, k, renormalize, scale, weights + (long long)blockIdx.x * k);
}

/* Block: a warp; a lane has EACH experts, of which there are at most 32 * EACH. */
template <class E, int EACH, stem_score SCORE, bool BIAS, bool EARLY>
__device__ __forceinline__ void stem_route_few(const E *logits, const float *bias, int *ids, float *weights, int experts,
                                               int k, int renormalize, float scale)
{
    __shared__ float chosen[32];
    int lane = threadIdx.x & 31, first = lane * EACH;
    float score[EACH], own_bias[EACH];
    unsigned key[EACH], top = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++)
        own_bias[i] = BIAS && EARLY && first + i < experts ? bias[first + i] : 0.0f;
    stem_wait();
    stem_launch_dependents();
    logits += (long long)blockIdx.x * experts;
    ids += (long long)blockIdx.x * k;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        bool inside = first + i < experts;
        score[i] = inside ? stem_float(stem_load_fresh(logits + first + i)) : -STEM_INF;
        if (BIAS && !EARLY && inside)
            own_bias[i] = stem_load_fresh(bias + first + i);
    }
    if (SCORE == STEM_SCORE_SOFTMAX) {
        float most = score[0], sum = 0.0f;
#pragma unroll
        for (int i = 1; i < EACH; i++)
            most = fmaxf(most, score[i]);
        most = stem_warp_max(most);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            score[i] = expf(score[i] - most);
            sum += first + i < experts ? score[i] : 0.0f;
        }
        sum = stem_warp_sum(sum);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            score[i] /= sum;
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (SCORE == STEM_SCORE_SIGMOID)
            score[i] = 1.0f / (1.0f + expf(-score[i]));
        key[i] = first + i < experts ? stem_route_key(BIAS ? score[i] + own_bias[i] : score[i]) : 0;
        top = key[i] > top ? key[i] : top;
    }
#pragma unroll 1
    for (int place = 0; place < k; place++) {
        unsigned best = __reduce_max_sync(0xffffffffu, top);
        int winner = __ffs(__ballot_sync(0xffffffffu, top == best)) - 1;
        if (lane == winner) {
            bool taken = false;
            top = 0;
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                if (!taken && key[i] == best) {
                    taken = true;
                    key[i] = 0;
                    ids[place] = first + i;
                    chosen[place] = score[i];
                }
                top = key[i] > top ? key[i] : top;
            }
        }
    }
    __syncwarp();
    stem_route_weights(lane < k ? chosen[lane] : 0.0f, k, renormalize, scale, weights + (long long)blockIdx.x * k);
}

#endif
