/* SPDX-License-Identifier: Apache-2.0 */
#include "pass/hb.h"

#include <string.h>

#include "pass/graph.h"

struct stem_hb *stem_hb_begin(struct stem_arena *a, const struct stem_program *p)
{
    struct stem_hb *hb = STEM_NEW(a, struct stem_hb);
    hb->p = p;
    hb->n_streams = p->streams.len;
    hb->index = STEM_NEW_ARRAY(a, uint32_t, p->ops.len);
    hb->position = STEM_NEW_ARRAY(a, uint32_t, p->ops.len);
    hb->clock = STEM_NEW_ARRAY(a, uint32_t, (size_t)p->ops.len * hb->n_streams);
    hb->now = STEM_NEW_ARRAY(a, uint32_t, hb->n_streams * hb->n_streams);
    hb->start = STEM_NEW_ARRAY(a, uint32_t, hb->n_streams);
    for (uint32_t i = 0; i < p->ops.len; i++)
        hb->position[i] = STEM_NONE;
    return hb;
}

void stem_hb_learn(struct stem_hb *hb, uint32_t stream, const uint32_t *row)
{
    uint32_t *now = stem_hb_now(hb, stream);
    for (uint32_t i = 0; i < hb->n_streams; i++)
        now[i] = row[i] > now[i] ? row[i] : now[i];
}

void stem_hb_start_segment(struct stem_hb *hb)
{
    for (uint32_t i = 1; i < hb->n_streams; i++)
        stem_hb_learn(hb, 0, stem_hb_now(hb, i));
    hb->now[0]++;
    memcpy(hb->start, hb->now, hb->n_streams * sizeof *hb->start);
}

void stem_hb_issue(struct stem_hb *hb, struct stem_op_id op, uint32_t position)
{
    uint32_t stream = stem_op_at(hb->p, op)->stream.n, *now = stem_hb_now(hb, stream);
    hb->index[op.n] = ++now[stream];
    hb->position[op.n] = position;
    memcpy(hb->clock + (size_t)op.n * hb->n_streams, now, hb->n_streams * sizeof *now);
}

struct stem_hb *stem_hb_new(struct stem_arena *a, const struct stem_program *p, bool use_deps)
{
    struct stem_hb *hb = stem_hb_begin(a, p);
    struct stem_graph preds = {0};
    uint32_t segment = STEM_NONE, w = 0;
    if (use_deps)
        preds = stem_graph_preds(a, p, STEM_DEPS_ALL, true);
    for (uint32_t i = 0; i < p->sched.order.len; i++) {
        struct stem_op_id op = p->sched.order.at[i];
        uint32_t stream = stem_op_at(p, op)->stream.n;
        if (stem_op_at(p, op)->segment != segment) {
            segment = stem_op_at(p, op)->segment;
            stem_hb_start_segment(hb);
        }
        if (use_deps) {
            stem_hb_learn(hb, stream, hb->start);
            for (uint32_t e = preds.begin[op.n]; e < preds.begin[op.n + 1]; e++)
                stem_hb_learn(hb, stream, stem_hb_clock(hb, preds.to[e]));
        }
        while (w < p->sched.waits.len && p->sched.waits.at[w].to.n == STEM_NONE)
            w++; /* joins: the start of the next segment stands for them */
        for (; w < p->sched.waits.len && p->sched.waits.at[w].to.n == op.n; w++) {
            struct stem_op_id from = p->sched.waits.at[w].from;
            stem_hb_learn(hb, stream, from.n == STEM_NONE ? hb->start : stem_hb_clock(hb, from.n));
        }
        stem_hb_issue(hb, op, i);
    }
    return hb;
}

bool stem_hb_before(const struct stem_hb *hb, struct stem_op_id a, struct stem_op_id b)
{
    return a.n != b.n && stem_hb_clock(hb, b.n)[stem_op_at(hb->p, a)->stream.n] >= hb->index[a.n];
}

uint32_t stem_hb_position(const struct stem_hb *hb, struct stem_op_id a)
{
    return hb->position[a.n];
}
