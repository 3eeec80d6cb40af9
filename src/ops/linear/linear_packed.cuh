/* SPDX-License-Identifier: Apache-2.0
 *
 * linear with weights in a format of formats.cuh: linear.cuh's way of sharing out k over warps and blocks, with 16 * MT
 * rows of w to an item. PAIR: half of them are of the first half of w, the others the same ones of the second.
 */
#ifndef STEM_LINEAR_PACKED_CUH
#define STEM_LINEAR_PACKED_CUH

/* Row r of an item's 16 * MT, of columns = n or n / 2 items. */
template <int MT, bool PAIR> __device__ __forceinline__ int stem_packed_row(int n0, int r, int columns)
{
    return PAIR ? min(n0 + r % (8 * MT), columns - 1) + (r < 8 * MT ? 0 : columns) : min(n0 + r, columns - 1);
}

template <class F, int MT, int NT, int KPARTS, int GROUPS, bool KEEP, bool EARLY, bool PAIR>
struct stem_linear_packed_source {
    const __nv_bfloat16 *x;
    const char *w, *scale;
    char *kept; /* the part's, if KEEP */
    int m0, m_end, columns, k, group, part, parts;

    __device__ __forceinline__ int first(int item) const
    {
        return (item * GROUPS + group) * (PAIR ? 8 : 16) * MT;
    }
    __device__ __forceinline__ void rows(int item, stem_packed_rows<F, MT> &r) const
    {
        int lane = threadIdx.x & 31, n0 = first(item);
        long long bytes = (long long)k / F::CHUNK * 128 + k % F::CHUNK * 128 / F::CHUNK;
#pragma unroll
        for (int i = 0; i < 4 * MT; i++)
            r.weight[i] = w + stem_packed_row<MT, PAIR>(n0, (lane >> 3) + 4 * i, columns) * bytes + (lane & 7) * 16;
#pragma unroll
        for (int i = 0; i < (MT + 1) / 2 && F::SCALES; i++)
            r.scale[i] = scale + stem_packed_row<MT, PAIR>(n0, (lane + 32 * i) % (16 * MT), columns) * (bytes / 8);
    }
    __device__ __forceinline__ void blocks(int item, const float *(&block)[2 * MT]) const
    {
        int n0 = first(item);
#pragma unroll
        for (int i = 0; i < 2 * MT; i++)
            block[i] = (const float *)scale +
                       (long long)(stem_packed_row<MT, PAIR>(n0, 8 * i, columns) / 128) * ((k + 127) / 128);
    }
    __device__ __forceinline__ int tiles(int) const
    {
        return (m_end - m0 + 7) / 8;
    }
    __device__ __forceinline__ stem_tokens_kept<F, NT> kept_tokens() const
    {
        int chunks = (k + F::CHUNK - 1) / F::CHUNK;
        return {kept, part < chunks ? (chunks - part + parts - 1) / parts : 0, m_end - m0};
    }
    __device__ __forceinline__ stem_tokens_read<F, NT> read_tokens() const
    {
        stem_tokens_read<F, NT> t;
        t.K = k;
#pragma unroll
        for (int j = 0; j < NT; j++) {
            t.row[j] = x + (long long)min(m0 + 8 * j + ((threadIdx.x & 31) >> 2), m_end - 1) * k;
        }
        return t;
    }
    __device__ __forceinline__ auto tokens(int) const
    {
        if constexpr (KEEP)
            return kept_tokens();
        else
            return read_tokens();
    }
    __device__ __forceinline__ void start() const
    {
        if (EARLY) {
            stem_wait();
            stem_launch_dependents();
        }
        if (KEEP) {
            stem_tokens_keep(kept_tokens(), read_tokens(), part, parts, group, GROUPS);
            __syncwarp();
            __syncthreads();
        }
    }
};

/* Adds the partial sums of an item and stores them. */
template <class Store, int MT, int NT, int KPARTS, int GROUPS, int CLUSTER, bool PAIR> struct stem_linear_packed_sink {
    static constexpr int LD = 16 * MT + 4, ROWS = 16 * MT;
    const Store &store;
    float *partial, *sums; /* [GROUPS][KPARTS] tiles; [GROUPS][8 * NT][ROWS] */
    int m0, m_end, columns, rank;
    float unit;

    template <class Sum> __device__ __forceinline__ void put(int item, int o, const Sum &sum) const
    {
        int row = o % ROWS, token = o / ROWS % (8 * NT), group = o / ROWS / (8 * NT);
        int column = (item * GROUPS + group) * (PAIR ? ROWS / 2 : ROWS) + row;
        if (m0 + token < m_end && column < columns && (!PAIR || row < ROWS / 2))
            store(m0 + token, column, sum(o) * unit, PAIR ? sum(o + ROWS / 2) * unit : 0.0f);
    }
    __device__ __forceinline__ void operator()(int item, const float (&acc)[MT][NT][4]) const
    {
        constexpr int tile = 8 * NT * LD, outputs = GROUPS * 8 * NT * ROWS;
        int tid = threadIdx.x, threads = 32 * KPARTS * GROUPS;
        __syncthreads();
        stem_packed_store<MT, NT>(partial + (tid >> 5) * tile, acc);
        __syncthreads();
        auto block_sum = [&](int o) {
            int at = o / ROWS / (8 * NT) * KPARTS * tile + o / ROWS % (8 * NT) * LD + o % ROWS;
            float sum = 0;
#pragma unroll
            for (int p = 0; p < KPARTS; p++)
                sum += partial[at + p * tile];
            return sum;
        };
        for (int o = tid; o < outputs; o += threads) {
            if (m0 + o / ROWS % (8 * NT) >= m_end)
                continue;
            if (CLUSTER == 1)
                put(item, o, block_sum);
            else
                sums[o] = block_sum(o);
        }
        if (CLUSTER > 1) {
            __syncwarp();
            stem_cluster_sync();
            auto cluster_sum = [&](int o) {
                float v = 0;
#pragma unroll
                for (int r = 0; r < CLUSTER; r++)
                    v += stem_cluster_load(sums + o, r);
                return v;
            };
            for (int o = rank * threads + tid; o < outputs; o += CLUSTER * threads)
                if (m0 + o / ROWS % (8 * NT) < m_end)
                    put(item, o, cluster_sum);
            __syncwarp();
            stem_cluster_sync();
        }
    }
};

/* Grid: x = blocks (CLUSTER consecutive ones share an item), y = tiles of 8 * NT rows of x. Block: 32 * KPARTS * GROUPS
 * threads; warp = group * KPARTS + part. KEEP: kept_bytes of shared memory for each part hold its tokens. EARLY: w and
 * its scales are weights, read before the wait. whole: the tensor's scale, or NULL. Dynamic shared memory: rings, kept
 * tokens, tiles, sums. */
template <class F, int MT, int NT, int STAGES, int KPARTS, int GROUPS, int CLUSTER, bool KEEP, bool EARLY, bool PAIR,
          class Store>
__device__ __forceinline__ void stem_linear_packed(const __nv_bfloat16 *x, const void *w, const void *scale,
                                                   const void *whole, const Store &store, int m, int n, int k,
                                                   int kept_bytes)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    constexpr int warps = KPARTS * GROUPS, ring = STAGES * stem_packed_stage_bytes<F, MT>;
    constexpr int each = (PAIR ? 8 : 16) * MT * GROUPS;
    int warp = threadIdx.x >> 5, rank = CLUSTER > 1 ? blockIdx.x % CLUSTER : 0, columns = PAIR ? n / 2 : n;
    int m0 = blockIdx.y * 8 * NT, m_end = min(m, m0 + 8 * NT), part = rank * KPARTS + warp % KPARTS;
    float *partial = (float *)(stem_smem + warps * ring + (KEEP ? KPARTS * kept_bytes : 0));
    float *sums = partial + warps * 8 * NT * (16 * MT + 4);
    if (!EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
    stem_linear_packed_source<F, MT, NT, KPARTS, GROUPS, KEEP, EARLY, PAIR> source = {
        x, (const char *)w, (const char *)scale, stem_smem + warps * ring + warp % KPARTS * kept_bytes, m0, m_end, columns, k,
        warp / KPARTS, part, KPARTS * CLUSTER};
    stem_linear_packed_sink<Store, MT, NT, KPARTS, GROUPS, CLUSTER, PAIR> sink = {
        store, partial, sums, m0, m_end, columns, rank,
        (whole ? stem_constant((const float *)whole) : 1.0f) * F::UNIT};
    stem_packed_stream<F, MT, NT, STAGES>(stem_shared_address(stem_smem) + warp * ring, blockIdx.x / CLUSTER,
                                          gridDim.x / CLUSTER, (columns + each - 1) / each, part, KPARTS * CLUSTER, k,
                                          source, sink);
}

/* Any shape and alignment: a warp for each column and 8 rows of x. Grid: x over columns by 4, y over rows by 8. PAIR:
 * columns are those of the first half, each with its own of the second. whole: the tensor's scale, or NULL. */
template <class F, bool PAIR, class E, class Store>
__device__ __forceinline__ void stem_linear_packed_plain(const E *x, const void *w, const void *scale,
                                                         const void *whole, const Store &store, int m, int n, int k)
{
    int column = blockIdx.x * 4 + (threadIdx.x >> 5), m0 = blockIdx.y * 8, half = n / 2;
    stem_wait();
    stem_launch_dependents();
    for (int r = m0; r < m && r < m0 + 8 && column < (PAIR ? half : n); r++) {
        const E *row = x + (long long)r * k;
        float v = F::product(row, w, scale, column, column / 128, k), u = 0;
        if (PAIR)
            u = F::product(row, w, scale, column + half, (column + half) / 128, k);
        float unit = whole ? *(const float *)whole : 1.0f;
        if ((threadIdx.x & 31) == 0)
            store(r, column, v * unit, u * unit);
    }
}

#endif
