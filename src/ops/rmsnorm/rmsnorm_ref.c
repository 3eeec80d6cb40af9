/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "ops/ref.h"
#include "ops/rmsnorm/rmsnorm.h"

void stem_rmsnorm_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *x = &c->operand[0];
    uint32_t n = (uint32_t)x->dim[x->rank - 1];
    float eps = (float)stem_op_attr(c->def, c->attrs, "eps")->f;
    float *row = stem_xmalloc(2 * n * sizeof *row), *weight = row + n;
    stem_ref_load_row(c->operand[1].dtype, data[1], 0, 1, n, weight);
    for (uint64_t r = 0; r < stem_ref_rows(x); r++) {
        double sum = 0;
        stem_ref_load_row(x->dtype, data[0], stem_ref_row_offset(x, r), x->stride[x->rank - 1], n, row);
        for (uint32_t i = 0; i < n; i++)
            sum += (double)row[i] * row[i];
        float scale = (float)(1.0 / sqrt(sum / n + (double)eps));
        for (uint32_t i = 0; i < n; i++)
            row[i] = row[i] * scale * weight[i];
        stem_ref_store_row(x->dtype, data[2], (int64_t)(r * n), n, row);
    }
    free(row);
}
