/* SPDX-License-Identifier: Apache-2.0
 *
 * embed: block (x, y) copies a piece of row y (and of rows gridDim.y further on); n elements a row, V at once.
 */
#ifndef STEM_OPS_EMBED_CUH
#define STEM_OPS_EMBED_CUH

template <typename I, typename T, int V>
__device__ __forceinline__ void stem_embed(const I *ids, const T *table, T *y, long long rows, long long entries,
                                           long long n)
{
    long long col = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * V;
    stem_wait();
    stem_launch_dependents();
    if (col >= n)
        return;
    for (long long row = blockIdx.y; row < rows; row += gridDim.y) {
        long long id = ids[row];
        stem_vec<T, V> v = {};
        if (id >= 0 && id < entries)
            v = stem_load<V>(table + id * n + col);
        stem_store(y + row * n + col, v);
    }
}

#endif
