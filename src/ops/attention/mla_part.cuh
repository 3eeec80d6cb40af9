/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_part for latents: a row of the cache, W wide, is the key of all heads and its first L elements the value.
 * A block of eight warps takes TILE rows, 64 or 32, at a time from a ring that cp.async fills, and each row is in
 * shared memory once: scores: the warps share out 16 * MT heads, positions and, if WK is 2, W; their sums meet in
 * shared memory softmax: 16 / MT threads for each head values: each warp has L / 8 columns of all heads, the weights
 * as operand A The queries stay in registers, for 64 heads in shared memory. With indices, these say which rows are
 * read.
 *
 * Preconditions: 16-bit floats, W a multiple of 64, L of 128, 16-byte aligned operands.
 */
#ifndef STEM_MLA_PART_CUH
#define STEM_MLA_PART_CUH

#define STEM_MLA_UNIT 32 /* positions that the blocks share out */

/* More than 64 rows are two blocks' for each share, half of the rows each, at the same time: what one of them reads, the
 * other finds in the second-level cache. */
template <int ROWS> constexpr int stem_mla_halves = ROWS > 64 ? 2 : 1;
template <int ROWS> constexpr int stem_mla_rows = (ROWS + stem_mla_halves<ROWS> - 1) / stem_mla_halves<ROWS>;

/* Strides of a head's scores and of its weights, in elements. */
template <int TILE> constexpr int stem_mla_scores = TILE == 64 ? 68 : 40;
template <int TILE> constexpr int stem_mla_weights = TILE == 64 ? 72 : 40;

/* Bytes of dynamic shared memory. */
template <int W, int MT, int WK, int TILE, int STAGES, bool WHOLE = false>
constexpr int stem_mla_smem = STAGES *TILE * 2 * W +
                              (MT == 4 || WHOLE ? 16 * MT * 2 * W : 0) + WK * 16 * MT *stem_mla_scores<TILE> * 4 +
                              16 * MT *stem_mla_weights<TILE> * 2 + 16 * MT * 4 + STAGES *TILE;

/* Rows that the launch itself adds to the cache: none (mla_new.cuh has the others). */
struct stem_mla_old {
    static constexpr bool ANY = false;
    __device__ __forceinline__ int token_of(int, bool) const
    {
        return -1;
    }
    template <class PUT> __device__ __forceinline__ void make(int, PUT) const
    {
    }
    template <class E> __device__ __forceinline__ void store(int, E *) const
    {
    }
};

/* How a kernel that adds rows is made. WHOLE: a share is never more than the stages hold. SPLIT: its weights are added up as
 * those of one half of the tile, then of the other. */
enum { STEM_MLA_WHOLE = 1, STEM_MLA_SPLIT = 2 };

template <class E, int W, int L, int ROWS, int PAGE, int WK, int TILE, int STAGES, bool SPARSE,
          class NEW = stem_mla_old, int HOW = 0>
struct stem_mla_block {
    static constexpr bool WHOLE = HOW & STEM_MLA_WHOLE, SPLIT = HOW & STEM_MLA_SPLIT;
    static constexpr int MT = ROWS <= 16 ? 1 : ROWS <= 32 ? 2 : 4, WM = MT, WN = 8 / WM / WK;
    static constexpr int NT = TILE / 8 / WN, PAIRS = W / 32 / WK, NV = L / 64, ROW = 2 * W;
    static constexpr int STAGE = TILE * ROW, LANES = 16 / MT, EACH = TILE / LANES;
    static constexpr bool SHARED = MT == 4 || WHOLE; /* queries */
    static constexpr int KEPT = SHARED ? 1 : PAIRS;
    static constexpr int LS = stem_mla_scores<TILE>, LW = stem_mla_weights<TILE>;
    static constexpr int OWN = TILE / 32; /* rows that a lane helps to load: eight lanes load a row */
    static constexpr int AHEAD = WHOLE ? STAGES : STAGES - 1;

    /* shared memory */
    unsigned ring, queries;
    char *memory; /* the ring */
    float *scores, *factor;
    unsigned short *weights;
    unsigned char *present; /* rows of a stage; with new ones, the token that each is of, and one more */

    const E *cache;
    const int *table, *chosen; /* the token's */
    int pages, length, from, to, tiles, fill_tile, fill_slot;
    int position[OWN], page[OWN], later[OWN]; /* of this lane's rows in the next fill; positions in the one after */
    uint4 low[KEPT], high[KEPT];
    float sum[MT][NV][4], top, weight;
    NEW fresh;

    __device__ __forceinline__ stem_mla_block(char *smem, NEW fresh_) : fresh(fresh_)
    {
        memory = smem;
        ring = stem_shared_address(smem);
        queries = ring + STAGES * STAGE;
        char *rest = smem + STAGES * STAGE + (SHARED ? 16 * MT * ROW : 0);
        scores = (float *)rest;
        rest += WK * 16 * MT * LS * 4;
        weights = (unsigned short *)rest;
        rest += 16 * MT * LW * 2;
        factor = (float *)rest;
        present = (unsigned char *)(rest + 16 * MT * 4);
    }

    /* This lane's row k of a tile; its position in the sequence, -1: none. */
    __device__ __forceinline__ int row_of(int k) const
    {
        return k * 32 + (threadIdx.x >> 3);
    }
    __device__ __forceinline__ int position_of(int tile, int k) const
    {
        int i = from + tile * TILE + row_of(k);
        if (i >= to)
            return -1;
        if (!SPARSE)
            return i;
        int at = stem_load_fresh(chosen + i);
        return at < length ? at : -1;
    }
    __device__ __forceinline__ int page_of(int at) const
    {
        return at >= 0 ? stem_load_fresh(table + at / PAGE) : 0;
    }

    __device__ __forceinline__ void fill()
    {
        if (fill_tile < tiles) {
            unsigned stage = ring + fill_slot * STAGE;
#pragma unroll
            for (int k = 0; k < OWN; k++) {
                bool there = position[k] >= 0;
                int row = there ? (page[k] < 0 || page[k] >= pages ? 0 : page[k]) * PAGE + position[k] % PAGE : 0;
                const E *at = cache + (long long)row * W + (threadIdx.x & 7) * 8;
                unsigned to_ = stage + row_of(k) * ROW + (stem_attention_piece(row_of(k), threadIdx.x & 7) << 4);
                int made = fresh.token_of(row, there); /* nobody reads what this launch still writes */
#pragma unroll
                for (int j = 0; j < W / 64; j++)
                    if (made < 0)
                        stem_copy16(to_ + j * 128, at + j * 64, there);
                if ((SPARSE || NEW::ANY) && (threadIdx.x & 7) == 0)
                    present[fill_slot * TILE + row_of(k)] = NEW::ANY ? made + 1 : there;
                position[k] = later[k]; /* the chain index, page, row is loaded ahead of its use */
                page[k] = page_of(position[k]);
                later[k] = position_of(fill_tile + 2, k);
            }
            fill_slot = fill_slot + 1 == STAGES ? 0 : fill_slot + 1;
            fill_tile++;
        }
        stem_copy_commit();
    }

    /* The share's tiles, and where the rows of the first one are. */
    __device__ __forceinline__ void find()
    {
        tiles = (to - from + TILE - 1) / TILE;
        fill_tile = fill_slot = 0;
#pragma unroll
        for (int k = 0; k < OWN; k++) {
            position[k] = position_of(0, k);
            later[k] = position_of(1, k);
        }
#pragma unroll
        for (int k = 0; k < OWN; k++)
            page[k] = page_of(position[k]);
    }
    /* Asks for what the first stages will hold. */
    __device__ __forceinline__ void ask() const
    {
#pragma unroll 1
        for (int tile = 0; tile < STAGES - 1 && tile < tiles; tile++)
#pragma unroll
            for (int k = 0; k < OWN; k++) {
                int at = tile ? position_of(tile, k) : position[k], where = tile ? page_of(at) : page[k];
                if (at < 0)
                    continue;
                long long row = (long long)(where < 0 || where >= pages ? 0 : where) * PAGE + at % PAGE;
#pragma unroll
                for (int c = 0; c < ROW; c += 1024)
                    if (c + (threadIdx.x & 7) * 128 < ROW)
                        stem_ask((const char *)(cache + row * W) + c + (threadIdx.x & 7) * 128);
            }
    }
    __device__ __forceinline__ void fill_first()
    {
#pragma unroll 1
        for (int i = 0; i < AHEAD; i++)
            fill();
    }
    /* The rows of a stage that this launch adds, by the warps that load the others of their lines. */
    __device__ __forceinline__ void add_new(int slot)
    {
        int warp = threadIdx.x >> 5;
        __syncwarp();
#pragma unroll 1
        for (int k = 0; k < OWN; k++) {
            unsigned made = *reinterpret_cast<const unsigned *>(present + slot * TILE + k * 32 + warp * 4);
#pragma unroll 1
            for (int i = 0; made; i++, made >>= 8) {
                if (!(made & 255))
                    continue;
                int of = (int)(made & 255) - 1, r = k * 32 + warp * 4 + i;
                char *row = memory + slot * STAGE + r * ROW;
                fresh.make(of, [&](int column, const stem_vec<E, 4> &v) {
                    char *at = row + (stem_attention_piece(r, column / 8) << 4) + column % 8 * 2;
                    stem_store(reinterpret_cast<E *>(at), v);
                });
            }
        }
    }
    /* Starts on a share that was found: its first stages, and its queries, of which `heads` rows exist. */
    __device__ __forceinline__ void begin(const E *q, int heads, bool filled)
    {
        int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, warp = threadIdx.x >> 5;
        const uint4 none = {0, 0, 0, 0};
        if (SHARED) { /* part of the first stage's group, or one of their own */
            for (int i = threadIdx.x; i < (ROWS > 8 ? 16 * MT : 8) * (W / 8); i += 256) {
                int r = i / (W / 8), c = i % (W / 8);
                stem_copy16(queries + r * ROW + (stem_attention_piece(r, c) << 4),
                            q + (r < heads ? r * W + c * 8 : 0), r < heads);
            }
            if (filled)
                stem_copy_commit();
        }
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int n = 0; n < NV; n++)
#pragma unroll
                for (int c = 0; c < 4; c++)
                    sum[m][n][c] = 0;
        top = STEM_NO_MAX;
        weight = 0;
        if (!filled)
            fill_first();
        if (!SHARED) {
            int r = warp % WM * 16 + g, first = warp / WM % WK * PAIRS;
#pragma unroll
            for (int j = 0; j < KEPT; j++) {
                low[j] = r < heads ? *reinterpret_cast<const uint4 *>(q + r * W + (first + j) * 32 + t * 8) : none;
                high[j] = r + 8 < heads ? *reinterpret_cast<const uint4 *>(q + (r + 8) * W + (first + j) * 32 + t * 8)
                                        : none;
            }
        }
    }

    __device__ __forceinline__ void score(unsigned stage)
    {
        int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, warp = threadIdx.x >> 5;
        int m = warp % WM, part = warp / WM % WK, n0 = warp / WM / WK * NT * 8;
        constexpr int CHAINS = NT < 4 ? 2 : 1; /* a product waits for its predecessor's sums */
        float s[CHAINS][NT][4] = {};
#pragma unroll
        for (int j = 0; j < PAIRS; j++) {
            int piece = (part * PAIRS + j) * 4 + t;
            uint4 a, b;
            if (SHARED) {
                unsigned at = queries + (m * 16 + g) * ROW + (stem_attention_piece(g, piece) << 4);
                a = stem_shared16(at);
                b = ROWS > 8 ? stem_shared16(at + 8 * ROW) : uint4{0, 0, 0, 0};
            } else {
                a = low[SHARED ? 0 : j];
                b = high[SHARED ? 0 : j];
            }
#pragma unroll
            for (int n = 0; n < NT; n++) {
                uint4 k = stem_shared16(stage + (n0 + 8 * n + g) * ROW + (stem_attention_piece(g, piece) << 4));
                stem_mma((const E *)nullptr, s[0][n], a.x, b.x, a.y, b.y, k.x, k.y);
                stem_mma((const E *)nullptr, s[CHAINS - 1][n], a.z, b.z, a.w, b.w, k.z, k.w);
            }
        }
        float *to_ = scores + (part * 16 * MT + m * 16 + g) * LS + n0 + 2 * t;
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                *reinterpret_cast<stem_vec<float, 2> *>(to_ + 8 * h * LS + 8 * n) = {
                    CHAINS == 2 ? s[0][n][2 * h] + s[CHAINS - 1][n][2 * h] : s[0][n][2 * h],
                    CHAINS == 2 ? s[0][n][2 * h + 1] + s[CHAINS - 1][n][2 * h + 1] : s[0][n][2 * h + 1]};
    }

    __device__ __forceinline__ void softmax(int slot, int first, float scale)
    {
        constexpr int VECTOR = SPLIT ? 2 : EACH < 4 ? EACH : 4;
        int row = threadIdx.x / LANES, i0 = threadIdx.x % LANES * (SPLIT ? 2 : EACH);
        float v[EACH], higher = STEM_NO_MAX;
#pragma unroll
        for (int i = 0; i < EACH; i += VECTOR) {
            int at = row * LS + i0 + (SPLIT ? i / 2 * (TILE / 2) : i);
            stem_vec<float, VECTOR> a = stem_load<VECTOR>(scores + at), b = {};
            if (WK == 2)
                b = stem_load<VECTOR>(scores + 16 * MT * LS + at);
#pragma unroll
            for (int j = 0; j < VECTOR; j++)
                v[i + j] = a.at[j] + b.at[j];
        }
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int at = i0 + (SPLIT ? i / 2 * (TILE / 2) + i % 2 : i);
            bool there = SPARSE ? present[slot * TILE + at] != 0 : first + at < to;
            v[i] = there ? v[i] * scale : __int_as_float(0xff800000);
            higher = fmaxf(higher, v[i]);
        }
#pragma unroll
        for (int d = 1; d < LANES; d <<= 1)
            higher = fmaxf(higher, __shfl_xor_sync(0xffffffffu, higher, d));
        higher = fmaxf(top, ceilf(higher));
        float f = exp2f(top - higher);
        top = higher;
        weight *= f;
#pragma unroll
        for (int i = 0; i < EACH; i += 2) {
            float a = exp2f(v[i] - top), b = exp2f(v[i + 1] - top);
            *reinterpret_cast<unsigned *>(weights + row * LW + i0 + (SPLIT ? i / 2 * (TILE / 2) : i)) = stem_pack<E>(a, b);
            weight += a + b;
        }
        if (i0 == 0)
            factor[row] = f;
    }

    __device__ __forceinline__ void add(unsigned stage)
    {
        int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, warp = threadIdx.x >> 5;
        int r = (lane >> 3 & 1) * 8 + (lane & 7);
#pragma unroll
        for (int m = 0; m < MT; m++) {
            float f[2] = {factor[m * 16 + g], factor[m * 16 + g + 8]};
            if (__ballot_sync(0xffffffffu, f[0] != 1.0f || f[1] != 1.0f) != 0)
#pragma unroll
                for (int n = 0; n < NV; n++)
#pragma unroll
                    for (int c = 0; c < 4; c++)
                        sum[m][n][c] *= f[c >> 1];
        }
#pragma unroll
        for (int k = 0; k < TILE; k += 16) {
            unsigned p[MT][4];
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int c = 0; c < 4; c++)
                    p[m][c] = *reinterpret_cast<const unsigned *>(weights + (m * 16 + g + 8 * (c & 1)) * LW + k +
                                                                  2 * t + 8 * (c >> 1));
#pragma unroll
            for (int n = 0; n < NV; n += 2) {
                unsigned b[4];
                stem_matrix_trans(b, stage + (k + r) * ROW +
                                         (stem_attention_piece(r, warp * NV + n + (lane >> 4)) << 4));
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    stem_mma((const E *)nullptr, sum[m][n], p[m][0], p[m][1], p[m][2], p[m][3], b[0], b[1]);
                    stem_mma((const E *)nullptr, sum[m][n + 1], p[m][0], p[m][1], p[m][2], p[m][3], b[2], b[3]);
                }
            }
        }
    }

    /* TWICE: new rows are made once more, before ready() waits and begins: of what is not there yet, but from the caches of
     * instructions they come sooner. A single block needs them. */
    template <bool TWICE, class READY> __device__ __forceinline__ void run(float scale, READY ready)
    {
        int slot = 0;
#pragma unroll 1
        for (int tile = TWICE ? -1 : 0; tile < tiles; tile++) {
            if (WHOLE && tile == 0)
                stem_copy_wait<0>(); /* the queries come last */
            else if (tile >= 0)
                stem_copy_wait<AHEAD - 1>();
            if (NEW::ANY)
                add_new(slot);
            if (tile < 0) {
                ready();
                continue;
            }
            __syncthreads(); /* the tile has landed, and nobody reads the one before */
            if (WHOLE)
                stem_copy_commit();
            else
                fill();
            score(ring + slot * STAGE);
            __syncwarp();
            __syncthreads();
            softmax(slot, from + tile * TILE, scale);
            __syncwarp();
            __syncthreads();
            add(ring + slot * STAGE);
            slot = slot + 1 == STAGES ? 0 : slot + 1;
        }
        stem_copy_wait<0>();
#pragma unroll
        for (int d = 1; d < LANES; d <<= 1)
            weight += __shfl_xor_sync(0xffffffffu, weight, d);
        __syncthreads(); /* before the ring is filled again */
    }

    /* Of the block's rows `heads` exist. */
    __device__ __forceinline__ void store(float *acc, float *ml, int rows, int heads) const
    {
        int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, warp = threadIdx.x >> 5, row = threadIdx.x / LANES;
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                int r = m * 16 + 8 * h + g;
                if (r < rows)
#pragma unroll
                    for (int n = 0; n < NV; n++)
                        *reinterpret_cast<stem_vec<float, 2> *>(acc + r * L + (warp * NV + n) * 8 + 2 * t) = {
                            r < heads ? sum[m][n][2 * h] : 0.0f, r < heads ? sum[m][n][2 * h + 1] : 0.0f};
            }
        if (threadIdx.x % LANES == 0 && row < rows) {
            ml[2 * row] = row < heads && top > STEM_NO_MAX ? top : 0.0f;
            ml[2 * row + 1] = row < heads ? weight : 0.0f;
        }
    }
};

/* Block: 256 threads. Grid: a block for each part, two after each other if there are more than 64 rows. New rows are
 * stored by blocks behind these, a warp for each; or, if there are none, by the first ones. */
template <class E, int W, int L, int ROWS, int GROUPS, int PAGE, int WK, int TILE, int STAGES, bool SPARSE,
          class NEW = stem_mla_old, int HOW = 0, bool ONE = false>
__device__ __forceinline__ void stem_mla_part(const E *q, const E *cache, const int *table, const int *lens,
                                              const int *chosen, float *acc, float *ml, int tokens, int heads,
                                              int pages, int max_pages, int indices, int parts, float scale,
                                              NEW fresh = NEW())
{
    STEM_DYNAMIC_SHARED(stem_smem);
    constexpr int HALVES = stem_mla_halves<ROWS>, EACH = stem_mla_rows<ROWS>;
    stem_mla_block<E, W, L, EACH, PAGE, WK, TILE, STAGES, SPARSE, NEW, HOW> b(stem_smem, fresh);
    b.cache = cache;
    b.pages = pages;
    int first = (int)blockIdx.x % HALVES * EACH, rows = min(EACH, ROWS - first);
    stem_attention_walk<ONE> walk(lens, tokens, GROUPS, SPARSE ? indices : max_pages * PAGE, STEM_MLA_UNIT, parts, SPARSE,
                             (int)blockIdx.x / HALVES);
    auto find = [&] {
        b.table = table + (long long)walk.token * max_pages;
        if (SPARSE) {
            b.chosen = chosen + (long long)walk.token * indices;
            b.length = stem_attention_length(lens, walk.token, max_pages * PAGE, false);
        }
        b.from = walk.from;
        b.to = walk.to;
        b.find();
    };
    bool adder = NEW::ANY && (int)blockIdx.x >= parts; /* each of the other blocks has a share */
    bool more = walk.step(), found = !SPARSE && !adder && walk.from < walk.to;
    if (found) {
        find();
        if (NEW::ANY)
            b.fill_first();
        else
            b.ask();
    }
    constexpr bool WHOLE = HOW & STEM_MLA_WHOLE, TWICE = WHOLE && ONE;
    if (WHOLE)
        stem_launch_dependents();
    auto wait = [&] {
        stem_wait();
        if (!WHOLE)
            stem_launch_dependents();
    };
    bool adds = NEW::ANY && (adder || (int)gridDim.x == parts);
    if (adds) {
        int token = ((int)blockIdx.x - (adder ? parts : 0)) * 8 + (int)(threadIdx.x >> 5);
#pragma unroll 1
        for (int pass = adder ? 0 : 1; pass < 2; pass++) { /* the first one into the ring, to no end but the caches' */
            if (pass)
                wait();
            if (token < tokens)
                b.fresh.store(token, pass ? nullptr : (E *)(stem_smem + (threadIdx.x >> 5) * 2 * W));
        }
        if (adder)
            return;
    } else if (!TWICE || !found) {
        wait();
    }
#pragma unroll 1
    for (; more; more = walk.step()) {
        long long row = (long long)walk.slot * ROWS + first;
        float *to_acc = acc + row * L, *to_ml = ml + row * 2;
        if (walk.from >= walk.to) {
            for (int i = threadIdx.x; i < rows * L; i += 256)
                to_acc[i] = 0;
            for (int i = threadIdx.x; i < rows * 2; i += 256)
                to_ml[i] = 0;
            continue;
        }
        int head = walk.group * ROWS + first;
        if (!ONE && !found)
            find();
        auto begin = [&] {
            if (TWICE && !adds)
                wait();
            b.begin(q + ((long long)walk.token * heads + head) * W, min(rows, heads - head),
                    ONE || (NEW::ANY && found));
        };
        if (!TWICE)
            begin();
        b.template run<TWICE>(scale, begin);
        found = false;
        b.store(to_acc, to_ml, rows, heads - head);
        if (ONE)
            break;
    }
}

#endif
