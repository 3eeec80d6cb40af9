/* SPDX-License-Identifier: Apache-2.0
 *
 * Fewer lanes for a schedule. First waits: src/lanes finds edges that are implied by those there are and continue a
 * lane that has ended; those between two streams become a wait each, so that steps, captured graphs and graphs built
 * node by node all have the edge. (An edge within a stream cannot be made by a wait, and is not asked for.) Ops stay
 * where they are, and nothing that could overlap is kept apart.
 *
 * If that leaves lanes above streams and the order is main-first, other orders are tried: main-first with the side ops
 * that no main op needs earlier or later, all ops by rank, and side-first. Each gets its waits, lifetimes and offsets
 * anew, and counts only if bytes and time are no worse. Where that leaves lanes as well, single ops are moved.
 */
#include "pass/lanes.h"
#include "pass/pdl.h"

#include <stdlib.h>
#include <string.h>

#include "lanes/repair.h"
#include "pass/events.h"
#include "pass/order.h"
#include "pass/throttle.h"

/* Work of a search: enough to leave nothing needless in programs of some hundred ops, linear beyond. */
enum { WORK = 500000, WORK_EACH = 20 };
/* Single ops are moved so often at most, so far, and only where rebuilding the schedule is cheap. */
enum { MOVES = 400, MOVE_FAR = 8, MOVE_WORK = 40000 };

static const struct variant {
    enum stem_order order;
    struct stem_leaf_order leaves;
} variants[] = {
    {STEM_ORDER_MAIN_FIRST, {1, true}},
    {STEM_ORDER_MAIN_FIRST, {UINT32_MAX, true}},
    {STEM_ORDER_MAIN_FIRST, {UINT32_MAX, false}},
    {STEM_ORDER_BY_RANK, {0, false}},
    {STEM_ORDER_SIDE_FIRST, {0, false}},
};

struct extra { /* a wait to be added */
    struct stem_op_id from, to;
    uint32_t position, from_position, segment;
};

struct fix {
    STEM_VEC(struct extra) extra; /* in issue order of `to` */
    uint32_t most, excess;        /* lanes with them */
};

static int by_position(const void *a, const void *b)
{
    const struct extra *x = a, *y = b;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return x->from_position < y->from_position ? -1 : x->from_position > y->from_position;
}

/* What waits could do for the schedule as it stands. */
static struct fix find_waits(const struct stem_program *p)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_view view = stem_lane_view_new(p, a);
    struct fix f = {0};
    for (uint32_t i = 0; i < view.len; i++) {
        const struct stem_lane_part *part = &view.at[i];
        uint64_t work = (uint64_t)WORK_EACH * (part->graph.n + part->graph.n_edges);
        struct stem_lane_repair_options o = {.enough = part->streams, .stream = part->stream,
                                             .work = work > WORK ? work : WORK};
        struct stem_lane_repair r = {.after = part->lanes.n_kernel_lanes};
        if (r.after > part->streams)
            stem_lanes_repair(NULL, &part->graph, &o, a, &r);
        for (uint32_t k = 0; k < r.n_edges; k++) {
            uint32_t from = part->begin + r.edges[k].from, to = part->begin + r.edges[k].to;
            struct stem_op_id id = p->sched.order.at[to];
            stem_vec_push(&f.extra, (struct extra){p->sched.order.at[from], id, to, from, stem_op_at(p, id)->segment});
        }
        f.most = r.after > f.most ? r.after : f.most;
        f.excess += r.after > part->streams ? r.after - part->streams : 0;
    }
    if (f.extra.len)
        qsort(f.extra.at, f.extra.len, sizeof *f.extra.at, by_position);
    stem_arena_free(a);
    return f;
}

static void push_extra(struct stem_program *p, const struct extra *x)
{
    stem_vec_push(&p->sched.waits, (struct stem_wait){x->from, x->to, x->segment, true});
}

/* Merges them into sched.waits, each behind the waits that its op has. Returns how many more events that makes. */
static uint32_t add_waits(struct stem_program *p, const struct fix *f, struct stem_arena *a)
{
    uint32_t n = p->sched.waits.len, k = 0, events = p->sched.n_events;
    struct stem_wait *old = stem_arena_dup(a, p->sched.waits.at, n * sizeof *old);
    uint32_t *position = STEM_NEW_ARRAY(a, uint32_t, p->ops.len);
    uint32_t *end = STEM_NEW_ARRAY(a, uint32_t, p->segments.len);
    for (uint32_t i = 0; i < p->sched.order.len; i++) {
        position[p->sched.order.at[i].n] = i;
        end[stem_op_at(p, p->sched.order.at[i])->segment] = i + 1;
    }
    stem_vec_clear(&p->sched.waits);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = old[i].to.n == STEM_NONE ? end[old[i].segment] : position[old[i].to.n];
        while (k < f->extra.len && f->extra.at[k].position < at)
            push_extra(p, &f->extra.at[k++]);
        stem_vec_push(&p->sched.waits, old[i]);
    }
    while (k < f->extra.len)
        push_extra(p, &f->extra.at[k++]);
    p->sched.n_events = stem_events_count(p, a);
    return p->sched.n_events - events;
}

static bool better(const struct fix *x, const struct fix *y)
{
    return x->excess != y->excess ? x->excess < y->excess : x->extra.len < y->extra.len;
}

/* An order and its reasons. */
struct tried {
    struct stem_op_id *order;
    struct stem_why *why;
};

static struct tried keep(const struct stem_program *p, struct stem_arena *a)
{
    const struct stem_schedule *s = &p->sched;
    return (struct tried){stem_arena_dup(a, s->order.at, s->order.len * sizeof *s->order.at),
                          stem_arena_dup(a, s->why.at, s->why.len * sizeof *s->why.at)};
}

static void put_back(struct stem_program *p, const struct tried *t)
{
    memcpy(p->sched.order.at, t->order, p->sched.order.len * sizeof *t->order);
    if (p->sched.why.len)
        memcpy(p->sched.why.at, t->why, p->sched.why.len * sizeof *t->why);
}

/* Waits, bytes and programmatic launches are those of one order. */
static void rebuild(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    struct stem_pass_ctx inner = *ctx;
    stem_memory_rebuild(p, ctx);
    inner.scratch = stem_arena_new();
    stem_pdl_build(p, &inner);
    stem_arena_free(inner.scratch);
}

/* Other orders. Leaves the best schedule in `p` and its waits in `best`; true if the order changed. */
static bool try_orders(struct stem_program *p, struct stem_pass_ctx *ctx, struct fix *best)
{
    size_t size = p->sched.order.len * sizeof *p->sched.order.at;
    const struct tried first = keep(p, ctx->scratch);
    struct tried kept = first, now = first;
    uint64_t bytes = p->sched.slab_bytes;
    double us = p->sched.critical_path_us;
    for (size_t i = 0; i < sizeof variants / sizeof *variants && best->excess; i++) {
        struct stem_arena *a = stem_arena_new();
        bool fine = stem_order_build(p, a, variants[i].order, variants[i].leaves);
        stem_arena_free(a);
        bool same = !fine || !memcmp(p->sched.order.at, now.order, size);
        now = keep(p, ctx->scratch);
        if (same || !memcmp(now.order, first.order, size))
            continue;
        rebuild(p, ctx);
        if (p->sched.slab_bytes > bytes || p->sched.critical_path_us > 1.01 * us)
            continue;
        struct fix f = find_waits(p);
        bool take = better(&f, best);
        struct fix out = take ? *best : f;
        if (take) {
            *best = f;
            kept = now;
        }
        stem_vec_free(&out.extra);
    }
    put_back(p, &kept);
    rebuild(p, ctx);
    return kept.order != first.order;
}

/* ---- single ops moved ---- */

/* Ops of one segment; `to` < `from` or behind it. False if a dependency forbids it. */
static bool move_op(struct stem_op_id *order, const struct stem_graph *preds, const struct stem_program *p,
                    uint32_t from, uint32_t to)
{
    struct stem_op_id op = order[from];
    int step = to < from ? -1 : 1;
    for (uint32_t i = from; i != to; i = (uint32_t)((int64_t)i + step)) {
        struct stem_op_id next = order[(uint32_t)((int64_t)i + step)];
        uint32_t first = step < 0 ? next.n : op.n, second = step < 0 ? op.n : next.n;
        if (stem_op_at(p, next)->segment != stem_op_at(p, op)->segment)
            return false;
        for (uint32_t k = preds->begin[second]; k < preds->begin[second + 1]; k++)
            if (preds->to[k] == first)
                return false;
    }
    for (uint32_t i = from; i != to; i = (uint32_t)((int64_t)i + step))
        order[i] = order[(uint32_t)((int64_t)i + step)];
    order[to] = op;
    return true;
}

static uint32_t next_random(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(*seed >> 8) * below) >> 24);
}

/* Moves one op at a time, at random but the same for the same program, and keeps what leaves no more lanes: small
 * programs only. Leaves the best schedule in `p` and its waits in `best`; true if the order changed. */
static bool try_moves(struct stem_program *p, struct stem_pass_ctx *ctx, struct fix *best, uint64_t bytes, double us)
{
    uint32_t n = p->sched.order.len, seed = 1, trials = n ? MOVE_WORK / n : 0;
    size_t size = n * sizeof *p->sched.order.at;
    struct stem_graph preds = stem_graph_preds(ctx->scratch, p, STEM_DEPS_ALL, true);
    struct stem_op_id *kept = stem_arena_dup(ctx->scratch, p->sched.order.at, size);
    bool changed = false;
    trials = trials > MOVES ? MOVES : trials < MOVES / 10 ? 0 : trials;
    for (uint32_t t = 0; t < trials && best->excess; t++) {
        struct stem_op_id *now = p->sched.order.at;
        memcpy(now, kept, size);
        uint32_t from = next_random(&seed, n), to = from + next_random(&seed, 2 * MOVE_FAR + 1);
        to = to < MOVE_FAR ? 0 : to - MOVE_FAR < n ? to - MOVE_FAR : n - 1;
        if (to == from || !move_op(now, &preds, p, from, to))
            continue;
        rebuild(p, ctx);
        if (p->sched.slab_bytes > bytes || p->sched.critical_path_us > 1.01 * us)
            continue;
        struct fix f = find_waits(p);
        bool take = f.excess <= best->excess;
        struct fix out = take ? *best : f;
        if (take) {
            *best = f;
            memcpy(kept, now, size);
            changed = true;
        }
        stem_vec_free(&out.extra);
    }
    memcpy(p->sched.order.at, kept, size);
    if (changed)
        stem_vec_clear(&p->sched.why); /* no longer why */
    rebuild(p, ctx);
    return changed;
}

void stem_lane_repair_schedule(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    struct stem_lane_view view = stem_lane_view_new(p, ctx->scratch);
    struct fix f = find_waits(p);
    uint32_t facts = STEM_FACT_DEPS | STEM_FACT_LIFETIME | STEM_FACT_MEMORY;
    bool orders = f.excess && ctx->options->order == STEM_ORDER_MAIN_FIRST && (p->state & facts) == facts;
    uint64_t bytes = p->sched.slab_bytes;
    double us = p->sched.critical_path_us;
    bool moved = orders && try_orders(p, ctx, &f);
    moved |= orders && f.excess && try_moves(p, ctx, &f, bytes, us);
    uint32_t events = f.extra.len ? add_waits(p, &f, ctx->scratch) : 0;
    const char *tried = moved ? "; ops are issued in another order" : orders ? "; other orders are no better" : "";
    if (moved && !f.extra.len)
        stem_remark(ctx->diags, "lanes", STEM_NOWHERE, "%u lanes become %u%s", view.most, f.most, tried);
    else if (f.extra.len)
        stem_remark(ctx->diags, "lanes", STEM_NOWHERE,
                    "%u lanes become %u: %u more waits (%u more events), which all others imply, let lanes go on%s",
                    view.most, f.most, f.extra.len, events, tried);
    else
        stem_remark(ctx->diags, "lanes", STEM_NOWHERE,
                    "%u lanes, and no waits were found that let one of them go on%s", view.most, tried);
    stem_vec_free(&f.extra);
}
