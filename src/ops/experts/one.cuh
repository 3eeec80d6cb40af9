/* SPDX-License-Identifier: Apache-2.0
 *
 * The routed experts of a single token, where latency counts: no grouping, no barrier before the first weights are
 * asked for. A lane of each warp knows one choice. A *place* is a choice that is valid and no repetition, in order;
 * sums of experts_up are those of experts.cuh, in the same order.
 */
#ifndef STEM_ONE_CUH
#define STEM_ONE_CUH

struct stem_one {
    int id, n;      /* this lane's choice; places */
    unsigned valid; /* lanes whose choice has a place */

    __device__ __forceinline__ stem_one(const int *ids, int k, int experts)
    {
        int lane = threadIdx.x & 31;
        id = lane < k ? stem_load_fresh(ids + lane) : -1;
        bool inside = id >= 0 && id < experts;
        unsigned same = __match_any_sync(0xffffffffu, inside ? id : -1 - lane);
        valid = __ballot_sync(0xffffffffu, inside && !(same & ((1u << lane) - 1)));
        n = __popc(valid);
    }
    /* The lane that has this place. */
    __device__ __forceinline__ int lane_of(int place) const
    {
        unsigned left = valid;
        if ((valid & (valid + 1)) == 0) /* no gaps, as a router leaves none */
            return place;
#pragma unroll 1
        for (int i = 0; i < place; i++)
            left &= left - 1;
        return __ffs(left) - 1;
    }
    __device__ __forceinline__ int expert(int place) const
    {
        return __shfl_sync(0xffffffffu, id, lane_of(place));
    }
    /* This lane's scale, those of repetitions of its choice added. */
    __device__ __forceinline__ float merge(const float *scale, int k) const
    {
        int lane = threadIdx.x & 31;
        float part = lane < k ? stem_load_fresh(scale + lane) : 0.0f, whole = 0;
        if (n == k)
            return part;
        for (int q = 0; q < k; q++) {
            int id_q = __shfl_sync(0xffffffffu, id, q);
            float part_q = __shfl_sync(0xffffffffu, part, q);
            whole += id_q == id ? part_q : 0.0f;
        }
        return whole;
    }
};

template <class E> struct stem_up_one_source {
    const E *x, *w13;
    const stem_one &one;
    int hidden, inter, row_tiles;
    __device__ __forceinline__ void rows(int item, stem_rows<E, 1, 1> &r) const
    {
        int lane = threadIdx.x & 31, row = lane >> 3, column = (lane & 7) * 8;
        int place = item / row_tiles, i0 = (item - place * row_tiles) * 8;
        const E *w = w13 + (long long)one.expert(place) * 2 * inter * hidden + column;
#pragma unroll
        for (int i = 0; i < 4; i++)
            r.weight[i] = w + (long long)(min(i0 + row + 4 * (i & 1), inter - 1) + (i >> 1) * inter) * hidden;
        r.token[0] = row == 0 ? x + column : nullptr;
        r.token[1] = nullptr;
    }
    __device__ __forceinline__ int tiles(int) const { return 1; }
};

template <class E, int WARPS, stem_act ACT> struct stem_up_one_sink {
    E *h;
    float *partial;
    const stem_one &one;
    int inter, row_tiles;
    __device__ __forceinline__ void operator()(int item, const float (&acc)[1][1][4]) const
    {
        int place = item / row_tiles, row = threadIdx.x, i = (item - place * row_tiles) * 8 + row;
        __syncthreads();
        stem_tile_store<1>(partial + (threadIdx.x >> 5) * 8 * STEM_TILE_LD, acc);
        __syncthreads();
        if (row < 8 && i < inter) {
            float gate = stem_tile_sum<1>(partial, WARPS, 0, row), up = stem_tile_sum<1>(partial, WARPS, 0, row + 8);
            h[(long long)one.lane_of(place) * inter + i] = stem_round<E>::from(stem_act_apply<ACT>(gate) * up);
        }
    }
};

/* Block and grid as for stem_experts_up. */
template <class E, int STAGES, int WARPS, stem_act ACT>
__device__ __forceinline__ void stem_experts_up_one(const E *x, const int *ids, const E *w13, E *h, int k, int experts,
                                                    int hidden, int inter)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    constexpr int ring = STAGES * stem_stage_bytes<1, 1>;
    int warp = threadIdx.x >> 5, row_tiles = (inter + 7) / 8;
    stem_wait();
    stem_launch_dependents();
    stem_one one(ids, k, experts);
    stem_up_one_source<E> source = {x, w13, one, hidden, inter, row_tiles};
    stem_up_one_sink<E, WARPS, ACT> sink = {h, (float *)(stem_smem + WARPS * ring), one, inter, row_tiles};
    stem_stream<E, 1, 1, STAGES, false>(stem_shared_address(stem_smem) + warp * ring, blockIdx.x, gridDim.x,
                                        one.n * row_tiles, warp, WARPS, hidden, source, sink);
}

template <class E, int MT> struct stem_down_one_source {
    const E *h, *w2;
    const stem_one &one;
    int hidden, inter, row0;
    __device__ __forceinline__ void rows(int place, stem_rows<E, MT, 1> &r) const
    {
        int lane = threadIdx.x & 31, row = lane >> 3, column = (lane & 7) * 8;
        const E *w = w2 + (long long)one.expert(place) * hidden * inter + column;
#pragma unroll
        for (int i = 0; i < 4 * MT; i++)
            r.weight[i] = w + (long long)min(row0 + row + 4 * i, hidden - 1) * inter;
        r.token[0] = row == 0 ? h + (long long)one.lane_of(place) * inter + column : nullptr;
        r.token[1] = nullptr;
    }
    __device__ __forceinline__ int tiles(int) const { return 1; }
};

/* sum[16 * m + 8 * c + lane / 4] += scale * product; the first of each 4 lanes has the token's column. */
template <int MT> struct stem_down_one_sink {
    float (&sum)[MT][2];
    const float &scale;
    const stem_one &one;
    __device__ __forceinline__ void operator()(int place, const float (&acc)[MT][1][4]) const
    {
        float s = __shfl_sync(0xffffffffu, scale, one.lane_of(place));
#pragma unroll
        for (int m = 0; m < MT; m++) {
            sum[m][0] += s * acc[m][0][0];
            sum[m][1] += s * acc[m][0][2];
        }
    }
};

/* Adds up the warps' sums of a block, 16 * MT rows, in their order, and stores them. */
template <int MT, int WARPS, class Store>
__device__ __forceinline__ void stem_down_one_end(float *sums, const float (&sum)[MT][2], const Store &store, int hidden,
                                                  int row0, int tid, int lane, int warp)
{
    if ((lane & 3) == 0)
#pragma unroll
        for (int i = 0; i < 2 * MT; i++)
            sums[warp * 16 * MT + 8 * i + (lane >> 2)] = sum[i >> 1][i & 1];
    __syncwarp();
    __syncthreads();
    if (tid < 16 * MT && row0 + tid < hidden) {
        float v = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            v += sums[w * 16 * MT + tid];
        store(0, row0 + tid, v, 0.0f);
    }
}

/* Warps take whole experts in turn. Block: 32 * WARPS threads. Grid: x = tiles of 16 * MT rows of hidden. EARLY as for
 * stem_experts_down. */
template <class E, int MT, int STAGES, int WARPS, bool EARLY, class Store>
__device__ __forceinline__ void stem_experts_down_one(const E *h, const int *ids, const float *scale, const E *w2,
                                                      const Store &store, int k, int experts, int hidden, int inter)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    constexpr int ring = STAGES * stem_stage_bytes<MT, 1>;
    int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, row0 = blockIdx.x * 16 * MT;
    float *sums = (float *)(stem_smem + WARPS * ring);
    if (!EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
    stem_one one(ids, k, experts);
    float whole = one.merge(scale, k), sum[MT][2] = {};
    stem_down_one_source<E, MT> source = {h, w2, one, hidden, inter, row0};
    stem_down_one_sink<MT> sink = {sum, whole, one};
    stem_stream<E, MT, 1, STAGES, EARLY>(stem_shared_address(stem_smem) + warp * ring, warp, WARPS, one.n, 0, 1, inter,
                                         source, sink);
    stem_down_one_end<MT, WARPS>(sums, sum, store, hidden, row0, tid, lane, warp);
}

#endif
