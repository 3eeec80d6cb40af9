/* SPDX-License-Identifier: Apache-2.0
 *
 * deps: what happens before what, and why.
 *
 * Every access of an op is noted by (buffer, version); a view counts for its buffer and its base's version. Within
 * one version writers come before readers (DATA); whoever read or wrote version n comes before the writer of version
 * n + 1 (ANTI, OUTPUT). A consumed operand is a read of its version and a write of the next one that nobody sees.
 * AFTER deps are the user's. Ops of one resource form a chain (RESOURCE) in a topological order of all other deps, so
 * that a chain never closes a cycle. What the barrier between segments orders is left to it, and deps against it are
 * errors.
 *
 * Time: linear but for sorting the accesses of buffers that have several versions.
 */
#include "pass/graph.h"

#include <stdlib.h>
#include <string.h>

struct access {
    uint32_t version, op, value;
    bool write;
};

struct accesses {
    struct access *at;
    uint32_t *begin; /* by buffer */
};

typedef void visit_fn(void *user, uint32_t buffer, struct access a);

static void visit(const struct stem_program *p, visit_fn *fn, void *user)
{
    for (uint32_t i = 0; i < p->ops.len; i++) {
        const struct stem_op *op = &p->ops.at[i];
        for (uint32_t k = 0; !op->dead && k < op->n_in + op->n_out; k++) {
            struct stem_value_id v = op->operands[k].value;
            if (v.n == STEM_NONE)
                continue;
            const struct stem_value *value = stem_value_at(p, v);
            fn(user, value->tensor.buffer, (struct access){value->version, i, v.n, k >= op->n_in});
            if (op->operands[k].mode == STEM_MODE_CONSUME)
                fn(user, value->tensor.buffer, (struct access){value->version + 1, i, v.n, true});
        }
    }
}

static void count_access(void *user, uint32_t buffer, struct access a)
{
    struct accesses *all = user;
    (void)a;
    all->begin[buffer + 2]++;
}

static void place_access(void *user, uint32_t buffer, struct access a)
{
    struct accesses *all = user;
    all->at[all->begin[buffer + 1]++] = a;
}

static struct accesses collect(const struct stem_program *p, struct stem_arena *scratch)
{
    uint32_t n = p->buffers.len;
    struct accesses all = {NULL, STEM_NEW_ARRAY(scratch, uint32_t, n + 2)};
    visit(p, count_access, &all);
    for (uint32_t b = 2; b <= n + 1; b++)
        all.begin[b] += all.begin[b - 1];
    all.at = STEM_NEW_ARRAY(scratch, struct access, all.begin[n + 1]);
    visit(p, place_access, &all);
    return all;
}

static int by_version(const void *a, const void *b)
{
    const struct access *x = a, *y = b;
    if (x->version != y->version)
        return x->version < y->version ? -1 : 1;
    if (x->write != y->write)
        return x->write ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

static void add(struct stem_program *p, uint32_t from, uint32_t to, enum stem_dep_kind kind, uint32_t value)
{
    if (from != to)
        stem_vec_push(&p->sched.deps, (struct stem_dep){{from}, {to}, kind, {value}});
}

/* Whether two accesses of one version touch common bytes. */
static bool overlap(const struct stem_program *p, const struct access *a, const struct access *b)
{
    const struct stem_tensor *s = &p->values.at[a->value].tensor, *t = &p->values.at[b->value].tensor;
    return s->offset < t->offset + stem_tensor_extent(t) && t->offset < s->offset + stem_tensor_extent(s);
}

/* Whether the op that made this access writes another part of the version that `writer` writes: then it comes before
 * the version after that one anyway, and with `writer` it shares nothing. The accesses `a` are sorted. */
static bool beside(const struct stem_program *p, const struct access *old, const struct access *a, uint32_t n,
                   const struct access *writer)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (a[middle].write && a[middle].op < old->op)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && a[low].write && a[low].op == old->op && old->op != writer->op && !overlap(p, old, writer);
}

static bool reads(const struct access *a, uint32_t n, uint32_t op)
{
    for (uint32_t i = 0; i < n; i++)
        if (!a[i].write && a[i].op == op)
            return true;
    return false;
}

/* Deps among the accesses of one version. */
static void within_version(struct stem_program *p, const struct access *a, uint32_t n)
{
    uint32_t writers = 0;
    while (writers < n && a[writers].write)
        writers++;
    for (uint32_t w = 0; w < writers; w++)
        for (uint32_t i = w + 1; i < n; i++)
            if (writers == 1 || overlap(p, &a[w], &a[i]))
                add(p, a[w].op, a[i].op, i < writers ? STEM_DEP_OUTPUT : STEM_DEP_DATA, a[i].value);
}

/* The accesses `old` come before the writers among `a`, which make the next version. */
static void between_versions(struct stem_program *p, const struct access *old, uint32_t n_old, const struct access *a,
                             uint32_t n)
{
    bool several = n_old > 1 && old[1].write; /* each wrote a part */
    for (uint32_t w = 0; w < n && a[w].write; w++)
        for (uint32_t i = 0; i < n_old; i++)
            if (!old[i].write && !beside(p, &old[i], a, n, &a[w]))
                add(p, old[i].op, a[w].op, STEM_DEP_ANTI, old[i].value);
            else if (old[i].write && (several || !reads(old, n_old, a[w].op))) /* else DATA says it */
                add(p, old[i].op, a[w].op, STEM_DEP_OUTPUT, old[i].value);
}

static void buffer_deps(struct stem_program *p, struct access *a, uint32_t n)
{
    bool written = false;
    for (uint32_t i = 0; i < n; i++)
        written |= a[i].write;
    if (!written)
        return;
    if (n > 1)
        qsort(a, n, sizeof *a, by_version);
    for (uint32_t begin = 0, end, old = 0; begin < n; old = begin, begin = end) {
        for (end = begin; end < n && a[end].version == a[begin].version; end++)
            ;
        if (begin)
            between_versions(p, a + old, begin - old, a + begin, end - begin);
        within_version(p, a + begin, end - begin);
    }
}

static void after_deps(struct stem_program *p)
{
    for (uint32_t i = 0; i < p->ops.len; i++) {
        const struct stem_op *op = &p->ops.at[i];
        for (uint32_t k = 0; !op->dead && k < op->n_after; k++)
            if (!stem_op_at(p, op->after[k])->dead)
                add(p, op->after[k].n, i, STEM_DEP_AFTER, STEM_NONE);
    }
}

/* Sorts by segment, and keeps the order within each. Ops of a later segment may come first in a topological order: a
 * copy that inplace adds to an early segment has a late id. */
static void group_by_segment(struct stem_arena *scratch, const struct stem_program *p, uint32_t *order, uint32_t n)
{
    uint32_t *begin = STEM_NEW_ARRAY(scratch, uint32_t, p->segments.len + 1);
    uint32_t *sorted = STEM_NEW_ARRAY(scratch, uint32_t, n);
    for (uint32_t i = 0; i < n; i++)
        begin[p->ops.at[order[i]].segment + 1]++;
    for (uint32_t i = 1; i <= p->segments.len; i++)
        begin[i] += begin[i - 1];
    for (uint32_t i = 0; i < n; i++)
        sorted[begin[p->ops.at[order[i]].segment]++] = order[i];
    if (n)
        memcpy(order, sorted, n * sizeof *order);
}

/* One chain for each resource in each segment; between segments the barrier does it. */
static bool resource_deps(struct stem_program *p, struct stem_arena *scratch)
{
    struct stem_graph succs = stem_graph_succs(scratch, p, STEM_DEPS_ALL, false);
    uint32_t n, most = 0;
    uint32_t *order = stem_graph_topo(scratch, p, &succs, &n);
    if (n < stem_live_ops(p))
        return false;
    for (uint32_t i = 0; i < p->ops.len; i++)
        most = p->ops.at[i].resource.n > most ? p->ops.at[i].resource.n : most;
    if (!most)
        return true;
    group_by_segment(scratch, p, order, n);
    uint32_t *last = STEM_NEW_ARRAY(scratch, uint32_t, most + 1);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t r = p->ops.at[order[i]].resource.n;
        if (r && last[r] && p->ops.at[last[r] - 1].segment == p->ops.at[order[i]].segment)
            add(p, last[r] - 1, order[i], STEM_DEP_RESOURCE, STEM_NONE);
        last[r] = order[i] + 1;
    }
    return true;
}

static int by_from(const void *a, const void *b)
{
    const struct stem_dep *x = a, *y = b;
    if (x->from.n != y->from.n)
        return x->from.n < y->from.n ? -1 : 1;
    return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : (x->value.n > y->value.n) - (x->value.n < y->value.n);
}

/* Sorts by to, from, kind and drops what repeats. */
static void sort_deps(struct stem_program *p, struct stem_arena *scratch)
{
    uint32_t n = p->sched.deps.len, n_ops = p->ops.len, kept = 0;
    struct stem_dep *d = p->sched.deps.at, *sorted = STEM_NEW_ARRAY(scratch, struct stem_dep, n);
    uint32_t *begin = STEM_NEW_ARRAY(scratch, uint32_t, n_ops + 2);
    for (uint32_t i = 0; i < n; i++)
        begin[d[i].to.n + 2]++;
    for (uint32_t i = 2; i <= n_ops + 1; i++)
        begin[i] += begin[i - 1];
    for (uint32_t i = 0; i < n; i++)
        sorted[begin[d[i].to.n + 1]++] = d[i];
    for (uint32_t op = 0; op < n_ops; op++) {
        uint32_t first = kept;
        if (begin[op + 1] - begin[op] > 1)
            qsort(sorted + begin[op], begin[op + 1] - begin[op], sizeof *sorted, by_from);
        for (uint32_t i = begin[op]; i < begin[op + 1]; i++)
            if (kept == first || sorted[i].from.n != d[kept - 1].from.n || sorted[i].kind != d[kept - 1].kind)
                d[kept++] = sorted[i];
    }
    p->sched.deps.len = kept;
}

/* What a later segment reads was overwritten before the break, unless `after` or a resource asks for the impossible. */
static void segment_error(const struct stem_program *p, const struct stem_dep *d, struct stem_diags *diags)
{
    const struct stem_op *from = stem_op_at(p, d->from), *to = stem_op_at(p, d->to);
    const char *first = stem_op_label(p, d->from), *then = stem_op_label(p, d->to);
    if (d->kind != STEM_DEP_ANTI || d->value.n == STEM_NONE) {
        stem_error(diags, STEM_E_SEGMENT_ORDER, to->span, "'%s' has to wait for '%s', which runs in a later segment",
                   then, first);
        stem_diag_label(diags, from->span, "this runs after the break");
        return;
    }
    const char *old = stem_sym_str(p->strings, stem_value_at(p, d->value)->name);
    stem_error(diags, STEM_E_SEGMENT_ORDER, to->span,
               "'%s' overwrites '%s', which '%s' reads after the break", then, old, first);
    stem_diag_label(diags, from->span, "here it is read, in a later segment");
    stem_diag_help(diags, "keep what it was, old = copy(%s) before it is overwritten, and read that after the break", old);
}

static void check_segments(const struct stem_program *p, struct stem_diags *diags)
{
    for (uint32_t i = 0; i < p->sched.deps.len; i++) {
        const struct stem_dep *d = &p->sched.deps.at[i];
        const struct stem_op *from = stem_op_at(p, d->from), *to = stem_op_at(p, d->to);
        if (from->segment <= to->segment)
            continue;
        segment_error(p, d, diags);
    }
}

bool stem_deps_build(struct stem_program *p, struct stem_arena *scratch, struct stem_diags *diags)
{
    struct accesses all = collect(p, scratch);
    stem_vec_clear(&p->sched.deps);
    for (uint32_t b = 0; b < p->buffers.len; b++)
        buffer_deps(p, all.at + all.begin[b], all.begin[b + 1] - all.begin[b]);
    after_deps(p);
    if (diags)
        check_segments(p, diags);
    bool acyclic = resource_deps(p, scratch);
    sort_deps(p, scratch);
    return acyclic;
}

/* Any op of the cycle, then along it: within a component every walk that stays inside comes round. */
void stem_deps_report_cycle(const struct stem_program *p, struct stem_arena *scratch, struct stem_diags *diags)
{
    struct stem_graph succs = stem_graph_succs(scratch, p, STEM_DEPS_ALL, false);
    const uint32_t *component = stem_graph_components(scratch, &succs);
    uint32_t *seen = STEM_NEW_ARRAY(scratch, uint32_t, p->ops.len), at = STEM_NONE, step = 0;
    for (uint32_t i = 0; i < p->sched.deps.len && at == STEM_NONE; i++)
        if (component[p->sched.deps.at[i].from.n] == component[p->sched.deps.at[i].to.n])
            at = p->sched.deps.at[i].to.n;
    if (at == STEM_NONE)
        return;
    while (!seen[at]) {
        seen[at] = ++step;
        for (uint32_t e = succs.begin[at]; e < succs.begin[at + 1]; e++)
            if (component[succs.to[e]] == component[at]) {
                at = succs.to[e];
                break;
            }
    }
    stem_error(diags, STEM_E_SCHED_CYCLE, p->ops.at[at].span, "'%s' would have to wait for itself",
               stem_op_label(p, (struct stem_op_id){at}));
    uint32_t begin = at;
    do {
        uint32_t to = begin;
        for (uint32_t e = succs.begin[at]; e < succs.begin[at + 1] && to == begin; e++)
            if (seen[succs.to[e]] == seen[at] + 1)
                to = succs.to[e];
        stem_diag_label(diags, p->ops.at[to].span, "'%s' waits for '%s'", stem_op_label(p, (struct stem_op_id){to}),
                        stem_op_label(p, (struct stem_op_id){at}));
        at = to;
    } while (at != begin);
}

static bool run(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    uint32_t errors = stem_diags_errors(ctx->diags);
    /* A cycle through ANTI deps is for inplace to break with a copy. */
    stem_deps_build(p, ctx->scratch, ctx->diags);
    return stem_diags_errors(ctx->diags) == errors;
}

const struct stem_pass stem_pass_deps = {
    .name = "deps",
    .blurb = "what happens before what: data, overwriting in place, after, resources",
    .gives = STEM_FACT_DEPS,
    .kills = STEM_FACT_ORDER | STEM_FACT_WAITS | STEM_FACT_LIFETIME | STEM_FACT_MEMORY | STEM_FACT_LANES,
    .run = run,
};
