/* SPDX-License-Identifier: Apache-2.0
 *
 * y = (x * norm) times w transposed, over the root mean square of x: linear of a normalised x without waiting for the
 * normalisation. A row's factor is the same for all of its elements, so it can come last: the products begin with the
 * first piece of x, and the squares are added up on the way, by the lanes that have those elements in registers for the
 * products anyway. They are one more row of the partial sums, and meet as these do, in a fixed order.
 *
 * x * norm is rounded to x's type, as the products need it: one rounding, where rmsnorm has one of x / rms * norm.
 */
#ifndef STEM_NORM_LINEAR_CUH
#define STEM_NORM_LINEAR_CUH

#ifndef STEM_EMULATED

/* Eight products of 16-bit floats, each to nearest even. */
__device__ __forceinline__ uint4 stem_times8(const __nv_bfloat16 *, const uint4 &a, const uint4 &b)
{
    auto times = [](unsigned u, unsigned v) {
        __nv_bfloat162 r = __hmul2(reinterpret_cast<__nv_bfloat162 &>(u), reinterpret_cast<__nv_bfloat162 &>(v));
        return reinterpret_cast<unsigned &>(r);
    };
    return make_uint4(times(a.x, b.x), times(a.y, b.y), times(a.z, b.z), times(a.w, b.w));
}

__device__ __forceinline__ uint4 stem_times8(const __half *, const uint4 &a, const uint4 &b)
{
    auto times = [](unsigned u, unsigned v) {
        __half2 r = __hmul2(reinterpret_cast<__half2 &>(u), reinterpret_cast<__half2 &>(v));
        return reinterpret_cast<unsigned &>(r);
    };
    return make_uint4(times(a.x, b.x), times(a.y, b.y), times(a.z, b.z), times(a.w, b.w));
}

#endif /* STEM_EMULATED */

template <class E> __device__ __forceinline__ float stem_squares8(const uint4 &b)
{
    const stem_vec<E, 8> v = reinterpret_cast<const stem_vec<E, 8> &>(b);
    float even = 0.0f, odd = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        even = fmaf(stem_float(v.at[i]), stem_float(v.at[i]), even);
        odd = fmaf(stem_float(v.at[i + 1]), stem_float(v.at[i + 1]), odd);
    }
    return even + odd;
}

/* See stem_tokens_plain. A stage has 64 elements of norm, and a lane has the squares of token 8 * j + lane / 4, of those
 * columns that it multiplies. */
template <class E, int NT, int ROWS> struct stem_tokens_normalised {
    static constexpr int rows = ROWS, bytes = 128, sums = 1;
    const E *norm;
    float inverse, eps; /* of k */
    uint4 factors;
    float squares[NT];
    __device__ __forceinline__ void begin(void)
    {
#pragma unroll
        for (int j = 0; j < NT; j++)
            squares[j] = 0.0f;
    }
    __device__ __forceinline__ void load(unsigned to, int at, int K) const
    {
        int lane = threadIdx.x & 31;
        bool inside = at + lane * 8 < K;
        if (lane < 8)
            stem_copy16(to + lane * 16, norm + (inside ? at + lane * 8 : 0), inside);
    }
    __device__ __forceinline__ void next(unsigned from, int piece)
    {
        factors = stem_shared16(from + piece * 16);
    }
    __device__ __forceinline__ uint4 take(const uint4 &b, int j)
    {
        squares[j] += stem_squares8<E>(b);
        return stem_times8((const E *)nullptr, b, factors);
    }
    /* The squares of PLACES tokens, LD apart, at `AT`. */
    template <int LD = STEM_TILE_LD, int AT = 16, int PLACES = 8 * NT> __device__ __forceinline__ void store(float *tile) const
    {
        int lane = threadIdx.x & 31;
#pragma unroll
        for (int j = 0; j < NT; j++) {
            float v = squares[j];
            v += __shfl_xor_sync(0xffffffffu, v, 1);
            v += __shfl_xor_sync(0xffffffffu, v, 2);
            if ((lane & 3) == 0 && 8 * j + (lane >> 2) < PLACES)
                tile[(8 * j + (lane >> 2)) * LD + AT] = v;
        }
    }
    __device__ __forceinline__ float finish(float v, float sum) const
    {
        return v * rsqrtf(sum * inverse + eps);
    }
};

/* See stem_linear_of. EARLY: norm is a weight as w is. */
template <class E, int NT, int STAGES, int KPARTS, int GROUPS, int CLUSTER, bool EARLY, bool PAIR, int ROWS = 8,
          bool WHOLE = false, class Store>
__device__ __forceinline__ void stem_norm_linear_to(const E *x, int distance, const E *norm, const E *w,
                                                    const Store &store, int m, int n, int k, float eps)
{
    stem_tokens_normalised<E, NT, ROWS> tokens = {norm, 1.0f / (float)k, eps, {}, {}};
    stem_linear_of<E, NT, STAGES, KPARTS, GROUPS, CLUSTER, EARLY, PAIR, WHOLE>(x, distance, w, store, m, n, k,
                                                                               (int)gridDim.x, tokens);
}

/* Where rows begin that are all equally far apart. */
struct stem_rows_apart {
    long long distance;
    __device__ __forceinline__ long long operator()(long long row) const
    {
        return row * distance;
    }
};

/* Any shape, alignment and strides: as stem_linear_plain_to. Elements of a row are `step` apart. */
template <class E, class W, bool PAIR, class Rows, class Store>
__device__ __forceinline__ void stem_norm_linear_plain_to(const E *x, const Rows &rows, long long step, const W *norm,
                                                          const E *w, const Store &store, int m, int n, int k, float eps)
{
    int lane = threadIdx.x & 31, column = blockIdx.x * 4 + (threadIdx.x >> 5), m0 = blockIdx.y * 8;
    int columns = PAIR ? n / 2 : n;
    stem_wait();
    stem_launch_dependents();
    if (column >= columns)
        return;
    float sum[2][8] = {}, squares[8] = {};
    for (int i = lane; i < k; i += 32) {
        float a = stem_float(w[(long long)column * k + i]);
        float b = PAIR ? stem_float(w[(long long)(column + columns) * k + i]) : 0.0f;
        float factor = stem_float(norm[i]);
#pragma unroll
        for (int r = 0; r < 8; r++)
            if (m0 + r < m) {
                float raw = stem_float(x[rows(m0 + r) + i * step]), v = stem_float(stem_round<E>::from(raw * factor));
                squares[r] += raw * raw;
                sum[0][r] += v * a;
                sum[1][r] += v * b;
            }
    }
#pragma unroll
    for (int r = 0; r < 8; r++) {
        float scale = rsqrtf(stem_warp_sum(squares[r]) / (float)k + eps);
        float u = stem_warp_sum(sum[0][r]) * scale, v = PAIR ? stem_warp_sum(sum[1][r]) * scale : 0.0f;
        if (lane == 0 && m0 + r < m)
            store(m0 + r, column, u, v);
    }
}

#endif
