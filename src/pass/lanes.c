/* SPDX-License-Identifier: Apache-2.0
 *
 * lanes: how many internal streams the driver will use on replay, by the model in src/lanes. Each segment that is
 * recorded is a graph of its own; its nodes are the ops in issue order, and its edges follow from streams and waits
 * by the rules of stream capture: an op depends on the previous op of its stream and on what the stream has waited
 * for since. The largest count is kept.
 *
 * If there are more lanes than streams, lanes_repair.c looks for a schedule with fewer. What remains is a warning that
 * names the first fork that opens one too many; more than options.max_lanes is an error.
 */
#include "pass/lanes.h"

#include <string.h>

#include "lanes/repair.h"
#include "pass/graph.h"

struct state {
    const struct stem_program *p;
    struct stem_arena *a;
    uint32_t *node; /* by op: its number in the graph of its segment */
    uint32_t wait;  /* next of sched.waits */
};

/* `zero` is a memset of its result. */
static enum stem_lane_kind kind_of(const struct stem_program *p, const struct stem_op *op)
{
    if (op->class != STEM_OP_BUILTIN || strcmp(op->def->name, "zero") != 0)
        return STEM_LANE_KERNEL;
    return stem_lane_memset_kind(stem_tensor_extent(&stem_value_at(p, op->operands[op->n_in].value)->tensor));
}

static void make_graph(struct state *s, struct stem_lane_part *part)
{
    const struct stem_program *p = s->p;
    uint32_t last[STEM_MAX_STREAMS], n = part->end - part->begin;
    STEM_VEC(struct stem_lane_edge) edges = {0};
    uint8_t *kind = STEM_NEW_ARRAY(s->a, uint8_t, n);
    part->stream = STEM_NEW_ARRAY(s->a, uint32_t, n);
    memset(last, 0xff, sizeof last);
    for (uint32_t i = 0; i < n; i++) {
        struct stem_op_id id = p->sched.order.at[part->begin + i];
        const struct stem_op *op = stem_op_at(p, id);
        s->node[id.n] = i;
        kind[i] = (uint8_t)kind_of(p, op);
        part->stream[i] = op->stream.n;
        part->streams += last[op->stream.n] == STEM_NONE;
        if (last[op->stream.n] != STEM_NONE)
            stem_vec_push(&edges, (struct stem_lane_edge){last[op->stream.n], i, op->programmatic});
        last[op->stream.n] = i;
        for (; s->wait < p->sched.waits.len; s->wait++) {
            const struct stem_wait *w = &p->sched.waits.at[s->wait];
            if (w->to.n == STEM_NONE && w->segment != op->segment)
                continue; /* a join of the segment before */
            if (w->to.n != id.n)
                break;
            if (w->from.n != STEM_NONE)
                stem_vec_push(&edges, (struct stem_lane_edge){s->node[w->from.n], i, false});
        }
    }
    part->graph = (struct stem_lane_graph){.n = n, .kind = kind, .n_edges = edges.len};
    part->graph.edges = stem_arena_dup(s->a, edges.at, edges.len * sizeof *edges.at);
    stem_vec_free(&edges);
}

struct stem_lane_view stem_lane_view_new(const struct stem_program *p, struct stem_arena *a)
{
    struct state s = {.p = p, .a = a, .node = STEM_NEW_ARRAY(a, uint32_t, p->ops.len)};
    struct stem_lane_view view = {.at = STEM_NEW_ARRAY(a, struct stem_lane_part, p->segments.len)};
    uint32_t n = p->sched.order.len;
    for (uint32_t begin = 0, end; begin < n; begin = end) {
        uint32_t segment = stem_op_at(p, p->sched.order.at[begin])->segment;
        for (end = begin; end < n && stem_op_at(p, p->sched.order.at[end])->segment == segment; end++)
            ;
        struct stem_lane_part part = {.begin = begin, .end = end};
        make_graph(&s, &part);
        if (p->segments.at[segment].eager || !stem_lanes_predict(NULL, &part.graph, a, &part.lanes))
            continue;
        uint32_t lanes = part.lanes.n_kernel_lanes;
        view.most = lanes > view.most ? lanes : view.most;
        view.excess += lanes > part.streams ? lanes - part.streams : 0;
        view.at[view.len++] = part;
    }
    return view;
}

/* The opening that makes one lane more than `allowed`; its node STEM_NO_NODE if there is none. */
static struct stem_lane_opening one_too_many(const struct stem_lane_part *part, uint32_t allowed, struct stem_arena *a)
{
    struct stem_lane_openings o = {0};
    stem_lanes_explain(&part->graph, &part->lanes, a, &o);
    return o.len > allowed ? o.at[allowed] : (struct stem_lane_opening){.node = STEM_NO_NODE, .parent = STEM_NO_NODE};
}

static void label_parent(const struct stem_program *p, struct stem_diags *diags, const struct stem_lane_part *part,
                         const struct stem_lane_opening *x)
{
    if (x->parent == STEM_NO_NODE)
        return;
    struct stem_op_id parent = p->sched.order.at[part->begin + x->parent];
    stem_diag_label(diags, stem_op_at(p, parent)->span, "it forks after '%s'", stem_op_label(p, parent));
}

static void help(struct stem_pass_ctx *ctx, bool repaired)
{
    if (ctx->options->order != STEM_ORDER_MAIN_FIRST)
        stem_diag_help(ctx->diags, "--order=main-first issues main's ops before those of the side streams");
    if (!repaired)
        stem_diag_help(ctx->diags, "--lane-repair=always looks for waits that let lanes go on");
}

/* About the first part with more lanes than streams. */
static void warn(const struct stem_program *p, struct stem_pass_ctx *ctx, const struct stem_lane_view *view,
                 bool repaired)
{
    for (uint32_t i = 0; i < view->len; i++) {
        const struct stem_lane_part *part = &view->at[i];
        if (part->lanes.n_kernel_lanes <= part->streams)
            continue;
        struct stem_lane_opening x = one_too_many(part, part->streams, ctx->scratch);
        if (x.node == STEM_NO_NODE)
            return;
        struct stem_op_id op = p->sched.order.at[part->begin + x.node];
        stem_warning(ctx->diags, STEM_E_MORE_LANES, stem_op_at(p, op)->span,
                     "the driver will use %u lanes for %u streams: '%s' opens one of its own",
                     part->lanes.n_kernel_lanes, part->streams, stem_op_label(p, op));
        label_parent(p, ctx->diags, part, &x);
        help(ctx, repaired);
        return;
    }
}

/* About the part with most lanes. */
static void refuse(const struct stem_program *p, struct stem_pass_ctx *ctx, const struct stem_lane_view *view,
                   bool repaired)
{
    const struct stem_lane_part *part = view->at;
    uint32_t allowed = ctx->options->max_lanes;
    for (uint32_t i = 1; i < view->len; i++)
        if (view->at[i].lanes.n_kernel_lanes > part->lanes.n_kernel_lanes)
            part = &view->at[i];
    struct stem_lane_opening x = one_too_many(part, allowed, ctx->scratch);
    struct stem_op_id op = p->sched.order.at[part->begin + (x.node == STEM_NO_NODE ? 0 : x.node)];
    stem_error(ctx->diags, STEM_E_TOO_MANY_LANES, stem_op_at(p, op)->span,
               "the driver will use %u lanes, and at most %u are allowed: '%s' opens one too many", view->most,
               allowed, stem_op_label(p, op));
    label_parent(p, ctx->diags, part, &x);
    uint32_t bound = stem_lanes_bound(&part->graph);
    if (bound > allowed)
        stem_diag_help(ctx->diags,
                       "%u ops may run at the same time, and each of them takes a lane: fewer streams, or "
                       "--max-lanes=%u for this schedule",
                       bound, view->most);
    else {
        stem_diag_help(ctx->diags, "fewer streams, or --max-lanes=%u for this schedule", view->most);
        help(ctx, repaired || !view->excess); /* no more lanes than streams: repair has nothing to do */
        if (repaired)
            stem_diag_help(ctx->diags, "%u lanes would do for this graph, but no waits were found that get there", bound);
    }
}

static bool wanted(const struct stem_options *o, const struct stem_lane_view *view)
{
    switch (o->lane_repair) {
    case STEM_LANE_REPAIR_AUTO:
        return o->order == STEM_ORDER_MAIN_FIRST || (o->max_lanes && view->most > o->max_lanes);
    case STEM_LANE_REPAIR_ALWAYS: return true;
    case STEM_LANE_REPAIR_NEVER: break;
    }
    return false;
}

static bool run(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    uint32_t allowed = ctx->options->max_lanes;
    struct stem_lane_view view = stem_lane_view_new(p, ctx->scratch);
    bool repaired = view.excess && wanted(ctx->options, &view);
    if (repaired) {
        stem_lane_repair_schedule(p, ctx);
        view = stem_lane_view_new(p, ctx->scratch);
    }
    p->sched.lanes = view.most;
    if (allowed && view.most > allowed) {
        refuse(p, ctx, &view, repaired);
        return false;
    }
    if (view.excess)
        warn(p, ctx, &view, repaired);
    return true;
}

const struct stem_pass stem_pass_lanes = {
    .name = "lanes",
    .blurb = "the driver's internal streams, predicted and repaired",
    .needs = STEM_FACT_STREAMS | STEM_FACT_ORDER | STEM_FACT_WAITS,
    .gives = STEM_FACT_LANES,
    .run = run,
};
