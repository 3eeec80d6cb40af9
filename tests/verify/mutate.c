/* SPDX-License-Identifier: Apache-2.0
 *
 * Mutations of a plan: the slips that a scheduler could make, one at a time.
 */
#include <string.h>

#include "tests/verify/model.h"

static struct stem_plan_variant *variant(struct stem_plan *p)
{
    return (struct stem_plan_variant *)p->variants;
}

static struct stem_step *steps(struct stem_plan *p)
{
    return (struct stem_step *)variant(p)->steps;
}

static struct stem_plan_op *ops(struct stem_plan *p)
{
    return (struct stem_plan_op *)variant(p)->ops;
}

/* Index of a random step of the kind, STEM_NONE if there is none. */
static uint32_t some_step(struct stem_plan *p, enum stem_step_kind kind, struct rng *r)
{
    uint32_t n = 0, found = STEM_NONE;
    for (uint32_t i = 0; i < variant(p)->n_steps; i++)
        if (steps(p)[i].kind == kind && rng_below(r, ++n) == 0)
            found = i;
    return found;
}

static void drop_step(struct stem_plan *p, uint32_t i)
{
    struct stem_plan_variant *v = variant(p);
    memmove(&steps(p)[i], &steps(p)[i + 1], sizeof *v->steps * (v->n_steps - i - 1));
    v->n_steps--;
}

static void move_step(struct stem_plan *p, uint32_t from, uint32_t to)
{
    struct stem_step s = steps(p)[from];
    if (from < to)
        memmove(&steps(p)[from], &steps(p)[from + 1], sizeof s * (to - from));
    else
        memmove(&steps(p)[to + 1], &steps(p)[to], sizeof s * (from - to));
    steps(p)[to] = s;
}

static bool drop_kind(struct stem_plan *p, enum stem_step_kind kind, struct rng *r)
{
    uint32_t i = some_step(p, kind, r);
    if (i == STEM_NONE)
        return false;
    drop_step(p, i);
    return true;
}

static bool drop_wait(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    return drop_kind(p, STEM_STEP_WAIT, r);
}

static bool drop_record(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    return drop_kind(p, STEM_STEP_RECORD, r);
}

static bool drop_alloc(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    return drop_kind(p, STEM_STEP_ALLOC, r);
}

static bool free_earlier(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    uint32_t i = some_step(p, STEM_STEP_FREE, r);
    if (i == STEM_NONE || i == 0)
        return false;
    uint32_t to = rng_below(r, i);
    for (uint32_t k = to; k < i; k++)
        if (steps(p)[k].kind == STEM_STEP_SEGMENT)
            to = k + 1;
    if (to >= i)
        return false;
    if (rng_chance(r, 50))
        steps(p)[i].stream = steps(p)[to].stream;
    move_step(p, i, to);
    return true;
}

/* Two neighbouring ops of one segment change places, numbers and all; their waits stay where they were. */
static bool swap_issue(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    uint32_t first = rng_below(r, variant(p)->n_ops), second = first + 1, at[2] = {0, 0};
    if (second >= variant(p)->n_ops || ops(p)[first].segment != ops(p)[second].segment)
        return false;
    for (uint32_t i = 0; i < variant(p)->n_steps; i++)
        if (steps(p)[i].kind == STEM_STEP_OP && (steps(p)[i].index == first || steps(p)[i].index == second))
            at[steps(p)[i].index - first] = i;
    uint32_t stream = steps(p)[at[0]].stream;
    steps(p)[at[0]].stream = steps(p)[at[1]].stream;
    steps(p)[at[1]].stream = stream;
    struct stem_plan_op o = ops(p)[first];
    ops(p)[first] = ops(p)[second];
    ops(p)[second] = o;
    return true;
}

static bool shift_offset(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    struct stem_plan_variant *v = variant(p);
    if (v->n_buffers == p->n_external)
        return false;
    uint32_t n = p->n_external + rng_below(r, v->n_buffers - p->n_external);
    struct stem_plan_buffer *b = (struct stem_plan_buffer *)&v->buffers[n];
    uint64_t old = b->offset;
    b->offset = 4 * rng_below(r, 12);
    return b->offset != old;
}

/* One buffer moves onto another. */
static bool share_offset(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    struct stem_plan_variant *v = variant(p);
    uint32_t temps = v->n_buffers - p->n_external;
    if (temps < 2)
        return false;
    struct stem_plan_buffer *b = (struct stem_plan_buffer *)&v->buffers[p->n_external + rng_below(r, temps)];
    uint64_t old = b->offset;
    b->offset = v->buffers[p->n_external + rng_below(r, temps)].offset;
    return b->offset != old && b->offset + b->bytes <= v->slab_bytes;
}

static bool drop_edge_where(struct stem_plan *p, bool continuation, struct rng *r)
{
    struct stem_plan_variant *v = variant(p);
    struct stem_plan_edge *e = (struct stem_plan_edge *)v->edges;
    uint32_t n = 0, found = STEM_NONE;
    for (uint32_t i = 0; i < v->n_edges; i++)
        if (e[i].continuation == continuation && rng_below(r, ++n) == 0)
            found = i;
    if (found == STEM_NONE)
        return false;
    memmove(&e[found], &e[found + 1], sizeof *e * (v->n_edges - found - 1));
    v->n_edges--;
    return true;
}

static bool drop_edge(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    return drop_edge_where(p, false, r);
}

static bool drop_continuation(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    return drop_edge_where(p, true, r);
}

static bool programmatic_edge(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    struct stem_plan_variant *v = variant(p);
    if (!v->n_edges)
        return false;
    struct stem_plan_edge *e = (struct stem_plan_edge *)&v->edges[rng_below(r, v->n_edges)];
    bool was = e->kind == STEM_EDGE_PROGRAMMATIC;
    e->kind = STEM_EDGE_PROGRAMMATIC;
    return !was;
}

static bool programmatic_launch(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    struct stem_plan_op *o = &ops(p)[rng_below(r, variant(p)->n_ops)];
    bool was = o->programmatic;
    o->programmatic = true;
    plan_refresh(a, p, true);
    return !was;
}

static bool drop_join(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a, (void)r;
    bool found = false, end = false;
    for (uint32_t i = variant(p)->n_steps; i-- > 0;) {
        end |= steps(p)[i].kind == STEM_STEP_SEGMENT;
        end &= steps(p)[i].kind != STEM_STEP_OP;
        if (end && steps(p)[i].kind == STEM_STEP_WAIT) {
            drop_step(p, i);
            found = true;
        }
    }
    return found;
}

static bool move_op(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    uint32_t i = some_step(p, STEM_STEP_OP, r), stream = rng_below(r, p->n_streams);
    struct stem_plan_op *o = &ops(p)[steps(p)[i].index];
    if (o->stream == stream)
        return false;
    steps(p)[i].stream = o->stream = stream;
    return true;
}

static bool other_event(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    uint32_t i = some_step(p, STEM_STEP_WAIT, r);
    if (i == STEM_NONE)
        return false;
    uint32_t old = steps(p)[i].index;
    steps(p)[i].index = rng_below(r, variant(p)->n_events);
    return steps(p)[i].index != old;
}

static bool late(struct stem_plan *p, enum stem_step_kind kind, bool later, struct rng *r)
{
    uint32_t i = some_step(p, kind, r), n = 1 + rng_below(r, 4);
    if (i == STEM_NONE)
        return false;
    uint32_t to = i;
    while (n-- > 0 && (later ? to + 1 < variant(p)->n_steps && steps(p)[to + 1].kind != STEM_STEP_SEGMENT
                             : to > 0 && steps(p)[to - 1].kind != STEM_STEP_SEGMENT))
        to += later ? 1u : -1u;
    move_step(p, i, to);
    return to != i;
}

static bool late_wait(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    return late(p, STEM_STEP_WAIT, true, r);
}

static bool early_record(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    return late(p, STEM_STEP_RECORD, false, r);
}

/* An operand takes in the whole of its buffer, or becomes one that writes. */
static bool widen(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    struct stem_plan_op *o = &ops(p)[rng_below(r, variant(p)->n_ops)];
    if (!o->n_operands || o->work != STEM_WORK_LAUNCH)
        return false;
    struct stem_plan_operand *x = (struct stem_plan_operand *)&o->operands[rng_below(r, o->n_operands)];
    struct stem_plan_operand old = *x;
    if (x->tensor.buffer == STEM_NONE) /* optional, and absent */
        return false;
    const struct stem_plan_buffer *b = &variant(p)->buffers[x->tensor.buffer];
    if (rng_chance(r, 50))
        x->access = STEM_READ_WRITE;
    else
        x->tensor = (struct stem_tensor){.buffer = x->tensor.buffer, .dtype = STEM_U8, .rank = 1,
                                         .dim = {(int64_t)b->bytes}, .stride = {1}};
    return memcmp(&old, x, sizeof old) != 0;
}

/* What an op writes of the caller's becomes memory that the caller only lends: an input that was `inout`, or a state. */
static bool lend(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    struct stem_plan_buffer *b = (struct stem_plan_buffer *)&variant(p)->buffers[rng_below(r, p->n_external)];
    if (b->kind == STEM_BUFFER_INPUT && b->inout) {
        b->inout = false;
        return true;
    }
    if (b->kind != STEM_BUFFER_STATE)
        return false;
    b->kind = rng_chance(r, 50) ? STEM_BUFFER_WEIGHT : STEM_BUFFER_INPUT;
    return true;
}

/* An op updates in place what it was lent. */
static bool write_lent(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    struct stem_plan_operand *found = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < variant(p)->n_ops; i++)
        for (uint32_t k = 0; k < ops(p)[i].n_operands; k++) {
            struct stem_plan_operand *x = (struct stem_plan_operand *)&ops(p)[i].operands[k];
            const struct stem_plan_buffer *b = x->tensor.buffer == STEM_NONE ? NULL : &variant(p)->buffers[x->tensor.buffer];
            if (b && (b->kind == STEM_BUFFER_WEIGHT || (b->kind == STEM_BUFFER_INPUT && !b->inout)) && rng_below(r, ++n) == 0)
                found = x;
        }
    if (found)
        found->access = STEM_READ_WRITE;
    return found != NULL;
}

static bool same_resource(struct stem_arena *a, struct stem_plan *p, struct rng *r)
{
    (void)a;
    bool changed = false;
    for (uint32_t k = 0; k < 2; k++) {
        struct stem_plan_op *o = &ops(p)[rng_below(r, variant(p)->n_ops)];
        changed |= o->resource != 0;
        o->resource = 0;
    }
    return changed;
}

static const struct {
    const char *name;
    bool (*apply)(struct stem_arena *a, struct stem_plan *p, struct rng *r);
    bool derive; /* the edges follow the steps, so that only the order itself is wrong */
} table[] = {
    {"drop a wait", drop_wait, true},
    {"drop a record", drop_record, true},
    {"swap two issues", swap_issue, true},
    {"free earlier", free_earlier, true},
    {"shift an offset", shift_offset, false},
    {"share an offset", share_offset, false},
    {"drop an edge", drop_edge, false},
    {"drop a continuation", drop_continuation, false},
    {"make an edge programmatic", programmatic_edge, false},
    {"launch programmatically", programmatic_launch, false},
    {"drop the end joins", drop_join, true},
    {"move an op to another stream", move_op, true},
    {"wait for another event", other_event, true},
    {"wait later", late_wait, true},
    {"record earlier", early_record, true},
    {"drop an allocation", drop_alloc, true},
    {"widen an operand", widen, false},
    {"share a resource", same_resource, false},
    {"lend what is written", lend, false},
    {"write what is lent", write_lent, false},
};

const uint32_t n_mutations = sizeof table / sizeof *table;

const char *mutation_name(uint32_t kind)
{
    return table[kind].name;
}

bool plan_mutate(struct stem_arena *a, struct stem_plan *p, uint32_t kind, struct rng *r)
{
    if (!table[kind].apply(a, p, r))
        return false;
    plan_refresh(a, p, table[kind].derive);
    return true;
}
