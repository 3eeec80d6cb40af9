/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays of the programs that measure kernels: random ones, copies of the host's, and failed calls by name.
 */
#include <cstdio>
#include <cstdlib>
#include <vector>

static char current[128]; /* the case that runs */

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t e_ = (call);                                                         \
        if (e_ != cudaSuccess) {                                                         \
            printf("%s:%d: %s: %s [%s]\n", __FILE__, __LINE__, #call, cudaGetErrorString(e_), current); \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

typedef __nv_bfloat16 bf16;

template <class E> __global__ void fill(E *p, size_t n, unsigned seed, float amplitude)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        unsigned long long z = (i + 1) * 0x9E3779B97F4A7C15ull + (unsigned long long)seed * 0xD1B54A32D192ED03ull;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        z ^= z >> 31;
        p[i] = (E)((((float)(unsigned)(z >> 40)) / 8388608.0f - 1.0f) * amplitude);
    }
}
template <class E> static E *random_array(size_t n, unsigned seed, float amplitude)
{
    E *p;
    CHECK(cudaMalloc(&p, n * sizeof(E)));
    fill<E><<<1024, 256>>>(p, n, seed, amplitude);
    CHECK(cudaGetLastError());
    return p;
}

template <class V> static V *upload(const std::vector<V> &v)
{
    V *p;
    CHECK(cudaMalloc(&p, v.size() * sizeof(V)));
    CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(V), cudaMemcpyHostToDevice));
    return p;
}

template <class F> static void allow(F *kernel, int smem)
{
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
}
