/* SPDX-License-Identifier: Apache-2.0 */
#include "gen.h"

#include <stdlib.h>
#include <string.h>

#include "ir/build.h"
#include "pass/pass.h"

uint64_t gen_next(struct gen_rng *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint32_t gen_below(struct gen_rng *r, uint32_t n)
{
    return n ? (uint32_t)(gen_next(r) % n) : 0;
}

bool gen_chance(struct gen_rng *r, uint32_t percent)
{
    return gen_below(r, 100) < percent;
}

/* What later ops may do with a value. */
struct slot {
    struct stem_value_id value;
    bool overwritten; /* a newer version exists */
    bool writable;
    bool consumed;
};

struct gen {
    struct flow *f;
    struct stem_builder b;
    struct gen_rng rng;
    const struct gen_options *o;
    STEM_VEC(struct slot) slots;
    uint32_t layer_begin; /* first slot that this layer may read, besides the external ones */
    uint32_t n_external;
    bool chained; /* ops read something of their layer, with few exceptions */
    uint32_t decl;
    struct stem_op_id after[4];
    struct stem_sym resource[2];
};

static struct stem_value_id new_buffer(struct gen *g, enum stem_buffer_kind kind)
{
    static const int64_t sizes[] = {100, 256, 1000, 1024, 4096, 6000, 16384, 65536};
    static const int64_t few[] = {64, 65, 66, 80, 64, 100, 300, 64};
    int64_t bytes = (g->o->small ? few : sizes)[gen_below(&g->rng, 8)];
    struct stem_sym name = stem_intern_printf(g->f->strings, "b%u", g->f->program->buffers.len);
    struct stem_value_id v = stem_build_buffer(&g->b, kind, name, STEM_U8, 1, &bytes);
    if (g->o->odd && gen_chance(&g->rng, 5))
        stem_vec_last(&g->f->program->buffers).align = 4096;
    stem_vec_push(&g->slots, (struct slot){v, false, kind == STEM_BUFFER_TEMP || kind == STEM_BUFFER_STATE, false});
    return v;
}

static bool same_buffer(const struct gen *g, struct stem_value_id a, struct stem_value_id b)
{
    return stem_value_at(g->f->program, a)->tensor.buffer == stem_value_at(g->f->program, b)->tensor.buffer;
}

static void mark_buffer(struct gen *g, struct stem_value_id v, bool consumed)
{
    for (uint32_t i = 0; i < g->slots.len; i++)
        if (same_buffer(g, g->slots.at[i].value, v)) {
            g->slots.at[i].overwritten = true;
            g->slots.at[i].consumed |= consumed;
        }
}

/* A version of a state buffer, so that states are read and written in all segments; STEM_NONE if none may be read. */
static uint32_t pick_state(struct gen *g)
{
    uint32_t found = STEM_NONE;
    for (uint32_t i = 0, n = 0; i < g->slots.len; i++) {
        const struct slot *s = &g->slots.at[i];
        const struct stem_tensor *t = &stem_value_at(g->f->program, s->value)->tensor;
        if (g->f->program->buffers.at[t->buffer].kind == STEM_BUFFER_STATE &&
            (!s->overwritten || (g->o->stale && !s->consumed)) && !gen_below(&g->rng, ++n))
            found = i;
    }
    return found;
}

/* A value to read: of this layer (or what the one before computed last), now and then an external one. */
static uint32_t pick(struct gen *g)
{
    if (g->o->segments > 1 && gen_chance(&g->rng, 15))
        return pick_state(g);
    for (uint32_t tries = 0; tries < 20; tries++) {
        bool near = g->slots.len > g->layer_begin && gen_chance(&g->rng, 95);
        uint32_t i = near ? g->layer_begin + gen_below(&g->rng, g->slots.len - g->layer_begin)
                          : gen_below(&g->rng, g->layer_begin ? g->n_external : g->slots.len);
        if (gen_chance(&g->rng, 60)) { /* the newest few */
            uint32_t back = gen_below(&g->rng, 4);
            i = back < g->slots.len - g->layer_begin ? g->slots.len - 1 - back : i;
        }
        if (!g->slots.at[i].overwritten || (g->o->stale && !g->slots.at[i].consumed && gen_chance(&g->rng, 30)))
            return i;
    }
    return STEM_NONE;
}

static void maybe_view(struct gen *g, uint32_t slot)
{
    struct stem_value_id base = g->slots.at[slot].value;
    const struct stem_tensor *t = &stem_value_at(g->f->program, base)->tensor;
    if (!g->o->odd || t->dim[0] < 64 || !gen_chance(&g->rng, 15))
        return;
    int64_t bytes = t->dim[0] / 2, one = 1;
    struct stem_value_id v = stem_build_view(&g->b, base, stem_intern(g->f->strings, "view"),
                                             gen_below(&g->rng, (uint32_t)bytes), 1, &bytes, &one);
    stem_vec_push(&g->slots, g->slots.at[slot]);
    stem_vec_last(&g->slots).value = v;
}

static bool taken(const struct gen *g, const struct stem_input *in, uint32_t n, struct stem_value_id v)
{
    for (uint32_t i = 0; i < n; i++)
        if (same_buffer(g, in[i].value, v))
            return true;
    return false;
}

static void set_context(struct gen *g)
{
    struct stem_program *p = g->f->program;
    g->b.name = stem_intern_printf(g->f->strings, "o%u", p->ops.len);
    g->b.pin = STEM_NO_STREAM;
    if (g->o->streams && gen_chance(&g->rng, 80))
        g->b.pin.n = gen_chance(&g->rng, 50) ? 0 : gen_below(&g->rng, g->o->streams);
    g->b.n_after = 0;
    g->b.resource = (struct stem_sym){0};
    if (g->o->odd && p->ops.len && gen_chance(&g->rng, 8))
        g->after[g->b.n_after++].n = p->ops.len - 1 - gen_below(&g->rng, p->ops.len < 10 ? p->ops.len : 10);
    if (g->o->odd && gen_chance(&g->rng, 8))
        g->b.resource = g->resource[gen_below(&g->rng, 2)];
    g->b.after = g->after;
}

static void set_cost(struct gen *g, struct stem_op_id id)
{
    struct stem_op *op = stem_op_at(g->f->program, id);
    op->cost.flops = gen_chance(&g->rng, 50) ? 0 : (uint64_t)gen_below(&g->rng, 4000) * 1000000;
    op->cost.bytes_read += gen_chance(&g->rng, 30) ? gen_below(&g->rng, 20000000) : 0;
    op->cost.blocks = 1 + gen_below(&g->rng, 200);
}

static void one_op(struct gen *g)
{
    struct stem_input in[STEM_MAX_OPERANDS];
    struct stem_value_id results[STEM_MAX_OPERANDS];
    uint32_t n = 0, reads = gen_below(&g->rng, 4);
    reads += g->chained && !reads && gen_chance(&g->rng, 90);
    for (uint32_t k = 0; k < reads; k++) {
        uint32_t i = pick(g);
        if (i == STEM_NONE || taken(g, in, n, g->slots.at[i].value))
            continue;
        struct slot s = g->slots.at[i];
        enum stem_mode mode = STEM_MODE_IN;
        bool temp =
            g->f->program->buffers.at[stem_value_at(g->f->program, s.value)->tensor.buffer].kind == STEM_BUFFER_TEMP;
        if (s.writable && !s.overwritten && gen_chance(&g->rng, 15))
            mode = STEM_MODE_INOUT;
        else if (temp && !s.overwritten && g->o->odd && gen_chance(&g->rng, 3))
            mode = STEM_MODE_CONSUME;
        in[n++] = (struct stem_input){s.value, mode, STEM_NOWHERE};
        maybe_view(g, i);
    }
    for (uint32_t outs = gen_below(&g->rng, 10) ? 1 + gen_chance(&g->rng, 15) : 0; outs; outs--)
        in[n++] = (struct stem_input){new_buffer(g, STEM_BUFFER_TEMP), STEM_MODE_OUT, STEM_NOWHERE};
    if (!n)
        in[n++] = (struct stem_input){new_buffer(g, STEM_BUFFER_TEMP), STEM_MODE_OUT, STEM_NOWHERE};
    set_context(g);
    set_cost(g, stem_build_call(&g->b, g->decl, in, n, NULL, 0, NULL, NULL, 0, results));
    for (uint32_t i = 0; i < n; i++) {
        if (in[i].mode == STEM_MODE_INOUT || in[i].mode == STEM_MODE_CONSUME)
            mark_buffer(g, in[i].value, in[i].mode == STEM_MODE_CONSUME);
        if (in[i].mode == STEM_MODE_INOUT)
            stem_vec_push(&g->slots, (struct slot){results[i], false, true, false});
    }
}

/* Ends a layer: an op that reads what the layer before gave and what nobody has read, but for a leaf now and then. */
static void join(struct gen *g)
{
    struct stem_input in[STEM_MAX_OPERANDS];
    struct stem_value_id results[STEM_MAX_OPERANDS];
    const struct stem_program *p = g->f->program;
    uint32_t n = 0;
    for (uint32_t i = g->slots.len; i-- > g->layer_begin && n < STEM_MAX_OPERANDS - 1;) {
        struct stem_value_id v = g->slots.at[i].value;
        bool read = g->slots.at[i].overwritten || gen_chance(&g->rng, 10) || taken(g, in, n, v);
        bool hidden = i == g->layer_begin && !g->slots.at[i].overwritten && !taken(g, in, n, v);
        for (uint32_t k = 0; k < p->ops.len && !read; k++)
            for (uint32_t j = 0; j < p->ops.at[k].n_in; j++)
                read |= p->ops.at[k].operands[j].value.n == v.n;
        if (!read || !n || hidden)
            in[n++] = (struct stem_input){v, STEM_MODE_IN, STEM_NOWHERE};
    }
    in[n++] = (struct stem_input){new_buffer(g, STEM_BUFFER_TEMP), STEM_MODE_OUT, STEM_NOWHERE};
    set_context(g);
    set_cost(g, stem_build_call(&g->b, g->decl, in, n, NULL, 0, NULL, NULL, 0, results));
}

/* What is overwritten by now nobody may read after the break. */
static void new_segment(struct gen *g)
{
    stem_vec_push(&g->f->program->segments, (struct stem_segment){.span = STEM_NOWHERE});
    g->b.segment++;
    for (uint32_t i = 0; i < g->slots.len; i++)
        g->slots.at[i].consumed |= g->slots.at[i].overwritten;
}

static void layer(struct gen *g)
{
    g->layer_begin = g->slots.len > g->n_external ? g->slots.len - 1 : 0;
    for (uint32_t i = 0; i < g->o->ops; i++) {
        if (i && !g->chained && g->b.segment + 1 < g->o->segments && gen_chance(&g->rng, 10))
            new_segment(g);
        one_op(g);
    }
    if (g->chained)
        join(g);
}

struct flow gen_program(uint64_t seed, const struct gen_options *options)
{
    struct flow f = flow_empty();
    struct gen g = {.f = &f, .rng = {seed}, .o = options, .chained = options->layers > 1};
    g.b = stem_builder_new(f.program, f.dims, f.diags);
    g.resource[0] = stem_intern(f.strings, "comm");
    g.resource[1] = stem_intern(f.strings, "link");
    stem_vec_push(
        &f.program->decls,
        (struct stem_decl){.class = STEM_OP_EXTERN, .name = stem_intern(f.strings, "work"), .span = STEM_NOWHERE});
    for (uint32_t i = 1; i < options->streams; i++)
        stem_vec_push(&f.program->streams, (struct stem_stream_decl){stem_intern_printf(f.strings, "s%u", i), 0});
    new_buffer(&g, STEM_BUFFER_INPUT);
    new_buffer(&g, options->segments > 1 ? STEM_BUFFER_STATE : STEM_BUFFER_INPUT);
    new_buffer(&g, STEM_BUFFER_WEIGHT);
    new_buffer(&g, STEM_BUFFER_STATE);
    g.n_external = g.slots.len;
    for (uint32_t i = 0; i < (options->layers ? options->layers : 1); i++) {
        if (options->layers > 1)
            g.rng.state = seed * 31 + 7; /* every layer alike */
        if (i && options->segments > 1 && gen_chance(&g.rng, 50))
            new_segment(&g);
        layer(&g);
    }
    stem_vec_free(&g.slots);
    return f;
}

struct gen_options gen_any(uint64_t seed, uint32_t most_ops)
{
    struct gen_rng r = {seed ^ UINT64_C(0x5bd1e995)};
    return (struct gen_options){.ops = 1 + gen_below(&r, most_ops),
                                .streams = gen_below(&r, 5),
                                .odd = gen_chance(&r, 60),
                                .stale = gen_chance(&r, 30),
                                .segments = gen_chance(&r, 40) ? 2 + gen_below(&r, 3) : 1,
                                .layers = 1};
}
