/* SPDX-License-Identifier: Apache-2.0
 *
 * index_scores on the tensor cores. The blocks share out all cached positions of all tokens (attention.cuh), the
 * eight warps of a block those of its share, 16 at a time: the rows of mma.m16n8k16, read from a ring of the warp's
 * own that cp.async fills. All heads of q stay in registers as operand B, so a byte of the cache is read once, from
 * shared memory too. A head's column is weighted and added up right behind the product.
 *
 * Preconditions: 16-bit floats, WIDTH a multiple of 32, HEADS of 8, HEADS * WIDTH <= 8192, 16-byte aligned operands.
 */
#ifndef STEM_INDEX_PART_CUH
#define STEM_INDEX_PART_CUH

#define STEM_INDEX_UNIT 128 /* positions */

template <int WIDTH> constexpr int stem_index_row = (2 * WIDTH + 127) / 128 * 128;
template <int WIDTH> constexpr int stem_index_stage = 16 * stem_index_row<WIDTH>;

template <class E, class W, int HEADS, int WIDTH, int PAGE, int STAGES> struct stem_index_warp {
    static constexpr int PAIRS = WIDTH / 32, NT = HEADS / 8, ROW = stem_index_row<WIDTH>,
                         STAGE = stem_index_stage<WIDTH>;
    const E *cache;
    const int *table; /* the token's */
    unsigned ring;
    int pages, from, to, tiles, fill_tile, fill_slot, next_page;
    uint4 queries[NT][PAIRS];
    float weight[NT][2];

    __device__ __forceinline__ void look_up()
    {
        int i = from + fill_tile * 16 + (threadIdx.x & 15);
        next_page = i < to ? stem_load_fresh(table + i / PAGE) : -1;
    }

    __device__ __forceinline__ void fill()
    {
        constexpr int PIECES = WIDTH / 8;
        int lane = threadIdx.x & 31, i = from + fill_tile * 16 + (lane & 15);
        if (fill_tile < tiles) {
            int row = i < to ? (next_page < 0 || next_page >= pages ? 0 : next_page) * PAGE + i % PAGE : -1;
            unsigned stage = ring + fill_slot * STAGE;
#pragma unroll
            for (int j = 0; j < PIECES / 2; j++) {
                int at = j * 32 + lane, r = at / PIECES, c = at % PIECES, own = __shfl_sync(0xffffffffu, row, r);
                stem_copy16(stage + r * ROW + (stem_attention_piece(r, c) << 4),
                            cache + (long long)max(own, 0) * WIDTH + c * 8, own >= 0);
            }
            fill_slot = fill_slot + 1 == STAGES ? 0 : fill_slot + 1;
            fill_tile += 8;
            look_up(); /* ahead of its use by a tile's time */
        }
        stem_copy_commit();
    }

    __device__ __forceinline__ void begin(const E *q, const W *w, int warp)
    {
        int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
        tiles = (to - from + 15) / 16;
        fill_tile = warp;
        fill_slot = 0;
        look_up();
#pragma unroll 1
        for (int i = 0; i < STAGES - 1; i++)
            fill();
#pragma unroll
        for (int n = 0; n < NT; n++) {
#pragma unroll
            for (int j = 0; j < PAIRS; j++)
                queries[n][j] = *reinterpret_cast<const uint4 *>(q + (8 * n + g) * WIDTH + j * 32 + t * 8);
            weight[n][0] = stem_float(w[8 * n + 2 * t]);
            weight[n][1] = stem_float(w[8 * n + 2 * t + 1]);
        }
    }

    /* y: the token's scores */
    __device__ __forceinline__ void multiply(unsigned stage, int first, float *y) const
    {
        int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
        float s[NT][4] = {}, sum[2] = {};
#pragma unroll
        for (int j = 0; j < PAIRS; j++) {
            unsigned at = stage + g * ROW + (stem_attention_piece(g, 4 * j + t) << 4);
            uint4 a = stem_shared16(at), b = stem_shared16(at + 8 * ROW);
#pragma unroll
            for (int n = 0; n < NT; n++)
                stem_mma((const E *)nullptr, s[n], a.x, b.x, a.y, b.y, queries[n][j].x, queries[n][j].y);
#pragma unroll
            for (int n = 0; n < NT; n++)
                stem_mma((const E *)nullptr, s[n], a.z, b.z, a.w, b.w, queries[n][j].z, queries[n][j].w);
        }
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                sum[c >> 1] += weight[n][c & 1] * (s[n][c] < 0.0f ? 0.0f : s[n][c]);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 1);
            sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 2);
            if (t == 0 && first + g + 8 * h < to)
                y[first + g + 8 * h] = sum[h];
        }
    }

    __device__ __forceinline__ void run(int warp, float *y)
    {
        int slot = 0;
#pragma unroll 1
        for (int tile = warp; tile < tiles; tile += 8) {
            stem_copy_wait<STAGES - 2>();
            __syncwarp(); /* all lanes' copies have landed, and all lanes have read the stage that is filled now */
            fill();
            multiply(ring + slot * STAGE, from + tile * 16, y);
            slot = slot + 1 == STAGES ? 0 : slot + 1;
        }
        stem_copy_wait<0>();
        __syncwarp();
    }
};

template <class E, class W, int HEADS, int WIDTH, int PAGE, int STAGES>
__device__ __forceinline__ void stem_index_scores(const E *q, const W *w, const E *cache, const int *table,
                                                  const int *lens, float *y, int tokens, int most, int pages,
                                                  int max_pages)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    int warp = threadIdx.x >> 5;
    stem_index_warp<E, W, HEADS, WIDTH, PAGE, STAGES> b;
    b.cache = cache;
    b.pages = pages;
    b.ring = stem_shared_address(stem_smem) + warp * STAGES * stem_index_stage<WIDTH>;
    int length = stem_index_length(lens, 0, tokens, most);
    stem_attention_walk<> walk(lens, tokens, 1, most, STEM_INDEX_UNIT, gridDim.x, false);
    stem_wait();
    stem_launch_dependents();
    stem_index_shares(walk, b, table, max_pages, [&](long long token) {
        b.begin(q + token * HEADS * WIDTH, w + token * HEADS, warp);
        b.run(warp, y + token * most);
    });
    stem_index_pad(length, lens, y, tokens, most);
}

#endif
