/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/ref.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

float stem_bf16_to_float(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

uint16_t stem_float_to_bf16(float x)
{
    uint32_t u = bits_of(x);
    uint16_t rounded = (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
    return (u & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded;
}

float stem_f16_to_float(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    if (exponent == 31)
        return float_of(sign | 0x7f800000 | fraction << 13);
    if (exponent)
        return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    float small = (float)fraction * 0x1p-24f;
    return sign ? -small : small;
}

/* Magnitude m >= 0 as a small format: `fraction` bits of fraction, least normal 2^low. Returns exponent field and
 * fraction as one number, rounded to nearest even; may be too large for the format. */
static uint32_t small_float(float m, int fraction, int low)
{
    int e;
    if (m == 0)
        return 0;
    frexpf(m, &e); /* m in [2^(e-1), 2^e) */
    int unit = (e - 1 > low ? e - 1 : low) - fraction;
    uint32_t n = (uint32_t)rint(ldexp((double)m, -unit)); /* m in units of its last place */
    uint32_t field = unit + fraction == low ? 0 : (uint32_t)(unit + fraction - low); /* normals add their leading 1 */
    return n + (field << fraction);
}

uint16_t stem_float_to_f16(float x)
{
    uint32_t sign = bits_of(x) >> 16 & 0x8000;
    float m = fabsf(x);
    if (isnan(x))
        return 0x7fff;
    if (m >= 65520.0f)
        return (uint16_t)(sign | 0x7c00);
    return (uint16_t)(sign | small_float(m, 10, -14));
}

float stem_e4m3_to_float(uint8_t bits)
{
    uint32_t exponent = bits >> 3 & 15, fraction = bits & 7;
    float m = exponent ? ldexpf((float)(8 + fraction), (int)exponent - 10) : ldexpf((float)fraction, -9);
    if ((bits & 0x7f) == 0x7f)
        m = NAN;
    return bits & 0x80 ? -m : m;
}

uint8_t stem_float_to_e4m3(float x)
{
    uint32_t sign = bits_of(x) >> 24 & 0x80;
    float m = fabsf(x);
    if (isnan(x))
        return (uint8_t)(sign | 0x7f);
    uint32_t v = m >= 448.0f ? 0x7e : small_float(m, 3, -6);
    return (uint8_t)(sign | (v > 0x7e ? 0x7e : v));
}

static double clamp_round(float x, double low, double high)
{
    double r = rint((double)x);
    return isnan(x) ? 0 : r < low ? low : r > high ? high : r;
}

static int64_t to_i64(float x)
{
    if (x >= 0x1p63f)
        return INT64_MAX;
    return (int64_t)clamp_round(x, -0x1p63, 0x1p63);
}

float stem_ref_load(enum stem_dtype t, const void *data, int64_t i)
{
    switch (t) {
    case STEM_F32:
        return ((const float *)data)[i];
    case STEM_F16:
        return stem_f16_to_float(((const uint16_t *)data)[i]);
    case STEM_BF16:
        return stem_bf16_to_float(((const uint16_t *)data)[i]);
    case STEM_F8E4M3:
        return stem_e4m3_to_float(((const uint8_t *)data)[i]);
    case STEM_I32:
        return (float)((const int32_t *)data)[i];
    case STEM_I64:
        return (float)((const int64_t *)data)[i];
    case STEM_U8:
        return ((const uint8_t *)data)[i];
    default:
        abort();
    }
}

void stem_ref_store(enum stem_dtype t, void *data, int64_t i, float x)
{
    switch (t) {
    case STEM_F32:
        ((float *)data)[i] = x;
        return;
    case STEM_F16:
        ((uint16_t *)data)[i] = stem_float_to_f16(x);
        return;
    case STEM_BF16:
        ((uint16_t *)data)[i] = stem_float_to_bf16(x);
        return;
    case STEM_F8E4M3:
        ((uint8_t *)data)[i] = stem_float_to_e4m3(x);
        return;
    case STEM_I32:
        ((int32_t *)data)[i] = (int32_t)clamp_round(x, INT32_MIN, INT32_MAX);
        return;
    case STEM_I64:
        ((int64_t *)data)[i] = to_i64(x);
        return;
    case STEM_U8:
        ((uint8_t *)data)[i] = (uint8_t)clamp_round(x, 0, 255);
        return;
    default:
        abort();
    }
}

int64_t stem_ref_load_int(enum stem_dtype t, const void *data, int64_t i)
{
    switch (t) {
    case STEM_I32:
        return ((const int32_t *)data)[i];
    case STEM_I64:
        return ((const int64_t *)data)[i];
    case STEM_U8:
        return ((const uint8_t *)data)[i];
    default:
        abort();
    }
}

void stem_ref_store_int(enum stem_dtype t, void *data, int64_t i, int64_t x)
{
    switch (t) {
    case STEM_I32:
        ((int32_t *)data)[i] = (int32_t)(x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : x);
        return;
    case STEM_I64:
        ((int64_t *)data)[i] = x;
        return;
    case STEM_U8:
        ((uint8_t *)data)[i] = (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
        return;
    default:
        abort();
    }
}

float stem_ref_round(enum stem_dtype t, float x)
{
    int64_t one[1];
    stem_ref_store(t, one, 0, x);
    return stem_ref_load(t, one, 0);
}

/* The common types have loops of their own, which vectorise. */
void stem_ref_load_row(enum stem_dtype t, const void *data, int64_t first, int64_t stride, uint32_t count, float *out)
{
    if (t == STEM_BF16 && stride == 1) {
        const uint16_t *p = (const uint16_t *)data + first;
        for (uint32_t i = 0; i < count; i++)
            out[i] = stem_bf16_to_float(p[i]);
    } else if (t == STEM_F32 && stride == 1) {
        memcpy(out, (const float *)data + first, count * sizeof *out);
    } else if (stride == 0) {
        float x = count ? stem_ref_load(t, data, first) : 0;
        for (uint32_t i = 0; i < count; i++)
            out[i] = x;
    } else {
        for (uint32_t i = 0; i < count; i++)
            out[i] = stem_ref_load(t, data, first + i * stride);
    }
}

void stem_ref_store_row(enum stem_dtype t, void *data, int64_t first, uint32_t count, const float *in)
{
    if (t == STEM_BF16) {
        uint16_t *p = (uint16_t *)data + first;
        for (uint32_t i = 0; i < count; i++)
            p[i] = stem_float_to_bf16(in[i]);
    } else if (t == STEM_F32) {
        memcpy((float *)data + first, in, count * sizeof *in);
    } else {
        for (uint32_t i = 0; i < count; i++)
            stem_ref_store(t, data, first + i, in[i]);
    }
}

uint64_t stem_ref_rows(const struct stem_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i + 1 < t->rank; i++)
        n *= (uint64_t)t->dim[i];
    return n;
}

int64_t stem_ref_row_offset(const struct stem_tensor *t, uint64_t row)
{
    int64_t offset = 0;
    for (uint32_t i = t->rank ? t->rank - 1 : 0; i-- > 0;) {
        offset += (int64_t)(row % (uint64_t)t->dim[i]) * t->stride[i];
        row /= (uint64_t)t->dim[i];
    }
    return offset;
}
