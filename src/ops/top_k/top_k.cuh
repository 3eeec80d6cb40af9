/* SPDX-License-Identifier: Apache-2.0
 *
 * top_k by radix select. The blocks of a cluster share out a row in contiguous pieces; histograms meet in distributed
 * shared memory. Once the k-th largest key is known, places follow from counts, in order of index: the result does not
 * depend on timing, though counters are atomic.
 */
#ifndef STEM_TOP_K_CUH
#define STEM_TOP_K_CUH

#define STEM_TOP_BINS 256 /* a digit has 8 bits */

/* Orders like the float; 0: not to be chosen (NaN, -infinity). */
__device__ __forceinline__ unsigned stem_top_key(float v)
{
    unsigned u = __float_as_uint(v + 0.0f); /* -0 becomes +0 */
    if (v != v || u == 0xff800000u)
        return 0;
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

struct stem_top_shared {
    int bins[4 * STEM_TOP_BINS]; /* of this block, for each digit: others of the cluster read one while the next is filled */
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

/* Counts the digit of keys whose higher bits are `prefix`. Scores of one magnitude share their first digit: the first
 * lane's digit is counted for all lanes at once. Called by whole warps. */
__device__ __forceinline__ void stem_top_count(int *bins, unsigned key, int shift, unsigned prefix)
{
    const unsigned all = 0xffffffffu;
    int lane = threadIdx.x & 31;
    bool counts = key != 0 && (unsigned)((unsigned long long)key >> (shift + 8)) == prefix;
    unsigned some = __ballot_sync(all, counts);
    if (some == 0)
        return;
    int digit = (int)(key >> shift & 255), leader = __ffs(some) - 1, common = __shfl_sync(all, digit, leader);
    unsigned same = __ballot_sync(all, counts && digit == common);
    if (lane == leader)
        atomicAdd(&bins[common], __popc(same));
    else if (counts && digit != common)
        atomicAdd(&bins[digit], 1);
}

/* One digit: of the keys whose higher bits are `prefix`, finds the digit of the want-th largest; want becomes its
 * rank among those of that digit. False if there are fewer than want. */
template <int THREADS, int CLUSTER, class Key>
__device__ __forceinline__ bool stem_top_digit(stem_top_shared *s, const Key &key, int count, int round,
                                               unsigned &prefix, int &want)
{
    const unsigned every = 0xffffffffu;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, shift = 24 - 8 * round;
    for (int i = threadIdx.x; i < (count + 31) / 32 * 32; i += THREADS)
        stem_top_count(s->bins + round * STEM_TOP_BINS, i < count ? key(i) : 0, shift, prefix);
    __syncwarp();
    stem_top_meet<CLUSTER>();
    if (warp == 0) { /* lane has digits 255 - 8 * lane and the seven below */
        int own[8], sum = 0;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            own[j] = 0;
#pragma unroll
            for (int r = 0; r < CLUSTER; r++)
                own[j] += stem_top_remote<CLUSTER>(&s->bins[round * STEM_TOP_BINS + 255 - 8 * lane - j], r);
            sum += own[j];
        }
        int before = sum;
#pragma unroll
        for (int d = 1; d < 32; d <<= 1) {
            int other = __shfl_up_sync(every, before, d);
            before += lane >= d ? other : 0;
        }
        int total = __shfl_sync(every, before, 31);
        before -= sum;
        if (lane == 0 && total < want)
            s->rest = 0;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            if (before < want && want <= before + own[j]) {
                s->digit = 255 - 8 * lane - j;
                s->rest = want - before;
            }
            before += own[j];
        }
        __syncwarp();
    }
    __syncthreads();
    prefix = prefix << 8 | (unsigned)s->digit;
    want = s->rest;
    __syncthreads();
    return want > 0;
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
    for (int i = threadIdx.x; i < 4 * STEM_TOP_BINS; i += THREADS)
        s.bins[i] = 0;
    if (KEPT) {
#pragma unroll 4
        for (int i = threadIdx.x; i < count; i += THREADS)
            keys[i] = stem_top_key(stem_load_fresh(x + i));
    }
    __syncthreads();
    auto key = [&](int i) { return KEPT ? keys[i] : stem_top_key(stem_load_fresh(x + i)); };
    unsigned threshold = 0;
    int want = k;
    bool enough = true;
#pragma unroll 1
    for (int round = 0; round < 4 && enough; round++)
        enough = stem_top_digit<THREADS, CLUSTER>(&s, key, count, round, threshold, want);
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
    int above_before, equal_before, above_all = lane < THREADS / 32 ? s.warp[lane] : 0,
                                    equal_all = lane < THREADS / 32 ? s.warp_equal[lane] : 0;
    above_before = lane < warp ? above_all : 0;
    equal_before = lane < warp ? equal_all : 0;
#pragma unroll
    for (int d = 16; d; d >>= 1) {
        above_all += __shfl_xor_sync(0xffffffffu, above_all, d);
        equal_all += __shfl_xor_sync(0xffffffffu, equal_all, d);
        above_before += __shfl_xor_sync(0xffffffffu, above_before, d);
        equal_before += __shfl_xor_sync(0xffffffffu, equal_before, d);
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
