/* SPDX-License-Identifier: Apache-2.0
 *
 * linear for one or two rows of x and a long k: bound by latency, not by bytes. A block owns ROWS rows of w and all of
 * k, so nothing has to meet across blocks. Its weights lie in registers before it waits for its predecessor; what is
 * left after the wait is one load of x, ROWS * ITER * 8 multiplications a thread, and one sum over the block.
 *
 * Preconditions: 16-bit floats, row starts 16-byte aligned, k a multiple of 8, at most 8 * ITER * 32 * WARPS.
 */
#ifndef STEM_FEW_CUH
#define STEM_FEW_CUH

#ifndef STEM_EMULATED

/* A weight: read once, by nobody else, and not to be sunk below the wait. */
__device__ __forceinline__ uint4 stem_load_weight16(const void *p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}
__device__ __forceinline__ uint4 stem_load_fresh16(const void *p)
{
    uint4 v;
    asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

#endif

/* sum += products of 8 elements, in order. */
template <class E> __device__ __forceinline__ float stem_dot8(const float (&a)[8], const uint4 &b, float sum)
{
    stem_vec<E, 8> v;
    *reinterpret_cast<uint4 *>(&v) = b;
#pragma unroll
    for (int i = 0; i < 8; i++)
        sum += a[i] * stem_float(v.at[i]);
    return sum;
}

/* Row of w that is row r of the block: with PAIR the second half of them are of the second half of w. */
template <int ROWS, bool PAIR> __device__ __forceinline__ int stem_few_row(int r, int n)
{
    constexpr int columns = PAIR ? ROWS / 2 : ROWS;
    int of = PAIR ? n / 2 : n, column = blockIdx.x * columns + r % columns;
    return (column < of ? column : of - 1) + r / columns * of;
}

/* Grid: x = columns of y by ROWS (ROWS / 2 with PAIR). Block: 32 * WARPS threads. m <= M. EARLY: w is a weight. */
template <class E, int M, int ROWS, int ITER, int WARPS, bool EARLY, bool PAIR, class Store>
__device__ __forceinline__ void stem_linear_few_to(const E *x, const E *w, const Store &store, int m, int n, int k)
{
    __shared__ float parts[ROWS * M][WARPS];
    constexpr int threads = 32 * WARPS, columns = PAIR ? ROWS / 2 : ROWS;
    int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    uint4 weight[ROWS][ITER], token[M][ITER];
    if (!EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
#pragma unroll
    for (int i = 0; i < ITER; i++)
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int at = (tid + i * threads) * 8;
            weight[r][i] = uint4{0, 0, 0, 0};
            if (at < k)
                weight[r][i] = stem_load_weight16(w + (long long)stem_few_row<ROWS, PAIR>(r, n) * k + at);
        }
    if (EARLY) {
        stem_wait();
        stem_launch_dependents();
    }
#pragma unroll
    for (int i = 0; i < ITER; i++)
#pragma unroll
        for (int t = 0; t < M; t++) {
            int at = (tid + i * threads) * 8;
            token[t][i] = uint4{0, 0, 0, 0};
            if (at < k && t < m)
                token[t][i] = stem_load_fresh16(x + (long long)t * k + at);
        }
    float sum[ROWS][M] = {};
#pragma unroll
    for (int i = 0; i < ITER; i++)
#pragma unroll
        for (int t = 0; t < M; t++) {
            float a[8];
            stem_vec<E, 8> v;
            *reinterpret_cast<uint4 *>(&v) = token[t][i];
#pragma unroll
            for (int e = 0; e < 8; e++)
                a[e] = stem_float(v.at[e]);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                sum[r][t] = stem_dot8<E>(a, weight[r][i], sum[r][t]);
        }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int t = 0; t < M; t++) {
            float v = stem_warp_sum(sum[r][t]);
            if (lane == 0)
                parts[r * M + t][warp] = v;
        }
    __syncthreads();
    if (tid < columns * M) {
        int r = tid / M, t = tid % M, column = blockIdx.x * columns + r;
        float v = 0, u = 0;
#pragma unroll
        for (int i = 0; i < WARPS; i++) {
            v += parts[r * M + t][i];
            u += PAIR ? parts[PAIR ? (r + columns) * M + t : 0][i] : 0.0f;
        }
        if (t < m && column < (PAIR ? n / 2 : n))
            store(t, column, v, u);
    }
}

#endif
