/* SPDX-License-Identifier: Apache-2.0
 *
 * silu_mul: each thread makes V elements of the result; `half` is the result's last size, a multiple of V, n its
 * number of elements.
 */
#ifndef STEM_OPS_SILU_MUL_CUH
#define STEM_OPS_SILU_MUL_CUH

template <typename T, int V>
__device__ __forceinline__ void stem_silu_mul(const T *x, T *y, long long n, long long half)
{
    unsigned long long e = ((unsigned long long)blockIdx.x * blockDim.x + threadIdx.x) * V;
    stem_launch_dependents();
    stem_wait();
    if (e >= (unsigned long long)n)
        return;
    /* Rows of x are twice as long: element (row, col) of y has its gate at e + row * half. */
    bool wide = (unsigned long long)n >> 32; /* the 32-bit division is several times cheaper */
    unsigned long long row = wide ? e / (unsigned long long)half : (unsigned)e / (unsigned)half;
    const T *gate = x + e + row * half;
    stem_vec<T, V> g = stem_load<V>(gate), u = stem_load<V>(gate + half), r;
#pragma unroll
    for (int k = 0; k < V; k++)
        r.at[k] = stem_round<T>::from(stem_fn_mul(stem_fn_silu(stem_float(g.at[k])), stem_float(u.at[k])));
    stem_store(y + e, r);
}

#endif
