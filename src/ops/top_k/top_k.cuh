/* SPDX-License-Identifier: Apache-2.0
 *
 * top_k by radix select. The blocks of a cluster share out a row in contiguous pieces; histograms meet in distributed
 * shared memory. Once the k-th largest key is known, places follow from counts, in order of index: the result does
 * not depend on timing, though counters are atomic.
 */
#ifndef STEM_TOP_K_CUH
#define STEM_TOP_K_CUH

#define STEM_TOP_BINS 2048 /* a digit has at most 11 bits */

/* Orders like the float; 0: not to be chosen (NaN, -infinity). */
__device__ __forceinline__ unsigned stem_top_key(float v)
{
    unsigned u = __float_as_uint(v + 0.0f); /* -0 becomes +0 */
    if (v != v || u == 0xff800000u)
        return 0;
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

struct stem_top_shared {
    int bins[3 * STEM_TOP_BINS]; /* of this block, for each digit: others of the cluster read one while the next is
                                    filled */
    int all[STEM_TOP_BINS];      /* of the cluster: this block's part of the bins */
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

/* Sum of v over the lanes below this one. */
__device__ __forceinline__ int stem_top_below(int v)
{
    int lane = threadIdx.x & 31, sum = v;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        int other = __shfl_up_sync(0xffffffffu, sum, d);
        sum += lane >= d ? other : 0;
    }
    return sum - v;
}

/* Four keys from i on, a multiple of four; zeros past the end. */
struct stem_top_keys {
    const unsigned *kept; /* in shared memory, filled up with zeros; NULL: read again from x */
    const float *x;
    int count;
    __device__ __forceinline__ stem_vec<unsigned, 4> at(int i) const
    {
        if (kept != nullptr)
            return stem_load<4>(kept + i);
        stem_vec<unsigned, 4> v;
#pragma unroll
        for (int j = 0; j < 4; j++)
            v.at[j] = i + j < count ? stem_top_key(stem_load_fresh(x + i + j)) : 0;
        return v;
    }
};

/* The digit in which the want-th largest key is, where own[j] keys have digit STEM_TOP_BINS - 1 - (thread * EACH + j); want becomes
 * its rank among those of that digit. False if there are fewer than want. */
template <int THREADS, int EACH>
__device__ __forceinline__ bool stem_top_find(stem_top_shared *s, const int (&own)[EACH], int &want, int &digit)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, sum = 0;
#pragma unroll
    for (int j = 0; j < EACH; j++)
        sum += own[j];
    int before = stem_top_below(sum);
    if (lane == 31)
        s->warp[warp] = before + sum;
    __syncthreads();
    int of_warp = lane < THREADS / 32 ? s->warp[lane] : 0, up_to = stem_top_below(of_warp);
    before += __shfl_sync(0xffffffffu, up_to, warp);
    int total = __shfl_sync(0xffffffffu, up_to + of_warp, 31);
    if (total < want)
        return false;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        if (before < want && want <= before + own[j]) {
            s->digit = STEM_TOP_BINS - 1 - ((int)threadIdx.x * EACH + j);
            s->rest = want - before;
        }
        before += own[j];
    }
    __syncwarp();
    __syncthreads();
    digit = s->digit;
    want = s->rest;
    return true;
}

/* One digit, of `bits` bits from `shift` on: of the keys whose higher bits are `prefix`, finds the digit of the
 * want-th largest; want becomes its rank among those of that digit. False if there are fewer than want. */
template <int THREADS, int CLUSTER>
__device__ __forceinline__ bool stem_top_digit(stem_top_shared *s, int *bins, const stem_top_keys &keys, int rank,
                                               int shift, int bits, unsigned &prefix, int &want)
{
    constexpr int EACH = STEM_TOP_BINS / THREADS, PART = STEM_TOP_BINS / CLUSTER;
    for (int i = threadIdx.x * 4; i < keys.count; i += THREADS * 4) {
        stem_vec<unsigned, 4> u = keys.at(i);
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (u.at[j] && (unsigned)((unsigned long long)u.at[j] >> (shift + bits)) == prefix)
                atomicAdd(&bins[u.at[j] >> shift & ((1 << bits) - 1)], 1);
    }
    __syncwarp();
    stem_top_meet<CLUSTER>();
    if (CLUSTER > 1) {
        for (int i = threadIdx.x; i < PART; i += THREADS) {
            int sum = 0;
#pragma unroll
            for (int r = 0; r < CLUSTER; r++)
                sum += stem_top_remote<CLUSTER>(&bins[rank * PART + i], r);
            s->all[rank * PART + i] = sum;
        }
        __syncwarp();
        stem_top_meet<CLUSTER>();
    }
    int own[EACH], digit; /* from the largest digit on */
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        int bin = STEM_TOP_BINS - 1 - ((int)threadIdx.x * EACH + j);
        own[j] = CLUSTER > 1 ? stem_top_remote<CLUSTER>(&s->all[bin], bin / PART) : bins[bin];
    }
    if (!stem_top_find<THREADS>(s, own, want, digit))
        return false;
    prefix = prefix << bits | (unsigned)digit;
    return true;
}

/* Grid: rows * CLUSTER. KEPT: dynamic shared memory has room for this block's keys, a multiple of 128. lens may be
 * NULL. */
template <int THREADS, int CLUSTER, bool KEPT>
__device__ __forceinline__ void stem_top_k(const float *x, const int *lens, int *y, int n, int k)
{
    STEM_DYNAMIC_SHARED(stem_smem); /* what other blocks of the cluster read is dynamic too: it lies alike in all */
    const unsigned every = 0xffffffffu;
    stem_top_shared &s = *(stem_top_shared *)stem_smem;
    unsigned *kept = (unsigned *)(stem_smem + sizeof(stem_top_shared));
    int rank = CLUSTER > 1 ? blockIdx.x % CLUSTER : 0, row = blockIdx.x / CLUSTER, lane = threadIdx.x & 31;
    x += (long long)row * n;
    y += (long long)row * k;
    for (int i = threadIdx.x; i < 3 * STEM_TOP_BINS; i += THREADS)
        s.bins[i] = 0;
    stem_wait();
    stem_launch_dependents();
    int all = lens != nullptr ? min(max(stem_load_fresh(lens + row), 0), n) : n,
        share = (all + CLUSTER - 1) / CLUSTER;
    int begin = min(rank * share, all), count = min(share, all - begin), whole = (count + 127) / 128;
    x += begin;
    if (KEPT) {
#pragma unroll 8
        for (int i = threadIdx.x; i < whole * 128; i += THREADS)
            kept[i] = i < count ? stem_top_key(stem_load_fresh(x + i)) : 0;
    }
    __syncwarp();
    __syncthreads();
    stem_top_keys keys = {KEPT ? kept : nullptr, x, count};
    unsigned threshold = 0;
    int want = k;
    if (!stem_top_digit<THREADS, CLUSTER>(&s, s.bins, keys, rank, 21, 11, threshold, want) ||
        !stem_top_digit<THREADS, CLUSTER>(&s, s.bins + STEM_TOP_BINS, keys, rank, 10, 11, threshold, want) ||
        !stem_top_digit<THREADS, CLUSTER>(&s, s.bins + 2 * STEM_TOP_BINS, keys, rank, 0, 10, threshold, want)) {
        threshold = 0; /* there are fewer: all that can be chosen are */
        want = 0;
    }
    /* each warp has a contiguous piece, for which it counts keys above the threshold and equal to it */
    int warp = threadIdx.x >> 5, piece = (whole + THREADS / 32 - 1) / (THREADS / 32) * 128;
    int from = min(warp * piece, whole * 128), to = min(from + piece, whole * 128), above = 0, equal = 0;
    for (int i = from + lane * 4; i < to; i += 128) {
        stem_vec<unsigned, 4> u = keys.at(i);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            above += u.at[j] > threshold;
            equal += u.at[j] == threshold && u.at[j];
        }
    }
#pragma unroll
    for (int d = 16; d; d >>= 1) {
        above += __shfl_xor_sync(every, above, d);
        equal += __shfl_xor_sync(every, equal, d);
    }
    __syncthreads(); /* s.warp has been read */
    if (lane == 0) {
        s.warp[warp] = above;
        s.warp_equal[warp] = equal;
    }
    __syncwarp();
    __syncthreads();
    int above_all = lane < THREADS / 32 ? s.warp[lane] : 0, equal_all = lane < THREADS / 32 ? s.warp_equal[lane] : 0;
    int above_before = lane < warp ? above_all : 0, equal_before = lane < warp ? equal_all : 0;
#pragma unroll
    for (int d = 16; d; d >>= 1) {
        above_all += __shfl_xor_sync(every, above_all, d);
        equal_all += __shfl_xor_sync(every, equal_all, d);
        above_before += __shfl_xor_sync(every, above_before, d);
        equal_before += __shfl_xor_sync(every, equal_before, d);
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
    for (int i = from + lane * 4; i < to; i += 128) {
        stem_vec<unsigned, 4> u = keys.at(i);
        int own = 0; /* above in the low half, equal in the high one */
#pragma unroll
        for (int j = 0; j < 4; j++)
            own += (u.at[j] > threshold) + (u.at[j] == threshold && u.at[j] ? 0x10000 : 0);
        int before = stem_top_below(own), a = above_before + (before & 0xffff), e = equal_before + (before >> 16);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            bool over = u.at[j] > threshold, same = u.at[j] == threshold && u.at[j];
            if (over || (same && e < want))
                y[a + min(e, want)] = begin + i + j;
            a += over;
            e += same;
        }
        int group = __shfl_sync(every, before + own, 31);
        above_before += group & 0xffff;
        equal_before += group >> 16;
    }
    for (int i = above_all + min(equal_all, want) + rank * THREADS + threadIdx.x; i < k; i += THREADS * CLUSTER)
        y[i] = -1;
}

#endif
