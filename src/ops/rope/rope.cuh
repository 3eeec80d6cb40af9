/* SPDX-License-Identifier: Apache-2.0
 *
 * rope: rows of D elements, of which N are turned, at their end or (FIRST) at their start. A thread does one unit: V
 * elements that are copied, or V pairs (V / 2 if they are neighbours, INTERLEAVED, and V > 1).
 */
#ifndef STEM_OPS_ROPE_CUH
#define STEM_OPS_ROPE_CUH

/* Sine and cosine of `turns` whole circles for each position: reduced exactly, in double. */
__device__ __forceinline__ void stem_rope_angle(double turns, long long position, float amplitude, float &sine,
                                                float &cosine)
{
    double angle = turns * (double)position;
    sincospif((float)(2.0 * (angle - rint(angle))), &sine, &cosine);
    sine *= amplitude;
    cosine *= amplitude;
}

/* (a, b) turned; each product is rounded by itself, so that the bits do not depend on the kernel. */
__device__ __forceinline__ void stem_rope_turn(float &a, float &b, float sine, float cosine)
{
    float c = __fsub_rn(__fmul_rn(a, cosine), __fmul_rn(b, sine));
    b = __fadd_rn(__fmul_rn(b, cosine), __fmul_rn(a, sine));
    a = c;
}

template <int V, typename T>
__device__ __forceinline__ stem_vec<T, V> stem_rope_load(const T *row, int i, long long stride)
{
    if (V > 1)
        return stem_load<V>(row + i);
    stem_vec<T, V> v;
    v.at[0] = row[i * stride];
    return v;
}

/* Unit `unit` of the N turned elements from `from` on: V pairs, or V / 2 neighbours if INTERLEAVED and V > 1. */
template <int N, int V, bool INTERLEAVED> constexpr int stem_rope_pairs = INTERLEAVED &&V > 1 ? V / 2 : V;

/* a, and b where partners lie N / 2 apart: the unit's elements, turned. */
template <int N, int V, bool INTERLEAVED, typename T>
__device__ __forceinline__ void stem_rope_turned(const T *from, int unit, long long stride,
                                                 const double (&turn)[stem_rope_pairs<N, V, INTERLEAVED>],
                                                 long long position, float amplitude, stem_vec<T, V> &a,
                                                 stem_vec<T, V> &b)
{
    constexpr int PAIRS = stem_rope_pairs<N, V, INTERLEAVED>, STEP = INTERLEAVED ? 1 : N / 2; /* to a partner */
    constexpr bool INSIDE = INTERLEAVED && V > 1;
    int i = unit * PAIRS * (INTERLEAVED ? 2 : 1);
    a = stem_rope_load<V>(from, i, stride);
    if (!INSIDE)
        b = stem_rope_load<V>(from, i + STEP, stride);
#pragma unroll
    for (int k = 0; k < PAIRS; k++) {
        float sine, cosine;
        stem_rope_angle(turn[k], position, amplitude, sine, cosine);
        T &low = INSIDE ? a.at[2 * k % V] : a.at[k], &high = INSIDE ? a.at[(2 * k + 1) % V] : b.at[k];
        float s = stem_float(low), t = stem_float(high);
        stem_rope_turn(s, t, sine, cosine);
        low = stem_round<T>::from(s);
        high = stem_round<T>::from(t);
    }
}

template <int N, int V, bool INTERLEAVED, typename T>
__device__ __forceinline__ void stem_rope_unit(const T *from, T *to, int unit, long long stride,
                                               const double (&turn)[stem_rope_pairs<N, V, INTERLEAVED>],
                                               long long position, float amplitude)
{
    constexpr int PAIRS = stem_rope_pairs<N, V, INTERLEAVED>, STEP = INTERLEAVED ? 1 : N / 2;
    int i = unit * PAIRS * (INTERLEAVED ? 2 : 1);
    stem_vec<T, V> a, b = {};
    stem_rope_turned<N, V, INTERLEAVED>(from, unit, stride, turn, position, amplitude, a, b);
    stem_store(to + i, a);
    if (!(INTERLEAVED && V > 1))
        stem_store(to + i + STEP, b);
}

template <typename T, typename P, int D, int N, int V, bool FIRST, bool INTERLEAVED>
__device__ __forceinline__ void stem_rope(const T *x, const P *pos, T *y, const double *turns, float amplitude,
                                          int tokens, int heads, long long token_stride, long long head_stride,
                                          long long stride)
{
    constexpr int PAIRS = stem_rope_pairs<N, V, INTERLEAVED>;
    constexpr int TURNED = N / 2 / PAIRS, UNITS = TURNED + (D - N) / V; /* of a row */
    constexpr int AT = FIRST ? 0 : D - N, REST = FIRST ? N : 0;
    unsigned id = blockIdx.x * blockDim.x + threadIdx.x, row = id / UNITS, unit = id % UNITS, token = row / heads;
    double turn[PAIRS];
    if (unit < TURNED) {
#pragma unroll
        for (int k = 0; k < PAIRS; k++)
            turn[k] = turns[unit * PAIRS + k];
    }
    stem_launch_dependents();
    stem_wait();
    if (token >= (unsigned)tokens)
        return;
    const T *from = x + token * token_stride + (row - token * heads) * head_stride;
    T *to = y + (long long)row * D;
    if (unit < TURNED)
        stem_rope_unit<N, V, INTERLEAVED>(from + AT * stride, to + AT, unit, stride, turn, pos[token], amplitude);
    else
        stem_store(to + REST + (unit - TURNED) * V, stem_rope_load<V>(from, REST + (unit - TURNED) * V, stride));
}

/* The block turns N elements at the end of rows from..end - 1 of x into those of y. */
template <int N, int V, bool INTERLEAVED, typename T, typename P>
__device__ __forceinline__ void stem_rope_block(const T *x, const P *pos, T *y, const double *turns, float amplitude,
                                                int first, int end, long long x_stride, long long y_stride)
{
    constexpr int PAIRS = stem_rope_pairs<N, V, INTERLEAVED>, UNITS = N / 2 / PAIRS;
    double turn[PAIRS];
    int id = threadIdx.x;
    for (int row = first + id / UNITS, unit = id % UNITS; row < end;
         id += blockDim.x, row = first + id / UNITS, unit = id % UNITS) {
#pragma unroll
        for (int k = 0; k < PAIRS; k++)
            turn[k] = turns[unit * PAIRS + k];
        stem_rope_unit<N, V, INTERLEAVED>(x + row * x_stride, y + row * y_stride, unit, 1, turn, pos[row], amplitude);
    }
}

#endif
