/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ref.h"
#include "ops/rope/rope.h"

void stem_rope_rotate(float *row, uint32_t n, int64_t position, const double *turns, double amplitude,
                      bool interleaved)
{
    for (uint32_t i = 0; i < n / 2; i++) {
        double angle = turns[i] * (double)position;
        angle = 2 * M_PI * (angle - rint(angle));
        float *low = &row[interleaved ? 2 * i : i], *high = interleaved ? low + 1 : low + n / 2;
        double a = *low, b = *high, c = amplitude * cos(angle), s = amplitude * sin(angle);
        *low = (float)(a * c - b * s);
        *high = (float)(b * c + a * s);
    }
}

void stem_rope_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *x = &c->operand[0];
    uint32_t size = (uint32_t)x->dim[x->rank - 1], n = (uint32_t)stem_op_attr(c->def, c->attrs, "size")->i;
    bool first = !strcmp(stem_op_attr(c->def, c->attrs, "at")->text, "first");
    bool interleaved = stem_op_attr(c->def, c->attrs, "interleaved")->i;
    double turns[STEM_ROPE_MAX / 2];
    n = n ? n : size;
    double amplitude = stem_rope_turns(c->def, c->attrs, n, turns);
    float *row = stem_xmalloc(size * sizeof *row);
    uint64_t rows = stem_ref_rows(x), each = rows / (uint64_t)x->dim[0];
    for (uint64_t r = 0; r < rows; r++) {
        int64_t position = stem_ref_load_int(c->operand[1].dtype, data[1], (int64_t)(r / each));
        stem_ref_load_row(x->dtype, data[0], stem_ref_row_offset(x, r), x->stride[x->rank - 1], size, row);
        stem_rope_rotate(row + (first ? 0 : size - n), n, position, turns, amplitude, interleaved);
        stem_ref_store_row(x->dtype, data[2], (int64_t)(r * size), size, row);
    }
    free(row);
}
