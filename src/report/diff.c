/* SPDX-License-Identifier: Apache-2.0
 *
 * What changed between two plans, in words. What happens to the same op of many layers is one line with a count.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "report/diff.h"

enum { MAX_LINES = 60 }; /* of a section; programs that have nothing in common would fill the screen */

struct diff {
    struct stem_arena *arena;
    struct stem_strtab *lines; /* grouped lines of the section */
    STEM_VEC(uint32_t) count;  /* by symbol of `lines` */
    struct stem_diff_pair pair;
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
    struct stem_out line = {0};
    title(d);
    va_start(ap, fmt);
    stem_out_vprintf(&line, fmt, ap);
    va_end(ap);
    stem_out_str(d->o, "  ");
    stem_out_plain(d->o, stem_out_text(&line)); /* names out of a plan may be anything */
    stem_out_char(d->o, '\n');
    stem_out_free(&line);
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
        if (n > MAX_LINES)
            d->total++;
        else if (d->count.at[n] > 1)
            say(d, "%s (%u times)", stem_sym_str(d->lines, (struct stem_sym){n}), d->count.at[n]);
        else
            say(d, "%s", stem_sym_str(d->lines, (struct stem_sym){n}));
    if (d->count.len > MAX_LINES + 1)
        stem_out_printf(d->o, "  and %u lines more\n", d->count.len - 1 - MAX_LINES);
    stem_vec_clear(&d->count);
    stem_strtab_free(d->lines);
    d->lines = stem_strtab_new();
    d->section = section;
    d->begun = false;
}

static const char *pattern(struct diff *d, const struct stem_diff_side *s, uint32_t op)
{
    return stem_name_pattern(s->v->ops[op].name, d->arena);
}

static const char *stream(const struct stem_diff_side *s, uint32_t op)
{
    return s->p->streams[s->v->ops[op].stream];
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
    const struct stem_plan_variant *a = d->pair.a.v, *b = d->pair.b.v;
    integers(d, "ops", a->n_ops, b->n_ops);
    integers(d, "segments", a->n_segments, b->n_segments);
    integers(d, "events", a->n_events, b->n_events);
    integers(d, "lower bound of events", a->events_bound, b->events_bound);
    integers(d, "lanes predicted", a->lanes, b->lanes);
    integers(d, "edges of the graph", a->n_edges, b->n_edges);
    integers(d, "slab bytes", a->slab_bytes, b->slab_bytes);
    integers(d, "lower bound of slab bytes", a->slab_bound, b->slab_bound);
    times(d, "critical path", a->critical_path_us, b->critical_path_us);
    if (a->schedule_us > 0 && b->schedule_us > 0)
        times(d, "estimate", a->schedule_us, b->schedule_us);
    times(d, "one stream", a->total_us, b->total_us);
    times(d, "floor by bytes", a->floor_us, b->floor_us);
}

/* True if there is one. */
static bool common_op(const struct diff *d)
{
    for (uint32_t i = 0; i < d->pair.a.v->n_ops; i++)
        if (stem_diff_other(&d->pair.a, &d->pair.b, i) != STEM_NONE)
            return true;
    return false;
}

static void added_removed(struct diff *d)
{
    if (!common_op(d) && d->pair.a.v->n_ops && d->pair.b.v->n_ops)
        say(d, "no op has the same name: these may be plans of two programs");
    for (uint32_t i = 0; i < d->pair.a.v->n_ops; i++)
        if (stem_diff_other(&d->pair.a, &d->pair.b, i) == STEM_NONE)
            group(d, "removed: '%s' (%s, on %s)", pattern(d, &d->pair.a, i), d->pair.a.v->ops[i].kind, stream(&d->pair.a, i));
    for (uint32_t i = 0; i < d->pair.b.v->n_ops; i++)
        if (stem_diff_other(&d->pair.b, &d->pair.a, i) == STEM_NONE)
            group(d, "added: '%s' (%s, on %s)", pattern(d, &d->pair.b, i), d->pair.b.v->ops[i].kind, stream(&d->pair.b, i));
}

struct sayer {
    struct diff *d;
    const char *name;
};

static void say_of(void *user, const char *phrase)
{
    const struct sayer *s = user;
    group(s->d, "'%s' %s", s->name, phrase);
}

static void common_ops(struct diff *d)
{
    for (uint32_t i = 0; i < d->pair.a.v->n_ops; i++) {
        uint32_t k = stem_diff_other(&d->pair.a, &d->pair.b, i);
        if (k != STEM_NONE)
            stem_diff_op(&d->pair, i, k, d->arena, say_of, &(struct sayer){d, pattern(d, &d->pair.b, k)});
    }
}

static void order(struct diff *d)
{
    const struct stem_diff_side *b = &d->pair.b;
    for (uint32_t k = 0; k < b->v->n_ops; k++)
        if (d->pair.moved[k])
            group(d, "'%s' is issued elsewhere: now %s%s%s", pattern(d, b, k), k ? "after '" : "first",
                  k ? pattern(d, b, k - 1) : "", k ? "'" : "");
}

static int by_pair(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static bool crosses(const struct stem_diff_side *s, uint32_t e)
{
    const struct stem_plan_edge *x = &s->v->edges[e];
    return s->v->ops[x->from].stream != s->v->ops[x->to].stream;
}

static uint64_t pair(const struct stem_diff_side *s, uint32_t e)
{
    return (uint64_t)s->key[s->v->edges[e].from] << 32 | s->key[s->v->edges[e].to];
}

/* Waits between streams that `s` has and `other` has not, where both have the two ops. */
static void waits_only(struct diff *d, const struct stem_diff_side *s, const struct stem_diff_side *other, const char *words)
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

static const struct stem_plan_buffer *external(const struct stem_diff_side *s, const char *name)
{
    for (uint32_t i = 0; i < s->v->n_buffers && i < s->p->n_external; i++)
        if (!strcmp(s->v->buffers[i].name, name))
            return &s->v->buffers[i];
    return NULL;
}

static void externals(struct diff *d)
{
    for (uint32_t i = 0; i < d->pair.a.p->n_external; i++) {
        const struct stem_plan_buffer *a = &d->pair.a.v->buffers[i], *b = external(&d->pair.b, a->name);
        if (!b)
            group(d, "removed: '%s'", stem_name_pattern(a->name, d->arena));
        else if (b->bytes != a->bytes)
            group(d, "'%s': %llu bytes, was %llu", stem_name_pattern(a->name, d->arena), (unsigned long long)b->bytes,
                  (unsigned long long)a->bytes);
        else if (b->dtype != a->dtype || b->rank != a->rank || b->kind != a->kind ||
                 memcmp(a->dim, b->dim, a->rank * sizeof *a->dim))
            group(d, "'%s' has another type or shape", stem_name_pattern(a->name, d->arena));
    }
    for (uint32_t i = 0; i < d->pair.b.p->n_external; i++)
        if (!external(&d->pair.a, d->pair.b.v->buffers[i].name))
            group(d, "added: '%s'", stem_name_pattern(d->pair.b.v->buffers[i].name, d->arena));
}

/* ---- memory ---- */

/* Temporaries with the same name, the k-th with the k-th; names of one side are mostly distinct. */
struct slot {
    const char *name;
    uint32_t index;
};

static int by_name(const void *x, const void *y)
{
    const struct slot *a = x, *b = y;
    int c = strcmp(a->name, b->name);
    return c ? c : (a->index > b->index) - (a->index < b->index);
}

static struct slot *temporaries(struct diff *d, const struct stem_diff_side *s, uint32_t *n)
{
    struct slot *t = STEM_NEW_ARRAY(d->arena, struct slot, s->v->n_buffers + 1);
    *n = 0;
    for (uint32_t i = 0; i < s->v->n_buffers; i++)
        if (s->v->buffers[i].kind == STEM_BUFFER_TEMP)
            t[(*n)++] = (struct slot){s->v->buffers[i].name, i};
    if (*n)
        qsort(t, *n, sizeof *t, by_name);
    return t;
}

static void one_slot(struct diff *d, const struct stem_plan_buffer *a, const struct stem_plan_buffer *b, uint32_t *moved)
{
    if (a->bytes != b->bytes)
        group(d, "'%s': %llu bytes, was %llu", stem_name_pattern(b->name, d->arena), (unsigned long long)b->bytes,
              (unsigned long long)a->bytes);
    *moved += a->offset != b->offset;
}

static void temporary_memory(struct diff *d)
{
    uint32_t n, m, i = 0, k = 0, moved = 0, common = 0;
    const struct slot *a = temporaries(d, &d->pair.a, &n), *b = temporaries(d, &d->pair.b, &m);
    while (i < n || k < m) {
        int c = i == n ? 1 : k == m ? -1 : strcmp(a[i].name, b[k].name);
        if (c < 0)
            group(d, "no longer there: '%s'", stem_name_pattern(a[i].name, d->arena));
        else if (c > 0)
            group(d, "new: '%s'", stem_name_pattern(b[k].name, d->arena));
        else
            one_slot(d, &d->pair.a.v->buffers[a[i].index], &d->pair.b.v->buffers[b[k].index], &moved);
        common += c == 0;
        i += c <= 0;
        k += c >= 0;
    }
    if (moved)
        say(d, "%u of %u temporaries lie elsewhere in the slab", moved, common);
}

/* ---- lanes ---- */

static void opened_only(struct diff *d, const struct stem_diff_side *s, const struct stem_op_lanes *mine,
                        const struct stem_diff_side *other, const struct stem_op_lanes *theirs, const char *words)
{
    for (uint32_t i = 0; i < s->v->n_ops; i++) {
        uint32_t k = stem_diff_other(s, other, i);
        if (mine->opens[i] != STEM_NONE && k != STEM_NONE && theirs->opens[k] == STEM_NONE)
            group(d, words, pattern(d, s, i));
    }
}

static void lanes(struct diff *d)
{
    struct stem_op_lanes a, b;
    stem_op_lanes_find(d->pair.a.v, d->arena, &a);
    stem_op_lanes_find(d->pair.b.v, d->arena, &b);
    opened_only(d, &d->pair.a, &a, &d->pair.b, &b, "'%s' no longer opens a lane");
    opened_only(d, &d->pair.b, &b, &d->pair.a, &a, "'%s' now opens a lane");
}

static void variants(struct diff *d, uint32_t k, uint32_t m)
{
    d->pair.a.v = &d->pair.a.p->variants[k];
    d->pair.b.v = &d->pair.b.p->variants[m];
    const char *name = stem_diff_dims(d->pair.a.p, d->pair.a.v, d->arena);
    if (*name)
        name = stem_arena_printf(d->arena, "%s, ", name);
    stem_diff_pair(&d->pair, d->arena);
    begin(d, stem_arena_printf(d->arena, "%snumbers:", name));
    numbers(d);
    begin(d, stem_arena_printf(d->arena, "%sops:", name));
    added_removed(d);
    common_ops(d);
    begin(d, stem_arena_printf(d->arena, "%sissue order:", name));
    order(d);
    begin(d, stem_arena_printf(d->arena, "%swaits between streams:", name));
    waits_only(d, &d->pair.a, &d->pair.b, "'%s' no longer waits for '%s'");
    waits_only(d, &d->pair.b, &d->pair.a, "'%s' now waits for '%s'");
    begin(d, stem_arena_printf(d->arena, "%slanes, as predicted:", name));
    lanes(d);
    begin(d, stem_arena_printf(d->arena, "%smemory:", name));
    if (common_op(d))
        temporary_memory(d);
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

/* By name: names of generated kernels say all of what they do; those of a user's may not. */
static bool same_kernels(const struct stem_plan *a, const struct stem_plan *b)
{
    bool same = a->n_kernels == b->n_kernels && strlen(a->cuda ? a->cuda : "") == strlen(b->cuda ? b->cuda : "");
    for (uint32_t i = 0; same && i < a->n_kernels; i++) {
        uint32_t k = 0;
        while (k < b->n_kernels && strcmp(a->kernels[i].name, b->kernels[k].name))
            k++;
        same = k < b->n_kernels;
    }
    return same;
}

static void whole(struct diff *d)
{
    const struct stem_plan *a = d->pair.a.p, *b = d->pair.b.p;
    begin(d, "plan:");
    if (strcmp(a->name, b->name))
        say(d, "name: %s, was %s", b->name, a->name);
    integers(d, "shaped for sm", a->sm, b->sm);
    integers(d, "streams", a->n_streams, b->n_streams);
    integers(d, "specialisations", a->n_variants, b->n_variants);
    integers(d, "kernels", a->n_kernels, b->n_kernels);
    if (strcmp(a->cuda ? a->cuda : "", b->cuda ? b->cuda : ""))
        say(d, same_kernels(a, b) ? "the CUDA C differs, in the order of its kernels" : "the CUDA C differs");
    if (!same_dims(a, b))
        say(d, "the dims differ: no specialisation of one can be held against one of the other");
}

/* Specialisations of `a` that `b` has not. */
static void variants_only(struct diff *d, const struct stem_plan *a, const struct stem_plan *b, const char *words)
{
    for (uint32_t k = 0; k < a->n_variants && same_dims(a, b) && a->n_dims; k++)
        if (stem_diff_variant(a, b, k) == STEM_NONE)
            say(d, words, stem_diff_dims(a, &a->variants[k], d->arena));
}

uint32_t stem_plan_diff(const struct stem_plan *a, const struct stem_plan *b, struct stem_out *o)
{
    struct diff d = {.arena = stem_arena_new(),
                     .lines = stem_strtab_new(),
                     .pair = {.a.p = a, .b.p = b},
                     .o = o};
    whole(&d);
    for (uint32_t k = 0; k < a->n_variants; k++) {
        uint32_t m = stem_diff_variant(a, b, k);
        if (m != STEM_NONE)
            variants(&d, k, m);
    }
    begin(&d, "specialisations:");
    variants_only(&d, a, b, "removed: %s");
    variants_only(&d, b, a, "added: %s");
    stem_vec_free(&d.count);
    stem_strtab_free(d.lines);
    stem_arena_free(d.arena);
    return d.total;
}
