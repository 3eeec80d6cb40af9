/* SPDX-License-Identifier: Apache-2.0
 *
 * experts with weights in 8 and 4 bits: each configuration is compared with a plain kernel in double that
 * shares no code with it, run twice for equal bits, and timed as replays of a CUDA graph of 24 launches over rotating
 * weights, more than any L2 holds. Each is launched as usual and programmatically. A copy is measured in the same run; what a configuration reads
 * (weights and their scales) is shown as a share of its rate.
 *
 *     nvcc -O3 -std=c++17 -gencode=arch=compute_90a,code=sm_90a -DFORMAT=stem_nvfp4 -I src/ops \
 *         tests/bench/kernels/formats.cu -o formats
 */
#define STEM_PDL 1
#include "common/common.cuh"
#include "linear/stream.cuh"
#include "linear/linear.cuh"
#include "experts/groups.cuh"
#include "experts/experts.cuh"
#include "experts/one.cuh"
#include "linear/formats.cuh"
#include "linear/packed_stream.cuh"
#include "linear/fixed.cuh"
#include "experts/group_stream.cuh"
#include "experts/experts_packed.cuh"

#include "harness.h"

#define POOL_BYTES ((size_t)9 << 30)
#include "coded.h"

static double copy_rate; /* bytes read and written in a second */

/* ---- plain kernels ---- */

__global__ void r_up(const bf16 *x, const int *ids, const byte *w13, const void *s, const float *whole, bf16 *h, int k,
                     int experts, int hidden, int inter)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, pair = blockIdx.y, id = ids[pair], ib = (inter + 127) / 128;
    if (i >= inter || id < 0 || id >= experts)
        return;
    const bf16 *row = x + (size_t)(pair / k) * hidden;
    size_t g = (size_t)id * 2 * inter + i, b = (size_t)id * 2 * ib + i / 128;
    double gate = r_product(row, w13, s, g, b, hidden) * (whole ? whole[2 * id] : 1);
    double up = r_product(row, w13, s, g + inter, b + ib, hidden) * (whole ? whole[2 * id + 1] : 1);
    h[(size_t)pair * inter + i] = (bf16)(float)(gate / (1 + exp(-gate)) * up);
}
/* The ids of a token differ. */
__global__ void r_down(const bf16 *h, const int *ids, const float *weight, const byte *w2, const void *s,
                       const float *whole, bf16 *y, int k, int experts, int hidden, int inter)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x, t = blockIdx.y;
    if (c >= hidden)
        return;
    double sum = 0;
    for (int j = 0; j < k; j++) {
        int id = ids[t * k + j];
        if (id >= 0 && id < experts)
            sum += r_product(h + (size_t)(t * k + j) * inter, w2, s, (size_t)id * hidden + c,
                             (size_t)id * ((hidden + 127) / 128) + c / 128, inter) *
                   weight[t * k + j] * (whole ? whole[id] : 1);
    }
    y[(size_t)t * hidden + c] = (bf16)(float)sum;
}

/* ---- kernels under test ---- */

/* Blocks that registers are to leave room for. */
constexpr int blocks_for(int mt, int nt, int warps)
{
    int most = mt * nt == 1 ? 24 : mt * nt == 2 ? 16 : mt * nt == 4 ? 12 : 8;
    return most / warps > 0 ? most / warps : 1;
}

/* G: F, or its form in fixed point. WIDTH: tokens of a group. */
template <class G, int MT, int STAGES, int WARPS, int WIDTH, bool KEEP, bool ONE>
__global__ void __launch_bounds__(32 * WARPS, blocks_for(MT, 1, WARPS))
    k_up(const bf16 *x, const int *ids, const void *w13, const void *s, const void *whole, bf16 *h, int tokens, int k,
         int experts, int hidden, int inter, int tile, int width)
{
    constexpr int NT = (WIDTH + G::TOKENS - 1) / G::TOKENS;
    stem_experts_up_packed<G, MT, NT, STAGES, WARPS, STEM_ACT_SILU, KEEP, ONE>(x, ids, w13, s, whole, h, tokens, k, experts,
                                                                              hidden, inter, tile, width);
}
template <class G, int MT, int STAGES, int WARPS, int WIDTH, bool ONE>
__global__ void __launch_bounds__(32 * WARPS, blocks_for(MT, 1, WARPS))
    k_down(const bf16 *h, const int *ids, const float *weight, const void *w2, const void *s, const void *whole, bf16 *y,
           int tokens, int k, int experts, int hidden, int inter, int tile, int height)
{
    stem_experts_down_packed<G, MT, STAGES, WARPS, WIDTH, true, ONE>(
        h, ids, weight, w2, s, whole, stem_store_plain<bf16>{y, hidden}, tokens, k, experts, hidden, inter, tile, height);
}

static bool programmatic; /* launches may start before their predecessor has ended */

template <class... P, class... A>
static void start(void (*kernel)(P...), dim3 grid, int threads, int smem, cudaStream_t stream, A... args)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t c = {};
    c.gridDim = grid;
    c.blockDim = dim3(threads);
    c.dynamicSmemBytes = smem;
    c.stream = stream;
    c.attrs = &attribute;
    c.numAttrs = programmatic;
    CHECK(cudaLaunchKernelEx(&c, kernel, P(args)...));
}

/* Blocks of a kernel that are resident at once on a multiprocessor. */
template <class K> static int resident(K *kernel, int threads, int smem)
{
    int n = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, kernel, threads, smem));
    return n;
}

template <class G, int MT, int STAGES, int WARPS, int WIDTH, bool KEEP, bool ONE> struct config_up {
    int width = WIDTH, smem, per_sm = 0;
    explicit config_up(const shape &d)
    {
        typedef stem_up_packed_tokens<G, (WIDTH + G::TOKENS - 1) / G::TOKENS, KEEP, const bf16 *> held;
        int kept = (d.hidden + G::CHUNK - 1) / G::CHUNK * width * held::BYTES + held::ZEROS;
        smem = WARPS * (STAGES * stem_packed_stage_bytes<G, MT> + 2 * width * (16 * MT + 4) * 4) + (kept + 15) / 16 * 16;
        smem = std::max(smem, d.experts * 4 + 4100);
        if (smem > 221 << 10)
            return;
        allow(k_up<G, MT, STAGES, WARPS, WIDTH, KEEP, ONE>, smem);
        per_sm = resident(k_up<G, MT, STAGES, WARPS, WIDTH, KEEP, ONE>, 32 * WARPS, smem);
    }
    void run(const bf16 *x, const int *ids, const void *w13, const void *s, const void *whole, bf16 *h, const shape &d,
             cudaStream_t stream) const
    {
        int items = std::min(d.experts, d.tile() * d.k) * ((d.inter + 8 * MT - 1) / (8 * MT));
        start(k_up<G, MT, STAGES, WARPS, WIDTH, KEEP, ONE>, dim3(std::min(items, 132 * per_sm), d.tiles()), 32 * WARPS, smem, stream, x,
              ids, w13, s, whole, h, d.tokens, d.k, d.experts, d.hidden, d.inter, d.tile(), width);
    }
};

template <class G, int MT, int STAGES, int WARPS, int WIDTH, bool ONE> struct config_down {
    int smem, per_sm = 0, height = 16 * MT;
    explicit config_down(const shape &d)
    {
        auto rows = [&](int h) { return ((d.hidden + h - 1) / h + 131) / 132 * h; }; /* of a multiprocessor */
        for (int h = 16 * MT; G::TOKENS == 1 && !IS_NVFP4 && h >= 16 * MT - 8; h -= 4)
            height = rows(h) < rows(height) ? h : height;
        smem = std::max(WARPS * stem_down_ring_bytes<G, MT, STAGES, WIDTH>, ONE ? 0 : d.experts * 4 + 4100) +
               WARPS * d.tile() * (16 * MT + 4) * 4 + d.tile() * d.k * 4;
        if (smem > 221 << 10)
            return;
        allow(k_down<G, MT, STAGES, WARPS, WIDTH, ONE>, smem);
        per_sm = resident(k_down<G, MT, STAGES, WARPS, WIDTH, ONE>, 32 * WARPS, smem);
    }
    void run(const bf16 *h, const int *ids, const float *weight, const void *w2, const void *s, const void *whole,
             bf16 *y, const shape &d, cudaStream_t stream) const
    {
        start(k_down<G, MT, STAGES, WARPS, WIDTH, ONE>, dim3((d.hidden + height - 1) / height, d.tiles()), 32 * WARPS, smem, stream,
              h, ids, weight, w2, s, whole, y, d.tokens, d.k, d.experts, d.hidden, d.inter, d.tile(), height);
    }
};

/* Launched one after the other, and with early launches. */
static void measure(const char *op, const char *what, const char *config, int t, double bytes,
                    const std::function<void(int, cudaStream_t)> &launch)
{
    snprintf(current, sizeof current, "%s %s %s", op, what, config);
    double us[2];
    for (int i = 0; i < 2; i++) {
        programmatic = i;
        us[i] = time_of(launch);
    }
    printf("%-6s %-6s %-11s %-32s T=%-2d %7.2f us %5.0f GB/s %5.1f %%   early %7.2f us %5.0f GB/s %5.1f %%\n", name, op, what,
           config, t, us[0], bytes / us[0] * 1e-3, bytes / us[0] * 1e6 / copy_rate * 100, us[1], bytes / us[1] * 1e-3,
           bytes / us[1] * 1e6 / copy_rate * 100);
    fflush(stdout);
}

#include "formats_cases.h"

int main(int argc, char **argv)
{
    const std::string what = argc > 1 ? argv[1] : "all";
    make_pool();
    if (what == "all" || what == "check") {
        check_all();
        printf("%s: %d failures\n", name, failures);
    }
    if (what == "all" || what == "time") {
        copy_rate = measure_copy();
        time_all();
    }
    return failures != 0;
}
