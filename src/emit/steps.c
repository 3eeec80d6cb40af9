/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps and edges of a variant: waits before their consumer, records right after their producer, lifetimes around
 * the uses, joins at the end of a segment; then the edges that these imply.
 */
#include "emit/part.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- steps ---- */

/* Sorts items 0..n-1 into lists by key (stable); key n_keys - 1 is the last. Items of key STEM_NONE are left out. */
static struct list group(struct stem_arena *a, const uint32_t *key, uint32_t n, uint32_t n_keys)
{
    struct list l = {STEM_NEW_ARRAY(a, uint32_t, n_keys + 1), STEM_NEW_ARRAY(a, uint32_t, n)};
    for (uint32_t i = 0; i < n; i++)
        if (key[i] != STEM_NONE)
            l.begin[key[i] + 1]++;
    for (uint32_t k = 0; k < n_keys; k++)
        l.begin[k + 1] += l.begin[k];
    uint32_t *next = STEM_NEW_ARRAY(a, uint32_t, n_keys);
    memcpy(next, l.begin, sizeof(uint32_t) * n_keys);
    for (uint32_t i = 0; i < n; i++)
        if (key[i] != STEM_NONE)
            l.at[next[key[i]]++] = i;
    return l;
}

static void group_waits(struct part *t)
{
    struct stem_arena *a = t->e->arena;
    const struct stem_schedule *s = &t->p->sched;
    uint32_t *to = STEM_NEW_ARRAY(a, uint32_t, s->waits.len), *end = STEM_NEW_ARRAY(a, uint32_t, s->waits.len);
    t->event = STEM_NEW_ARRAY(a, uint32_t, t->p->ops.len);
    t->fork = STEM_NEW_ARRAY(a, uint32_t, t->p->segments.len);
    memset(t->event, 0xff, sizeof(uint32_t) * t->p->ops.len);
    memset(t->fork, 0xff, sizeof(uint32_t) * t->p->segments.len);
    for (uint32_t i = 0; i < s->waits.len; i++) {
        const struct stem_wait *w = &s->waits.at[i];
        bool at_end = w->to.n == STEM_NONE;
        to[i] = at_end ? STEM_NONE : t->position[w->to.n];
        end[i] = at_end ? w->segment : STEM_NONE;
        /* wanted; numbered when it is recorded */
        if (w->from.n != STEM_NONE)
            t->event[w->from.n] = 0;
        else
            t->fork[at_end ? w->segment : stem_op_at(t->p, w->to)->segment] = 0;
    }
    t->wait = group(a, to, s->waits.len, s->order.len);
    t->join = group(a, end, s->waits.len, t->p->segments.len);
}

static void group_lifetimes(struct part *t)
{
    struct stem_arena *a = t->e->arena;
    const struct stem_schedule *s = &t->p->sched;
    uint32_t n = t->p->buffers.len;
    uint32_t *first = STEM_NEW_ARRAY(a, uint32_t, n), *last = STEM_NEW_ARRAY(a, uint32_t, n);
    for (uint32_t b = 0; b < n; b++) {
        bool temp = t->p->buffers.at[b].kind == STEM_BUFFER_TEMP && t->buffer[b] != STEM_NONE;
        struct stem_op_id use = temp ? s->first_use.at[b] : STEM_NO_OP;
        first[b] = use.n == STEM_NONE ? STEM_NONE : t->position[use.n];
        struct stem_op_id free_after = use.n == STEM_NONE ? STEM_NO_OP : s->free_after.at[b];
        last[b] = use.n == STEM_NONE         ? STEM_NONE
                  : free_after.n == STEM_NONE ? s->order.len /* after everything */
                                              : t->position[free_after.n];
    }
    t->alloc = group(a, first, n, s->order.len);
    t->release = group(a, last, n, s->order.len + 1);
}

static void step(struct part *t, enum stem_step_kind kind, uint32_t stream, uint32_t index)
{
    stem_vec_push(&t->steps, (struct stem_step){kind, stream, index});
}

static void lifetime_steps(struct part *t, enum stem_step_kind kind, const struct list *l, uint32_t i,
                           uint32_t stream)
{
    for (uint32_t k = l->begin[i]; k < l->begin[i + 1]; k++)
        step(t, kind, stream, t->buffer[l->at[k]]);
}

/* The event that stands for what `w` waits for. */
static uint32_t event_of(const struct part *t, const struct stem_wait *w, uint32_t segment)
{
    uint32_t e = w->from.n == STEM_NONE ? t->fork[segment] : t->event[w->from.n];
    if (e >= t->v->n_events)
        stem_emit_bug("a wait comes before what it waits for");
    return e;
}

static void op_steps(struct part *t, uint32_t position)
{
    const struct stem_schedule *s = &t->p->sched;
    const struct stem_plan_op *o = &t->v->ops[position];
    uint32_t id = s->order.at[position].n;
    for (uint32_t k = t->wait.begin[position]; k < t->wait.begin[position + 1]; k++)
        step(t, STEM_STEP_WAIT, o->stream, event_of(t, &s->waits.at[t->wait.at[k]], o->segment));
    lifetime_steps(t, STEM_STEP_ALLOC, &t->alloc, position, o->stream);
    step(t, STEM_STEP_OP, o->stream, position);
    if (t->event[id] != STEM_NONE)
        step(t, STEM_STEP_RECORD, o->stream, t->event[id] = t->v->n_events++);
    lifetime_steps(t, STEM_STEP_FREE, &t->release, position, o->stream);
}

static uint32_t segment_steps(struct part *t, uint32_t segment, uint32_t next, struct stem_plan_segment *out)
{
    const struct stem_schedule *s = &t->p->sched;
    *out = (struct stem_plan_segment){.first_op = next, .first_step = t->steps.len,
                                      .eager = t->p->segments.at[segment].eager};
    if (t->fork[segment] != STEM_NONE)
        step(t, STEM_STEP_RECORD, 0, t->fork[segment] = t->v->n_events++);
    for (; next < s->order.len && t->v->ops[next].segment == segment; next++)
        op_steps(t, next);
    for (uint32_t k = t->join.begin[segment]; k < t->join.begin[segment + 1]; k++)
        step(t, STEM_STEP_WAIT, 0, event_of(t, &s->waits.at[t->join.at[k]], segment));
    if (segment + 1 == t->p->segments.len)
        lifetime_steps(t, STEM_STEP_FREE, &t->release, s->order.len, 0);
    out->n_ops = next - out->first_op;
    out->n_steps = t->steps.len - out->first_step;
    step(t, STEM_STEP_SEGMENT, 0, segment);
    return next;
}

void stem_emit_steps(struct part *t)
{
    group_waits(t);
    group_lifetimes(t);
    struct stem_plan_variant *v = t->v;
    v->n_segments = t->p->segments.len;
    struct stem_plan_segment *segments = STEM_PLAN_ARRAY(t->e->plan, struct stem_plan_segment, v->n_segments);
    uint32_t next = 0;
    for (uint32_t i = 0; i < v->n_segments; i++)
        next = segment_steps(t, i, next, &segments[i]);
    if (next != v->n_ops)
        stem_emit_bug("an op is in segment %u, which does not exist", v->ops[next].segment);
    v->segments = segments;
    struct stem_step *steps = STEM_PLAN_ARRAY(t->e->plan, struct stem_step, t->steps.len);
    memcpy(steps, t->steps.at, sizeof *steps * t->steps.len);
    v->steps = steps;
    v->n_steps = t->steps.len;
    stem_vec_free(&t->steps);
}

/* ---- edges ---- */

void stem_emit_edges(struct part *t)
{
    struct stem_plan_edge *edges = NULL;
    errno = 0;
    uint32_t n = stem_plan_derive_edges(t->v, t->e->plan->n_streams, &edges);
    if (n == STEM_NONE && errno == ENOMEM)
        stem_out_of_memory();
    if (n == STEM_NONE)
        stem_emit_bug("the steps refer to something that does not exist");
    struct stem_plan_edge *copy = STEM_PLAN_ARRAY(t->e->plan, struct stem_plan_edge, n);
    if (n)
        memcpy(copy, edges, sizeof *copy * n);
    free(edges);
    t->v->edges = copy;
    t->v->n_edges = n;
}
