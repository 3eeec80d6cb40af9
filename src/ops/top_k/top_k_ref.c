/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "ops/linear/linear.h"
#include "ops/top_k/top_k.h"

struct scored {
    float score;
    int32_t index;
};

static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    return x->score > y->score ? -1 : x->score < y->score ? 1 : x->index < y->index ? -1 : x->index > y->index;
}

static int by_index(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

void stem_top_k_reference(const struct stem_concrete *c, void *const *data)
{
    int64_t n = c->operand[0].dim[1], k = c->operand[c->n_in].dim[1];
    const int32_t *lens = c->n_in > 1 ? data[1] : NULL;
    int32_t *out = data[c->n_in];
    struct scored *s = stem_ref_alloc((size_t)n * sizeof *s);
    for (int64_t t = 0; t < c->operand[0].dim[0]; t++) {
        int64_t most = lens && lens[t] < n ? lens[t] : n, found = 0;
        const float *row = (const float *)data[0] + t * n;
        for (int64_t i = 0; i < most; i++)
            if (row[i] > -INFINITY)
                s[found++] = (struct scored){row[i], (int32_t)i};
        qsort(s, (size_t)found, sizeof *s, by_score);
        found = found < k ? found : k;
        qsort(s, (size_t)found, sizeof *s, by_index);
        for (int64_t j = 0; j < k; j++)
            out[t * k + j] = j < found ? s[j].index : -1;
    }
    free(s);
}
