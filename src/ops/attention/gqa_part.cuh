/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_part for grouped queries. A block's four warps share out the positions of a share, 16 at a time; each
 * has a ring of stages of its own, filled by cp.async, and sums of its own, so the loop has no block barrier. The
 * queries of a key head are the rows of mma.m16n8k16, so each byte of the cache is read once. A warp's scores are the
 * accumulators of one product and, rounded, the operand A of the next: they never leave registers.
 *
 * Preconditions: 16-bit floats, D a multiple of 32, 16-byte aligned operands, ROWS <= 16.
 */
#ifndef STEM_GQA_PART_CUH
#define STEM_GQA_PART_CUH

template <int D> constexpr int stem_gqa_row = (2 * D + 127) / 128 * 128; /* bytes of a row in a stage */
template <int D> constexpr int stem_gqa_stage = 32 * stem_gqa_row<D>;    /* 16 keys, 16 values */

template <class E, int D, int ROWS, int GROUPS, int PAGE, int STAGES> struct stem_gqa_warp {
    static constexpr int PAIRS = D / 32, ROW = stem_gqa_row<D>, STAGE = stem_gqa_stage<D>;
    const E *k, *v;
    const int *table; /* the token's */
    unsigned ring;
    int pages, group, from, to, tiles; /* tiles of 16 positions of the share */
    int slot, fill_tile, fill_slot,
        next_page;                 /* next_page: of this lane's position in the tile that is filled next */
    uint4 low[PAIRS], high[PAIRS]; /* queries */
    float sum[2 * D / 16][4], top[2], weight[2];

    __device__ __forceinline__ void look_up()
    {
        int i = from + fill_tile * 16 + (threadIdx.x & 15);
        next_page = i < to ? stem_load_fresh(table + i / PAGE) : -1;
    }

    __device__ __forceinline__ void fill()
    {
        constexpr int PIECES = D / 8;
        int lane = threadIdx.x & 31, i = from + fill_tile * 16 + (lane & 15);
        if (fill_tile < tiles) {
            int row = i < to ? (next_page < 0 || next_page >= pages ? 0 : next_page) * PAGE + i % PAGE : -1;
            unsigned stage = ring + fill_slot * STAGE;
#pragma unroll
            for (int j = 0; j < PIECES / 2; j++) {
                int at = j * 32 + lane, r = at / PIECES, c = at % PIECES;
                int own = __shfl_sync(0xffffffffu, row, r);
                long long offset = ((long long)max(own, 0) * GROUPS + group) * D + c * 8;
                unsigned to_ = stage + r * ROW + (stem_attention_piece(r, c) << 4);
                stem_copy16(to_, k + offset, own >= 0);
                stem_copy16(to_ + 16 * ROW, v + offset, own >= 0);
            }
            fill_slot = fill_slot + 1 == STAGES ? 0 : fill_slot + 1;
            fill_tile += 4;
            look_up(); /* ahead of its use by a tile's time */
        }
        stem_copy_commit();
    }

    /* The share's tiles, and where the first one is. */
    __device__ __forceinline__ void find(int warp)
    {
        tiles = (to - from + 15) / 16;
        fill_tile = warp;
        look_up();
    }
    /* Asks for what the first stages will hold. Each lane for its position's keys or values. */
    __device__ __forceinline__ void ask() const
    {
        const E *of = threadIdx.x & 16 ? v : k;
#pragma unroll 1
        for (int tile = fill_tile, n = 1; n < STAGES && tile < tiles; tile += 4, n++) {
            int i = from + tile * 16 + (threadIdx.x & 15);
            if (i >= to)
                break;
            int page = n == 1 ? next_page : stem_load_fresh(table + i / PAGE);
            long long row = (long long)(page < 0 || page >= pages ? 0 : page) * PAGE + i % PAGE;
#pragma unroll
            for (int c = 0; c < D; c += 64)
                stem_ask(of + (row * GROUPS + group) * D + c);
        }
    }

    /* Starts on a share that was found: its first stages, and its queries. What was added up stays. */
    __device__ __forceinline__ void begin(const E *q)
    {
#pragma unroll 1
        for (int i = 0; i < STAGES - 1; i++)
            fill();
        int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
        const uint4 none = {0, 0, 0, 0};
#pragma unroll
        for (int j = 0; j < PAIRS; j++) {
            low[j] = g < ROWS ? *reinterpret_cast<const uint4 *>(q + g * D + j * 32 + t * 8) : none;
            high[j] = g + 8 < ROWS ? *reinterpret_cast<const uint4 *>(q + (g + 8) * D + j * 32 + t * 8) : none;
        }
    }

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                sum[n][c] = 0;
        top[0] = top[1] = STEM_NO_MAX;
        weight[0] = weight[1] = 0;
    }

    /* scores of positions 8n + 2t, 8n + 2t + 1 for rows g and g + 8 */
    __device__ __forceinline__ void score(unsigned stage, int first, float (&s)[2][4], float scale)
    {
        int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
        for (int j = 0; j < PAIRS; j++)
#pragma unroll
            for (int n = 0; n < 2; n++) {
                uint4 b = stem_shared16(stage + (8 * n + g) * ROW + (stem_attention_piece(g, 4 * j + t) << 4));
                stem_mma((const E *)nullptr, s[n], low[j].x, high[j].x, low[j].y, high[j].y, b.x, b.y);
                stem_mma((const E *)nullptr, s[n], low[j].z, high[j].z, low[j].w, high[j].w, b.z, b.w);
            }
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                s[n][c] = first + 8 * n + 2 * t + (c & 1) < to ? s[n][c] * scale : __int_as_float(0xff800000);
    }

    /* Raises the maxima of rows g and g + 8 and scales what was added up with the old ones. */
    __device__ __forceinline__ void raise(const float (&s)[2][4])
    {
        float higher[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float m = fmaxf(fmaxf(s[0][2 * h], s[0][2 * h + 1]), fmaxf(s[1][2 * h], s[1][2 * h + 1]));
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
            higher[h] = fmaxf(top[h], ceilf(m));
        }
        if (__ballot_sync(0xffffffffu, higher[0] > top[0] || higher[1] > top[1]) == 0)
            return;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float f = exp2f(top[h] - higher[h]);
            top[h] = higher[h];
            weight[h] *= f;
#pragma unroll
            for (int n = 0; n < D / 8; n++) {
                sum[n][2 * h] *= f;
                sum[n][2 * h + 1] *= f;
            }
        }
    }

    __device__ __forceinline__ void add(unsigned stage, int first, float scale)
    {
        int lane = threadIdx.x & 31;
        float s[2][4] = {};
        unsigned p[4];
        score(stage, first, s, scale);
        raise(s);
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float a = exp2f(s[n][2 * h] - top[h]), b = exp2f(s[n][2 * h + 1] - top[h]);
                p[2 * n + h] = stem_pack<E>(a, b);
                weight[h] += a + b;
            }
        int r = (lane >> 3 & 1) * 8 + (lane & 7);
        unsigned values = stage + (16 + r) * ROW;
#pragma unroll
        for (int n = 0; n < D / 16; n++) {
            unsigned b[4];
            stem_matrix_trans(b, values + (stem_attention_piece(r, 2 * n + (lane >> 4)) << 4));
            stem_mma((const E *)nullptr, sum[2 * n], p[0], p[1], p[2], p[3], b[0], b[1]);
            stem_mma((const E *)nullptr, sum[2 * n + 1], p[0], p[1], p[2], p[3], b[2], b[3]);
        }
    }

    /* This warp's tiles of the share. The stages go round and round, whatever share they belong to. */
    __device__ __forceinline__ void run(int warp, float scale)
    {
        clear();
#pragma unroll 1
        for (int tile = warp; tile < tiles; tile += 4) {
            stem_copy_wait<STAGES - 2>();
            __syncwarp(); /* all lanes' copies have landed, and all lanes have read the stage that is filled now */
            fill();
            add(ring + slot * STAGE, from + tile * 16, scale);
            slot = slot + 1 == STAGES ? 0 : slot + 1;
        }
        __syncwarp(); /* before other shares are loaded */
#pragma unroll
        for (int h = 0; h < 2; h++) {
            weight[h] += __shfl_xor_sync(0xffffffffu, weight[h], 1);
            weight[h] += __shfl_xor_sync(0xffffffffu, weight[h], 2);
        }
    }

    /* ---- the sum of the four warps' sums: those of 2 and 3 go to 0 and 1, then all threads add these ---- */

    static constexpr int LD = D + 4;

    /* to: ROWS * LD floats, then a maximum and a weight for each row */
    __device__ __forceinline__ void lend(float *to_) const
    {
        int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int r = g + 8 * h;
            if (r >= ROWS)
                continue;
#pragma unroll
            for (int n = 0; n < D / 8; n++)
                *reinterpret_cast<stem_vec<float, 2> *>(to_ + r * LD + 8 * n + 2 * t) = {sum[n][2 * h],
                                                                                         sum[n][2 * h + 1]};
            if (t == 0)
                *reinterpret_cast<stem_vec<float, 2> *>(to_ + ROWS * LD + 2 * r) = {top[h], weight[h]};
        }
        __syncwarp();
    }
    __device__ __forceinline__ void take(const float *of)
    {
        int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int r = g + 8 * h;
            if (r >= ROWS)
                continue;
            stem_vec<float, 2> other = *reinterpret_cast<const stem_vec<float, 2> *>(of + ROWS * LD + 2 * r);
            float higher = fmaxf(top[h], other.at[0]), own = exp2f(top[h] - higher), f = exp2f(other.at[0] - higher);
            top[h] = higher;
            weight[h] = own * weight[h] + f * other.at[1];
#pragma unroll
            for (int n = 0; n < D / 8; n++) {
                stem_vec<float, 2> v = *reinterpret_cast<const stem_vec<float, 2> *>(of + r * LD + 8 * n + 2 * t);
                sum[n][2 * h] = own * sum[n][2 * h] + f * v.at[0];
                sum[n][2 * h + 1] = own * sum[n][2 * h + 1] + f * v.at[1];
            }
        }
        __syncwarp();
    }
    /* The sum of what two warps lent, by all threads. */
    static __device__ __forceinline__ void store(const float *a, const float *b, float *acc, float *ml)
    {
        for (int o = threadIdx.x; o < ROWS * D / 4; o += 128) {
            int r = o / (D / 4), column = o % (D / 4) * 4;
            float high = a[ROWS * LD + 2 * r], other = b[ROWS * LD + 2 * r], top = fmaxf(high, other);
            float f = exp2f(high - top), g = exp2f(other - top);
            stem_vec<float, 4> x = stem_load<4>(a + r * LD + column), y = stem_load<4>(b + r * LD + column);
#pragma unroll
            for (int i = 0; i < 4; i++)
                x.at[i] = f * x.at[i] + g * y.at[i];
            stem_store(acc + r * D + column, x);
            if (column == 0)
                *reinterpret_cast<stem_vec<float, 2> *>(ml + 2 * r) = {
                    top > STEM_NO_MAX ? top : 0.0f, f * a[ROWS * LD + 2 * r + 1] + g * b[ROWS * LD + 2 * r + 1]};
        }
    }
    __device__ __forceinline__ void merge(int warp, float *shared, float *acc, float *ml, bool last)
    {
        constexpr int half = ROWS * (D + 8);
        if (warp >= 2)
            lend(shared + (warp - 2) * half);
        __syncthreads();
        if (warp < 2) {
            take(shared + warp * half);
            lend(shared + warp * half);
        }
        __syncthreads();
        store(shared, shared + half, acc, ml);
        if (!last)
            __syncthreads();
    }
};

/* Bytes of dynamic shared memory. */
template <int D, int ROWS, int STAGES>
constexpr int stem_gqa_smem = 4 * STAGES *stem_gqa_stage<D> + 2 * ROWS *(D + 8) * 4;

template <class E, int D, int ROWS, int GROUPS, int PAGE, int STAGES>
__device__ __forceinline__ void stem_gqa_part(const E *q, const E *k, const E *v, const int *table, const int *lens,
                                              float *acc, float *ml, int tokens, int heads, int pages, int max_pages,
                                              int parts, float scale)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    int warp = threadIdx.x >> 5;
    float *shared = (float *)(stem_smem + 4 * STAGES * stem_gqa_stage<D>);
    stem_gqa_warp<E, D, ROWS, GROUPS, PAGE, STAGES> w;
    w.k = k;
    w.v = v;
    w.pages = pages;
    w.ring = stem_shared_address(stem_smem) + warp * STAGES * stem_gqa_stage<D>;
    w.fill_slot = w.slot = 0;
    stem_attention_walk<> walk(lens, tokens, GROUPS, max_pages * PAGE, 64, parts, false);
    auto zero = [&] {
        for (int i = threadIdx.x; i < ROWS * D; i += 128)
            acc[(long long)walk.slot * ROWS * D + i] = 0;
        if (threadIdx.x < 2 * ROWS)
            ml[(long long)walk.slot * ROWS * 2 + threadIdx.x] = 0;
    };
    auto find = [&] {
        w.table = table + (long long)walk.token * max_pages;
        w.group = walk.group;
        w.from = walk.from;
        w.to = walk.to;
        w.find(warp);
    };
    walk.step(); /* each block has a share */
    bool there = walk.from < walk.to, more = true;
    if (there) {
        find();
        w.ask();
    }
    stem_wait();
    stem_launch_dependents();
    long long slot = -1; /* of the share whose sums are to be added up; its successor's first stages are on their way */
#pragma unroll 1
    for (;;) {
        while (more && !there) { /* empty ones are zeros */
            zero();
            more = walk.step();
            there = more && walk.from < walk.to;
            if (there)
                find();
        }
        if (more)
            w.begin(q + ((long long)walk.token * heads + walk.group * ROWS) * D);
        if (slot >= 0)
            w.merge(warp, shared, acc + slot * ROWS * D, ml + slot * ROWS * 2, !more);
        if (!more)
            break;
        w.run(warp, scale);
        slot = walk.slot;
        more = walk.step();
        there = more && walk.from < walk.to;
        if (there)
            find();
    }
}

#endif
