/* SPDX-License-Identifier: Apache-2.0
 *
 * cache_store: block (x, y) copies a piece of row y (and of rows gridDim.y further on); n elements a row, V at once.
 */
#ifndef STEM_OPS_CACHE_STORE_CUH
#define STEM_OPS_CACHE_STORE_CUH

template <typename T, int V>
__device__ __forceinline__ void stem_cache_store(T *cache, const T *x, const int *slot, long long rows,
                                                 long long slots, long long n)
{
    long long col = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * V;
    stem_launch_dependents();
    stem_wait();
    if (col >= n)
        return;
    for (long long row = blockIdx.y; row < rows; row += gridDim.y) {
        long long to = slot[row];
        if (to >= 0 && to < slots)
            stem_store(cache + to * n + col, stem_load<V>(x + row * n + col));
    }
}

#endif
