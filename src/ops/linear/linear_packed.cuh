/* SPDX-License-Identifier: Apache-2.0
 *
 * linear with weights in a format of formats.cuh, for shapes that linear_even.cuh does not take. PAIR: half of the rows are
 * of the first half of w, the others the same ones of the second.
 */
#ifndef STEM_LINEAR_PACKED_CUH
#define STEM_LINEAR_PACKED_CUH

/* Any shape and alignment, grid and block: a warp for each column of 8 rows of x. Grid: x over columns, y over rows. PAIR:
 * columns are those of the first half, each with its own of the second. whole: the tensor's scale, or NULL. */
template <class F, bool PAIR, class Rows, class Store>
__device__ __forceinline__ void stem_linear_packed_plain(const Rows &x, const void *w, const void *scale,
                                                         const void *whole, const Store &store, int m, int n, int k)
{
    int warps = blockDim.x >> 5, half = n / 2;
    stem_wait();
    stem_launch_dependents();
    float unit = whole ? *(const float *)whole : 1.0f;
    for (int column = blockIdx.x * warps + (threadIdx.x >> 5); column < (PAIR ? half : n); column += gridDim.x * warps)
        for (int at = blockIdx.y; at * 8 < m; at += gridDim.y)
            for (int r = at * 8; r < min(m, at * 8 + 8); r++) {
                auto row = stem_rows_from(x, r, k);
                float v = F::product(row, w, scale, column, column / 128, k), u = 0;
                if (PAIR)
                    u = F::product(row, w, scale, column + half, (column + half) / 128, k);
                if ((threadIdx.x & 31) == 0)
                    store(r, column, v * unit, u * unit);
            }
}

#endif
