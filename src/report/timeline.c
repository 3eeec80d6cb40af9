/* SPDX-License-Identifier: Apache-2.0
 *
 * When each op runs: by the estimates, from the plan's edges.
 */
#include "report/report.h"

struct chain {
    uint32_t *cause; /* the op whose end let this one start; STEM_NONE: nothing did */
    uint32_t last_end; /* of the segments before: the op that ended last */
};

static void mark_critical(const struct chain *c, struct stem_timeline *t)
{
    uint32_t last = STEM_NONE;
    for (uint32_t i = 0; i < t->n; i++)
        if (last == STEM_NONE || t->end[i] > t->end[last])
            last = i;
    for (; last != STEM_NONE; last = c->cause[last])
        t->critical[last] = true;
    for (uint32_t i = 0; i < t->n; i++)
        t->length = t->end[i] > t->length ? t->end[i] : t->length;
}

static void follow(struct chain *c, struct stem_timeline *t, uint32_t op, uint32_t before)
{
    if (before != STEM_NONE && t->end[before] > t->start[op]) {
        t->start[op] = t->end[before];
        c->cause[op] = before;
    }
}

static void timeline_new(const struct stem_plan_variant *v, struct stem_arena *a, struct stem_timeline *t)
{
    *t = (struct stem_timeline){.n = v->n_ops,
                                .start = STEM_NEW_ARRAY(a, double, v->n_ops + 1),
                                .end = STEM_NEW_ARRAY(a, double, v->n_ops + 1),
                                .critical = STEM_NEW_ARRAY(a, bool, v->n_ops + 1)};
}

void stem_timeline_estimate(const struct stem_plan_variant *v, uint32_t n_streams, struct stem_arena *a,
                            struct stem_timeline *t)
{
    struct chain c = {STEM_NEW_ARRAY(a, uint32_t, v->n_ops + 1), STEM_NONE};
    uint32_t *last = STEM_NEW_ARRAY(a, uint32_t, n_streams + 1), e = 0, longest = STEM_NONE;
    timeline_new(v, a, t);
    for (uint32_t s = 0; s < n_streams; s++)
        last[s] = STEM_NONE;
    for (uint32_t i = 0; i < v->n_ops; i++) {
        const struct stem_plan_op *op = &v->ops[i];
        if (i && op->segment != v->ops[i - 1].segment)
            c.last_end = longest;
        c.cause[i] = STEM_NONE;
        follow(&c, t, i, c.last_end);
        follow(&c, t, i, last[op->stream]);
        for (; e < v->n_edges && v->edges[e].to <= i; e++)
            if (v->edges[e].to == i)
                follow(&c, t, i, v->edges[e].from);
        t->end[i] = t->start[i] + op->est_us;
        last[op->stream] = i;
        if (longest == STEM_NONE || t->end[i] > t->end[longest])
            longest = i;
    }
    mark_critical(&c, t);
}
