/* SPDX-License-Identifier: Apache-2.0
 *
 * linear and experts with weights in 8 and 4 bits: each configuration is compared with a plain kernel in double that
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
#include "linear/linear_packed.cuh"
#include "experts/group_stream.cuh"
#include "experts/experts_packed.cuh"

#include "harness.h"

typedef FORMAT F;
typedef unsigned char byte;
static const bool is_f8 = std::is_same<F, stem_f8>::value, is_nvfp4 = std::is_same<F, stem_nvfp4>::value;
static const char *const name = is_f8 ? "f8e4m3" : is_nvfp4 ? "nvfp4" : "int4";
static double copy_rate; /* bytes read and written in a second */

/* ---- plain kernels ---- */

__constant__ float e2m1[16] = {0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6};

/* Row `row` of weights times x, both of k elements; f8: row `srow` of scales. */
__device__ static double r_product(const bf16 *x, const byte *w, const void *s, size_t row, size_t srow, int k)
{
    double sum = 0;
    for (int b = 0; b < k; b += 128) {
        float amax = 1e-4f;
        for (int i = b; i < min(k, b + 128); i++)
            amax = fmaxf(amax, fabsf((float)x[i]));
        double part = 0;
        for (int i = b; i < min(k, b + 128); i++) {
            size_t at = row * k + i;
            double v = (double)(float)x[i];
            if (is_f8) {
                v = (double)(float)__nv_fp8_e4m3((float)x[i] * (448.0f / amax)) * ((double)amax / 448);
                part += v * (double)(float)((const __nv_fp8_e4m3 *)w)[at] *
                        (double)((const float *)s)[srow * ((k + 127) / 128) + b / 128];
                continue;
            }
            int code = w[at / 2] >> (at % 2 * 4) & 15;
            if (is_nvfp4)
                part += v * (double)e2m1[code] * (double)(float)((const __nv_fp8_e4m3 *)s)[at / 16];
            else
                part += v * (code - 8) * (double)(float)((const bf16 *)s)[at / 32];
        }
        sum += part;
    }
    return sum;
}
__global__ void r_linear(const bf16 *x, const byte *w, const void *s, const float *whole, bf16 *y, int m, int n, int k)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (c < n)
        y[(size_t)r * n + c] = (bf16)(float)(r_product(x + (size_t)r * k, w, s, c, c / 128, k) * (whole ? *whole : 1));
}
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

template <int MT, int NT, int STAGES, int KP, int G, int CL, bool KEEP>
__global__ void __launch_bounds__(32 * KP * G, blocks_for(MT, NT, KP * G)) __cluster_dims__(CL, 1, 1)
    k_linear(const bf16 *x, const void *w, const void *s, const void *whole, bf16 *y, int m, int n, int k, int kept)
{
    stem_linear_packed<F, MT, NT, STAGES, KP, G, CL, KEEP, true, false>(x, w, s, whole, stem_store_plain<bf16>{y, n}, m,
                                                                       n, k, kept);
}
template <int MT, int STAGES, int WARPS, bool KEEP, bool ONE>
__global__ void __launch_bounds__(32 * WARPS, blocks_for(MT, 1, WARPS))
    k_up(const bf16 *x, const int *ids, const void *w13, const void *s, const void *whole, bf16 *h, int tokens, int k,
         int experts, int hidden, int inter, int tile, int width)
{
    stem_experts_up_packed<F, MT, 1, STAGES, WARPS, STEM_ACT_SILU, KEEP, ONE>(x, ids, w13, s, whole, h, tokens, k, experts,
                                                                             hidden, inter, tile, width);
}
template <int MT, int STAGES, int WARPS, bool ONE>
__global__ void __launch_bounds__(32 * WARPS, blocks_for(MT, 1, WARPS))
    k_down(const bf16 *h, const int *ids, const float *weight, const void *w2, const void *s, const void *whole, bf16 *y,
           int tokens, int k, int experts, int hidden, int inter, int tile)
{
    stem_experts_down_packed<F, MT, STAGES, WARPS, ONE ? 1 : 2, true, ONE>(
        h, ids, weight, w2, s, whole, stem_store_plain<bf16>{y, hidden}, tokens, k, experts, hidden, inter, tile);
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

template <int MT, int NT, int STAGES, int KP, int G, int CL, bool KEEP> struct config_linear {
    int chunks, kept, smem, per_sm, sms = 132;
    config_linear(int m, int k)
    {
        chunks = (k + F::CHUNK - 1) / F::CHUNK;
        kept = KEEP ? (chunks + KP * CL - 1) / (KP * CL) * stem_packed_token_bytes<F> * std::min(m, 8 * NT) : 0;
        kept = (kept + 15) / 16 * 16;
        smem = KP * G * (STAGES * stem_packed_stage_bytes<F, MT> + 8 * NT * (16 * MT + 4) * 4) + KP * kept +
               (CL > 1 ? G * 8 * NT * 16 * MT * 4 : 0);
        per_sm = 0;
        if (smem <= 227 << 10) {
            allow(k_linear<MT, NT, STAGES, KP, G, CL, KEEP>, smem);
            per_sm = resident(k_linear<MT, NT, STAGES, KP, G, CL, KEEP>, 32 * KP * G, smem);
        }
    }
    bool fits() const { return per_sm > 0 && chunks >= KP * CL; }
    void run(const bf16 *x, const void *w, const void *s, const void *whole, bf16 *y, int m, int n, int k,
             cudaStream_t stream) const
    {
        int items = (n + 16 * MT * G - 1) / (16 * MT * G), most = sms * per_sm / CL;
        start(k_linear<MT, NT, STAGES, KP, G, CL, KEEP>,
              dim3(std::min(items, most) * CL, (m + 8 * NT - 1) / (8 * NT)), 32 * KP * G, smem, stream, x, w, s, whole, y,
              m, n, k, kept);
    }
};

/* KEEP: two tokens of a group are kept, others are another group. ONE: of a token alone. */
template <int MT, int STAGES, int WARPS, bool KEEP, bool ONE> struct config_up {
    int width = ONE ? 1 : KEEP ? 2 : 8, smem, per_sm = 0;
    explicit config_up(const shape &d)
    {
        int kept = KEEP ? (d.hidden + F::CHUNK - 1) / F::CHUNK * width * stem_packed_token_bytes<F> : 0;
        smem = WARPS * (STAGES * stem_packed_stage_bytes<F, MT> + 2 * width * (16 * MT + 4) * 4) + (kept + 15) / 16 * 16;
        smem = std::max(smem, d.experts * 4 + 4100);
        if (smem > 221 << 10)
            return;
        allow(k_up<MT, STAGES, WARPS, KEEP, ONE>, smem);
        per_sm = resident(k_up<MT, STAGES, WARPS, KEEP, ONE>, 32 * WARPS, smem);
    }
    void run(const bf16 *x, const int *ids, const void *w13, const void *s, const void *whole, bf16 *h, const shape &d,
             cudaStream_t stream) const
    {
        int items = std::min(d.experts, d.tile() * d.k) * ((d.inter + 8 * MT - 1) / (8 * MT));
        start(k_up<MT, STAGES, WARPS, KEEP, ONE>, dim3(std::min(items, 132 * per_sm), d.tiles()), 32 * WARPS, smem, stream, x,
              ids, w13, s, whole, h, d.tokens, d.k, d.experts, d.hidden, d.inter, d.tile(), width);
    }
};

template <int MT, int STAGES, int WARPS, bool ONE> struct config_down {
    int smem, per_sm = 0;
    explicit config_down(const shape &d)
    {
        smem = std::max(WARPS * STAGES * stem_down_stage_bytes<F, MT, ONE ? 1 : 2>, ONE ? 0 : d.experts * 4 + 4100) +
               WARPS * d.tile() * (16 * MT + 4) * 4 + d.tile() * d.k * 4;
        if (smem > 221 << 10)
            return;
        allow(k_down<MT, STAGES, WARPS, ONE>, smem);
        per_sm = resident(k_down<MT, STAGES, WARPS, ONE>, 32 * WARPS, smem);
    }
    void run(const bf16 *h, const int *ids, const float *weight, const void *w2, const void *s, const void *whole,
             bf16 *y, const shape &d, cudaStream_t stream) const
    {
        start(k_down<MT, STAGES, WARPS, ONE>, dim3((d.hidden + 16 * MT - 1) / (16 * MT), d.tiles()), 32 * WARPS, smem, stream,
              h, ids, weight, w2, s, whole, y, d.tokens, d.k, d.experts, d.hidden, d.inter, d.tile());
    }
};

/* ---- data ---- */

/* Codes (no NaN), and scales that are sane as any of their types: bytes 0x38 .. 0x3f. */
__global__ void fill_bytes(uint4 *p, size_t n, bool scales)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        unsigned w[4];
        for (int j = 0; j < 4; j++) {
            unsigned long long z = (4 * i + j + 1) * 0x9E3779B97F4A7C15ull;
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
            z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
            w[j] = (unsigned)(z >> 31);
            w[j] = scales ? (w[j] & 0x07070707) | 0x38383838 : w[j] & ~((w[j] & 0x38383838) >> 3 & 0x01010101);
            for (int b = 0; b < 4; b++)
                if ((w[j] >> 8 * b & 0x7f) == 0x7f)
                    w[j] ^= 1u << 8 * b;
        }
        p[i] = uint4{w[0], w[1], w[2], w[3]};
    }
}
static const size_t POOL = (size_t)9 << 30;
static byte *pool, *scales;
static size_t scale_room = POOL / 8 + (64 << 20);
static float *wholes;

static size_t weight_bytes(size_t rows, size_t k)
{
    return is_f8 ? rows * k : rows * k / 2;
}
static size_t scale_bytes(size_t rows, size_t k)
{
    return is_f8 ? (rows + 127) / 128 * ((k + 127) / 128) * 4 : rows * k / 16;
}
/* The i-th weight of these, each somewhere else as long as there is room. */
struct weight {
    const byte *w, *s;
};
static weight place(size_t rows, size_t k, int i)
{
    size_t b = (weight_bytes(rows, k) + 255) / 256 * 256, q = (scale_bytes(rows, k) + 255) / 256 * 256;
    return {pool + b * (i % (POOL / b)), scales + q * (i % (scale_room / q))};
}

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

__global__ void copy_bytes(uint4 *to, const uint4 *from, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        to[i] = from[i];
}

/* The faster of the driver's copy and a plain kernel, 1 GiB at a time. */
static void measure_copy()
{
    const size_t n = (size_t)1 << 30;
    for (int kernel = 0; kernel < 2; kernel++) {
        std::vector<float> times;
        for (int i = 0; i < 12; i++) {
            cudaEvent_t a, b;
            CHECK(cudaEventCreate(&a));
            CHECK(cudaEventCreate(&b));
            CHECK(cudaEventRecord(a));
            if (kernel)
                copy_bytes<<<132 * 16, 512>>>((uint4 *)pool, (uint4 *)(pool + 2 * n), n / 16);
            else
                CHECK(cudaMemcpyAsync(pool, pool + 2 * n, n, cudaMemcpyDeviceToDevice));
            CHECK(cudaEventRecord(b));
            CHECK(cudaEventSynchronize(b));
            float ms;
            CHECK(cudaEventElapsedTime(&ms, a, b));
            times.push_back(ms);
        }
        std::sort(times.begin(), times.end());
        double rate = 2 * (double)n / times[times.size() / 2] * 1e3;
        copy_rate = std::max(copy_rate, rate);
        printf("copy by %s, read and written: %.0f GB/s\n", kernel ? "a kernel" : "the driver", rate * 1e-9);
    }
}

int main(int argc, char **argv)
{
    const std::string what = argc > 1 ? argv[1] : "all";
    CHECK(cudaMalloc(&pool, POOL));
    CHECK(cudaMalloc(&scales, scale_room));
    fill_bytes<<<2048, 256>>>((uint4 *)pool, POOL / 16, false);
    fill_bytes<<<2048, 256>>>((uint4 *)scales, scale_room / 16, true);
    wholes = random_array<float>(4096, 77, 0.01f);
    CHECK(cudaDeviceSynchronize());
    if (what == "all" || what == "check") {
        check_all();
        printf("%s: %d failures\n", name, failures);
    }
    if (what == "all" || what == "time") {
        measure_copy();
        fill_bytes<<<2048, 256>>>((uint4 *)pool, POOL / 16, false);
        time_all();
    }
    return failures != 0;
}
