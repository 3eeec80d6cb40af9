/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "ops/linear/format.h"
#include "ops/quantize_f8/quantize_f8.h"
#include "ops/ref.h"

void stem_ref_quantize_f8(const float *row, uint64_t n, void *code, int64_t first, float *scale)
{
    for (uint64_t b = 0; b * STEM_F8_BLOCK < n; b++) {
        uint64_t end = (b + 1) * STEM_F8_BLOCK < n ? (b + 1) * STEM_F8_BLOCK : n;
        float most = 1e-4f;
        for (uint64_t i = b * STEM_F8_BLOCK; i < end; i++)
            most = fmaxf(most, fabsf(row[i]));
        float up = 448.0f / most;
        scale[b] = most / 448.0f;
        for (uint64_t i = b * STEM_F8_BLOCK; i < end; i++)
            stem_ref_store(STEM_F8E4M3, code, first + (int64_t)i, row[i] * up);
    }
}

void stem_quantize_f8_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *x = &c->operand[0], *scale = &c->operand[2];
    uint32_t n = (uint32_t)x->dim[x->rank - 1];
    float *row = stem_xmalloc(n * sizeof *row);
    for (uint64_t r = 0; r < stem_ref_rows(x); r++) {
        stem_ref_load_row(x->dtype, data[0], (int64_t)(r * n), 1, n, row);
        stem_ref_quantize_f8(row, n, data[1], (int64_t)(r * n), (float *)data[2] + r * (uint64_t)scale->dim[scale->rank - 1]);
    }
    free(row);
}
