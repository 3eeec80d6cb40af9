/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "ops/linear/linear.h"
#include "ops/mla/mla.h"
#include "ops/ref.h"
#include "ops/rope/rope.h"

void stem_mla_query_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *q = &c->operand[0], *w = &c->operand[1], *y = &c->operand[3];
    int64_t heads = q->dim[1], k = w->dim[1], n = w->dim[2], width = y->dim[2];
    uint32_t turned = (uint32_t)(q->dim[2] - k);
    bool interleaved = stem_op_attr(c->def, c->attrs, "interleaved")->i;
    double turns[STEM_ROPE_MAX / 2], amplitude = stem_rope_turns(c->def, c->attrs, turned, turns);
    float *row = stem_ref_alloc((size_t)(q->dim[2] + k) * sizeof *row), *column = row + q->dim[2];
    for (int64_t t = 0; t < q->dim[0]; t++)
        for (int64_t h = 0; h < heads; h++) {
            int64_t position = stem_ref_load_int(c->operand[2].dtype, data[2], t), at = (t * heads + h) * width;
            stem_ref_load_row(q->dtype, data[0], t * q->stride[0] + h * q->stride[1], q->stride[2],
                              (uint32_t)q->dim[2], row);
            for (int64_t j = 0; j < n; j++) {
                stem_ref_load_row(w->dtype, data[1], h * w->stride[0] + j * w->stride[2], w->stride[1], (uint32_t)k,
                                  column);
                stem_ref_store(y->dtype, data[3], at + j, stem_ref_dot(row, column, k));
            }
            stem_rope_rotate(row + k, turned, position, turns, amplitude, interleaved);
            stem_ref_store_row(y->dtype, data[3], at + n, turned, row + k);
        }
    free(row);
}

void stem_mla_store_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *cache = &c->operand[0], *kv = &c->operand[1];
    uint32_t width = (uint32_t)kv->dim[1], latent = (uint32_t)c->operand[2].dim[0];
    bool interleaved = stem_op_attr(c->def, c->attrs, "interleaved")->i;
    double turns[STEM_ROPE_MAX / 2], amplitude = stem_rope_turns(c->def, c->attrs, width - latent, turns);
    float eps = (float)stem_op_attr(c->def, c->attrs, "eps")->f,
          *row = stem_ref_alloc((width + latent) * sizeof *row);
    float *gain = row + width;
    stem_ref_load_row(c->operand[2].dtype, data[2], 0, 1, latent, gain);
    for (int64_t t = 0; t < kv->dim[0]; t++) {
        int64_t position = stem_ref_load_int(c->operand[3].dtype, data[3], t), slot = ((const int32_t *)data[4])[t];
        if (slot < 0 || slot >= cache->dim[0] * cache->dim[1])
            continue;
        stem_ref_load_row(kv->dtype, data[1], t * kv->stride[0], kv->stride[1], width, row);
        double sum = 0;
        for (uint32_t i = 0; i < latent; i++)
            sum += (double)row[i] * row[i];
        float scale = (float)(1 / sqrt(sum / latent + (double)eps));
        for (uint32_t i = 0; i < latent; i++)
            row[i] = row[i] * scale * gain[i];
        stem_rope_rotate(row + latent, width - latent, position, turns, amplitude, interleaved);
        stem_ref_store_row(cache->dtype, data[0], slot * width, width, row);
    }
    free(row);
}
