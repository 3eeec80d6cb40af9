/* SPDX-License-Identifier: Apache-2.0
 *
 * index_scores for 64 heads by the products of warpgroups (wgmma.cuh): 64 positions of the cache are the rows, the heads the
 * columns, and q stays in shared memory. Each warpgroup has a share of all positions of all tokens, as the blocks of index_part.cuh
 * have, its own q and a ring of its own; it shares nothing with those beside it. A head's column is weighted and added up behind the
 * product.
 *
 * Preconditions: 16-bit floats, WIDTH a multiple of 64, 64 heads, 16-byte aligned operands.
 */
#ifndef STEM_INDEX_WIDE_CUH
#define STEM_INDEX_WIDE_CUH

/* Of q, and of a stage: slabs of 64 rows of 128 bytes. */
template <int WIDTH> constexpr int stem_index_wide_bytes = WIDTH / 64 * 8192;

#ifdef STEM_WGMMA

template <class E, int WIDTH, int PAGE, int STAGES> struct stem_index_group {
    static constexpr int SLABS = WIDTH / 64, BYTES = stem_index_wide_bytes<WIDTH>;
    const E *cache;
    const int *table; /* the token's */
    unsigned queries, ring;
    int group, pages, from, to, tiles, fill_tile, fill_slot, slot;
    int page[4]; /* of this thread's rows of the tile that is filled next */

    __device__ __forceinline__ int position(int j) const
    {
        return from + fill_tile * 64 + (threadIdx.x >> 3 & 15) + 16 * j;
    }
    __device__ __forceinline__ void look_up()
    {
#pragma unroll
        for (int j = 0; j < 4; j++)
            page[j] = fill_tile < tiles && position(j) < to ? stem_load_fresh(table + position(j) / PAGE) : 0;
    }
    /* Eight threads copy a row. */
    __device__ __forceinline__ void fill()
    {
        int r = threadIdx.x >> 3 & 15, c = threadIdx.x & 7;
        if (fill_tile < tiles) {
            unsigned stage = ring + fill_slot * BYTES;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int i = position(j);
                const E *row = cache + ((long long)(page[j] < 0 || page[j] >= pages ? 0 : page[j]) * PAGE + i % PAGE) * WIDTH + c * 8;
                if (i < to)
#pragma unroll
                    for (int s = 0; s < SLABS; s++)
                        stem_copy16(stage + s * 8192 + stem_wgmma_place(r + 16 * j, c), row + s * 64, true);
            }
            fill_slot = fill_slot + 1 == STAGES ? 0 : fill_slot + 1;
            fill_tile++;
            look_up(); /* ahead of its use by a tile's time */
        }
        stem_copy_commit();
    }
    /* A token's share: its queries come with the first tile. */
    __device__ __forceinline__ void begin(const E *q)
    {
        int r = threadIdx.x >> 3 & 15, c = threadIdx.x & 7;
        tiles = (to - from + 63) / 64;
        fill_tile = 0;
        look_up();
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int s = 0; s < SLABS; s++)
                stem_copy16(queries + s * 8192 + stem_wgmma_place(r + 16 * j, c), q + (r + 16 * j) * WIDTH + s * 64 + c * 8, true);
#pragma unroll 1
        for (int i = 0; i < STAGES - 1; i++)
            fill();
    }
    __device__ __forceinline__ void multiply(const float (&weight)[16], int first, float *y) const
    {
        int row = (threadIdx.x >> 5 & 3) * 16 + ((threadIdx.x & 31) >> 2), t = threadIdx.x & 3;
        float s[32], sum[2] = {};
        stem_wgmma_matrix k = stem_wgmma_at(ring + slot * BYTES, 16), q = stem_wgmma_at(queries, 16);
        stem_wgmma_hold(s);
        stem_wgmma_begin();
#pragma unroll
        for (int i = 0; i < WIDTH / 16; i++) {
            int at = (i / 4 * 8192 + i % 4 * 32) >> 4;
            stem_wgmma_keys((const E *)nullptr, s, k + at, q + at, i > 0);
        }
        stem_wgmma_end();
        stem_wgmma_hold(s);
#pragma unroll
        for (int i = 0; i < 32; i++)
            sum[i >> 1 & 1] += weight[i / 4 * 2 + (i & 1)] * (s[i] < 0.0f ? 0.0f : s[i]);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 1);
            sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 2);
            if (t == 0 && first + row + 8 * h < to)
                y[first + row + 8 * h] = sum[h];
        }
    }
    template <class W> __device__ __forceinline__ void run(const E *q, const W *w, float *y)
    {
        float weight[16];
        begin(q);
#pragma unroll
        for (int i = 0; i < 16; i++)
            weight[i] = stem_float(w[i / 2 * 8 + 2 * (threadIdx.x & 3) + (i & 1)]);
#pragma unroll 1
        for (int tile = 0; tile < tiles; tile++) {
            stem_copy_wait<STAGES - 2>();
            stem_wgmma_written();
            __syncwarp();
            stem_warpgroup_sync(group); /* all that this stage holds has come, and the one that is filled now has been read */
            fill();
            multiply(weight, from + tile * 64, y);
            slot = slot + 1 == STAGES ? 0 : slot + 1;
        }
        stem_copy_wait<0>();
        __syncwarp();
        stem_warpgroup_sync(group); /* the queries have been read */
    }
};

/* Block: GROUPS warpgroups. Dynamic shared memory: up to 1024 bytes to align it; for each warpgroup q and STAGES stages. */
template <class E, class W, int WIDTH, int PAGE, int STAGES, int GROUPS>
__device__ __forceinline__ void stem_index_wide(const E *q, const W *w, const E *cache, const int *table, const int *lens, float *y,
                                                int tokens, int most, int pages, int max_pages)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    constexpr int bytes = stem_index_wide_bytes<WIDTH>;
    unsigned smem = (stem_shared_address(stem_smem) + 1023) & ~1023u;
    stem_index_group<E, WIDTH, PAGE, STAGES> b;
    b.group = threadIdx.x >> 7;
    b.cache = cache;
    b.pages = pages;
    b.queries = smem + b.group * (STAGES + 1) * bytes;
    b.ring = b.queries + bytes;
    b.fill_slot = b.slot = 0;
    int length = stem_index_length(lens, 0, tokens, most);
    stem_attention_walk<> walk(lens, tokens, 1, most, 64, gridDim.x * GROUPS, false, blockIdx.x * GROUPS + b.group);
    stem_wait();
    stem_launch_dependents();
    stem_index_shares(walk, b, table, max_pages,
                      [&](long long token) { b.run(q + token * 64 * WIDTH, w + token * 64, y + token * most); });
    stem_index_pad(length, lens, y, tokens, most);
}

#endif /* STEM_WGMMA */

#endif
