/* SPDX-License-Identifier: Apache-2.0
 *
 * Routes: before a variant is ever launched, its steps are walked once. Streams that a segment uses without forking
 * them get a fork at its start, waits for events of earlier segments are dropped (each segment may be a graph of its
 * own), and a stream that is still outstanding at a segment's end is refused.
 */
#include "exec.h"

#include <stdlib.h>
#include <string.h>

struct walk {
    const struct stem_plan *p;
    const struct stem_plan_variant *v;
    struct stem_route *route;
    uint32_t n;                 /* streams */
    uint32_t *known;            /* [stream][stream]: ops of the second that precede what is next on the first */
    uint32_t *at_event;         /* [event][stream] */
    uint32_t *segment_of_event; /* segment in which it was recorded, or STEM_NONE */
    uint32_t *issued, *last;    /* per stream: ops so far, and the last one */
};

void stem_route_free(struct stem_route *route)
{
    free(route->fork);
    free(route->used);
    free(route->skip);
    memset(route, 0, sizeof *route);
}

static void merge(uint32_t *into, const uint32_t *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (from[i] > into[i])
            into[i] = from[i];
}

static void walk_step(struct walk *w, uint32_t segment, uint32_t index)
{
    const struct stem_step *s = &w->v->steps[index];
    size_t at = (size_t)segment * w->n + s->stream;
    bool first = !w->route->used[at];
    bool joins = false;
    uint32_t *known = w->known + (size_t)s->stream * w->n;
    bool event_step = s->kind == STEM_STEP_RECORD || s->kind == STEM_STEP_WAIT;
    uint32_t *event = event_step ? w->at_event + (size_t)s->index * w->n : NULL;
    switch (s->kind) {
    case STEM_STEP_OP:
        known[s->stream] = ++w->issued[s->stream];
        w->last[s->stream] = s->index;
        break;
    case STEM_STEP_RECORD:
        memcpy(event, known, w->n * sizeof *event);
        w->segment_of_event[s->index] = segment;
        break;
    case STEM_STEP_WAIT:
        joins = w->segment_of_event[s->index] == segment;
        w->route->skip[index] = !joins;
        if (joins)
            merge(known, event, w->n);
        else
            return;
        break;
    case STEM_STEP_ALLOC:
    case STEM_STEP_FREE:
    case STEM_STEP_SEGMENT:
        break;
    }
    w->route->used[at] = true;
    if (first && s->stream != 0 && !joins)
        w->route->fork[at] = true;
}

static enum stem_status walk_segment(struct walk *w, uint32_t segment, struct stem_rt_error *err)
{
    const struct stem_plan_segment *s = &w->v->segments[segment];
    /* What came before has joined stream 0, and every stream starts from there. */
    for (uint32_t i = 0; i < w->n; i++)
        memcpy(w->known + (size_t)i * w->n, w->issued, w->n * sizeof *w->known);
    for (uint32_t i = 0; i < s->n_steps; i++)
        walk_step(w, segment, s->first_step + i);
    for (uint32_t t = 0; t < w->n; t++) {
        if (w->known[t] == w->issued[t])
            continue;
        stem_fail(err, STEM_E_PLAN, "stream %s is not joined at the end of segment %u", w->p->streams[t],
                  (unsigned)segment);
        stem_error_at_op(err, w->p, w->v, w->last[t]);
        return STEM_E_PLAN;
    }
    return STEM_OK;
}

enum stem_status stem_route_make(const struct stem_plan *p, uint32_t variant, struct stem_route *route,
                                 struct stem_rt_error *err)
{
    const struct stem_plan_variant *v = &p->variants[variant];
    struct walk w = {.p = p, .v = v, .route = route, .n = p->n_streams};
    size_t cells = (size_t)v->n_segments * w.n;
    enum stem_status s = STEM_OK;
    route->fork = stem_zalloc(cells, sizeof *route->fork);
    route->used = stem_zalloc(cells, sizeof *route->used);
    route->skip = stem_zalloc(v->n_steps, sizeof *route->skip);
    w.known = stem_zalloc((size_t)w.n * w.n, sizeof *w.known);
    w.at_event = stem_zalloc((size_t)v->n_events * w.n, sizeof *w.at_event);
    w.segment_of_event = stem_zalloc(v->n_events, sizeof *w.segment_of_event);
    w.issued = stem_zalloc(w.n, sizeof *w.issued);
    w.last = stem_zalloc(w.n, sizeof *w.last);
    if (!route->fork || !route->used || !route->skip || !w.known || !w.at_event || !w.segment_of_event || !w.issued ||
        !w.last) {
        s = stem_fail(err, STEM_E_MEMORY, "out of memory");
    } else {
        for (uint32_t i = 0; i < v->n_events; i++)
            w.segment_of_event[i] = STEM_NONE;
        for (uint32_t i = 0; i < v->n_segments && !s; i++)
            s = walk_segment(&w, i, err);
    }
    free(w.known);
    free(w.at_event);
    free(w.segment_of_event);
    free(w.issued);
    free(w.last);
    return s;
}
