/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/experts/experts.h"
#include "ops/linear/format.h"
#include "ops/linear/linear.h"
#include "ops/ref.h"

static float apply(const char *act, float v)
{
    if (!strcmp(act, "gelu"))
        return 0.5f * v * (1.0f + erff(v * 0.70710678f));
    if (!strcmp(act, "relu"))
        return v > 0 ? v : 0;
    return v / (1.0f + expf(-v));
}

/* One row of w13 at a time for all tokens that chose its expert, so that each weight is converted once. */
void stem_experts_up_reference(const struct stem_concrete *c, void *const *data)
{
    struct stem_experts_sizes s = stem_experts_up_sizes(c);
    enum stem_dtype type = c->operand[c->n_in].dtype, format = c->operand[2].dtype;
    const int32_t *ids = data[1];
    const char *act = stem_op_attr(c->def, c->attrs, "act")->text;
    const void *scale = stem_format_operand(c, 3) ? data[3] : NULL;
    const float *whole = stem_format_operand(c, 4) ? data[4] : NULL;
    int64_t pairs = s.tokens * s.k, blocks = (s.inter + STEM_F8_BLOCK - 1) / STEM_F8_BLOCK;
    void *out = data[c->n_in];
    struct stem_ref_rows x;
    struct stem_ref_weight gate, up;
    stem_ref_rows_make(&x, format, c->operand[0].dtype, data[0], stem_format_operand(c, 5) ? data[5] : NULL, s.tokens, s.hidden);
    stem_ref_weight_make(&gate, format, data[2], scale, s.hidden);
    stem_ref_weight_make(&up, format, data[2], scale, s.hidden);
    memset(out, 0, (size_t)(pairs * s.inter) * stem_dtype_bits(type) / 8);
    for (int64_t first = 0; first < pairs; first++) {
        int32_t id = ids[first];
        bool done = id < 0 || id >= s.experts;
        for (int64_t p = 0; p < first && !done; p++)
            done = ids[p] == id;
        for (int64_t i = 0; i < s.inter && !done; i++) {
            int64_t row = (int64_t)id * 2 * s.inter + i, block = (int64_t)id * 2 * blocks + i / STEM_F8_BLOCK;
            stem_ref_weight_row(&gate, row, block);
            stem_ref_weight_row(&up, row + s.inter, block + blocks);
            for (int64_t p = first; p < pairs; p++)
                if (ids[p] == id) {
                    float g = stem_ref_product(&x, p / s.k, &gate), u = stem_ref_product(&x, p / s.k, &up);
                    g = whole ? g * whole[2 * id] : g;
                    u = whole ? u * whole[2 * id + 1] : u;
                    stem_ref_store(type, out, p * s.inter + i, apply(act, g) * u);
                }
        }
    }
    stem_ref_rows_free(&x);
    stem_ref_weight_free(&gate);
    stem_ref_weight_free(&up);
}

void stem_experts_down_reference(const struct stem_concrete *c, void *const *data)
{
    struct stem_experts_sizes s = stem_experts_down_sizes(c);
    enum stem_dtype type = c->operand[c->n_in].dtype, format = c->operand[3].dtype, h_type = c->operand[0].dtype;
    const int32_t *ids = data[1];
    const float *weights = data[2];
    const void *scale = stem_format_operand(c, 4) ? data[4] : NULL;
    const float *fifth = stem_format_operand(c, 5) ? data[5] : NULL, *whole = h_type == STEM_F8E4M3 ? NULL : fifth;
    int64_t pairs = s.tokens * s.k, blocks = (s.hidden + STEM_F8_BLOCK - 1) / STEM_F8_BLOCK;
    float *sum = stem_ref_alloc((size_t)(s.tokens * s.hidden) * sizeof *sum);
    struct stem_ref_rows h;
    struct stem_ref_weight w;
    stem_ref_rows_make(&h, format, h_type, data[0], fifth, pairs, s.inter);
    stem_ref_weight_make(&w, format, data[3], scale, s.inter);
    memset(sum, 0, (size_t)(s.tokens * s.hidden) * sizeof *sum);
    for (int32_t id = 0; id < s.experts; id++) {
        bool chosen = false;
        for (int64_t p = 0; p < pairs && !chosen; p++)
            chosen = ids[p] == id;
        for (int64_t r = 0; r < s.hidden && chosen; r++) {
            stem_ref_weight_row(&w, (int64_t)id * s.hidden + r, (int64_t)id * blocks + r / STEM_F8_BLOCK);
            for (int64_t p = 0; p < pairs; p++)
                if (ids[p] == id) {
                    float part = stem_ref_product(&h, p, &w);
                    sum[p / s.k * s.hidden + r] += weights[p] * (whole ? part * whole[id] : part);
                }
        }
    }
    stem_ref_store_row(type, data[c->n_in], 0, (uint32_t)(s.tokens * s.hidden), sum);
    stem_ref_rows_free(&h);
    stem_ref_weight_free(&w);
    free(sum);
}
