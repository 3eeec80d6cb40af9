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

template <class F, int NT, bool KEEP, class Rows> struct stem_up_packed_tokens : stem_tokens_kept<F, NT> {};
template <class F, int NT, class E> struct stem_up_packed_tokens<F, NT, false, const E *> : stem_tokens_read<F, NT> {};
template <class F, int NT> struct stem_up_packed_tokens<F, NT, false, stem_f8_rows> : stem_tokens_coded<NT> {};

/* KEEP: a group's tokens are kept; otherwise they are read where they are used, as an expert with many
 * tokens needs it, for which there is no room. */
template <class F, int MT, int NT, bool KEEP, class Rows, class Groups> struct stem_up_packed_source {
    Rows x; /* of the tile's first token */
    const char *w13, *scale;
    const Groups &groups;
    int hidden, inter, row_tiles, parts;
    int has; /* what is held: a token alone, or the inverted number of a group */
    stem_up_packed_tokens<F, NT, KEEP, Rows> held;

    /* Row r of the tile, counted in the expert's 2 * inter. */
    __device__ __forceinline__ int row(int i0, int r) const
    {
        return min(i0 + r % (8 * MT), inter - 1) + (r < 8 * MT ? 0 : inter);
    }
    __device__ __forceinline__ void rows(int item, stem_packed_rows<F, MT> &r) const
    {
        int lane = threadIdx.x & 31, group = item / row_tiles, i0 = (item - group * row_tiles) * 8 * MT;
        long long bytes = (long long)hidden / F::CHUNK * 128 + hidden % F::CHUNK * 128 / F::CHUNK;
        long long first = (long long)groups.expert(group) * 2 * inter;
#pragma unroll
        for (int i = 0; i < 4 * MT; i++)
            r.weight[i] = w13 + (first + row(i0, (lane >> 3) + 4 * i)) * bytes + (lane & 7) * 16;
#pragma unroll
        for (int i = 0; i < (MT + 1) / 2 && F::SCALES; i++)
            r.scale[i] = scale + (first + row(i0, (lane + 32 * i) % (16 * MT))) * (bytes / 8);
    }
    __device__ __forceinline__ const float *blocks(int item) const
    {
        if (F::SCALES)
            return nullptr;
        int group = item / row_tiles, each = (inter + 127) / 128, i = (threadIdx.x & 31) % (2 * MT);
        int i0 = (item - group * row_tiles) * 8 * MT + i % MT * 8;
        long long line = (long long)groups.expert(group) * 2 * each + (i < MT ? 0 : each) + min(i0, inter - 1) / 128;
        return (const float *)scale + line * ((hidden + 127) / 128);
    }
    __device__ __forceinline__ int tiles(int item) const
    {
        return (groups.count(item / row_tiles) + 7) / 8;
    }
    __device__ __forceinline__ void begin(int item, int part)
    {
        int group = item / row_tiles, begin = groups.begin(group), count = groups.count(group);
        int what = count == 1 ? groups.token(begin) : ~group;
        auto row = [&](int token) { return stem_rows_from(x, groups.token(begin + token), hidden); };
        if (what == has)
            return;
        has = what;
        if constexpr (KEEP) {
            held.count = count;
            held.chunks = (hidden + F::CHUNK - 1) / F::CHUNK;
            if constexpr (stem_is_coded<Rows>)
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
    int inter, row_tiles, width, first, n_items;

    __device__ __forceinline__ void add(int item, const float *sums) const
    {
        int group = item / row_tiles, i0 = (item - group * row_tiles) * ROWS;
        int count = groups.count(group), begin = groups.begin(group), expert = groups.expert(group);
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
            if (i0 + row < inter)
                h[(long long)groups.pair(begin + token) * inter + i0 + row] =
                    stem_round<__nv_bfloat16>::from(stem_act_apply<ACT>(gate * gate_unit) * (up * up_unit));
        }
        __syncwarp();
    }
    __device__ __forceinline__ void operator()(int item, const float (&acc)[MT][NT][4]) const
    {
        int second = (item - first) & 1, size = WARPS * width * LD;
        stem_group_leave(partial + second * size + (threadIdx.x >> 5) * width * LD, groups.count(item / row_tiles), acc);
        if (!second && item + 1 < n_items)
            return;
        __syncthreads();
        add(item, partial + second * size);
        if (second)
            add(item - 1, partial);
        __syncthreads();
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
    int kept = (hidden + F::CHUNK - 1) / F::CHUNK * width * stem_packed_token_bytes<F>;
    stem_up_packed_source<F, MT, NT, KEEP, Rows, Groups> source = {
        x, (const char *)w13, (const char *)scale, groups, hidden, inter, row_tiles, WARPS, -(1 << 30)};
    if constexpr (KEEP)
        source.held.at = smem + WARPS * ring;
    stem_up_packed_sink<F, MT, NT, WARPS, ACT, Groups> sink = {
        h, (float *)(smem + WARPS * ring + (KEEP ? (kept + 15) / 16 * 16 : 0)), (const float *)whole, groups, inter,
        row_tiles, width, first, n_items};
    stem_group_stream<F, MT, NT, STAGES, Groups::ALONE>(stem_shared_address(smem) + warp * ring, first, n_items, warp, WARPS, hidden,
                                         source, sink);
}

/* Block: 32 * WARPS threads, k shared out over its warps. Grid: x = any number of blocks, y = tiles of tile_tokens
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

template <class F, int MT, int ROOM>
constexpr int stem_down_stage_bytes = stem_packed_stage_bytes<F, MT> + ROOM * F::CHUNK * 2;

/* Tokens that came with the stage's weights, as they are in h. */
template <class F, int NT> struct stem_tokens_staged {
    unsigned at;
    int count;
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

/* ROOM: tokens of a group, at most. */
template <class F, int MT, int ROOM, class Groups> struct stem_down_packed_source {
    const __nv_bfloat16 *h; /* of the tile's first token */
    const char *w2, *scale;
    const Groups &groups;
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
        long long first = (long long)groups.expert(group) * hidden * bytes();
        const char *w = w2 + first, *s = scale + first / 8;
#pragma unroll
        for (int i = 0; i < 4 * MT; i++)
            r.weight[i] = w + row[i];
#pragma unroll
        for (int i = 0; i < (MT + 1) / 2 && F::SCALES; i++)
            r.scale[i] = s + scale_row[i];
    }
    __device__ __forceinline__ const float *blocks(int group) const
    {
        if (F::SCALES)
            return nullptr;
        int line = min(row0 + (threadIdx.x & 31) % (2 * MT) * 8, hidden - 1) / 128;
        return (const float *)scale +
               ((long long)groups.expert(group) * ((hidden + 127) / 128) + line) * ((inter + 127) / 128);
    }
    /* A chunk of a group's tokens into a stage. */
    __device__ __forceinline__ void load(unsigned to, int group, int chunk) const
    {
        int column = (threadIdx.x & 31) * 8, begin = groups.begin(group), count = groups.count(group);
        bool inside = chunk * F::CHUNK + column < inter;
        for (int i = 0; i < count; i++)
            if (column < F::CHUNK)
                stem_copy16(to + (i * F::CHUNK + column) * 2,
                            h + (long long)groups.pair(begin + i) * inter + (inside ? chunk * F::CHUNK + column : 0),
                            inside);
    }
};

/* A warp's items, each over all of k, with tokens in the stages. EARLY: as for stem_stream. */
template <class F, int MT, int STAGES, int ROOM, bool EARLY, class Source, class Sink>
__device__ __forceinline__ void stem_down_stream(unsigned ring, int first, int step, int n_items, int K,
                                                 const Source &source, const Sink &sink)
{
    constexpr int bytes = stem_down_stage_bytes<F, MT, ROOM>, weights = stem_packed_stage_bytes<F, MT>;
    constexpr int NT = (ROOM + 7) / 8;
    int chunks = (K + F::CHUNK - 1) / F::CHUNK, fill_item = first, fill_chunk = 0, fill_slot = 0, slot = 0;
    stem_packed_rows<F, MT> rows;
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
        if (late)
            stem_copy_commit();
    };
    if (EARLY) { /* these weights become part of the first stage's group */
#pragma unroll 1
        for (int i = 0; i < STAGES - 1; i++)
            fill(true, false);
        fill_item = first;
        fill_chunk = fill_slot = 0;
        if (first < n_items)
            source.rows(first, rows);
        stem_wait();
        stem_launch_dependents();
    }
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; i++)
        fill(!EARLY, true);
#pragma unroll 1
    for (int item = first; item < n_items; item += step) {
        float acc[MT][NT][4] = {};
        stem_tokens_staged<F, NT> tokens;
        const float *block = source.blocks(item);
        tokens.count = source.groups.count(item);
#pragma unroll 1
        for (int i = 0; i < chunks; i++) {
            float scale = stem_group_scale<F>(block, i);
            stem_copy_wait<STAGES - 2>();
            __syncwarp(); /* all lanes' copies have landed, and all lanes have read the stage that is filled now */
            fill(true, true);
            tokens.at = ring + slot * bytes + weights;
            stem_group_multiply(F(), ring + slot * bytes, scale, tokens, i, i, acc, (tokens.count + 7) / 8);
            slot = slot + 1 == STAGES ? 0 : slot + 1;
        }
        sink(item, acc);
    }
}

template <class F, int MT, int STAGES, int WARPS, bool EARLY, class Store>
__device__ __forceinline__ void stem_down_packed_one(const __nv_bfloat16 *h, const int *ids, const float *weight,
                                                     const void *w2, const void *scale, const void *whole,
                                                     const Store &store, int k, int experts, int hidden, int inter)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    constexpr int ring = STAGES * stem_down_stage_bytes<F, MT, 1>;
    int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, row0 = blockIdx.x * 16 * MT;
    float *sums = (float *)(stem_smem + WARPS * ring);
    stem_one one(ids, k, experts);
    float merged = one.merge(weight, k), sum[MT][2] = {};
    if (whole && one.valid >> lane & 1)
        merged *= stem_constant((const float *)whole + one.id);
    merged *= F::UNIT;
    stem_groups_of_one groups = {one};
    stem_down_packed_source<F, MT, 1, stem_groups_of_one> source = {h, (const char *)w2, (const char *)scale,
                                                                           groups, hidden, inter, row0};
    source.find_rows();
    stem_down_one_sink<MT> sink = {sum, merged, one};
    stem_down_stream<F, MT, STAGES, 1, EARLY>(stem_shared_address(stem_smem) + warp * ring, warp, WARPS, one.n,
                                                     inter, source, sink);
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

template <class F, int MT, int STAGES, int WARPS, int ROOM, bool EARLY, class Store>
__device__ __forceinline__ void stem_down_packed_many(const __nv_bfloat16 *h, const int *ids, const float *weight,
                                                      const void *w2, const void *scale, const void *whole,
                                                      const Store &store, int tokens, int k, int experts, int hidden,
                                                      int inter, int tile_tokens)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    __shared__ stem_groups made;
    constexpr int ring = STAGES * stem_down_stage_bytes<F, MT, ROOM>, NT = (ROOM + 7) / 8, LD = stem_down_sink<MT, NT>::LD;
    int tid = threadIdx.x, warp = tid >> 5, t0 = blockIdx.y * tile_tokens, n = min(tile_tokens, tokens - t0);
    int row0 = blockIdx.x * 16 * MT, sums_size = tile_tokens * LD;
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
        h + (long long)t0 * k * inter, (const char *)w2, (const char *)scale, groups, hidden, inter, row0};
    source.find_rows();
    stem_down_sink<MT, NT> sink = {sums + warp * sums_size, merged, &made};
    stem_down_stream<F, MT, STAGES, ROOM, EARLY>(stem_shared_address(stem_smem) + warp * ring, warp, WARPS, made.n,
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

/* Block: 32 * WARPS threads. Grid: x = tiles of 16 * MT rows of hidden, y = tiles of tile_tokens tokens. EARLY: w2 and
 * its scales are weights, and what made ids and weight had completed when the kernel started; all are read before the
 * wait. ROOM: tokens of a group, at most; an expert with more has several. ONE: of a single token, with ROOM 1. Dynamic
 * shared memory: for each warp its ring (at least what stem_groups_make needs in all) and tile_tokens times 16 * MT + 4
 * sums, scales of places. */
template <class F, int MT, int STAGES, int WARPS, int ROOM, bool EARLY, bool ONE, class Store>
__device__ __forceinline__ void stem_experts_down_packed(const __nv_bfloat16 *h, const int *ids, const float *weight,
                                                         const void *w2, const void *scale, const void *whole,
                                                         const Store &store, int tokens, int k, int experts,
                                                         int hidden, int inter, int tile_tokens)
{
    if (!EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
    if constexpr (ONE)
        stem_down_packed_one<F, MT, STAGES, WARPS, EARLY>(h, ids, weight, w2, scale, whole, store, k, experts,
                                                                    hidden, inter);
    else
        stem_down_packed_many<F, MT, STAGES, WARPS, ROOM, EARLY>(h, ids, weight, w2, scale, whole, store, tokens, k,
                                                                     experts, hidden, inter, tile_tokens);
}

/* ---- any shape and alignment: a warp for each element of h, of y ---- */

/* Grid: x = inter / 4, y = pairs; 4 warps. */
template <class F, class E, stem_act ACT, class Rows>
__device__ __forceinline__ void stem_experts_up_packed_plain(const Rows &x, const int *ids, const void *w13,
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
        auto row = stem_rows_from(x, pair / k, hidden);
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
