/* SPDX-License-Identifier: Apache-2.0
 *
 * The routed experts of a mixture, in two launches: `up` makes h = act(gate) * up for each pair of a token and one of
 * its experts, `down` (experts_down.cuh) multiplies by w2 and adds up each token's experts. Both stream an expert's
 * weights once for all tokens that chose it (stream.cuh, groups.cuh); experts that nobody chose cost nothing.
 *
 * Order of sums, so the same inputs give the same bits: `up` adds the warps' parts of k in order; in `down` a warp
 * adds what its groups give to a token in ascending order of group, in f32, and the warps' sums are added in order
 * at the end. Which warp a group falls to depends on the ids of all tokens.
 */
#ifndef STEM_EXPERTS_CUH
#define STEM_EXPERTS_CUH

enum stem_act { STEM_ACT_SILU, STEM_ACT_GELU, STEM_ACT_RELU };

template <stem_act ACT> __device__ __forceinline__ float stem_act_apply(float v)
{
    if (ACT == STEM_ACT_SILU)
        return v / (1.0f + __expf(-v));
    if (ACT == STEM_ACT_GELU)
        return 0.5f * v * (1.0f + erff(v * 0.70710678f));
    return fmaxf(v, 0.0f);
}

/* ---- up: item = group * tiles + tile; a tile is 8 rows of gate and the same 8 of up ---- */

template <class E, int NT> struct stem_up_source {
    const E *x, *w13; /* x of the tile's first token */
    const stem_groups *groups;
    int hidden, inter, row_tiles;
    __device__ __forceinline__ void rows(int item, stem_rows<E, 1, NT> &r) const
    {
        int lane = threadIdx.x & 31, row = lane >> 3, column = (lane & 7) * 8;
        int group = item / row_tiles, i0 = (item - group * row_tiles) * 8;
        const E *w = w13 + (long long)groups->expert[group] * 2 * inter * hidden + column;
#pragma unroll
        for (int i = 0; i < 4; i++)
            r.weight[i] = w + (long long)(min(i0 + row + 4 * (i & 1), inter - 1) + (i >> 1) * inter) * hidden;
        int begin = groups->begin[group], count = groups->count[group];
#pragma unroll
        for (int i = 0; i < 2 * NT; i++)
            r.token[i] =
                row + 4 * i < count ? x + (long long)groups->token[begin + row + 4 * i] * hidden + column : nullptr;
    }
    __device__ __forceinline__ int tiles(int item) const
    {
        return (groups->count[item / row_tiles] + 7) / 8;
    }
};

template <class E, int NT, int WARPS, stem_act ACT> struct stem_up_sink {
    E *h; /* of the tile's first token */
    float *partial;
    const stem_groups *groups;
    int inter, row_tiles;
    __device__ __forceinline__ void operator()(int item, const float (&acc)[1][NT][4]) const
    {
        int group = item / row_tiles, i0 = (item - group * row_tiles) * 8;
        __syncthreads();
        stem_tile_store<NT>(partial + (threadIdx.x >> 5) * 8 * NT * STEM_TILE_LD, acc);
        __syncthreads();
        int count = groups->count[group], begin = groups->begin[group];
        for (int o = threadIdx.x; o < 8 * count; o += 32 * WARPS) {
            int row = o & 7, token = o >> 3;
            float gate = stem_tile_sum<NT>(partial, WARPS, token, row);
            float up = stem_tile_sum<NT>(partial, WARPS, token, row + 8);
            if (i0 + row < inter)
                h[(long long)groups->pair[begin + token] * inter + i0 + row] =
                    stem_round<E>::from(stem_act_apply<ACT>(gate) * up);
        }
    }
};

/* Block: 32 * WARPS threads, k shared out over its warps. Grid: x = any number of blocks, y = tiles of tile_tokens
 * tokens (tile_tokens * k <= STEM_GROUP_PAIRS). */
template <class E, int NT, int STAGES, int WARPS, stem_act ACT>
__device__ __forceinline__ void stem_experts_up(const E *x, const int *ids, const E *w13, E *h, int tokens, int k,
                                                int experts, int hidden, int inter, int tile_tokens)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    __shared__ stem_groups groups;
    constexpr int ring = STAGES * stem_stage_bytes<1, NT>;
    int warp = threadIdx.x >> 5, t0 = blockIdx.y * tile_tokens, row_tiles = (inter + 7) / 8;
    stem_wait();
    stem_launch_dependents();
    stem_groups_make(&groups, stem_smem, ids + (long long)t0 * k, nullptr, nullptr, min(tile_tokens, tokens - t0) * k,
                     k, experts, 8 * NT);
    stem_up_source<E, NT> source = {x + (long long)t0 * hidden, w13, &groups, hidden, inter, row_tiles};
    stem_up_sink<E, NT, WARPS, ACT> sink = {h + (long long)t0 * k * inter, (float *)(stem_smem + WARPS * ring),
                                            &groups, inter, row_tiles};
    stem_stream<E, 1, NT, STAGES, false>(stem_shared_address(stem_smem) + warp * ring, blockIdx.x, gridDim.x,
                                         groups.n * row_tiles, warp, WARPS, hidden, source, sink);
}

/* ---- down, for whoever groups tokens (experts_down.cuh, experts_packed.cuh) ---- */

/* sum[token][row] += scale * product, in the warp's own shared memory. No two columns of a group are one token's. */
template <int MT, int NT> struct stem_down_sink {
    static constexpr int LD = 16 * MT + 4;
    float *sum;
    const float *scale; /* of each place, repeated experts merged */
    const stem_groups *groups;
    __device__ __forceinline__ void operator()(int group, const float (&acc)[MT][NT][4]) const
    {
        int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
        int begin = groups->begin[group], count = groups->count[group];
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int c = 0; c < 2; c++) {
                int column = 8 * j + 2 * t + c;
                if (column < count) {
                    float *at = sum + groups->token[begin + column] * LD + g, s = scale[begin + column];
#pragma unroll
                    for (int m = 0; m < MT; m++) {
                        at[16 * m] += s * acc[m][j][c];
                        at[16 * m + 8] += s * acc[m][j][c + 2];
                    }
                }
            }
        __syncwarp();
    }
};

/* The end of a block: what each of PARTS has for a token and a row, in their order, which lie `size` floats apart; rows are LD floats
 * apart for each token. inside(row) says which ones the block stores, by store(token, row, sum). */
template <int PARTS, int ROWS, int LD, int THREADS, class Inside, class Store>
__device__ __forceinline__ void stem_down_end(const float *sums, int size, int tokens, const Inside &inside, const Store &store)
{
    for (int o = threadIdx.x; o < tokens * ROWS; o += THREADS) {
        int row = o % ROWS, token = o / ROWS;
        float v = 0;
#pragma unroll
        for (int p = 0; p < PARTS; p++)
            v += sums[p * size + token * LD + row];
        if (inside(row))
            store(token, row, v);
    }
}

/* ---- any shape, alignment and dtype: a warp for each element of h, of y ---- */

/* Grid: x = inter / 4, y = pairs; 4 warps. */
template <class E, stem_act ACT>
__device__ __forceinline__ void stem_experts_up_plain(const E *x, const int *ids, const E *w13, E *h, int tokens,
                                                      int k, int experts, int hidden, int inter)
{
    int lane = threadIdx.x & 31, i = blockIdx.x * 4 + (threadIdx.x >> 5);
    stem_wait();
    stem_launch_dependents();
    for (int pair = blockIdx.y; pair < tokens * k && i < inter; pair += gridDim.y) {
        int id = ids[pair];
        if (id < 0 || id >= experts)
            continue;
        const E *row = x + (long long)(pair / k) * hidden, *w = w13 + ((long long)id * 2 * inter + i) * hidden;
        float gate = 0, up = 0;
        for (int c = lane; c < hidden; c += 32) {
            gate += stem_float(row[c]) * stem_float(w[c]);
            up += stem_float(row[c]) * stem_float(w[(long long)inter * hidden + c]);
        }
        gate = stem_warp_sum(gate);
        up = stem_warp_sum(up);
        if (lane == 0)
            h[(long long)pair * inter + i] = stem_round<E>::from(stem_act_apply<ACT>(gate) * up);
    }
}

/* Grid: x = hidden / 4, y = tokens; 4 warps. */
template <class E, class Store>
__device__ __forceinline__ void stem_experts_down_plain_to(const E *h, const int *ids, const float *scale, const E *w2,
                                                           const Store &store, int tokens, int k, int experts,
                                                           int hidden, int inter)
{
    int lane = threadIdx.x & 31, row = blockIdx.x * 4 + (threadIdx.x >> 5);
    stem_wait();
    stem_launch_dependents();
    for (int token = blockIdx.y; token < tokens && row < hidden; token += gridDim.y) {
        float sum = 0;
        for (int j = 0; j < k; j++) {
            long long pair = (long long)token * k + j;
            int id = ids[pair];
            if (id < 0 || id >= experts)
                continue;
            const E *w = w2 + ((long long)id * hidden + row) * inter, *a = h + pair * inter;
            float part = 0;
            for (int c = lane; c < inter; c += 32)
                part += stem_float(a[c]) * stem_float(w[c]);
            sum += scale[pair] * stem_warp_sum(part);
        }
        if (lane == 0)
            store(token, row, sum, 0.0f);
    }
}

template <class E>
__device__ __forceinline__ void stem_experts_down_plain(const E *h, const int *ids, const float *scale, const E *w2,
                                                        E *y, int tokens, int k, int experts, int hidden, int inter)
{
    stem_experts_down_plain_to(h, ids, scale, w2, stem_store_plain<E>{y, hidden}, tokens, k, experts, hidden, inter);
}

#endif
