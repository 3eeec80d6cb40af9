/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/experts/experts.h"
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
    enum stem_dtype type = c->operand[0].dtype;
    const int32_t *ids = data[1];
    const char *act = stem_op_attr(c->def, c->attrs, "act")->text;
    int64_t pairs = s.tokens * s.k;
    float *x = stem_ref_alloc((size_t)(s.tokens * s.hidden) * sizeof *x);
    float *gate = stem_ref_alloc((size_t)s.hidden * 2 * sizeof *gate), *up = gate + s.hidden;
    stem_ref_load_row(type, data[0], 0, 1, (uint32_t)(s.tokens * s.hidden), x);
    memset(data[3], 0, (size_t)(pairs * s.inter) * stem_dtype_bits(type) / 8);
    for (int64_t first = 0; first < pairs; first++) {
        int32_t id = ids[first];
        bool done = id < 0 || id >= s.experts;
        for (int64_t p = 0; p < first && !done; p++)
            done = ids[p] == id;
        for (int64_t i = 0; i < s.inter && !done; i++) {
            int64_t row = ((int64_t)id * 2 * s.inter + i) * s.hidden;
            stem_ref_load_row(type, data[2], row, 1, (uint32_t)s.hidden, gate);
            stem_ref_load_row(type, data[2], row + s.inter * s.hidden, 1, (uint32_t)s.hidden, up);
            for (int64_t p = first; p < pairs; p++)
                if (ids[p] == id) {
                    const float *v = x + p / s.k * s.hidden;
                    float h = apply(act, stem_ref_dot(v, gate, s.hidden)) * stem_ref_dot(v, up, s.hidden);
                    stem_ref_store(type, data[3], p * s.inter + i, h);
                }
        }
    }
    free(x);
    free(gate);
}

void stem_experts_down_reference(const struct stem_concrete *c, void *const *data)
{
    struct stem_experts_sizes s = stem_experts_down_sizes(c);
    enum stem_dtype type = c->operand[0].dtype;
    const int32_t *ids = data[1];
    const float *scale = data[2];
    int64_t pairs = s.tokens * s.k;
    float *h = stem_ref_alloc((size_t)(pairs * s.inter) * sizeof *h);
    float *row = stem_ref_alloc((size_t)s.inter * sizeof *row);
    float *sum = stem_ref_alloc((size_t)(s.tokens * s.hidden) * sizeof *sum);
    stem_ref_load_row(type, data[0], 0, 1, (uint32_t)(pairs * s.inter), h);
    memset(sum, 0, (size_t)(s.tokens * s.hidden) * sizeof *sum);
    for (int32_t id = 0; id < s.experts; id++) {
        bool chosen = false;
        for (int64_t p = 0; p < pairs && !chosen; p++)
            chosen = ids[p] == id;
        for (int64_t r = 0; r < s.hidden && chosen; r++) {
            stem_ref_load_row(type, data[3], ((int64_t)id * s.hidden + r) * s.inter, 1, (uint32_t)s.inter, row);
            for (int64_t p = 0; p < pairs; p++)
                if (ids[p] == id)
                    sum[p / s.k * s.hidden + r] += scale[p] * stem_ref_dot(h + p * s.inter, row, s.inter);
        }
    }
    stem_ref_store_row(type, data[4], 0, (uint32_t)(s.tokens * s.hidden), sum);
    free(h);
    free(row);
    free(sum);
}
