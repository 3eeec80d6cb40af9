/* SPDX-License-Identifier: Apache-2.0
 *
 * experts_down in f8e4m3 by the products of warpgroups (linear_wide.cuh): a block owns up to 64 rows of the hidden size for all
 * tokens, and its warpgroups take the groups of tokens in turn, each with a ring of its own of stages of 128 values of k. A
 * group's sums, times the weights of its tokens, are added in shared memory to those that the warpgroup has for the tokens; in the
 * end the warpgroups' are added in order.
 */
#ifndef STEM_EXPERTS_DOWN_WIDE_CUH
#define STEM_EXPERTS_DOWN_WIDE_CUH

#ifdef STEM_WGMMA

enum { STEM_DOWN_WIDE_STAGE = stem_wide_stage_bytes<1>, STEM_DOWN_WIDE_SCALES = 16 /* of each 8 rows, of each token */ };

/* The tokens of a stage: from h, quantised on the way; or of h in codes. */
template <class Rows> struct stem_down_wide_tokens {
    const __nv_bfloat16 *row; /* this quad's */
    int k, count;
    uint4 raw[4];
    __device__ __forceinline__ void point(const __nv_bfloat16 *h, const stem_groups &groups, int group, int inter)
    {
        k = inter;
        count = groups.count[group];
        row = h + (long long)groups.pair[groups.begin[group] + min((int)(threadIdx.x >> 2 & 31), count - 1)] * inter;
    }
    __device__ __forceinline__ void ask(char *, int chunk)
    {
        stem_f8::load(row, chunk * 128, k, raw);
    }
    __device__ __forceinline__ void put(char *stage, float *downs) const
    {
        int token = threadIdx.x >> 2 & 31;
        stem_wide_put(stage + 8192, downs, token, token < count, raw);
    }
    static __device__ __forceinline__ void scales(float *, int) {}
};

template <> struct stem_down_wide_tokens<stem_f8_rows> {
    const char *row; /* of this thread's piece, NULL: none */
    const float *down;
    int k;
    __device__ __forceinline__ void point(const stem_f8_rows &h, const stem_groups &groups, int group, int inter)
    {
        int i = threadIdx.x & 127, token = i < 64 ? i >> 3 : i - 64;
        bool there = token < groups.count[group];
        long long pair = there ? groups.pair[groups.begin[group] + token] : 0;
        k = inter;
        row = there && i < 64 ? (const char *)h.code + pair * inter + (i & 7) * 16 : nullptr;
        down = there && i >= 64 ? h.down + pair * ((inter + 127) / 128) : nullptr;
    }
    __device__ __forceinline__ void ask(char *stage, int chunk) const
    {
        int i = threadIdx.x & 127;
        bool inside = chunk * 128 + (i & 7) * 16 < k;
        if (row)
            stem_copy16(stem_shared_address(stage) + 8192 + stem_wgmma_place(i >> 3, i & 7), row + (inside ? chunk * 128 : 0), inside);
    }
    __device__ __forceinline__ void put(char *, float *) const {}
    __device__ __forceinline__ void scales(float *downs, int chunk) const
    {
        if (down)
            stem_copy4(stem_shared_address(downs + (threadIdx.x & 63)), down + chunk);
    }
};

/* A warpgroup's items, `step` groups apart, and its ring, which is filled ahead of the multiplication. */
template <int STAGES, class Rows> struct stem_down_wide_ring {
    char *stages;
    float *scales;
    Rows h;
    const char *w2;
    const float *scale;
    const stem_groups &groups;
    int hidden, inter, row0, height, step, chunks;
    int item, chunk, slot; /* what is filled next */
    const char *weight;
    const float *of_rows;
    stem_down_wide_tokens<Rows> tokens;

    __device__ __forceinline__ void point(bool all)
    {
        int i = threadIdx.x & 127;
        if (item >= groups.n)
            return;
        long long expert = groups.expert[item];
        weight = w2 + (expert * hidden + row0 + (i >> 3)) * inter + (i & 7) * 16;
        of_rows = scale + (expert * ((hidden + 127) / 128) + (row0 + min(8 * i, height - 8)) / 128) * chunks;
        if (all)
            tokens.point(h, groups, item, inter);
    }
    __device__ __forceinline__ void start(int first, bool all)
    {
        item = first;
        chunk = slot = 0;
        point(all);
    }
    /* Weights, tokens or both of the next stage; tokens that are to be put there are when put() is called. */
    __device__ __forceinline__ bool fill(bool early, bool late)
    {
        int i = threadIdx.x & 127;
        bool more = item < groups.n, inside = chunk * 128 + (i & 7) * 16 < inter;
        char *stage = stages + slot * STEM_DOWN_WIDE_STAGE;
        float *own = scales + slot * STEM_DOWN_WIDE_SCALES;
        if (more && early) {
            unsigned to = stem_shared_address(stage) + stem_wgmma_place(i >> 3, i & 7);
#pragma unroll
            for (int j = 0; j < 4; j++)
                if ((i >> 3) + 16 * j < height)
                    stem_copy16(to + 2048 * j, weight + (long long)(16 * j) * inter + (inside ? chunk * 128 : 0), inside);
            if (i < 8)
                stem_copy4(stem_shared_address(own + i), of_rows + chunk);
        }
        if (more && late) {
            tokens.ask(stage, chunk);
            tokens.scales(own + 8, chunk);
        }
        if (late)
            stem_copy_commit();
        return more;
    }
    __device__ __forceinline__ void put() const
    {
        tokens.put(stages + slot * STEM_DOWN_WIDE_STAGE, scales + slot * STEM_DOWN_WIDE_SCALES + 8);
    }
    __device__ __forceinline__ void next(bool all)
    {
        slot = slot + 1 == STAGES ? 0 : slot + 1;
        if (++chunk == chunks) {
            chunk = 0;
            item += step;
            point(all);
        }
    }
};

/* sum[token][row] += weight of the place * product; rows of a warp are no other's. */
__device__ __forceinline__ void stem_down_wide_add(float *sum, const float *merged, const stem_groups &groups, int group,
                                                   const float (&acc)[4])
{
    int row = (threadIdx.x >> 5 & 3) * 16 + ((threadIdx.x & 31) >> 2), t = threadIdx.x & 3;
    int begin = groups.begin[group], count = groups.count[group];
#pragma unroll
    for (int c = 0; c < 2; c++)
        if (2 * t + c < count) {
            float *at = sum + groups.token[begin + 2 * t + c] * STEM_WIDE_LD + row, s = merged[begin + 2 * t + c];
            at[0] += s * acc[c];
            at[8] += s * acc[c + 2];
        }
    __syncwarp();
}

/* Grid: x = tiles of `height` rows of hidden, a multiple of 8 up to 64 (the last tile has full height, and stores what the one before it
 * does not); y = tiles of tile_tokens tokens. Block: GROUPS warpgroups. EARLY: w2 and its scales are weights, and what made ids and
 * weight had completed when the kernel started; all are read before the wait. Dynamic shared memory: up to 1024 bytes to align it; for
 * each warpgroup a ring (all of them at least what stem_groups_make needs), its scales, and tile_tokens times STEM_WIDE_LD sums;
 * weights of places. */
template <int STAGES, int GROUPS, bool EARLY, class Rows, class Store>
__device__ __forceinline__ void stem_experts_down_wide(const Rows &h, const int *ids, const float *weight, const void *w2,
                                                       const void *scale, const Store &store, int tokens, int k, int experts,
                                                       int hidden, int inter, int tile_tokens, int height)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    __shared__ stem_groups made;
    constexpr int ring_bytes = STAGES * STEM_DOWN_WIDE_STAGE, THREADS = 128 * GROUPS;
    char *smem = stem_smem + ((1024 - (stem_shared_address(stem_smem) & 1023)) & 1023);
    int group = threadIdx.x >> 7, t0 = blockIdx.y * tile_tokens, n = min(tile_tokens, tokens - t0);
    int row0 = min((int)blockIdx.x * height, hidden - height), sums_size = tile_tokens * STEM_WIDE_LD;
    float *scales = (float *)(smem + GROUPS * ring_bytes), *sums = scales + GROUPS * STAGES * STEM_DOWN_WIDE_SCALES;
    float *merged = sums + GROUPS * sums_size;
    if (!EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
    for (int i = threadIdx.x; i < GROUPS * sums_size; i += THREADS)
        sums[i] = 0;
    stem_groups_make(&made, smem, ids + (long long)t0 * k, weight + (long long)t0 * k, merged, n * k, k, experts, 8);
    stem_down_wide_ring<STAGES, Rows> ring = {smem + group * ring_bytes, scales + group * STAGES * STEM_DOWN_WIDE_SCALES,
                                              stem_rows_from(h, (long long)t0 * k, inter), (const char *)w2, (const float *)scale,
                                              made, hidden, inter, row0, height, GROUPS, (inter + 127) / 128};
    if (EARLY) {
        ring.start(group, false);
#pragma unroll 1
        for (int i = 0; i < STAGES - 1; i++) {
            ring.fill(true, false);
            ring.next(false);
        }
        stem_wait();
        stem_launch_dependents();
    }
    ring.start(group, true);
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; i++) { /* weights that were asked for become part of the first stage's group */
        if (ring.fill(!EARLY, true))
            ring.put();
        ring.next(true);
    }
    int slot = 0;
#pragma unroll 1
    for (int item = group; item < made.n; item += GROUPS) {
        float acc[4] = {};
#pragma unroll 1
        for (int chunk = 0; chunk < ring.chunks; chunk++) {
            stem_copy_wait<STAGES - 2>();
            stem_wgmma_written();
            __syncwarp();
            stem_warpgroup_sync(group); /* all that this stage holds has come, and the one that is filled now has been read */
            bool more = ring.fill(true, true);
            unsigned of = stem_shared_address(ring.scales + slot * STEM_DOWN_WIDE_SCALES), rows = of + 8 * (threadIdx.x >> 5 & 3);
            stem_wide_multiply<1>(stem_shared_address(ring.stages) + slot * STEM_DOWN_WIDE_STAGE, rows, rows + 4, of + 32, acc);
            if (more)
                ring.put();
            ring.next(true);
            slot = slot + 1 == STAGES ? 0 : slot + 1;
        }
        stem_down_wide_add(sums + group * sums_size, merged, made, item, acc);
    }
    __syncthreads();
    stem_down_end<GROUPS, 64, STEM_WIDE_LD, THREADS>(
        sums, sums_size, n, [&](int row) { return row < height && row0 + row >= (int)blockIdx.x * height; },
        [&](int token, int row, float v) { store(t0 + token, row0 + row, v, 0.0f); });
}

#endif /* STEM_WGMMA */

#endif
