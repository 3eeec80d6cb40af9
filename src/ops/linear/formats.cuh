/* SPDX-License-Identifier: Apache-2.0
 *
 * Number formats of weights: values of single elements, and a warp's product of a row of x and a row of weights, for
 * any shape and alignment. `scale` is the format's scales: f8e4m3 has a float for each 128 x 128, nvfp4 an e4m3 for
 * each 16 columns, int4 a bf16 for each 32.
 */
#ifndef STEM_FORMATS_CUH
#define STEM_FORMATS_CUH

#ifndef STEM_EMULATED /* the instructions; tests/unit/emulate.h has them in C++ */

/* Pairs of bf16, each operation rounded to nearest even; subnormal numbers are numbers. */
__device__ __forceinline__ unsigned stem_bf16x2_fma(unsigned a, unsigned b, unsigned c)
{
    unsigned d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* a & b | c by one instruction: with two constants the compiler makes two. */
__device__ __forceinline__ unsigned stem_and_or(unsigned a, unsigned b, unsigned c)
{
    unsigned d;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* e4m3 codes of a (low byte) and b, to nearest even, saturating. */
__device__ __forceinline__ unsigned stem_f8_pair(float a, float b)
{
    return __nv_cvt_float2_to_fp8x2(float2{a, b}, __NV_SATFINITE, __NV_E4M3);
}

/* 16 bytes past the first-level cache, of what another kernel wrote. */
__device__ __forceinline__ uint4 stem_fresh16(const void *p)
{
    uint4 v; /* volatile: not before the wait for whoever wrote it */
    asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

/* What no kernel writes, through the first-level cache. */
__device__ __forceinline__ float stem_constant(const float *p)
{
    return __ldg(p);
}

__device__ __forceinline__ unsigned stem_shared2(unsigned from)
{
    unsigned short v;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(from) : "memory");
    return v;
}

/* 4 bytes from global to shared memory. */
__device__ __forceinline__ void stem_copy4(unsigned to, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ unsigned stem_shared4(unsigned from)
{
    unsigned v;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
    return v;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
/* Two of four e4m3 codes as f16, exactly; NaN is 480. which: 0x1404 the low ones, 0x3424 the high ones. */
__device__ __forceinline__ unsigned stem_f8_widen(unsigned codes, unsigned which)
{
    unsigned v = __byte_perm(codes, 0, which), d;
    v = (v & 0x80008000) | (v & 0x7f007f00) >> 1;
    asm("mul.f16x2 %0, %1, %2;" : "=r"(d) : "r"(v), "r"(0x5c005c00)); /* 2^8 */
    return d;
}
#endif

/* m16n8k32 on e4m3: each word four values of k. Without it, twice m16n8k16. */
__device__ __forceinline__ void stem_mma_f8(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                            unsigned b0, unsigned b1)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
#pragma unroll
    for (int i = 0; i < 2; i++) {
        unsigned which = i ? 0x3424 : 0x1404;
        stem_mma((const __half *)nullptr, c, stem_f8_widen(a0, which), stem_f8_widen(a1, which),
                 stem_f8_widen(a2, which), stem_f8_widen(a3, which), stem_f8_widen(b0, which),
                 stem_f8_widen(b1, which));
    }
#else
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#endif
}

#endif /* STEM_EMULATED */

/* ---- values ---- */

/* The value of an e4m3 code, exactly. */
__device__ __forceinline__ float stem_e4m3(unsigned code)
{
    float v = __uint_as_float((code & 0x80) << 24 | (code & 0x7f) << 20) * 0x1p120f;
    return (code & 0x7f) == 0x7f ? __uint_as_float(0x7fffffff) : v;
}

/* The value of an e2m1 code: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives. */
__device__ __forceinline__ float stem_e2m1(unsigned code)
{
    return __uint_as_float((code & 8) << 28 | (code & 7) << 22) * 0x1p126f;
}

/* Element i of 4 bits. */
__device__ __forceinline__ unsigned stem_nibble(const void *p, long long i)
{
    return ((const unsigned char *)p)[i >> 1] >> (4 * (i & 1)) & 15;
}

/* Activations for f8e4m3 weights are quantised for each token and 128 columns: the code is e4m3(x * up), its value
 * times `down` stands for x. amax is the largest |x|. */
struct stem_f8_scale {
    float up, down;
};
__device__ __forceinline__ stem_f8_scale stem_f8_scale_of(float amax)
{
    amax = fmaxf(amax, 1e-4f);
    return {448.0f / amax, amax / 448.0f};
}

__device__ __forceinline__ unsigned stem_bf16x2_mul(unsigned a, unsigned b)
{
    return stem_bf16x2_fma(a, b, 0x80008000u); /* -0: the sign of a zero stays */
}

__device__ __forceinline__ unsigned stem_word(const uint4 &v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* ---- formats ----
 *
 * product: of a row of x and a row of weights, by a warp; any shape.
 *
 * The rest is for tensor cores. A stage holds CHUNK columns of each row, 128 bytes and SCALES bytes of scales. Lane 4g +
 * t multiplies rows g and g + 8 of 16 with token g of 8. The order of k is permuted alike in weights and tokens: the
 * lane's 16 bytes at 64h + 16t of a row, h = 0, 1, are its share of several products. A token's share of a stage is
 * PIECES pieces of 16 bytes. UNIT times a sum of products is the sum that the format means. A lane has SUMS sums for
 * TOKENS tokens. */

/* Rows of x that are quantised already: their codes, and a scale for each 128 columns. */
struct stem_f8_rows {
    const unsigned char *code;
    const float *down;
};
template <class Rows> constexpr bool stem_is_coded = false;
template <> constexpr bool stem_is_coded<stem_f8_rows> = true;

/* Rows from `row` on, of k columns. */
template <class E> __device__ __forceinline__ const E *stem_rows_from(const E *x, long long row, int k)
{
    return x + row * k;
}
__device__ __forceinline__ stem_f8_rows stem_rows_from(const stem_f8_rows &x, long long row, int k)
{
    return {x.code + row * k, x.down + row * ((k + 127) / 128)};
}

struct stem_f8 {
    static constexpr int CHUNK = 128, SCALES = 0, PIECES = 2, TOKENS = 8, SUMS = 4;
    static constexpr float UNIT = 1;
    static __device__ __forceinline__ float product(const stem_f8_rows &x, const void *w, const void *scale, long long row,
                                                    long long block_row, int k)
    {
        const unsigned char *code = (const unsigned char *)w + row * k;
        const float *s = (const float *)scale + block_row * ((k + 127) / 128);
        float sum = 0;
        for (int b = 0; b < k; b += 128) {
            float part = 0;
            for (int at = b + (threadIdx.x & 31); at < min(b + 128, k); at += 32)
                part += stem_e4m3(x.code[at]) * stem_e4m3(code[at]);
            sum += part * (x.down[b / 128] * s[b / 128]);
        }
        return stem_warp_sum(sum);
    }
    template <class E>
    static __device__ __forceinline__ float product(const E *x, const void *w, const void *scale, long long row,
                                                    long long block_row, int k)
    {
        const unsigned char *code = (const unsigned char *)w + row * k;
        const float *s = (const float *)scale + block_row * ((k + 127) / 128);
        int lane = threadIdx.x & 31;
        float sum = 0;
        for (int b = 0; b < k; b += 128) {
            float v[4], amax = 0, part = 0;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int at = b + lane + 32 * i;
                v[i] = at < k ? stem_float(x[at]) : 0.0f;
                amax = fmaxf(amax, fabsf(v[i]));
            }
            stem_f8_scale q = stem_f8_scale_of(stem_warp_max(amax));
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (b + lane + 32 * i < k)
                    part += stem_e4m3(stem_f8_pair(v[i] * q.up, 0) & 255) * stem_e4m3(code[b + lane + 32 * i]);
            sum += part * (q.down * s[b / 128]);
        }
        return stem_warp_sum(sum);
    }

    /* This lane's share of 128 columns: eight from each of these on, h, i = 0, 1. */
    static __device__ __forceinline__ int column(int h, int i)
    {
        return 64 * h + 16 * (threadIdx.x & 3) + 8 * i;
    }
    /* Of columns k .. k + 127 of its token. */
    static __device__ __forceinline__ void load(const __nv_bfloat16 *x, int k, int K, uint4 (&raw)[4])
    {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int at = k + column(i >> 1, i & 1);
            raw[i] = at < K ? stem_fresh16(x + at) : uint4{0, 0, 0, 0};
        }
    }
    /* Quantises these columns; all lanes call it. Returns the scale. */
    static __device__ __forceinline__ float quantise(const uint4 (&raw)[4], uint4 (&piece)[PIECES])
    {
        unsigned v[16];
        unsigned most = 0;
#pragma unroll
        for (int i = 0; i < 16; i++) { /* of numbers that are not negative, the greatest bits are the greatest number */
            v[i] = stem_word(raw[i >> 2], i & 3);
            most = max(most, max(v[i] & 0x7fff, v[i] >> 16 & 0x7fff));
        }
        most = max(most, __shfl_xor_sync(0xffffffffu, most, 1));
        most = max(most, __shfl_xor_sync(0xffffffffu, most, 2));
        stem_f8_scale s = stem_f8_scale_of(__uint_as_float(most << 16));
#pragma unroll
        for (int h = 0; h < 2; h++) {
            unsigned code[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                unsigned a = v[8 * h + 2 * j], b = v[8 * h + 2 * j + 1];
                code[j] = stem_f8_pair(__uint_as_float(a << 16) * s.up, __uint_as_float(a & 0xffff0000u) * s.up) |
                          stem_f8_pair(__uint_as_float(b << 16) * s.up, __uint_as_float(b & 0xffff0000u) * s.up) << 16;
            }
            piece[h] = uint4{code[0], code[1], code[2], code[3]};
        }
        return s.down;
    }
};

/* The formats of 4 bits, whose products are of bf16. F::value is a weight. The eight codes of a word become four words of
 * two, 0 and 4, 1 and 5, 2 and 6, 3 and 7. */
template <class F> struct stem_dequantised {
    static constexpr int CHUNK = 256, SCALES = 16, PIECES = 8, TOKENS = 8, SUMS = 4;
    template <class E>
    static __device__ __forceinline__ float product(const E *x, const void *w, const void *scale, long long row,
                                                    long long, int k)
    {
        float sum = 0;
        for (int i = threadIdx.x & 31; i < k; i += 32)
            sum += stem_float(x[i]) * F::value(w, scale, row * k + i);
        return stem_warp_sum(sum);
    }

    /* Half h of a stage's columns of this lane's token, which is at x: the eight columns of each of its four words, which
     * F::column(h, i) says. */
    static __device__ __forceinline__ void load(const __nv_bfloat16 *x, int h, uint4 (&raw)[4])
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
            raw[i] = stem_fresh16(x + F::column(h, i));
    }
    /* In the order of a word's weights. */
    static __device__ __forceinline__ uint4 permuted(const uint4 &v)
    {
        return uint4{__byte_perm(v.x, v.z, 0x5410), __byte_perm(v.x, v.z, 0x7632), __byte_perm(v.y, v.w, 0x5410),
                     __byte_perm(v.y, v.w, 0x7632)};
    }
};

/* scale() makes the factors of the two halves of a lane's 32 weights, expand() the weights of a word. */
struct stem_nvfp4 : stem_dequantised<stem_nvfp4> {
    static constexpr float UNIT = 128;
    static __device__ __forceinline__ int column(int h, int i)
    {
        return 128 * h + 32 * (threadIdx.x & 3) + 8 * i;
    }
    static __device__ __forceinline__ float value(const void *w, const void *scale, long long i)
    {
        return stem_e2m1(stem_nibble(w, i)) * stem_e4m3(((const unsigned char *)scale)[i / 16]);
    }
    /* The two e4m3 scales in `bits`, times 2^119, each twice: as bf16, bits << 4 is 2^-120 times the scale. */
    static __device__ __forceinline__ void scale(unsigned bits, unsigned (&factor)[2])
    {
        unsigned both = __byte_perm(bits, 0, 0x4140) << 4;
        both = stem_bf16x2_mul(stem_bf16x2_mul(both, 0x7b807b80u), 0x7b007b00u); /* 2^120, 2^119 */
        factor[0] = __byte_perm(both, 0, 0x1010);
        factor[1] = __byte_perm(both, 0, 0x3232);
    }
    /* A code's sign and its other three bits, in the place of a bf16's sign and lowest exponent and highest fraction
     * bits, are 2^-126 times its value, the 0.5 a subnormal. One multiplication moves both parts. */
    static __device__ __forceinline__ void expand(unsigned q, unsigned factor, unsigned (&w)[4])
    {
        unsigned high = q >> 8;
        w[0] = stem_bf16x2_mul((q & 0x000f000f) * 0x1040 & 0x81c081c0u, factor);
        w[1] = stem_bf16x2_mul((q & 0x00f000f0) * 0x0104 & 0x81c081c0u, factor);
        w[2] = stem_bf16x2_mul((high & 0x000f000f) * 0x1040 & 0x81c081c0u, factor);
        w[3] = stem_bf16x2_mul((high & 0x00f000f0) * 0x0104 & 0x81c081c0u, factor);
    }
};

/* The order of k is another one here: the lane's share of the 16 bytes of each 32 columns is the word at 4t, so that all
 * products of an instruction have one scale, which their sum is multiplied by. */
struct stem_int4 : stem_dequantised<stem_int4> {
    static constexpr float UNIT = 1;
    static __device__ __forceinline__ float value(const void *w, const void *scale, long long i)
    {
        return ((float)stem_nibble(w, i) - 8.0f) * stem_float(((const __nv_bfloat16 *)scale)[i / 32]);
    }
    static __device__ __forceinline__ int column(int h, int i)
    {
        return 128 * h + 32 * i + 8 * (threadIdx.x & 3);
    }
    /* 0x4300 | code is 128 + code; times 1 less 136 is what the code means, exactly, by the units of floats, which have time. */
    static __device__ __forceinline__ void expand(unsigned q, unsigned (&w)[4])
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
            w[i] = stem_bf16x2_fma(stem_and_or(q >> 4 * i, 0x000f000fu, 0x43004300u), 0x3f803f80u, 0xc308c308u);
    }
};

#endif
