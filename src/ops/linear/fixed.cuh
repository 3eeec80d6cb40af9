/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of few tokens with weights of 4 bits in whole numbers, by mma.m16n8k32 on s8: an instruction unpacks four
 * weights of 4 bits to bytes, where bf16 takes one for each. Tokens are in fixed point: the 32 columns of a *block* share a
 * power of two, and each is a whole number of 15 bits and a sign, in two digits, hi * 256 + lo. Sums of digits' products are exact.
 *
 * A lane has 16 bytes of a row, 32 weights, so the four lanes that share rows have different blocks, and a product adds up
 * what belongs to different scales. The token's digits keep them apart: column 2t of B is the high digits of lane t's
 * block, column 2t + 1 the low ones, with zeros where other lanes have their weights. So an accumulator of lane t holds sums
 * of lane t's own block, and one scale for the lane ends the product of a block. Tokens come one after the other; the weights are
 * unpacked once for all. After packed_stream.cuh, whose stages it multiplies.
 */
#ifndef STEM_FIXED_CUH
#define STEM_FIXED_CUH

#ifndef STEM_EMULATED /* the instructions; tests/unit/emulate/formats.h has them in C++ */

/* (a & b) ^ c by one instruction. */
__device__ __forceinline__ unsigned stem_and_xor(unsigned a, unsigned b, unsigned c)
{
    unsigned d;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* Byte i is byte (nibble i of the lower half of which) % 8 of high:low; if the nibble is 8 or more, the sign of that byte in all bits. */
__device__ __forceinline__ unsigned stem_choose(unsigned low, unsigned high, unsigned which)
{
    unsigned d;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(low), "r"(high), "r"(which));
    return d;
}

/* q >> 16, by a product of 16 bits with 1: on the units of multiplication, where a shift takes those of logic, which are short. */
__device__ __forceinline__ unsigned stem_high_half(unsigned q)
{
    unsigned d;
    asm("dp2a.lo.u32.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(q), "r"(0x0100), "r"(0));
    return d;
}

/* The greater ones of two pairs of 16 bits. */
__device__ __forceinline__ unsigned stem_greater(unsigned a, unsigned b)
{
    return __vmaxu2(a, b);
}

/* The values of two e4m3 codes that are not negative. */
__device__ __forceinline__ float2 stem_e4m3_two(unsigned codes)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
    return float2{stem_e4m3(codes & 255), stem_e4m3(codes >> 8 & 255)};
#else
    unsigned two;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(two) : "h"((unsigned short)codes));
    return __half22float2(*(__half2 *)&two);
#endif
}

__device__ __forceinline__ void stem_mma_s8(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ float2 stem_shared_floats(unsigned from)
{
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(from) : "memory");
    return v;
}

#endif /* STEM_EMULATED */

/* ---- formats ----
 *
 * A part is what has one scale of the lane's 16 bytes of a row: PARTS of them, of four products each. expand() makes the rows'
 * weights of each, whole numbers, of rows g and g + 8; pick() the digits that go with them. UNIT times a sum of products is what
 * it means. A token's columns of a chunk are BYTES of shared memory. */

struct stem_fixed {
    static constexpr int CHUNK = 256, SCALES = 16, TOKENS = 1, SUMS = 2; /* sums: of rows g and g + 8 */
    static constexpr int BYTES = 544, ZEROS = 64;
};

struct stem_int4_fixed : stem_fixed {
    static constexpr int PARTS = 1;
    static constexpr float UNIT = 1.0f / 16;
    /* 16 * (code - 8): the code's bits, the highest inverted, on top of a byte. Codes 0, 2, 4, 6 of a word, then the others. */
    static __device__ __forceinline__ void expand(const uint4 &low, const uint4 &high, int, unsigned (&a)[4][4])
    {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            unsigned p = stem_word(low, i), q = stem_word(high, i);
            a[i][0] = stem_and_xor(p << 4, 0xf0f0f0f0u, 0x80808080u);
            a[i][1] = stem_and_xor(q << 4, 0xf0f0f0f0u, 0x80808080u);
            a[i][2] = stem_and_xor(p, 0xf0f0f0f0u, 0x80808080u);
            a[i][3] = stem_and_xor(q, 0xf0f0f0f0u, 0x80808080u);
        }
    }
    static __device__ __forceinline__ uint2 pick(const uint4 (&b)[2], int, int i)
    {
        return uint2{stem_word(b[i >> 1], 2 * (i & 1)), stem_word(b[i >> 1], 2 * (i & 1) + 1)};
    }
    /* The columns of a word's 8 in the order of expand(). */
    static __device__ __forceinline__ int column(int i)
    {
        return 2 * (i & 3) + (i >> 2);
    }
    /* Of the lane's blocks of half h, from its word of a row's scales. */
    static __device__ __forceinline__ void scales(unsigned word, int h, float (&scale)[PARTS])
    {
        scale[0] = __uint_as_float(h ? word & 0xffff0000u : word << 16);
    }
};

struct stem_nvfp4_fixed : stem_fixed {
    static constexpr int PARTS = 2;
    static constexpr float UNIT = 0.5f;
    /* Twice the code's value, of four codes by two tables that the code without its sign is looked up in: a positive value
     * plus 1 and a negative one. Each table gives the other's codes the sign of its own entry, 0 and -1, and both are
     * multiplied by the same token. */
    static __device__ __forceinline__ void expand(const uint4 &low, const uint4 &high, int part, unsigned (&a)[4][4])
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            unsigned p = stem_word(low, 2 * part + i), q = stem_word(high, 2 * part + i);
            unsigned not_p = p ^ 0x88888888u, not_q = q ^ 0x88888888u;
#pragma unroll
            for (int j = 0; j < 2; j++) {
                a[2 * i][2 * j] = stem_choose(0x04030200u, 0x0d090705u, j ? stem_high_half(p) : p);
                a[2 * i][2 * j + 1] = stem_choose(0x04030200u, 0x0d090705u, j ? stem_high_half(q) : q);
                a[2 * i + 1][2 * j] = stem_choose(0xfdfeff00u, 0xf4f8fafcu, j ? stem_high_half(not_p) : not_p);
                a[2 * i + 1][2 * j + 1] = stem_choose(0xfdfeff00u, 0xf4f8fafcu, j ? stem_high_half(not_q) : not_q);
            }
        }
    }
    static __device__ __forceinline__ uint2 pick(const uint4 (&b)[2], int part, int i)
    {
        return uint2{stem_word(b[part], i & 2), stem_word(b[part], (i & 2) + 1)};
    }
    static __device__ __forceinline__ int column(int i)
    {
        return i;
    }
    static __device__ __forceinline__ void scales(unsigned word, int h, float (&scale)[PARTS])
    {
        float2 two = stem_e4m3_two(h ? word >> 16 : word & 0xffff);
        scale[0] = two.x;
        scale[1] = two.y;
    }
};

/* ---- tokens ----
 *
 * A chunk's 256 columns of a token: for each lane t of four the high digits of its two blocks and then the low ones, 128 bytes;
 * then the units of the 8 blocks. Block i is lane i / 2's, columns 32i .. 32i + 31. */

/* Makes it from bf16; all lanes of a warp call it, lane l with columns 8l .. 8l + 7. The largest |x| of a block times `up` is
 * less than 32513, so that the high digit of no number is 128. */
template <class F> __device__ __forceinline__ void stem_fixed_put(char *to, const uint4 &raw)
{
    int lane = threadIdx.x & 31;
    unsigned most = 0, word[4];
#pragma unroll
    for (int i = 0; i < 4; i++) /* of numbers that are not negative, the greatest bits are the greatest number */
        most = stem_greater(most, stem_word(raw, i) & 0x7fff7fffu);
    most = stem_greater(most, __shfl_xor_sync(0xffffffffu, most, 1));
    most = stem_greater(most, __shfl_xor_sync(0xffffffffu, most, 2));
    most = max(most & 0xffff, most >> 16);
    unsigned exponent = max((most + 1) >> 7, 15u);
    float up = __uint_as_float((268 - exponent) << 23);
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; i++) { /* its lowest bits are the whole number plus 128: the high digit and 128 + the low one */
        int c = F::column(i);
        unsigned w = stem_word(raw, c >> 1);
        v[i] = __fmaf_rn(__uint_as_float(c & 1 ? w & 0xffff0000u : w << 16), up, 12582912.0f + 128);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        unsigned p = __byte_perm(__float_as_uint(v[4 * i]), __float_as_uint(v[4 * i + 1]), 0x5140);
        unsigned q = __byte_perm(__float_as_uint(v[4 * i + 2]), __float_as_uint(v[4 * i + 3]), 0x5140);
        word[i] = __byte_perm(p, q, 0x7632);
        word[2 + i] = __byte_perm(p, q, 0x5410) ^ 0x80808080u;
    }
    char *at = to + (lane >> 3) * 128 + (lane & 7) * 8;
    *(uint2 *)at = uint2{word[0], word[1]};
    *(uint2 *)(at + 64) = uint2{word[2], word[3]};
    if ((lane & 3) == 0) /* infinite or no number: no sum is a number */
        *(float *)(to + 512 + lane) = __uint_as_float(most < 0x7f80 ? (exponent - 14) << 23 : 0x7fffffff);
}

/* Tokens in shared memory, those of a chunk one after the other, after 64 bytes of zeros. */
struct stem_fixed_tokens {
    unsigned zeros, digits, step; /* where the lane reads digits of the first token, and how far it is to the next one */
    unsigned units;

    __device__ __forceinline__ stem_fixed_tokens() {}
    __device__ __forceinline__ stem_fixed_tokens(unsigned at) : zeros(at)
    {
        int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
        bool own = g >> 1 == t;
        digits = own ? at + 64 + t * 128 + (g & 1) * 64 : at;
        step = own ? stem_fixed::BYTES : 0;
        units = at + 64 + 512 + t * 8;
    }
};

/* The zeros: each warp writes them that reads them. */
__device__ __forceinline__ void stem_fixed_clear(char *at)
{
    if ((threadIdx.x & 31) < 4)
        *(uint4 *)(at + 16 * (threadIdx.x & 31)) = uint4{0, 0, 0, 0};
    __syncwarp();
}

/* ---- products ---- */

template <> __device__ __forceinline__ int stem_packed_turn<stem_nvfp4_fixed>(int row)
{
    return row & 1;
}
template <> __device__ __forceinline__ int stem_packed_turn<stem_int4_fixed>(int row)
{
    return row & 1;
}

/* acc[.., r] += weights * tokens of one stage: rows g + 8r of the lane's blocks alone. The tokens are number `first` on of
 * the kept ones, N or, if there are more in acc, `count` of them. */
template <int N, class F, int MT, int NT>
__device__ __forceinline__ void stem_fixed_multiply(F, unsigned stage, const stem_fixed_tokens &tokens, int first, int count,
                                                    float (&acc)[MT][NT][2])
{
    if constexpr (N < NT)
        if (count > N) {
            stem_fixed_multiply<N + 1>(F(), stage, tokens, first, count, acc);
            return;
        }
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    unsigned word[MT][2], from = tokens.digits + first * tokens.step;
    float2 unit[N];
#pragma unroll
    for (int j = 0; j < N; j++)
        unit[j] = stem_shared_floats(tokens.units + (first + j) * stem_fixed::BYTES);
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int r = 0; r < 2; r++)
            word[m][r] = stem_shared4(stage + 16 * MT * 128 + (16 * m + 8 * r + g) * 16 + 4 * t);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        uint4 b[N][2];
#pragma unroll
        for (int j = 0; j < N; j++) {
            b[j][0] = stem_shared16(from + j * tokens.step + 32 * h);
            b[j][1] = stem_shared16(from + j * tokens.step + 32 * h + 16);
        }
        uint4 row[MT][2];
        float scale[MT][2][F::PARTS];
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                row[m][r] = stem_shared16(stage + m * 2048 + r * 1024 + g * 128 +
                                          (((2 * t + h) ^ stem_packed_turn<F>(g)) << 4));
                F::scales(word[m][r], h, scale[m][r]);
            }
#pragma unroll
        for (int part = 0; part < F::PARTS; part++) {
            unsigned a[MT][4][4];
            int sum[MT][N][4] = {};
#pragma unroll
            for (int m = 0; m < MT; m++)
                F::expand(row[m][0], row[m][1], part, a[m]);
#pragma unroll
            for (int i = 0; i < 4; i++) /* products that do not wait for each other follow one another */
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int j = 0; j < N; j++) {
                        uint2 digits = F::pick(b[j], part, i);
                        stem_mma_s8(sum[m][j], a[m][i], digits.x, digits.y);
                    }
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int j = 0; j < N; j++)
#pragma unroll
                    for (int r = 0; r < 2; r++)
                        acc[m][j][r] += (float)(sum[m][j][2 * r] * 256 + sum[m][j][2 * r + 1]) *
                                        (scale[m][r][part] * (h ? unit[j].y : unit[j].x));
        }
    }
}

/* Adds up what the four lanes of a row have of token j. Lane t returns row 16 * (2p + t / 2) + 8 * (t % 2) + g; p is the
 * pair of m, of which an odd MT lacks the last one's second. */
template <int MT, int NT> __device__ __forceinline__ float stem_fixed_sum(const float (&acc)[MT][NT][2], int j, int p)
{
    const unsigned all = 0xffffffffu;
    int t = threadIdx.x & 3;
    float half[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float(&v)[2] = acc[min(2 * p + i, MT - 1)][j];
        half[i] = (t & 1 ? v[1] : v[0]) + __shfl_xor_sync(all, t & 1 ? v[0] : v[1], 1);
    }
    return (t & 2 ? half[1] : half[0]) + __shfl_xor_sync(all, t & 2 ? half[0] : half[1], 2);
}

/* Writes a warp's sums of `count` tokens to shared memory: tile[token * (16 * MT + 4) + row]. */
template <int MT, int NT>
__device__ __forceinline__ void stem_fixed_leave(float *tile, int count, const float (&acc)[MT][NT][2])
{
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
        for (int p = 0; p < (MT + 1) / 2; p++) {
            float v = stem_fixed_sum(acc, j, p);
            if (j < count && 2 * p + (t >> 1) < MT)
                tile[j * (16 * MT + 4) + 32 * p + 8 * t + g] = v;
        }
}

#endif
