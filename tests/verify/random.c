/* SPDX-License-Identifier: Apache-2.0
 *
 * Random plans that are correct by construction: ops first, then the waits that they need, then offsets that respect
 * those waits, then the steps.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/verify/model.h"

#define MAX_OPS 9
#define MAX_TEMPS 6
#define EXTERNALS 3 /* x: input, y: output, s: state */
#define MAX_BUFFERS (EXTERNALS + MAX_TEMPS)
#define MAX_STREAMS 3
#define SLAB 256

uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint32_t rng_below(struct rng *r, uint32_t n)
{
    return (uint32_t)(rng_next(r) % n);
}

struct draft {
    struct stem_arena *arena;
    struct rng *rng;
    uint32_t n_streams, n_segments, n_ops, n_buffers;
    struct stem_plan_buffer buffer[MAX_BUFFERS];
    struct stem_plan_op op[MAX_OPS];
    struct stem_plan_operand operand[MAX_OPS][4];
    uint32_t written[MAX_BUFFERS]; /* bytes, as bits */
    uint32_t first[MAX_BUFFERS];   /* first op that uses it, STEM_NONE */
    uint32_t uses[MAX_BUFFERS];    /* ops, as bits */
    uint32_t before[MAX_OPS];      /* ops that surely come before, as bits */
    uint32_t waits[MAX_OPS];       /* ops that it waits for, as bits */
    bool forks[MAX_OPS];           /* waits for the start of its segment */
    uint32_t free_after[MAX_BUFFERS]; /* STEM_NONE: at the end */
};

/* ---- ops ---- */

static uint32_t bytes_of(const struct stem_tensor *t)
{
    uint32_t bits = 0;
    for (int64_t i = 0; i < t->dim[0]; i++)
        for (int64_t k = 0; k < (t->rank > 1 ? t->dim[1] : 1); k++)
            bits |= UINT32_C(1) << (t->offset + (uint64_t)(i * t->stride[0] + (t->rank > 1 ? k * t->stride[1] : 0)));
    return bits;
}

static struct stem_tensor range(uint32_t buffer, uint32_t offset, uint32_t n)
{
    return (struct stem_tensor){.buffer = buffer, .offset = offset, .dtype = STEM_U8, .rank = 1, .dim = {n},
                                .stride = {1}};
}

/* The buffer, a part of it, or two columns out of four. */
static struct stem_tensor some_part(struct draft *d, uint32_t buffer)
{
    uint32_t n = (uint32_t)d->buffer[buffer].bytes;
    switch (rng_below(d->rng, 4)) {
    case 0: return range(buffer, n / 2, n / 2);
    case 1: return range(buffer, 0, n / 2);
    case 2:
        return (struct stem_tensor){.buffer = buffer, .offset = rng_below(d->rng, 2) * 2, .dtype = STEM_U8, .rank = 2,
                                    .dim = {n / 4, 2}, .stride = {4, 1}};
    default: return range(buffer, 0, n);
    }
}

/* Adds an operand unless the op uses some of its bytes already. */
static bool add_operand(struct draft *d, uint32_t op, enum stem_access access, struct stem_tensor t)
{
    struct stem_plan_op *o = &d->op[op];
    uint32_t bits = bytes_of(&t);
    for (uint32_t i = 0; i < o->n_operands; i++)
        if (d->operand[op][i].tensor.buffer == t.buffer && bytes_of(&d->operand[op][i].tensor) & bits)
            return false;
    if (access & STEM_READ && d->buffer[t.buffer].kind == STEM_BUFFER_TEMP && bits & ~d->written[t.buffer])
        return false;
    d->operand[op][o->n_operands++] = (struct stem_plan_operand){access, t};
    d->uses[t.buffer] |= UINT32_C(1) << op;
    if (d->first[t.buffer] == STEM_NONE)
        d->first[t.buffer] = op;
    return true;
}

static uint32_t new_temp(struct draft *d)
{
    uint32_t b = d->n_buffers++;
    d->buffer[b] = (struct stem_plan_buffer){.name = stem_arena_printf(d->arena, "t%u", b - EXTERNALS),
                                             .kind = STEM_BUFFER_TEMP, .align = 4, .dtype = STEM_U8, .rank = 1,
                                             .bytes = 4 + 4 * rng_below(d->rng, 4)};
    d->buffer[b].dim[0] = (int64_t)d->buffer[b].bytes;
    return b;
}

static void write_something(struct draft *d, uint32_t op)
{
    uint32_t b;
    if (op + 1 == d->n_ops) {
        add_operand(d, op, STEM_WRITE, range(1, 0, 8));
    } else if (d->n_buffers < MAX_BUFFERS && rng_chance(d->rng, 65)) {
        b = new_temp(d);
        add_operand(d, op, STEM_WRITE, rng_chance(d->rng, 80) ? range(b, 0, (uint32_t)d->buffer[b].bytes)
                                                              : some_part(d, b));
    } else {
        b = d->buffer[0].inout && rng_chance(d->rng, 30) ? 0 : 2 + rng_below(d->rng, d->n_buffers - 2);
        if (!add_operand(d, op, STEM_READ_WRITE, some_part(d, b)))
            add_operand(d, op, STEM_WRITE, some_part(d, b));
    }
    for (uint32_t i = 0; i < d->op[op].n_operands; i++)
        if (d->operand[op][i].access & STEM_WRITE)
            d->written[d->operand[op][i].tensor.buffer] |= bytes_of(&d->operand[op][i].tensor);
}

static void make_op(struct draft *d, uint32_t op)
{
    struct stem_plan_op *o = &d->op[op];
    *o = (struct stem_plan_op){.name = stem_arena_printf(d->arena, "op%u", op), .kind = "test", .layer = STEM_NONE,
                               .line = op + 1, .column = 1, .grid = {1, 1, 1}, .block = {32, 1, 1},
                               .resource = rng_chance(d->rng, 20) ? 0 : STEM_NONE};
    o->kernel = rng_below(d->rng, 2);
    o->stream = rng_chance(d->rng, 40) ? 0 : rng_below(d->rng, d->n_streams);
    o->segment = d->n_segments == 2 && op >= d->n_ops / 2;
    o->operands = d->operand[op];
    for (uint32_t i = op + 1 == d->n_ops ? 3 : 1 + rng_below(d->rng, 2); i > 0; i--) {
        uint32_t b = rng_below(d->rng, d->n_buffers);
        if (b != 1)
            add_operand(d, op, STEM_READ, some_part(d, b));
    }
    write_something(d, op);
    if (o->n_operands == 1 && o->operands[0].access == STEM_WRITE && o->operands[0].tensor.rank == 1 &&
        rng_chance(d->rng, 50))
        o->work = STEM_WORK_MEMSET;
}

/* ---- order ---- */

static bool conflict(const struct draft *d, uint32_t a, uint32_t b)
{
    if (d->op[a].resource == 0 && d->op[b].resource == 0)
        return true;
    for (uint32_t i = 0; i < d->op[a].n_operands; i++)
        for (uint32_t k = 0; k < d->op[b].n_operands; k++) {
            const struct stem_plan_operand *x = &d->operand[a][i], *y = &d->operand[b][k];
            if (x->tensor.buffer != y->tensor.buffer)
                continue;
            if ((x->access | y->access) & STEM_WRITE && bytes_of(&x->tensor) & bytes_of(&y->tensor))
                return true;
            if (d->first[x->tensor.buffer] == a && d->buffer[x->tensor.buffer].kind == STEM_BUFFER_TEMP)
                return true; /* the allocation, which comes with the first use */
        }
    return false;
}

static void wait_for(struct draft *d, uint32_t a, uint32_t b)
{
    if (d->before[b] >> a & 1)
        return;
    d->waits[b] |= UINT32_C(1) << a;
    d->before[b] |= UINT32_C(1) << a | d->before[a];
}

static void order_op(struct draft *d, uint32_t b)
{
    for (uint32_t a = 0; a < b; a++)
        if (d->op[a].segment < d->op[b].segment || d->op[a].stream == d->op[b].stream)
            d->before[b] |= UINT32_C(1) << a | d->before[a];
    for (uint32_t a = b; a-- > 0;)
        if (conflict(d, a, b) || rng_chance(d->rng, 5))
            wait_for(d, a, b);
}

/* May temporary x lie where it is from op b on? `buy`: adds the waits that it takes. */
static bool fits(struct draft *d, uint32_t x, uint32_t b, bool buy)
{
    const struct stem_plan_buffer *n = &d->buffer[x];
    uint32_t late = 0; /* ops that b has to wait for */
    for (uint32_t z = EXTERNALS; z < d->n_buffers; z++) {
        const struct stem_plan_buffer *o = &d->buffer[z];
        bool placed = d->first[z] < b || (d->first[z] == b && z < x);
        if (placed && o->offset < n->offset + n->bytes && n->offset < o->offset + o->bytes)
            late |= d->uses[z] & ~d->before[b];
    }
    if (late >> b || (late && !buy))
        return false;
    for (uint32_t a = b; a-- > 0;)
        if (late >> a & 1)
            wait_for(d, a, b);
    return true;
}

static void place(struct draft *d, uint32_t x, uint32_t b)
{
    bool buy = rng_chance(d->rng, 30);
    struct stem_plan_buffer *n = &d->buffer[x];
    for (n->offset = 0; n->offset + n->bytes < SLAB; n->offset += 4)
        if (fits(d, x, b, buy))
            return;
}

static void fork_op(struct draft *d, uint32_t b)
{
    bool joined = d->op[b].stream == 0;
    for (uint32_t a = 0; a < b; a++)
        if (d->op[a].segment == d->op[b].segment && (d->op[a].stream == d->op[b].stream || d->waits[b] >> a & 1))
            joined = true;
    d->forks[b] = !joined;
}

/* ---- steps ---- */

struct steps {
    struct stem_step at[256];
    uint32_t n, n_events;
};

static void put(struct steps *s, enum stem_step_kind kind, uint32_t stream, uint32_t index)
{
    s->at[s->n++] = (struct stem_step){kind, stream, index};
}

static uint32_t joins_of(const struct draft *d, uint32_t segment)
{
    uint32_t last[MAX_STREAMS] = {STEM_NONE, STEM_NONE, STEM_NONE}, joins = 0, known = 0;
    for (uint32_t i = 0; i < d->n_ops; i++)
        if (d->op[i].segment == segment)
            last[d->op[i].stream] = i;
    if (last[0] != STEM_NONE)
        known = d->before[last[0]];
    for (uint32_t s = 1; s < d->n_streams; s++)
        if (last[s] != STEM_NONE && !(known >> last[s] & 1))
            joins |= UINT32_C(1) << last[s];
    return joins;
}

static void wait_steps(struct steps *s, uint32_t stream, uint32_t ops, const uint32_t *event)
{
    for (uint32_t a = 0; a < MAX_OPS; a++)
        if (ops >> a & 1)
            put(s, STEM_STEP_WAIT, stream, event[a]);
}

static void segment_steps(struct draft *d, struct steps *s, uint32_t segment, uint32_t joins)
{
    uint32_t event[MAX_OPS], fork = STEM_NONE, wanted = joins;
    for (uint32_t i = 0; i < d->n_ops; i++)
        wanted |= d->waits[i];
    for (uint32_t i = 0; i < d->n_ops; i++)
        if (d->op[i].segment == segment && d->forks[i] && fork == STEM_NONE)
            put(s, STEM_STEP_RECORD, 0, fork = s->n_events++);
    for (uint32_t i = 0; i < d->n_ops; i++) {
        if (d->op[i].segment != segment)
            continue;
        if (d->forks[i])
            put(s, STEM_STEP_WAIT, d->op[i].stream, fork);
        wait_steps(s, d->op[i].stream, d->waits[i], event);
        for (uint32_t b = EXTERNALS; b < d->n_buffers; b++)
            if (d->first[b] == i)
                put(s, STEM_STEP_ALLOC, d->op[i].stream, b);
        put(s, STEM_STEP_OP, d->op[i].stream, i);
        if (wanted >> i & 1)
            put(s, STEM_STEP_RECORD, d->op[i].stream, event[i] = s->n_events++);
        for (uint32_t b = EXTERNALS; b < d->n_buffers; b++)
            if (d->first[b] != STEM_NONE && d->free_after[b] == i)
                put(s, STEM_STEP_FREE, d->op[i].stream, b);
    }
    wait_steps(s, 0, joins, event);
    for (uint32_t b = EXTERNALS; segment + 1 == d->n_segments && b < d->n_buffers; b++)
        if (d->first[b] != STEM_NONE && d->free_after[b] == STEM_NONE)
            put(s, STEM_STEP_FREE, 0, b);
    put(s, STEM_STEP_SEGMENT, 0, segment);
}

static void choose_frees(struct draft *d)
{
    for (uint32_t b = EXTERNALS; b < d->n_buffers; b++) {
        d->free_after[b] = STEM_NONE;
        for (uint32_t i = 0; i < d->n_ops && rng_chance(d->rng, 85); i++)
            if (d->uses[b] && !(d->uses[b] & ~(d->before[i] | UINT32_C(1) << i)) && d->free_after[b] == STEM_NONE)
                d->free_after[b] = i;
    }
}

/* A launch may be programmatic if its kernel waits and the previous op of its stream in the segment is a kernel. */
static void choose_programmatic(struct draft *d)
{
    for (uint32_t i = 0; i < d->n_ops; i++) {
        bool kernel_before = false;
        for (uint32_t a = 0; a < i; a++)
            if (d->op[a].stream == d->op[i].stream && d->op[a].segment == d->op[i].segment)
                kernel_before = d->op[a].work == STEM_WORK_LAUNCH;
        d->op[i].programmatic = d->op[i].work == STEM_WORK_LAUNCH && d->op[i].kernel == 0 && kernel_before &&
                                rng_chance(d->rng, 30);
    }
}

/* ---- plans ---- */

static struct stem_plan *finish(struct draft *d, const struct steps *s)
{
    static const char *const streams[] = {"main", "a", "b"}, *const resources[] = {"comm"};
    static const struct stem_plan_kernel kernels[] = {{"k_waits", 0, true, 0, false}, {"k_plain", 0, false, 0, false}};
    static const int32_t priorities[3];
    struct stem_plan *p = STEM_NEW(d->arena, struct stem_plan);
    struct stem_plan_variant *v = STEM_NEW(d->arena, struct stem_plan_variant);
    for (uint32_t i = 0; i < d->n_ops; i++)
        d->op[i].operands = stem_arena_dup(d->arena, d->operand[i], sizeof d->operand[i]);
    *v = (struct stem_plan_variant){
        .buffers = stem_arena_dup(d->arena, d->buffer, sizeof d->buffer),
        .n_buffers = d->n_buffers,
        .ops = stem_arena_dup(d->arena, d->op, sizeof d->op),
        .n_ops = d->n_ops,
        .steps = stem_arena_dup(d->arena, s->at, sizeof *s->at * s->n),
        .n_steps = s->n,
        .segments = STEM_NEW_ARRAY(d->arena, struct stem_plan_segment, d->n_segments),
        .n_segments = d->n_segments,
        .n_events = s->n_events,
        .slab_bytes = SLAB,
    };
    *p = (struct stem_plan){.version = STEM_PLAN_VERSION, .name = "random", .source = "random.stem", .sm = 90,
                            .cuda = "", .kernels = kernels, .n_kernels = 2, .streams = streams,
                            .n_streams = d->n_streams, .priorities = priorities, .resources = resources,
                            .n_resources = 1, .n_external = EXTERNALS, .variants = v, .n_variants = 1,
                            .slab_bytes = SLAB};
    plan_refresh(d->arena, p, true);
    return p;
}

struct stem_plan *plan_random(struct stem_arena *a, struct rng *r)
{
    struct draft d = {.arena = a, .rng = r, .n_buffers = EXTERNALS};
    d.n_streams = 1 + rng_below(r, MAX_STREAMS);
    d.n_ops = 3 + rng_below(r, MAX_OPS - 2);
    d.n_segments = rng_chance(r, 25) ? 2 : 1;
    memset(d.first, 0xff, sizeof d.first);
    static const struct stem_plan_buffer external[EXTERNALS] = {
        {.name = "x", .kind = STEM_BUFFER_INPUT, .bytes = 16, .align = 4, .dtype = STEM_U8, .rank = 1, .dim = {16}},
        {.name = "y", .kind = STEM_BUFFER_OUTPUT, .bytes = 8, .align = 4, .dtype = STEM_U8, .rank = 1, .dim = {8}},
        {.name = "s", .kind = STEM_BUFFER_STATE, .bytes = 8, .align = 4, .dtype = STEM_U8, .rank = 1, .dim = {8}},
    };
    memcpy(d.buffer, external, sizeof external);
    d.buffer[0].inout = rng_chance(r, 30);
    for (uint32_t i = 0; i < d.n_ops; i++)
        make_op(&d, i);
    for (uint32_t i = 0; i < d.n_ops; i++) {
        order_op(&d, i);
        for (uint32_t b = EXTERNALS; b < d.n_buffers; b++)
            if (d.first[b] == i)
                place(&d, b, i);
        fork_op(&d, i);
    }
    choose_frees(&d);
    choose_programmatic(&d);
    struct steps s = {.n = 0};
    for (uint32_t g = 0; g < d.n_segments; g++)
        segment_steps(&d, &s, g, joins_of(&d, g));
    return finish(&d, &s);
}

struct stem_plan *plan_copy(struct stem_arena *a, const struct stem_plan *p)
{
    struct stem_plan *copy = stem_arena_dup(a, p, sizeof *p);
    struct stem_plan_variant *v = stem_arena_dup(a, p->variants, sizeof *v);
    struct stem_plan_op *ops = stem_arena_dup(a, v->ops, sizeof *ops * v->n_ops);
    for (uint32_t i = 0; i < v->n_ops; i++)
        ops[i].operands = stem_arena_dup(a, ops[i].operands, sizeof *ops[i].operands * ops[i].n_operands);
    v->ops = ops;
    v->buffers = stem_arena_dup(a, v->buffers, sizeof *v->buffers * v->n_buffers);
    v->steps = stem_arena_dup(a, v->steps, sizeof *v->steps * v->n_steps);
    v->segments = stem_arena_dup(a, v->segments, sizeof *v->segments * v->n_segments);
    if (v->n_edges)
        v->edges = stem_arena_dup(a, v->edges, sizeof *v->edges * v->n_edges);
    copy->variants = v;
    return copy;
}

void plan_refresh(struct stem_arena *a, struct stem_plan *p, bool edges)
{
    struct stem_plan_variant *v = (struct stem_plan_variant *)p->variants;
    struct stem_plan_segment *segments = (struct stem_plan_segment *)v->segments;
    uint32_t segment = 0, first_step = 0, first_op = 0, ops = 0;
    for (uint32_t i = 0; i < v->n_steps; i++) {
        ops += v->steps[i].kind == STEM_STEP_OP;
        if (v->steps[i].kind != STEM_STEP_SEGMENT || segment == v->n_segments)
            continue;
        segments[segment] = (struct stem_plan_segment){.first_op = first_op, .n_ops = ops - first_op,
                                                         .first_step = first_step, .n_steps = i - first_step,
                                                         .eager = segments[segment].eager};
        segment++;
        first_step = i + 1;
        first_op = ops;
    }
    struct stem_plan_edge *derived = NULL;
    uint32_t n = edges ? stem_plan_derive_edges(v, p->n_streams, &derived) : STEM_NONE;
    if (n != STEM_NONE) {
        v->edges = n ? stem_arena_dup(a, derived, sizeof *derived * n) : NULL;
        v->n_edges = n;
    }
    free(derived);
}
