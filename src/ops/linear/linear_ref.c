/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "ops/linear/format.h"
#include "ops/linear/linear.h"
#include "ops/ref.h"

void stem_linear_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *x = &c->operand[0], *w = &c->operand[1], *y = &c->operand[c->n_in];
    int64_t m = (int64_t)stem_ref_rows(x), n = w->dim[0], k = w->dim[1];
    const void *scale = stem_format_operand(c, 2) ? data[2] : NULL;
    const float *whole = stem_format_operand(c, 3) ? data[3] : NULL;
    struct stem_ref_rows rows;
    struct stem_ref_weight weight;
    stem_ref_rows_make(&rows, w->dtype, x->dtype, data[0], stem_format_operand(c, 4) ? data[4] : NULL, m, k);
    stem_ref_weight_make(&weight, w->dtype, data[1], scale, k);
    for (int64_t j = 0; j < n; j++) {
        stem_ref_weight_row(&weight, j, j / STEM_F8_BLOCK);
        for (int64_t i = 0; i < m; i++) {
            float sum = stem_ref_product(&rows, i, &weight);
            stem_ref_store(y->dtype, data[c->n_in], i * n + j, whole ? sum * whole[0] : sum);
        }
    }
    stem_ref_rows_free(&rows);
    stem_ref_weight_free(&weight);
}
