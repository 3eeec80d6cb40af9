/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "ops/heads_linear/heads_linear.h"
#include "ops/linear/linear.h"
#include "ops/ref.h"

void stem_heads_linear_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *x = &c->operand[0], *w = &c->operand[1], *y = &c->operand[2];
    int flip = stem_op_attr(c->def, c->attrs, "transposed")->i ? 1 : 0;
    int64_t tokens = x->dim[0], heads = x->dim[1], k = x->dim[2], n = y->dim[2];
    float *row = stem_ref_alloc((size_t)(2 * k) * sizeof *row), *column = row + k;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t j = 0; j < n; j++) {
            stem_ref_load_row(w->dtype, data[1], h * w->stride[0] + j * w->stride[1 + flip], w->stride[2 - flip],
                              (uint32_t)k, column);
            for (int64_t t = 0; t < tokens; t++) {
                stem_ref_load_row(x->dtype, data[0], t * x->stride[0] + h * x->stride[1], x->stride[2], (uint32_t)k,
                                  row);
                stem_ref_store(y->dtype, data[2], (t * heads + h) * n + j, stem_ref_dot(row, column, k));
            }
        }
    free(row);
}
