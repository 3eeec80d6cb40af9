/* SPDX-License-Identifier: Apache-2.0
 *
 * The instructions of formats.cuh and fixed.cuh, in C++. After emulate.h.
 */
#ifndef STEM_TESTS_EMULATE_FORMATS_H
#define STEM_TESTS_EMULATE_FORMATS_H

extern "C" uint8_t stem_float_to_e4m3(float x);
inline unsigned max(unsigned a, unsigned b)
{
    return a > b ? a : b;
}
inline unsigned stem_bf16x2_fma(unsigned a, unsigned b, unsigned c)
{
    unsigned d = 0;
    for (int i = 0; i < 2; i++) {
        auto half = [&](unsigned w) { return __bfloat162float({(uint16_t)(w >> 16 * i)}); };
        /* products are exact in float, and so are the sums that occur */
        d |= (unsigned)stem_float_to_bf16(half(a) * half(b) + half(c)) << 16 * i;
    }
    return d;
}
inline unsigned stem_and_or(unsigned a, unsigned b, unsigned c)
{
    return (a & b) | c;
}
inline unsigned stem_f8_pair(float a, float b)
{
    return stem_float_to_e4m3(a) | (unsigned)stem_float_to_e4m3(b) << 8;
}
inline uint4 stem_fresh16(const void *p)
{
    uint4 v;
    if ((uintptr_t)p % 16)
        abort();
    memcpy(&v, p, 16);
    return v;
}
inline float stem_constant(const float *p)
{
    return *p;
}
inline unsigned stem_shared2(unsigned from)
{
    uint16_t v;
    if (from + 2 > emu_self->owner->smem.size() - 16 || from % 2)
        abort();
    memcpy(&v, emu_self->owner->smem.data() + from, 2);
    return v;
}
inline unsigned stem_shared4(unsigned from)
{
    unsigned v;
    if (from + 4 > emu_self->owner->smem.size() - 16 || from % 4)
        abort();
    memcpy(&v, emu_self->owner->smem.data() + from, 4);
    return v;
}
inline void stem_copy4(unsigned to, const void *from)
{
    if (to + 4 > emu_self->owner->smem.size() - 16 || to % 4 || (uintptr_t)from % 4)
        abort();
    memcpy(emu_self->owner->smem.data() + to, from, 4);
}
/* mma.m16n8k32: lane 4g + t has A rows g, g + 8 and B column g at k = 4t .. 4t + 3 and 16 further on. */
inline void stem_mma_f8(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1)
{
    emu_warp *w = emu_self->warp;
    int lane = emu_lane(), t = lane & 3, g = lane >> 2;
    const unsigned a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
    memcpy(w->a[lane], a, sizeof a);
    memcpy(w->b[lane], b, sizeof b);
    __syncwarp();
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 32; k++) {
            int owner = k % 16 / 4;
            c[i] += emu_e4m3((unsigned)(w->a[4 * g + owner][(i >> 1) + 2 * (k / 16)] >> 8 * (k % 4))) *
                    emu_e4m3((unsigned)(w->b[4 * (2 * t + (i & 1)) + owner][k / 16] >> 8 * (k % 4)));
        }
    __syncwarp();
}

/* ---- fixed.cuh ---- */

struct float2 {
    float x, y;
};
inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
inline unsigned stem_and_xor(unsigned a, unsigned b, unsigned c)
{
    return (a & b) ^ c;
}
inline unsigned stem_high_half(unsigned q)
{
    return q >> 16;
}
inline unsigned stem_choose(unsigned low, unsigned high, unsigned which)
{
    unsigned r = __byte_perm(low, high, which);
    for (int i = 0; i < 4; i++)
        if (which >> (4 * i + 3) & 1) {
            unsigned all = 255u << 8 * i;
            r = r >> (8 * i + 7) & 1 ? r | all : r & ~all;
        }
    return r;
}
inline unsigned stem_greater(unsigned a, unsigned b)
{
    return max(a & 0xffff, b & 0xffff) | max(a >> 16, b >> 16) << 16;
}
inline float2 stem_e4m3_two(unsigned codes)
{
    return {emu_e4m3((unsigned)codes), emu_e4m3((unsigned)(codes >> 8))};
}
inline float2 stem_shared_floats(unsigned from)
{
    return {__uint_as_float(stem_shared4(from)), __uint_as_float(stem_shared4(from + 4))};
}
/* Laid out as stem_mma_f8. */
inline void stem_mma_s8(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    emu_warp *w = emu_self->warp;
    int lane = emu_lane(), t = lane & 3, g = lane >> 2;
    const unsigned b[2] = {b0, b1};
    memcpy(w->a[lane], a, sizeof a);
    memcpy(w->b[lane], b, sizeof b);
    __syncwarp();
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 32; k++) {
            int owner = k % 16 / 4;
            c[i] += (int8_t)(w->a[4 * g + owner][(i >> 1) + 2 * (k / 16)] >> 8 * (k % 4)) *
                    (int8_t)(w->b[4 * (2 * t + (i & 1)) + owner][k / 16] >> 8 * (k % 4));
        }
    __syncwarp();
}

#endif
