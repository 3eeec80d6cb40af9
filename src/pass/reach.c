/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule seen from its end: the lower bound on events, and which ops have others beside them.
 */
#include "pass/events.h"

/* Successors of one node: the nearest on each stream, at most one each. */
struct nexts {
    uint32_t index[STEM_MAX_STREAMS]; /* STEM_NONE: none there */
    const uint32_t *row[STEM_MAX_STREAMS];
};

struct state {
    const struct stem_program *p;
    struct stem_graph succs;
    struct stem_reach *r;
    uint32_t n;        /* streams */
    uint32_t *end_row; /* of the end of the present segment */
    uint32_t end_index;
    uint32_t below[STEM_MAX_STREAMS]; /* by stream: the op after the one at hand, in this segment; STEM_NONE */
};

static uint32_t *row_of(const struct state *s, uint32_t op)
{
    return s->r->first + (size_t)op * s->n;
}

static void consider(struct nexts *x, uint32_t stream, uint32_t index, const uint32_t *row)
{
    if (index < x->index[stream]) {
        x->index[stream] = index;
        x->row[stream] = row;
    }
}

/* Fills `row` from the successors; true if one of those on another stream is not reached through another successor.
 */
static bool merge(const struct state *s, uint32_t stream, const struct nexts *x, uint32_t *row)
{
    bool crosses = false;
    for (uint32_t i = 0; i < s->n; i++) {
        row[i] = STEM_NONE;
        bool direct = x->index[i] != STEM_NONE;
        for (uint32_t k = 0; k < s->n; k++) {
            if (x->index[k] == STEM_NONE)
                continue;
            row[i] = x->row[k][i] < row[i] ? x->row[k][i] : row[i];
            direct &= k == i || x->row[k][i] > x->index[i];
        }
        crosses |= direct && i != stream;
    }
    return crosses;
}

static struct nexts none(void)
{
    struct nexts x;
    for (uint32_t i = 0; i < STEM_MAX_STREAMS; i++)
        x.index[i] = STEM_NONE;
    return x;
}

static void one_op(struct state *s, uint32_t op)
{
    uint32_t stream = s->p->ops.at[op].stream.n;
    struct nexts x = none();
    if (s->below[stream] != STEM_NONE)
        consider(&x, stream, s->r->index[s->below[stream]], row_of(s, s->below[stream]));
    else
        consider(&x, 0, s->end_index, s->end_row);
    for (uint32_t e = s->succs.begin[op]; e < s->succs.begin[op + 1]; e++) {
        uint32_t to = s->succs.to[e];
        consider(&x, s->p->ops.at[to].stream.n, s->r->index[to], row_of(s, to));
    }
    s->r->producers += merge(s, stream, &x, row_of(s, op));
    row_of(s, op)[stream] = s->r->index[op];
    s->below[stream] = op;
}

/* From the start of a segment: to the first op on each stream. */
static void start(struct state *s)
{
    struct nexts x = none();
    uint32_t unused[STEM_MAX_STREAMS];
    for (uint32_t i = 0; i < s->n; i++)
        if (s->below[i] != STEM_NONE)
            consider(&x, i, s->r->index[s->below[i]], row_of(s, s->below[i]));
    consider(&x, 0, s->end_index, s->end_row);
    s->r->producers += merge(s, 0, &x, unused);
}

static void segment(struct state *s, uint32_t begin, uint32_t end, uint32_t end_index)
{
    s->end_row = s->r->first + (size_t)s->p->ops.len * s->n;
    s->end_index = end_index;
    for (uint32_t i = 0; i < s->n; i++) {
        s->below[i] = STEM_NONE;
        s->end_row[i] = STEM_NONE;
    }
    s->end_row[0] = end_index;
    for (uint32_t i = end; i-- > begin;)
        one_op(s, s->p->sched.order.at[i].n);
    start(s);
}

struct stem_reach stem_reach_new(struct stem_arena *a, const struct stem_program *p)
{
    uint32_t n = p->streams.len, n_order = p->sched.order.len, next[STEM_MAX_STREAMS] = {0};
    struct stem_reach r = {.n_streams = n, .index = STEM_NEW_ARRAY(a, uint32_t, p->ops.len)};
    r.first = STEM_NEW_ARRAY(a, uint32_t, (size_t)(p->ops.len + 1) * n);
    struct state s = {.p = p, .succs = stem_graph_succs(a, p, STEM_DEPS_ALL, true), .r = &r, .n = n};
    for (uint32_t begin = 0, end; begin < n_order; begin = end) {
        uint32_t g = stem_op_at(p, p->sched.order.at[begin])->segment;
        next[0]++;
        for (end = begin; end < n_order && stem_op_at(p, p->sched.order.at[end])->segment == g; end++) {
            uint32_t op = p->sched.order.at[end].n;
            r.index[op] = ++next[p->ops.at[op].stream.n];
        }
        segment(&s, begin, end, next[0] + 1); /* the place of the next start */
    }
    return r;
}

/* ---- forks that nothing runs beside ---- */

struct block {              /* side ops from one fork to the next */
    struct stem_op_id head; /* NO_OP: none open */
    bool alone;
};

/* Whether an op on another stream is neither before nor after this one. `last`: highest place of each stream in the
 * segment. */
static bool beside(const struct stem_reach *r, const struct stem_hb *hb, uint32_t op, uint32_t stream,
                   const uint32_t last[])
{
    const uint32_t *before = stem_hb_clock(hb, op), *after = r->first + (size_t)op * r->n_streams;
    for (uint32_t i = 0; i < r->n_streams; i++) {
        uint32_t end = after[i] <= last[i] ? after[i] : last[i] + 1;
        if (i != stream && end > before[i] + 1)
            return true;
    }
    return false;
}

static void close_block(const struct stem_program *p, struct stem_diags *diags, struct block *b, uint32_t stream)
{
    if (b->head.n != STEM_NONE && b->alone)
        stem_remark(diags, "streams", stem_op_at(p, b->head)->span,
                    "fork without concurrency: nothing runs beside '%s' on stream '%s'", stem_op_label(p, b->head),
                    stem_sym_str(p->strings, p->streams.at[stream].name));
    b->head = STEM_NO_OP;
}

void stem_events_remarks(const struct stem_program *p, struct stem_pass_ctx *ctx, const struct stem_reach *r)
{
    struct stem_hb *hb = stem_hb_new(ctx->scratch, p, false);
    struct block block[STEM_MAX_STREAMS];
    uint32_t n_order = p->sched.order.len, w = 0;
    for (uint32_t i = 0; i < STEM_MAX_STREAMS; i++)
        block[i].head = STEM_NO_OP;
    for (uint32_t begin = 0, end; begin < n_order; begin = end) {
        uint32_t last[STEM_MAX_STREAMS] = {0}, g = stem_op_at(p, p->sched.order.at[begin])->segment;
        for (end = begin; end < n_order && stem_op_at(p, p->sched.order.at[end])->segment == g; end++)
            last[stem_op_at(p, p->sched.order.at[end])->stream.n] = r->index[p->sched.order.at[end].n];
        for (uint32_t i = begin; i < end; i++) {
            struct stem_op_id id = p->sched.order.at[i];
            uint32_t stream = stem_op_at(p, id)->stream.n;
            bool forked = false;
            for (; w < p->sched.waits.len &&
                   (p->sched.waits.at[w].to.n == id.n || p->sched.waits.at[w].to.n == STEM_NONE);
                 w++)
                forked |= p->sched.waits.at[w].to.n == id.n;
            if (!stream)
                continue;
            if (forked) {
                close_block(p, ctx->diags, &block[stream], stream);
                block[stream] = (struct block){id, true};
            }
            block[stream].alone &= !beside(r, hb, id.n, stream, last);
        }
        for (uint32_t i = 1; i < p->streams.len; i++)
            close_block(p, ctx->diags, &block[i], i);
    }
}
