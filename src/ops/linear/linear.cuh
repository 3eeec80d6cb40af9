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

/* The two halves of a meeting of the cluster, which orders mailboxes and nothing else: what lies between them hides it. */
__device__ __forceinline__ void stem_cluster_arrive(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

__device__ __forceinline__ void stem_cluster_wait(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#endif
}

/* An mbarrier of this block for floats that the cluster sends it; before the first stem_cluster_arrive(). */
__device__ __forceinline__ void stem_mailbox_init(unsigned barrier)
{
#if __CUDA_ARCH__ >= 900
    stem_barrier_init(barrier, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/* Its next phase completes when `floats` more have come. */
__device__ __forceinline__ void stem_mailbox_expect(unsigned barrier, int floats)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(barrier),
                 "r"(floats * 4)
                 : "memory");
#endif
}

/* v to the place of `p` in block `rank`, whose mbarrier, at the place of this block's, counts it. */
__device__ __forceinline__ void stem_mailbox_send(const float *p, int rank, float v, unsigned barrier)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .b32 there, counts;\nmapa.shared::cluster.u32 there, %0, %2;\n"
                 "mapa.shared::cluster.u32 counts, %1, %2;\n"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [there], %3, [counts];\n}" ::"r"(
                     stem_shared_address(p)),
                 "r"(barrier), "r"(rank), "f"(v)
                 : "memory");
#endif
}

/* The same of four, at a multiple of 16 bytes. */
__device__ __forceinline__ void stem_mailbox_send4(const float *p, int rank, const float (&v)[4], unsigned barrier)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .b32 there, counts;\nmapa.shared::cluster.u32 there, %0, %2;\n"
                 "mapa.shared::cluster.u32 counts, %1, %2;\n"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], {%3, %4, %5, %6}, [counts];\n}" ::"r"(
                     stem_shared_address(p)),
                 "r"(barrier), "r"(rank), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3])
                 : "memory");
#endif
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

/* Adds the partial sums of an item and stores 16 * GROUPS columns of y, half as many with PAIR. A *slot* is a token of a
 * group of warps. The blocks of a cluster share out the slots: each is sent the others' sums of its own, as soon as they
 * have them, adds them up in the order of the blocks, and stores. No block waits for anything but what it is sent. */
template <class Store, class Tokens, int NT, int KPARTS, int GROUPS, int CLUSTER, bool PAIR> struct stem_linear_sink {
    static constexpr int SLOTS = GROUPS * 8 * NT, OWN = SLOTS / CLUSTER, LD = 16 + Tokens::sums;
    static constexpr int THREADS = 32 * KPARTS * GROUPS;
    const Store &store;
    const Tokens &tokens;
    float *partial, *sums; /* [GROUPS][KPARTS] tiles; [CLUSTER][OWN][LD] that were sent: 16 rows, then the token's own */
    unsigned mailbox;
    int m0, m_end, n, rank, first, step, n_items;
    mutable int round;

    /* Before the blocks of the cluster may meet. */
    __device__ __forceinline__ void begin(void)
    {
        round = 0;
        if (CLUSTER == 1)
            return;
        if (threadIdx.x == 0) {
            stem_mailbox_init(mailbox);
            expect();
        }
        __syncwarp();
        stem_cluster_arrive();
    }
    __device__ __forceinline__ bool there(int slot) const
    {
        return m0 + slot % (8 * NT) < m_end;
    }
    __device__ __forceinline__ void expect(void) const
    {
        int slots = 0;
#pragma unroll 1
        for (int i = 0; i < OWN; i++)
            slots += there(rank * OWN + i);
        if (slots > 0)
            stem_mailbox_expect(mailbox, slots * LD * CLUSTER);
    }
    __device__ __forceinline__ float tile_sum(int slot, int row) const
    {
        return stem_tile_sum<NT>(partial + slot / (8 * NT) * KPARTS * 8 * NT * STEM_TILE_LD, KPARTS, slot % (8 * NT), row);
    }
    /* `sum(row)` is the sum of a row of the slot; with PAIR, row of the first 8 stores for both. */
    template <class Sum> __device__ __forceinline__ void put(int item, int slot, int row, const Sum &sum) const
    {
        int column = (item * GROUPS + slot / (8 * NT)) * (PAIR ? 8 : 16) + row;
        if (column < (PAIR ? n / 2 : n) && (!PAIR || row < 8)) {
            float own = Tokens::sums ? sum(16) : 0.0f;
            store(m0 + slot % (8 * NT), column, tokens.finish(sum(row), own),
                  PAIR ? tokens.finish(sum(row + 8), own) : 0.0f);
        }
    }
    __device__ __forceinline__ void send(int slot, int row) const
    {
        stem_mailbox_send(sums + (rank * OWN + slot % OWN) * LD + row, slot / OWN, tile_sum(slot, row), mailbox);
    }
    /* do(o) for o below N, by all threads. Mostly there are no more than these; a loop would be unrolled. */
    template <int N, class Do> static __device__ __forceinline__ void share_out(const Do &act)
    {
        if (N <= THREADS) {
            if ((int)threadIdx.x < N)
                act((int)threadIdx.x);
        } else {
#pragma unroll 1
            for (int o = threadIdx.x; o < N; o += THREADS)
                act(o);
        }
    }
    __device__ __forceinline__ void operator()(int item, const float (&acc)[1][NT][4]) const
    {
        float *own = partial + (threadIdx.x >> 5) * 8 * NT * STEM_TILE_LD;
        if (item != first)
            __syncthreads();
        stem_tile_store<NT>(own, acc);
        tokens.store(own);
        __syncthreads();
        if (CLUSTER == 1) {
            share_out<16 * SLOTS>([&](int o) {
                if (there(o >> 4))
                    put(item, o >> 4, o & 15, [&](int row) { return tile_sum(o >> 4, row); });
            });
            return;
        }
        if (item == first)
            stem_cluster_wait(); /* all mailboxes are there */
        share_out<LD * SLOTS>([&](int o) {
            if (there(o / LD))
                send(o / LD, o % LD);
        });
        share_out<16 * OWN>([&](int o) {
            if (!there(rank * OWN + (o >> 4)))
                return;
            stem_barrier_wait(mailbox, round & 1);
            put(item, rank * OWN + (o >> 4), o & 15, [&](int row) {
                float v = 0;
#pragma unroll
                for (int r = 0; r < CLUSTER; r++)
                    v += sums[(r * OWN + (o >> 4)) * LD + row];
                return v;
            });
        });
        round++;
        if (item + step < n_items) { /* what was sent has been read; the next item's has a place */
            __syncthreads();
            if (threadIdx.x == 0)
                expect();
            __syncwarp();
            stem_cluster_sync();
        }
    }
};

/* Grid: x = blocks (CLUSTER consecutive ones share an item of 16 * GROUPS rows of w), y = tiles of 8 * NT rows of x.
 * Block: 32 * KPARTS * GROUPS threads; warp = group * KPARTS + part. EARLY: w is a weight, read before the wait.
 * ROWS: room for so many rows of x in a stage, if there are never more; else 8. WHOLE: a cluster for each item, and the
 * ring holds a warp's share. */
template <class E, int NT, int STAGES, int KPARTS, int GROUPS, int CLUSTER, bool EARLY, bool PAIR, bool WHOLE, class Store,
          class Tokens>
__device__ __forceinline__ void stem_linear_of(const E *x, int distance, const E *w, const Store &store, int m, int n,
                                               int k, int blocks, Tokens &tokens)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    constexpr int warps = KPARTS * GROUPS, ring = STAGES * (stem_stage_bytes<1, NT, Tokens::rows> + Tokens::bytes);
    constexpr int each = (PAIR ? 8 : 16) * GROUPS;
    int warp = threadIdx.x >> 5, rank = CLUSTER > 1 ? blockIdx.x % CLUSTER : 0;
    int m0 = blockIdx.y * 8 * NT, m_end = min(m, m0 + 8 * NT), columns = PAIR ? n / 2 : n;
    int first = blockIdx.x / CLUSTER, step = blocks / CLUSTER, items = (columns + each - 1) / each;
    float *partial = (float *)(stem_smem + warps * ring), *sums = partial + warps * 8 * NT * STEM_TILE_LD;
    typedef stem_linear_sink<Store, Tokens, NT, KPARTS, GROUPS, CLUSTER, PAIR> sink_of;
    unsigned mailbox = stem_shared_address(sums + sink_of::SLOTS * sink_of::LD);
    stem_linear_source<E, NT, PAIR> source = {x, w, m0, m_end, n, k, warp / KPARTS, GROUPS, distance};
    sink_of sink = {store, tokens, partial, sums, mailbox, m0, m_end, n, rank, first, step, items, 0};
    sink.begin();
    if (!EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
    unsigned own = stem_shared_address(stem_smem) + warp * ring;
    int part = rank * KPARTS + warp % KPARTS;
    if (WHOLE)
        stem_stream_whole<E, 1, NT, EARLY>(own, first, part, KPARTS * CLUSTER, k, source, sink, tokens);
    else
        stem_stream_of<E, 1, NT, STAGES, EARLY>(own, first, step, items, part, KPARTS * CLUSTER, k, source, sink, tokens);
}

template <class E, int NT, int STAGES, int KPARTS, int GROUPS, int CLUSTER, bool EARLY, bool PAIR, int ROWS = 8,
          bool WHOLE = false, class Store>
__device__ __forceinline__ void stem_linear_to(const E *x, const E *w, const Store &store, int m, int n, int k)
{
    stem_tokens_plain<ROWS> tokens;
    stem_linear_of<E, NT, STAGES, KPARTS, GROUPS, CLUSTER, EARLY, PAIR, WHOLE>(x, k, w, store, m, n, k, (int)gridDim.x,
                                                                               tokens);
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
