/* SPDX-License-Identifier: Apache-2.0
 *
 * events: the waits between streams, as few as possible.
 *
 * Ops are walked in issue order with a vector clock for each stream. Of the ops on another stream that an op depends
 * on only the latest can matter; it is left out if the stream knows of it already or if another wait of this op
 * brings it. What is left is the transitive reduction of streams and dependencies together, which is unique: no wait
 * can be left out, and none is ever wider than the dependency that it is for, since an event is recorded right after
 * its producer.
 *
 * Each segment starts with a point on main that all side work of the segment comes after, and ends with main waiting
 * for every side stream used in it, unless something has waited for its last op already. Both are NO_OP in a wait.
 *
 * Time: ops times streams squared at worst, in practice linear.
 */
#include "pass/events.h"
#include "pass/streams.h"

struct candidate {
    uint32_t op; /* STEM_NONE: the start of the segment */
    uint32_t index;
    const uint32_t *row;
};

struct state {
    struct stem_program *p;
    struct stem_hb *hb;
    struct candidate from[STEM_MAX_STREAMS];  /* by stream; row NULL: none */
    struct stem_op_id last[STEM_MAX_STREAMS]; /* by side stream: last op in this segment */
};

static void consider(struct state *s, uint32_t stream, struct candidate c)
{
    if (!s->from[stream].row || s->from[stream].index < c.index)
        s->from[stream] = c;
}

static void consider_op(struct state *s, uint32_t op)
{
    consider(s, s->p->ops.at[op].stream.n, (struct candidate){op, s->hb->index[op], stem_hb_clock(s->hb, op)});
}

static bool covered(const struct state *s, uint32_t stream, uint32_t from)
{
    uint32_t index = s->from[from].index;
    if (stem_hb_now(s->hb, stream)[from] >= index)
        return true;
    for (uint32_t i = 0; i < s->hb->n_streams; i++)
        if (i != from && s->from[i].row && s->from[i].row[from] >= index)
            return true;
    return false;
}

/* Emits what the candidates leave to wait for, then forgets them. */
static void wait_for(struct state *s, uint32_t stream, struct stem_op_id to, uint32_t segment)
{
    bool keep[STEM_MAX_STREAMS];
    for (uint32_t i = 0; i < s->hb->n_streams; i++)
        keep[i] = s->from[i].row && !covered(s, stream, i);
    for (uint32_t i = 0; i < s->hb->n_streams; i++) {
        if (keep[i]) {
            stem_vec_push(&s->p->sched.waits, (struct stem_wait){{s->from[i].op}, to, segment, false});
            stem_hb_learn(s->hb, stream, s->from[i].row);
        }
        s->from[i].row = NULL;
    }
}

static void end_segment(struct state *s, uint32_t segment)
{
    for (uint32_t i = 1; i < s->hb->n_streams; i++) {
        if (s->last[i].n != STEM_NONE)
            consider_op(s, s->last[i].n);
        s->last[i] = STEM_NO_OP;
    }
    wait_for(s, 0, STEM_NO_OP, segment);
}

static void one_op(struct state *s, const struct stem_graph *preds, struct stem_op_id id, uint32_t position)
{
    uint32_t stream = stem_op_at(s->p, id)->stream.n;
    for (uint32_t e = preds->begin[id.n]; e < preds->begin[id.n + 1]; e++)
        if (s->p->ops.at[preds->to[e]].stream.n != stream)
            consider_op(s, preds->to[e]);
    if (stream)
        consider(s, 0, (struct candidate){STEM_NONE, s->hb->start[0], s->hb->start});
    wait_for(s, stream, id, stem_op_at(s->p, id)->segment);
    stem_hb_issue(s->hb, id, position);
    s->last[stream] = id;
}

uint32_t stem_events_count(const struct stem_program *p, struct stem_arena *a)
{
    bool *op = STEM_NEW_ARRAY(a, bool, p->ops.len), *start = STEM_NEW_ARRAY(a, bool, p->segments.len);
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->sched.waits.len; i++) {
        const struct stem_wait *w = &p->sched.waits.at[i];
        bool *seen = w->from.n == STEM_NONE ? &start[w->segment] : &op[w->from.n];
        n += !*seen;
        *seen = true;
    }
    return n;
}

static void make_waits(struct stem_program *p, struct stem_arena *a)
{
    struct stem_graph preds = stem_graph_preds(a, p, STEM_DEPS_ALL, true);
    struct state s = {.p = p, .hb = stem_hb_begin(a, p)};
    uint32_t segment = STEM_NONE;
    stem_vec_clear(&p->sched.waits);
    for (uint32_t i = 0; i < STEM_MAX_STREAMS; i++)
        s.last[i] = STEM_NO_OP;
    for (uint32_t i = 0; i < p->sched.order.len; i++) {
        struct stem_op_id id = p->sched.order.at[i];
        if (stem_op_at(p, id)->segment != segment) {
            if (segment != STEM_NONE)
                end_segment(&s, segment);
            segment = stem_op_at(p, id)->segment;
            stem_hb_start_segment(s.hb);
        }
        one_op(&s, &preds, id, i);
    }
    if (segment != STEM_NONE)
        end_segment(&s, segment);
    p->sched.n_events = stem_events_count(p, a);
}

void stem_schedule_estimate(struct stem_program *p, struct stem_arena *a, const struct stem_target *t)
{
    double *finish = STEM_NEW_ARRAY(a, double, p->ops.len), end[STEM_MAX_STREAMS] = {0}, start = 0;
    uint32_t segment = STEM_NONE, w = 0;
    p->sched.total_us = p->sched.floor_us = 0;
    for (uint32_t i = 0; i < p->sched.order.len; i++) {
        uint32_t id = p->sched.order.at[i].n;
        const struct stem_op *op = &p->ops.at[id];
        for (uint32_t k = 0; op->segment != segment && k < p->streams.len; k++)
            start = end[k] > start ? end[k] : start;
        segment = op->segment;
        double begin = end[op->stream.n] > start ? end[op->stream.n] : start;
        while (w < p->sched.waits.len && p->sched.waits.at[w].to.n == STEM_NONE)
            w++;
        for (; w < p->sched.waits.len && p->sched.waits.at[w].to.n == id; w++)
            if (p->sched.waits.at[w].from.n != STEM_NONE && finish[p->sched.waits.at[w].from.n] > begin)
                begin = finish[p->sched.waits.at[w].from.n];
        finish[id] = end[op->stream.n] = begin + op->est_us;
        p->sched.total_us += op->est_us;
        p->sched.floor_us += 1e6 * (double)(op->cost.bytes_read + op->cost.bytes_written) / t->bandwidth;
    }
    p->sched.critical_path_us = 0;
    for (uint32_t k = 0; k < p->streams.len; k++)
        p->sched.critical_path_us = end[k] > p->sched.critical_path_us ? end[k] : p->sched.critical_path_us;
}

void stem_events_build(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    make_waits(p, ctx->scratch);
    stem_schedule_estimate(p, ctx->scratch, &ctx->options->target);
}

static bool run(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    stem_events_build(p, ctx);
    struct stem_reach r = stem_reach_new(ctx->scratch, p);
    p->sched.events_bound = r.producers;
    p->sched.schedule_us = stem_simulate(p, ctx->scratch, ctx->options);
    stem_events_remarks(p, ctx, &r);
    if (stem_streams_has_pins(p, ctx->options))
        stem_streams_pinned(p, ctx);
    return true;
}

const struct stem_pass stem_pass_events = {
    .name = "events",
    .blurb = "waits between streams, as few as possible",
    .needs = STEM_FACT_STREAMS | STEM_FACT_DEPS | STEM_FACT_ORDER,
    .gives = STEM_FACT_WAITS,
    .kills = STEM_FACT_LIFETIME | STEM_FACT_MEMORY | STEM_FACT_LANES,
    .run = run,
};
