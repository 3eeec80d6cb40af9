/* SPDX-License-Identifier: Apache-2.0
 *
 * linear in f8e4m3 by the products of warpgroups (wgmma.cuh): codes of weights and of tokens go from memory to shared memory
 * and from there to the tensor cores, through no registers. 64 rows of w are a tile, and a cluster has one; its blocks, and in
 * each of them its warpgroups, share out k in runs of chunks of 128. A warpgroup has a ring of stages of its own, whose weights are asked
 * for before the wait, and adds up products of a chunk times the scales of both, which are the same for all of a chunk.
 * The warpgroups' sums meet in their rings, which nobody needs any more, those of the cluster's blocks in mailboxes (linear.cuh): each block is
 * sent a part of the results. Sums are added in the order of k.
 *
 * Preconditions: k a multiple of 16, rows of w and x 16-byte aligned. Tokens that are not there leave columns of
 * the product that nobody reads.
 */
#ifndef STEM_LINEAR_WIDE_CUH
#define STEM_LINEAR_WIDE_CUH

template <int NT> constexpr int stem_wide_stage_bytes = 8192 + 1024 * NT;
/* The scales of a stage: of each 16 rows, then of each token. */
template <int NT> constexpr int stem_wide_scales = 4 + 8 * NT;
#define STEM_WIDE_LD 68 /* floats of a token's sums of a tile */

#ifdef STEM_WGMMA

/* The weights of a warpgroup's ring: where its thread copies from. */
template <int NT, int STAGES, bool PAIR> struct stem_wide_weights {
    unsigned stages, scales; /* shared memory */
    const char *row[4];
    const float *scale; /* that this thread copies, of 16 rows */
    int k;

    __device__ __forceinline__ stem_wide_weights(unsigned at, const void *w, const void *scale_of_w, int row0, int n, int size)
        : stages(at), scales(at + STAGES * stem_wide_stage_bytes<NT>), k(size)
    {
        int i = threadIdx.x & 127;
        auto place = [&](int r) { /* of w; rows past the end are any others */
            return PAIR ? min(row0 + r % 32, n / 2 - 1) + r / 32 * (n / 2) : min(row0 + r, n - 1);
        };
#pragma unroll
        for (int j = 0; j < 4; j++)
            row[j] = (const char *)w + (long long)place((i >> 3) + 16 * j) * k + (i & 7) * 16;
        scale = (const float *)scale_of_w + (long long)(place(i % 4 * 16) / 128) * ((k + 127) / 128);
    }
    __device__ __forceinline__ void ask(int slot, int chunk) const
    {
        int i = threadIdx.x & 127;
        bool inside = chunk * 128 + (i & 7) * 16 < k;
        unsigned to = stages + slot * stem_wide_stage_bytes<NT> + stem_wgmma_place(i >> 3, i & 7);
#pragma unroll
        for (int j = 0; j < 4; j++)
            stem_copy16(to + 2048 * j, row[j] + (inside ? chunk * 128 : 0), inside);
        if (i < 4)
            stem_copy4(scales + (slot * stem_wide_scales<NT> + i) * 4, scale + chunk);
    }
};

/* 128 columns of a token, which a quad has, in codes to its place in a stage's tokens, and their scale. */
__device__ __forceinline__ void stem_wide_put(char *to, float *down, int token, bool there, const uint4 (&raw)[4])
{
    int t = threadIdx.x & 3;
    uint4 piece[2];
    float scale = stem_f8::quantise(raw, piece);
    if (there) {
        *(uint4 *)(to + stem_wgmma_place(token, t)) = piece[0];
        *(uint4 *)(to + stem_wgmma_place(token, 4 + t)) = piece[1];
        if (t == 0)
            down[token] = scale;
    }
}

/* The tokens of a warpgroup's ring: asked for, and put into their stage when they are there. */
template <class Rows, int NT, int STAGES> struct stem_wide_tokens { /* in bf16: quantised on the way */
    static constexpr int TURNS = (NT + 3) / 4;                /* a quad takes 128 columns of a token in each */
    static constexpr int AHEAD = TURNS == 1 ? STAGES - 1 : 1; /* stages that are asked for at once */
    char *stages;
    const __nv_bfloat16 *x;
    int k, count;
    uint4 raw[AHEAD][TURNS][4];

    __device__ __forceinline__ stem_wide_tokens(char *at, const __nv_bfloat16 *rows, int size, int tokens)
        : stages(at), x(rows), k(size), count(tokens)
    {
    }
    /* As the ahead-th of those that are asked for. */
    __device__ __forceinline__ void ask(int, int chunk, int ahead = 0)
    {
#pragma unroll
        for (int i = 0; i < TURNS; i++)
            stem_f8::load(x + (long long)min((int)(threadIdx.x >> 2 & 31) + 32 * i, count - 1) * k, chunk * 128, k, raw[ahead][i]);
    }
    __device__ __forceinline__ void put(int slot, int ahead = 0) const
    {
        char *to = stages + slot * stem_wide_stage_bytes<NT> + 8192;
        float *downs = (float *)(stages + STAGES * stem_wide_stage_bytes<NT>) + slot * stem_wide_scales<NT> + 4;
#pragma unroll
        for (int i = 0; i < TURNS; i++) {
            int token = (threadIdx.x >> 2 & 31) + 32 * i;
            stem_wide_put(to, downs, token, token < count, raw[ahead][i]);
        }
    }
};

template <int NT, int STAGES> struct stem_wide_tokens<stem_f8_rows, NT, STAGES> { /* codes */
    static constexpr int AHEAD = 1;
    unsigned stages;
    const char *row;
    const float *down;
    int k, count;

    __device__ __forceinline__ stem_wide_tokens(char *at, const stem_f8_rows &x, int size, int tokens)
        : stages(stem_shared_address(at)), k(size), count(tokens)
    {
        int i = threadIdx.x & 127;
        row = (const char *)x.code + (long long)(i >> 3) * k + (i & 7) * 16;
        down = x.down + (long long)(i - 64) * ((k + 127) / 128);
    }
    __device__ __forceinline__ void ask(int slot, int chunk, int = 0) const
    {
        int i = threadIdx.x & 127;
        bool inside = chunk * 128 + (i & 7) * 16 < k;
        unsigned to = stages + slot * stem_wide_stage_bytes<NT> + 8192 + stem_wgmma_place(i >> 3, i & 7);
#pragma unroll
        for (int j = 0; j < (NT + 1) / 2; j++)
            if ((i >> 3) + 16 * j < count)
                stem_copy16(to + 2048 * j, row + (long long)(16 * j) * k + (inside ? chunk * 128 : 0), inside);
        if (i >= 64 && i - 64 < count)
            stem_copy4(stages + STAGES * stem_wide_stage_bytes<NT> + (slot * stem_wide_scales<NT> + 4 + i - 64) * 4, down + chunk);
    }
    __device__ __forceinline__ void put(int, int = 0) const {}
};

/* acc += the products of a stage, times the scales of rows lane / 4 and 8 more of the warp's 16, and of the tokens, which are at
 * `downs`. */
template <int NT>
__device__ __forceinline__ void stem_wide_multiply(unsigned stage, unsigned low, unsigned high, unsigned downs, float (&acc)[4 * NT])
{
    float part[4 * NT];
    stem_wgmma_f8_128(part, stem_wgmma_at(stage, 16), stem_wgmma_at(stage + 8192, 16));
    int t = threadIdx.x & 3;
    float scale[2] = {__uint_as_float(stem_shared4(low)), low == high ? 0.0f : __uint_as_float(stem_shared4(high))};
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float down = __uint_as_float(stem_shared4(downs + 4 * (8 * j + 2 * t + h)));
            acc[4 * j + h] += part[4 * j + h] * (down * scale[0]);
            acc[4 * j + h + 2] += part[4 * j + h + 2] * (down * scale[low == high ? 0 : 1]);
        }
}

template <int NT> __device__ __forceinline__ void stem_wide_leave(float *to, int count, const float (&acc)[4 * NT])
{
    int row = (threadIdx.x >> 5 & 3) * 16 + ((threadIdx.x & 31) >> 2), t = threadIdx.x & 3;
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
        for (int c = 0; c < 4; c++)
            if (8 * j + 2 * t + (c & 1) < count)
                to[(8 * j + 2 * t + (c & 1)) * STEM_WIDE_LD + row + 8 * (c >> 1)] = acc[4 * j + c];
}

/* The results of a tile: ROWS of each token, with PAIR 32, which are two sums each. A block of the cluster stores `each` of them, a
 * multiple of 4: that many are sent at once. */
template <class Store, int GROUPS, int CLUSTER, bool PAIR> struct stem_wide_sink {
    static constexpr int ROWS = PAIR ? 32 : 64, SUMS = PAIR ? 2 : 1, THREADS = 128 * GROUPS;
    const Store &store;
    const char *slots; /* a warpgroup's sums are at its ring, `ring` bytes apart */
    float *sent;       /* [block of the cluster][SUMS][each] */
    unsigned mailbox;
    int ring, row0, columns, m0, count, rank, each;

    static __device__ __forceinline__ int share(int tokens)
    {
        return (tokens * (ROWS / 4) + CLUSTER - 1) / CLUSTER * 4;
    }
    /* How many are this block's. */
    __device__ __forceinline__ int own() const
    {
        return max(min(each, count * ROWS - rank * each), 0);
    }
    /* Before the blocks of the cluster may meet. */
    __device__ __forceinline__ void begin() const
    {
        if (CLUSTER == 1)
            return;
        if (threadIdx.x == 0) {
            stem_mailbox_init(mailbox);
            if (own() > 0)
                stem_mailbox_expect(mailbox, own() * SUMS * CLUSTER);
        }
        __syncwarp();
        stem_cluster_arrive();
    }
    /* N rows of a token. */
    template <int N> __device__ __forceinline__ void sum(int token, int row, float (&v)[N]) const
    {
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = 0;
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            const float *from = (const float *)(slots + g * ring) + token * STEM_WIDE_LD + row;
            if constexpr (N == 4) {
                uint4 four = *(const uint4 *)from;
#pragma unroll
                for (int i = 0; i < 4; i++)
                    v[i] += __uint_as_float(stem_word(four, i));
            } else {
                v[0] += from[0];
            }
        }
    }
    __device__ __forceinline__ void put(int o, float v, float u) const
    {
        int column = row0 + o % ROWS;
        if (column < columns)
            store(m0 + o / ROWS, column, v, u);
    }
    /* When the sums of all warpgroups are there. */
    __device__ __forceinline__ void end() const
    {
        if (CLUSTER == 1) {
#pragma unroll 1
            for (int o = threadIdx.x; o < count * ROWS; o += THREADS) {
                float v[SUMS][1];
#pragma unroll
                for (int h = 0; h < SUMS; h++)
                    sum(o / ROWS, o % ROWS + h * ROWS, v[h]);
                put(o, v[0][0], PAIR ? v[SUMS - 1][0] : 0.0f);
            }
            return;
        }
        stem_cluster_wait(); /* all mailboxes are there */
#pragma unroll 1
        for (int o = 4 * threadIdx.x; o < count * ROWS; o += 4 * THREADS) {
            int to = o / each, at = rank * SUMS * each + o - to * each;
#pragma unroll
            for (int h = 0; h < SUMS; h++) {
                float v[4];
                sum(o / ROWS, o % ROWS + h * ROWS, v);
                stem_mailbox_send4(sent + at + h * each, to, v, mailbox);
            }
        }
#pragma unroll 1
        for (int o = threadIdx.x; o < own(); o += THREADS) {
            float v[2] = {};
            stem_barrier_wait(mailbox, 0);
#pragma unroll
            for (int r = 0; r < CLUSTER; r++)
#pragma unroll
                for (int h = 0; h < SUMS; h++)
                    v[h] += sent[(r * SUMS + h) * each + o];
            put(rank * each + o, v[0], v[1]);
        }
    }
};

/* Grid: x = tiles of 64 rows of w (PAIR: 32 and the same of its second half) times CLUSTER, y = tiles of 8 * NT rows of x. Block: GROUPS
 * warpgroups. EARLY: w and its scales are weights, read before the wait. Dynamic shared memory: up to 1024 bytes to align it, a
 * ring with its scales for each warpgroup, and for a cluster the sums that a block is sent and the mailbox's barrier. */
template <int NT, int STAGES, int GROUPS, int CLUSTER, bool EARLY, bool PAIR, class Rows, class Store>
__device__ __forceinline__ void stem_linear_wide(const Rows &x, const void *w, const void *scale, const Store &store, int m, int n,
                                                 int k)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    constexpr int stage = stem_wide_stage_bytes<NT>;
    constexpr int ring = (STAGES * (stage + 4 * stem_wide_scales<NT>) + 1023) / 1024 * 1024;
    typedef stem_wide_sink<Store, GROUPS, CLUSTER, PAIR> Sink;
    char *smem = stem_smem + ((1024 - (stem_shared_address(stem_smem) & 1023)) & 1023);
    int group = threadIdx.x >> 7, rank = CLUSTER > 1 ? blockIdx.x % CLUSTER : 0, row0 = blockIdx.x / CLUSTER * Sink::ROWS;
    int m0 = blockIdx.y * 8 * NT, count = min(m - m0, 8 * NT), chunks = (k + 127) / 128;
    int each = Sink::share(count);
    float *sent = (float *)(smem + GROUPS * ring);
    char *own = smem + group * ring;
    Sink sink = {store, smem, sent, stem_shared_address(sent + each * Sink::SUMS * CLUSTER), ring, row0, PAIR ? n / 2 : n, m0, count, rank, each};
    sink.begin();
    int part = rank * GROUPS + group, first = chunks * part / (CLUSTER * GROUPS), last = chunks * (part + 1) / (CLUSTER * GROUPS);
    stem_wide_weights<NT, STAGES, PAIR> weights(stem_shared_address(own), w, scale, row0, n, k);
    stem_wide_tokens<Rows, NT, STAGES> tokens(own, stem_rows_from(x, m0, k), k, count);
    if (!EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
        if (first + i < last)
            weights.ask(i, first + i);
        stem_copy_commit();
    }
    if (EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
    constexpr int ahead = decltype(tokens)::AHEAD;
#pragma unroll
    for (int i0 = 0; i0 < STAGES - 1; i0 += ahead) {
#pragma unroll
        for (int i = 0; i < ahead; i++)
            if (first + i0 + i < last)
                tokens.ask(i0 + i, first + i0 + i, i);
#pragma unroll
        for (int i = 0; i < ahead; i++) {
            if (first + i0 + i < last)
                tokens.put(i0 + i, i);
            stem_copy_commit();
        }
    }
    float acc[4 * NT] = {};
    int slot = 0;
#pragma unroll 1
    for (int chunk = first; chunk < last; chunk++) {
        stem_copy_wait<STAGES - 2>();
        stem_wgmma_written();
        __syncwarp();
        stem_warpgroup_sync(group); /* all that this stage holds has come, and the one that is filled now has been read */
        int to = slot == 0 ? STAGES - 1 : slot - 1;
        bool more = chunk + STAGES - 1 < last;
        if (more) {
            weights.ask(to, chunk + STAGES - 1);
            tokens.ask(to, chunk + STAGES - 1);
        }
        stem_copy_commit();
        unsigned scales = weights.scales + slot * 4 * stem_wide_scales<NT>, of_rows = scales + 4 * (threadIdx.x >> 5 & 3);
        stem_wide_multiply<NT>(weights.stages + slot * stage, of_rows, of_rows, scales + 16, acc);
        if (more)
            tokens.put(to);
        slot = slot + 1 == STAGES ? 0 : slot + 1;
    }
    __syncwarp();
    stem_warpgroup_sync(group); /* before sums take the place of what is multiplied */
    stem_wide_leave<NT>((float *)own, count, acc);
    __syncthreads();
    sink.end();
}

#endif /* STEM_WGMMA */

#endif
