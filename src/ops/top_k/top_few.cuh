/* SPDX-License-Identifier: Apache-2.0
 *
 * top_k of rows that the registers of a block hold. Scores are sorted into bins of equal width between the least and the greatest of
 * them: however they are spread, hardly two lanes count in the same bin at once, and few keys are in the bin of the k-th largest. These are
 * ranked among themselves. Where that does not do (many equal ones, an infinity) the digits of top_k.cuh find the same key.
 */
#ifndef STEM_TOP_FEW_CUH
#define STEM_TOP_FEW_CUH

__device__ __forceinline__ float stem_top_value(unsigned key)
{
    return __uint_as_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

/* The key of rank `want`, among as many keys as lanes at the most; want becomes its rank among its equals. */
__device__ __forceinline__ unsigned stem_top_rank(const unsigned *keys, int count, int &want)
{
    int lane = threadIdx.x & 31, above = 0, equal = 0;
    unsigned own = lane < count ? keys[lane] : 0;
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        unsigned other = __shfl_sync(0xffffffffu, own, i);
        above += other > own;
        equal += other == own;
    }
    int at = __ffs(__ballot_sync(0xffffffffu, lane < count && above < want && want <= above + equal)) - 1;
    want -= __shfl_sync(0xffffffffu, above, at);
    return __shfl_sync(0xffffffffu, own, at);
}

/* u: EACH keys from thread * EACH on. The key above which all are chosen; want becomes how many of its equals are. 0: all. */
template <int THREADS, int EACH>
__device__ __forceinline__ unsigned stem_top_threshold(stem_top_shared &s, unsigned *kept, const unsigned (&u)[EACH], int &want)
{
    constexpr int WARPS = THREADS / 32, PER = STEM_TOP_BINS / THREADS;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    unsigned most = 0, least = 0xffffffffu;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        most = max(most, u[j]);
        least = min(least, u[j] ? u[j] : 0xffffffffu);
    }
    most = __reduce_max_sync(0xffffffffu, most);
    least = __reduce_min_sync(0xffffffffu, least);
    if (lane == 0) {
        s.warp[warp] = (int)most;
        s.warp_equal[warp] = (int)least;
    }
    __syncwarp();
    __syncthreads(); /* the counters are zero, too */
    most = __reduce_max_sync(0xffffffffu, lane < WARPS ? (unsigned)s.warp[lane] : 0u);
    least = __reduce_min_sync(0xffffffffu, lane < WARPS ? (unsigned)s.warp_equal[lane] : 0xffffffffu);
    float low = stem_top_value(least), range = stem_top_value(most) - low, scale = STEM_TOP_BINS / range;
    if (most && range > 0.0f && range < 3e38f && scale < 3e38f) {
        int bin[EACH], own[PER], digit;
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            bin[j] = u[j] ? min((int)((stem_top_value(u[j]) - low) * scale), STEM_TOP_BINS - 1) : -1;
            if (u[j])
                atomicAdd(&s.all[bin[j]], 1);
        }
        __syncwarp();
        __syncthreads();
#pragma unroll
        for (int j = 0; j < PER; j++)
            own[j] = s.all[STEM_TOP_BINS - 1 - ((int)threadIdx.x * PER + j)];
        int rest = want;
        if (!stem_top_find<THREADS>(&s, own, rest, digit)) {
            want = 0;
            return 0;
        }
        int count = s.all[digit];
        if (count <= 32) {
#pragma unroll
            for (int j = 0; j < EACH; j++)
                if (bin[j] == digit)
                    kept[atomicAdd(&s.above, 1)] = u[j]; /* in any order */
            __syncwarp();
            __syncthreads();
            want = rest;
            return stem_top_rank(kept, count, want);
        }
    }
    stem_top_keys keys = {kept, nullptr, THREADS * EACH};
    unsigned threshold = 0;
    if (!stem_top_digit<THREADS, 1>(&s, s.bins, keys, 0, 21, 11, threshold, want) ||
        !stem_top_digit<THREADS, 1>(&s, s.bins + STEM_TOP_BINS, keys, 0, 10, 11, threshold, want) ||
        !stem_top_digit<THREADS, 1>(&s, s.bins + 2 * STEM_TOP_BINS, keys, 0, 0, 10, threshold, want))
        return want = 0; /* there are fewer: all that can be chosen are */
    return threshold;
}

/* Grid: rows. n: a multiple of 4, at most THREADS * EACH; x is 16-byte aligned. lens may be NULL; it is read before the wait. Dynamic
 * shared memory: stem_top_shared, then a key for each place. */
template <int THREADS, int EACH> __device__ __forceinline__ void stem_top_few(const float *x, const int *lens, int *y, int n, int k)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    stem_top_shared &s = *(stem_top_shared *)stem_smem;
    unsigned *kept = (unsigned *)(stem_smem + sizeof(stem_top_shared)), u[EACH];
    int row = blockIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5, first = threadIdx.x * EACH, want = k;
    int count = lens != nullptr ? min(max(stem_load_fresh(lens + row), 0), n) : n;
    x += (long long)row * n;
    y += (long long)row * k;
    for (int i = threadIdx.x; i < STEM_TOP_BINS; i += THREADS)
        s.all[i] = s.bins[i] = s.bins[i + STEM_TOP_BINS] = s.bins[i + 2 * STEM_TOP_BINS] = 0;
    if (threadIdx.x == 0)
        s.above = 0;
    stem_wait();
    stem_launch_dependents();
#pragma unroll
    for (int j = 0; j < EACH; j += 2) {
        unsigned long long two = first + j < count ? stem_load_fresh((const unsigned long long *)(x + first + j)) : 0;
#pragma unroll
        for (int i = j; i < j + 2; i++) {
            float v = __uint_as_float((unsigned)(two >> 32 * (i - j)));
            u[i] = first + i < count ? stem_top_key(v) : 0;
        }
    }
#pragma unroll
    for (int j = 0; j < EACH; j += 4)
        *(uint4 *)(kept + first + j) = uint4{u[j], u[j + 1], u[j + 2], u[j + 3]};
    unsigned threshold = stem_top_threshold<THREADS>(s, kept, u, want);
    int own = 0; /* above in the low half, equal in the high one */
#pragma unroll
    for (int j = 0; j < EACH; j++)
        own += (u[j] > threshold) + (u[j] == threshold && u[j] ? 0x10000 : 0);
    int before = stem_top_below(own);
    if (lane == 31)
        s.warp_equal[warp] = before + own;
    __syncwarp();
    __syncthreads();
    int of_warp = lane < THREADS / 32 ? s.warp_equal[lane] : 0;
    before += __reduce_add_sync(0xffffffffu, lane < warp ? of_warp : 0);
    int all = __reduce_add_sync(0xffffffffu, of_warp), above = before & 0xffff, equal = before >> 16;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        bool over = u[j] > threshold, same = u[j] == threshold && u[j];
        if (over || (same && equal < want))
            y[above + min(equal, want)] = first + j;
        above += over;
        equal += same;
    }
    for (int i = (all & 0xffff) + min(all >> 16, want) + threadIdx.x; i < k; i += THREADS)
        y[i] = -1;
}

#endif
