/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_heads: for each token and head the sum of the shares that attention_part left, and its product with w[h, n, k],
 * k being the sum's columns. The blocks of a cluster share out k, 64 columns each: a block adds up its columns, once for
 * all n, multiplies, and sends its products to the blocks that add them up. Sums and products are those of
 * attention_combine and heads_linear, in the same order.
 */
#ifndef STEM_ATTENTION_HEADS_CUH
#define STEM_ATTENTION_HEADS_CUH

enum { STEM_ATTENTION_HEADS_ROWS = 128 };

/* Dynamic shared memory: the weights of 8 warps, the tokens, the products that the cluster sends, the warps' sums, the
 * mailbox. */
template <int TOKENS>
constexpr int stem_attention_heads_smem = 8 * 2048 + 1024 + TOKENS *STEM_ATTENTION_HEADS_ROWS * 4 +
                                          (int)sizeof(stem_attention_sums<64>) + 16;

/* 16 rows of w, 64 columns from k on, as stem_stage_load lays them out. */
template <class E>
__device__ __forceinline__ void stem_attention_heads_load(unsigned stage, const E *w, long long wr, int row0, int n, int k)
{
    int lane = threadIdx.x & 31, r = lane >> 3, c = lane & 7;
#pragma unroll
    for (int i = 0; i < 4; i++)
        stem_copy16(stage + (r + 4 * i) * 128 + ((c ^ (((r + 4 * i) & 1) << 2)) << 4),
                    w + min(row0 + r + 4 * i, n - 1) * wr + k + c * 8, true);
    stem_copy_commit();
}

/* Grid: x = (head, CLUSTER), y = 128 columns of y. Block: 8 warps, a cluster of D / 64 blocks. TOKENS >= tokens, a power of
 * two up to 8; 8 / TOKENS warps add up a token's shares. EARLY: w is read before the wait, as `lens` is. */
template <class E, class O, int ROWS, int GROUPS, int D, int UNIT, bool SPARSE, int TOKENS, int BATCH, bool EARLY>
__device__ __forceinline__ void stem_attention_heads(const float *acc, const float *ml, const int *lens, const E *w, O *y,
                                                     int tokens, int heads, int most, int parts, int n, long long wh,
                                                     long long wr)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    constexpr int CLUSTER = D / 64, WARPS = 8 / TOKENS, SHARE = 128 / CLUSTER;
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, warp = threadIdx.x >> 5, rank = blockIdx.x % CLUSTER;
    int head = blockIdx.x / CLUSTER, token = min(warp / WARPS, tokens - 1), item = token * GROUPS + head / ROWS;
    int n0 = blockIdx.y * STEM_ATTENTION_HEADS_ROWS;
    unsigned stage = stem_shared_address(stem_smem) + warp * 2048, x = stem_shared_address(stem_smem) + 8 * 2048;
    float *products = (float *)(stem_smem + 8 * 2048 + 1024); /* [CLUSTER][TOKENS][SHARE] */
    stem_attention_sums<64> &sums = *(stem_attention_sums<64> *)(products + TOKENS * 128);
    unsigned mailbox = stem_shared_address(&sums + 1);
    if (CLUSTER > 1) {
        if (threadIdx.x == 0) {
            stem_mailbox_init(mailbox);
            stem_mailbox_expect(mailbox, CLUSTER * tokens * SHARE);
        }
        __syncwarp();
        stem_cluster_arrive();
    }
    if (EARLY)
        stem_attention_heads_load(stage, w + head * wh, wr, n0 + warp * 16, n, rank * 64);
    stem_attention_range<TOKENS == 1> of(lens, tokens, GROUPS, token, head / ROWS, most, UNIT, parts, SPARSE);
    long long at = (long long)item * ROWS + head % ROWS;
    stem_launch_dependents();
    stem_wait();
    if (!EARLY)
        stem_attention_heads_load(stage, w + head * wh, wr, n0 + warp * 16, n, rank * 64);
    stem_attention_sum<64, WARPS, BATCH> s;
    s.add(acc + at * D + rank * 64, ml + at * 2, (long long)ROWS * D, ROWS, of.first, of.end, warp % WARPS);
    sums.put(warp, s);
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < 8 * 64; i += 256) { /* tokens that are not there are zeros */
        int own = i >> 6, c = i & 63;
        float v = own < tokens ? sums.template get<WARPS>(own % TOKENS * WARPS, c) : 0.0f;
        ((E *)(stem_smem + 8 * 2048))[own * 64 + (((c >> 3) ^ ((own & 1) << 2)) << 3) + (c & 7)] = stem_round<E>::from(v);
    }
    stem_copy_wait<0>();
    __syncthreads();
    float c[4] = {};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        unsigned piece = g * 128 + (((half * 4 + t) ^ ((g & 1) << 2)) << 4);
        uint4 low = stem_shared16(stage + piece), high = stem_shared16(stage + 1024 + piece), b = stem_shared16(x + piece);
        stem_mma((const E *)nullptr, c, low.x, high.x, low.y, high.y, b.x, b.y);
        stem_mma((const E *)nullptr, c, low.z, high.z, low.w, high.w, b.z, b.w);
    }
    if (CLUSTER > 1)
        stem_cluster_wait(); /* all mailboxes are there */
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int own = 2 * t + (i & 1), row = warp * 16 + g + 8 * (i >> 1);
        float *place = products + (rank * TOKENS + own) * SHARE + row % SHARE;
        if (own < tokens && CLUSTER == 1)
            *place = c[i];
        else if (own < tokens)
            stem_mailbox_send(place, row / SHARE, c[i], mailbox);
    }
    if (CLUSTER == 1)
        __syncthreads();
    for (int o = threadIdx.x; o < tokens * SHARE; o += 256) {
        int own = o / SHARE, row = rank * SHARE + o % SHARE;
        float v = 0;
        if (CLUSTER > 1)
            stem_barrier_wait(mailbox, 0);
#pragma unroll
        for (int r = 0; r < CLUSTER; r++)
            v += products[(r * TOKENS + own) * SHARE + o % SHARE];
        if (n0 + row < n)
            y[((long long)own * heads + head) * n + n0 + row] = stem_round<O>::from(v);
    }
}

/* Any shape: a block of 256 threads for each (token, head). */
template <class E, class O, int ROWS, int GROUPS, int D, int UNIT, bool SPARSE>
__device__ __forceinline__ void stem_attention_heads_plain(const float *acc, const float *ml, const int *lens, const E *w,
                                                           O *y, int tokens, int heads, int most, int parts, int n,
                                                           long long wh, long long wr, long long wc)
{
    __shared__ float x[D];
    int token = blockIdx.x / heads, head = blockIdx.x % heads, item = token * GROUPS + head / ROWS;
    long long at = (long long)item * ROWS + head % ROWS;
    stem_attention_range<> of(lens, tokens, GROUPS, token, head / ROWS, most, UNIT, parts, SPARSE);
    stem_launch_dependents();
    stem_wait();
    for (int c = threadIdx.x; c < D; c += 256) {
        float top = STEM_NO_MAX, weight = 0, sum = 0;
        for (int b = of.first; b < of.end; b++) {
            const float *own = ml + (at + (long long)b * ROWS) * 2;
            float higher = own[1] != 0.0f ? fmaxf(top, own[0]) : top;
            float f = exp2f(top - higher), g = own[1] != 0.0f ? exp2f(own[0] - higher) : 0.0f;
            weight = weight * f + own[1] * g;
            sum = sum * f + acc[(at + (long long)b * ROWS) * D + c] * g;
            top = higher;
        }
        x[c] = stem_float(stem_round<E>::from(weight != 0.0f ? sum / weight : 0.0f));
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 256) {
        float sum = 0;
        for (int c = 0; c < D; c++)
            sum += x[c] * stem_float(w[head * wh + i * wr + c * wc]);
        y[((long long)token * heads + head) * n + i] = stem_round<O>::from(sum);
    }
}

#endif
