/* SPDX-License-Identifier: Apache-2.0
 *
 * The routed experts with weights in a format of formats.cuh. Scales of whole tensors: w13 has two for each expert,
 * gate and up, w2 one; NULL where the format has none.
 */
#ifndef STEM_EXPERTS_PACKED_CUH
#define STEM_EXPERTS_PACKED_CUH

/* ---- which groups there are: of many tokens (groups.cuh), of a single one (one.cuh) ---- */

struct stem_groups_of_many {
    static constexpr bool ALONE = false; /* whether each warp fetches its tokens alone */
    const stem_groups *s;
    __device__ __forceinline__ int n() const { return s->n; }
    __device__ __forceinline__ int expert(int group) const { return s->expert[group]; }
    __device__ __forceinline__ int begin(int group) const { return s->begin[group]; }
    __device__ __forceinline__ int count(int group) const { return s->count[group]; }
    __device__ __forceinline__ int pair(int place) const { return s->pair[place]; }
    __device__ __forceinline__ int token(int place) const { return s->token[place]; }
};

/* All lanes of a warp ask for an expert together. */
struct stem_groups_of_one {
    static constexpr bool ALONE = true;
    const stem_one &one;
    __device__ __forceinline__ int n() const { return one.n; }
    __device__ __forceinline__ int expert(int group) const { return one.expert(group); }
    __device__ __forceinline__ int begin(int group) const { return group; }
    __device__ __forceinline__ int count(int) const { return 1; }
    __device__ __forceinline__ int pair(int place) const { return one.lane_of(place); }
    __device__ __forceinline__ int token(int) const { return 0; }
};

/* ---- up: item = group * tiles + tile; a tile is 8 * MT rows of gate and the same ones of up ---- */

/* Where a group's tokens are, which need BYTES of shared memory for each one's columns of a chunk, after ZEROS. */
template <class F, int NT, bool KEEP, class Rows, int EACH = F::TOKENS>
struct stem_up_packed_tokens : stem_tokens_kept<F, NT> {
    static constexpr int ZEROS = 0, BYTES = stem_packed_token_bytes<F>;
    __device__ __forceinline__ void place(char *to) { this->at = to; }
};
template <class F, int NT, class E> struct stem_up_packed_tokens<F, NT, false, const E *, 8> : stem_tokens_read<F, NT> {
    static constexpr int ZEROS = 0, BYTES = 0;
    __device__ __forceinline__ void place(char *) {}
};
template <class F, int NT> struct stem_up_packed_tokens<F, NT, false, stem_f8_rows, 8> : stem_tokens_coded<NT> {
    static constexpr int ZEROS = 0, BYTES = 0;
    __device__ __forceinline__ void place(char *) {}
};
template <class F, int NT, class Rows> struct stem_up_packed_tokens<F, NT, true, Rows, 1> : stem_tokens_fixed {
    static constexpr int ZEROS = stem_fixed::ZEROS, BYTES = stem_fixed::BYTES;
};

/* KEEP: a group's tokens are kept; otherwise they are read where they are used, as an expert with many
 * tokens needs it, for which there is no room. */
template <class F, int MT, int NT, bool KEEP, class Rows, class Groups> struct stem_up_packed_source {
    Rows x; /* of the tile's first token */
    const char *w13, *scale;
    const Groups &groups;
    int hidden, inter, row_tiles, parts;
    int has; /* what is held: a token alone, or the inverted number of a group */
    stem_up_packed_tokens<F, NT, KEEP, Rows> held;

    /* A tile's first row; the last tile has full height, and shares rows with the one before it. */
    __device__ __forceinline__ int row0(int tile) const
    {
        return min(tile * 8 * MT, inter - 8 * MT);
    }
    __device__ __forceinline__ void rows(const stem_group_place &at, stem_packed_runs<F, MT> &r) const
    {
        int lane = threadIdx.x & 31, i = lane % (16 * MT);
        unsigned bytes = hidden / F::CHUNK * 128 + hidden % F::CHUNK * 128 / F::CHUNK;
        unsigned first = groups.expert(at.group) * 2 * inter + row0(at.tile);
        r.step = 4 * bytes;
        r.height = 16 * MT;
        r.weight[0] = w13 + (unsigned long long)(first + (lane >> 3)) * bytes + (lane & 7) * 16;
        r.weight[1] = r.weight[0] + (unsigned long long)inter * bytes;
        if (F::SCALES)
            r.scale = scale + (unsigned long long)(first + (i < 8 * MT ? i : i - 8 * MT + inter)) * (bytes / 8);
    }
    __device__ __forceinline__ const float *blocks(const stem_group_place &at) const
    {
        if (F::SCALES)
            return nullptr;
        int each = (inter + 127) / 128, i = (threadIdx.x & 31) % (2 * MT);
        long long line = (long long)groups.expert(at.group) * 2 * each + (i < MT ? 0 : each) +
                         (row0(at.tile) + i % MT * 8) / 128;
        return (const float *)scale + line * ((hidden + 127) / 128);
    }
    __device__ __forceinline__ int tiles(const stem_group_place &at) const
    {
        return (groups.count(at.group) + F::TOKENS - 1) / F::TOKENS;
    }
    __device__ __forceinline__ void begin(const stem_group_place &at, int part)
    {
        int begin = groups.begin(at.group), count = groups.count(at.group);
        int what = count == 1 ? groups.token(begin) : ~at.group;
        auto row = [&](int token) { return stem_rows_from(x, groups.token(begin + token), hidden); };
        if (what == has)
            return;
        has = what;
        if constexpr (KEEP) {
            held.count = count;
            held.chunks = (hidden + F::CHUNK - 1) / F::CHUNK;
            if constexpr (F::TOKENS == 1)
                stem_fixed_fetch<Groups::ALONE>(F(), held, row, part, parts);
            else if constexpr (stem_is_coded<Rows>)
                stem_group_copy<Groups::ALONE>(held, row, part, parts, hidden);
            else
                stem_group_fetch<Groups::ALONE>(held, row, part, parts, hidden);
        } else {
            held.K = hidden;
#pragma unroll
            for (int j = 0; j < NT; j++)
                held.row[j] = row(min(8 * j + ((threadIdx.x & 31) >> 2), count - 1));
        }
    }
};

/* Adds the warps' sums of two items at a time: they wait for each other only then. */
template <class F, int MT, int NT, int WARPS, stem_act ACT, class Groups> struct stem_up_packed_sink {
    static constexpr int LD = 16 * MT + 4, ROWS = 8 * MT;
    __nv_bfloat16 *h; /* of the tile's first token */
    float *partial;   /* [2][WARPS][width][LD] */
    const float *whole;
    const Groups &groups;
    int inter, width;
    bool second;             /* of two */
    stem_group_place before; /* the first of them */

    __device__ __forceinline__ void add(const stem_group_place &at, const float *sums) const
    {
        int i0 = min(at.tile * ROWS, inter - ROWS);
        int count = groups.count(at.group), begin = groups.begin(at.group), expert = groups.expert(at.group);
        for (int o = threadIdx.x; o < ROWS * count; o += 32 * WARPS) {
            int row = o % ROWS, token = o / ROWS;
            float gate = 0, up = 0, gate_unit = F::UNIT, up_unit = F::UNIT;
            if (whole) {
                gate_unit *= stem_constant(whole + 2 * expert);
                up_unit *= stem_constant(whole + 2 * expert + 1);
            }
#pragma unroll
            for (int w = 0; w < WARPS; w++) {
                gate += sums[(w * width + token) * LD + row];
                up += sums[(w * width + token) * LD + row + ROWS];
            }
            h[(long long)groups.pair(begin + token) * inter + i0 + row] =
                stem_round<__nv_bfloat16>::from(stem_act_apply<ACT>(gate * gate_unit) * (up * up_unit));
        }
        __syncwarp();
    }
    __device__ __forceinline__ void operator()(const stem_group_place &at, bool last, const float (&acc)[MT][NT][F::SUMS])
    {
        int size = WARPS * width * LD;
        stem_group_leave(partial + second * size + (threadIdx.x >> 5) * width * LD, groups.count(at.group), acc);
        if (second || last) {
            __syncthreads();
            add(at, partial + second * size);
            if (second)
                add(before, partial);
            __syncthreads();
        }
        before = at;
        second = !second;
    }
};

template <class F, int MT, int NT, int STAGES, int WARPS, stem_act ACT, bool KEEP, class Groups, class Rows>
__device__ __forceinline__ void stem_up_packed_of(const Groups &groups, char *smem, const Rows &x,
                                                  const void *w13, const void *scale, const void *whole,
                                                  __nv_bfloat16 *h, int hidden, int inter, int width)
{
    constexpr int ring = STAGES * stem_packed_stage_bytes<F, MT>;
    int warp = threadIdx.x >> 5, row_tiles = (inter + 8 * MT - 1) / (8 * MT), items = groups.n() * row_tiles;
    /* a block's items lie together: few of them begin another group */
    int first = (int)((long long)items * blockIdx.x / gridDim.x);
    int n_items = (int)((long long)items * (blockIdx.x + 1) / gridDim.x);
    typedef stem_up_packed_tokens<F, NT, KEEP, Rows> Held;
    int kept = Held::ZEROS + (hidden + F::CHUNK - 1) / F::CHUNK * width * Held::BYTES;
    stem_up_packed_source<F, MT, NT, KEEP, Rows, Groups> source = {
        x, (const char *)w13, (const char *)scale, groups, hidden, inter, row_tiles, WARPS, -(1 << 30)};
    source.held.place(smem + WARPS * ring);
    stem_up_packed_sink<F, MT, NT, WARPS, ACT, Groups> sink = {
        h, (float *)(smem + WARPS * ring + (kept + 15) / 16 * 16), (const float *)whole, groups, inter, width, false, {}};
    stem_group_stream<F, MT, NT, STAGES, Groups::ALONE>(stem_shared_address(smem) + warp * ring, first, n_items, warp, WARPS, hidden,
                                         source, sink);
}

/* inter is 8 * MT at least. Block: 32 * WARPS threads, k shared out over its warps. Grid: x = any number of blocks, y = tiles of tile_tokens
 * tokens (tile_tokens * k <= STEM_GROUP_PAIRS). ONE: of a single token. width: tokens of a group, at most, of 8 * NT; an
 * expert with more has several. KEEP: they are kept in shared memory. Dynamic shared memory: for each warp its ring; if
 * KEEP, for each chunk of k `width` tokens' columns; two items' sums of WARPS * width times 16 * MT + 4. */
template <class F, int MT, int NT, int STAGES, int WARPS, stem_act ACT, bool KEEP, bool ONE, class Rows>
__device__ __forceinline__ void stem_experts_up_packed(const Rows &x, const int *ids, const void *w13,
                                                       const void *scale, const void *whole, __nv_bfloat16 *h,
                                                       int tokens, int k, int experts, int hidden, int inter,
                                                       int tile_tokens, int width)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    stem_wait();
    stem_launch_dependents();
    if constexpr (ONE) {
        stem_one one(ids, k, experts);
        stem_groups_of_one groups = {one};
        stem_up_packed_of<F, MT, NT, STAGES, WARPS, ACT, KEEP>(groups, stem_smem, x, w13, scale, whole, h, hidden, inter,
                                                               1);
    } else {
        __shared__ stem_groups made;
        int t0 = blockIdx.y * tile_tokens;
        stem_groups_make(&made, stem_smem, ids + (long long)t0 * k, nullptr, nullptr, min(tile_tokens, tokens - t0) * k,
                         k, experts, width);
        stem_groups_of_many groups = {&made};
        stem_up_packed_of<F, MT, NT, STAGES, WARPS, ACT, KEEP>(groups, stem_smem, stem_rows_from(x, t0, hidden), w13, scale,
                                                               whole, h + (long long)t0 * k * inter, hidden, inter, width);
    }
}

/* ---- down: item = group; the block keeps its 16 * MT rows of hidden, its warps share out the groups ---- */

/* A stage, and a warp's ring, which ends with a chunk of the tokens in fixed point. */
template <class F, int MT, int ROOM>
constexpr int stem_down_stage_bytes = stem_packed_stage_bytes<F, MT> + (F::TOKENS == 1 ? 0 : ROOM * F::CHUNK * 2);
template <class F, int MT, int STAGES, int ROOM>
constexpr int stem_down_ring_bytes = STAGES * stem_down_stage_bytes<F, MT, ROOM> +
                                     (F::TOKENS == 1 ? stem_fixed::ZEROS + ROOM * stem_fixed::BYTES : 0);

/* Tokens that came with the stage's weights, as they are in h. */
template <class F, int ROOM, int EACH = F::TOKENS> struct stem_tokens_staged {
    static constexpr int NT = (ROOM + 7) / 8;
    unsigned at;
    int count;
    __device__ __forceinline__ void place(char *) {}
    template <class Source> __device__ __forceinline__ void ask(const Source &, int, int) {}
    __device__ __forceinline__ void take(unsigned from) { at = from; }
    /* Of this lane in the j-th 8. */
    __device__ __forceinline__ unsigned token(int j) const
    {
        return at + min(8 * j + ((threadIdx.x & 31) >> 2), count - 1) * F::CHUNK * 2;
    }
    __device__ __forceinline__ void half(int, int, int h, int tiles, uint4 (&piece)[NT][4]) const
    {
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (NT == 1 || j < tiles)
                    piece[j][i] = F::permuted(stem_shared16(token(j) + 2 * F::column(h, i)));
    }
    __device__ __forceinline__ void codes(int j, int, int, uint4 (&piece)[2], float (&down)[2]) const
    {
        int t = threadIdx.x & 3;
        uint4 raw[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            raw[i] = stem_shared16(token(j) + 2 * F::column(i >> 1, i & 1));
        float s = F::quantise(raw, piece);
        down[0] = __shfl_sync(0xffffffffu, s, 8 * t);
        down[1] = __shfl_sync(0xffffffffu, s, 8 * t + 4);
    }
};

/* In fixed point: asked for a stage ahead. */
template <class F, int ROOM> struct stem_tokens_staged<F, ROOM, 1> : stem_tokens_fixed {
    static constexpr int NT = ROOM;
    uint4 raw[ROOM];
    template <class Source> __device__ __forceinline__ void ask(const Source &source, int group, int chunk)
    {
        int n = source.groups.count(group);
#pragma unroll
        for (int j = 0; j < ROOM; j++)
            if (ROOM == 1 || j < n)
                raw[j] = stem_fresh16(source.token(group, j) + chunk * F::CHUNK + (threadIdx.x & 31) * 8);
    }
    __device__ __forceinline__ void take(unsigned) const
    {
#pragma unroll
        for (int j = 0; j < ROOM; j++)
            if (ROOM == 1 || j < count)
                stem_fixed_put<F>(at + stem_fixed::ZEROS + j * stem_fixed::BYTES, raw[j]);
        __syncwarp();
    }
};

/* ROOM: tokens of a group, at most. */
template <class F, int MT, int ROOM, class Groups> struct stem_down_packed_source {
    const __nv_bfloat16 *h; /* of the tile's first token */
    const char *w2, *scale;
    const Groups &groups;
    int hidden, inter, row0, height; /* the first of `height` rows that are there */

    __device__ __forceinline__ void rows(int group, stem_packed_runs<F, MT> &r) const
    {
        int lane = threadIdx.x & 31;
        unsigned bytes = inter / F::CHUNK * 128 + inter % F::CHUNK * 128 / F::CHUNK;
        unsigned long long first = (unsigned long long)(unsigned)groups.expert(group) * (hidden * bytes);
        r.step = 4 * bytes;
        r.height = height;
        r.weight[0] = w2 + ((row0 + (lane >> 3)) * bytes + (lane & 7) * 16) + first;
        r.weight[1] = r.weight[0] + 8 * MT * bytes;
        if (F::SCALES)
            r.scale = scale + (row0 + lane) * (bytes / 8) + first / 8;
    }
    __device__ __forceinline__ const float *blocks(int group) const
    {
        if (F::SCALES)
            return nullptr;
        int line = (row0 + (threadIdx.x & 31) % (2 * MT) * 8) / 128;
        return (const float *)scale +
               ((long long)groups.expert(group) * ((hidden + 127) / 128) + line) * ((inter + 127) / 128);
    }
    __device__ __forceinline__ const __nv_bfloat16 *token(int group, int j) const
    {
        return h + (long long)groups.pair(groups.begin(group) + j) * inter;
    }
    /* A chunk of a group's tokens into a stage. */
    __device__ __forceinline__ void load(unsigned to, int group, int chunk) const
    {
        int column = (threadIdx.x & 31) * 8, count = F::TOKENS == 1 ? 0 : groups.count(group);
        bool inside = chunk * F::CHUNK + column < inter;
        for (int i = 0; i < count; i++)
            if (column < F::CHUNK)
                stem_copy16(to + (i * F::CHUNK + column) * 2, token(group, i) + (inside ? chunk * F::CHUNK + column : 0),
                            inside);
    }
};

/* A warp's items, each over all of k, with tokens in the stages. EARLY: as for stem_stream. */
template <class F, int MT, int STAGES, int ROOM, bool EARLY, class Source, class Sink>
__device__ __forceinline__ void stem_down_stream(char *room, int first, int step, int n_items, int K,
                                                 const Source &source, const Sink &sink)
{
    constexpr int bytes = stem_down_stage_bytes<F, MT, ROOM>, weights = stem_packed_stage_bytes<F, MT>;
    typedef stem_tokens_staged<F, ROOM> Tokens;
    unsigned ring = stem_shared_address(room);
    int chunks = (K + F::CHUNK - 1) / F::CHUNK, fill_item = first, fill_chunk = 0, fill_slot = 0, slot = 0;
    stem_packed_runs<F, MT> rows;
    if (first < n_items)
        source.rows(first, rows);
    auto fill = [&](bool early, bool late) {
        if (fill_item < n_items) {
            if (early)
                stem_packed_load<F, MT>(ring + fill_slot * bytes, rows, fill_chunk, K);
            if (late)
                source.load(ring + fill_slot * bytes + weights, fill_item, fill_chunk);
            fill_slot = fill_slot + 1 == STAGES ? 0 : fill_slot + 1;
            if (++fill_chunk == chunks) {
                fill_chunk = 0;
                fill_item += step;
                if (fill_item < n_items)
                    source.rows(fill_item, rows);
            }
        }
        if (late || F::TOKENS == 1)
            stem_copy_commit();
    };
    if (EARLY) {
#pragma unroll 1
        for (int i = 0; i < STAGES - 1; i++)
            fill(true, false);
        if (F::TOKENS != 1) { /* tokens are to come: these weights become part of the first stage's group */
            fill_item = first;
            fill_chunk = fill_slot = 0;
            if (first < n_items)
                source.rows(first, rows);
        }
        stem_wait();
        stem_launch_dependents();
    }
    Tokens tokens;
    tokens.place(room + STAGES * bytes);
    if (first < n_items)
        tokens.ask(source, first, 0);
#pragma unroll 1
    for (int i = 0; i < STAGES - 1 && !(EARLY && F::TOKENS == 1); i++)
        fill(!EARLY, true);
#pragma unroll 1
    for (int item = first; item < n_items; item += step) {
        float acc[MT][Tokens::NT][F::SUMS] = {};
        const float *block = source.blocks(item);
        tokens.count = source.groups.count(item);
#pragma unroll 1
        for (int i = 0; i < chunks; i++) {
            float scale = stem_group_scale<F>(block, i);
            stem_copy_wait<STAGES - 2>();
            __syncwarp(); /* all lanes' copies have landed, and all lanes have read the stage that is filled now */
            fill(true, true);
            tokens.take(ring + slot * bytes + weights);
            if (i + 1 < chunks)
                tokens.ask(source, item, i + 1);
            else if (item + step < n_items)
                tokens.ask(source, item + step, 0);
            stem_group_multiply(F(), ring + slot * bytes, scale, tokens, F::TOKENS == 1 ? 0 : i, i, acc,
                                (tokens.count + F::TOKENS - 1) / F::TOKENS);
            slot = slot + 1 == STAGES ? 0 : slot + 1;
        }
        sink(item, acc);
    }
}

/* As stem_down_one_sink, stem_down_sink of sums of fixed.cuh; the single token's are not added up over lanes. */
template <int MT> struct stem_down_fixed_one_sink {
    float (&sum)[MT][2];
    const float &scale;
    const stem_one &one;
    __device__ __forceinline__ void operator()(int place, const float (&acc)[MT][1][2]) const
    {
        float s = __shfl_sync(0xffffffffu, scale, one.lane_of(place));
#pragma unroll
        for (int i = 0; i < 2 * MT; i++)
            sum[i >> 1][i & 1] += s * acc[i >> 1][0][i & 1];
    }
};
/* SLOTS: a place of its own for each pair (down_slots.cuh), not a sum for each token. */
template <int MT, int NT, bool SLOTS = false> struct stem_down_fixed_sink {
    float *sum;
    const float *scale;
    const stem_groups *groups;
    __device__ __forceinline__ void operator()(int group, const float (&acc)[MT][NT][2]) const
    {
        int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
        int begin = groups->begin[group], count = groups->count[group];
#pragma unroll
        for (int j = 0; j < NT; j++)
            if (NT == 1 || j < count) {
                int to = SLOTS ? groups->pair[begin + j] : groups->token[begin + j];
                float *at = sum + to * stem_down_sink<MT, NT>::LD + 8 * t + g, s = scale[begin + j];
#pragma unroll
                for (int p = 0; p < (MT + 1) / 2; p++) {
                    float v = s * stem_fixed_sum(acc, j, p);
                    if (2 * p + (t >> 1) < MT)
                        at[32 * p] = SLOTS ? v : at[32 * p] + v;
                }
            }
        __syncwarp();
    }
};
template <class F, int MT, int NT, int EACH = F::TOKENS> struct stem_down_packed_sinks {
    typedef stem_down_one_sink<MT> one;
    typedef stem_down_sink<MT, NT> many;
};
template <class F, int MT, int NT> struct stem_down_packed_sinks<F, MT, NT, 1> {
    typedef stem_down_fixed_one_sink<MT> one;
    typedef stem_down_fixed_sink<MT, NT> many;
};

/* Adds up the warps' sums of a tile, in their order, and stores them. Each warp leaves its own at sums + warp * each. */
template <class F, int MT, int WARPS, class Store>
__device__ __forceinline__ void stem_down_packed_one_end(char *sums, int each, float (&sum)[MT][2], const Store &store,
                                                         int hidden, int row0, int height)
{
    int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
#pragma unroll
    for (int i = 0; i < 4 * MT && F::TOKENS == 1; i++) {
        float &v = sum[i >> 2][i >> 1 & 1];
        v += __shfl_xor_sync(0xffffffffu, v, 1 + (i & 1));
    }
    if ((lane & 3) == 0)
#pragma unroll
        for (int i = 0; i < 2 * MT; i++)
            ((float *)(sums + warp * each))[8 * i + (lane >> 2)] = sum[i >> 1][i & 1];
    __syncwarp();
    __syncthreads();
    if (tid < height && row0 + tid >= (int)blockIdx.x * height) {
        float v = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            v += ((const float *)(sums + w * each))[tid];
        store(0, row0 + tid, v, 0.0f);
    }
}

template <class F, int MT, int STAGES, int WARPS, bool EARLY, class Store>
__device__ __forceinline__ void stem_down_packed_one(const __nv_bfloat16 *h, const int *ids, const float *weight,
                                                     const void *w2, const void *scale, const void *whole,
                                                     const Store &store, int k, int experts, int hidden, int inter,
                                                     int height)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    constexpr int ring = stem_down_ring_bytes<F, MT, STAGES, 1>;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, row0 = min((int)blockIdx.x * height, hidden - height);
    float *sums = (float *)(stem_smem + WARPS * ring);
    stem_one one(ids, k, experts);
    float merged = one.merge(weight, k), sum[MT][2] = {};
    if (whole && one.valid >> lane & 1)
        merged *= stem_constant((const float *)whole + one.id);
    merged *= F::UNIT;
    stem_groups_of_one groups = {one};
    stem_down_packed_source<F, MT, 1, stem_groups_of_one> source = {h, (const char *)w2, (const char *)scale,
                                                                           groups, hidden, inter, row0, height};
    typename stem_down_packed_sinks<F, MT, 1>::one sink = {sum, merged, one};
    stem_down_stream<F, MT, STAGES, 1, EARLY>(stem_smem + warp * ring, warp, WARPS, one.n, inter, source, sink);
    stem_down_packed_one_end<F, MT, WARPS>((char *)sums, 16 * MT * 4, sum, store, hidden, row0, height);
}

template <class F, int MT, int STAGES, int WARPS, int ROOM, bool EARLY, class Store>
__device__ __forceinline__ void stem_down_packed_many(const __nv_bfloat16 *h, const int *ids, const float *weight,
                                                      const void *w2, const void *scale, const void *whole,
                                                      const Store &store, int tokens, int k, int experts, int hidden,
                                                      int inter, int tile_tokens, int height)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    __shared__ stem_groups made;
    constexpr int ring = stem_down_ring_bytes<F, MT, STAGES, ROOM>, NT = (ROOM + F::TOKENS - 1) / F::TOKENS;
    constexpr int LD = stem_down_sink<MT, NT>::LD;
    int tid = threadIdx.x, warp = tid >> 5, t0 = blockIdx.y * tile_tokens, n = min(tile_tokens, tokens - t0);
    int row0 = min((int)blockIdx.x * height, hidden - height), sums_size = tile_tokens * LD;
    float *sums = (float *)(stem_smem + WARPS * ring), *merged = sums + WARPS * sums_size;
    for (int i = tid; i < WARPS * sums_size; i += 32 * WARPS)
        sums[i] = 0;
    stem_groups_make(&made, stem_smem, ids + (long long)t0 * k, weight + (long long)t0 * k, merged, n * k, k, experts,
                     ROOM);
    if (whole || F::UNIT != 1) { /* into the weights of the places */
        for (int group = warp; group < made.n; group += WARPS) {
            float unit = F::UNIT * (whole ? stem_constant((const float *)whole + made.expert[group]) : 1.0f);
            for (int i = tid & 31; i < made.count[group]; i += 32)
                merged[made.begin[group] + i] *= unit;
        }
        __syncwarp();
        __syncthreads();
    }
    stem_groups_of_many groups = {&made};
    stem_down_packed_source<F, MT, ROOM, stem_groups_of_many> source = {
        h + (long long)t0 * k * inter, (const char *)w2, (const char *)scale, groups, hidden, inter, row0, height};
    typename stem_down_packed_sinks<F, MT, NT>::many sink = {sums + warp * sums_size, merged, &made};
    stem_down_stream<F, MT, STAGES, ROOM, EARLY>(stem_smem + warp * ring, warp, WARPS, made.n, inter, source, sink);
    __syncthreads();
    stem_down_end<WARPS, 16 * MT, LD, 32 * WARPS>(
        sums, sums_size, n, [&](int row) { return row < height && row0 + row >= (int)blockIdx.x * height; },
        [&](int token, int row, float v) { store(t0 + token, row0 + row, v, 0.0f); });
}

/* Block: 32 * WARPS threads. Grid: x = tiles of `height` rows of hidden, a multiple of 4 up to 16 * MT, or with f8e4m3 that; hidden
 * is as much at least (the last tile has full height, and stores what the one before it does not); y = tiles of tile_tokens tokens. EARLY: w2 and
 * its scales are weights, and what made ids and weight had completed when the kernel started; all are read before the
 * wait. ROOM: tokens of a group, at most; an expert with more has several. ONE: of a single token, with ROOM 1. Dynamic
 * shared memory: for each warp its ring (at least what stem_groups_make needs in all) and tile_tokens times 16 * MT + 4
 * sums, scales of places. */
template <class F, int MT, int STAGES, int WARPS, int ROOM, bool EARLY, bool ONE, class Store>
__device__ __forceinline__ void stem_experts_down_packed(const __nv_bfloat16 *h, const int *ids, const float *weight,
                                                         const void *w2, const void *scale, const void *whole,
                                                         const Store &store, int tokens, int k, int experts,
                                                         int hidden, int inter, int tile_tokens, int height)
{
    if (!EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
    if constexpr (ONE)
        stem_down_packed_one<F, MT, STAGES, WARPS, EARLY>(h, ids, weight, w2, scale, whole, store, k, experts,
                                                                    hidden, inter, height);
    else
        stem_down_packed_many<F, MT, STAGES, WARPS, ROOM, EARLY>(h, ids, weight, w2, scale, whole, store, tokens, k,
                                                                     experts, hidden, inter, tile_tokens, height);
}

#endif
