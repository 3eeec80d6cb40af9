/* SPDX-License-Identifier: Apache-2.0
 *
 * experts_down for many tokens with weights of 4 bits. Sums of its own for each token in each warp leave room for few warps, and
 * the products here wait for each other too long for few. So a product has a *slot*, one for each pair of token and choice,
 * whichever warp makes it, and a token's slots are added up at the end of a tile, in the order of its choices. Rings hold weights only; tokens
 * are read where they are used, from the second-level cache. After experts_packed.cuh, whose source it reads.
 */
#ifndef STEM_DOWN_SLOTS_CUH
#define STEM_DOWN_SLOTS_CUH

/* Eight of an item: both halves of a chunk are on their way at once. */
template <class F> struct stem_tokens_slots {
    const __nv_bfloat16 *row; /* of this lane's token */
    mutable uint4 later[4];
    __device__ __forceinline__ void half(int, int chunk, int h, int, uint4 (&piece)[1][4]) const
    {
        if (h == 0) {
            F::load(row + chunk * F::CHUNK, 0, piece[0]);
            F::load(row + chunk * F::CHUNK, 1, later);
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            piece[0][i] = F::permuted(h ? later[i] : piece[0][i]);
    }
};

/* slots[pair][row] = scale * product. */
template <int MT>
__device__ __forceinline__ void stem_slots_leave(float *slots, const float *scale, const stem_groups &groups, int group,
                                                 const float (&acc)[MT][1][4])
{
    int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3, begin = groups.begin[group], count = groups.count[group];
#pragma unroll
    for (int c = 0; c < 2; c++)
        if (2 * t + c < count) {
            int place = begin + 2 * t + c;
            float *at = slots + groups.pair[place] * (16 * MT + 4) + g, s = scale[place];
#pragma unroll
            for (int m = 0; m < MT; m++) {
                at[16 * m] = s * acc[m][0][c];
                at[16 * m + 8] = s * acc[m][0][c + 2];
            }
        }
}

/* ---- items: the groups of a block's first tile, then those of its second one; so that each warp has as many of both, the last group
 * is there again, and not used ---- */

struct stem_groups_of_tiles {
    const stem_groups *s;
    int tile; /* items of a tile, the number of warps times any */
    __device__ __forceinline__ int group(int item) const
    {
        return min(item < tile ? item : item - tile, s->n - 1);
    }
    __device__ __forceinline__ bool there(int item) const
    {
        return (item < tile ? item : item - tile) < s->n;
    }
    __device__ __forceinline__ int expert(int item) const { return s->expert[group(item)]; }
    __device__ __forceinline__ int begin(int item) const { return s->begin[group(item)]; }
    __device__ __forceinline__ int count(int item) const { return s->count[group(item)]; }
    __device__ __forceinline__ int pair(int place) const { return s->pair[place]; }
};

template <class F, int MT, int ROOM> struct stem_slots_source : stem_down_packed_source<F, MT, ROOM, stem_groups_of_tiles> {
    typedef stem_down_packed_source<F, MT, ROOM, stem_groups_of_tiles> base;
    int second; /* row0 of the second tile */
    __device__ __forceinline__ void rows(int item, stem_packed_runs<F, MT> &r) const
    {
        base of = *this;
        of.row0 = item < this->groups.tile ? this->row0 : second;
        of.rows(item, r);
    }
};

/* Takes the sums of items; behind the last one of a tile, `end(0 or 1)`, together with all warps. */
template <class F, int MT, int ROOM, int WARPS, class End> struct stem_slots_sink {
    float *slots;
    const float *merged;
    const stem_groups_of_tiles &groups;
    const End &end;
    template <int NT, int SUMS> __device__ __forceinline__ void operator()(int item, const float (&acc)[MT][NT][SUMS]) const
    {
        if (groups.there(item)) {
            if constexpr (SUMS == 2) {
                stem_down_fixed_sink<MT, NT, true> sink = {slots, merged, groups.s};
                sink(groups.group(item), acc);
            } else
                stem_slots_leave<MT>(slots, merged, *groups.s, groups.group(item), acc);
        }
        if (item + WARPS >= groups.tile && item < groups.tile)
            end(0);
        else if (item + WARPS >= 2 * groups.tile)
            end(1);
    }
};

/* A warp's items in bf16: a ring of weights alone. EARLY as for stem_stream. */
template <class F, int MT, int STAGES, int WARPS, bool EARLY, class Source, class Sink>
__device__ __forceinline__ void stem_slots_stream(unsigned ring, int n_items, int inter, const Source &source, const Sink &sink)
{
    constexpr int bytes = stem_packed_stage_bytes<F, MT>;
    int tid = threadIdx.x, warp = tid >> 5, chunks = inter / F::CHUNK;
    int fill_item = warp, fill_chunk = 0, fill_slot = 0, slot = 0;
    stem_packed_runs<F, MT> rows;
    auto fill = [&]() {
        if (fill_item < n_items) {
            if (fill_chunk == 0)
                source.rows(fill_item, rows);
            stem_packed_load<F, MT>(ring + fill_slot * bytes, rows, fill_chunk, inter);
            fill_slot = fill_slot + 1 == STAGES ? 0 : fill_slot + 1;
            if (++fill_chunk == chunks) {
                fill_chunk = 0;
                fill_item += WARPS;
            }
        }
        stem_copy_commit();
    };
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; i++)
        fill();
    if (EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
#pragma unroll 1
    for (int item = warp; item < n_items; item += WARPS) {
        float acc[MT][1][4] = {};
        stem_tokens_slots<F> token = {source.token(item, min((tid & 31) >> 2, source.groups.count(item) - 1)), {}};
#pragma unroll 1
        for (int i = 0; i < chunks; i++) {
            stem_copy_wait<STAGES - 2>();
            __syncwarp(); /* all lanes' copies have landed, and all lanes have read the stage that is filled now */
            fill();
            stem_packed_multiply(F(), ring + slot * bytes, token, i, i, acc, 1);
            slot = slot + 1 == STAGES ? 0 : slot + 1;
        }
        sink(item, acc);
    }
}

/* A warp's ring. */
template <class F, int MT, int STAGES, int ROOM>
constexpr int stem_slots_ring_bytes = F::TOKENS == 1 ? stem_down_ring_bytes<F, MT, STAGES, ROOM>
                                                     : STAGES * stem_packed_stage_bytes<F, MT>;

/* Block, EARLY, height, ROOM as for stem_experts_down_packed; in bf16, ROOM is 8. Grid: x = tiles of rows, TILES (1 or 2) for a block, so
 * that where there are more tiles than multiprocessors the groups are made once. Dynamic shared memory: stem_slots_ring_bytes
 * for each warp (at least what stem_groups_make needs in all), tile_tokens * k times 16 * MT + 4 slots, scales of places. */
template <class F, int MT, int STAGES, int WARPS, int ROOM, int TILES, bool EARLY, class Store>
__device__ __forceinline__ void stem_experts_down_slots(const __nv_bfloat16 *h, const int *ids, const float *weight,
                                                        const void *w2, const void *scale, const void *whole,
                                                        const Store &store, int tokens, int k, int experts, int hidden,
                                                        int inter, int tile_tokens, int height)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    __shared__ stem_groups made;
    constexpr int bytes = stem_slots_ring_bytes<F, MT, STAGES, ROOM>, LD = 16 * MT + 4;
    int tid = threadIdx.x, warp = tid >> 5, t0 = blockIdx.y * tile_tokens, n = min(tile_tokens, tokens - t0);
    int tile0 = blockIdx.x * TILES, row0 = min(tile0 * height, hidden - height), second = min((tile0 + 1) * height, hidden - height);
    float *slots = (float *)(stem_smem + WARPS * bytes), *merged = slots + tile_tokens * k * LD;
    if (!EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
    for (int i = tid; i < n * k * LD; i += 32 * WARPS) /* pairs without a place have none */
        slots[i] = 0;
    stem_groups_make(&made, stem_smem, ids + (long long)t0 * k, weight + (long long)t0 * k, merged, n * k, k, experts, ROOM);
    if (whole || F::UNIT != 1) { /* into the weights of the places */
        for (int group = warp; group < made.n; group += WARPS) {
            float unit = F::UNIT * (whole ? stem_constant((const float *)whole + made.expert[group]) : 1.0f);
            if ((tid & 31) < made.count[group])
                merged[made.begin[group] + (tid & 31)] *= unit;
        }
        __syncwarp();
        __syncthreads();
    }
    auto end = [&](int which) {
        int from = which ? second : row0, least = (tile0 + which) * height;
        __syncwarp();
        __syncthreads();
        for (int o = tid; o < n * 16 * MT; o += 32 * WARPS) {
            int row = o % (16 * MT), token = o / (16 * MT);
            float v = 0;
            for (int j = 0; j < k; j++)
                v += slots[(token * k + j) * LD + row];
            if (row < height && from + row >= least)
                store(t0 + token, from + row, v, 0.0f);
        }
        __syncwarp();
        __syncthreads();
    };
    stem_groups_of_tiles groups = {&made, (made.n + WARPS - 1) / WARPS * WARPS};
    stem_slots_source<F, MT, ROOM> source = {{h + (long long)t0 * k * inter, (const char *)w2, (const char *)scale, groups, hidden, inter, row0, height}, second};
    stem_slots_sink<F, MT, ROOM, WARPS, decltype(end)> sink = {slots, merged, groups, end};
    char *ring = stem_smem + warp * bytes;
    if constexpr (F::TOKENS == 1)
        stem_down_stream<F, MT, STAGES, ROOM, EARLY>(ring, warp, WARPS, TILES * groups.tile, inter, source, sink);
    else
        stem_slots_stream<F, MT, STAGES, WARPS, EARLY>(stem_shared_address(ring), TILES * groups.tile, inter, source, sink);
    if (made.n == 0)
        for (int i = 0; i < TILES; i++)
            end(i);
}

#endif
