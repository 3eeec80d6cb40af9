/* SPDX-License-Identifier: Apache-2.0
 *
 * order: in which order ops are issued. Segments follow each other; text order decides nothing but ties.
 *
 * An op's *rank* comes from the latest time at which it can start without delaying the op that ends the segment; an
 * op that leads nowhere comes soon after what it reads, since it only keeps that alive. So what is needed far down is
 * not computed far ahead, and lifetimes are short.
 *
 * main-first walks main by rank. Before a main op it issues the side ops that this op needs and that are not issued
 * yet, and nothing else: side work is recorded as late as possible (its fork events are recorded right after their
 * producers all the same, see events.c). Behind them go the side ops of those streams that no main op needs; such ops
 * are also issued if they could have been for some main ops, so that what they read does not stay alive for ever.
 * If a main op would wait for a side stream and another one close by in rank would not, that one goes first.
 *
 * side-first issues side ops before main ops wherever both could be next; program follows the text as far as the
 * dependencies allow. Both exist to show the difference.
 *
 * Time: O(n log n).
 */
#include "pass/order.h"

#include <math.h>
#include <stdlib.h>

#define LOOK_AHEAD 8
#define NEAR 16 /* ranks: times say little where a stream is the bottleneck */

struct leaf {
    uint32_t op, since; /* main ops issued before it was available */
};

struct state {
    struct stem_program *p;
    struct stem_graph succs, preds;
    double *latest;        /* by op: when it should start */
    uint32_t *rank;        /* by op: place in the order of `latest`, a topological order */
    uint32_t *by_rank;     /* the inverse */
    uint32_t *waiting;     /* by op: predecessors that are neither issued nor available */
    bool *issued, *needed; /* needed: by a main op of the segment */
    double *finish;        /* by op: in the simulation, all side ops as early as possible */
    double free_at[STEM_MAX_STREAMS];
    struct stem_heap ready;                         /* main ops whose main predecessors are issued */
    STEM_VEC(struct leaf) leaves[STEM_MAX_STREAMS]; /* available side ops that no main op needs, in order */
    uint32_t leaf[STEM_MAX_STREAMS];                /* first of them that is not issued */
    uint32_t n_main;                                /* main ops issued */
    struct stem_leaf_order leaf_order;
    STEM_VEC(uint32_t) pull;                        /* ranks */
    STEM_VEC(uint32_t) stack;
};

struct keyed {
    double latest;
    uint32_t segment, place, op;
};

static int by_latest(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    if (x->segment != y->segment)
        return x->segment < y->segment ? -1 : 1;
    if (x->latest < y->latest || x->latest > y->latest)
        return x->latest < y->latest ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* The op of each segment that ends last if all ops start as soon as they can. */
static uint32_t *last_sinks(const struct state *s, struct stem_arena *a, const uint32_t *order, uint32_t n)
{
    double *end = STEM_NEW_ARRAY(a, double, s->p->ops.len);
    uint32_t *sink = STEM_NEW_ARRAY(a, uint32_t, s->p->segments.len);
    for (uint32_t i = 0; i < s->p->segments.len; i++)
        sink[i] = STEM_NONE;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t op = order[i], *last = &sink[s->p->ops.at[op].segment];
        for (uint32_t e = s->preds.begin[op]; e < s->preds.begin[op + 1]; e++)
            end[op] = end[s->preds.to[e]] > end[op] ? end[s->preds.to[e]] : end[op];
        end[op] += s->p->ops.at[op].est_us;
        *last = *last == STEM_NONE || end[op] > end[*last] ? op : *last;
    }
    return sink;
}

static double after_preds(const struct state *s, uint32_t op, double t)
{
    for (uint32_t e = s->preds.begin[op]; e < s->preds.begin[op + 1]; e++) {
        double end = s->latest[s->preds.to[e]] + s->p->ops.at[s->preds.to[e]].est_us;
        t = end > t ? end : t;
    }
    return t;
}

/* Start times: as late as possible for what leads to the last sink (time runs up to 0 there); the rest, which leads
 * nowhere, soon after what it reads, and what only it reads right before it. */
static void start_times(struct state *s, struct stem_arena *a, const uint32_t *order, uint32_t n)
{
    const uint32_t *sink = last_sinks(s, a, order, n);
    bool *spine = STEM_NEW_ARRAY(a, bool, s->p->ops.len);
    for (uint32_t i = n; i-- > 0;) {
        uint32_t op = order[i];
        spine[op] = op == sink[s->p->ops.at[op].segment];
        s->latest[op] = 0;
        for (uint32_t e = s->succs.begin[op]; e < s->succs.begin[op + 1]; e++)
            if (spine[s->succs.to[e]]) {
                spine[op] = true;
                s->latest[op] = s->latest[s->succs.to[e]] < s->latest[op] ? s->latest[s->succs.to[e]] : s->latest[op];
            }
        s->latest[op] -= s->p->ops.at[op].est_us;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!spine[order[i]])
            s->latest[order[i]] = after_preds(s, order[i], -HUGE_VAL);
    for (uint32_t i = n; i-- > 0;) {
        double least = HUGE_VAL;
        for (uint32_t op = order[i], e = s->succs.begin[op]; e < s->succs.begin[op + 1] && !spine[op]; e++) {
            double t = s->latest[s->succs.to[e]];
            least = t < least && t > -HUGE_VAL ? t : least; /* what nothing ties down follows */
        }
        if (least < HUGE_VAL)
            s->latest[order[i]] = least - s->p->ops.at[order[i]].est_us;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!spine[order[i]])
            s->latest[order[i]] = after_preds(s, order[i], s->latest[order[i]]);
}

/* Ranks from the start times; `order` is topological. */
static void rank_ops(struct state *s, struct stem_arena *a, const uint32_t *order, uint32_t n)
{
    struct keyed *key = STEM_NEW_ARRAY(a, struct keyed, n);
    start_times(s, a, order, n);
    for (uint32_t i = n; i-- > 0;) {
        uint32_t op = order[i];
        s->needed[op] = !s->p->ops.at[op].stream.n;
        for (uint32_t e = s->succs.begin[op]; e < s->succs.begin[op + 1]; e++)
            s->needed[op] |= s->needed[s->succs.to[e]];
        key[i] = (struct keyed){s->latest[op], s->p->ops.at[op].segment, i, op};
    }
    qsort(key, n, sizeof *key, by_latest);
    for (uint32_t i = 0; i < n; i++)
        s->by_rank[s->rank[key[i].op] = i] = key[i].op;
}

static void issue(struct state *s, uint32_t op, struct stem_why why)
{
    s->issued[op] = true;
    s->p->sched.why.at[op] = why;
    stem_vec_push(&s->p->sched.order, (struct stem_op_id){op});
}

/* ---- main-first ---- */

static double ready_at(const struct state *s, uint32_t op)
{
    double t = 0;
    for (uint32_t e = s->preds.begin[op]; e < s->preds.begin[op + 1]; e++)
        t = s->finish[s->preds.to[e]] > t ? s->finish[s->preds.to[e]] : t;
    return t;
}

static void simulate(struct state *s, uint32_t op)
{
    uint32_t stream = s->p->ops.at[op].stream.n;
    double t = ready_at(s, op);
    t = t > s->free_at[stream] ? t : s->free_at[stream];
    s->finish[op] = s->free_at[stream] = t + s->p->ops.at[op].est_us;
}

/* `op` waits for nothing more: a main op may be chosen, a side op can be issued whenever it is needed. */
static void available(struct state *s, uint32_t op)
{
    stem_vec_push(&s->stack, op);
    while (s->stack.len) {
        uint32_t v = stem_vec_pop(&s->stack), stream = s->p->ops.at[v].stream.n;
        if (!stream) {
            stem_heap_push(&s->ready, v);
            continue;
        }
        simulate(s, v);
        if (!s->needed[v])
            stem_vec_push(&s->leaves[stream], (struct leaf){v, s->n_main});
        for (uint32_t e = s->succs.begin[v + 1]; e-- > s->succs.begin[v];)
            if (--s->waiting[s->succs.to[e]] == 0)
                stem_vec_push(&s->stack, s->succs.to[e]);
    }
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Issues the side ops that `op` needs, the most urgent first, for the sake of `why.other`. */
static void pull(struct state *s, uint32_t op, struct stem_why why, bool touched[])
{
    stem_vec_clear(&s->pull);
    stem_vec_push(&s->stack, op);
    while (s->stack.len) {
        uint32_t v = stem_vec_pop(&s->stack);
        for (uint32_t e = s->preds.begin[v]; e < s->preds.begin[v + 1]; e++) {
            uint32_t u = s->preds.to[e];
            if (s->issued[u])
                continue;
            s->issued[u] = true;
            stem_vec_push(&s->pull, s->rank[u]);
            stem_vec_push(&s->stack, u);
        }
    }
    if (!s->pull.len)
        return;
    qsort(s->pull.at, s->pull.len, sizeof *s->pull.at, by_number);
    for (uint32_t i = 0; i < s->pull.len; i++) {
        uint32_t v = s->by_rank[s->pull.at[i]];
        touched[s->p->ops.at[v].stream.n] = true;
        issue(s, v, why);
    }
}

/* Issues what no main op needs, on the streams that are being joined anyway, or where the first has waited long. */
static void flush_leaves(struct state *s, uint32_t main_op, const bool touched[])
{
    bool ignored[STEM_MAX_STREAMS];
    for (uint32_t stream = 1; stream < s->p->streams.len; stream++)
        for (; s->leaf[stream] < s->leaves[stream].len; s->leaf[stream]++) {
            uint32_t waited = s->n_main - s->leaves[stream].at[s->leaf[stream]].since;
            bool joined = touched[stream] && s->leaf_order.with_joins;
            if (!joined && waited < s->leaf_order.patience)
                break;
            struct stem_why why = {joined ? STEM_WHY_JOINED : STEM_WHY_PATIENCE, main_op, waited};
            uint32_t op = s->leaves[stream].at[s->leaf[stream]].op;
            if (s->issued[op])
                continue;
            pull(s, op, why, ignored);
            issue(s, op, why);
        }
}

/* The next main op: the first by rank, or one soon after it that need not wait where that one would. */
static uint32_t choose(struct state *s, struct stem_why *why)
{
    uint32_t ready = s->ready.at.len, head = stem_heap_pop(&s->ready), best = head, passed[LOOK_AHEAD], n = 0;
    double wait = ready_at(s, head) - s->free_at[0];
    *why = (struct stem_why){ready > 1 ? STEM_WHY_URGENT : STEM_WHY_ONLY, STEM_NONE, ready};
    if (wait <= 0)
        return head;
    double limit = s->latest[head] + wait + s->p->ops.at[head].est_us;
    while (n < LOOK_AHEAD && s->ready.at.len && best == head) {
        uint32_t op = stem_heap_pop(&s->ready);
        if (s->latest[op] <= limit && s->rank[op] - s->rank[head] <= NEAR && ready_at(s, op) <= s->free_at[0])
            best = op;
        else
            passed[n++] = op;
    }
    for (uint32_t i = 0; i < n; i++)
        stem_heap_push(&s->ready, passed[i]);
    if (best != head) {
        stem_heap_push(&s->ready, head);
        *why = (struct stem_why){STEM_WHY_AHEAD, head, ready};
    }
    return best;
}

static void main_first(struct state *s, const uint32_t *ops, uint32_t n)
{
    double start = 0;
    for (uint32_t i = 0; i < s->p->streams.len; i++)
        start = s->free_at[i] > start ? s->free_at[i] : start;
    for (uint32_t i = 0; i < s->p->streams.len; i++)
        s->free_at[i] = start;
    for (uint32_t i = 0; i < n; i++)
        if (s->preds.begin[ops[i]] == s->preds.begin[ops[i] + 1])
            available(s, ops[i]);
    while (s->ready.at.len) {
        bool touched[STEM_MAX_STREAMS] = {false};
        struct stem_why why;
        uint32_t op = choose(s, &why);
        pull(s, op, (struct stem_why){STEM_WHY_NEEDED, op, 0}, touched);
        flush_leaves(s, op, touched);
        simulate(s, op);
        issue(s, op, why);
        s->n_main++;
        for (uint32_t e = s->succs.begin[op]; e < s->succs.begin[op + 1]; e++)
            if (--s->waiting[s->succs.to[e]] == 0)
                available(s, s->succs.to[e]);
    }
    for (uint32_t i = 0; i < n; i++) /* by rank */
        if (!s->issued[ops[i]])
            issue(s, ops[i], (struct stem_why){STEM_WHY_REST, STEM_NONE, 0});
}

/* ---- the others ---- */

/* Any ready op, the smallest key first. */
static void by_key(struct state *s, const uint32_t *ops, uint32_t n, const uint32_t *key, enum stem_why_kind main_op,
                   enum stem_why_kind side_op)
{
    s->ready.key = key;
    for (uint32_t i = 0; i < n; i++)
        if (!s->waiting[ops[i]])
            stem_heap_push(&s->ready, ops[i]);
    while (s->ready.at.len) {
        uint32_t op = stem_heap_pop(&s->ready);
        issue(s, op, (struct stem_why){s->p->ops.at[op].stream.n ? side_op : main_op, STEM_NONE, 0});
        for (uint32_t e = s->succs.begin[op]; e < s->succs.begin[op + 1]; e++)
            if (--s->waiting[s->succs.to[e]] == 0)
                stem_heap_push(&s->ready, s->succs.to[e]);
    }
}

static void order_segment(struct state *s, enum stem_order how, const uint32_t *ops, uint32_t n,
                          const uint32_t *side_key)
{
    switch (how) {
    case STEM_ORDER_MAIN_FIRST:
        s->ready.key = s->rank;
        main_first(s, ops, n);
        break;
    case STEM_ORDER_PROGRAM:
        by_key(s, ops, n, NULL, STEM_WHY_TEXT, STEM_WHY_TEXT);
        break;
    case STEM_ORDER_BY_RANK:
        by_key(s, ops, n, s->rank, STEM_WHY_RANK, STEM_WHY_RANK);
        break;
    case STEM_ORDER_SIDE_FIRST:
        by_key(s, ops, n, side_key, STEM_WHY_MAIN, STEM_WHY_SIDE);
        break;
    }
}

static struct state init(struct stem_program *p, struct stem_arena *a)
{
    uint32_t n = p->ops.len;
    struct state s = {.p = p};
    s.succs = stem_graph_succs(a, p, STEM_DEPS_ALL, true);
    s.preds = stem_graph_preds(a, p, STEM_DEPS_ALL, true);
    s.latest = STEM_NEW_ARRAY(a, double, n);
    s.rank = STEM_NEW_ARRAY(a, uint32_t, n);
    s.by_rank = STEM_NEW_ARRAY(a, uint32_t, n);
    s.waiting = STEM_NEW_ARRAY(a, uint32_t, n);
    s.issued = STEM_NEW_ARRAY(a, bool, n);
    s.needed = STEM_NEW_ARRAY(a, bool, n);
    s.finish = STEM_NEW_ARRAY(a, double, n);
    for (uint32_t i = 0; i < s.succs.begin[n]; i++)
        s.waiting[s.succs.to[i]]++;
    return s;
}

/* By rank into `topo`; how many, fewer than the live ops if they wait for each other. */
static uint32_t prepare(struct state *s, struct stem_arena *a)
{
    uint32_t n, *topo = stem_graph_topo(a, s->p, &s->succs, &n);
    if (n == stem_live_ops(s->p))
        rank_ops(s, a, topo, n);
    return n;
}

bool stem_order_build(struct stem_program *p, struct stem_arena *a, enum stem_order how, struct stem_leaf_order leaves)
{
    struct state s = init(p, a);
    uint32_t n = prepare(&s, a);
    if (n < stem_live_ops(p))
        return false;
    s.leaf_order = leaves;
    uint32_t *side_key = STEM_NEW_ARRAY(a, uint32_t, p->ops.len);
    for (uint32_t i = 0; i < n; i++)
        side_key[s.by_rank[i]] = i + (p->ops.at[s.by_rank[i]].stream.n ? 0 : n);
    stem_vec_clear(&p->sched.order);
    stem_vec_clear(&p->sched.why);
    for (uint32_t i = 0; i < p->ops.len; i++)
        stem_vec_push(&p->sched.why, (struct stem_why){STEM_WHY_UNKNOWN, STEM_NONE, 0});
    for (uint32_t begin = 0, end; begin < n; begin = end) {
        for (end = begin; end < n && p->ops.at[s.by_rank[end]].segment == p->ops.at[s.by_rank[begin]].segment; end++)
            ;
        order_segment(&s, how, s.by_rank + begin, end - begin, side_key);
    }
    stem_vec_free(&s.ready.at);
    stem_vec_free(&s.pull);
    stem_vec_free(&s.stack);
    for (uint32_t i = 0; i < STEM_MAX_STREAMS; i++)
        stem_vec_free(&s.leaves[i]);
    return true;
}

static bool run(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    bool fine = stem_order_build(p, ctx->scratch, ctx->options->order, STEM_LEAVES_USUAL);
    if (!fine)
        stem_deps_report_cycle(p, ctx->scratch, ctx->diags);
    return fine;
}

const struct stem_pass stem_pass_order = {
    .name = "order",
    .blurb = "in which order ops are issued: main first, side work as late as possible",
    .needs = STEM_FACT_STREAMS | STEM_FACT_DEPS,
    .gives = STEM_FACT_ORDER,
    .kills = STEM_FACT_WAITS | STEM_FACT_LIFETIME | STEM_FACT_MEMORY | STEM_FACT_LANES,
    .run = run,
};
