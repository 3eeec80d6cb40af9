/* SPDX-License-Identifier: Apache-2.0
 *
 * Correctness and speed of the heavy kernels, outside the compiler. Each is compared with a plain kernel in f32 on
 * random data, run twice for equal bits, and timed as replays of a CUDA graph of 24 launches over rotating sets of
 * weights (more than any L2 holds). Prints microseconds for each launch and the ratio to the bytes' time at 4.3 TB/s.
 *
 *     nvcc -O3 -std=c++17 -gencode=arch=compute_90a,code=sm_90a -I src/ops tests/bench/kernels/bench.cu -o bench
 */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "common/common.cuh"
#include "linear/stream.cuh"
#include "linear/linear.cuh"
#include "experts/groups.cuh"
#include "experts/experts.cuh"
#include "route/route.cuh"

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

enum { HIDDEN = 7168, EXPERTS = 384, TOPK = 8, INTER = 256, SETS = 4, LAUNCHES = 24 };
static const double BANDWIDTH = 4.3e12;

/* ---- kernels under test, one instance for each configuration ---- */

template <class E, class O, int NT, int STAGES, int KP, int G, int CL>
__global__ void __launch_bounds__(32 * KP * G) __cluster_dims__(CL, 1, 1)
    k_linear(const E *x, const E *w, O *y, int m, int n, int k)
{
    stem_linear<E, O, NT, STAGES, KP, G, CL, true>(x, w, y, m, n, k);
}
template <class E, int NT, int STAGES, int WARPS>
__global__ void __launch_bounds__(32 * WARPS)
    k_up(const E *x, const int *ids, const E *w13, E *h, int tokens, int k, int experts, int hidden, int inter, int tile)
{
    stem_experts_up<E, NT, STAGES, WARPS, STEM_ACT_SILU>(x, ids, w13, h, tokens, k, experts, hidden, inter, tile);
}
template <class E, int MT, int NT, int STAGES, int WARPS>
__global__ void __launch_bounds__(32 * WARPS)
    k_down(const E *h, const int *ids, const float *scale, const E *w2, E *y, int tokens, int k, int experts, int hidden,
           int inter, int tile)
{
    stem_experts_down<E, MT, NT, STAGES, WARPS, true>(h, ids, scale, w2, y, tokens, k, experts, hidden, inter, tile);
}
template <class E>
__global__ void __launch_bounds__(384)
    k_route(const E *logits, const float *bias, int *ids, float *weights, int experts, int k)
{
    stem_route<E, 12, 32, STEM_SCORE_SIGMOID, true, true, false, true>(logits, bias, ids, weights, experts, k, 1, 1, 1, 2.5f);
}
__global__ void __launch_bounds__(256) k_route_groups(const float *logits, const float *bias, int *ids, float *weights)
{
    stem_route<float, 8, 16, STEM_SCORE_SOFTMAX, true, true, true, true>(logits, bias, ids, weights, 256, 6, 8, 3, 0, 1.5f);
}

/* ---- reference kernels, written without the code under test ---- */

template <class E, class O> __global__ void r_linear(const E *x, const E *w, O *y, int m, int n, int k)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (c >= n)
        return;
    double s = 0;
    for (int i = 0; i < k; i++)
        s += (double)((float)x[(size_t)r * k + i] * (float)w[(size_t)c * k + i]);
    y[(size_t)r * n + c] = (O)(float)s;
}
template <class E>
__global__ void r_up(const E *x, const int *ids, const E *w13, E *h, int k, int experts, int hidden, int inter)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, pair = blockIdx.y, id = ids[pair];
    if (i >= inter || id < 0 || id >= experts)
        return;
    const E *g = w13 + ((size_t)id * 2 * inter + i) * hidden, *u = g + (size_t)inter * hidden;
    double sg = 0, su = 0;
    for (int c = 0; c < hidden; c++) {
        double v = (double)(float)x[(size_t)(pair / k) * hidden + c];
        sg += v * (double)(float)g[c];
        su += v * (double)(float)u[c];
    }
    h[(size_t)pair * inter + i] = (E)(float)(sg / (1 + exp(-sg)) * su);
}
template <class E>
__global__ void r_down(const E *h, const int *ids, const float *scale, const E *w2, E *y, int k, int experts, int hidden,
                       int inter)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x, t = blockIdx.y;
    if (c >= hidden)
        return;
    double s = 0;
    for (int j = 0; j < k; j++) {
        int id = ids[t * k + j], first = j;
        if (id < 0 || id >= experts)
            continue;
        for (int q = 0; q < j; q++)
            if (ids[t * k + q] == id)
                first = first == j ? q : first;
        double p = 0;
        for (int i = 0; i < inter; i++)
            p += (double)(float)h[(size_t)(t * k + first) * inter + i] *
                 (double)(float)w2[((size_t)id * hidden + c) * inter + i];
        s += p * scale[t * k + j];
    }
    y[(size_t)t * hidden + c] = (E)(float)s;
}

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

template <class E> static double error_of(const E *a, const E *b, size_t n)
{
    std::vector<E> x(n), y(n);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(x.data(), a, n * sizeof(E), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(y.data(), b, n * sizeof(E), cudaMemcpyDeviceToHost));
    double d = 0, s = 0;
    for (size_t i = 0; i < n; i++) {
        double v = (double)(float)x[i] - (double)(float)y[i];
        if (!(v == v))
            return NAN;
        d += v * v;
        s += (double)(float)y[i] * (double)(float)y[i];
    }
    return sqrt(d / (s + 1e-300));
}

static int failures;
template <class E>
static void compare(const std::string &what, E *out, const E *ref, size_t n, const std::function<void()> &run)
{
    E *second;
    snprintf(current, sizeof current, "%s", what.c_str());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMalloc(&second, n * sizeof(E)));
    CHECK(cudaMemset(out, 0xff, n * sizeof(E)));
    run();
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(second, out, n * sizeof(E), cudaMemcpyDeviceToDevice));
    double e = error_of(out, ref, n);
    CHECK(cudaMemset(out, 0xff, n * sizeof(E)));
    run();
    bool same = true;
    std::vector<char> a(n * sizeof(E)), b(n * sizeof(E));
    CHECK(cudaMemcpy(a.data(), out, a.size(), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(b.data(), second, b.size(), cudaMemcpyDeviceToHost));
    same = memcmp(a.data(), b.data(), a.size()) == 0;
    bool good = e < (sizeof(E) == 4 ? 1e-5 : 5e-3) && same;
    failures += !good;
    if (!good || getenv("VERBOSE"))
        printf("%-6s %-46s error %.2e %s\n", good ? "ok" : "FAIL", what.c_str(), e, same ? "" : "BITS DIFFER");
    CHECK(cudaFree(second));
}

/* Median over replays of a graph of LAUNCHES launches, for each launch, in microseconds. */
static double time_of(const std::function<void(int, cudaStream_t)> &launch)
{
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t a, b;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < LAUNCHES; i++)
        launch(i, s);
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    std::vector<float> times;
    for (int i = 0; i < 23; i++) {
        CHECK(cudaEventRecord(a, s));
        CHECK(cudaGraphLaunch(exec, s));
        CHECK(cudaEventRecord(b, s));
        CHECK(cudaStreamSynchronize(s));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, a, b));
        if (i >= 3)
            times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(s));
    return times[times.size() / 2] * 1e3 / LAUNCHES;
}

static void report(const std::string &what, int t, double us, double bytes)
{
    snprintf(current, sizeof current, "%s", what.c_str());
    double floor = bytes / BANDWIDTH * 1e6;
    printf("%-34s T=%-3d %8.2f us  floor %8.2f  x%.2f\n", what.c_str(), t, us, floor, us / floor);
    fflush(stdout);
}

/* ---- launchers ---- */

template <class F> static void allow(F *kernel, int smem)
{
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
}

template <class E, class O, int NT, int STAGES, int KP, int G, int CL>
static void linear(const E *x, const E *w, O *y, int m, int n, int k, cudaStream_t s)
{
    int tiles = (n + 16 * G - 1) / (16 * G), smem = KP * G * (STAGES * stem_stage_bytes<1, NT> + 8 * NT * STEM_TILE_LD * 4) +
                                                    (CL > 1 ? G * 8 * NT * 16 * 4 : 0);
    static bool once = (allow(k_linear<E, O, NT, STAGES, KP, G, CL>, smem), true);
    (void)once;
    dim3 grid(std::min(tiles, 1024) * CL, (m + 8 * NT - 1) / (8 * NT));
    k_linear<E, O, NT, STAGES, KP, G, CL><<<grid, 32 * KP * G, smem, s>>>(x, w, y, m, n, k);
}

struct shape {
    int tokens, k, experts, hidden, inter;
    int tile() const { return std::min(std::min(tokens, 64), STEM_GROUP_PAIRS / k); }
    int tiles() const { return (tokens + tile() - 1) / tile(); }
};

template <class E, int NT, int STAGES, int WARPS>
static void up(const E *x, const int *ids, const E *w13, E *h, const shape &d, int blocks, cudaStream_t s)
{
    int smem = std::max(WARPS * (STAGES * stem_stage_bytes<1, NT> + 8 * NT * STEM_TILE_LD * 4), d.experts * 4);
    static bool once = (allow(k_up<E, NT, STAGES, WARPS>, smem), true);
    (void)once;
    int items = std::min(d.experts, d.tile() * d.k) * ((d.inter + 7) / 8);
    k_up<E, NT, STAGES, WARPS><<<dim3(std::min(items, blocks), d.tiles()), 32 * WARPS, smem, s>>>(
        x, ids, w13, h, d.tokens, d.k, d.experts, d.hidden, d.inter, d.tile());
}

template <class E, int MT, int NT, int STAGES, int WARPS>
static void down(const E *h, const int *ids, const float *scale, const E *w2, E *y, const shape &d, cudaStream_t s)
{
    int smem = WARPS * (STAGES * stem_stage_bytes<MT, NT> + d.tile() * (16 * MT + 4) * 4) + d.tile() * d.k * 4;
    allow(k_down<E, MT, NT, STAGES, WARPS>, smem);
    k_down<E, MT, NT, STAGES, WARPS><<<dim3((d.hidden + 16 * MT - 1) / (16 * MT), d.tiles()), 32 * WARPS, smem, s>>>(
        h, ids, scale, w2, y, d.tokens, d.k, d.experts, d.hidden, d.inter, d.tile());
}

#include "cases.h"

int main(int argc, char **argv)
{
    const std::string what = argc > 1 ? argv[1] : "all";
    const bool all = what == "all";
    if (all || what == "linear")
        check_linear();
    if (all || what == "experts")
        check_experts();
    if (all || what == "route")
        check_route();
    if (all || what != "time")
        printf("%s: %d failures\n", what.c_str(), failures);
    if (all || what == "time")
        time_all();
    return failures != 0;
}
