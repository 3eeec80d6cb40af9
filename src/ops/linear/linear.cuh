/* SPDX-License-Identifier: Apache-2.0
 *
 * y[m, n] = sum over k of x[m, k] * w[n, k]. Decode: few rows of x, so the weights are read once, by 16 rows of w and
 * all of x at a time (stream.cuh). k is shared out over KPARTS warps of a block and over the CLUSTER blocks of a
 * thread-block cluster; the partial sums meet in shared memory and are added in a fixed order, so the bits do not
 * depend on timing.
 */
#ifndef STEM_LINEAR_CUH
#define STEM_LINEAR_CUH

#ifndef STEM_EMULATED

__device__ __forceinline__ void stem_cluster_sync(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}

/* A float in the shared memory of block `rank` of the cluster, at the place of `p` in this block's. */
__device__ __forceinline__ float stem_cluster_load(const float *p, int rank)
{
    float v = 0;
#if __CUDA_ARCH__ >= 900
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(stem_shared_address(p)), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there) : "memory");
#endif
    return v;
}

#endif /* STEM_EMULATED */

/* PAIR: an item's 16 rows are 8 and the same 8 of the second half of w. Rows of x are `distance` elements apart. */
template <class E, int NT, bool PAIR> struct stem_linear_source {
    const E *x, *w;
    int m0, m_end, n, k, group, groups, distance;
    __device__ __forceinline__ void rows(int item, stem_rows<E, 1, NT> &r) const
    {
        int lane = threadIdx.x & 31, row = lane >> 3, column = (lane & 7) * 8;
        int n0 = (item * groups + group) * (PAIR ? 8 : 16);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int at = PAIR ? min(n0 + row + 4 * (i & 1), n / 2 - 1) + (i >> 1) * (n / 2) : min(n0 + row + 4 * i, n - 1);
            r.weight[i] = w + (long long)at * k + column;
        }
#pragma unroll
        for (int i = 0; i < 2 * NT; i++)
            r.token[i] = m0 + row + 4 * i < m_end ? x + (long long)(m0 + row + 4 * i) * distance + column : nullptr;
    }
    __device__ __forceinline__ int tiles(int) const
    {
        return (m_end - m0 + 7) / 8;
    }
};

/* Adds the partial sums of an item and stores 16 * GROUPS columns of y, half as many with PAIR. */
template <class Store, class Tokens, int NT, int KPARTS, int GROUPS, int CLUSTER, bool PAIR> struct stem_linear_sink {
    const Store &store;
    const Tokens &tokens;
    float *partial, *sums; /* [GROUPS][KPARTS] tiles; [GROUPS][8 * NT][16], then [GROUPS][8 * NT] of the tokens' own */
    int m0, m_end, n, rank;

    /* `sum(o)` is the sum at place o of the item; with PAIR, o of the first 8 rows store for both. */
    template <class Sum> __device__ __forceinline__ void put(int item, int o, const Sum &sum) const
    {
        int row = o & 15, token = (o >> 4) % (8 * NT), group = (o >> 4) / (8 * NT);
        int column = (item * GROUPS + group) * (PAIR ? 8 : 16) + row;
        if (m0 + token < m_end && column < (PAIR ? n / 2 : n) && (!PAIR || row < 8))
            store(m0 + token, column, sum(o), PAIR ? sum(o + 8) : 0.0f);
    }
    __device__ __forceinline__ void operator()(int item, const float (&acc)[1][NT][4]) const
    {
        constexpr int tile = 8 * NT * STEM_TILE_LD, outputs = GROUPS * 8 * NT * 16;
        int tid = threadIdx.x, threads = 32 * KPARTS * GROUPS;
        __syncthreads();
        stem_tile_store<NT>(partial + (tid >> 5) * tile, acc);
        tokens.store(partial + (tid >> 5) * tile);
        __syncthreads();
        auto tile_sum = [&](int o, int row) {
            int group = (o >> 4) / (8 * NT);
            return stem_tile_sum<NT>(partial + group * KPARTS * tile, KPARTS, (o >> 4) % (8 * NT), row);
        };
        auto block_sum = [&](int o) { return tile_sum(o, o & 15); };
        for (int o = tid; o < outputs; o += threads)
            if (CLUSTER == 1)
                put(item, o, [&](int p) { return tokens.finish(block_sum(p), Tokens::sums ? tile_sum(p, 16) : 0.0f); });
            else
                sums[o] = block_sum(o);
        if (CLUSTER > 1 && Tokens::sums)
            for (int o = tid; o < GROUPS * 8 * NT; o += threads)
                sums[outputs + o] = tile_sum(o << 4, 16);
        if (CLUSTER > 1) {
            stem_cluster_sync();
            auto all = [&](int o) {
                float v = 0;
#pragma unroll
                for (int r = 0; r < CLUSTER; r++)
                    v += stem_cluster_load(sums + o, r);
                return v;
            };
            auto cluster_sum = [&](int o) { return tokens.finish(all(o), Tokens::sums ? all(outputs + (o >> 4)) : 0.0f); };
            for (int o = rank * threads + tid; o < outputs; o += CLUSTER * threads)
                put(item, o, cluster_sum);
            stem_cluster_sync();
        }
    }
};

/* Grid: x = blocks (CLUSTER consecutive ones share an item of 16 * GROUPS rows of w), y = tiles of 8 * NT rows of x.
 * Block: 32 * KPARTS * GROUPS threads; warp = group * KPARTS + part. EARLY: w is a weight, read before the wait. */
template <class E, int NT, int STAGES, int KPARTS, int GROUPS, int CLUSTER, bool EARLY, bool PAIR, class Store, class Tokens>
__device__ __forceinline__ void stem_linear_of(const E *x, int distance, const E *w, const Store &store, int m, int n,
                                               int k, int blocks, Tokens &tokens)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    constexpr int warps = KPARTS * GROUPS, ring = STAGES * (stem_stage_bytes<1, NT> + Tokens::bytes);
    constexpr int each = (PAIR ? 8 : 16) * GROUPS;
    int warp = threadIdx.x >> 5, rank = CLUSTER > 1 ? blockIdx.x % CLUSTER : 0;
    int m0 = blockIdx.y * 8 * NT, m_end = min(m, m0 + 8 * NT), columns = PAIR ? n / 2 : n;
    float *partial = (float *)(stem_smem + warps * ring);
    float *sums = partial + warps * 8 * NT * STEM_TILE_LD;
    stem_linear_source<E, NT, PAIR> source = {x, w, m0, m_end, n, k, warp / KPARTS, GROUPS, distance};
    stem_linear_sink<Store, Tokens, NT, KPARTS, GROUPS, CLUSTER, PAIR> sink = {store, tokens, partial, sums,
                                                                               m0,    m_end,  n,       rank};
    if (!EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
    stem_stream_of<E, 1, NT, STAGES, EARLY>(stem_shared_address(stem_smem) + warp * ring, blockIdx.x / CLUSTER,
                                            blocks / CLUSTER, (columns + each - 1) / each,
                                            rank * KPARTS + warp % KPARTS, KPARTS * CLUSTER, k, source, sink, tokens);
}

template <class E, int NT, int STAGES, int KPARTS, int GROUPS, int CLUSTER, bool EARLY, bool PAIR, class Store>
__device__ __forceinline__ void stem_linear_to(const E *x, const E *w, const Store &store, int m, int n, int k)
{
    stem_tokens_plain tokens;
    stem_linear_of<E, NT, STAGES, KPARTS, GROUPS, CLUSTER, EARLY, PAIR>(x, k, w, store, m, n, k, (int)gridDim.x, tokens);
}

template <class E, class O, int NT, int STAGES, int KPARTS, int GROUPS, int CLUSTER, bool EARLY>
__device__ __forceinline__ void stem_linear(const E *x, const E *w, O *y, int m, int n, int k)
{
    stem_linear_to<E, NT, STAGES, KPARTS, GROUPS, CLUSTER, EARLY, false>(x, w, stem_store_plain<O>{y, n}, m, n, k);
}

/* Any shape and alignment: a warp for each column and 8 rows of x. Grid: x over columns by 4, y over rows by 8. */
template <class E, bool PAIR, class Store>
__device__ __forceinline__ void stem_linear_plain_to(const E *x, const E *w, const Store &store, int m, int n, int k)
{
    int lane = threadIdx.x & 31, column = blockIdx.x * 4 + (threadIdx.x >> 5), m0 = blockIdx.y * 8;
    int columns = PAIR ? n / 2 : n;
    stem_wait();
    stem_launch_dependents();
    if (column >= columns)
        return;
    float sum[PAIR ? 2 : 1][8] = {};
    for (int i = lane; i < k; i += 32)
#pragma unroll
        for (int h = 0; h < (PAIR ? 2 : 1); h++) {
            float b = stem_float(w[(long long)(column + h * columns) * k + i]);
#pragma unroll
            for (int r = 0; r < 8; r++)
                if (m0 + r < m)
                    sum[h][r] += stem_float(x[(long long)(m0 + r) * k + i]) * b;
        }
#pragma unroll
    for (int r = 0; r < 8; r++) {
#pragma unroll
        for (int h = 0; h < (PAIR ? 2 : 1); h++)
#pragma unroll
            for (int d = 16; d > 0; d >>= 1)
                sum[h][r] += __shfl_xor_sync(0xffffffffu, sum[h][r], d);
        if (lane == 0 && m0 + r < m)
            store(m0 + r, column, sum[0][r], PAIR ? sum[PAIR ? 1 : 0][r] : 0.0f);
    }
}

template <class E, class O>
__device__ __forceinline__ void stem_linear_plain(const E *x, const E *w, O *y, int m, int n, int k)
{
    stem_linear_plain_to<E, false>(x, w, stem_store_plain<O>{y, n}, m, n, k);
}

#endif
