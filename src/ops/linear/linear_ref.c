/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "ops/linear/linear.h"
#include "ops/ref.h"

void stem_linear_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *x = &c->operand[0], *w = &c->operand[1], *y = &c->operand[2];
    int64_t m = (int64_t)stem_ref_rows(x), n = w->dim[0], k = w->dim[1];
    float *rows = stem_ref_alloc((size_t)(m * k) * sizeof *rows), *row = stem_ref_alloc((size_t)k * sizeof *row);
    stem_ref_load_row(x->dtype, data[0], 0, 1, (uint32_t)(m * k), rows);
    for (int64_t j = 0; j < n; j++) {
        stem_ref_load_row(w->dtype, data[1], j * k, 1, (uint32_t)k, row);
        for (int64_t i = 0; i < m; i++)
            stem_ref_store(y->dtype, data[2], i * n + j, stem_ref_dot(rows + i * k, row, k));
    }
    free(rows);
    free(row);
}
