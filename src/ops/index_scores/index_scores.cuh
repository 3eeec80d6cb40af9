/* SPDX-License-Identifier: Apache-2.0
 *
 * index_scores: see index_scores.c. A page outside of the cache counts as page 0, so nothing outside is read.
 */
#ifndef STEM_INDEX_SCORES_CUH
#define STEM_INDEX_SCORES_CUH

#define STEM_INDEX_NONE __int_as_float(0xff800000)

/* The length of this lane's token of the 32 from `first` on, `most` if there is none. */
__device__ __forceinline__ int stem_index_length(const int *lens, int first, int tokens, int most)
{
    int t = first + (threadIdx.x & 31);
    return t < tokens ? min(max(stem_load_fresh(lens + t), 0), most) : most;
}

/* -infinity where no position is: every block its part of every token's. length: of the first tokens. */
__device__ __forceinline__ void stem_index_pad(int length, const int *lens, float *y, int tokens, int most)
{
    for (int first = 0; first < tokens; first += 32) {
        length = first ? stem_index_length(lens, first, tokens, most) : length;
        for (unsigned left = __ballot_sync(0xffffffffu, length < most); left; left &= left - 1) {
            int t = __ffs(left) - 1, n = __shfl_sync(0xffffffffu, length, t);
            for (int i = n + blockIdx.x * blockDim.x + threadIdx.x; i < most; i += gridDim.x * blockDim.x)
                y[(long long)(first + t) * most + i] = STEM_INDEX_NONE;
            __syncwarp();
        }
    }
}

/* Goes through a walk's shares: each is given to run(token) with its page table and positions in b. */
template <class Block, class Run>
__device__ __forceinline__ void stem_index_shares(stem_attention_walk<> &walk, Block &b, const int *table, int max_pages,
                                                  const Run &run)
{
#pragma unroll 1
    while (walk.step()) {
        if (walk.from >= walk.to)
            continue;
        b.table = table + (long long)walk.token * max_pages;
        b.from = walk.from;
        b.to = walk.to;
        run((long long)walk.token);
    }
}

/* Any type and width: a warp for each position, 8 a block. */
template <class E, class W, int HEADS, int WIDTH, int PAGE>
__device__ __forceinline__ void stem_index_scores_plain(const E *q, const W *w, const E *cache, const int *table,
                                                        const int *lens, float *y, int tokens, int most, int pages,
                                                        int max_pages)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    stem_wait();
    stem_launch_dependents();
    long long tiles = (most + 7) / 8;
    for (long long item = blockIdx.x; item < tiles * tokens; item += gridDim.x) {
        int token = (int)(item / tiles), i = (int)(item % tiles) * 8 + warp;
        if (i >= most)
            continue;
        float sum = 0;
        if (i < stem_load_fresh(lens + token)) {
            int page = stem_load_fresh(table + (long long)token * max_pages + i / PAGE);
            const E *key = cache + ((long long)(page < 0 || page >= pages ? 0 : page) * PAGE + i % PAGE) * WIDTH;
            for (int h = 0; h < HEADS; h++) {
                float dot = 0;
                for (int d = lane; d < WIDTH; d += 32)
                    dot += stem_float(q[((long long)token * HEADS + h) * WIDTH + d]) * stem_float(key[d]);
                dot = stem_warp_sum(dot);
                sum += stem_float(w[(long long)token * HEADS + h]) * (dot < 0.0f ? 0.0f : dot);
            }
        } else {
            sum = STEM_INDEX_NONE;
        }
        if (lane == 0)
            y[(long long)token * most + i] = sum;
    }
}

#endif
