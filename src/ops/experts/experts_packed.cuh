/* SPDX-License-Identifier: Apache-2.0
 *
 * The routed experts with weights in a format of formats.cuh. Scales of whole tensors: w13 has two for each expert,
 * gate and up, w2 one; NULL where the format has none.
 */
#ifndef STEM_EXPERTS_PACKED_CUH
#define STEM_EXPERTS_PACKED_CUH

/* Tokens of a group: x or h of its places. */
template <class F, int NT>
__device__ __forceinline__ stem_tokens_read<F, NT> stem_group_tokens(const __nv_bfloat16 *x, const unsigned short *row,
                                                                     int begin, int count, int k)
{
    stem_tokens_read<F, NT> t;
    t.K = k;
#pragma unroll
    for (int j = 0; j < NT; j++) {
        int place = min(8 * j + ((threadIdx.x & 31) >> 2), count - 1);
        t.row[j] = x + (long long)row[begin + place] * k;
    }
    return t;
}

/* ---- up: item = group * tiles + tile; a tile is 8 * MT rows of gate and the same ones of up ---- */

template <class F, int MT, int NT> struct stem_up_packed_source {
    const __nv_bfloat16 *x; /* of the tile's first token */
    const char *w13, *scale;
    const stem_groups *groups;
    int hidden, inter, row_tiles;

    /* Row r of the tile, counted in the expert's 2 * inter. */
    __device__ __forceinline__ int row(int i0, int r) const
    {
        return min(i0 + r % (8 * MT), inter - 1) + (r < 8 * MT ? 0 : inter);
    }
    __device__ __forceinline__ void rows(int item, stem_packed_rows<F, MT> &r) const
    {
        int lane = threadIdx.x & 31, group = item / row_tiles, i0 = (item - group * row_tiles) * 8 * MT;
        long long bytes = (long long)hidden / F::CHUNK * 128 + hidden % F::CHUNK * 128 / F::CHUNK;
        long long first = (long long)groups->expert[group] * 2 * inter;
#pragma unroll
        for (int i = 0; i < 4 * MT; i++)
            r.weight[i] = w13 + (first + row(i0, (lane >> 3) + 4 * i)) * bytes + (lane & 7) * 16;
#pragma unroll
        for (int i = 0; i < (MT + 1) / 2 && F::SCALES; i++)
            r.scale[i] = scale + (first + row(i0, (lane + 32 * i) % (16 * MT))) * (bytes / 8);
    }
    __device__ __forceinline__ void blocks(int item, const float *(&block)[2 * MT]) const
    {
        int group = item / row_tiles, i0 = (item - group * row_tiles) * 8 * MT, each = (inter + 127) / 128;
#pragma unroll
        for (int i = 0; i < 2 * MT; i++)
            block[i] = (const float *)scale + ((long long)groups->expert[group] * 2 * each + (i < MT ? 0 : each) +
                                               min(i0 + i % MT * 8, inter - 1) / 128) *
                                                  ((hidden + 127) / 128);
    }
    __device__ __forceinline__ int tiles(int item) const
    {
        return (groups->count[item / row_tiles] + 7) / 8;
    }
    __device__ __forceinline__ stem_tokens_read<F, NT> tokens(int item) const
    {
        int group = item / row_tiles;
        return stem_group_tokens<F, NT>(x, groups->token, groups->begin[group], groups->count[group], hidden);
    }
    __device__ __forceinline__ void start() const {}
};

template <class F, int MT, int NT, int WARPS, stem_act ACT> struct stem_up_packed_sink {
    static constexpr int LD = 16 * MT + 4, ROWS = 8 * MT;
    __nv_bfloat16 *h; /* of the tile's first token */
    float *partial;
    const float *whole;
    const stem_groups *groups;
    int inter, row_tiles;
    __device__ __forceinline__ void operator()(int item, const float (&acc)[MT][NT][4]) const
    {
        constexpr int tile = 8 * NT * LD;
        int group = item / row_tiles, i0 = (item - group * row_tiles) * ROWS;
        __syncthreads();
        stem_packed_store<MT, NT>(partial + (threadIdx.x >> 5) * tile, acc);
        __syncthreads();
        int count = groups->count[group], begin = groups->begin[group], expert = groups->expert[group];
        float gate_unit = F::UNIT, up_unit = F::UNIT;
        if (whole) {
            gate_unit *= stem_constant(whole + 2 * expert);
            up_unit *= stem_constant(whole + 2 * expert + 1);
        }
        for (int o = threadIdx.x; o < ROWS * count; o += 32 * WARPS) {
            int row = o % ROWS, token = o / ROWS;
            float gate = 0, up = 0;
#pragma unroll
            for (int w = 0; w < WARPS; w++) {
                gate += partial[w * tile + token * LD + row];
                up += partial[w * tile + token * LD + row + ROWS];
            }
            if (i0 + row < inter)
                h[(long long)groups->pair[begin + token] * inter + i0 + row] =
                    stem_round<__nv_bfloat16>::from(stem_act_apply<ACT>(gate * gate_unit) * (up * up_unit));
        }
    }
};

/* Block: 32 * WARPS threads, k shared out over its warps. Grid: x = any number of blocks, y = tiles of tile_tokens
 * tokens (tile_tokens * k <= STEM_GROUP_PAIRS). */
template <class F, int MT, int NT, int STAGES, int WARPS, stem_act ACT>
__device__ __forceinline__ void stem_experts_up_packed(const __nv_bfloat16 *x, const int *ids, const void *w13,
                                                       const void *scale, const void *whole, __nv_bfloat16 *h,
                                                       int tokens, int k, int experts, int hidden, int inter,
                                                       int tile_tokens)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    __shared__ stem_groups groups;
    constexpr int ring = STAGES * stem_packed_stage_bytes<F, MT>;
    int warp = threadIdx.x >> 5, t0 = blockIdx.y * tile_tokens, row_tiles = (inter + 8 * MT - 1) / (8 * MT);
    stem_wait();
    stem_launch_dependents();
    stem_groups_make(&groups, stem_smem, ids + (long long)t0 * k, nullptr, nullptr, min(tile_tokens, tokens - t0) * k,
                     k, experts, 8 * NT);
    stem_up_packed_source<F, MT, NT> source = {x + (long long)t0 * hidden, (const char *)w13, (const char *)scale,
                                               &groups, hidden, inter, row_tiles};
    stem_up_packed_sink<F, MT, NT, WARPS, ACT> sink = {h + (long long)t0 * k * inter,
                                                       (float *)(stem_smem + WARPS * ring), (const float *)whole,
                                                       &groups, inter, row_tiles};
    stem_packed_stream<F, MT, NT, STAGES>(stem_shared_address(stem_smem) + warp * ring, blockIdx.x, gridDim.x,
                                          groups.n * row_tiles, warp, WARPS, hidden, source, sink);
}

/* ---- down: item = group; the block keeps its 16 * MT rows of hidden, its warps share out the groups ---- */

template <class F, int MT, int NT, bool EARLY> struct stem_down_packed_source {
    const __nv_bfloat16 *h; /* of the tile's first token */
    const char *w2, *scale;
    const stem_groups *groups;
    int hidden, inter, row0;
    int row[4 * MT], scale_row[(MT + 1) / 2]; /* byte offsets in an expert's weights and scales, the same for all */

    __device__ __forceinline__ int bytes() const
    {
        return inter / F::CHUNK * 128 + inter % F::CHUNK * 128 / F::CHUNK;
    }
    __device__ __forceinline__ void find_rows()
    {
        int lane = threadIdx.x & 31;
#pragma unroll
        for (int i = 0; i < 4 * MT; i++)
            row[i] = min(row0 + (lane >> 3) + 4 * i, hidden - 1) * bytes() + (lane & 7) * 16;
#pragma unroll
        for (int i = 0; i < (MT + 1) / 2; i++)
            scale_row[i] = min(row0 + (lane + 32 * i) % (16 * MT), hidden - 1) * (bytes() / 8);
    }
    __device__ __forceinline__ void rows(int group, stem_packed_rows<F, MT> &r) const
    {
        long long first = (long long)groups->expert[group] * hidden * bytes();
        const char *w = w2 + first, *s = scale + first / 8;
#pragma unroll
        for (int i = 0; i < 4 * MT; i++)
            r.weight[i] = w + row[i];
#pragma unroll
        for (int i = 0; i < (MT + 1) / 2 && F::SCALES; i++)
            r.scale[i] = s + scale_row[i];
    }
    __device__ __forceinline__ void blocks(int group, const float *(&block)[2 * MT]) const
    {
        long long first = (long long)groups->expert[group] * ((hidden + 127) / 128);
#pragma unroll
        for (int i = 0; i < 2 * MT; i++)
            block[i] = (const float *)scale + (first + min(row0 + 8 * i, hidden - 1) / 128) * ((inter + 127) / 128);
    }
    __device__ __forceinline__ int tiles(int group) const
    {
        return (groups->count[group] + 7) / 8;
    }
    __device__ __forceinline__ stem_tokens_read<F, NT> tokens(int group) const
    {
        return stem_group_tokens<F, NT>(h, groups->pair, groups->begin[group], groups->count[group], inter);
    }
    __device__ __forceinline__ void start() const
    {
        if (EARLY) {
            stem_wait();
            stem_launch_dependents();
        }
    }
};

/* Block: 32 * WARPS threads. Grid: x = tiles of 16 * MT rows of hidden, y = tiles of tile_tokens tokens. EARLY: w2 and
 * its scales are weights, and what made ids and weight had completed when the kernel started; all are read before the
 * wait. */
template <class F, int MT, int NT, int STAGES, int WARPS, bool EARLY, class Store>
__device__ __forceinline__ void stem_experts_down_packed(const __nv_bfloat16 *h, const int *ids, const float *weight,
                                                         const void *w2, const void *scale, const void *whole,
                                                         const Store &store, int tokens, int k, int experts,
                                                         int hidden, int inter, int tile_tokens)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    __shared__ stem_groups groups;
    constexpr int ring = STAGES * stem_packed_stage_bytes<F, MT>, LD = stem_down_sink<MT, NT>::LD;
    int tid = threadIdx.x, warp = tid >> 5, t0 = blockIdx.y * tile_tokens, n = min(tile_tokens, tokens - t0);
    int row0 = blockIdx.x * 16 * MT, sums_size = tile_tokens * LD;
    float *sums = (float *)(stem_smem + WARPS * ring), *merged = sums + WARPS * sums_size;
    for (int i = tid; i < WARPS * sums_size; i += 32 * WARPS)
        sums[i] = 0;
    if (!EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
    stem_groups_make(&groups, stem_smem, ids + (long long)t0 * k, weight + (long long)t0 * k, merged, n * k, k,
                     experts, 8 * NT);
    if (whole || F::UNIT != 1) { /* into the weights of the places */
        for (int group = warp; group < groups.n; group += WARPS) {
            float unit = F::UNIT * (whole ? stem_constant((const float *)whole + groups.expert[group]) : 1.0f);
            for (int i = tid & 31; i < groups.count[group]; i += 32)
                merged[groups.begin[group] + i] *= unit;
        }
        __syncwarp();
        __syncthreads();
    }
    stem_down_packed_source<F, MT, NT, EARLY> source = {h + (long long)t0 * k * inter, (const char *)w2,
                                                        (const char *)scale, &groups, hidden, inter, row0};
    source.find_rows();
    stem_down_sink<MT, NT> sink = {sums + warp * sums_size, merged, &groups};
    stem_packed_stream<F, MT, NT, STAGES>(stem_shared_address(stem_smem) + warp * ring, warp, WARPS, groups.n, 0, 1,
                                          inter, source, sink);
    __syncthreads();
    for (int o = tid; o < n * 16 * MT; o += 32 * WARPS) {
        int row = o % (16 * MT), token = o / (16 * MT);
        float v = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            v += sums[w * sums_size + token * LD + row];
        if (row0 + row < hidden)
            store(t0 + token, row0 + row, v, 0.0f);
    }
}

/* ---- any shape and alignment: a warp for each element of h, of y ---- */

/* Grid: x = inter / 4, y = pairs; 4 warps. */
template <class F, class E, stem_act ACT>
__device__ __forceinline__ void stem_experts_up_packed_plain(const E *x, const int *ids, const void *w13,
                                                             const void *scale, const void *whole, E *h, int tokens,
                                                             int k, int experts, int hidden, int inter)
{
    int i = blockIdx.x * 4 + (threadIdx.x >> 5), blocks = (inter + 127) / 128;
    stem_wait();
    stem_launch_dependents();
    for (int pair = blockIdx.y; pair < tokens * k && i < inter; pair += gridDim.y) {
        int id = ids[pair];
        if (id < 0 || id >= experts)
            continue;
        const E *row = x + (long long)(pair / k) * hidden;
        long long w = 2LL * id * inter + i, s = 2LL * id * blocks + i / 128;
        float gate = F::product(row, w13, scale, w, s, hidden);
        float up = F::product(row, w13, scale, w + inter, s + blocks, hidden);
        if (whole) {
            gate *= ((const float *)whole)[2 * id];
            up *= ((const float *)whole)[2 * id + 1];
        }
        if ((threadIdx.x & 31) == 0)
            h[(long long)pair * inter + i] = stem_round<E>::from(stem_act_apply<ACT>(gate) * up);
    }
}

/* Grid: x = hidden / 4, y = tokens; 4 warps. */
template <class F, class E, class Store>
__device__ __forceinline__ void stem_experts_down_packed_plain(const E *h, const int *ids, const float *weight,
                                                               const void *w2, const void *scale, const void *whole,
                                                               const Store &store, int tokens, int k, int experts,
                                                               int hidden, int inter)
{
    int row = blockIdx.x * 4 + (threadIdx.x >> 5), blocks = (hidden + 127) / 128;
    stem_wait();
    stem_launch_dependents();
    for (int token = blockIdx.y; token < tokens && row < hidden; token += gridDim.y) {
        float sum = 0;
        for (int j = 0; j < k; j++) {
            long long pair = (long long)token * k + j;
            int id = ids[pair];
            if (id < 0 || id >= experts)
                continue;
            float part = F::product(h + pair * inter, w2, scale, (long long)id * hidden + row,
                                    (long long)id * blocks + row / 128, inter);
            sum += weight[pair] * (whole ? part * ((const float *)whole)[id] : part);
        }
        if ((threadIdx.x & 31) == 0)
            store(token, row, sum, 0.0f);
    }
}

#endif
