/* SPDX-License-Identifier: Apache-2.0
 *
 * Number formats of weights: values of single elements, and a warp's product of a row of x and a row of weights, for
 * any shape and alignment. `scale` is the format's scales: f8e4m3 has a float for each 128 x 128, nvfp4 an e4m3 for
 * each 16 columns, int4 a bf16 for each 32.
 */
#ifndef STEM_FORMATS_CUH
#define STEM_FORMATS_CUH

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

/* ---- formats: UNIT times a sum is the sum that the format means ---- */

struct stem_f8 {
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
                    part += stem_float(stem_round<__nv_fp8_e4m3>::from(v[i] * q.up)) *
                            stem_e4m3(code[b + lane + 32 * i]);
            sum += part * (q.down * s[b / 128]);
        }
        return stem_warp_sum(sum);
    }
};

/* The formats whose weights are dequantised: F::value is a weight. */
template <class F> struct stem_dequantised {
    template <class E>
    static __device__ __forceinline__ float product(const E *x, const void *w, const void *scale, long long row,
                                                    long long, int k)
    {
        float sum = 0;
        for (int i = threadIdx.x & 31; i < k; i += 32)
            sum += stem_float(x[i]) * F::value(w, scale, row * k + i);
        return stem_warp_sum(sum);
    }
};

struct stem_nvfp4 : stem_dequantised<stem_nvfp4> {
    static __device__ __forceinline__ float value(const void *w, const void *scale, long long i)
    {
        return stem_e2m1(stem_nibble(w, i)) * stem_e4m3(((const unsigned char *)scale)[i / 16]);
    }
};

struct stem_int4 : stem_dequantised<stem_int4> {
    static __device__ __forceinline__ float value(const void *w, const void *scale, long long i)
    {
        float s = stem_float(((const __nv_bfloat16 *)scale)[i / 32]);
        return stem_float(stem_round<__nv_bfloat16>::from(((float)stem_nibble(w, i) - 8.0f) * s));
    }
};

#endif
