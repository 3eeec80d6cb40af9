/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights in FORMAT for programs that measure kernels: a pool of random ones, a plain product in double, and the rate of
 * a copy. FORMAT is one of formats.cuh, or `wide` for bf16. After harness.h.
 */
struct wide {
    static constexpr int CHUNK = 64;
};
typedef FORMAT F;
typedef unsigned char byte;
/* Its form in fixed point (fixed.cuh), if it has one. */
template <class F> struct fixed_of {
    typedef F form;
};
template <> struct fixed_of<stem_nvfp4> {
    typedef stem_nvfp4_fixed form;
};
template <> struct fixed_of<stem_int4> {
    typedef stem_int4_fixed form;
};
typedef fixed_of<F>::form FIXED;
#define HAS_FIXED (!std::is_same<F, FIXED>::value)
#define IS_F8 (std::is_same<F, stem_f8>::value)
#define IS_NVFP4 (std::is_same<F, stem_nvfp4>::value)
#define IS_WIDE (std::is_same<F, wide>::value)
static const char *const name = IS_F8 ? "f8e4m3" : IS_NVFP4 ? "nvfp4" : IS_WIDE ? "bf16" : "int4";

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
            if (IS_WIDE) {
                part += v * (double)(float)((const bf16 *)w)[at];
                continue;
            }
            if (IS_F8) {
                v = (double)(float)__nv_fp8_e4m3((float)x[i] * (448.0f / amax)) * ((double)amax / 448);
                part += v * (double)(float)((const __nv_fp8_e4m3 *)w)[at] *
                        (double)((const float *)s)[srow * ((k + 127) / 128) + b / 128];
                continue;
            }
            int code = w[at / 2] >> (at % 2 * 4) & 15;
            if (IS_NVFP4)
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

/* Codes (no NaN), and scales that are sane as any of their types: bytes 0x38 .. 0x3f. wide: numbers of bf16 around 1. */
__global__ void fill_bytes(uint4 *p, size_t n, bool scales, bool wide)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        unsigned w[4];
        for (int j = 0; j < 4; j++) {
            unsigned long long z = (4 * i + j + 1) * 0x9E3779B97F4A7C15ull;
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
            z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
            w[j] = (unsigned)(z >> 31);
            if (wide) {
                w[j] = (w[j] & 0x80ff80ff) | 0x3f003f00;
                continue;
            }
            w[j] = scales ? (w[j] & 0x07070707) | 0x38383838 : w[j] & ~((w[j] & 0x38383838) >> 3 & 0x01010101);
            for (int b = 0; b < 4; b++)
                if ((w[j] >> 8 * b & 0x7f) == 0x7f)
                    w[j] ^= 1u << 8 * b;
        }
        p[i] = uint4{w[0], w[1], w[2], w[3]};
    }
}

#ifndef POOL_BYTES
#define POOL_BYTES ((size_t)3 << 30)
#endif
static const size_t POOL = POOL_BYTES;
static byte *pool, *scales;
static size_t scale_room = POOL / 8 + (64 << 20);
static float *wholes;

static const float *tensor_scale()
{
    return IS_NVFP4 ? wholes : nullptr;
}
static size_t weight_bytes(size_t rows, size_t k)
{
    return IS_WIDE ? rows * k * 2 : IS_F8 ? rows * k : rows * k / 2;
}
static size_t scale_bytes(size_t rows, size_t k)
{
    return IS_WIDE ? 0 : IS_F8 ? (rows + 127) / 128 * ((k + 127) / 128) * 4 : rows * k / 16;
}
/* The i-th weight of these, each somewhere else as long as there is room. */
struct weight {
    const byte *w, *s;
};
static weight place(size_t rows, size_t k, int i)
{
    size_t b = (weight_bytes(rows, k) + 255) / 256 * 256, q = (scale_bytes(rows, k) + 255) / 256 * 256;
    return {pool + b * (i % (POOL / b)), scales + (q ? q * (i % (scale_room / q)) : 0)};
}
static void fill_pool()
{
    fill_bytes<<<2048, 256>>>((uint4 *)pool, POOL / 16, false, IS_WIDE);
}
static void make_pool()
{
    CHECK(cudaMalloc(&pool, POOL));
    CHECK(cudaMalloc(&scales, scale_room));
    fill_pool();
    fill_bytes<<<2048, 256>>>((uint4 *)scales, scale_room / 16, true, false);
    wholes = random_array<float>(4096, 77, 0.01f);
    CHECK(cudaDeviceSynchronize());
}

__global__ void copy_bytes(uint4 *to, const uint4 *from, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        to[i] = from[i];
}

/* Bytes read and written in a second by the faster of the driver's copy and a plain kernel, 1 GiB at a time. */
static double measure_copy()
{
    const size_t n = (size_t)1 << 30;
    double best = 0;
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
        best = std::max(best, rate);
        printf("copy by %s, read and written: %.0f GB/s\n", kernel ? "a kernel" : "the driver", rate * 1e-9);
    }
    fill_pool();
    CHECK(cudaDeviceSynchronize());
    return best;
}
