/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "ops/index_store/index_store.h"
#include "ops/ref.h"
#include "ops/rope/rope.h"

void stem_index_store_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *cache = &c->operand[0], *x = &c->operand[1];
    uint32_t width = (uint32_t)x->dim[1], size = stem_index_store_size(c);
    bool interleaved = stem_op_attr(c->def, c->attrs, "interleaved")->i;
    double turns[STEM_ROPE_MAX / 2], amplitude = stem_rope_turns(c->def, c->attrs, size, turns);
    double eps = stem_op_attr(c->def, c->attrs, "eps")->f;
    float *row = stem_xmalloc(3 * width * sizeof *row), *gain = row + width, *bias = gain + width;
    stem_ref_load_row(c->operand[2].dtype, data[2], 0, 1, width, gain);
    stem_ref_load_row(c->operand[3].dtype, data[3], 0, 1, width, bias);
    for (int64_t t = 0; t < x->dim[0]; t++) {
        int64_t position = stem_ref_load_int(c->operand[4].dtype, data[4], t), slot = ((const int32_t *)data[5])[t];
        double mean = 0, squares = 0;
        if (slot < 0 || slot >= cache->dim[0] * cache->dim[1])
            continue;
        stem_ref_load_row(x->dtype, data[1], t * x->stride[0], x->stride[1], width, row);
        for (uint32_t i = 0; i < width; i++)
            mean += row[i] / (double)width;
        for (uint32_t i = 0; i < width; i++)
            squares += (row[i] - mean) * (row[i] - mean) / width;
        for (uint32_t i = 0; i < width; i++)
            row[i] = stem_ref_round(x->dtype, (float)((row[i] - mean) / sqrt(squares + eps) * gain[i] + bias[i]));
        stem_rope_rotate(row, size, position, turns, amplitude, interleaved);
        stem_ref_store_row(cache->dtype, data[0], slot * width, width, row);
    }
    free(row);
}
