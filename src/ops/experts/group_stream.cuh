/* SPDX-License-Identifier: Apache-2.0
 *
 * The stream of packed_stream.cuh for tokens that change with the item: those of an expert's group. A block keeps them in
 * shared memory as long as its items are of one group.
 */
#ifndef STEM_GROUP_STREAM_CUH
#define STEM_GROUP_STREAM_CUH

/* ---- tokens: in the order in which the lanes use them ---- */

/* Who fetches tokens: all threads of a block, or a warp only the chunks that it multiplies, without a barrier. */
template <bool ALONE> __device__ __forceinline__ void stem_group_meet()
{
    __syncwarp();
    if (!ALONE)
        __syncthreads();
}

/* Chunks of these tokens, whose rows are row(token): all, or with ALONE every parts-th from the part-th on. Four lanes take
 * 128 columns of a token. */
template <bool ALONE, class F, int NT, class Row>
__device__ __forceinline__ void stem_group_fetch(const stem_tokens_kept<F, NT> &to, const Row &row, int part, int parts,
                                                 int K)
{
    constexpr int EACH = F::CHUNK / 128, PIECES = F::PIECES / EACH, N = 2; /* N of them are on their way at once */
    int t = threadIdx.x & 3, quad = (threadIdx.x & 31) >> 2, step = ALONE ? 8 : blockDim.x >> 2;
    int chunks = !ALONE ? to.chunks : part < to.chunks ? (to.chunks - part + parts - 1) / parts : 0;
    int runs = chunks * EACH * to.count;
    auto place = [&](int run, int &token) { /* the 128 columns; past the end: the last ones again */
        run = min(run, runs - 1);
        int columns = run / to.count;
        token = run - columns * to.count;
        return ALONE ? (part + columns / EACH * parts) * EACH + columns % EACH : columns;
    };
    stem_group_meet<ALONE>();
#pragma unroll 1
    for (int first = ALONE ? 0 : threadIdx.x >> 5 << 3; first < runs; first += N * step) {
        uint4 raw[N][4];
        int token;
#pragma unroll
        for (int i = 0; i < N; i++)
            if (!ALONE || first + i * step < runs) {
                int columns = place(first + i * step + quad, token);
                auto x = row(token);
                if constexpr (F::SCALES != 0)
                    F::load(x, columns, raw[i]);
                else
                    F::load(x, columns * 128, K, raw[i]);
            }
#pragma unroll
        for (int i = 0; i < N; i++)
            if (!ALONE || first + i * step < runs) {
                int columns = place(first + i * step + quad, token);
                uint4 *at = (uint4 *)to.at + (columns * PIECES * to.count + token) * 4 + t;
                if constexpr (F::SCALES != 0) {
#pragma unroll
                    for (int j = 0; j < PIECES; j++)
                        at[4 * to.count * j] = F::permuted(raw[i][j]);
                } else {
                    uint4 piece[2];
                    float down = F::quantise(raw[i], piece);
                    at[0] = piece[0];
                    at[4 * to.count] = piece[1];
                    if (t == 0)
                        *to.scale(token, columns) = down;
                }
            }
    }
    stem_group_meet<ALONE>();
}

/* The same of rows that are quantised already: eight lanes take the 128 codes of a token. */
template <bool ALONE, int NT, class Row>
__device__ __forceinline__ void stem_group_copy(const stem_tokens_kept<stem_f8, NT> &to, const Row &row, int part, int parts,
                                                int K)
{
    constexpr int N = 4; /* on their way at once */
    int p = threadIdx.x & 7, step = ALONE ? 4 : blockDim.x >> 3;
    int chunks = !ALONE ? to.chunks : part < to.chunks ? (to.chunks - part + parts - 1) / parts : 0;
    int runs = chunks * to.count;
    stem_group_meet<ALONE>();
#pragma unroll 1
    for (int first = (ALONE ? threadIdx.x & 31 : threadIdx.x) >> 3; first < runs; first += N * step) {
        uint4 raw[N];
        float down[N];
        int columns[N], token[N];
#pragma unroll
        for (int i = 0; i < N; i++) { /* past the end: the last ones again, with the same result */
            int run = min(first + i * step, runs - 1), c = run / to.count;
            token[i] = run - c * to.count;
            columns[i] = ALONE ? part + c * parts : c;
            stem_f8_rows x = row(token[i]);
            int at = columns[i] * 128 + p * 16;
            raw[i] = at < K ? stem_fresh16(x.code + at) : uint4{0, 0, 0, 0};
            down[i] = p == 0 ? stem_load_fresh(x.down + columns[i]) : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            ((uint4 *)to.at)[((columns[i] * 2 + (p >> 2)) * to.count + token[i]) * 4 + (p & 3)] = raw[i];
            if (p == 0)
                *to.scale(token[i], columns[i]) = down[i];
        }
    }
    stem_group_meet<ALONE>();
}

/* Tokens of fixed.cuh, kept as those of stem_tokens_kept: [chunk][token]. */
struct stem_tokens_fixed {
    char *at;
    stem_fixed_tokens lane;
    int chunks, count;
    __device__ __forceinline__ void place(char *to)
    {
        at = to;
        lane = stem_fixed_tokens(stem_shared_address(to));
        stem_fixed_clear(to);
    }
};

/* As the other one; a warp takes 256 columns of a token. */
template <bool ALONE, class F, class Row>
__device__ __forceinline__ void stem_fixed_fetch(F, const stem_tokens_fixed &to, const Row &row, int part, int parts)
{
    constexpr int N = 4; /* on their way at once */
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, step = ALONE ? 1 : blockDim.x >> 5;
    int chunks = !ALONE ? to.chunks : part < to.chunks ? (to.chunks - part + parts - 1) / parts : 0;
    int runs = chunks * to.count;
    stem_group_meet<ALONE>();
#pragma unroll 1
    for (int first = ALONE ? 0 : warp; first < runs; first += N * step) {
        uint4 raw[N];
        int at[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            int run = min(first + i * step, runs - 1), c = run / to.count, token = run - c * to.count;
            c = ALONE ? part + c * parts : c;
            at[i] = (c * to.count + token) * stem_fixed::BYTES + stem_fixed::ZEROS;
            raw[i] = stem_fresh16(row(token) + c * stem_fixed::CHUNK + lane * 8);
        }
#pragma unroll
        for (int i = 0; i < N; i++)
            if (first + i * step < runs)
                stem_fixed_put<F>(to.at + at[i], raw[i]);
    }
    stem_group_meet<ALONE>();
}

/* ---- products of a stage ---- */

template <int MT, int NT, class F>
__device__ __forceinline__ void stem_group_multiply(F, unsigned stage, float, const stem_tokens_fixed &tokens, int c, int,
                                                    float (&acc)[MT][NT][2], int count)
{
    stem_fixed_multiply<1>(F(), stage, tokens.lane, c * tokens.count, count, acc);
}

/* scale: f8e4m3's of lane % (2 * MT). */
template <int MT, int NT, class F, class Tokens>
__device__ __forceinline__ void stem_group_multiply(F, unsigned stage, float, const Tokens &tokens, int c, int chunk,
                                                    float (&acc)[MT][NT][4], int tiles)
{
    stem_packed_multiply(F(), stage, tokens, c, chunk, acc, tiles);
}

template <int MT, int NT, class Tokens>
__device__ __forceinline__ void stem_group_multiply(stem_f8, unsigned stage, float of_lane, const Tokens &tokens, int c,
                                                    int chunk, float (&acc)[MT][NT][4], int tiles)
{
    float scale[2 * MT];
#pragma unroll
    for (int i = 0; i < 2 * MT; i++)
        scale[i] = __shfl_sync(0xffffffffu, of_lane, i);
    stem_packed_multiply(stem_f8(), stage, scale, tokens, c, chunk, acc, tiles);
}

/* The scale that the lane holds in a stage: asked for before the wait for the stage. */
template <class F> __device__ __forceinline__ float stem_group_scale(const float *block, int chunk)
{
    return F::SCALES ? 0.0f : stem_constant(block + chunk);
}

/* An item: a tile of rows of a group. */
struct stem_group_place {
    int group, tile;
    __device__ __forceinline__ void next(int tiles)
    {
        bool last = tile + 1 == tiles;
        group += last;
        tile = last ? 0 : tile + 1;
    }
};

/* A block's items `first` up to n_items - 1 of all; a group has source.row_tiles of them. The (item, chunk) pairs are dealt
 * out to its `parts` warps one after the other, so each has as many as the others in a few items; with ALONE, a warp has the same
 * chunks of each item. source.rows(place, rows) says where weights are, source.blocks(place) where the lane's scales of f8e4m3
 * begin; source.begin(place, part) makes source.held the item's tokens, with all warps of the block or ALONE; source.tiles(place)
 * counts its accumulators. */
template <class F, int MT, int NT, int STAGES, bool ALONE, class Source, class Sink>
__device__ __forceinline__ void stem_group_stream(unsigned ring, int first, int n_items, int part, int parts, int K,
                                                  Source &source, Sink &sink)
{
    constexpr int bytes = stem_packed_stage_bytes<F, MT>;
    int chunks = (K + F::CHUNK - 1) / F::CHUNK, turn = ALONE ? 0 : chunks % parts, fill_slot = 0, slot = 0;
    int fill_item = first, fill_part = part, fill_chunk = part;
    stem_group_place place = {first / source.row_tiles, first % source.row_tiles}, fill_place = place;
    stem_packed_runs<F, MT> rows;
    auto next = [&](int p) { return p < turn ? p - turn + parts : p - turn; }; /* the first chunk of the next item */
    auto skip = [&]() { /* items of which this warp has no chunk */
        while (fill_item < n_items && fill_chunk >= chunks) {
            fill_item++;
            fill_place.next(source.row_tiles);
            fill_part = fill_chunk = next(fill_part);
        }
        if (fill_item < n_items && fill_chunk == fill_part)
            source.rows(fill_place, rows);
    };
    auto fill = [&]() {
        if (fill_item < n_items) {
            stem_packed_load<F, MT>(ring + fill_slot * bytes, rows, fill_chunk, K);
            fill_slot = fill_slot + 1 == STAGES ? 0 : fill_slot + 1;
            fill_chunk += parts;
            skip();
        }
        stem_copy_commit();
    };
    skip();
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; i++)
        fill();
#pragma unroll 1
    for (int item = first; item < n_items; item++, part = next(part)) {
        float acc[MT][NT][F::SUMS] = {};
        int tiles = source.tiles(place);
        const float *block = source.blocks(place);
        source.begin(place, part);
#pragma unroll 1
        for (int chunk = part; chunk < chunks; chunk += parts) {
            float scale = stem_group_scale<F>(block, chunk);
            stem_copy_wait<STAGES - 2>();
            __syncwarp(); /* all lanes' copies have landed, and all lanes have read the stage that is filled now */
            fill();
            stem_group_multiply(F(), ring + slot * bytes, scale, source.held, chunk, chunk, acc, tiles);
            slot = slot + 1 == STAGES ? 0 : slot + 1;
        }
        sink(place, item + 1 == n_items, acc);
        place.next(source.row_tiles);
    }
}

/* Writes a warp's sums of `count` tokens to shared memory: tile[token * (16 * MT + 4) + row]. */
template <int MT, int NT>
__device__ __forceinline__ void stem_group_leave(float *tile, int count, const float (&acc)[MT][NT][4])
{
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
        for (int c = 0; c < 2; c++)
            if (8 * j + 2 * t + c < count)
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    float *at = tile + (8 * j + 2 * t + c) * (16 * MT + 4) + 16 * m + g;
                    at[0] = acc[m][j][c];
                    at[8] = acc[m][j][c + 2];
                }
    __syncwarp();
}

template <int MT, int NT>
__device__ __forceinline__ void stem_group_leave(float *tile, int count, const float (&acc)[MT][NT][2])
{
    stem_fixed_leave(tile, count, acc);
    __syncwarp();
}

#endif
