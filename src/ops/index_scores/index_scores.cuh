/* SPDX-License-Identifier: Apache-2.0
 *
 * index_scores: see index_scores.c. A page outside of the cache counts as page 0, so nothing outside is read.
 */
#ifndef STEM_INDEX_SCORES_CUH
#define STEM_INDEX_SCORES_CUH

#define STEM_INDEX_NONE __int_as_float(0xff800000)

/* -infinity where no position is: every block its part of every token's. */
__device__ __forceinline__ void stem_index_pad(const int *lens, float *y, int tokens, int most)
{
    for (int t = 0; t < tokens; t++) {
        int n = min(max(stem_load_fresh(lens + t), 0), most);
        for (int i = n + blockIdx.x * blockDim.x + threadIdx.x; i < most; i += gridDim.x * blockDim.x)
            y[(long long)t * most + i] = STEM_INDEX_NONE;
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
