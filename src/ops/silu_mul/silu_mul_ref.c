/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "ops/ref.h"
#include "ops/silu_mul/silu_mul.h"

void stem_silu_mul_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *y = &c->operand[1];
    uint32_t n = (uint32_t)y->dim[y->rank - 1];
    float *gate = stem_xmalloc(2 * (size_t)n * sizeof *gate), *up = gate + n;
    for (uint64_t r = 0; r < stem_ref_rows(y); r++) {
        stem_ref_load_row(y->dtype, data[0], (int64_t)(r * 2 * n), 1, 2 * n, gate);
        for (uint32_t i = 0; i < n; i++)
            gate[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
        stem_ref_store_row(y->dtype, data[1], (int64_t)(r * n), n, gate);
    }
    free(gate);
}
