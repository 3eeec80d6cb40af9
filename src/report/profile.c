/* SPDX-License-Identifier: Apache-2.0
 *
 * Which op each record of a replay is of. A record has a kernel's name and launch shape (or a memset's size), and
 * only ops that look the same can be mistaken for each other:
 *
 *   - Ops that look the same and happen one after another, whatever the timing, start in that order: the k-th record
 *     by start is the k-th op. This needs nothing but the plan's edges, and settles whole models of equal layers.
 *   - Where some of them are concurrent, issue order decides: an eager launch has a correlation number of its own,
 *     which grows with each call; nodes of a graph have numbers. That these grow in the order of the plan is not
 *     promised by anybody, so it is held against every op that is known from the first rule.
 *
 * What is left, if the numbers do not fit, is matched by start and counted as guessed. Then all edges are held
 * against the times. An extern op may launch anything: it gets the records that look like no op and lie between what
 * it waits for and what waits for it. A product by cuBLASLt is so many kernels, which the runtime knows: they are taken by their
 * numbers, too.
 */
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* How far timestamps may be apart. On an H200, ops that wait for each other in full were seen to overlap by 1.3 us, and one
 * that is launched early (programmatically) and waits for another lane in full, by 2.9 us. */
#define SLACK_US 2.0
#define EARLY_SLACK_US 4.0

struct map {
    const struct stem_plan *p;
    const struct stem_plan_variant *v;
    const struct stem_event *e;
    uint32_t n;
    struct stem_arena *a;
    struct stem_profile *out;
    uint32_t *event;            /* by op: its record, STEM_NONE: none yet */
    uint32_t *op_class, *class; /* by op, by record; op_class STEM_NONE: an extern op, or a library's */
    struct stem_before before;
    bool *proven;               /* by op */
    const uint32_t *kernels;    /* by op: records of a product by a library; NULL: not known */
    bool *settled;              /* by op: a product that has its records */
    const char *why;
};

static uint64_t memset_bytes(const struct stem_plan_op *op)
{
    return op->n_operands ? stem_tensor_extent(&op->operands[0].tensor) : 0;
}

static uint32_t kernel_class(struct stem_strtab *t, const char *name, const uint32_t grid[3], const uint32_t block[3])
{
    return stem_intern_printf(t, "%u %u %u, %u %u %u, %s", grid[0], grid[1], grid[2], block[0], block[1], block[2],
                              name)
        .n;
}

/* Numbers for what looks the same. */
static void classify(struct map *m)
{
    struct stem_strtab *t = stem_strtab_new();
    m->op_class = STEM_NEW_ARRAY(m->a, uint32_t, m->v->n_ops + 1);
    m->class = STEM_NEW_ARRAY(m->a, uint32_t, m->n + 1);
    for (uint32_t i = 0; i < m->v->n_ops; i++) {
        const struct stem_plan_op *op = &m->v->ops[i];
        m->op_class[i] = op->work == STEM_WORK_LAUNCH
                             ? kernel_class(t, m->p->kernels[op->kernel].name, op->grid, op->block)
                         : op->work == STEM_WORK_MEMSET
                             ? stem_intern_printf(t, "memset %llu", (unsigned long long)memset_bytes(op)).n
                             : STEM_NONE;
    }
    for (uint32_t i = 0; i < m->n; i++) {
        const struct stem_event *e = &m->e[i];
        m->class[i] = e->kind == STEM_EVENT_KERNEL ? kernel_class(t, e->name, e->grid, e->block)
                      : e->kind == STEM_EVENT_MEMSET
                          ? stem_intern_printf(t, "memset %llu", (unsigned long long)e->bytes).n
                          : stem_intern(t, "copy").n;
    }
    stem_strtab_free(t);
}

static bool comes_before(const struct map *m, uint32_t a, uint32_t b)
{
    return stem_before(&m->before, a, b);
}

/* ---- records and ops of one class ---- */

struct item {
    uint32_t class, index;
    uint64_t correlation, node;
    double start;
};

static int by_class(const void *x, const void *y)
{
    const struct item *a = x, *b = y;
    if (a->class != b->class)
        return a->class < b->class ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static int by_start(const void *x, const void *y)
{
    const struct item *a = x, *b = y;
    if (a->start < b->start || a->start > b->start)
        return a->start < b->start ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static int by_issue(const void *x, const void *y)
{
    const struct item *a = x, *b = y;
    if (a->correlation != b->correlation)
        return a->correlation < b->correlation ? -1 : 1;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return by_start(x, y);
}

static struct item *sorted_ops(struct map *m)
{
    struct item *ops = STEM_NEW_ARRAY(m->a, struct item, m->v->n_ops + 1);
    for (uint32_t i = 0; i < m->v->n_ops; i++)
        ops[i] = (struct item){.class = m->op_class[i], .index = i};
    qsort(ops, m->v->n_ops, sizeof *ops, by_class);
    return ops;
}

static struct item *sorted_events(struct map *m)
{
    struct item *events = STEM_NEW_ARRAY(m->a, struct item, m->n + 1);
    for (uint32_t i = 0; i < m->n; i++)
        events[i] = (struct item){m->class[i], i, m -> e[i].correlation, m->e[i].node, m->e[i].start};
    if (m->n)
        qsort(events, m->n, sizeof *events, by_class);
    return events;
}

/* The first class: what its `n` ops have for certain. The rest is left for the numbers. */
static bool settle(struct map *m, const struct item *ops, struct item *events, uint32_t n)
{
    bool chain = true, eager = true;
    for (uint32_t i = 0; i < n; i++) {
        chain = chain && (!i || comes_before(m, ops[i - 1].index, ops[i].index));
        eager = eager && !m->e[events[i].index].graph;
    }
    qsort(events, n, sizeof *events, chain ? by_start : by_issue);
    for (uint32_t i = 0; i < n; i++) {
        m->event[ops[i].index] = events[i].index;
        m->proven[ops[i].index] = chain || eager;
    }
    return chain || eager;
}

/* True if node numbers grow with the ops wherever these are certain, in each launch. */
static bool numbers_fit(const struct map *m)
{
    const struct stem_event *last = NULL;
    bool fit = true, any = false;
    for (uint32_t i = 0; fit && i < m->v->n_ops; i++) {
        if (!m->proven[i])
            continue;
        const struct stem_event *e = &m->e[m->event[i]];
        if (last && e->graph && e->correlation == last->correlation)
            fit = any = e->node > last->node;
        last = e->graph ? e : NULL;
    }
    return fit && any;
}

static const char *describe(struct map *m, uint32_t op)
{
    const struct stem_plan_op *o = &m->v->ops[op];
    return o->work == STEM_WORK_LAUNCH
               ? stem_arena_printf(m->a, "kernel %s with a grid of %u x %u x %u", m->p->kernels[o->kernel].name,
                                   o->grid[0], o->grid[1], o->grid[2])
               : stem_arena_printf(m->a, "memset of %llu bytes", (unsigned long long)memset_bytes(o));
}

/* Classes side by side; records of no op's class stay without an op. */
static bool match(struct map *m, bool *used)
{
    struct item *ops = sorted_ops(m), *events = sorted_events(m);
    uint32_t e = 0, n_ops = m->v->n_ops;
    bool all = true;
    for (uint32_t i = 0, next; i < n_ops && ops[i].class != STEM_NONE; i = next) {
        for (next = i; next < n_ops && ops[next].class == ops[i].class; next++)
            ;
        while (e < m->n && events[e].class < ops[i].class)
            e++;
        uint32_t first = e;
        for (; e < m->n && events[e].class == ops[i].class; e++)
            used[events[e].index] = true;
        if (e - first != next - i) {
            m->why = stem_arena_printf(m->a, "%u records of the %s, but %u ops ('%s' is the first)", e - first,
                                       describe(m, ops[i].index), next - i, m->v->ops[ops[i].index].name);
            return false;
        }
        all &= settle(m, ops + i, events + first, next - i);
    }
    bool fit = all || numbers_fit(m);
    for (uint32_t i = 0; i < n_ops; i++)
        if (m->op_class[i] != STEM_NONE)
            ++*(m->proven[i] ? &m->out->by_order : fit ? &m->out->by_number : &m->out->guessed);
    return true;
}

/* ---- ops that are not of our kernels ---- */

static void add(struct map *m, uint32_t op, uint32_t event)
{
    struct stem_timeline *t = &m->out->when;
    const struct stem_event *e = &m->e[event];
    if (m->event[op] == STEM_NONE || e->start < t->start[op]) {
        m->event[op] = event;
        t->start[op] = e->start;
    }
    t->end[op] = e->end > t->end[op] ? e->end : t->end[op];
}

/* Of a library it is known how many kernels each product is, and all that is left is theirs if there are no extern ops: they
 * follow each other as they were issued. Else they are looked for as extern ops are. */
static bool match_products(struct map *m, bool *used)
{
    struct item *left = STEM_NEW_ARRAY(m->a, struct item, m->n + 1);
    uint32_t n = 0, want = 0, at = 0;
    bool eager = true;
    m->settled = STEM_NEW_ARRAY(m->a, bool, m->v->n_ops + 1);
    for (uint32_t i = 0; i < m->v->n_ops; i++) {
        if (m->v->ops[i].work == STEM_WORK_EXTERN || !m->kernels)
            return true;
        want += m->v->ops[i].work == STEM_WORK_MATMUL ? m->kernels[i] : 0;
    }
    for (uint32_t i = 0; i < m->n; i++)
        if (!used[i]) {
            left[n++] = (struct item){.index = i, .correlation = m->e[i].correlation, .node = m->e[i].node, .start = m->e[i].start};
            eager = eager && !m->e[i].graph;
        }
    if (n != want) {
        m->why = stem_arena_printf(m->a, "%u records are of no kernel of ours, and the library's products are %u", n, want);
        return false;
    }
    if (n)
        qsort(left, n, sizeof *left, by_issue);
    bool fit = numbers_fit(m);
    for (uint32_t i = 0; i < m->v->n_ops; i++) {
        if (m->v->ops[i].work != STEM_WORK_MATMUL)
            continue;
        for (uint32_t k = 0; k < m->kernels[i]; k++, at++) {
            add(m, i, left[at].index);
            used[left[at].index] = true;
        }
        m->settled[i] = true;
        ++*(eager ? &m->out->by_order : fit ? &m->out->by_number : &m->out->guessed);
    }
    return true;
}

struct window {
    double from, to;
    bool sure;
};

/* Of an extern op: from the end of what it waits for to the start of what waits for it. */
static struct window window_of(const struct map *m, uint32_t op)
{
    struct window w = {-HUGE_VAL, HUGE_VAL, true};
    for (uint32_t i = 0; i < m->v->n_ops; i++) {
        if (m->op_class[i] == STEM_NONE)
            continue;
        const struct stem_event *e = &m->e[m->event[i]];
        if (i < op && comes_before(m, i, op) && e->end - SLACK_US > w.from)
            w.from = e->end - SLACK_US;
        if (i > op && comes_before(m, op, i) && e->start + SLACK_US < w.to)
            w.to = e->start + SLACK_US;
    }
    return w;
}

/* The first extern op in whose window the record lies; not for sure if there are several. */
static uint32_t extern_of(const struct map *m, struct window *w, const struct stem_event *e)
{
    uint32_t op = STEM_NONE;
    for (uint32_t k = 0; k < m->v->n_ops; k++)
        if (m->op_class[k] == STEM_NONE && !m->settled[k] && e->start >= w[k].from && e->end <= w[k].to) {
            if (op != STEM_NONE)
                w[op].sure = w[k].sure = false;
            op = op == STEM_NONE ? k : op;
        }
    return op;
}

static bool match_externs(struct map *m, const bool *used)
{
    struct window *w = STEM_NEW_ARRAY(m->a, struct window, m->v->n_ops + 1);
    for (uint32_t k = 0; k < m->v->n_ops; k++)
        if (m->op_class[k] == STEM_NONE)
            w[k] = window_of(m, k);
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t op = used[i] ? STEM_NONE : extern_of(m, w, &m->e[i]);
        if (op != STEM_NONE) {
            add(m, op, i);
        } else if (!used[i]) {
            m->why = stem_arena_printf(m->a, "a record of '%s' is of no op", m->e[i].name);
            return false;
        }
    }
    for (uint32_t k = 0; k < m->v->n_ops; k++) {
        if (m->op_class[k] != STEM_NONE || m->settled[k])
            continue;
        if (m->event[k] == STEM_NONE) {
            m->why = stem_arena_printf(m->a, "no record is of the op '%s', whose kernels are not ours", m->v->ops[k].name);
            return false;
        }
        ++*(w[k].sure ? &m->out->by_order : &m->out->guessed);
    }
    return true;
}

/* ---- result ---- */

/* Streams of the device, numbered as ops show them. */
static void number_lanes(struct map *m)
{
    uint32_t *seen = STEM_NEW_ARRAY(m->a, uint32_t, m->v->n_ops + 1), n = 0;
    for (uint32_t i = 0; i < m->v->n_ops; i++) {
        uint32_t lane = 0;
        while (lane < n && seen[lane] != m->e[m->event[i]].stream)
            lane++;
        if (lane == n)
            seen[n++] = m->e[m->event[i]].stream;
        m->out->when.lane[i] = lane;
        m->out->graph |= m->e[m->event[i]].graph != 0;
    }
    m->out->n_lanes = n;
}

static void check_edges(struct map *m)
{
    const struct stem_timeline *t = &m->out->when;
    for (uint32_t i = 0; i < m->v->n_edges; i++) {
        const struct stem_plan_edge *x = &m->v->edges[i];
        double from = x->kind == STEM_EDGE_PROGRAMMATIC ? t->start[x->from] : t->end[x->from];
        double overlap = from - t->start[x->to];
        if (overlap > (m->v->ops[x->to].programmatic ? EARLY_SLACK_US : SLACK_US))
            m->out->broken++;
        else if (overlap > m->out->overlap)
            m->out->overlap = overlap;
    }
}

static void take_times(struct map *m)
{
    struct stem_timeline *t = &m->out->when;
    double begin = 0;
    for (uint32_t i = 0; i < m->v->n_ops; i++) {
        const struct stem_event *e = &m->e[m->event[i]];
        if (m->op_class[i] != STEM_NONE) {
            t->start[i] = e->start;
            t->end[i] = e->end;
        }
        begin = !i || t->start[i] < begin ? t->start[i] : begin;
    }
    for (uint32_t i = 0; i < m->v->n_ops; i++) {
        t->start[i] -= begin;
        t->end[i] -= begin;
    }
}

bool stem_profile_map(const struct stem_plan *p, const struct stem_plan_variant *v, const struct stem_event *events,
                      uint32_t n, const uint32_t *kernels, struct stem_arena *a, struct stem_profile *out, const char **why)
{
    struct map m = {.p = p, .v = v, .e = events, .n = n, .kernels = kernels, .a = a, .out = out};
    bool *used = STEM_NEW_ARRAY(a, bool, n + 1);
    *out = (struct stem_profile){0};
    stem_timeline_new(v, a, &out->when);
    out->when.measured = true;
    out->when.lane = STEM_NEW_ARRAY(a, uint32_t, v->n_ops + 1);
    m.event = STEM_NEW_ARRAY(a, uint32_t, v->n_ops + 1);
    memset(m.event, 0xff, (v->n_ops + 1) * sizeof *m.event);
    m.proven = STEM_NEW_ARRAY(a, bool, v->n_ops + 1);
    classify(&m);
    stem_before_find(p, v, a, &m.before);
    if (!match(&m, used) || !match_products(&m, used) || !match_externs(&m, used)) {
        *why = m.why;
        return false;
    }
    number_lanes(&m);
    take_times(&m);
    check_edges(&m);
    stem_timeline_finish(v, a, &out->when);
    return true;
}

const char *stem_profile_proof(const struct stem_profile *p, const struct stem_plan_variant *v, struct stem_arena *a)
{
    const char *how = stem_arena_printf(a, "%u ops told apart by kernel, shape and order alone", p->by_order);
    if (p->by_number)
        how = stem_arena_printf(a, "%s, %u by node number, which agrees with the order of the others", how,
                                p->by_number);
    if (p->guessed)
        how = stem_arena_printf(a, "%s, %u GUESSED by start: nothing tells them from their likes", how, p->guessed);
    if (p->broken)
        return stem_arena_printf(a, "%s; the times CONTRADICT %u of %u edges", how, p->broken, v->n_edges);
    how = stem_arena_printf(a, "%s; the times agree with all %u edges", how, v->n_edges);
    return p->overlap >= 0.1 ? stem_arena_printf(a, "%s to within %.1f us", how, p->overlap) : how;
}
