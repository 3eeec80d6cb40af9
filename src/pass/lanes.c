/* SPDX-License-Identifier: Apache-2.0
 *
 * lanes: how many internal streams the driver will use on replay, by the model in src/lanes. Each segment that is
 * recorded is a graph of its own; its nodes are the ops in issue order, and its edges follow from streams and waits
 * by the rules of stream capture: an op depends on the previous op of its stream and on what the stream has waited
 * for since. The largest count is kept. More lanes than streams is a warning that names the first fork that opens one
 * too many; more than options.max_lanes is an error.
 */
#include "lanes/lanes.h"

#include <string.h>

#include "lanes/repair.h"
#include "pass/graph.h"

struct state {
    struct stem_program *p;
    struct stem_pass_ctx *ctx;
    uint32_t *node; /* by op: its number in the graph of its segment */
    uint32_t wait;  /* next of sched.waits */
    uint32_t lanes; /* of the segment with most */
    bool warned;
};

static struct stem_lane_graph segment_graph(struct state *s, uint32_t begin, uint32_t end)
{
    const struct stem_program *p = s->p;
    struct stem_arena *a = s->ctx->scratch;
    uint32_t last[STEM_MAX_STREAMS];
    STEM_VEC(struct stem_lane_edge) edges = {0};
    struct stem_lane_graph g = {.n = end - begin};
    uint8_t *kind = STEM_NEW_ARRAY(a, uint8_t, g.n);
    memset(last, 0xff, sizeof last);
    for (uint32_t i = begin; i < end; i++) {
        struct stem_op_id id = p->sched.order.at[i];
        const struct stem_op *op = stem_op_at(p, id);
        s->node[id.n] = i - begin;
        kind[i - begin] =
            op->class == STEM_OP_BUILTIN && !strcmp(op->def->name, "zero") ? STEM_LANE_MEMSET : STEM_LANE_KERNEL;
        if (last[op->stream.n] != STEM_NONE)
            stem_vec_push(&edges, (struct stem_lane_edge){last[op->stream.n], i - begin, op->programmatic});
        last[op->stream.n] = i - begin;
        for (; s->wait < p->sched.waits.len; s->wait++) {
            const struct stem_wait *w = &p->sched.waits.at[s->wait];
            if (w->to.n == STEM_NONE && w->segment != op->segment)
                continue; /* a join of the segment before */
            if (w->to.n != id.n)
                break;
            if (w->from.n != STEM_NONE)
                stem_vec_push(&edges, (struct stem_lane_edge){s->node[w->from.n], i - begin, false});
        }
    }
    g.kind = kind;
    g.edges = stem_arena_dup(a, edges.at, edges.len * sizeof *edges.at);
    g.n_edges = edges.len;
    stem_vec_free(&edges);
    return g;
}

static uint32_t streams_used(const struct stem_program *p, uint32_t begin, uint32_t end)
{
    bool used[STEM_MAX_STREAMS] = {false};
    uint32_t n = 0;
    for (uint32_t i = begin; i < end; i++) {
        bool *u = &used[stem_op_at(p, p->sched.order.at[i])->stream.n];
        n += !*u;
        *u = true;
    }
    return n;
}

/* Names the opening that makes one lane too many. */
static void warn(struct state *s, const struct stem_lane_graph *g, const struct stem_lanes *l, uint32_t begin,
                 uint32_t streams)
{
    const struct stem_program *p = s->p;
    struct stem_lane_openings o = {0};
    s->warned = true;
    stem_lanes_explain(g, l, s->ctx->scratch, &o);
    if (o.len <= streams)
        return;
    const struct stem_lane_opening *x = &o.at[streams];
    struct stem_op_id op = p->sched.order.at[begin + x->node];
    stem_warning(s->ctx->diags, STEM_E_MORE_LANES, stem_op_at(p, op)->span,
                 "the driver will use %u lanes for %u streams: '%s' opens one of its own", l->n_kernel_lanes, streams,
                 stem_op_label(p, op));
    if (x->parent != STEM_NO_NODE) {
        struct stem_op_id parent = p->sched.order.at[begin + x->parent];
        stem_diag_label(s->ctx->diags, stem_op_at(p, parent)->span, "it forks after '%s'", stem_op_label(p, parent));
    }
    if (s->ctx->options->order != STEM_ORDER_MAIN_FIRST)
        stem_diag_help(s->ctx->diags, "--order=main-first issues main's ops before those of the side streams");
}

static bool run(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    struct state s = {.p = p, .ctx = ctx, .node = STEM_NEW_ARRAY(ctx->scratch, uint32_t, p->ops.len)};
    uint32_t n = p->sched.order.len;
    for (uint32_t begin = 0, end; begin < n; begin = end) {
        uint32_t segment = stem_op_at(p, p->sched.order.at[begin])->segment;
        for (end = begin; end < n && stem_op_at(p, p->sched.order.at[end])->segment == segment; end++)
            ;
        struct stem_lane_graph g = segment_graph(&s, begin, end);
        struct stem_lanes l;
        if (p->segments.at[segment].eager || !stem_lanes_predict(NULL, &g, ctx->scratch, &l))
            continue;
        uint32_t streams = streams_used(p, begin, end);
        s.lanes = l.n_kernel_lanes > s.lanes ? l.n_kernel_lanes : s.lanes;
        if (l.n_kernel_lanes > streams && !s.warned)
            warn(&s, &g, &l, begin, streams);
    }
    p->sched.lanes = s.lanes;
    if (ctx->options->max_lanes && s.lanes > ctx->options->max_lanes) {
        stem_error(ctx->diags, STEM_E_TOO_MANY_LANES, STEM_NOWHERE,
                   "the driver will use %u lanes, and at most %u are allowed", s.lanes, ctx->options->max_lanes);
        return false;
    }
    return true;
}

const struct stem_pass stem_pass_lanes = {
    .name = "lanes",
    .blurb = "the driver's internal streams, predicted",
    .needs = STEM_FACT_STREAMS | STEM_FACT_ORDER | STEM_FACT_WAITS,
    .gives = STEM_FACT_LANES,
    .run = run,
};
