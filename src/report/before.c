/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens before what in any execution of a plan: by its edges, and segments one after another.
 */
#include <string.h>

#include "report/report.h"

void stem_before_find(const struct stem_plan *p, const struct stem_plan_variant *v, struct stem_arena *a,
                      struct stem_before *b)
{
    uint32_t n = v->n_ops, streams = p->n_streams, e = 0;
    uint32_t *done = STEM_NEW_ARRAY(a, uint32_t, streams), *earlier = STEM_NEW_ARRAY(a, uint32_t, streams);
    *b = (struct stem_before){v, streams, STEM_NEW_ARRAY(a, uint32_t, (size_t)n * streams + 1),
                              STEM_NEW_ARRAY(a, uint32_t, n + 1)};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *mine = b->clock + (size_t)i * streams;
        if (i && v->ops[i].segment != v->ops[i - 1].segment)
            memcpy(earlier, done, streams * sizeof *earlier);
        memcpy(mine, earlier, streams * sizeof *mine);
        for (; e < v->n_edges && v->edges[e].to <= i; e++) {
            uint32_t from = v->edges[e].from, s = v->ops[from].stream;
            const uint32_t *other = b->clock + (size_t)from * streams;
            for (uint32_t k = 0; k < streams; k++)
                mine[k] = other[k] > mine[k] ? other[k] : mine[k];
            mine[s] = b->at[from] + 1 > mine[s] ? b->at[from] + 1 : mine[s];
        }
        b->at[i] = done[v->ops[i].stream]++;
    }
}

bool stem_before(const struct stem_before *b, uint32_t op, uint32_t other)
{
    return b->clock[(size_t)other * b->n_streams + b->v->ops[op].stream] > b->at[op];
}
