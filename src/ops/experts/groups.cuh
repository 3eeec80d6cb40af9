/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tokens chose which expert. A *pair* is (token, j): the token's j-th choice. Each block makes its own copy of
 * the grouping in shared memory from the ids; that costs less than a launch of its own and a trip through memory.
 *
 * Groups are in order of their first pair if there are few pairs, else of their expert; one with more pairs than a tile
 * has columns is split. Pairs whose id is not in
 * 0..E-1 are left out, as is a pair whose token has the same expert at a smaller j (its scale is added to that
 * one's).
 *
 * A __syncwarp stands before each barrier that follows divergent code: __syncthreads is an aligned barrier, and a
 * warp that reached it in parts would let the others go too early.
 */
#ifndef STEM_GROUPS_CUH
#define STEM_GROUPS_CUH

#define STEM_GROUP_PAIRS 512 /* pairs of one tile of tokens, at most */

struct stem_groups {
    int n;                                   /* groups */
    int warp_sum[32];                        /* scratch of the block's scan */
    unsigned short expert[STEM_GROUP_PAIRS]; /* of each group */
    unsigned short begin[STEM_GROUP_PAIRS];  /* of each group: its first place */
    unsigned short count[STEM_GROUP_PAIRS];  /* of each group: pairs */
    unsigned short pair[STEM_GROUP_PAIRS];   /* of each place: token of the tile * k + j */
    unsigned short token[STEM_GROUP_PAIRS];  /* of each place */
};

/* Scratch for many pairs, in memory that is used otherwise later: (experts + 2 * STEM_GROUP_PAIRS) * 4 bytes. */
struct stem_groups_scratch {
    float whole[STEM_GROUP_PAIRS];  /* of each pair: its scale, those of its repetitions added */
    short id[STEM_GROUP_PAIRS];     /* of each pair, -1 out of range */
    short chosen[STEM_GROUP_PAIRS]; /* the same, -1 for a repetition too */
    int counter[1];                 /* of each expert */
};

/* At most 32 pairs: one warp, a pair for each lane, without shared counters. merged: room for a scale for each place,
 * or NULL if nobody asks for scales. */
__device__ __forceinline__ void stem_groups_few(stem_groups *s, const int *ids, const float *scale, float *merged,
                                                int pairs, int k, int experts, int width)
{
    const unsigned all = 0xffffffffu;
    int lane = threadIdx.x & 31, token = lane / k;
    int id = lane < pairs ? stem_load_fresh(ids + lane) : -1;
    float part = merged && lane < pairs ? stem_load_fresh(scale + lane) : 0.0f, whole = 0;
    if (id < 0 || id >= experts)
        id = -1 - lane;
    unsigned same = __match_any_sync(all, id), below = (1u << lane) - 1;
    bool repeated = id >= 0 && (same & below & ~((1u << (token * k)) - 1));
    unsigned repeats = __ballot_sync(all, repeated);
    bool valid = id >= 0 && !repeated;
    if (merged)
        whole = part;
    for (int q = 0; merged && repeats && q < pairs; q++) {
        int id_q = __shfl_sync(all, id, q);
        float part_q = __shfl_sync(all, part, q);
        whole = (q == 0 ? 0.0f : whole) + (id_q == id && q / k == token ? part_q : 0.0f);
    }
    same &= __ballot_sync(all, valid);
    int count = valid ? __popc(same) : 0, place = __popc(same & below);
    int n_groups = valid && place == 0 ? (count + width - 1) / width : 0;
    int own = n_groups ? count << 16 | n_groups : 0, sum = own; /* pairs << 16 | groups, of the lanes so far */
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        int v = __shfl_up_sync(all, sum, d);
        sum += lane >= d ? v : 0;
    }
    int group = (sum - own) & 0xffff, begin = __shfl_sync(all, (sum - own) >> 16, same ? __ffs(same) - 1 : 0);
    if (lane == 31)
        s->n = sum & 0xffff;
    for (int i = 0; i < n_groups; i++) {
        s->expert[group + i] = id;
        s->begin[group + i] = begin + i * width;
        s->count[group + i] = min(width, count - i * width);
    }
    if (valid) {
        s->pair[begin + place] = lane;
        s->token[begin + place] = token;
        if (merged)
            merged[begin + place] = whole;
    }
    __syncwarp();
}

/* Up to STEM_GROUP_PAIRS pairs: counts for each expert, a scan over the experts, then each pair takes a place. One
 * warp gives out the places, in order of the pairs: every block must cut an expert's pairs into the same groups. */
__device__ __forceinline__ void stem_groups_many(stem_groups *s, stem_groups_scratch *x, const int *ids,
                                                 const float *scale, float *merged, int pairs, int k, int experts,
                                                 int width)
{
    int tid = threadIdx.x, threads = blockDim.x, lane = tid & 31, warp = tid >> 5;
    int *counter = x->counter;
#pragma unroll 1
    for (int e = tid; e < experts; e += threads)
        counter[e] = 0;
#pragma unroll 1
    for (int p = tid; p < pairs; p += threads) {
        int id = stem_load_fresh(ids + p);
        x->id[p] = id < 0 || id >= experts ? -1 : id;
    }
    __syncwarp();
    __syncthreads();
#pragma unroll 1
    for (int p = tid; p < pairs; p += threads) {
        int id = x->id[p], first = p - p % k;
        float whole = 0;
        bool repeated = false;
#pragma unroll 1
        for (int q = first; q < first + k; q++) {
            bool same = x->id[q] == id;
            repeated |= same && q < p;
            if (merged && same)
                whole += stem_load_fresh(scale + q);
        }
        id = repeated ? -1 : id;
        x->chosen[p] = id;
        x->whole[p] = whole;
        if (id >= 0)
            atomicAdd(&counter[id], 1);
    }
    int before = 0; /* pairs << 16 | groups of the experts so far */
#pragma unroll 1
    for (int base = 0; base < experts; base += threads) {
        __syncwarp();
        __syncthreads();
        int e = base + tid, count = e < experts ? counter[e] : 0;
        int own = count << 16 | (count + width - 1) / width, sum = own;
        for (int d = 1; d < 32; d <<= 1) {
            int v = __shfl_up_sync(0xffffffffu, sum, d);
            sum += lane >= d ? v : 0;
        }
        if (lane == 31)
            s->warp_sum[warp] = sum;
        __syncthreads();
        int total = 0, start = before + sum - own;
        for (int w = 0; w < threads >> 5; w++) {
            start += w < warp ? s->warp_sum[w] : 0;
            total += s->warp_sum[w];
        }
        for (int i = 0; i < (own & 0xffff); i++) {
            s->expert[(start & 0xffff) + i] = e;
            s->begin[(start & 0xffff) + i] = (start >> 16) + i * width;
            s->count[(start & 0xffff) + i] = min(width, count - i * width);
        }
        if (e < experts)
            counter[e] = start >> 16;
        before += total;
    }
    __syncwarp();
    __syncthreads();
    if (tid == 0) /* not before the barrier: loads of warp_sum may be widened over n */
        s->n = before & 0xffff;
#pragma unroll 1
    for (int base = 0; warp == 0 && base < pairs; base += 32) {
        int p = base + lane, id = p < pairs ? x->chosen[p] : -1;
        unsigned same = __match_any_sync(0xffffffffu, id), below = same & ((1u << lane) - 1);
        int place = id >= 0 ? counter[id] + __popc(below) : 0;
        __syncwarp();
        if (id >= 0) {
            s->pair[place] = p;
            s->token[place] = p / k;
            if (merged)
                merged[place] = x->whole[p];
            if (below == 0)
                counter[id] += __popc(same);
        }
        __syncwarp();
    }
}

/* All threads of the block call it; `ids` and `scale` are those of the tile's tokens. Ends with a barrier. */
__device__ __forceinline__ void stem_groups_make(stem_groups *s, void *scratch, const int *ids, const float *scale,
                                                 float *merged, int pairs, int k, int experts, int width)
{
    if (pairs > 32)
        stem_groups_many(s, (stem_groups_scratch *)scratch, ids, scale, merged, pairs, k, experts, width);
    else if (threadIdx.x < 32)
        stem_groups_few(s, ids, scale, merged, pairs, k, experts, width);
    __syncthreads();
}

#endif
