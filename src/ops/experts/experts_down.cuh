/* SPDX-License-Identifier: Apache-2.0
 *
 * experts_down in 16-bit floats: y[t] = sum over j of scale * w2[e] h[t, j]. A block owns 16 * MT rows of hidden for
 * all tokens of a tile, so no other block is needed for a sum. Its (group, 64 values of k) pairs, in order, are dealt
 * out to the warps in runs of equal length: work is even to one stage whatever was chosen, and a weight is read once.
 *
 * A warp has a ring as in stream.cuh, of stages of 16 * MT weight rows and of TR token rows: no more than a group can
 * have. A stage is filled again as soon as its fragments are in registers, so STAGES stages are on their way.
 *
 * Order of sums: along k within a warp's run, then the warp's groups in order, then the warps. It depends on the
 * shapes and on the ids of all tokens of the tile.
 */
#ifndef STEM_EXPERTS_DOWN_CUH
#define STEM_EXPERTS_DOWN_CUH

#ifndef STEM_EMULATED

/* Four 8 x 8 matrices of 16-bit elements: lane 8 * i + r says where row r of matrix i is (16 bytes). r[i] of lane 4g
 * + t has columns 2t and 2t + 1 of row g. */
__device__ __forceinline__ void stem_matrix(unsigned (&r)[4], unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

#endif

template <int MT, int TR> constexpr int stem_down_stage_size = (16 * MT + TR) * 2 * STEM_CHUNK; /* in bytes */

/* Where this lane's rows of a group start: rows lane / 8 + 4 * i, at column 8 * (lane % 8); the group's tokens. */
template <class E, int MT, int TR> struct stem_down_rows {
    const E *weight[4 * MT], *token[(TR + 3) / 4];
    int count;
};

/* A stage in registers: operands A and B of the products of 16 values of k, and of 32. */
template <int MT, int NT> struct stem_down_fragments {
    unsigned weight[MT][4][4], token[NT][2][4];
};

/* A lane's places in a stage. Rows are 128 bytes apart, and the 16-byte pieces of row r exchanged by r % 8: no access
 * has bank conflicts. Each goes through a shuffle, or the compiler computes it again for every stage. */
template <class E, int MT, int TR> struct stem_down_lane {
    static constexpr int NT = (TR + 7) / 8;
    unsigned to, weight, token;
    int K, column;

    __device__ __forceinline__ stem_down_lane(unsigned ring, int K) : K(K), column((threadIdx.x & 7) * 8)
    {
        int lane = threadIdx.x & 31, row = lane & 15, r = TR < 8 ? lane & (TR - 1) : lane & 7;
        to = ring + (lane >> 3) * 128 + (((lane & 7) ^ (lane >> 3)) << 4);
        weight = ring + row * 128 + (((lane >> 4) ^ (row & 7)) << 4);
        token = ring + MT * 2048 + r * 128 + (((lane >> 3) ^ r) << 4);
        to = __shfl_sync(0xffffffffu, to, lane);
        weight = __shfl_sync(0xffffffffu, weight, lane);
        token = __shfl_sync(0xffffffffu, token, lane);
    }
    __device__ __forceinline__ void load(unsigned stage, const stem_down_rows<E, MT, TR> &rows, int k, bool weights,
                                         bool tokens) const
    {
        bool inside = k + column < K;
        int at = inside ? k : 0, row = (threadIdx.x & 31) >> 3;
#pragma unroll
        for (int i = 0; i < 4 * MT; i++)
            if (weights)
                stem_copy16_once(((to ^ (i & 1) << 6) + stage) + i * 512, rows.weight[i] + at, inside);
#pragma unroll
        for (int i = 0; i < (TR + 3) / 4; i++)
            if (tokens && row + 4 * i < rows.count)
                stem_copy16(((to ^ (i & 1) << 6) + stage) + MT * 2048 + i * 512, rows.token[i] + at, inside);
    }
    /* Column g of a product is token g % TR: one without a token is computed on another's and not used. */
    __device__ __forceinline__ void take(unsigned stage, stem_down_fragments<MT, NT> &f, int tiles) const
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int m = 0; m < MT; m++)
                stem_matrix(f.weight[m][i], ((weight ^ i << 5) + stage) + m * 2048);
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                if (j == 0 || j < tiles)
                    stem_matrix(f.token[j][i], ((token ^ i << 6) + stage) + j * 1024);
    }
};

template <class E, int MT, int NT>
__device__ __forceinline__ void stem_down_multiply(const stem_down_fragments<MT, NT> &f, float (&acc)[MT][NT][4],
                                                   int tiles)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < NT; j++)
            if (j == 0 || j < tiles) {
                const unsigned *b = f.token[j][i >> 1] + 2 * (i & 1);
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    const unsigned *a = f.weight[m][i];
                    stem_mma((const E *)nullptr, acc[m][j], a[0], a[1], a[2], a[3], b[0], b[1]);
                }
            }
}

/* The run of one warp: `source.rows(group, rows)` and `source.tiles(group)` as in stem_stream_of; sink(group, acc)
 * gets the sums of each group over the part of k that belongs to the run. EARLY as there.
 *
 * One loop, whose first steps only fill the ring: instructions come from memory when a kernel starts. EARLY fills it
 * twice, with weights before the wait and with tokens after it; these weights become part of the first stage's group.
 */
template <class E, int MT, int TR, int STAGES, int WARPS, bool EARLY, class Source, class Sink>
__device__ __forceinline__ void stem_down_run(unsigned ring, int groups, int K, const Source &source,
                                              const Sink &sink)
{
    constexpr int NT = (TR + 7) / 8, size = stem_down_stage_size<MT, TR>;
    int warp = threadIdx.x >> 5, chunks = (K + STEM_CHUNK - 1) / STEM_CHUNK, pairs = groups * chunks;
    int share = pairs / WARPS, rest = pairs - share * WARPS, begin = share * warp + min(warp, rest);
    int stages = share + (warp < rest), group = begin / chunks, chunk = begin - group * chunks, tiles = 1;
    int fill_group = group, fill_chunk = chunk, filled = 0, slot = 0; /* slot: in bytes */
    bool fresh = true;                                                /* rows are not yet those of fill_group */
    stem_down_rows<E, MT, TR> rows;
    float acc[MT][NT][4] = {};
    const stem_down_lane<E, MT, TR> lane(ring + warp * STAGES * size, K);
#pragma unroll 1
    for (int step = EARLY ? -2 * STAGES : -STAGES; step < stages; step++) {
        stem_down_fragments<MT, NT> f;
        if (fresh && filled < stages) { /* long before they are used */
            source.rows(fill_group, rows);
            fresh = false;
        }
        if (step >= 0) {
            if (NT > 1)
                tiles = source.tiles(group);
            stem_copy_wait<STAGES - 1>();
            __syncwarp(); /* all lanes' copies have landed */
            lane.take(slot, f, tiles);
            __syncwarp(); /* all lanes have read */
        }
        if (EARLY && step == -STAGES) {
            stem_wait();
            stem_launch_dependents();
        }
        if (filled < stages) {
            lane.load(slot, rows, fill_chunk * STEM_CHUNK, !EARLY || step < -STAGES || step >= 0,
                      !EARLY || step >= -STAGES);
            filled++;
            fresh = ++fill_chunk == chunks;
            fill_chunk = fresh ? 0 : fill_chunk;
            fill_group += fresh;
        }
        if (!EARLY || step >= -STAGES)
            stem_copy_commit();
        slot = slot + size == STAGES * size ? 0 : slot + size;
        if (EARLY && step == -STAGES - 1) { /* the next one is the first again */
            fresh = fill_group != group;
            fill_group = group;
            fill_chunk = chunk;
            filled = 0;
        }
        if (step >= 0) {
            stem_down_multiply<E, MT, NT>(f, acc, tiles);
            if (++chunk == chunks || step == stages - 1) {
                sink(group, acc);
#pragma unroll
                for (int i = 0; i < MT * NT * 4; i++)
                    acc[i / (NT * 4)][i / 4 % NT][i % 4] = 0;
                chunk = 0;
                group++;
            }
        }
    }
}

/* ---- several tokens ---- */

template <class E, int MT, int TR> struct stem_down_source {
    const E *h, *w2; /* h of the tile's first token */
    const stem_groups *groups;
    int hidden, inter, row0;
    __device__ __forceinline__ void rows(int group, stem_down_rows<E, MT, TR> &r) const
    {
        int lane = threadIdx.x & 31, row = lane >> 3, column = (lane & 7) * 8;
        int begin = groups->begin[group], count = groups->count[group];
        const E *w = w2 + (long long)groups->expert[group] * hidden * inter + column;
#pragma unroll
        for (int i = 0; i < 4 * MT; i++)
            r.weight[i] = w + (long long)min(row0 + row + 4 * i, hidden - 1) * inter;
#pragma unroll
        for (int i = 0; i < (TR + 3) / 4; i++) /* past the count: not loaded from */
            r.token[i] = h + (long long)groups->pair[begin + min(row + 4 * i, count - 1)] * inter + column;
        r.count = count;
    }
    __device__ __forceinline__ int tiles(int group) const
    {
        return (groups->count[group] + 7) / 8;
    }
};

/* Block: 32 * WARPS threads. Grid: x = tiles of 16 * MT rows of hidden, y = tiles of tile_tokens tokens. TR is not
 * less than tile_tokens, or it is 8 or 16. EARLY: w2 is a weight, and what made ids and scale had completed when the
 * kernel started; all three are read before the wait. Dynamic shared memory: the rings, but not less than the scratch
 * of grouping, then WARPS * tile_tokens * (16 * MT + 4) sums, then a scale for each pair of the tile. */
template <class E, int MT, int TR, int STAGES, int WARPS, bool EARLY, class Store>
__device__ __forceinline__ void stem_experts_down(const E *h, const int *ids, const float *scale, const E *w2,
                                                  const Store &store, int tokens, int k, int experts, int hidden,
                                                  int inter, int tile_tokens)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    __shared__ stem_groups groups;
    constexpr int ring = STAGES * stem_down_stage_size<MT, TR>, NT = (TR + 7) / 8, LD = stem_down_sink<MT, NT>::LD;
    int tid = threadIdx.x, warp = tid >> 5, t0 = blockIdx.y * tile_tokens, n = min(tile_tokens, tokens - t0);
    int row0 = blockIdx.x * 16 * MT, sums_size = tile_tokens * LD;
    float *sums = (float *)(stem_smem + WARPS * ring), *merged = sums + WARPS * sums_size;
    ids += (long long)t0 * k;
    scale += (long long)t0 * k;
    for (int i = tid; i < WARPS * sums_size; i += 32 * WARPS)
        sums[i] = 0;
    if (!EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
    stem_groups_make(&groups, stem_smem, ids, scale, merged, n * k, k, experts, TR);

    stem_down_source<E, MT, TR> source = {h + (long long)t0 * k * inter, w2, &groups, hidden, inter, row0};
    stem_down_sink<MT, NT> sink = {sums + warp * sums_size, merged, &groups};
    stem_down_run<E, MT, TR, STAGES, WARPS, EARLY>(stem_shared_address(stem_smem), groups.n, inter, source, sink);
    __syncwarp();
    __syncthreads();
    stem_down_end<WARPS, 16 * MT, LD, 32 * WARPS>(
        sums, sums_size, n, [&](int row) { return row0 + row < hidden; },
        [&](int token, int row, float v) { store(t0 + token, row0 + row, v, 0.0f); });
}

/* ---- one token: no grouping, no barrier before the first weights (one.cuh, which has a kernel for many rows) ----
 */

template <class E, int MT> struct stem_down_single_source {
    const E *h, *w2;
    const stem_one &one;
    int hidden, inter, row0;
    /* stem_one's, without copies of its loop: there are several calls. */
    __device__ __forceinline__ int lane_of(int place) const
    {
        unsigned left = one.valid;
#pragma unroll 1
        for (int i = 0; i < place; i++)
            left &= left - 1;
        return __ffs(left) - 1;
    }
    __device__ __forceinline__ void rows(int place, stem_down_rows<E, MT, 1> &r) const
    {
        int lane = threadIdx.x & 31, row = lane >> 3, column = (lane & 7) * 8, from = lane_of(place);
        const E *w = w2 + (long long)__shfl_sync(0xffffffffu, one.id, from) * hidden * inter + column;
#pragma unroll
        for (int i = 0; i < 4 * MT; i++)
            r.weight[i] = w + (long long)min(row0 + row + 4 * i, hidden - 1) * inter;
        r.token[0] = h + (long long)from * inter + column;
        r.count = 1;
    }
    __device__ __forceinline__ int tiles(int) const
    {
        return 1;
    }
};

/* Block and grid as above. Dynamic shared memory: the rings, then WARPS * 16 * MT sums. The bits are the same, too.
 */
template <class E, int MT, int STAGES, int WARPS, bool EARLY, class Store>
__device__ __forceinline__ void stem_experts_down_single(const E *h, const int *ids, const float *scale, const E *w2,
                                                         const Store &store, int k, int experts, int hidden,
                                                         int inter)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    constexpr int ring = STAGES * stem_down_stage_size<MT, 1>;
    int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, row0 = blockIdx.x * 16 * MT;
    float *sums = (float *)(stem_smem + WARPS * ring);
    if (!EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
    stem_one one(ids, k, experts);
    float whole = one.merge(scale, k), sum[MT][2] = {};
    stem_down_single_source<E, MT> source = {h, w2, one, hidden, inter, row0};
    stem_down_one_sink<MT> sink = {sum, whole, one};
    stem_down_run<E, MT, 1, STAGES, WARPS, EARLY>(stem_shared_address(stem_smem), one.n, inter, source, sink);
    stem_down_one_end<MT, WARPS>(sums, sum, store, hidden, row0, tid, lane, warp);
}

#endif
