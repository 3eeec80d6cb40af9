/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types of device code as the emulator has them: conversions of cuda_bf16.h, cuda_fp16.h and cuda_fp8.h, bit for bit.
 */
#ifndef STEM_TESTS_EMULATE_ELEMENT_H
#define STEM_TESTS_EMULATE_ELEMENT_H

struct __nv_bfloat16 {
    uint16_t bits;
};
struct __half {
    uint16_t bits;
};
struct __nv_fp8_e4m3 {
    uint8_t bits;
    __nv_fp8_e4m3() = default;
    explicit __nv_fp8_e4m3(float) { abort(); }
    explicit operator float() const { abort(); }
};
inline float __bfloat162float(__nv_bfloat16 v)
{
    return __uint_as_float((unsigned)v.bits << 16);
}
extern "C" {
float stem_f16_to_float(uint16_t bits);
uint16_t stem_float_to_f16(float x);
uint16_t stem_float_to_bf16(float x);
}
inline float __half2float(__half v)
{
    return stem_f16_to_float(v.bits);
}
inline __nv_bfloat16 __float2bfloat16_rn(float v)
{
    return {stem_float_to_bf16(v)};
}
inline __half __float2half_rn(float v)
{
    return {stem_float_to_f16(v)};
}
inline float __int2float_rn(int v)
{
    return (float)v;
}
inline float __ll2float_rn(long long v)
{
    return (float)v;
}
inline int __float2int_rn(float v)
{
    return (int)lrintf(v);
}
inline long long __float2ll_rn(float v)
{
    return llrintf(v);
}

inline float __fmul_rn(float a, float b)
{
    volatile float c = a * b; /* never contracted */
    return c;
}
inline float __fadd_rn(float a, float b)
{
    return a + b;
}
inline float __fsub_rn(float a, float b)
{
    return a - b;
}
inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}
inline void sincospif(float x, float *sine, float *cosine)
{
    *sine = (float)sin(3.14159265358979323846 * x);
    *cosine = (float)cos(3.14159265358979323846 * x);
}
/* Bytes of b:a, chosen by the four nibbles of `which`. */
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned which)
{
    uint64_t both = (uint64_t)b << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; i++)
        r |= (unsigned)(both >> 8 * (which >> 4 * i & 7) & 255) << 8 * i;
    return r;
}

#endif
