/* SPDX-License-Identifier: Apache-2.0
 *
 * streams, when nothing is pinned. In each segment the critical path by estimated cost is main. What is left falls
 * into *side groups*: ops connected by data whose windows on the critical path overlap. A group's window reaches from
 * the last critical op that it needs (`fork`) to the first that needs it (`join`). The group goes to a side stream if
 * what that saves is more than the price of a fork, else to main.
 *
 * What it saves: on main the group costs its whole time. On a side stream it costs the time by which the window is
 * too short for it, and where both sides want the same bandwidth or multiprocessors, overlapping does not help:
 * together they take at least the sum of their bytes over the bandwidth and the sum of their shares of the machine.
 *
 * Earlier decisions count: loads of groups are kept in Fenwick trees over the critical path, so that the whole is
 * O(n log n).
 */
#include "pass/streams.h"

#include <stdlib.h>

#define NEVER UINT32_MAX

struct group {
    uint32_t first; /* lowest op id; names the group */
    uint32_t n_ops, segment;
    uint32_t fork, join, last; /* critical-path places: works in (fork, join); some of it may run on to `last` */
    double us, needed_us;      /* all of it; the part that `join` waits for */
    double bytes_us, share_us; /* bandwidth and multiprocessor time it takes */
};

/* Prefix sums that can be added to (Fenwick 1994). */
struct sums {
    double *at;
    uint32_t n;
};

static void sums_add(struct sums *s, uint32_t i, double x)
{
    for (i++; i <= s->n; i += i & -i)
        s->at[i] += x;
}

/* Sum over [0, end). */
static double sums_to(const struct sums *s, uint32_t end)
{
    double x = 0;
    for (uint32_t i = end < s->n ? end : s->n; i; i -= i & -i)
        x += s->at[i];
    return x;
}

static double sums_in(const struct sums *s, uint32_t begin, uint32_t end)
{
    return end > begin ? sums_to(s, end) - sums_to(s, begin) : 0;
}

struct state {
    struct stem_program *p;
    struct stem_pass_ctx *ctx;
    const struct stem_flow *f;
    uint32_t *place;       /* by op: 1 + place on the critical path of its segment; 0: not on it */
    uint32_t *fork, *join; /* by op: last critical place before it, first after it (1-based; NEVER) */
    uint32_t *group;       /* union-find, by op */
    uint32_t n_places;
    uint32_t *segment_end;                            /* last critical place of each segment */
    struct sums load[STEM_MAX_STREAMS], bytes, share; /* by critical place */
};

static double bytes_us(const struct state *s, const struct stem_op *op)
{
    return 1e6 * (double)(op->cost.bytes_read + op->cost.bytes_written) / s->ctx->options->target.bandwidth;
}

/* Multiprocessor time: what it occupies of the whole machine while it works. */
static double share_us(const struct state *s, const struct stem_op *op)
{
    const struct stem_target *t = &s->ctx->options->target;
    double share = (double)(op->cost.blocks ? op->cost.blocks : 1) / t->n_sms;
    return (op->est_us - t->launch_us) * (share < 1 ? share : 1);
}

/* Marks the critical path of each segment, segments one after the other in the numbering of places. */
static void critical_paths(struct state *s)
{
    const struct stem_flow *f = s->f;
    uint32_t n_segments = s->p->segments.len;
    double *done = STEM_NEW_ARRAY(s->ctx->scratch, double, s->p->ops.len);
    uint32_t *via = STEM_NEW_ARRAY(s->ctx->scratch, uint32_t, s->p->ops.len);
    uint32_t *sink = STEM_NEW_ARRAY(s->ctx->scratch, uint32_t, n_segments);
    uint32_t *path = STEM_NEW_ARRAY(s->ctx->scratch, uint32_t, f->n);
    for (uint32_t i = 0; i < n_segments; i++)
        sink[i] = NEVER;
    for (uint32_t i = 0; i < f->n; i++) {
        uint32_t op = f->topo[i], segment = s->p->ops.at[op].segment;
        via[op] = NEVER;
        for (uint32_t e = f->preds.begin[op]; e < f->preds.begin[op + 1]; e++)
            if (via[op] == NEVER || done[f->preds.to[e]] > done[via[op]])
                via[op] = f->preds.to[e];
        done[op] = s->p->ops.at[op].est_us + (via[op] == NEVER ? 0 : done[via[op]]);
        if (sink[segment] == NEVER || done[op] > done[sink[segment]])
            sink[segment] = op;
    }
    for (uint32_t g = 0; g < n_segments; g++) {
        uint32_t len = 0;
        for (uint32_t op = sink[g]; op != NEVER; op = via[op])
            path[len++] = op;
        while (len)
            s->place[path[--len]] = ++s->n_places;
        s->segment_end[g] = s->n_places;
    }
}

static void windows(struct state *s)
{
    const struct stem_flow *f = s->f;
    for (uint32_t i = 0; i < f->n; i++) {
        uint32_t op = f->topo[i], g = s->p->ops.at[op].segment;
        s->fork[op] = g ? s->segment_end[g - 1] : 0;
        for (uint32_t e = f->preds.begin[op]; e < f->preds.begin[op + 1]; e++) {
            uint32_t from = f->preds.to[e], at = s->place[from] ? s->place[from] : s->fork[from];
            s->fork[op] = at > s->fork[op] ? at : s->fork[op];
        }
    }
    for (uint32_t i = f->n; i-- > 0;) {
        uint32_t op = f->topo[i];
        s->join[op] = NEVER;
        for (uint32_t e = f->succs.begin[op]; e < f->succs.begin[op + 1]; e++) {
            uint32_t to = f->succs.to[e], at = s->place[to] ? s->place[to] : s->join[to];
            s->join[op] = at < s->join[op] ? at : s->join[op];
        }
    }
}

static uint32_t find(uint32_t *group, uint32_t op)
{
    while (group[op] != op)
        op = group[op] = group[group[op]];
    return op;
}

/* Ops off the critical path that a dep connects and that have time in common. */
static void connect(struct state *s)
{
    const struct stem_flow *f = s->f;
    for (uint32_t op = 0; op < s->p->ops.len; op++)
        s->group[op] = op;
    for (uint32_t i = 0; i < f->n; i++)
        for (uint32_t op = f->topo[i], e = f->preds.begin[op]; e < f->preds.begin[op + 1]; e++) {
            uint32_t from = f->preds.to[e];
            if (s->place[from] || s->place[op] || s->fork[op] >= s->join[from])
                continue;
            uint32_t a = find(s->group, from), b = find(s->group, op);
            s->group[a > b ? a : b] = a > b ? b : a;
        }
}

static int by_window(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    if (x->fork != y->fork)
        return x->fork < y->fork ? -1 : 1;
    if (x->us > y->us || x->us < y->us)
        return x->us > y->us ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static struct group *collect(struct state *s, uint32_t *n_groups)
{
    const struct stem_flow *f = s->f;
    struct group *groups = STEM_NEW_ARRAY(s->ctx->scratch, struct group, f->n);
    uint32_t *number = STEM_NEW_ARRAY(s->ctx->scratch, uint32_t, s->p->ops.len), n = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        uint32_t op = f->topo[i], root = find(s->group, op);
        if (s->place[op])
            continue;
        if (!number[root]) {
            number[root] = ++n;
            groups[n - 1] =
                (struct group){.first = root, .fork = NEVER, .join = NEVER, .segment = s->p->ops.at[op].segment};
        }
        struct group *g = &groups[number[root] - 1];
        uint32_t end = s->segment_end[g->segment] + 1, join = s->join[op] < end ? s->join[op] : end;
        g->n_ops++;
        g->us += s->p->ops.at[op].est_us;
        g->bytes_us += bytes_us(s, &s->p->ops.at[op]);
        g->share_us += share_us(s, &s->p->ops.at[op]);
        g->fork = s->fork[op] < g->fork ? s->fork[op] : g->fork;
        g->join = join < g->join ? join : g->join;
        g->last = join > g->last ? join : g->last;
    }
    for (uint32_t i = 0; i < f->n; i++) {
        uint32_t op = f->topo[i];
        struct group *g = s->place[op] ? NULL : &groups[number[find(s->group, op)] - 1];
        if (g && s->join[op] <= g->join)
            g->needed_us += s->p->ops.at[op].est_us;
    }
    qsort(groups, n, sizeof *groups, by_window);
    *n_groups = n;
    return groups;
}

/* Time that a group on `stream` adds, for all that main does meanwhile. */
static double stall(const struct state *s, const struct group *g, uint32_t stream)
{
    double early =
        sums_in(&s->load[stream], g->fork, g->join - 1) + g->needed_us - sums_in(&s->load[0], g->fork, g->join - 1);
    double late =
        sums_in(&s->load[stream], g->fork, g->last - 1) + g->us - sums_in(&s->load[0], g->fork, g->last - 1);
    double most = early > late ? early : late;
    return most > 0 ? most : 0;
}

/* Time that the machine is the limit for: overlapping cannot save it. */
static double contention(const struct state *s, const struct group *g)
{
    uint32_t end = g->fork; /* as far as the group reaches beside main */
    while (end < g->last - 1 && sums_in(&s->load[0], g->fork, end) < g->us)
        end++;
    double main_us = sums_in(&s->load[0], g->fork, end);
    double bytes = g->bytes_us + sums_in(&s->bytes, g->fork, end),
           share = g->share_us + sums_in(&s->share, g->fork, end);
    double least = bytes > share ? bytes : share;
    return least > main_us ? least - main_us : 0;
}

static uint32_t side_stream(struct state *s, uint32_t number)
{
    while (s->p->streams.len <= number) {
        struct stem_sym name = s->p->streams.len == 1
                                   ? stem_intern(s->p->strings, "side")
                                   : stem_intern_printf(s->p->strings, "side%u", s->p->streams.len);
        stem_vec_push(&s->p->streams, (struct stem_stream_decl){.name = name});
    }
    return number;
}

/* Puts the group where it costs least; returns its stream. */
static uint32_t decide(struct state *s, const struct group *g)
{
    const struct stem_options *o = s->ctx->options;
    uint32_t most = o->max_streams < STEM_MAX_STREAMS ? o->max_streams : STEM_MAX_STREAMS, best = 0;
    double best_us = 0, shared = contention(s, g);
    for (uint32_t stream = 1; stream < most; stream++) {
        double us = stall(s, g, stream);
        if (!best || us < best_us) {
            best = stream;
            best_us = us;
        }
    }
    double gain = g->us - (best_us > shared ? best_us : shared);
    struct stem_op_id first = {g->first};
    struct stem_span at = s->p->ops.at[g->first].span;
    if (gain <= o->target.fork_us) {
        stem_remark(s->ctx->diags, "streams", at,
                    "'%s' (%u op%s, %.1f us) stays on main: a side stream would save %.1f us, "
                    "and a fork costs %.1f",
                    stem_op_label(s->p, first), g->n_ops, g->n_ops > 1 ? "s" : "", g->us, gain > 0 ? gain : 0.0,
                    o->target.fork_us);
        return 0;
    }
    side_stream(s, best);
    stem_remark(s->ctx->diags, "streams", at,
                "'%s' (%u op%s, %.1f us) goes to stream '%s': saves %.1f us, and a fork costs %.1f",
                stem_op_label(s->p, first), g->n_ops, g->n_ops > 1 ? "s" : "", g->us,
                stem_sym_str(s->p->strings, s->p->streams.at[best].name), gain, o->target.fork_us);
    return best;
}

static void init(struct state *s)
{
    struct stem_arena *a = s->ctx->scratch;
    uint32_t n = s->p->ops.len;
    s->place = STEM_NEW_ARRAY(a, uint32_t, n);
    s->fork = STEM_NEW_ARRAY(a, uint32_t, n);
    s->join = STEM_NEW_ARRAY(a, uint32_t, n);
    s->group = STEM_NEW_ARRAY(a, uint32_t, n);
    s->segment_end = STEM_NEW_ARRAY(a, uint32_t, s->p->segments.len);
}

static struct sums sums_new(struct stem_arena *a, uint32_t n)
{
    return (struct sums){STEM_NEW_ARRAY(a, double, n + 1), n};
}

void stem_streams_auto(struct stem_program *p, struct stem_pass_ctx *ctx, const struct stem_flow *flow)
{
    struct state s = {.p = p, .ctx = ctx, .f = flow};
    init(&s);
    critical_paths(&s);
    windows(&s);
    connect(&s);
    uint32_t n_groups,
        streams = ctx->options->max_streams < STEM_MAX_STREAMS ? ctx->options->max_streams : STEM_MAX_STREAMS;
    struct group *groups = collect(&s, &n_groups);
    for (uint32_t i = 0; i < streams; i++)
        s.load[i] = sums_new(ctx->scratch, s.n_places + 1);
    s.bytes = sums_new(ctx->scratch, s.n_places + 1);
    s.share = sums_new(ctx->scratch, s.n_places + 1);
    for (uint32_t op = 0; op < p->ops.len; op++) {
        if (!s.place[op])
            continue;
        sums_add(&s.load[0], s.place[op] - 1, p->ops.at[op].est_us);
        sums_add(&s.bytes, s.place[op] - 1, bytes_us(&s, &p->ops.at[op]));
        sums_add(&s.share, s.place[op] - 1, share_us(&s, &p->ops.at[op]));
    }
    uint32_t *stream = STEM_NEW_ARRAY(ctx->scratch, uint32_t, p->ops.len);
    for (uint32_t i = 0; i < n_groups; i++) {
        const struct group *g = &groups[i];
        stream[g->first] = decide(&s, g);
        sums_add(&s.load[stream[g->first]], g->fork, g->us);
        sums_add(&s.bytes, g->fork, g->bytes_us);
        sums_add(&s.share, g->fork, g->share_us);
    }
    for (uint32_t i = 0; i < flow->n; i++)
        if (!s.place[flow->topo[i]])
            p->ops.at[flow->topo[i]].stream.n = stream[find(s.group, flow->topo[i])];
}
