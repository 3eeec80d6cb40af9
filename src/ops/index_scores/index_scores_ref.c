/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "ops/index_scores/index_scores.h"
#include "ops/linear/linear.h"
#include "ops/ref.h"

void stem_index_scores_reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *q = &c->operand[0], *cache = &c->operand[2], *y = &c->operand[5];
    const int32_t *table = data[3], *lens = data[4];
    int64_t heads = q->dim[1], width = q->dim[2], page = cache->dim[1], most = y->dim[1];
    float *own = stem_ref_alloc((size_t)(heads * width) * 4), *key = stem_ref_alloc((size_t)width * 4),
          *out = data[5];
    for (int64_t t = 0; t < q->dim[0]; t++) {
        stem_ref_load_row(q->dtype, data[0], t * heads * width, 1, (uint32_t)(heads * width), own);
        for (int64_t i = 0; i < most; i++) {
            double sum = 0;
            if (i >= lens[t]) {
                out[t * most + i] = -INFINITY;
                continue;
            }
            int64_t at = table[t * c->operand[3].dim[1] + i / page];
            at = at < 0 || at >= cache->dim[0] ? 0 : at;
            stem_ref_load_row(cache->dtype, data[2], (at * page + i % page) * width, 1, (uint32_t)width, key);
            for (int64_t h = 0; h < heads; h++) {
                float dot = stem_ref_dot(own + h * width, key, width);
                sum +=
                    (double)stem_ref_load(c->operand[1].dtype, data[1], t * heads + h) * (double)(dot < 0 ? 0 : dot);
            }
            out[t * most + i] = (float)sum;
        }
    }
    free(own);
    free(key);
}
