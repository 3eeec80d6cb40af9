/* SPDX-License-Identifier: Apache-2.0
 *
 * linear for large weights (linear_even.cuh) in one format: each configuration is compared with a plain kernel in double
 * that shares no code with it, run twice for equal bits, and timed as replays of a CUDA graph of 24 launches over
 * rotating weights, more than any L2 holds. A copy is measured in the same run; weights and their scales are shown as
 * a share of its rate.
 *
 *     even [all|check|time] [REPLAYS]
 *     nvcc -O3 -std=c++17 -gencode=arch=compute_90a,code=sm_90a -DFORMAT=stem_nvfp4 -I src/ops \
 *         tests/bench/kernels/even.cu -o even
 */
#define STEM_PDL 1
#include "common/common.cuh"
#include "linear/stream.cuh"
#include "linear/linear.cuh"
#include "experts/groups.cuh"
#include "linear/formats.cuh"
#include "linear/packed_stream.cuh"
#include "linear/fixed.cuh"
#include "linear/linear_even.cuh"
#include "linear/wgmma.cuh"
#include "linear/linear_wide.cuh"

#include "harness.h"
#include "coded.h"

static double copy_rate; /* bytes read and written in a second */
static int sms = 132;
static int early; /* launches may start before their predecessor has ended */

/* Launched one after the other, and early. */
static void measure(int t, int n, int k, const char *config, const std::function<void(int, cudaStream_t)> &launch)
{
    double bytes = (double)(weight_bytes(n, k) + scale_bytes(n, k)), us[2];
    char what[32];
    snprintf(what, sizeof what, "%dx%d", n, k);
    snprintf(current, sizeof current, "linear %s %s", what, config);
    for (early = 0; early < 2; early++)
        us[early] = time_of(launch);
    early = 1;
    printf("%-6s linear %-11s %-32s T=%-2d %7.2f us %5.0f GB/s %5.1f %%   early %7.2f us %5.0f GB/s %5.1f %%\n", name, what, config,
           t, us[0], bytes / us[0] * 1e-3, bytes / us[0] * 1e6 / copy_rate * 100, us[1], bytes / us[1] * 1e-3,
           bytes / us[1] * 1e6 / copy_rate * 100);
    fflush(stdout);
}

static bf16 *X, *Y;

/* ---- kernels under test ---- */

#ifndef WIDE
/* G: F, or its form in fixed point. */
template <class G, int MT, int NT, int STAGES, int WARPS, int BLOCKS, int CL>
__global__ void __launch_bounds__(32 * WARPS, BLOCKS) __cluster_dims__(CL, 1, 1)
    k_even(const bf16 *x, const void *w, const void *s, const void *whole, bf16 *y, int m, int n, int k, int most, int each)
{
    stem_linear_even<G, MT, NT, STAGES, WARPS, CL, true, false>(x, w, s, whole, stem_store_plain<bf16>{y, n}, m, n, k, most, each);
}

/* One way to cut a product; BLOCKS is what registers and shared memory leave room for on a multiprocessor, per_sm how many
 * there are. */
template <class G, int MT, int NT, int STAGES, int WARPS, int BLOCKS, int CL> struct config {
    static constexpr int MOST = G::TOKENS * NT;
    int grid, each, smem;
    bool fits;
    config(int m, int n, int k, int per_sm)
    {
        int chunks = (k + G::CHUNK - 1) / G::CHUNK, count = std::min(m, MOST), tiles = (n + 16 * MT - 1) / (16 * MT);
        int clusters = std::min(tiles, CL > 2 ? sms * 10 / 11 / CL * per_sm : sms * per_sm / CL);
        int ring = WARPS * STAGES * stem_even_stage_bytes<G, MT>;
        int kept = ((chunks + CL - 1) / CL * count * stem_even_room<G>::BYTES + stem_even_room<G>::ZEROS + 15) / 16 * 16;
        int slot = count * stem_even_slot_floats<MT> * 4, sum = CL > 1 ? count * 16 * MT * 4 : 0, spare = (CL - 1) * count * 16 + 16;
        int room = (BLOCKS == 1 ? 227 << 10 : (228 << 10) / BLOCKS - 1024) - ring - kept - spare - (WARPS - 1) * slot;
        grid = clusters * CL;
        each = std::min((tiles + clusters - 1) / clusters, room / (slot + sum));
        fits = room > 0 && each > 0 && chunks >= CL;
        smem = ring + kept + spare + (each + WARPS - 1) * slot + each * sum;
        if (fits)
            allow(k_even<G, MT, NT, STAGES, WARPS, BLOCKS, CL>, smem);
    }
    void run(const bf16 *x, const void *w, const void *s, const void *whole, bf16 *y, int m, int n, int k,
             cudaStream_t stream) const
    {
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t c = {};
        c.gridDim = dim3(grid, (m + MOST - 1) / MOST);
        c.blockDim = dim3(32 * WARPS);
        c.dynamicSmemBytes = smem;
        c.stream = stream;
        c.attrs = &attribute;
        c.numAttrs = early;
        CHECK(cudaLaunchKernelEx(&c, k_even<G, MT, NT, STAGES, WARPS, BLOCKS, CL>, x, w, s, whole, y, m, n, k, MOST, each));
    }
};

template <class G, int MT, int NT, int STAGES, int WARPS, int BLOCKS, int CL> static void check(int m, int n, int k, int per_sm)
{
    config<G, MT, NT, STAGES, WARPS, BLOCKS, CL> c(m, n, k, per_sm);
    weight w = place(n, k, 3);
    char what[128];
    snprintf(what, sizeof what, "%s%s %dx%dx%d mt%d nt%d s%d w%d cl%d each%d grid%d", name,
             G::TOKENS == 1 ? " fixed" : "", m, n, k, MT, NT, STAGES, WARPS, CL,
             c.each, c.grid);
    if (!c.fits) {
        printf("does not fit: %s\n", what);
        return;
    }
    bf16 *x = random_array<bf16>((size_t)m * k, 1 + m, 1), *y = random_array<bf16>((size_t)m * n, 3, 1),
         *ref = random_array<bf16>((size_t)m * n, 4, 1);
    r_linear<<<dim3((n + 127) / 128, m), 128>>>(x, w.w, w.s, tensor_scale(), ref, m, n, k);
    compare<bf16>(what, y, ref, (size_t)m * n, [&] { c.run(x, w.w, w.s, tensor_scale(), y, m, n, k, 0); });
    for (void *p : {(void *)x, (void *)y, (void *)ref})
        CHECK(cudaFree(p));
}

template <class G, int MT, int NT, int STAGES, int WARPS, int BLOCKS, int CL> static void time_one(int t, int n, int k)
{
    for (int per_sm = 1; per_sm <= BLOCKS; per_sm++) {
        config<G, MT, NT, STAGES, WARPS, BLOCKS, CL> c(t, n, k, per_sm);
        if (!c.fits)
            return;
        char config[64];
        snprintf(config, sizeof config, "mt%d s%d w%d b%d cl%d p%d r%d%s", MT, STAGES, WARPS, BLOCKS, CL, per_sm, c.each, G::TOKENS == 1 ? " fixed" : "");
        measure(t, n, k, config, [&](int i, cudaStream_t s) {
            weight w = place(n, k, i);
            c.run(X, w.w, w.s, tensor_scale(), Y, t, n, k, s);
        });
    }
}

#else
/* linear.cuh's kernel, as the lowering cuts it. */
template <int NT, int STAGES, int CL>
__global__ void __launch_bounds__(256) __cluster_dims__(CL, 1, 1) k_few(const bf16 *x, const bf16 *w, bf16 *y, int m, int n, int k)
{
    stem_linear<bf16, bf16, NT, STAGES, 8, 1, CL, true>(x, w, y, m, n, k);
}
template <int NT, int STAGES, int CL> static void time_few(int t, int n, int k)
{
    int smem = 8 * (STAGES * stem_stage_bytes<1, NT> + 8 * NT * STEM_TILE_LD * 4) + (CL > 1 ? 8 * NT * 16 * 4 + 16 : 0);
    allow(k_few<NT, STAGES, CL>, smem);
    int most = (CL > 2 ? sms * 10 / 11 : sms) * ((228 << 10) / (smem + 1024));
    char config[64];
    snprintf(config, sizeof config, "few nt%d s%d cl%d", NT, STAGES, CL);
    measure(t, n, k, config, [&](int i, cudaStream_t s) {
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t c = {};
        c.gridDim = dim3(std::min(n / 16, most / CL) * CL, (t + 8 * NT - 1) / (8 * NT));
        c.blockDim = dim3(256);
        c.dynamicSmemBytes = smem;
        c.stream = s;
        c.attrs = &attribute;
        c.numAttrs = early;
        CHECK(cudaLaunchKernelEx(&c, k_few<NT, STAGES, CL>, (const bf16 *)X, (const bf16 *)place(n, k, i).w, Y, t, n, k));
    });
}

#endif

#include "even_wgmma.h"
#include "even_cases.h"

int main(int argc, char **argv)
{
    const std::string what = argc > 1 ? argv[1] : "all";
    replays = argc > 2 ? atoi(argv[2]) : 10;
    make_pool();
    if (what == "all" || what == "check") {
        check_all();
        printf("%s: %d failures\n", name, failures);
        fflush(stdout);
    }
    if (what == "all" || what == "time") {
        copy_rate = measure_copy();
        X = random_array<bf16>(64 * 16384, 1, 1);
        Y = random_array<bf16>((size_t)64 * 151936, 2, 1);
        time_all();
    }
    return failures != 0;
}
