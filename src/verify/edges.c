/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph. Its edges must be exactly those that the steps imply under the rules of stream capture: then whatever
 * holds of the steps holds of the graph, and one analysis of happens-before serves both. A *continuation* must be
 * what it says, implied by the op's other edges, because whoever builds a graph may leave it out.
 */
#include "verify/check.h"

#include <stdlib.h>
#include <string.h>

static void reserve(struct stem_check_stream *s, uint32_t n)
{
    if (n <= s->cap_pending)
        return;
    s->cap_pending = 2 * n;
    s->pending = stem_xrealloc(s->pending, sizeof(uint32_t) * s->cap_pending);
}

/* Merges two ascending lists. */
void stem_check_edges_wait(struct stem_check *c, uint32_t stream, uint32_t event)
{
    struct stem_check_stream *s = &c->streams[stream];
    const struct stem_check_event *e = &c->events[event];
    uint32_t n = s->n_pending, m = e->n_pending, out = n + m;
    reserve(s, n + m);
    /* from the back, so that nothing is overwritten before it is read; a duplicate leaves a gap at the front */
    while (n || m) {
        bool both = n && m && s->pending[n - 1] == e->pending[m - 1];
        bool mine = !m || (n && s->pending[n - 1] > e->pending[m - 1]);
        s->pending[--out] = mine || both ? s->pending[n - 1] : e->pending[m - 1];
        n -= mine || both;
        m -= !mine || both;
    }
    uint32_t len = s->n_pending + e->n_pending - out;
    if (out)
        memmove(s->pending, s->pending + out, sizeof(uint32_t) * len);
    s->n_pending = len;
}

void stem_check_edges_record(struct stem_check *c, uint32_t stream, uint32_t event)
{
    const struct stem_check_stream *s = &c->streams[stream];
    c->events[event].pending = NULL;
    c->events[event].n_pending = s->n_pending;
    if (s->n_pending)
        c->events[event].pending = stem_arena_dup(c->arena, s->pending, sizeof(uint32_t) * s->n_pending);
}

static void missing(struct stem_check *c, uint32_t from, uint32_t to)
{
    stem_check_fault(c, STEM_E_VERIFY_EDGE, to, from, "the graph lacks the edge from %s to %s, which the steps imply",
                     stem_check_op_text(c, from), stem_check_op_text(c, to));
}

static void surplus(struct stem_check *c, const struct stem_plan_edge *e)
{
    stem_check_fault(c, STEM_E_VERIFY_EDGE, e->to, e->from,
                     "the graph has an edge from %s to %s that no step implies", stem_check_op_text(c, e->from),
                     stem_check_op_text(c, e->to));
}

/* Is `from` before another of the ops that the stream's next op depends on? */
static bool implied(const struct stem_check *c, const struct stem_check_stream *s, uint32_t from)
{
    uint32_t stream = c->v->ops[from].stream;
    for (uint32_t i = 0; i < s->n_pending; i++)
        if (s->pending[i] != from &&
            c->op_clock[s->pending[i] * (size_t)c->plan->n_streams + stream] >= c->op_tick[from])
            return true;
    return false;
}

static void judge_edge(struct stem_check *c, const struct stem_check_stream *s, const struct stem_plan_edge *e)
{
    const struct stem_plan_op *from = &c->v->ops[e->from], *to = &c->v->ops[e->to];
    bool own = s->last_op == e->from;
    if (e->continuation && !(own && to->stream && implied(c, s, e->from)))
        stem_check_fault(c, STEM_E_VERIFY_EDGE, e->to, e->from,
                         "the edge from %s to %s is marked as a continuation, but no other edge implies it",
                         stem_check_op_text(c, e->from), stem_check_op_text(c, e->to));
    bool programmatic = e->kind == STEM_EDGE_PROGRAMMATIC;
    if (programmatic != (to->programmatic && own))
        stem_check_fault(c, STEM_E_VERIFY_PROGRAMMATIC, e->to, e->from,
                         programmatic ? "the edge from %s to %s is programmatic, but %s"
                                      : "the edge from %s to %s is full, but %s",
                         stem_check_op_text(c, e->from), stem_check_op_text(c, e->to),
                         !programmatic      ? "the consumer is launched programmatically after it"
                         : to->programmatic ? "only the edge from the stream's previous op may be"
                                            : "the consumer is launched as an ordinary one");
    else if (programmatic && from->work != STEM_WORK_LAUNCH)
        stem_check_fault(c, STEM_E_VERIFY_PROGRAMMATIC, e->to, e->from,
                         "the edge from %s to %s is programmatic, but it does not start at a kernel",
                         stem_check_op_text(c, e->from), stem_check_op_text(c, e->to));
}

void stem_check_edges_op(struct stem_check *c, uint32_t op)
{
    struct stem_check_stream *s = &c->streams[c->v->ops[op].stream];
    const struct stem_plan_variant *v = c->v;
    uint32_t i = 0;
    while (c->next_edge < v->n_edges && v->edges[c->next_edge].to == op) {
        const struct stem_plan_edge *e = &v->edges[c->next_edge];
        if (i < s->n_pending && s->pending[i] < e->from) {
            missing(c, s->pending[i++], op);
            continue;
        }
        if (i == s->n_pending || s->pending[i] > e->from) {
            surplus(c, e);
        } else {
            judge_edge(c, s, e);
            i++;
        }
        c->next_edge++;
    }
    for (; i < s->n_pending; i++)
        missing(c, s->pending[i], op);
    reserve(s, 1);
    s->pending[0] = op;
    s->n_pending = 1;
}

void stem_check_edges_end(struct stem_check *c)
{
    for (; c->next_edge < c->v->n_edges && c->faults < STEM_VERIFY_MAX_FAULTS; c->next_edge++)
        surplus(c, &c->v->edges[c->next_edge]);
}
