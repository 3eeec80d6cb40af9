/* SPDX-License-Identifier: Apache-2.0
 *
 * norm_query: q = norm_linear(x, norm, w), and y = mla_query of its first columns, in one launch with the bits of the two. A
 * cluster has the rows of w of one head, as many in each of its blocks, all of k: a block adds up its rows, rounds the sums, stores
 * them and sends them to the whole cluster; then each block absorbs 64 columns, and turns some of the last elements. Clusters behind
 * the heads' have the other rows of w. Everything that is a weight, the absorbed one too, is there before the wait.
 *
 * The order of the sums is norm_linear's where that shares out k over 8 warps and PARTS blocks: warp i has what the warps i of
 * these blocks would have, one after the other.
 */
#ifndef STEM_NORM_QUERY_CUH
#define STEM_NORM_QUERY_CUH

/* 64 values of k: MINE rows of w, those of ROWS tokens, norm. As stem_stage_load lays them out, with rows by eights. */
template <class E, int MINE, int ROWS> struct stem_query_stage {
    static constexpr int TOKENS = MINE * 128, NORM = TOKENS + ROWS * 128, BYTES = NORM + 128, TILES = (MINE + 15) / 16;


    static __device__ __forceinline__ void load(unsigned to, const E *w, int row0, int n, int k, int K)
    {
        int lane = threadIdx.x & 31, row = lane >> 3, column = lane & 7;
        bool inside = k + column * 8 < K;
#pragma unroll
        for (int i = 0; i < MINE / 4; i++)
            stem_copy16_once(to + row * 128 + ((column ^ ((row & 1) << 2)) << 4) + i * 512,
                             w + (long long)min(row0 + row + 4 * i, n - 1) * K + (inside ? k + column * 8 : 0), inside);
    }
    static __device__ __forceinline__ void ask(unsigned to, const E *x, int distance, int tokens, int k, int K)
    {
        int lane = threadIdx.x & 31, column = lane & 7;
        bool inside = k + column * 8 < K;
#pragma unroll
        for (int row = lane >> 3, i = 0; i < (ROWS + 3) / 4; i++, row += 4)
            if (row < tokens)
                stem_copy16(to + TOKENS + row * 128 + ((column ^ ((row & 1) << 2)) << 4),
                            x + (long long)row * distance + (inside ? k + column * 8 : 0), inside);
    }
    template <class Tokens>
    static __device__ __forceinline__ void multiply(unsigned stage, float (&acc)[TILES][4], Tokens &tokens)
    {
        int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, row = g % ROWS;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            unsigned at = stage + g * 128 + (((half * 4 + t) ^ ((g & 1) << 2)) << 4);
            uint4 a[2 * TILES];
#pragma unroll
            for (int i = 0; i < 2 * TILES; i++)
                a[i] = i < MINE / 8 ? stem_shared16(at + i * 1024) : uint4{0, 0, 0, 0};
            tokens.next(stage + NORM, half * 4 + t);
            uint4 b = tokens.take(stem_shared16(stage + TOKENS + row * 128 + (((half * 4 + t) ^ ((row & 1) << 2)) << 4)), 0);
#pragma unroll
            for (int m = 0; m < TILES; m++) {
                const uint4 &low = a[2 * m], &high = a[2 * m + 1];
                stem_mma((const E *)nullptr, acc[m], low.x, high.x, low.y, high.y, b.x, b.y);
                stem_mma((const E *)nullptr, acc[m], low.z, high.z, low.w, high.w, b.z, b.w);
            }
        }
    }
    /* A warp's sums, [ROWS][MINE + 1][8 warps]: of MINE rows, and the squares. */
    template <class Tokens>
    static __device__ __forceinline__ void leave(float *sums, const float (&acc)[TILES][4], const Tokens &tokens)
    {
        int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
        for (int i = 0; i < MINE / 8; i++)
#pragma unroll
            for (int c = 0; c < 2; c++)
                if (2 * t + c < ROWS)
                    sums[((2 * t + c) * (MINE + 1) + 8 * i + g) * 8] = acc[i / 2][2 * (i & 1) + c];
        tokens.template store<(MINE + 1) * 8, MINE * 8, ROWS>(sums);
    }
};

/* The sums of 8 warps, in order. */
__device__ __forceinline__ float stem_query_sum(const float *sums)
{
    float sum = 0;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const stem_vec<float, 4> v = stem_load<4>(sums + 4 * half);
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum += v.at[i];
    }
    return sum;
}

/* Dynamic shared memory: STAGES stages of 8 warps, their sums of MINE rows and squares in PARTS, and those of 64 columns, the query
 * of ROWS tokens, the mailbox. */
template <class E, int MINE, int CLUSTER, int ROWS, int STAGES, int PARTS>
constexpr int stem_norm_query_smem = 8 * STAGES * stem_query_stage<E, MINE, ROWS>::BYTES +
                                     ROWS *(PARTS *(MINE + 1) * 8 + 64 * 8 + MINE * CLUSTER) * 4 + 16;

/* Grid: clusters of CLUSTER blocks, a head's MINE * CLUSTER rows each; 256 threads. The first 128 elements of a head are
 * absorbed by up[h, 128, 64 * CLUSTER], rows `ur` and heads `uh` apart, the others turned. STAGES: as many as a warp has pieces of
 * 64 values of k. q[token] has n elements. */
template <class E, class P, int MINE, int CLUSTER, int ROWS, int STAGES, int PARTS, bool INTERLEAVED>
__device__ __forceinline__ void stem_norm_query(const E *x, int distance, const E *norm, const E *w, const E *up, const P *pos,
                                                E *q, E *y, const double *turns, float amplitude, int tokens, int heads, int n,
                                                int K, long long uh, long long ur, float eps)
{
    typedef stem_query_stage<E, MINE, ROWS> stage;
    constexpr int WIDE = MINE * CLUSTER, TURNED = WIDE - 128, LATENT = 64 * CLUSTER, PAIRS = TURNED / 2 / CLUSTER;
    constexpr int SENDERS = 8 * MINE, TURNERS = 256 - ROWS * PAIRS;
    static_assert(SENDERS <= 256 && PAIRS * CLUSTER * 2 == TURNED && ROWS * PAIRS <= 256, "a thread for each");
    STEM_DYNAMIC_SHARED(stem_smem);
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    int rank = blockIdx.x % CLUSTER, h = blockIdx.x / CLUSTER, row0 = h * WIDE + rank * MINE;
    unsigned ring = stem_shared_address(stem_smem) + warp * STAGES * stage::BYTES;
    float *sums = (float *)(stem_smem + 8 * STAGES * stage::BYTES); /* [PARTS][ROWS][MINE + 1][8] */
    float *partial = sums + PARTS * ROWS * (MINE + 1) * 8;          /* [ROWS][64][8] */
    float *asked = partial + ROWS * 64 * 8;                         /* [ROWS][WIDE] */
    unsigned mailbox = stem_shared_address(asked + ROWS * WIDE);
    stem_tokens_normalised<E, 1, ROWS> what = {norm, 1.0f / (float)K, eps, {}, {}};
    bool asks = h < heads;
    if (asks) {
        if (threadIdx.x == 0) {
            stem_mailbox_init(mailbox);
            stem_mailbox_expect(mailbox, tokens * WIDE);
        }
        __syncwarp();
        stem_cluster_arrive();
    }
#pragma unroll 1
    for (int i = 0, k = warp * STEM_CHUNK; i < STAGES; i++, k += 8 * STEM_CHUNK) {
        stage::load(ring + i * stage::BYTES, w, row0, n, k, K);
        what.load(ring + i * stage::BYTES + stage::NORM, k, K);
    }
    uint4 r[4] = {};
    if (asks)
        stem_heads_load(r, up + h * uh + warp * 16 * ur + rank * 64, ur, true);
    const uint4 sorted[4] = {stem_heads_fragment(r, 0), stem_heads_fragment(r, 1), stem_heads_fragment(r, 2), stem_heads_fragment(r, 3)};
    int turner = (int)threadIdx.x - TURNERS, token = turner / PAIRS, pair = rank * PAIRS + turner % PAIRS;
    float sine = 0, cosine = 0;
    if (asks && turner >= 0 && token < tokens)
        stem_rope_angle(turns[pair], pos[token], amplitude, sine, cosine);
    stem_wait();
    stem_launch_dependents(); /* the successors' weights, asked for ahead, would delay what follows */
#pragma unroll 1
    for (int i = 0, k = warp * STEM_CHUNK; i < STAGES; i++, k += 8 * STEM_CHUNK)
        stage::ask(ring + i * stage::BYTES, x, distance, tokens, k, K);
    stem_copy_commit();
    stem_copy_wait<0>();
    __syncwarp(); /* all lanes' copies have landed */
#pragma unroll 1
    for (int part = 0; part < PARTS; part++) {
        float acc[stage::TILES][4] = {};
        what.begin();
#pragma unroll 1
        for (int i = part; i < STAGES; i += PARTS)
            stage::multiply(ring + i * stage::BYTES, acc, what);
        stage::leave(sums + part * ROWS * (MINE + 1) * 8 + warp, acc, what);
    }
    __syncthreads();
    if (asks)
        stem_cluster_wait(); /* all mailboxes are there */
    if ((int)threadIdx.x < SENDERS) {
        int row = threadIdx.x % MINE, share = threadIdx.x / MINE, own = share % ROWS;
        const float *from = sums + own * (MINE + 1) * 8;
        if (own < tokens) {
            float v = 0, squares = 0;
#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                v += stem_query_sum(from + part * ROWS * (MINE + 1) * 8 + row * 8);
                squares += stem_query_sum(from + part * ROWS * (MINE + 1) * 8 + MINE * 8);
            }
            E rounded = stem_round<E>::from(what.finish(v, squares));
            if (asks) {
#pragma unroll
                for (int i = 0; i < ROWS * CLUSTER / 8; i++)
                    stem_mailbox_send(asked + own * WIDE + rank * MINE + row, share / ROWS * (ROWS * CLUSTER / 8) + i,
                                      stem_float(rounded), mailbox);
            }
            if (share < ROWS && row0 + row < n)
                q[(long long)own * n + row0 + row] = rounded;
        }
    }
    if (!asks)
        return;
    stem_barrier_wait(mailbox, 0);
    float acc[4][1][4] = {};
    stem_vec<E, 4> mine = {};
    if (g < tokens) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            mine.at[i] = stem_round<E>::from(asked[g * WIDE + warp * 16 + 4 * t + i]);
    }
    const uint2 b[1] = {reinterpret_cast<const uint2 &>(mine)};
#pragma unroll
    for (int m = 0; m < 4; m++)
        stem_mma((const E *)nullptr, acc[m][0], sorted[m].x, sorted[m].y, sorted[m].z, sorted[m].w, b[0].x, b[0].y);
#pragma unroll
    for (int m = 0; m < 4; m++)
#pragma unroll
        for (int c = 0; c < 4; c++)
            if (2 * t + (c & 1) < ROWS)
                partial[((2 * t + (c & 1)) * 64 + 8 * g + 2 * m + (c >> 1)) * 8 + warp] = acc[m][0][c];
    if (turner >= 0 && token < tokens) {
        int low = INTERLEAVED ? 2 * pair : pair, high = low + (INTERLEAVED ? 1 : TURNED / 2);
        float u = asked[token * WIDE + 128 + low], v = asked[token * WIDE + 128 + high];
        E *to = y + ((long long)token * heads + h) * (LATENT + TURNED) + LATENT;
        stem_rope_turn(u, v, sine, cosine);
        to[low] = stem_round<E>::from(u);
        to[high] = stem_round<E>::from(v);
    }
    __syncthreads();
#pragma unroll 1
    for (int o = threadIdx.x; o < 64 * tokens; o += 256)
        y[((long long)(o >> 6) * heads + h) * (LATENT + TURNED) + rank * 64 + (o & 63)] =
            stem_round<E>::from(stem_query_sum(partial + o * 8));
}

/* Any shape, strides and types: a block of 256 threads for each token and `row` rows of w, a head's or behind these. Elements of x
 * are xk apart, those of a row of up uc. Dynamic shared memory: `row` floats. */
template <class E, class N, class P, int TURNED, bool INTERLEAVED>
__device__ __forceinline__ void stem_norm_query_plain(const E *x, const N *norm, const E *w, const E *up, const P *pos, E *q, E *y,
                                                      const double *turns, float amplitude, int row, int latent, int heads, int n,
                                                      int K, long long xt, long long xk, long long uh, long long ur, long long uc,
                                                      float eps)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    float *asked = (float *)stem_smem;
    int groups = (n + row - 1) / row, token = blockIdx.x / groups, h = blockIdx.x % groups, lane = threadIdx.x & 31;
    int absorbed = row - TURNED;
    x += token * xt;
    stem_wait();
    stem_launch_dependents();
    for (int i = threadIdx.x >> 5; i < row && h * row + i < n; i += 8) {
        float sum = 0, squares = 0;
        for (int c = lane; c < K; c += 32) {
            float raw = stem_float(x[c * xk]);
            squares += raw * raw;
            sum += stem_float(stem_round<E>::from(raw * stem_float(norm[c]))) * stem_float(w[(long long)(h * row + i) * K + c]);
        }
        sum = stem_warp_sum(sum) * rsqrtf(stem_warp_sum(squares) / (float)K + eps);
        if (lane == 0) {
            E v = stem_round<E>::from(sum);
            asked[i] = stem_float(v);
            q[(long long)token * n + h * row + i] = v;
        }
    }
    if (h >= heads)
        return;
    __syncthreads();
    y += ((long long)token * heads + h) * (latent + TURNED);
    for (int c = threadIdx.x; c < latent; c += 256) {
        float sum = 0;
        for (int i = 0; i < absorbed; i++)
            sum += asked[i] * stem_float(up[h * uh + i * ur + c * uc]);
        y[c] = stem_round<E>::from(sum);
    }
    for (int pair = threadIdx.x; pair < TURNED / 2; pair += 256) {
        int low = INTERLEAVED ? 2 * pair : pair, high = low + (INTERLEAVED ? 1 : TURNED / 2);
        float sine, cosine, u = asked[absorbed + low], v = asked[absorbed + high];
        stem_rope_angle(turns[pair], pos[token], amplitude, sine, cosine);
        stem_rope_turn(u, v, sine, cosine);
        y[latent + low] = stem_round<E>::from(u);
        y[latent + high] = stem_round<E>::from(v);
    }
}

#endif
