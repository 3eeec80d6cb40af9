/* SPDX-License-Identifier: Apache-2.0
 *
 * What changed between two plans, in words. Ops are the same if they have the same name and are as many-th of that
 * name. What happens to the same op of many layers is one line with a count.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"
#include "report/report.h"

struct side {
    const struct stem_plan *p;
    const struct stem_plan_variant *v;
    uint32_t *key;   /* by op */
    uint32_t *op_of; /* by key: the op, STEM_NONE: there is none */
};

struct diff {
    struct stem_arena *arena;
    struct stem_strtab *keys;  /* names with their number; a key is a symbol's number */
    struct stem_strtab *lines; /* grouped lines of the section */
    STEM_VEC(uint32_t) count;  /* by symbol of `lines` */
    struct side a, b;
    struct stem_out *o;
    uint32_t total; /* lines with a difference */
    const char *section;
    bool begun;
};

static void say(struct diff *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void group(struct diff *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void title(struct diff *d)
{
    if (!d->begun)
        stem_out_printf(d->o, "%s\n", d->section);
    d->begun = true;
    d->total++;
}

static void say(struct diff *d, const char *fmt, ...)
{
    va_list ap;
    title(d);
    stem_out_str(d->o, "  ");
    va_start(ap, fmt);
    stem_out_vprintf(d->o, fmt, ap);
    va_end(ap);
    stem_out_char(d->o, '\n');
}

/* A line that stands once, with how often it was said. */
static void group(struct diff *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    uint32_t n = stem_intern(d->lines, stem_arena_vprintf(d->arena, fmt, ap)).n;
    va_end(ap);
    while (d->count.len <= n)
        stem_vec_push(&d->count, 0);
    d->count.at[n]++;
}

static void begin(struct diff *d, const char *section)
{
    for (uint32_t n = 1; n < d->count.len; n++)
        if (d->count.at[n] > 1)
            say(d, "%s (%u times)", stem_sym_str(d->lines, (struct stem_sym){n}), d->count.at[n]);
        else
            say(d, "%s", stem_sym_str(d->lines, (struct stem_sym){n}));
    stem_vec_clear(&d->count);
    stem_strtab_free(d->lines);
    d->lines = stem_strtab_new();
    d->section = section;
    d->begun = false;
}

static const char *pattern(struct diff *d, const struct side *s, uint32_t op)
{
    return stem_name_pattern(s->v->ops[op].name, d->arena);
}

static const char *stream(const struct side *s, uint32_t op)
{
    return s->p->streams[s->v->ops[op].stream];
}

static void number_ops(struct diff *d, struct side *s)
{
    struct stem_strtab *names = stem_strtab_new();
    uint32_t *seen = STEM_NEW_ARRAY(d->arena, uint32_t, s->v->n_ops + 1);
    s->key = STEM_NEW_ARRAY(d->arena, uint32_t, s->v->n_ops + 1);
    for (uint32_t i = 0; i < s->v->n_ops; i++) {
        const char *name = s->v->ops[i].name;
        s->key[i] = stem_intern_printf(d->keys, "%u %s", seen[stem_intern(names, name).n - 1]++, name).n;
    }
    stem_strtab_free(names);
}

static void index_ops(struct diff *d, struct side *s)
{
    uint32_t n = d->a.v->n_ops + d->b.v->n_ops + 1;
    s->op_of = STEM_NEW_ARRAY(d->arena, uint32_t, n);
    memset(s->op_of, 0xff, n * sizeof *s->op_of);
    for (uint32_t i = 0; i < s->v->n_ops; i++)
        s->op_of[s->key[i]] = i;
}

static void integers(struct diff *d, const char *what, uint64_t a, uint64_t b)
{
    if (a != b)
        say(d, "%s: %llu, was %llu", what, (unsigned long long)b, (unsigned long long)a);
}

static void times(struct diff *d, const char *what, double a, double b)
{
    if (fabs(a - b) > 1e-6 * (fabs(a) + fabs(b)))
        say(d, "%s: %.2f us, was %.2f us", what, b, a);
}

static void numbers(struct diff *d)
{
    const struct stem_plan_variant *a = d->a.v, *b = d->b.v;
    integers(d, "ops", a->n_ops, b->n_ops);
    integers(d, "segments", a->n_segments, b->n_segments);
    integers(d, "events", a->n_events, b->n_events);
    integers(d, "lower bound of events", a->events_bound, b->events_bound);
    integers(d, "lanes predicted", a->lanes, b->lanes);
    integers(d, "edges of the graph", a->n_edges, b->n_edges);
    integers(d, "slab bytes", a->slab_bytes, b->slab_bytes);
    integers(d, "lower bound of slab bytes", a->slab_bound, b->slab_bound);
    times(d, "critical path", a->critical_path_us, b->critical_path_us);
    times(d, "one stream", a->total_us, b->total_us);
    times(d, "floor by bytes", a->floor_us, b->floor_us);
}

static void added_removed(struct diff *d)
{
    for (uint32_t i = 0; i < d->a.v->n_ops; i++)
        if (d->b.op_of[d->a.key[i]] == STEM_NONE)
            group(d, "removed: '%s' (%s, on %s)", pattern(d, &d->a, i), d->a.v->ops[i].kind, stream(&d->a, i));
    for (uint32_t i = 0; i < d->b.v->n_ops; i++)
        if (d->a.op_of[d->b.key[i]] == STEM_NONE)
            group(d, "added: '%s' (%s, on %s)", pattern(d, &d->b, i), d->b.v->ops[i].kind, stream(&d->b, i));
}

static const char *code_of(const struct side *s, uint32_t op)
{
    const struct stem_plan_op *o = &s->v->ops[op];
    return o->work == STEM_WORK_LAUNCH   ? s->p->kernels[o->kernel].name
           : o->work == STEM_WORK_EXTERN ? s->p->externs[o->function].name
                                         : "memset";
}

static void one_op(struct diff *d, uint32_t i, uint32_t k)
{
    const struct stem_plan_op *a = &d->a.v->ops[i], *b = &d->b.v->ops[k];
    const char *name = pattern(d, &d->b, k);
    if (strcmp(stream(&d->a, i), stream(&d->b, k)))
        group(d, "'%s' moved from stream %s to %s", name, stream(&d->a, i), stream(&d->b, k));
    if (a->segment != b->segment)
        group(d, "'%s' is in another segment", name);
    if (strcmp(a->kind, b->kind))
        group(d, "'%s' is a %s, was a %s", name, b->kind, a->kind);
    if (strcmp(code_of(&d->a, i), code_of(&d->b, k)))
        group(d, "'%s' runs %s, was %s", name, code_of(&d->b, k), code_of(&d->a, i));
    if (memcmp(a->grid, b->grid, sizeof a->grid) || memcmp(a->block, b->block, sizeof a->block) || a->smem != b->smem)
        group(d, "'%s' launches %ux%ux%u blocks of %ux%ux%u with %u bytes, was %ux%ux%u of %ux%ux%u with %u", name,
              b->grid[0], b->grid[1], b->grid[2], b->block[0], b->block[1], b->block[2], b->smem, a->grid[0],
              a->grid[1], a->grid[2], a->block[0], a->block[1], a->block[2], a->smem);
    if (a->programmatic != b->programmatic)
        group(d, "'%s' is %s launched programmatically", name, b->programmatic ? "now" : "no longer");
    if (a->bytes_read != b->bytes_read || a->bytes_written != b->bytes_written)
        group(d, "'%s' reads %llu and writes %llu bytes, was %llu and %llu", name, (unsigned long long)b->bytes_read,
              (unsigned long long)b->bytes_written, (unsigned long long)a->bytes_read,
              (unsigned long long)a->bytes_written);
    if (a->flops != b->flops)
        group(d, "'%s' takes %llu flops, was %llu", name, (unsigned long long)b->flops, (unsigned long long)a->flops);
}

static void common_ops(struct diff *d)
{
    for (uint32_t i = 0; i < d->a.v->n_ops; i++) {
        uint32_t k = d->b.op_of[d->a.key[i]];
        if (k != STEM_NONE)
            one_op(d, i, k);
    }
}

/* The fewest ops whose moving explains the new order: those outside a longest increasing subsequence (patience
 * sorting). */
static void order(struct diff *d)
{
    uint32_t n = 0, *at = STEM_NEW_ARRAY(d->arena, uint32_t, d->a.v->n_ops + 1);
    uint32_t *top = STEM_NEW_ARRAY(d->arena, uint32_t, d->a.v->n_ops + 1),
             *back = STEM_NEW_ARRAY(d->arena, uint32_t, d->a.v->n_ops + 1);
    uint32_t piles = 0;
    for (uint32_t i = 0; i < d->a.v->n_ops; i++) {
        uint32_t k = d->b.op_of[d->a.key[i]], low = 0, high = piles;
        if (k == STEM_NONE)
            continue;
        at[n] = k;
        while (low < high) {
            uint32_t middle = (low + high) / 2;
            if (at[top[middle]] < k)
                low = middle + 1;
            else
                high = middle;
        }
        back[n] = low ? top[low - 1] : STEM_NONE;
        top[low] = n++;
        piles = low == piles ? piles + 1 : piles;
    }
    bool *kept = STEM_NEW_ARRAY(d->arena, bool, n + 1);
    for (uint32_t i = piles ? top[piles - 1] : STEM_NONE; i != STEM_NONE; i = back[i])
        kept[i] = true;
    for (uint32_t i = 0; i < n; i++)
        if (!kept[i])
            group(d, "'%s' is issued elsewhere: now %s%s%s", pattern(d, &d->b, at[i]), at[i] ? "after '" : "first",
                  at[i] ? pattern(d, &d->b, at[i] - 1) : "", at[i] ? "'" : "");
}

static int by_pair(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static bool crosses(const struct side *s, uint32_t e)
{
    const struct stem_plan_edge *x = &s->v->edges[e];
    return s->v->ops[x->from].stream != s->v->ops[x->to].stream;
}

static uint64_t pair(const struct side *s, uint32_t e)
{
    return (uint64_t)s->key[s->v->edges[e].from] << 32 | s->key[s->v->edges[e].to];
}

/* Waits between streams that `s` has and `other` has not, where both have the two ops. */
static void waits_only(struct diff *d, const struct side *s, const struct side *other, const char *words)
{
    uint64_t *pairs = STEM_NEW_ARRAY(d->arena, uint64_t, other->v->n_edges + 1);
    uint32_t n = 0;
    for (uint32_t e = 0; e < other->v->n_edges; e++)
        if (crosses(other, e))
            pairs[n++] = pair(other, e);
    qsort(pairs, n, sizeof *pairs, by_pair);
    for (uint32_t e = 0; e < s->v->n_edges; e++) {
        uint64_t p = pair(s, e);
        if (crosses(s, e) && other->op_of[p >> 32] != STEM_NONE && other->op_of[p & UINT32_MAX] != STEM_NONE &&
            !bsearch(&p, pairs, n, sizeof *pairs, by_pair))
            group(d, words, pattern(d, s, s->v->edges[e].to), pattern(d, s, s->v->edges[e].from));
    }
}

static const struct stem_plan_buffer *external(const struct side *s, const char *name)
{
    for (uint32_t i = 0; i < s->v->n_buffers && i < s->p->n_external; i++)
        if (!strcmp(s->v->buffers[i].name, name))
            return &s->v->buffers[i];
    return NULL;
}

static void externals(struct diff *d)
{
    for (uint32_t i = 0; i < d->a.p->n_external; i++) {
        const struct stem_plan_buffer *a = &d->a.v->buffers[i], *b = external(&d->b, a->name);
        if (!b)
            group(d, "removed: '%s'", stem_name_pattern(a->name, d->arena));
        else if (b->bytes != a->bytes)
            group(d, "'%s': %llu bytes, was %llu", stem_name_pattern(a->name, d->arena), (unsigned long long)b->bytes,
                  (unsigned long long)a->bytes);
        else if (b->dtype != a->dtype || b->rank != a->rank || b->kind != a->kind ||
                 memcmp(a->dim, b->dim, a->rank * sizeof *a->dim))
            group(d, "'%s' has another type or shape", stem_name_pattern(a->name, d->arena));
    }
    for (uint32_t i = 0; i < d->b.p->n_external; i++)
        if (!external(&d->a, d->b.v->buffers[i].name))
            group(d, "added: '%s'", stem_name_pattern(d->b.v->buffers[i].name, d->arena));
}

static void variants(struct diff *d, uint32_t k, uint32_t m)
{
    const char *name = "";
    d->a.v = &d->a.p->variants[k];
    d->b.v = &d->b.p->variants[m];
    for (uint32_t i = 0; i < d->a.p->n_dims; i++)
        name = stem_arena_printf(d->arena, "%s%s=%lld, ", name, d->a.p->dims[i], (long long)d->a.v->dim[i]);
    number_ops(d, &d->a);
    number_ops(d, &d->b);
    index_ops(d, &d->a);
    index_ops(d, &d->b);
    begin(d, stem_arena_printf(d->arena, "%snumbers:", name));
    numbers(d);
    begin(d, stem_arena_printf(d->arena, "%sops:", name));
    added_removed(d);
    common_ops(d);
    begin(d, stem_arena_printf(d->arena, "%sissue order:", name));
    order(d);
    begin(d, stem_arena_printf(d->arena, "%swaits between streams:", name));
    waits_only(d, &d->a, &d->b, "'%s' no longer waits for '%s'");
    waits_only(d, &d->b, &d->a, "'%s' now waits for '%s'");
    begin(d, stem_arena_printf(d->arena, "%sbuffers of the caller:", name));
    externals(d);
    begin(d, "");
}

static bool same_dims(const struct stem_plan *a, const struct stem_plan *b)
{
    bool same = a->n_dims == b->n_dims;
    for (uint32_t i = 0; same && i < a->n_dims; i++)
        same = !strcmp(a->dims[i], b->dims[i]);
    return same;
}

static void whole(struct diff *d)
{
    const struct stem_plan *a = d->a.p, *b = d->b.p;
    begin(d, "plan:");
    if (strcmp(a->name, b->name))
        say(d, "name: %s, was %s", b->name, a->name);
    integers(d, "shaped for sm", a->sm, b->sm);
    integers(d, "streams", a->n_streams, b->n_streams);
    integers(d, "specialisations", a->n_variants, b->n_variants);
    integers(d, "kernels", a->n_kernels, b->n_kernels);
    if (strcmp(a->cuda ? a->cuda : "", b->cuda ? b->cuda : ""))
        say(d, "the CUDA C differs");
    if (!same_dims(a, b))
        say(d, "the dims differ");
}

uint32_t stem_plan_diff(const struct stem_plan *a, const struct stem_plan *b, struct stem_out *o)
{
    struct diff d = {
        .arena = stem_arena_new(), .keys = stem_strtab_new(), .lines = stem_strtab_new(), .a.p = a, .b.p = b, .o = o};
    whole(&d);
    for (uint32_t k = 0; k < a->n_variants && same_dims(a, b); k++) {
        uint32_t m = a->n_dims ? stem_plan_find_variant(b, a->variants[k].dim) : b->n_variants ? 0 : STEM_NONE;
        if (m != STEM_NONE)
            variants(&d, k, m);
    }
    begin(&d, "specialisations:");
    for (uint32_t k = 0; k < a->n_variants && same_dims(a, b) && a->n_dims; k++)
        if (stem_plan_find_variant(b, a->variants[k].dim) == STEM_NONE)
            say(&d, "removed: %s=%lld ...", a->dims[0], (long long)a->variants[k].dim[0]);
    for (uint32_t k = 0; k < b->n_variants && same_dims(a, b) && b->n_dims; k++)
        if (stem_plan_find_variant(a, b->variants[k].dim) == STEM_NONE)
            say(&d, "added: %s=%lld ...", b->dims[0], (long long)b->variants[k].dim[0]);
    stem_vec_free(&d.count);
    stem_strtab_free(d.lines);
    stem_strtab_free(d.keys);
    stem_arena_free(d.arena);
    return d.total;
}
