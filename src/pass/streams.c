/* SPDX-License-Identifier: Apache-2.0
 *
 * streams: which stream each op runs on, and what it is estimated to cost.
 *
 * Pins come first. If the program pins any op, its author has decided, and the other ops follow: an op between ops of
 * one side stream (all its producers and all its readers are there) joins them, any other goes to main; so producers
 * before a fork and consumers after a join are on main. If nothing is pinned, streams_auto.c looks for chains that
 * are worth a fork, among the kernels that there will be: what is fused whatever the streams is fused before. With
 * one_stream everything is on main: the reference schedule.
 *
 * Time: linear, but for the sort of the chains.
 */
#include "pass/fuse.h"
#include "pass/streams.h"

static void follow_pins(struct stem_program *p, struct stem_arena *scratch, const struct stem_flow *f)
{
    /* The one side stream that all producers are on, or 0. */
    uint32_t *from = STEM_NEW_ARRAY(scratch, uint32_t, p->ops.len);
    for (uint32_t i = 0; i < f->n; i++) {
        uint32_t op = f->topo[i], first = f->preds.begin[op], end = f->preds.begin[op + 1];
        if (p->ops.at[op].pin.n != STEM_NONE) {
            from[op] = p->ops.at[op].pin.n;
            continue;
        }
        from[op] = first < end ? from[f->preds.to[first]] : 0;
        for (uint32_t e = first; e < end; e++)
            if (from[f->preds.to[e]] != from[op])
                from[op] = 0;
    }
    for (uint32_t i = f->n; i-- > 0;) {
        struct stem_op *op = &p->ops.at[f->topo[i]];
        uint32_t first = f->succs.begin[f->topo[i]], end = f->succs.begin[f->topo[i] + 1];
        uint32_t stream = first < end ? from[f->topo[i]] : 0;
        for (uint32_t e = first; e < end; e++)
            if (p->ops.at[f->succs.to[e]].stream.n != stream)
                stream = 0;
        op->stream.n = op->pin.n != STEM_NONE ? op->pin.n : stream;
    }
}

bool stem_streams_has_pins(const struct stem_program *p, const struct stem_options *o)
{
    bool pinned = false;
    for (uint32_t i = 0; i < p->ops.len && !o->ignore_pins && !o->one_stream; i++)
        pinned |= !p->ops.at[i].dead && p->ops.at[i].pin.n != STEM_NONE;
    return pinned;
}

static bool run(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    bool pinned = stem_streams_has_pins(p, ctx->options);
    stem_cost_all(p, ctx);
    stem_vec_clear(&p->sched.forks);
    for (uint32_t i = 0; i < p->ops.len; i++)
        p->ops.at[i].stream.n = 0;
    if (ctx->options->one_stream)
        return true;
    if (p->streams.len > STEM_MAX_STREAMS) {
        stem_error(ctx->diags, STEM_E_MANY_STREAMS, STEM_NOWHERE,
                   "the program has %u streams, and at most %d are possible", p->streams.len, STEM_MAX_STREAMS);
        return false;
    }
    if (!pinned && ctx->options->max_streams > 1)
        stem_fuse_early(p, ctx);
    stem_deps_build(p, ctx->scratch, NULL);
    struct stem_flow f = {.succs = stem_graph_succs(ctx->scratch, p, STEM_DEPS_FLOW, true),
                          .preds = stem_graph_preds(ctx->scratch, p, STEM_DEPS_FLOW, true)};
    f.topo = stem_graph_topo(ctx->scratch, p, &f.succs, &f.n);
    if (f.n < stem_live_ops(p)) { /* a copy cannot break this cycle */
        stem_deps_report_cycle(p, ctx->scratch, ctx->diags);
        return false;
    }
    if (pinned)
        follow_pins(p, ctx->scratch, &f);
    else if (ctx->options->max_streams > 1)
        stem_streams_auto(p, ctx, &f);
    return true;
}

const struct stem_pass stem_pass_streams = {
    .name = "streams",
    .blurb = "which stream each op runs on: pins, else the critical path is main",
    .gives = STEM_FACT_STREAMS,
    .kills =
        STEM_FACT_DEPS | STEM_FACT_ORDER | STEM_FACT_WAITS | STEM_FACT_LIFETIME | STEM_FACT_MEMORY | STEM_FACT_LANES,
    .run = run,
};
