/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans: memory, queries, and the edges that a variant's steps imply. Pure functions of their arguments.
 */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

struct chunk {
    struct chunk *next;
    size_t used, size;
    _Alignas(16) unsigned char data[];
};

struct stem_plan_memory {
    struct chunk *chunks;
};

enum { CHUNK_BYTES = 64 * 1024 };

struct stem_plan *stem_plan_new(void)
{
    struct stem_plan *p = calloc(1, sizeof *p);
    struct stem_plan_memory *m = calloc(1, sizeof *m);
    if (!p || !m) {
        free(p);
        free(m);
        return NULL;
    }
    p->version = STEM_PLAN_VERSION;
    p->name = p->source = p->cuda = "";
    p->memory = m;
    return p;
}

void stem_plan_free(struct stem_plan *p)
{
    if (!p)
        return;
    for (struct chunk *c = p->memory->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(p->memory);
    free(p);
}

void *stem_plan_alloc(struct stem_plan *p, size_t bytes)
{
    if (!p || bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + 15) & ~(size_t)15;
    struct chunk *c = p->memory->chunks;
    if (!c || c->size - c->used < bytes) {
        size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        c = calloc(1, sizeof *c + size);
        if (!c)
            return NULL;
        c->size = size;
        c->next = p->memory->chunks;
        p->memory->chunks = c;
    }
    void *at = c->data + c->used;
    c->used += bytes;
    return at;
}

char *stem_plan_strdup(struct stem_plan *p, const char *s)
{
    size_t n = s ? strlen(s) + 1 : 0;
    char *copy = s ? stem_plan_alloc(p, n) : NULL;
    if (copy)
        memcpy(copy, s, n);
    return copy;
}

uint64_t stem_tensor_elements(const struct stem_tensor *t)
{
    uint64_t n = t && t->rank <= STEM_MAX_RANK; /* 0 for an absent operand */
    for (uint32_t i = 0; n && i < t->rank; i++) {
        if (t->dim[i] <= 0)
            return 0;
        if (__builtin_mul_overflow(n, (uint64_t)t->dim[i], &n))
            n = UINT64_MAX;
    }
    return n;
}

bool stem_tensor_contiguous(const struct stem_tensor *t)
{
    if (!t)
        return false;
    if (stem_tensor_elements(t) == 0)
        return true;
    int64_t expected = 1;
    for (uint32_t i = t->rank; i-- > 0;) {
        if (t->dim[i] != 1 && t->stride[i] != expected)
            return false;
        if (__builtin_mul_overflow(expected, t->dim[i], &expected))
            return false;
    }
    return true;
}

uint64_t stem_tensor_extent(const struct stem_tensor *t)
{
    if (stem_tensor_elements(t) == 0)
        return 0;
    uint64_t last = 0, bits;
    for (uint32_t i = 0; i < t->rank; i++) {
        uint64_t step;
        if (t->stride[i] < 0 || __builtin_mul_overflow((uint64_t)t->dim[i] - 1, (uint64_t)t->stride[i], &step) ||
            __builtin_add_overflow(last, step, &last))
            return UINT64_MAX;
    }
    if (__builtin_add_overflow(last, 1, &last) ||
        __builtin_mul_overflow(last, (uint64_t)stem_dtype_bits(t->dtype), &bits))
        return UINT64_MAX;
    return bits / 8 + (bits % 8 != 0);
}

uint32_t stem_plan_find_variant(const struct stem_plan *p, const int64_t *dim)
{
    for (uint32_t v = 0; p && (dim || !p->n_dims) && v < p->n_variants; v++)
        if (p->n_dims == 0 || memcmp(p->variants[v].dim, dim, p->n_dims * sizeof *dim) == 0)
            return v;
    return STEM_NONE;
}

/* ---- the edges that steps imply ---- */

/* A set of ops, kept sorted and without duplicates: what is pending on a stream, or what an event stands for. */
struct pending {
    uint32_t *op;
    uint32_t n, cap;
};

struct deriver {
    const struct stem_plan_variant *v;
    uint32_t n_streams;
    struct pending *stream, *event;
    bool *recorded;   /* for each event */
    uint32_t *last;   /* for each stream: its last op, or STEM_NONE */
    uint32_t *before; /* [op][stream]: 1 + the latest op of the stream that precedes or is this op, 0 for none */
    struct stem_plan_edge *edges;
    size_t n, cap;
};

static bool grow(struct pending *s, uint32_t n)
{
    if (n <= s->cap)
        return true;
    uint32_t cap = s->cap ? s->cap : 4;
    while (cap < n)
        cap = cap > UINT32_MAX / 2 ? n : cap * 2;
    uint32_t *op = realloc(s->op, cap * sizeof *op);
    if (!op)
        return false;
    s->op = op;
    s->cap = cap;
    return true;
}

static bool assign(struct pending *s, const struct pending *from)
{
    if (!grow(s, from->n))
        return false;
    if (from->n)
        memcpy(s->op, from->op, from->n * sizeof *s->op);
    s->n = from->n;
    return true;
}

static bool insert(struct pending *s, uint32_t op)
{
    uint32_t at = s->n;
    while (at > 0 && s->op[at - 1] > op)
        at--;
    if (at > 0 && s->op[at - 1] == op)
        return true;
    if (!grow(s, s->n + 1))
        return false;
    memmove(s->op + at + 1, s->op + at, (s->n - at) * sizeof *s->op);
    s->op[at] = op;
    s->n++;
    return true;
}

/* True if `op` precedes one of the other pending ops, so that an edge from it is implied. */
static bool implied(const struct deriver *d, const struct pending *s, uint32_t op)
{
    uint32_t stream = d->v->ops[op].stream;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->op[i] != op && d->before[(size_t)s->op[i] * d->n_streams + stream] > op)
            return true;
    return false;
}

static bool add_edge(struct deriver *d, const struct pending *s, uint32_t from, uint32_t to)
{
    if (d->n == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 64;
        struct stem_plan_edge *edges = realloc(d->edges, cap * sizeof *edges);
        if (!edges)
            return false;
        d->edges = edges;
        d->cap = cap;
    }
    const struct stem_plan_op *op = &d->v->ops[to];
    bool own = d->last[op->stream] == from;
    d->edges[d->n++] = (struct stem_plan_edge){
        .from = from,
        .to = to,
        .kind = own && op->programmatic ? STEM_EDGE_PROGRAMMATIC : STEM_EDGE_FULL,
        .continuation = own && op->stream != 0 && implied(d, s, from),
    };
    return true;
}

static bool issue(struct deriver *d, uint32_t op, uint32_t stream)
{
    struct pending *s = &d->stream[stream];
    uint32_t *before = d->before + (size_t)op * d->n_streams;
    for (uint32_t i = 0; i < s->n; i++) {
        if (!add_edge(d, s, s->op[i], op))
            return false;
        const uint32_t *theirs = d->before + (size_t)s->op[i] * d->n_streams;
        for (uint32_t t = 0; t < d->n_streams; t++)
            if (theirs[t] > before[t])
                before[t] = theirs[t];
    }
    before[stream] = op + 1;
    d->last[stream] = op;
    s->n = 0;
    return insert(s, op);
}

static bool derive_step(struct deriver *d, const struct stem_step *step, uint32_t *next_op)
{
    if (step->stream >= d->n_streams)
        return false;
    struct pending *s = &d->stream[step->stream];
    switch (step->kind) {
    case STEM_STEP_OP:
        /* Ops are numbered in issue order. */
        if (step->index >= d->v->n_ops || step->index != *next_op || d->v->ops[step->index].stream != step->stream)
            return false;
        ++*next_op;
        return issue(d, step->index, step->stream);
    case STEM_STEP_RECORD:
        if (step->index >= d->v->n_events)
            return false;
        d->recorded[step->index] = true;
        return assign(&d->event[step->index], s);
    case STEM_STEP_WAIT:
        if (step->index >= d->v->n_events || !d->recorded[step->index])
            return false;
        for (uint32_t i = 0; i < d->event[step->index].n; i++)
            if (!insert(s, d->event[step->index].op[i]))
                return false;
        return true;
    case STEM_STEP_ALLOC:
    case STEM_STEP_FREE:
        return step->index < d->v->n_buffers;
    case STEM_STEP_SEGMENT:
        /* Each segment is a graph of its own. */
        for (uint32_t i = 0; i < d->n_streams; i++)
            d->stream[i].n = 0;
        for (uint32_t i = 0; i < d->v->n_events; i++)
            d->event[i].n = 0;
        return step->index < d->v->n_segments;
    }
    return false;
}

static void *zeroed(size_t n, size_t size)
{
    return calloc(n ? n : 1, size);
}

static void free_pending(struct pending *s, uint32_t n)
{
    for (uint32_t i = 0; s && i < n; i++)
        free(s[i].op);
    free(s);
}

uint32_t stem_plan_derive_edges(const struct stem_plan_variant *v, uint32_t n_streams, struct stem_plan_edge **edges)
{
    struct deriver d = {.v = v, .n_streams = n_streams};
    uint32_t count = STEM_NONE, next_op = 0;
    size_t table;
    if (edges)
        *edges = NULL;
    if (!v || !edges)
        return STEM_NONE;
    if (__builtin_mul_overflow((size_t)v->n_ops, (size_t)n_streams, &table))
        return STEM_NONE;
    d.stream = zeroed(n_streams, sizeof *d.stream);
    d.event = zeroed(v->n_events, sizeof *d.event);
    d.recorded = zeroed(v->n_events, sizeof *d.recorded);
    d.last = zeroed(n_streams, sizeof *d.last);
    d.before = zeroed(table, sizeof *d.before);
    if (!d.stream || !d.event || !d.recorded || !d.last || !d.before)
        goto out;
    for (uint32_t s = 0; s < n_streams; s++)
        d.last[s] = STEM_NONE;
    for (uint32_t i = 0; i < v->n_steps; i++)
        if (!derive_step(&d, &v->steps[i], &next_op))
            goto out;
    if (next_op != v->n_ops || d.n >= STEM_NONE)
        goto out;
    *edges = d.edges ? d.edges : zeroed(1, sizeof *d.edges);
    d.edges = NULL;
    if (*edges)
        count = (uint32_t)d.n;
out:
    free(d.edges);
    free_pending(d.stream, n_streams);
    free_pending(d.event, v->n_events);
    free(d.recorded);
    free(d.last);
    free(d.before);
    return count;
}
