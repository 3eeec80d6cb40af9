/* SPDX-License-Identifier: Apache-2.0
 *
 * Correctness and speed of the heavy kernels, outside the compiler. Each is compared with a plain kernel in f32 on
 * random data, run twice for equal bits, and timed as replays of a CUDA graph of 24 launches over rotating sets of
 * weights (more than any L2 holds). Prints microseconds for each launch and the ratio to the bytes' time at 4.3 TB/s.
 *
 *     nvcc -O3 -std=c++17 -gencode=arch=compute_90a,code=sm_90a -I src/ops tests/bench/kernels/bench.cu -o bench
 */
#include "common/common.cuh"
#include "linear/stream.cuh"
#include "linear/linear.cuh"
#include "experts/groups.cuh"
#include "experts/experts.cuh"
#include "experts/one.cuh"
#include "experts/experts_down.cuh"
#include "route/route.cuh"

#include "harness.h"

enum { HIDDEN = 7168, EXPERTS = 384, TOPK = 8, INTER = 256, SETS = 4 };
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
template <class E, int MT, int TR, int STAGES, int WARPS>
__global__ void __launch_bounds__(32 * WARPS)
    k_down(const E *h, const int *ids, const float *scale, const E *w2, E *y, int tokens, int k, int experts, int hidden,
           int inter, int tile)
{
    stem_store_plain<E> store{y, hidden};
    if constexpr (TR == 1)
        stem_experts_down_single<E, MT, STAGES, WARPS, true>(h, ids, scale, w2, store, k, experts, hidden, inter);
    else
        stem_experts_down<E, MT, TR, STAGES, WARPS, true>(h, ids, scale, w2, store, tokens, k, experts, hidden, inter, tile);
}
template <class E>
__global__ void __launch_bounds__(384)
    k_route(const E *logits, const float *bias, int *ids, float *weights, int experts, int k)
{
    stem_route<E, 12, 32, STEM_SCORE_SIGMOID, true, true, false, true, 0>(logits, bias, ids, weights, experts, k, 1, 1, 1, 2.5f);
}
__global__ void __launch_bounds__(256) k_route_groups(const float *logits, const float *bias, int *ids, float *weights)
{
    stem_route<float, 8, 16, STEM_SCORE_SOFTMAX, true, true, true, true, 32>(logits, bias, ids, weights, 256, 6, 8, 3, 0, 1.5f);
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

static void report(const std::string &what, int t, double us, double bytes)
{
    snprintf(current, sizeof current, "%s", what.c_str());
    double floor = bytes / BANDWIDTH * 1e6;
    printf("%-34s T=%-3d %8.2f us  floor %8.2f  x%.2f\n", what.c_str(), t, us, floor, us / floor);
    fflush(stdout);
}

/* ---- launchers ---- */

template <class E, class O, int NT, int STAGES, int KP, int G, int CL>
static void linear(const E *x, const E *w, O *y, int m, int n, int k, cudaStream_t s)
{
    int tiles = (n + 16 * G - 1) / (16 * G), smem = KP * G * (STAGES * stem_stage_bytes<1, NT> + 8 * NT * STEM_TILE_LD * 4) +
                                                    (CL > 1 ? G * 8 * NT * 16 * 4 + 16 : 0);
    static bool once = (allow(k_linear<E, O, NT, STAGES, KP, G, CL>, smem), true);
    (void)once;
    dim3 grid(std::min(tiles, 1024) * CL, (m + 8 * NT - 1) / (8 * NT));
    k_linear<E, O, NT, STAGES, KP, G, CL><<<grid, 32 * KP * G, smem, s>>>(x, w, y, m, n, k);
}

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

template <class E, int MT, int TR, int STAGES, int WARPS>
static void down(const E *h, const int *ids, const float *scale, const E *w2, E *y, const shape &d, cudaStream_t s)
{
    int smem = WARPS * (STAGES * stem_down_stage_size<MT, TR> + d.tile() * (16 * MT + 4) * 4) + d.tile() * d.k * 4;
    allow(k_down<E, MT, TR, STAGES, WARPS>, smem);
    k_down<E, MT, TR, STAGES, WARPS><<<dim3((d.hidden + 16 * MT - 1) / (16 * MT), d.tiles()), 32 * WARPS, smem, s>>>(
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
