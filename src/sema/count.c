/* SPDX-License-Identifier: Apache-2.0
 *
 * How many ops and statements expanding gives at least, before anything is expanded: each layer is counted once, so a
 * program that doubles from layer to layer is refused at once and not after minutes. Of the branches of a `when` the
 * shorter one counts; what is counted is certain, and expanding still counts for itself.
 */
#include <inttypes.h>

#include "sema/expand.h"

struct size {
    uint64_t ops, steps;
};

struct counted {
    bool done;
    struct size size;
    const struct stem_stmt *over; /* the statement with which there are too many */
};

struct counter {
    struct stem_expander *x;
    struct counted *of; /* by callable */
    uint32_t biggest;   /* callable with too many that the expression contains, STEM_NONE: none */
};

/* Far above the limits, and no overflow in sums and products with a count. */
static uint64_t capped(uint64_t n)
{
    return n < UINT64_C(1) << 40 ? n : UINT64_C(1) << 40;
}

static struct size plus(struct size a, struct size b)
{
    return (struct size){capped(a.ops + b.ops), capped(a.steps + b.steps)};
}

static bool too_many(struct size s)
{
    return s.ops > STEM_MAX_OPS || s.steps > STEM_MAX_STEPS;
}

static struct size statements(struct counter *c, const struct stem_stmt *s, const struct stem_stmt **over);

static struct size layer(struct counter *c, uint32_t callable)
{
    struct counted *f = &c->of[callable];
    if (!f->done) {
        f->done = true;
        f->size = statements(c, c->x->m->callables.at[callable].item->body, &f->over);
    }
    if (f->over)
        c->biggest = callable;
    return f->size;
}

static struct size expr(struct counter *c, const struct stem_x *e, bool in_pointwise)
{
    struct size n = {0, 0};
    for (; e; e = e->next) {
        bool pointwise = stem_is_pointwise(&c->x->eval, e);
        struct stem_global g = e->kind == STEM_X_CALL ? stem_global_find(c->x->m, e->id.name) : (struct stem_global){0};
        if (g.kind == STEM_G_CALLABLE && c->x->m->callables.at[g.index].item->kind == STEM_I_LAYER)
            n = plus(n, layer(c, g.index));
        else if (e->kind == STEM_X_CALL ? !pointwise : pointwise && !in_pointwise) /* f32(x) may be nothing */
            n.ops++;
        for (const struct stem_arg *a = e->kind == STEM_X_CALL ? e->args : NULL; a; a = a->next)
            if (!a->attr.name.n)
                n = plus(n, expr(c, a->value, pointwise));
        n = plus(n, expr(c, e->a, pointwise));
        n = plus(n, expr(c, e->b, pointwise));
    }
    return n;
}

/* Numbers and constants only: an index has no value here. */
static bool known(const struct stem_module *m, const struct stem_x *e)
{
    if (!e)
        return true;
    if (e->kind == STEM_X_NAME)
        return stem_global_find(m, e->id.name).kind == STEM_G_CONST;
    return e->kind != STEM_X_CALL && known(m, e->a) && known(m, e->b);
}

static uint64_t times(struct counter *c, const struct stem_stmt *s)
{
    int64_t n = 0;
    if (known(c->x->m, s->expr))
        stem_dim_value(c->x->eval.dims, stem_eval_int(&c->x->eval, s->expr), &n);
    return n > 0 ? (uint64_t)n : 0;
}

static struct size statement(struct counter *c, const struct stem_stmt *s)
{
    const struct stem_stmt *over = NULL;
    struct size n, other;
    uint64_t count;
    switch (s->kind) {
    case STEM_S_WHEN:
        n = statements(c, s->body, &over);
        other = statements(c, s->other, &over);
        return (struct size){n.ops < other.ops ? n.ops : other.ops, n.steps < other.steps ? n.steps : other.steps};
    case STEM_S_REPEAT:
        count = times(c, s);
        n = statements(c, s->body, &over);
        return (struct size){capped(count * n.ops), capped(count * (n.steps + 1))};
    default:
        return plus(expr(c, s->expr, false), statements(c, s->body, &over));
    }
}

static struct size statements(struct counter *c, const struct stem_stmt *s, const struct stem_stmt **over)
{
    struct size n = {0, 0};
    for (; s; s = s->next) {
        n = plus(n, statement(c, s));
        n.steps++;
        if (!*over && too_many(n))
            *over = s;
    }
    return n;
}

/* The layer that alone has too many, among those that `s` calls: there the reader can do something about it. */
static const struct stem_stmt *innermost(struct counter *c, const struct stem_stmt *s)
{
    for (;;) {
        c->biggest = STEM_NONE;
        statement(c, s);
        if (c->biggest == STEM_NONE)
            return s;
        s = c->of[c->biggest].over;
    }
}

bool stem_expand_fits(struct stem_expander *x)
{
    struct counter c = {.x = x, .of = STEM_NEW_ARRAY(x->p->arena, struct counted, x->m->callables.len)};
    struct size n = layer(&c, x->m->model);
    if (!too_many(n))
        return true;
    stem_expand_too_many(x, innermost(&c, c.of[x->m->model].over)->head, n.ops > STEM_MAX_OPS);
    return false;
}
