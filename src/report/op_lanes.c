/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicted lanes by op of a variant: each recorded segment is a graph of its own.
 */
#include <string.h>

#include "lanes/lanes.h"
#include "lanes/read.h"
#include "report/report.h"

void stem_op_lanes_find(const struct stem_plan_variant *v, struct stem_arena *a, struct stem_op_lanes *out)
{
    struct stem_lane_cases cases = {0};
    uint32_t segment = 0;
    *out =
        (struct stem_op_lanes){STEM_NEW_ARRAY(a, uint32_t, v->n_ops + 1), STEM_NEW_ARRAY(a, uint32_t, v->n_ops + 1),
                               STEM_NEW_ARRAY(a, uint32_t, v->n_ops + 1)};
    for (uint32_t i = 0; i < v->n_ops; i++)
        out->lane[i] = out->opens[i] = out->by[i] = STEM_NONE;
    stem_lane_from_variant(v, a, &cases);
    for (uint32_t c = 0; c < cases.len; c++) {
        struct stem_lanes l;
        while (v->n_segments && (v->segments[segment].eager || !v->segments[segment].n_ops))
            segment++;
        uint32_t first = v->n_segments ? v->segments[segment++].first_op : 0;
        if (!stem_lanes_predict(NULL, &cases.at[c].graph, a, &l))
            return;
        for (uint32_t i = 0; i < l.n; i++) {
            out->lane[first + i] = l.lane[i] == STEM_NO_LANE ? STEM_NONE : l.lane[i];
            if (l.why[i] < STEM_LANE_ROOT)
                continue;
            out->opens[first + i] = (uint32_t)l.why[i] - STEM_LANE_ROOT;
            out->by[first + i] = l.by[i] == STEM_NO_NODE ? STEM_NONE : first + l.by[i];
        }
    }
}

/* True if something else that `to` waits for comes after `from`. */
static bool implied(const struct stem_before *b, uint32_t from, uint32_t to)
{
    const struct stem_plan_variant *v = b->v;
    uint32_t low = 0, high = v->n_edges; /* the first edge into `to` */
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (v->edges[middle].to < to)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < v->n_edges && v->edges[low].to == to; low++)
        if (v->edges[low].from != from && stem_before(b, from, v->edges[low].from))
            return true;
    return false;
}

uint32_t stem_lane_events(const struct stem_plan *p, const struct stem_plan_variant *v, struct stem_arena *a)
{
    struct stem_before before;
    uint32_t *from = STEM_NEW_ARRAY(a, uint32_t, v->n_events + 1), *last = STEM_NEW_ARRAY(a, uint32_t, p->n_streams);
    uint32_t *pending = STEM_NEW_ARRAY(a, uint32_t, v->n_steps + 1), n_pending = 0, n = 0;
    bool *waited = STEM_NEW_ARRAY(a, bool, v->n_events + 1), *needed = STEM_NEW_ARRAY(a, bool, v->n_events + 1);
    stem_before_find(p, v, a, &before);
    memset(last, 0xff, p->n_streams * sizeof *last);
    for (uint32_t i = 0; i < v->n_steps; i++) {
        const struct stem_step *s = &v->steps[i];
        uint32_t kept = 0;
        if (s->kind == STEM_STEP_RECORD)
            from[s->index] = last[s->stream];
        if (s->kind == STEM_STEP_WAIT)
            pending[n_pending++] = i;
        for (uint32_t k = 0; k < n_pending && s->kind == STEM_STEP_OP; k++) {
            const struct stem_step *w = &v->steps[pending[k]];
            if (w->stream != s->stream) {
                pending[kept++] = pending[k];
                continue;
            }
            waited[w->index] = true;
            needed[w->index] |= from[w->index] == STEM_NONE || !implied(&before, from[w->index], s->index);
        }
        if (s->kind == STEM_STEP_OP) {
            n_pending = kept;
            last[s->stream] = s->index;
        }
    }
    for (uint32_t k = 0; k < n_pending; k++) /* joins at the end */
        needed[v->steps[pending[k]].index] = true;
    for (uint32_t e = 0; e < v->n_events; e++)
        n += waited[e] && !needed[e];
    return n;
}
