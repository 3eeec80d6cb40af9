/* SPDX-License-Identifier: Apache-2.0
 *
 * linear with weights in a format of formats.cuh. A cluster of blocks owns a run of tiles of 16 * MT rows, as
 * many as any other cluster up to one; each of its blocks has a range of k of its own, whose tokens it keeps in shared
 * memory for the whole launch. The (tile, chunk of k) pairs of a block are shared out evenly over its warps, tile by
 * tile, so a warp's share is a run of chunks that may begin and end inside of a tile. A warp adds a tile up in
 * registers and leaves its sums in a slot of shared memory; when all are there the slots of a tile are added in order
 * of warps, and those of the cluster's blocks in order of blocks. Warps meet once in a round, which is as many tiles as
 * there are slots for; their rings are filled across its end.
 *
 * Preconditions as for packed_stream.cuh. Columns past the end of k are zeros in tokens and weights.
 */
#ifndef STEM_LINEAR_EVEN_CUH
#define STEM_LINEAR_EVEN_CUH

template <class F> constexpr bool stem_is_f8 = false;
template <> constexpr bool stem_is_f8<stem_f8> = true;

/* Rows of a chunk, the scales of a format of 4 bits, or f8e4m3's: one for each 8 rows. */
template <class F, int MT>
constexpr int stem_even_stage_bytes = stem_packed_stage_bytes<F, MT> + (stem_is_f8<F> ? (8 * MT + 15) / 16 * 16 : 0);
/* Shared memory for a token's columns of one chunk; and before all of them. */
template <class F, int EACH = F::TOKENS> struct stem_even_room {
    static constexpr int BYTES = F::PIECES * 64 + (stem_is_f8<F> ? 4 : 0), ZEROS = 0;
};
template <class F> struct stem_even_room<F, 1> : stem_fixed {};
/* A slot: a tile's sums of each token, as stem_fixed_leave has them. */
template <int MT> constexpr int stem_even_slot_floats = 16 * MT + 4;

/* Row r of a tile's 16 * MT, of columns = n or n / 2. PAIR: half of the rows are of the first half of w, the others the same
 * ones of the second. */
template <int MT, bool PAIR> __device__ __forceinline__ int stem_packed_row(int n0, int r, int columns)
{
    return PAIR ? min(n0 + r % (8 * MT), columns - 1) + (r < 8 * MT ? 0 : columns) : min(n0 + r, columns - 1);
}

/* What a block does: tiles first .. first + tiles - 1 of all, `each` in a round; chunks chunk0 .. chunk0 + chunks - 1. */
struct stem_even_work {
    int first, tiles, each, chunk0, chunks;
    bool soon; /* no more weights are asked for after the wait: let the next kernel start when the tokens have been asked for */

    __device__ __forceinline__ void asked() const
    {
        if (soon)
            stem_launch_dependents();
    }
};

/* Of `tiles` tiles and all of k, what belongs to this block. */
template <class F, int CLUSTER> __device__ __forceinline__ stem_even_work stem_even_work_of(unsigned tiles, int k, int each)
{
    unsigned q = blockIdx.x / CLUSTER, Q = gridDim.x / CLUSTER, rank = blockIdx.x % CLUSTER;
    unsigned chunks = (k + F::CHUNK - 1) / F::CHUNK;
    stem_even_work w;
    w.first = tiles * q / Q;
    w.tiles = tiles * (q + 1) / Q - w.first;
    w.each = each;
    w.chunk0 = chunks * rank / CLUSTER;
    w.chunks = chunks * (rank + 1) / CLUSTER - w.chunk0;
    return w;
}

/* A warp's share of the units of the round that begins with tile `round`: (tile, chunk) in order. */
template <int WARPS> struct stem_even_share {
    int tiles, begin, end, tile, chunk;
    __device__ __forceinline__ stem_even_share(const stem_even_work &work, int round)
        : tiles(min(work.each, work.tiles - round))
    {
        unsigned units = tiles * work.chunks, warp = threadIdx.x >> 5;
        begin = units * warp / WARPS;
        end = units * (warp + 1) / WARPS;
        tile = (unsigned)begin / (unsigned)work.chunks;
        chunk = begin - tile * work.chunks;
    }
};

/* A warp's ring, filled ahead of the multiplication along the warp's shares of all rounds. */
template <class F, int MT, int STAGES, int WARPS, bool PAIR> struct stem_even_ring {
    static constexpr int BYTES = stem_even_stage_bytes<F, MT>;
    const char *w, *scale;
    int columns, k; /* of w; half of its rows with PAIR */
    stem_even_work work;
    unsigned at; /* shared memory */
    int slot, round, unit, end, chunk, tile;
    stem_packed_rows<F, MT> rows;
    const float *block; /* f8e4m3: lane i has the scales of rows 8i .. 8i + 7 */

    __device__ __forceinline__ void point()
    {
        int lane = threadIdx.x & 31, n0 = (work.first + tile) * (PAIR ? 8 : 16) * MT;
        long long bytes = (long long)k / F::CHUNK * 128 + k % F::CHUNK * 128 / F::CHUNK;
#pragma unroll
        for (int i = 0; i < 4 * MT; i++)
            rows.weight[i] = w + stem_packed_row<MT, PAIR>(n0, (lane >> 3) + 4 * i, columns) * bytes + (lane & 7) * 16;
#pragma unroll
        for (int i = 0; i < (MT + 1) / 2 && F::SCALES; i++)
            rows.scale[i] = scale + stem_packed_row<MT, PAIR>(n0, (lane + 32 * i) % (16 * MT), columns) * (bytes / 8);
        if (stem_is_f8<F>)
            block = (const float *)scale + (long long)(stem_packed_row<MT, PAIR>(n0, lane % (2 * MT) * 8, columns) / 128) *
                                               ((k + 127) / 128);
    }
    /* The warp's first unit of the round that begins with tile `at_tile`, or of the next one that has any. */
    __device__ __forceinline__ void enter(int at_tile)
    {
        for (round = at_tile, unit = end = 0; unit == end && round < work.tiles; round += work.each) {
            stem_even_share<WARPS> share(work, round);
            unit = share.begin;
            end = share.end;
            tile = round + share.tile;
            chunk = share.chunk;
        }
        if (unit < end)
            point();
    }
    __device__ __forceinline__ void fill()
    {
        if (unit < end) {
            unsigned to = at + slot * BYTES;
            int lane = threadIdx.x & 31, c = work.chunk0 + chunk;
            stem_packed_load<F, MT>(to, rows, c, k);
            if (stem_is_f8<F> && lane < 2 * MT)
                stem_copy4(to + stem_packed_stage_bytes<F, MT> + lane * 4, block + c);
            slot = slot + 1 == STAGES ? 0 : slot + 1;
            chunk++;
            if (++unit == end)
                enter(round);
            else if (chunk == work.chunks) {
                chunk = 0;
                tile++;
                point();
            }
        }
        stem_copy_commit();
    }
};

/* ---- tokens ---- */

/* Whether a lane's four pieces of a half are columns next to each other. Otherwise those of four lanes are. */
template <class F> constexpr bool stem_even_runs = false;
template <> constexpr bool stem_even_runs<stem_nvfp4> = true;

/* [chunk of the block][token][piece][t], exchanged so that 8 lanes meet no bank twice, neither those that read a piece of two
 * tokens nor those that store columns next to each other; then f8e4m3's scales [chunk][token]. */
template <class F> __device__ __forceinline__ int stem_even_place(int count, int c, int token, int piece, int t)
{
    int turn = token & 1;
    return (((c * count + token) * F::PIECES + (piece ^ turn)) * 4 + (stem_even_runs<F> ? t ^ (piece & 2) ^ turn : t)) * 16;
}

/* A run of chunks of the tokens, as a lane reads them. Where a token is missing, another's are read. */
template <class F, int NT, int EACH = F::TOKENS> struct stem_even_tokens {
    static constexpr int WAYS = stem_even_runs<F> ? 4 : 2;
    unsigned first[NT][WAYS], step; /* pieces 0, 1, .. of this lane's token in each 8; from chunk to chunk */
    unsigned down[2 * NT], count4;    /* scales of tokens 2t and 2t + 1 */

    __device__ __forceinline__ stem_even_tokens(unsigned at, int chunks, int count, int c)
    {
        int lane = threadIdx.x & 31;
#pragma unroll
        for (int j = 0; j < NT; j++) {
            int token = min(8 * j + (lane >> 2), count - 1);
#pragma unroll
            for (int i = 0; i < WAYS; i++)
                first[j][i] = at + stem_even_place<F>(count, c, token, i, lane & 3);
            for (int i = 0; i < 2 && stem_is_f8<F>; i++)
                down[2 * j + i] = at + chunks * count * F::PIECES * 64 +
                                  (c * count + min(8 * j + 2 * (lane & 3) + i, count - 1)) * 4;
        }
        step = count * F::PIECES * 64;
        count4 = count * 4;
    }
    __device__ __forceinline__ void next()
    {
#pragma unroll
        for (int j = 0; j < NT; j++) {
#pragma unroll
            for (int i = 0; i < WAYS; i++)
                first[j][i] += step;
            for (int i = 0; i < 2 && stem_is_f8<F>; i++)
                down[2 * j + i] += count4;
        }
    }
    __device__ __forceinline__ uint4 piece(int j, int p) const
    {
        return stem_shared16(first[j][p % WAYS] + p / WAYS * (WAYS * 64));
    }
    __device__ __forceinline__ void codes(int j, int, int, uint4 (&b)[2], float (&scale)[2]) const
    {
        b[0] = piece(j, 0);
        b[1] = piece(j, 1);
        scale[0] = __uint_as_float(stem_shared4(down[2 * j]));
        scale[1] = __uint_as_float(stem_shared4(down[2 * j + 1]));
    }
    __device__ __forceinline__ void half(int, int, int h, int, uint4 (&token)[NT][4]) const
    {
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                token[j][i] = piece(j, 4 * h + i);
    }
};

/* In fixed point: [chunk of the block][token], as fixed.cuh has them. */
template <class F, int NT> struct stem_even_tokens<F, NT, 1> {
    stem_fixed_tokens lane;
    int first, count;
    __device__ __forceinline__ stem_even_tokens(unsigned at, int, int n, int c) : lane(at), first(c * n), count(n) {}
    __device__ __forceinline__ void next()
    {
        first += count;
    }
};

/* A warp takes a chunk of a token at a time. */
template <class F>
__device__ __forceinline__ void stem_even_keep_fixed(F, char *to, const __nv_bfloat16 *x, int count, int k,
                                                     const stem_even_work &work)
{
    constexpr int N = 4; /* on their way at once */
    int lane = threadIdx.x & 31, runs = work.chunks * count, step = blockDim.x >> 5;
    stem_fixed_clear(to);
#pragma unroll 1
    for (int first = threadIdx.x >> 5; first < runs; first += N * step) {
        uint4 raw[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            int run = min(first + i * step, runs - 1), c = run / count;
            raw[i] = stem_fresh16(x + (long long)(run - c * count) * k + (work.chunk0 + c) * F::CHUNK + lane * 8);
        }
        if (first + N * step >= runs)
            work.asked();
#pragma unroll
        for (int i = 0; i < N; i++)
            if (first + i * step < runs)
                stem_fixed_put<F>(to + F::ZEROS + (first + i * step) * F::BYTES, raw[i]);
    }
}

__device__ __forceinline__ void stem_even_fetch(stem_f8, const __nv_bfloat16 *row, int k, const stem_even_work &work, int columns,
                                                uint4 (&raw)[4])
{
    stem_f8::load(row, (work.chunk0 + columns) * 128, k, raw);
}
/* 64 bytes next to each other by four lanes: half a sector at a time takes nearly twice as long. */
template <class F>
__device__ __forceinline__ void stem_even_fetch(F, const __nv_bfloat16 *row, int, const stem_even_work &work, int columns,
                                                uint4 (&raw)[4])
{
#pragma unroll
    for (int j = 0; j < 4; j++)
        raw[j] = stem_fresh16(row + work.chunk0 * 256 + columns * 128 + 32 * j + 8 * (threadIdx.x & 3));
}

/* In the form in which they are multiplied; returns the scale. */
__device__ __forceinline__ float stem_even_turn(stem_f8, const uint4 (&raw)[4], uint4 (&piece)[4])
{
    uint4 two[2];
    float down = stem_f8::quantise(raw, two);
    piece[0] = two[0];
    piece[1] = two[1];
    return down;
}
template <class F> __device__ __forceinline__ float stem_even_turn(F, const uint4 (&raw)[4], uint4 (&piece)[4])
{
#pragma unroll
    for (int j = 0; j < 4; j++)
        piece[j] = F::permuted(raw[j]);
    return 0;
}

/* Four lanes have 128 columns of a token at a time, from token to token and then to the next columns. */
template <class F>
__device__ __forceinline__ void stem_even_keep(F, char *to, const __nv_bfloat16 *x, int count, int k,
                                               const stem_even_work &work)
{
    constexpr int EACH = F::CHUNK / 128, PIECES = F::PIECES / EACH, N = 2; /* on their way at once */
    int t = threadIdx.x & 3, most = work.chunks * EACH - 1;
    unsigned step = blockDim.x >> 2, skip = step / count, rest = step - skip * count, first = threadIdx.x >> 2;
    int columns = first / count, token = first - columns * count;
    float *downs = (float *)(to + work.chunks * count * F::PIECES * 64);
#pragma unroll 1
    for (int left = work.chunks * EACH * count - (int)(threadIdx.x >> 5 << 3); left > 0; left -= N * step) {
        uint4 raw[N][4], piece[4];
        int at_token[N], at_columns[N];
#pragma unroll
        for (int i = 0; i < N; i++) { /* past the end: the last columns again, with the same result */
            at_token[i] = token;
            at_columns[i] = min(columns, most);
            stem_even_fetch(F(), x + (long long)token * k, k, work, at_columns[i], raw[i]);
            token += rest;
            columns += skip + (token >= count);
            token -= token >= count ? count : 0;
        }
        if (left <= N * (int)step)
            work.asked();
#pragma unroll
        for (int i = 0; i < N; i++) {
            float down = stem_even_turn(F(), raw[i], piece);
            if (stem_is_f8<F> && t == 0)
                downs[at_columns[i] * count + at_token[i]] = down;
#pragma unroll
            for (int j = 0; j < PIECES; j++) {
                int from = at_columns[i] % EACH * PIECES; /* of the half */
                *(uint4 *)(to + stem_even_place<F>(count, at_columns[i] / EACH, at_token[i],
                                                   from + (stem_even_runs<F> ? t : j), stem_even_runs<F> ? j : t)) = piece[j];
            }
        }
    }
}

/* Of rows that are quantised already: eight lanes take the 128 codes of a chunk of a token. */
__device__ __forceinline__ void stem_even_keep(stem_f8, char *to, const stem_f8_rows &x, int count, int k,
                                               const stem_even_work &work)
{
    constexpr int N = 4; /* on their way at once */
    int p = threadIdx.x & 7, scales = work.chunks * count, step = blockDim.x >> 3;
    float *downs = (float *)(to + scales * stem_f8::PIECES * 64);
    auto scale = [&](int i) {
        int token = i / work.chunks;
        return stem_load_fresh(x.down + (long long)token * ((k + 127) / 128) + work.chunk0 + i - token * work.chunks);
    };
    auto keep = [&](int i, float v) {
        int token = i / work.chunks;
        downs[(i - token * work.chunks) * count + token] = v;
    };
    float first = (int)threadIdx.x < scales ? scale(threadIdx.x) : 0.0f;
#pragma unroll 1
    for (int i0 = threadIdx.x >> 3; i0 < scales; i0 += N * step) {
        uint4 raw[N];
#pragma unroll
        for (int j = 0; j < N; j++) { /* past the end: the last again, with the same result */
            int i = min(i0 + j * step, scales - 1), token = i / work.chunks;
            int at = (work.chunk0 + i - token * work.chunks) * 128 + p * 16;
            raw[j] = at < k ? stem_fresh16(x.code + (long long)token * k + at) : uint4{0, 0, 0, 0};
        }
        if (i0 + N * step >= scales)
            work.asked();
#pragma unroll
        for (int j = 0; j < N; j++) {
            int i = min(i0 + j * step, scales - 1), token = i / work.chunks;
            *(uint4 *)(to + stem_even_place<stem_f8>(count, i - token * work.chunks, token, p >> 2, p & 3)) = raw[j];
        }
    }
    if ((int)threadIdx.x < scales)
        keep(threadIdx.x, first);
#pragma unroll 1
    for (int i = threadIdx.x + blockDim.x; i < scales; i += blockDim.x)
        keep(i, scale(i));
}

/* ---- products ---- */

template <int MT, int NT, class F>
__device__ __forceinline__ void stem_even_multiply(F, unsigned stage, const stem_even_tokens<F, NT, 1> &tokens,
                                                   float (&acc)[MT][NT][2])
{
    stem_fixed_multiply<1>(F(), stage, tokens.lane, tokens.first, tokens.count, acc);
}

template <int MT, int NT, class F, class Tokens>
__device__ __forceinline__ void stem_even_multiply(F, unsigned stage, const Tokens &tokens,
                                                   float (&acc)[MT][NT][4])
{
    stem_packed_multiply(F(), stage, tokens, 0, 0, acc, NT);
}

template <int MT, int NT, class Tokens>
__device__ __forceinline__ void stem_even_multiply(stem_f8, unsigned stage, const Tokens &tokens,
                                                   float (&acc)[MT][NT][4])
{
    float scale[2 * MT];
#pragma unroll
    for (int i = 0; i < (MT + 1) / 2; i++) {
        uint4 four = stem_shared16(stage + MT * 2048 + i * 16);
#pragma unroll
        for (int j = 4 * i; j < min(4 * i + 4, 2 * MT); j++)
            scale[j] = __uint_as_float(stem_word(four, j & 3));
    }
    stem_packed_multiply(stem_f8(), stage, scale, tokens, 0, 0, acc, NT);
}

/* ---- sums ---- */

/* Adds a round's slots and stores the results, four rows of a tile at a time, which are a *quad* (two of four with PAIR). The quads of a
 * round belong to the blocks of a cluster in turn: each is sent the others' sums of its own, adds them up in the order of the
 * blocks, and stores. */
template <class F, class Store, int MT, int WARPS, int CLUSTER, bool PAIR> struct stem_even_sink {
    static constexpr float UNIT = F::UNIT;
    static constexpr int LD = stem_even_slot_floats<MT>, ROWS = PAIR ? 8 * MT : 16 * MT, QUADS = ROWS / 4, SUMS = PAIR ? 2 : 1;
    const Store &store;
    float *slots, *sent; /* [tile + warp][token][LD]; [block of the cluster][its quad][token][SUMS][4] */
    unsigned mailbox; /* and the tensor's scale, if there is one, 8 bytes on */
    int m0, count, columns, rank;
    bool whole;

    /* How many of a round's quads are block r's. */
    static __device__ __forceinline__ int quads(int tiles, int r)
    {
        return (tiles * QUADS + CLUSTER - 1 - r) / CLUSTER;
    }
    __device__ __forceinline__ void expect(int tiles) const
    {
        if (quads(tiles, rank) > 0)
            stem_mailbox_expect(mailbox, quads(tiles, rank) * count * SUMS * 4 * CLUSTER);
    }
    /* Before the blocks of the cluster may meet; of the first round. */
    __device__ __forceinline__ void begin(int tiles) const
    {
        if (CLUSTER == 1)
            return;
        if (threadIdx.x == 0) {
            stem_mailbox_init(mailbox);
            expect(tiles);
        }
        __syncwarp();
        stem_cluster_arrive();
    }
    static __device__ __forceinline__ void add4(float (&v)[4], const float *from)
    {
        uint4 four = *(const uint4 *)from;
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i] += __uint_as_float(stem_word(four, i));
    }
    __device__ __forceinline__ void put(int tile, int token, int quad, const float (&v)[SUMS][4], float unit) const
    {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int column = tile * ROWS + 4 * quad + i;
            if (column < columns)
                store(m0 + token, column, v[0][i] * unit, PAIR ? v[SUMS - 1][i] * unit : 0.0f);
        }
    }
    /* This block's sums of the `tiles` tiles from `first` on: stored, or sent. */
    __device__ __forceinline__ void add(int first, int tiles, int chunks, float unit) const
    {
        unsigned lane = threadIdx.x & 31, units = tiles * chunks;
#pragma unroll 1
        for (int tile = threadIdx.x >> 5; tile < tiles; tile += WARPS) {
            /* the warps that begin at or before the tile's first and last unit */
            int from = ((tile * chunks + 1) * WARPS - 1) / units, to = ((tile + 1) * chunks * WARPS - 1) / units;
#pragma unroll 1
            for (int o = lane; o < count * QUADS; o += 32) {
                int token = o / QUADS, quad = o % QUADS;
                const float *at = slots + ((tile + from) * count + token) * LD + 4 * quad;
                float v[SUMS][4] = {};
#pragma unroll 1
                for (int i = from; i <= to; i++, at += count * LD)
#pragma unroll
                    for (int h = 0; h < SUMS; h++)
                        add4(v[h], at + h * ROWS);
                if (CLUSTER == 1) {
                    put(first + tile, token, quad, v, unit);
                    continue;
                }
                unsigned q = tile * QUADS + quad;
                float *to_it = sent + ((rank * quads(tiles, 0) + q / CLUSTER) * count + token) * SUMS * 4;
#pragma unroll
                for (int h = 0; h < SUMS; h++)
                    stem_mailbox_send4(to_it + 4 * h, q % CLUSTER, v[h], mailbox);
            }
        }
    }
    /* The cluster's sums of this block's quads. */
    __device__ __forceinline__ void take(int first, int tiles, int round, float unit) const
    {
        int all = quads(tiles, rank) * count, room = quads(tiles, 0) * count;
#pragma unroll 1
        for (int o = threadIdx.x; o < all; o += 32 * WARPS) {
            float v[SUMS][4] = {};
            unsigned own = (unsigned)o / (unsigned)count, q = own * CLUSTER + rank;
            stem_barrier_wait(mailbox, round & 1);
#pragma unroll
            for (int r = 0; r < CLUSTER; r++)
#pragma unroll
                for (int h = 0; h < SUMS; h++)
                    add4(v[h], sent + ((r * room + o) * SUMS + h) * 4);
            put(first + q / QUADS, o - own * count, q % QUADS, v, unit);
        }
    }
    /* A round; all threads of the cluster come here, when the block's have left their sums. `next`: the tiles of the next one, or 0. */
    __device__ __forceinline__ void operator()(int first, int tiles, int chunks, int round, int next) const
    {
        if (CLUSTER > 1 && round == 0)
            stem_cluster_wait(); /* all mailboxes are there */
        float unit = whole ? UNIT * __uint_as_float(stem_shared4(mailbox + 8)) : UNIT;
        add(first, tiles, chunks, unit);
        if (CLUSTER > 1)
            take(first, tiles, round, unit);
        if (next > 0) { /* what was left and sent has been read */
            __syncthreads();
            if (CLUSTER > 1) {
                if (threadIdx.x == 0)
                    expect(next);
                __syncwarp();
                stem_cluster_sync();
            }
        }
    }
};

template <int MT, int NT>
__device__ __forceinline__ void stem_even_leave(float *slot, int count, const float (&acc)[MT][NT][4])
{
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                if (8 * j + 2 * t + (c & 1) < count)
                    slot[(8 * j + 2 * t + (c & 1)) * stem_even_slot_floats<MT> + 16 * m + g + 8 * (c >> 1)] = acc[m][j][c];
}

template <int MT, int NT>
__device__ __forceinline__ void stem_even_leave(float *slot, int count, const float (&acc)[MT][NT][2])
{
    stem_fixed_leave(slot, count, acc);
}

/* Grid: x = clusters of CLUSTER blocks, y = tiles of `most` rows of x, F::TOKENS * NT at most. EARLY: w and its scales are
 * weights, read before the wait. whole: the tensor's scale, or NULL. each: tiles of a round. Dynamic shared memory: a
 * ring for each warp, tokens, slots for `each` tiles and all warps but one, and, for a cluster, what a block is sent of `each`
 * tiles, then 16 bytes: the mailbox's barrier and the tensor's scale; slots and mailbox for as many tokens as the block has. */
template <class F, int MT, int NT, int STAGES, int WARPS, int CLUSTER, bool EARLY, bool PAIR, class Rows, class Store>
__device__ __forceinline__ void stem_linear_even(const Rows &x, const void *w, const void *scale, const void *whole,
                                                 const Store &store, int m, int n, int k, int most, int each)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    typedef stem_even_ring<F, MT, STAGES, WARPS, PAIR> Ring;
    int warp = threadIdx.x >> 5, columns = PAIR ? n / 2 : n, rank = CLUSTER > 1 ? blockIdx.x % CLUSTER : 0;
    int m0 = blockIdx.y * most, count = min(m - m0, most);
    stem_even_work work = stem_even_work_of<F, CLUSTER>((columns + (PAIR ? 8 : 16) * MT - 1) / ((PAIR ? 8 : 16) * MT), k, each);
    work.soon = EARLY && work.tiles * work.chunks <= WARPS * STAGES;
    if (!EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
    Ring ring = {(const char *)w, (const char *)scale, columns, k, work,
                 stem_shared_address(stem_smem) + warp * STAGES * Ring::BYTES};
    /* places are the same in all blocks of a cluster */
    typedef stem_even_room<F> Room;
    typedef stem_even_sink<F, Store, MT, WARPS, CLUSTER, PAIR> Sink;
    int room = Room::ZEROS + ((k + F::CHUNK - 1) / F::CHUNK + CLUSTER - 1) / CLUSTER * count * Room::BYTES;
    char *kept = stem_smem + WARPS * STAGES * Ring::BYTES;
    float *slots = (float *)(kept + (room + 15) / 16 * 16), *sent = slots + (each + WARPS - 1) * count * stem_even_slot_floats<MT>;
    unsigned mailbox = stem_shared_address(sent + (CLUSTER > 1 ? Sink::quads(each, 0) * CLUSTER * count * Sink::SUMS * 4 : 0));
    Sink sink = {store, slots, sent, mailbox, m0, count, columns, rank, whole != nullptr};
    sink.begin(min(each, work.tiles));
    if (whole && threadIdx.x == 0) /* by way of shared memory: nobody waits for it before the end */
        stem_copy4(mailbox + 8, whole);
    ring.enter(0);
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; i++)
        ring.fill();
    if (EARLY)
        stem_wait();
    if constexpr (F::TOKENS == 1)
        stem_even_keep_fixed(F(), kept, stem_rows_from(x, m0, k), count, k, work);
    else
        stem_even_keep(F(), kept, stem_rows_from(x, m0, k), count, k, work);
    if (whole && threadIdx.x == 0)
        stem_copy_wait<STAGES - 2>();
    __syncthreads();
    if (EARLY)
        stem_launch_dependents();
    int slot = 0;
#pragma unroll 1
    for (int round = 0; round * each < work.tiles; round++) {
        stem_even_share<WARPS> share(work, round * each);
        float *leave = slots + (share.tile + warp) * count * stem_even_slot_floats<MT>;
        int left = share.end - share.begin, c = share.chunk;
#pragma unroll 1
        do { /* an empty share leaves zeros: it is between those of a tile's other warps */
            int run = min(work.chunks - c, left);
            float acc[MT][NT][F::SUMS] = {};
            stem_even_tokens<F, NT> tokens(stem_shared_address(kept), work.chunks, count, c);
            left -= run;
            c = 0;
#pragma unroll 1
            for (; run > 0; run--) {
                stem_copy_wait<STAGES - 2>();
                __syncwarp(); /* all lanes' copies have landed, and all lanes have read the stage that is filled now */
                ring.fill();
                stem_even_multiply(F(), ring.at + slot * Ring::BYTES, tokens, acc);
                tokens.next();
                slot = slot + 1 == STAGES ? 0 : slot + 1;
            }
            stem_even_leave<MT, NT>(leave, count, acc);
            leave += count * stem_even_slot_floats<MT>;
        } while (left > 0);
        __syncthreads();
        sink(work.first + round * each, share.tiles, work.chunks, round, min(each, work.tiles - (round + 1) * each));
    }
}

#endif
