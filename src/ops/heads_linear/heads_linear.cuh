/* SPDX-License-Identifier: Apache-2.0
 *
 * heads_linear: for each head h, y[t, h, n] = sum over k of x[t, h, k] * w[h, n, k] (rows), or of w[h, k, n]
 * (transposed). Strides in elements: xt, xh of x; wh of w's heads, wr of its rows; last dims are dense.
 */
#ifndef STEM_HEADS_LINEAR_CUH
#define STEM_HEADS_LINEAR_CUH

/* Items are (head, 16 columns); the loop is stream.cuh's. */
template <class E, int NT> struct stem_heads_source {
    const E *x, *w;
    int m0, m_end, n, columns; /* columns: tiles of 16 in a head */
    long long xt, xh, wh, wr;
    __device__ __forceinline__ void rows(int item, stem_rows<E, 1, NT> &r) const
    {
        int lane = threadIdx.x & 31, row = lane >> 3, column = (lane & 7) * 8;
        int h = item / columns, n0 = (item - h * columns) * 16;
#pragma unroll
        for (int i = 0; i < 4; i++)
            r.weight[i] = w + h * wh + min(n0 + row + 4 * i, n - 1) * wr + column;
#pragma unroll
        for (int i = 0; i < 2 * NT; i++)
            r.token[i] = m0 + row + 4 * i < m_end ? x + (m0 + row + 4 * i) * xt + h * xh + column : nullptr;
    }
    __device__ __forceinline__ int tiles(int) const
    {
        return (m_end - m0 + 7) / 8;
    }
};

template <class O, int NT, int KPARTS> struct stem_heads_sink {
    O *y;
    float *partial; /* [KPARTS] tiles */
    int m0, m_end, heads, n, columns;
    __device__ __forceinline__ void operator()(int item, const float (&acc)[1][NT][4]) const
    {
        int tid = threadIdx.x, h = item / columns, n0 = (item - h * columns) * 16;
        __syncthreads();
        stem_tile_store<NT>(partial + (tid >> 5) * 8 * NT * STEM_TILE_LD, acc);
        __syncthreads();
        for (int o = tid; o < 8 * NT * 16; o += 32 * KPARTS) {
            int token = m0 + (o >> 4), column = n0 + (o & 15);
            float v = stem_tile_sum<NT>(partial, KPARTS, o >> 4, o & 15);
            if (token < m_end && column < n)
                y[((long long)token * heads + h) * n + column] = stem_round<O>::from(v);
        }
    }
};

/* Grid: x = (head, 16 columns), y = tiles of 8 * NT tokens. Block: KPARTS warps, which share out k. */
template <class E, class O, int NT, int STAGES, int KPARTS, bool EARLY>
__device__ __forceinline__ void stem_heads_rows(const E *x, const E *w, O *y, int tokens, int heads, int n, int k,
                                                long long xt, long long xh, long long wh, long long wr)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    constexpr int ring = STAGES * stem_stage_bytes<1, NT>;
    int warp = threadIdx.x >> 5, columns = (n + 15) / 16;
    int m0 = blockIdx.y * 8 * NT, m_end = min(tokens, m0 + 8 * NT);
    stem_heads_source<E, NT> source = {x, w, m0, m_end, n, columns, xt, xh, wh, wr};
    stem_heads_sink<O, NT, KPARTS> sink = {y, (float *)(stem_smem + KPARTS * ring), m0, m_end, heads, n, columns};
    if (!EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
    stem_stream<E, 1, NT, STAGES, EARLY>(stem_shared_address(stem_smem) + warp * ring, blockIdx.x, gridDim.x,
                                         heads * columns, warp, KPARTS, k, source, sink);
}

/* ---- w[h, k, n] ---- */

/* Rows 4 * (lane % 4) + 0..3 of 16 rows of k, columns 8 * (lane / 4) .. + 7 of 64; zeros past the last column. */
template <class E>
__device__ __forceinline__ void stem_heads_load(uint4 (&r)[4], const E *w, long long wr, bool inside)
{
    int lane = threadIdx.x & 31;
    const E *from = w + 4 * (lane & 3) * wr + 8 * (lane >> 2);
#pragma unroll
    for (int i = 0; i < 4; i++)
        r[i] = inside ? *(const uint4 *)(from + i * wr) : uint4{0, 0, 0, 0};
}

/* Four rows of k of eight columns to fragments: row g of product m is column 8g + 2m, row g + 8 the next one, so a word of two
 * neighbouring columns needs only its halves sorted; k is permuted alike in both operands. */
__device__ __forceinline__ uint4 stem_heads_fragment(const uint4 (&r)[4], int m)
{
    unsigned q[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        q[i] = m == 0 ? r[i].x : m == 1 ? r[i].y : m == 2 ? r[i].z : r[i].w;
    return uint4{__byte_perm(q[0], q[1], 0x5410), __byte_perm(q[0], q[1], 0x7632), __byte_perm(q[2], q[3], 0x5410),
                 __byte_perm(q[2], q[3], 0x7632)};
}

/* acc += 64 columns by 16 values of k by 8 * NT tokens. */
template <class E, int NT>
__device__ __forceinline__ void stem_heads_multiply(float (&acc)[4][NT][4], const uint4 (&r)[4], const uint2 (&b)[NT])
{
#pragma unroll
    for (int m = 0; m < 4; m++) {
        uint4 a = stem_heads_fragment(r, m);
#pragma unroll
        for (int j = 0; j < NT; j++)
            stem_mma((const E *)nullptr, acc[m][j], a.x, a.y, a.z, a.w, b[j].x, b[j].y);
    }
}

/* A block's tile: 64 columns of head h from n0 on, 8 * NT tokens from m0 on; y[t] and y[., h] are yt and yh elements
 * apart. KPARTS warps share out k, a multiple of 16. */
template <class E, class O, int NT, int KPARTS, bool EARLY>
__device__ __forceinline__ void stem_heads_tile(const E *x, const E *w, O *y, int h, int n0, int m0, int tokens,
                                                int n, int k, long long xt, long long xh, long long wh, long long wr,
                                                long long yt, long long yh)
{
    STEM_DYNAMIC_SHARED(stem_smem);
    constexpr int LD = 68;
    float *partial = (float *)stem_smem; /* [KPARTS][8 * NT][LD] */
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, warp = threadIdx.x >> 5;
    bool inside = n0 + 8 * g < n;
    const E *from = w + h * wh + n0;
    uint4 r[4];
    if (EARLY)
        stem_heads_load(r, from + warp * 16 * wr, wr, inside && warp * 16 < k);
    stem_launch_dependents();
    stem_wait();
    if (!EARLY)
        stem_heads_load(r, from + warp * 16 * wr, wr, inside && warp * 16 < k);
    float acc[4][NT][4] = {};
    for (int k0 = warp * 16; k0 < k; k0 += KPARTS * 16) {
        uint2 b[NT];
#pragma unroll
        for (int j = 0; j < NT; j++) {
            int token = m0 + 8 * j + g;
            b[j] = token < tokens ? *(const uint2 *)(x + token * xt + h * xh + k0 + 4 * t) : uint2{0, 0};
        }
        stem_heads_multiply<E, NT>(acc, r, b);
        if (k0 + KPARTS * 16 < k)
            stem_heads_load(r, from + (k0 + KPARTS * 16) * wr, wr, inside);
    }
#pragma unroll
    for (int m = 0; m < 4; m++)
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                partial[(warp * 8 * NT + 8 * j + 2 * t + (c & 1)) * LD + 8 * g + 2 * m + (c >> 1)] = acc[m][j][c];
    __syncthreads();
    for (int o = threadIdx.x; o < 8 * NT * 64; o += 32 * KPARTS) {
        int token = o >> 6, column = o & 63;
        float sum = 0;
#pragma unroll
        for (int p = 0; p < KPARTS; p++)
            sum += partial[(p * 8 * NT + token) * LD + column];
        if (m0 + token < tokens && n0 + column < n)
            y[(m0 + token) * yt + h * yh + n0 + column] = stem_round<O>::from(sum);
    }
}

/* Grid: x = (head, 64 columns), y = tiles of 8 * NT tokens. */
template <class E, class O, int NT, int KPARTS, bool EARLY>
__device__ __forceinline__ void stem_heads_transposed(const E *x, const E *w, O *y, int tokens, int heads, int n,
                                                      int k, long long xt, long long xh, long long wh, long long wr)
{
    int columns = (n + 63) / 64, h = blockIdx.x / columns;
    stem_heads_tile<E, O, NT, KPARTS, EARLY>(x, w, y, h, (blockIdx.x - h * columns) * 64, blockIdx.y * 8 * NT, tokens,
                                             n, k, xt, xh, wh, wr, (long long)heads * n, n);
}

/* Any shape, strides and type: a thread for each element of y. */
template <class E, class O>
__device__ __forceinline__ void stem_heads_plain(const E *x, const E *w, O *y, int tokens, int heads, int n, int k,
                                                 long long xt, long long xh, long long xk, long long wh, long long wn,
                                                 long long wk)
{
    long long id = (long long)blockIdx.x * blockDim.x + threadIdx.x, row = id / n, token = row / heads;
    int h = (int)(row - token * heads), column = (int)(id - row * n);
    stem_wait();
    stem_launch_dependents();
    if (token >= tokens)
        return;
    const E *a = x + token * xt + h * xh, *b = w + h * wh + column * wn;
    float sum = 0;
    for (int i = 0; i < k; i++)
        sum += stem_float(a[i * xk]) * stem_float(b[i * wk]);
    y[id] = stem_round<O>::from(sum);
}

#endif
