/* SPDX-License-Identifier: Apache-2.0
 *
 * Correctness and speed of the attention kernels, outside the compiler. Each is compared with a plain kernel in double that
 * shares no code with it, run twice for equal bits, then timed as replays of a CUDA graph of launches over rotating
 * caches (more than the L2 holds). Prints microseconds for a call (both launches of an attention), the rate at which
 * the cache is read, and its share of what a device-to-device copy moves in the same run.
 *
 *     nvcc -O3 -std=c++17 -gencode=arch=compute_90a,code=sm_90a -I src/ops tests/bench/kernels/attention.cu -o attention
 *     ./attention [check|gqa|mla|index|all]
 */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "common/common.cuh"
#include "linear/stream.cuh"
#include "linear/linear.cuh"
#include "attention/attention.cuh"
#include "attention/gqa_part.cuh"
#include "attention/mla_part.cuh"
#include "linear/wgmma.cuh"
#include "attention/mla_wgmma.cuh"
#include "index_scores/index_scores.cuh"
#include "index_scores/index_part.cuh"
#include "top_k/top_k.cuh"

#include "arrays.h"

/* ---- timing ---- */

/* Median over replays of a graph of `calls` calls, for each call, in microseconds. */
static double time_of(int calls, const std::function<void(int, cudaStream_t)> &call)
{
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t a, b;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < calls; i++)
        call(i, s);
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    std::vector<float> times;
    for (int i = 0; i < 14; i++) {
        float ms;
        CHECK(cudaEventRecord(a, s));
        CHECK(cudaGraphLaunch(exec, s));
        CHECK(cudaEventRecord(b, s));
        CHECK(cudaStreamSynchronize(s));
        CHECK(cudaEventElapsedTime(&ms, a, b));
        if (i >= 3)
            times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(a));
    CHECK(cudaEventDestroy(b));
    CHECK(cudaStreamDestroy(s));
    return times[times.size() / 2] * 1e3 / calls;
}

static double copy_rate; /* bytes read and written a second */

__global__ void k_copy(const uint4 *a, uint4 *b, size_t n)
{
    size_t i = blockIdx.x * (size_t)(4 * blockDim.x) + threadIdx.x;
    uint4 v[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (i + j * blockDim.x < n)
            v[j] = __ldcs(a + i + j * blockDim.x);
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (i + j * blockDim.x < n)
            __stcs(b + i + j * blockDim.x, v[j]);
}

/* The better of a kernel and the driver's copy. */
static void measure_copy(void)
{
    const size_t bytes = (size_t)1 << 30;
    char *a, *b;
    CHECK(cudaMalloc(&a, bytes));
    CHECK(cudaMalloc(&b, bytes));
    CHECK(cudaMemset(a, 1, bytes));
    double us = time_of(4, [&](int, cudaStream_t s) { CHECK(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, s)); });
    double kernel = time_of(4, [&](int, cudaStream_t s) {
        k_copy<<<(unsigned)(bytes / 16 / 1024), 256, 0, s>>>((uint4 *)a, (uint4 *)b, bytes / 16);
    });
    copy_rate = 2 * (double)bytes / (std::min(us, kernel) * 1e-6);
    printf("copy: %.0f GB/s (the driver's %.0f)\n", copy_rate * 1e-9, 2e-3 * (double)bytes / us);
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
}

static void report(const std::string &what, int tokens, int context, double us, double bytes)
{
    double rate = bytes / (us * 1e-6);
    printf("%-30s T=%-3d ctx %-6d %9.2f us  %8.1f MB  %7.0f GB/s  %5.1f %%\n", what.c_str(), tokens, context, us,
           bytes * 1e-6, rate * 1e-9, 100 * rate / copy_rate);
    fflush(stdout);
}

static int failures;
template <class E>
static void compare(const std::string &what, E *out, const E *ref, size_t n, double bound, const std::function<void()> &run)
{
    std::vector<E> x(n), y(n), z(n);
    CHECK(cudaMemset(out, 0xff, n * sizeof(E)));
    run();
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(x.data(), out, n * sizeof(E), cudaMemcpyDeviceToHost));
    CHECK(cudaMemset(out, 0xff, n * sizeof(E)));
    run();
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(z.data(), out, n * sizeof(E), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(y.data(), ref, n * sizeof(E), cudaMemcpyDeviceToHost));
    double d = 0, s = 0;
    for (size_t i = 0; i < n; i++) {
        double a = (double)(float)x[i], b = (double)(float)y[i];
        if (a == b && std::isinf(b))
            continue;
        d += (a - b) * (a - b);
        s += b * b;
    }
    double e = sqrt(d / (s + 1e-300));
    bool same = memcmp(x.data(), z.data(), n * sizeof(E)) == 0, good = e <= bound && same;
    failures += !good;
    printf("%-6s %-46s error %.2e%s\n", good ? "ok" : "FAIL", what.c_str(), e, same ? "" : " BITS DIFFER");
}

/* ---- a plain attention, in double: a block for each token and head; with `chosen` only these positions ---- */

template <class E>
__global__ void r_attention(const E *q, const E *k, const E *v, const int *table, const int *lens, const int *chosen, E *y,
                            int heads, int kv_heads, int width, int latent, int page, int per_sequence, int count, double scale)
{
    extern __shared__ double score[];
    int t = blockIdx.x / heads, h = blockIdx.x % heads, n = chosen ? count : lens[t];
    __shared__ double top, sum;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int at = chosen ? chosen[t * count + i] : i;
        double dot = 0;
        size_t row = at < 0 ? 0 : ((size_t)table[t * per_sequence + at / page] * page + at % page) * kv_heads + h / (heads / kv_heads);
        for (int d = 0; d < width; d++)
            dot += (double)(float)q[(size_t)blockIdx.x * width + d] * (double)(float)k[row * width + d];
        score[i] = at < 0 ? -INFINITY : dot * scale;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        top = -INFINITY;
        sum = 0;
        for (int i = 0; i < n; i++)
            top = max(top, score[i]);
        for (int i = 0; i < n; i++)
            sum += exp(score[i] - top);
    }
    __syncthreads();
    for (int d = threadIdx.x; d < latent; d += blockDim.x) {
        double s = 0;
        for (int i = 0; i < n; i++) {
            int at = chosen ? chosen[t * count + i] : i;
            if (at < 0)
                continue;
            size_t row = ((size_t)table[t * per_sequence + at / page] * page + at % page) * kv_heads + h / (heads / kv_heads);
            s += exp(score[i] - top) / sum * (double)(float)v[row * width + d];
        }
        y[(size_t)blockIdx.x * latent + d] = (E)(float)s;
    }
}

template <class E, class W>
__global__ void r_scores(const E *q, const W *w, const E *cache, const int *table, const int *lens, float *y, int heads,
                         int width, int page, int per_sequence, int most)
{
    int t = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= most)
        return;
    double sum = 0;
    for (int h = 0; h < heads && i < lens[t]; h++) {
        double dot = 0;
        size_t row = (size_t)table[t * per_sequence + i / page] * page + i % page;
        for (int d = 0; d < width; d++)
            dot += (double)(float)q[((size_t)t * heads + h) * width + d] * (double)(float)cache[row * width + d];
        sum += (double)(float)w[t * heads + h] * (dot > 0 ? dot : 0);
    }
    y[(size_t)t * most + i] = i < lens[t] ? (float)sum : -INFINITY;
}

/* Pages in random order, all different. */
static int *make_table(int tokens, int per_sequence, int seed)
{
    std::vector<int> pages(tokens * per_sequence);
    for (size_t i = 0; i < pages.size(); i++)
        pages[i] = (int)i;
    srand(seed);
    for (size_t i = pages.size(); i > 1; i--)
        std::swap(pages[i - 1], pages[rand() % i]);
    return upload(pages);
}

#include "attention_cases.h"

int main(int argc, char **argv)
{
    const std::string what = argc > 1 ? argv[1] : "all";
    const bool all = what == "all";
    measure_copy();
    if (all || what == "check") {
        check_all();
        printf("%d failures\n", failures);
    }
    if (all || what == "gqa")
        time_gqa_all();
    if (all || what == "mla")
        time_mla_all();
    if (all || what == "index")
        time_index_all();
    return failures != 0;
}
