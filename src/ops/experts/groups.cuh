/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tokens chose which expert. A *pair* is (token, j): the token's j-th choice. Each block makes its own copy of
 * the grouping in shared memory from the ids; that costs less than a launch of its own and a trip through memory.
 *
 * Groups are sorted by expert; one with more pairs than a tile has columns is split. Pairs whose id is not in
 * 0..E-1 are left out, as is a pair whose token has the same expert at a smaller j (its scale is added to that one's).
 *
 * A __syncwarp stands before each barrier that follows divergent code: __syncthreads is an aligned barrier, and a warp
 * that reached it in parts would let the others go too early.
 */
#ifndef STEM_GROUPS_CUH
#define STEM_GROUPS_CUH

#define STEM_GROUP_PAIRS 512 /* pairs of one tile of tokens, at most */

struct stem_groups {
    int n;                                     /* groups */
    int warp_sum[32];                          /* scratch of the block's scan */
    unsigned short expert[STEM_GROUP_PAIRS];   /* of each group */
    unsigned short begin[STEM_GROUP_PAIRS];    /* of each group: its first entry in pair[] */
    unsigned short count[STEM_GROUP_PAIRS];    /* of each group: pairs */
    unsigned short pair[STEM_GROUP_PAIRS];     /* token of the tile * k + j */
    int id[STEM_GROUP_PAIRS];                  /* of each pair: its expert, -1 if it has none */
};

/* At most 32 pairs: one warp, a pair for each lane, without shared counters. merged: room for a scale for each pair,
 * or NULL if nobody asks for scales. */
__device__ __forceinline__ void stem_groups_few(stem_groups *s, const int *ids, const float *scale, float *merged,
                                                int pairs, int k, int experts, int width)
{
    const unsigned all = 0xffffffffu;
    int lane = threadIdx.x & 31, token = lane / k;
    int id = lane < pairs ? ids[lane] : -1;
    float part = merged && lane < pairs ? scale[lane] : 0.0f, whole = 0;
    if (id < 0 || id >= experts)
        id = -1 - lane;
    unsigned same = __match_any_sync(all, id);
    unsigned below = (1u << lane) - 1, own = same & below & ~((1u << (token * k)) - 1);
    bool valid = id >= 0 && own == 0;
    same &= __ballot_sync(all, valid);
    int count = valid ? __popc(same) : 0, place = __popc(same & below);
    int n_groups = valid && place == 0 ? (count + width - 1) / width : 0;
    int group = 0, begin = 0, total = 0;
#pragma unroll 1
    for (int q = 0; q < pairs; q++) {
        int id_q = __shfl_sync(all, id, q), groups_q = __shfl_sync(all, n_groups, q);
        int valid_q = __shfl_sync(all, (int)valid, q);
        float part_q = __shfl_sync(all, part, q);
        whole += id_q == id && q / k == token ? part_q : 0.0f;
        total += groups_q;
        if (id_q < id) {
            group += groups_q;
            begin += valid_q;
        }
    }
    if (lane == 0)
        s->n = total;
    for (int i = 0; i < n_groups; i++) {
        s->expert[group + i] = id;
        s->begin[group + i] = begin + i * width;
        s->count[group + i] = min(width, count - i * width);
    }
    if (valid)
        s->pair[begin + place] = lane;
    if (valid && merged)
        merged[lane] = whole;
    __syncwarp();
}

/* Any number of pairs: counts for each expert, a scan over the experts, then each pair takes a place. `counter` has
 * one int for each expert. The order of the pairs inside a group is not fixed, and nothing depends on it. */
__device__ __forceinline__ void stem_groups_many(stem_groups *s, int *counter, const int *ids, const float *scale,
                                                 float *merged, int pairs, int k, int experts, int width)
{
    int tid = threadIdx.x, threads = blockDim.x, lane = tid & 31, warp = tid >> 5;
#pragma unroll 1
    for (int e = tid; e < experts; e += threads)
        counter[e] = 0;
#pragma unroll 1
    for (int p = tid; p < pairs; p += threads)
        s->id[p] = ids[p];
    __syncwarp();
    __syncthreads();
    auto expert_of = [&](int p) {
        int id = s->id[p], first = p - p % k;
        bool repeated = false;
#pragma unroll 1
        for (int q = first; q < p; q++)
            repeated |= s->id[q] == id;
        return repeated || id < 0 || id >= experts ? -1 : id;
    };
#pragma unroll 1
    for (int p = tid; p < pairs; p += threads) {
        int id = expert_of(p);
        if (id >= 0)
            atomicAdd(&counter[id], 1);
        if (merged) {
            float whole = 0;
#pragma unroll 1
            for (int q = p - p % k; q < p - p % k + k; q++)
                whole += s->id[q] == id ? scale[q] : 0.0f;
            merged[p] = whole;
        }
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
    if (tid == 0)
        s->n = before & 0xffff;
    __syncwarp();
    __syncthreads();
#pragma unroll 1
    for (int p = tid; p < pairs; p += threads) {
        int id = expert_of(p);
        if (id >= 0)
            s->pair[atomicAdd(&counter[id], 1)] = p;
    }
    __syncwarp();
}

/* All threads of the block call it; `ids` and `scale` are those of the tile's tokens. Ends with a barrier. */
__device__ __forceinline__ void stem_groups_make(stem_groups *s, int *counter, const int *ids, const float *scale,
                                                 float *merged, int pairs, int k, int experts, int width)
{
    if (pairs > 32)
        stem_groups_many(s, counter, ids, scale, merged, pairs, k, experts, width);
    else if (threadIdx.x < 32)
        stem_groups_few(s, ids, scale, merged, pairs, k, experts, width);
    __syncthreads();
}

#endif
