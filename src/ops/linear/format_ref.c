/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/format.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/linear/linear.h"
#include "ops/ref.h"

static int64_t blocks_of(int64_t k)
{
    return (k + STEM_F8_BLOCK - 1) / STEM_F8_BLOCK;
}

/* v becomes the codes' values, *s the scale: as the device's stem_f8_scale and stem_f8_code. */
static void quantise(float *v, int64_t n, float *s)
{
    float amax = 1e-4f;
    for (int64_t i = 0; i < n; i++)
        amax = fmaxf(amax, fabsf(v[i]));
    float up = 448.0f / amax;
    *s = amax / 448.0f;
    for (int64_t i = 0; i < n; i++)
        v[i] = stem_ref_round(STEM_F8E4M3, v[i] * up);
}

void stem_ref_rows_make(struct stem_ref_rows *r, enum stem_dtype weight, enum stem_dtype type, const void *data,
                        const void *scale, int64_t rows, int64_t k)
{
    int64_t blocks = blocks_of(k);
    *r = (struct stem_ref_rows){.v = stem_ref_alloc((size_t)(rows * k) * sizeof(float)), .k = k};
    for (int64_t i = 0; i < rows; i++)
        stem_ref_load_row(type, data, i * k, 1, (uint32_t)k, r->v + i * k);
    if (weight != STEM_F8E4M3)
        return;
    r->s = stem_ref_alloc((size_t)(rows * blocks) * sizeof(float));
    if (type == STEM_F8E4M3) {
        memcpy(r->s, scale, (size_t)(rows * blocks) * sizeof(float));
        return;
    }
    for (int64_t i = 0; i < rows * blocks; i++) {
        int64_t row = i / blocks, first = i % blocks * STEM_F8_BLOCK;
        quantise(r->v + row * k + first, k - first < STEM_F8_BLOCK ? k - first : STEM_F8_BLOCK, &r->s[i]);
    }
}

void stem_ref_rows_free(struct stem_ref_rows *r)
{
    free(r->v);
    free(r->s);
}

void stem_ref_weight_make(struct stem_ref_weight *w, enum stem_dtype type, const void *data, const void *scale,
                          int64_t k)
{
    *w = (struct stem_ref_weight){.type = type, .w = data, .scale = scale, .k = k};
    w->v = stem_ref_alloc((size_t)k * sizeof(float));
    w->s = stem_ref_alloc((size_t)blocks_of(k) * sizeof(float));
}

void stem_ref_weight_free(struct stem_ref_weight *w)
{
    free(w->v);
    free(w->s);
}

static uint32_t nibble(const void *data, int64_t i)
{
    return (uint32_t)((const uint8_t *)data)[i / 2] >> (i % 2 * 4) & 15;
}

void stem_ref_weight_row(struct stem_ref_weight *w, int64_t row, int64_t block_row)
{
    static const float e2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    int64_t first = row * w->k;
    if (!stem_dtype_packed(w->type))
        stem_ref_load_row(w->type, w->w, first, 1, (uint32_t)w->k, w->v);
    for (int64_t i = 0; i < w->k && w->type == STEM_NVFP4; i++) {
        uint32_t code = nibble(w->w, first + i);
        float scale = stem_ref_load(STEM_F8E4M3, w->scale, (first + i) / STEM_NVFP4_GROUP);
        w->v[i] = (code & 8 ? -e2m1[code & 7] : e2m1[code & 7]) * scale;
    }
    for (int64_t i = 0; i < w->k && w->type == STEM_INT4; i++) {
        float scale = stem_ref_load(STEM_BF16, w->scale, (first + i) / STEM_INT4_GROUP);
        w->v[i] = ((float)nibble(w->w, first + i) - 8) * scale;
    }
    if (w->type == STEM_F8E4M3)
        stem_ref_load_row(STEM_F32, w->scale, block_row * blocks_of(w->k), 1, (uint32_t)blocks_of(w->k), w->s);
}

float stem_ref_product(const struct stem_ref_rows *x, int64_t row, const struct stem_ref_weight *w)
{
    const float *v = x->v + row * x->k;
    if (w->type != STEM_F8E4M3)
        return stem_ref_dot(v, w->v, x->k);
    float sum = 0;
    int64_t blocks = blocks_of(x->k);
    for (int64_t b = 0; b < blocks; b++) {
        int64_t first = b * STEM_F8_BLOCK, n = x->k - first < STEM_F8_BLOCK ? x->k - first : STEM_F8_BLOCK;
        sum += stem_ref_dot(v + first, w->v + first, n) * (x->s[row * blocks + b] * w->s[b]);
    }
    return sum;
}
