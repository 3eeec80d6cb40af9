/* SPDX-License-Identifier: Apache-2.0
 *
 * top_k by radix select. The blocks of a cluster share out a row in contiguous pieces; histograms meet in distributed
 * shared memory. Once the k-th largest key is known, places follow from counts, in order of index: the result does not
 * depend on timing, though counters are atomic.
 */
#ifndef STEM_TOP_K_CUH
#define STEM_TOP_K_CUH

#define STEM_TOP_BINS 2048

/* Orders like the float; 0: not to be chosen (NaN, -infinity). */
__device__ __forceinline__ unsigned stem_top_key(float v)
{
    unsigned u = __float_as_uint(v + 0.0f); /* -0 becomes +0 */
    if (v != v || u == 0xff800000u)
        return 0;
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

struct stem_top_shared {
    int bins[STEM_TOP_BINS]; /* of this block */
    int warp[32], warp_equal[32];
    int above, equal; /* of this block */
    int digit, rest;
};

template <int CLUSTER> __device__ __forceinline__ int stem_top_remote(const int *p, int rank)
{
    return CLUSTER > 1 ? __float_as_int(stem_cluster_load(reinterpret_cast<const float *>(p), rank)) : *p;
}

template <int CLUSTER> __device__ __forceinline__ void stem_top_meet(void)
{
    if (CLUSTER > 1)
        stem_cluster_sync();
    else
        __syncthreads();
}

/* Exclusive sum over the block's threads of v; total of all in *total. */
template <int THREADS> __device__ __forceinline__ int stem_top_scan(int v, int *warps, int *total)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, sum = v, before = 0, all = 0;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        int other = __shfl_up_sync(0xffffffffu, sum, d);
        sum += lane >= d ? other : 0;
    }
    __syncthreads();
    if (lane == 31)
        warps[warp] = sum;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < THREADS / 32; w++) {
        before += w < warp ? warps[w] : 0;
        all += warps[w];
    }
    *total = all;
    return before + sum - v;
}

/* One digit: of the keys whose higher bits are `prefix`, finds the digit of the want-th largest; want becomes its
 * rank among those of that digit. False if there are fewer than want. */
template <int THREADS, int CLUSTER, class Key>
__device__ __forceinline__ bool stem_top_digit(stem_top_shared *s, const Key &key, int count, int shift, int bits,
                                               unsigned &prefix, int &want)
{
    constexpr int EACH = STEM_TOP_BINS / THREADS;
    int digits = 1 << bits, total;
    for (int i = threadIdx.x; i < STEM_TOP_BINS; i += THREADS)
        s->bins[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += THREADS) {
        unsigned u = key(i);
        if (u && (unsigned)((unsigned long long)u >> (shift + bits)) == prefix)
            atomicAdd(&s->bins[u >> shift & (digits - 1)], 1);
    }
    __syncwarp();
    stem_top_meet<CLUSTER>();
    /* thread i has the digits from the top on: EACH * i .. */
    int own[EACH], sum = 0;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        int bin = STEM_TOP_BINS - 1 - ((int)threadIdx.x * EACH + j);
        own[j] = 0;
#pragma unroll
        for (int r = 0; r < CLUSTER; r++)
            own[j] += stem_top_remote<CLUSTER>(&s->bins[bin], r);
        sum += own[j];
    }
    int before = stem_top_scan<THREADS>(sum, s->warp, &total);
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        if (before < want && want <= before + own[j]) {
            s->digit = STEM_TOP_BINS - 1 - ((int)threadIdx.x * EACH + j);
            s->rest = want - before;
        }
        before += own[j];
    }
    __syncwarp();
    stem_top_meet<CLUSTER>(); /* nobody reads these bins any more */
    if (total < want)
        return false;
    prefix = prefix << bits | (unsigned)s->digit;
    want = s->rest;
    __syncthreads();
    return true;
}

/* Grid: rows * CLUSTER. KEPT: dynamic shared memory has room for this block's keys. lens may be NULL. */
template <int THREADS, int CLUSTER, bool KEPT>
__device__ __forceinline__ void stem_top_k(const float *x, const int *lens, int *y, int n, int k)
{
    STEM_DYNAMIC_SHARED(stem_smem); /* what other blocks of the cluster read is dynamic too: it lies alike in all */
    stem_top_shared &s = *(stem_top_shared *)stem_smem;
    unsigned *keys = (unsigned *)(stem_smem + sizeof(stem_top_shared));
    int rank = CLUSTER > 1 ? blockIdx.x % CLUSTER : 0, row = blockIdx.x / CLUSTER, lane = threadIdx.x & 31;
    x += (long long)row * n;
    y += (long long)row * k;
    stem_wait();
    stem_launch_dependents();
    int all = lens != nullptr ? min(max(stem_load_fresh(lens + row), 0), n) : n, share = (all + CLUSTER - 1) / CLUSTER;
    int begin = min(rank * share, all), count = min(share, all - begin);
    x += begin;
    if (KEPT)
        for (int i = threadIdx.x; i < count; i += THREADS)
            keys[i] = stem_top_key(stem_load_fresh(x + i));
    __syncthreads();
    auto key = [&](int i) { return KEPT ? keys[i] : stem_top_key(stem_load_fresh(x + i)); };
    unsigned threshold = 0;
    int want = k;
    bool enough = stem_top_digit<THREADS, CLUSTER>(&s, key, count, 21, 11, threshold, want) &&
                  stem_top_digit<THREADS, CLUSTER>(&s, key, count, 10, 11, threshold, want) &&
                  stem_top_digit<THREADS, CLUSTER>(&s, key, count, 0, 10, threshold, want);
    if (!enough) { /* all that can be chosen are */
        threshold = 0;
        want = 0;
    }
    /* each warp has a contiguous piece, for which it counts keys above the threshold and equal to it */
    int warp = threadIdx.x >> 5, piece = (count + THREADS - 1) / THREADS * 32;
    int from = min(warp * piece, count), to = min(from + piece, count), above = 0, equal = 0;
    for (int i = from; i < to; i += 32) {
        unsigned u = i + lane < to ? key(i + lane) : 0;
        above += __popc(__ballot_sync(0xffffffffu, u > threshold));
        equal += __popc(__ballot_sync(0xffffffffu, u == threshold && u));
    }
    if (lane == 0) {
        s.warp[warp] = above;
        s.warp_equal[warp] = equal;
    }
    __syncthreads();
    int above_before = 0, equal_before = 0, above_all = 0, equal_all = 0;
#pragma unroll 1
    for (int w = 0; w < THREADS / 32; w++) {
        above_before += w < warp ? s.warp[w] : 0;
        equal_before += w < warp ? s.warp_equal[w] : 0;
        above_all += s.warp[w];
        equal_all += s.warp_equal[w];
    }
    if (CLUSTER > 1) {
        if (threadIdx.x == 0) {
            s.above = above_all;
            s.equal = equal_all;
        }
        __syncwarp();
        stem_cluster_sync();
        above_all = equal_all = 0;
#pragma unroll
        for (int r = 0; r < CLUSTER; r++) {
            int a = stem_top_remote<CLUSTER>(&s.above, r), e = stem_top_remote<CLUSTER>(&s.equal, r);
            above_before += r < rank ? a : 0;
            equal_before += r < rank ? e : 0;
            above_all += a;
            equal_all += e;
        }
        stem_cluster_sync();
    }
    unsigned below = (1u << lane) - 1;
    for (int i = from; i < to; i += 32) {
        unsigned u = i + lane < to ? key(i + lane) : 0;
        unsigned over = __ballot_sync(0xffffffffu, u > threshold), same = __ballot_sync(0xffffffffu, u == threshold && u);
        int e = equal_before + __popc(same & below), place = above_before + __popc(over & below) + min(e, want);
        if ((over >> lane & 1) || ((same >> lane & 1) && e < want))
            y[place] = begin + i + lane;
        above_before += __popc(over);
        equal_before += __popc(same);
    }
    for (int i = above_all + min(equal_all, want) + rank * THREADS + threadIdx.x; i < k; i += THREADS * CLUSTER)
        y[i] = -1;
}

#endif
