/* SPDX-License-Identifier: Apache-2.0
 *
 * streams, when nothing is pinned. In each segment the critical path by estimated cost is main. What is left falls
 * into *side groups*: ops connected by data whose windows on the critical path overlap. A group's window reaches from
 * the last critical op that it needs (`fork`) to the first that needs it (`join`). The group goes to a side stream if
 * what that saves is more than the price of a fork, else to main.
 *
 * What it saves: on main the group costs its whole time. On a side stream it costs what main loses to it: time in which
 * both want the same part of the machine, and time that main waits for it at the join (overlap.h, which goes through
 * both lines of ops side by side).
 *
 * Earlier decisions count: loads of streams are kept in Fenwick trees over the critical path. A group is gone through
 * beside those critical ops only that it overlaps with, so that the whole is O(n log n) where groups do not share them.
 */
#include "pass/streams.h"

#include <stdlib.h>

#include "pass/hb.h"
#include "pass/overlap.h"

#define NEVER UINT32_MAX

struct group {
    uint32_t first; /* lowest op id; names the group */
    uint32_t begin, n_ops, n_needed, segment; /* its ops: members[begin...], those that `join` waits for first */
    uint32_t fork, join, last; /* critical-path places: works in (fork, join); some of it may run on to `last` */
    double us, bytes_us;       /* all of it; what its bytes take of the bandwidth */
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
    uint32_t n_places, *path; /* critical ops by place, from 0 */
    uint32_t *members;        /* ops of groups, group by group, in topological order */
    uint32_t *segment_end;                            /* last critical place of each segment */
    struct sums load[STEM_MAX_STREAMS], bytes[STEM_MAX_STREAMS]; /* by critical place */
    struct sums path_us;                                         /* load[0] without groups that stay on main */
};

static double bytes_us(const struct state *s, const struct stem_op *op)
{
    return 1e6 * (double)(op->cost.bytes_read + op->cost.bytes_written) / s->ctx->options->target.bandwidth;
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
        while (len) {
            s->path[s->n_places] = path[--len];
            s->place[path[len]] = ++s->n_places;
        }
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
            if (s->place[from] || s->place[op] || s->fork[op] >= s->join[from] ||
                s->p->ops.at[from].stream.n != s->p->ops.at[op].stream.n)
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

/* In two rounds: what join waits for, then the others. */
static void list_members(struct state *s, struct group *groups, uint32_t n, const uint32_t *number)
{
    const struct stem_flow *f = s->f;
    uint32_t *end = STEM_NEW_ARRAY(s->ctx->scratch, uint32_t, n + 1), begin = 0;
    for (uint32_t i = 0; i < n; i++) {
        groups[i].begin = end[i] = begin;
        begin += groups[i].n_ops;
    }
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < f->n; i++) {
            uint32_t op = f->topo[i];
            if (s->place[op])
                continue;
            struct group *g = &groups[number[find(s->group, op)] - 1];
            if ((s->join[op] <= g->join) != (round == 0))
                continue;
            s->members[end[g - groups]++] = op;
            g->n_needed += round == 0;
        }
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
        g->fork = s->fork[op] < g->fork ? s->fork[op] : g->fork;
        g->join = join < g->join ? join : g->join;
        g->last = join > g->last ? join : g->last;
    }
    list_members(s, groups, n, number);
    qsort(groups, n, sizeof *groups, by_window);
    *n_groups = n;
    return groups;
}

/* What running the group on `stream` saves. On main it takes its own time; on a side stream, what main loses to it until
 * its last op has ended. */
static double gain(const struct state *s, const struct group *g, uint32_t stream, struct stem_overlap *beside)
{
    double window = sums_in(&s->load[0], g->fork, g->join - 1);
    struct stem_lines l = {.ops = s->p->ops.at,
                           .main = s->path + g->fork,
                           .n_main = g->last - 1 - g->fork,
                           .side = s->members + g->begin,
                           .n_side = g->n_ops,
                           .join = g->join - 1 - g->fork,
                           .n_needed = g->n_needed,
                           .delay = sums_in(&s->load[stream], g->fork, g->join - 1),
                           .filler = window - sums_in(&s->path_us, g->fork, g->join - 1)};
    for (uint32_t i = 1; i < STEM_MAX_STREAMS && s->load[i].at; i++)
        if (i != stream && window > 0)
            l.extra += sums_in(&s->bytes[i], g->fork, g->join - 1) / window;
    l.extra = l.extra > 1 ? 1 : l.extra;
    *beside = stem_overlap(s->ctx->options, &l);
    return g->us - (beside->us - beside->main_us);
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

static void note(struct state *s, const struct group *g, const struct stem_fork *f)
{
    const char *name = stem_op_label(s->p, f->first), *many = g->n_ops > 1 ? "s" : "";
    struct stem_span at = stem_op_at(s->p, f->first)->span;
    stem_vec_push(&s->p->sched.forks, *f);
    if (!f->stream.n)
        stem_remark(s->ctx->diags, "streams", at,
                    "'%s' (%u op%s, %.1f us) stays on main: a side stream would save %.1f us, "
                    "and a fork costs %.1f",
                    name, g->n_ops, many, g->us, f->gain_us > 0 ? f->gain_us : 0.0, f->price_us);
    else
        stem_remark(s->ctx->diags, "streams", at,
                    "'%s' (%u op%s, %.1f us) goes to stream '%s': saves %.1f us, and a fork costs %.1f", name, g->n_ops,
                    many, g->us, stem_sym_str(s->p->strings, s->p->streams.at[f->stream.n].name), f->gain_us, f->price_us);
}

/* Puts the group where it costs least; returns its stream. */
static uint32_t decide(struct state *s, const struct group *g)
{
    const struct stem_options *o = s->ctx->options;
    uint32_t most = o->max_streams < STEM_MAX_STREAMS ? o->max_streams : STEM_MAX_STREAMS, best = 0;
    struct stem_fork f = {.first = {s->members[g->begin]}, .beside = STEM_NO_OP, .n_ops = g->n_ops, .us = g->us, .price_us = o->target.fork_us};
    double slack = 0;
    bool at_start = g->fork == (g->segment ? s->segment_end[g->segment - 1] : 0);
    for (uint32_t stream = 1; stream < most; stream++) {
        struct stem_overlap beside;
        double us = gain(s, g, stream, &beside);
        if (best && us <= f.gain_us)
            continue;
        best = stream;
        f.gain_us = us;
        f.beside_us = beside.main_us;
        f.measured = beside.measured;
        slack = at_start ? 0 : beside.slack_us; /* such a branch has a lane of its own more often than not */
    }
    if (g->last - 1 > g->fork) { /* there is something beside it */
        f.beside.n = s->path[g->fork];
        f.price_us = stem_fork_price(o, &s->p->ops.at[f.beside.n], &s->p->ops.at[f.first.n], slack);
    }
    f.stream.n = f.gain_us > f.price_us ? side_stream(s, best) : 0;
    note(s, g, &f);
    return f.stream.n;
}

static struct sums sums_new(struct stem_arena *a, uint32_t n)
{
    return (struct sums){STEM_NEW_ARRAY(a, double, n + 1), n};
}

static void init(struct state *s)
{
    struct stem_arena *a = s->ctx->scratch;
    uint32_t n = s->p->ops.len;
    s->place = STEM_NEW_ARRAY(a, uint32_t, n);
    s->fork = STEM_NEW_ARRAY(a, uint32_t, n);
    s->join = STEM_NEW_ARRAY(a, uint32_t, n);
    s->group = STEM_NEW_ARRAY(a, uint32_t, n);
    s->path = STEM_NEW_ARRAY(a, uint32_t, n + 1);
    s->members = STEM_NEW_ARRAY(a, uint32_t, n + 1);
    s->segment_end = STEM_NEW_ARRAY(a, uint32_t, s->p->segments.len);
}

/* The groups beside what is on the path. */
static struct group *find_groups(struct state *s, uint32_t *n)
{
    windows(s);
    connect(s);
    return collect(s, n);
}

static void start_loads(struct state *s, uint32_t streams)
{
    for (uint32_t i = 0; i < streams; i++) {
        s->load[i] = sums_new(s->ctx->scratch, s->n_places + 1);
        s->bytes[i] = sums_new(s->ctx->scratch, s->n_places + 1);
    }
    s->path_us = sums_new(s->ctx->scratch, s->n_places + 1);
    for (uint32_t i = 0; i < s->n_places; i++) {
        sums_add(&s->load[0], i, s->p->ops.at[s->path[i]].est_us);
        sums_add(&s->path_us, i, s->p->ops.at[s->path[i]].est_us);
    }
}

static void add_load(struct state *s, const struct group *g, uint32_t stream)
{
    sums_add(&s->load[stream], g->fork, g->us);
    sums_add(&s->bytes[stream], g->fork, g->bytes_us);
}

void stem_streams_auto(struct stem_program *p, struct stem_pass_ctx *ctx, const struct stem_flow *flow)
{
    struct state s = {.p = p, .ctx = ctx, .f = flow};
    uint32_t n_groups,
        streams = ctx->options->max_streams < STEM_MAX_STREAMS ? ctx->options->max_streams : STEM_MAX_STREAMS;
    init(&s);
    critical_paths(&s);
    struct group *groups = find_groups(&s, &n_groups);
    start_loads(&s, streams);
    stem_vec_clear(&p->sched.forks);
    uint32_t *stream = STEM_NEW_ARRAY(ctx->scratch, uint32_t, p->ops.len);
    for (uint32_t i = 0; i < n_groups; i++) {
        stream[groups[i].first] = decide(&s, &groups[i]);
        add_load(&s, &groups[i], stream[groups[i].first]);
    }
    for (uint32_t i = 0; i < flow->n; i++)
        if (!s.place[flow->topo[i]])
            p->ops.at[flow->topo[i]].stream.n = stream[find(s.group, flow->topo[i])];
}

/* ---- streams that the file has pinned ---- */

/* Main's ops in the order in which they are issued. */
static void main_path(struct state *s)
{
    const struct stem_program *p = s->p;
    uint32_t g = 0;
    for (uint32_t i = 0; i < p->sched.order.len; i++) {
        const struct stem_op *op = stem_op_at(p, p->sched.order.at[i]);
        for (; g < op->segment; g++)
            s->segment_end[g] = s->n_places;
        if (op->stream.n)
            continue;
        s->path[s->n_places] = p->sched.order.at[i].n;
        s->place[p->sched.order.at[i].n] = ++s->n_places;
    }
    for (; g < p->segments.len; g++)
        s->segment_end[g] = s->n_places;
}

/* Neither has happened before the other starts. */
static bool concurrent(const struct stem_hb *hb, uint32_t a, uint32_t b)
{
    const struct stem_op *ops = hb->p->ops.at;
    return stem_hb_clock(hb, a)[ops[b].stream.n] < hb->index[b] && stem_hb_clock(hb, b)[ops[a].stream.n] < hb->index[a];
}

/* The longest group on another side stream that can start beside g; NULL: none. Only neighbours are looked at: they are
 * sorted by window, and there may be as many as ops. */
static const struct group *neighbour(const struct state *s, const struct stem_hb *hb, const struct group *groups, uint32_t n,
                                     const struct group *g)
{
    const struct stem_op *ops = s->p->ops.at;
    const struct group *best = NULL;
    uint32_t at = (uint32_t)(g - groups), first = at > 32 ? at - 32 : 0, end = n - at > 32 ? at + 32 : n;
    for (const struct group *h = groups + first; h < groups + end; h++)
        if (h->segment == g->segment && ops[h->first].stream.n != ops[g->first].stream.n && (!best || h->us > best->us) &&
            concurrent(hb, s->members[g->begin], s->members[h->begin]))
            best = h;
    return best;
}

/* What a group saves that has nothing of main beside it, but another side stream. */
static double gain_beside(const struct state *s, const struct group *g, const struct group *other, struct stem_overlap *beside)
{
    struct stem_lines l = {.ops = s->p->ops.at,
                           .main = s->members + other->begin,
                           .n_main = other->n_ops,
                           .side = s->members + g->begin,
                           .n_side = g->n_ops,
                           .join = other->n_ops};
    *beside = stem_overlap(s->ctx->options, &l);
    return g->us - (beside->us - beside->main_us);
}

static void judge(struct state *s, const struct stem_hb *hb, const struct group *groups, uint32_t n, const struct group *g)
{
    struct stem_program *p = s->p;
    struct stem_overlap beside;
    const struct group *other = NULL;
    struct stem_fork f = {.first = {s->members[g->begin]}, .beside = STEM_NO_OP, .n_ops = g->n_ops, .us = g->us, .pinned = true};
    f.stream = stem_op_at(p, f.first)->stream;
    if (g->last - 1 > g->fork)
        f.beside.n = s->path[g->fork];
    else if ((other = neighbour(s, hb, groups, n, g)))
        f.beside.n = s->members[other->begin];
    f.gain_us = other ? gain_beside(s, g, other, &beside) : gain(s, g, f.stream.n, &beside);
    f.price_us = s->ctx->options->target.fork_us;
    f.beside_us = beside.main_us;
    f.measured = beside.measured;
    if (f.beside.n != STEM_NONE)
        f.price_us = stem_fork_price(s->ctx->options, &p->ops.at[f.beside.n], &p->ops.at[f.first.n], beside.slack_us);
    stem_vec_push(&p->sched.forks, f);
    if (f.beside.n != STEM_NONE && f.gain_us < f.price_us) /* else there is a remark already */
        stem_remark(s->ctx->diags, "streams", stem_op_at(p, f.first)->span,
                    "'%s' (%u op%s, %.1f us) is pinned to stream '%s', which costs more than it saves: %.1f us against %.1f us for the fork",
                    stem_op_label(p, f.first), g->n_ops, g->n_ops > 1 ? "s" : "", g->us,
                    stem_sym_str(p->strings, p->streams.at[f.stream.n].name), f.gain_us > 0 ? f.gain_us : 0.0, f.price_us);
    add_load(s, g, f.stream.n);
}

void stem_streams_pinned(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    struct stem_flow f = {.succs = stem_graph_succs(ctx->scratch, p, STEM_DEPS_ALL, true),
                          .preds = stem_graph_preds(ctx->scratch, p, STEM_DEPS_ALL, true)};
    f.topo = stem_graph_topo(ctx->scratch, p, &f.succs, &f.n);
    struct state s = {.p = p, .ctx = ctx, .f = &f};
    uint32_t n;
    init(&s);
    main_path(&s);
    struct group *groups = find_groups(&s, &n);
    start_loads(&s, p->streams.len);
    stem_vec_clear(&p->sched.forks);
    const struct stem_hb *hb = stem_hb_new(ctx->scratch, p, false);
    for (uint32_t i = 0; i < n; i++)
        judge(&s, hb, groups, n, &groups[i]);
}
