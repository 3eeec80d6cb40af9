/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "ops/argmax/argmax.h"
#include "ops/ref.h"

void stem_argmax_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *x = &c->operand[0];
    int64_t n = x->dim[x->rank - 1];
    for (int64_t r = 0; r < (int64_t)stem_ref_rows(x); r++) {
        int64_t best = 0;
        float largest = stem_ref_load(x->dtype, data[0], r * n);
        for (int64_t i = 1; i < n && !isnan(largest); i++) {
            float f = stem_ref_load(x->dtype, data[0], r * n + i);
            if (f > largest || isnan(f)) {
                largest = f;
                best = i;
            }
        }
        ((int32_t *)data[1])[r] = (int32_t)best;
    }
}
