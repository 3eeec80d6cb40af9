/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "ops/gqa_store/gqa_store.h"
#include "ops/ref.h"
#include "ops/rope/rope.h"

static void normalise(enum stem_dtype t, float *row, const void *norm, uint32_t n, float eps)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)row[i] * row[i];
    float scale = (float)(1 / sqrt(sum / n + (double)eps));
    for (uint32_t i = 0; i < n; i++)
        row[i] = stem_ref_round(t, row[i] * scale * stem_ref_load(t, norm, i));
}

void stem_gqa_store_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *k = &c->operand[0], *x = &c->operand[2];
    uint32_t n = (uint32_t)x->dim[2];
    int64_t heads = x->dim[1], groups = k->dim[2], queries = heads - 2 * groups;
    bool interleaved = stem_op_attr(c->def, c->attrs, "interleaved")->i;
    double turns[STEM_ROPE_MAX / 2], amplitude = stem_rope_turns(c->def, c->attrs, n, turns);
    float eps = (float)stem_op_attr(c->def, c->attrs, "eps")->f, *row = stem_xmalloc(n * sizeof *row);
    for (int64_t t = 0; t < x->dim[0]; t++)
        for (int64_t h = 0; h < heads; h++) {
            int64_t position = stem_ref_load_int(c->operand[5].dtype, data[5], t),
                    slot = ((const int32_t *)data[6])[t];
            bool query = h < queries, value = h >= queries + groups;
            stem_ref_load_row(x->dtype, data[2], t * x->stride[0] + h * x->stride[1], x->stride[2], n, row);
            if (!value && data[query ? 3 : 4])
                normalise(x->dtype, row, data[query ? 3 : 4], n, eps);
            if (!value)
                stem_rope_rotate(row, n, position, turns, amplitude, interleaved);
            if (query)
                stem_ref_store_row(x->dtype, data[7], (t * queries + h) * n, n, row);
            else if (slot >= 0 && slot < k->dim[0] * k->dim[1])
                stem_ref_store_row(x->dtype, data[value ? 1 : 0], (slot * groups + (h - queries) % groups) * n, n,
                                   row);
        }
    free(row);
}
