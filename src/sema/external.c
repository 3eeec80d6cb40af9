/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffers that the world sees. They come first in a program and must not depend on the values of the dims (a
 * weight is loaded once for all of them), so this walk follows both branches of a `when` that a dim decides. An
 * instance of a layer is entered once: what it contains depends on nothing but itself.
 */
#include <inttypes.h>
#include <stdio.h>

#include "sema/expand.h"
#include "sema/names.h"

struct scan {
    struct stem_expander *x;
    struct stem_eval eval; /* dims stay symbolic */
    struct stem_indices indices;
    struct stem_indices instance; /* of the layers around, outermost first */
    struct stem_sym path;
};

static struct stem_value_id *slot(struct stem_expander *x, struct stem_sym s)
{
    while (x->external.len <= s.n)
        stem_vec_push(&x->external, STEM_NO_VALUE);
    return &x->external.at[s.n];
}

/* Whoever runs the program finds its tensors by their names alone, so no two have one. */
static bool take_name(struct stem_expander *x, enum stem_buffer_kind kind, struct stem_sym name, struct stem_span span)
{
    static const char *const what[] = {[STEM_BUFFER_INPUT] = "input",
                                       [STEM_BUFFER_OUTPUT] = "result",
                                       [STEM_BUFFER_WEIGHT] = "weight",
                                       [STEM_BUFFER_STATE] = "state"};
    const char *text = stem_name(x->m, name);
    while (x->taken.len <= name.n)
        stem_vec_push(&x->taken, (struct stem_taken){0});
    struct stem_taken *old = &x->taken.at[name.n];
    if (!old->what) {
        *old = (struct stem_taken){what[kind], span};
        return true;
    }
    stem_error(x->diags, STEM_E_REDEFINED, span, "the %s '%s' has the name of the model's %s '%s'", what[kind], text,
               old->what, text);
    stem_diag_label(x->diags, old->span, "the %s is declared here", old->what);
    if (kind == STEM_BUFFER_OUTPUT)
        stem_diag_help(x->diags, "name the result otherwise, -> (%s_out: ...); what is written to an `inout` input needs "
                                 "no result: it is in the caller's memory", text);
    else
        stem_diag_help(x->diags, "name one of them otherwise; a result without a name is `out`, or `out0`, `out1`, ...");
    return false;
}

static struct stem_value_id add(struct stem_expander *x, enum stem_buffer_kind kind, struct stem_sym name,
                                const struct stem_type *t, struct stem_span span)
{
    int64_t dim[STEM_MAX_RANK];
    x->b.span = span;
    if (!take_name(x, kind, name, span) || !stem_type_dims(x->eval.dims, t, dim)) {
        x->failed = true;
        return STEM_NO_VALUE;
    }
    struct stem_value_id v = stem_build_buffer(&x->b, kind, name, t->dtype, t->rank, dim);
    while (x->latest.len <= stem_value_at(x->p, v)->tensor.buffer)
        stem_vec_push(&x->latest, STEM_NO_VALUE);
    x->latest.at[stem_value_at(x->p, v)->tensor.buffer] = v;
    return v;
}

static void statements(struct scan *s, const struct stem_stmt *stmt);

/* Where a checkpoint has the weight, with the indices of the instances around it. */
static void name_tensors(struct scan *s, const struct stem_ast_param *p, const struct stem_type *t,
                         struct stem_value_id v)
{
    struct stem_eval e = s->eval;
    struct stem_buffer *b = &s->x->p->buffers.at[stem_value_at(s->x->p, v)->tensor.buffer];
    e.indices = &s->instance;
    const char *from = stem_weight_names(&e, p, t, b->shape.dim);
    if (from)
        b->from = stem_arena_strdup(s->x->p->arena, from);
    else
        s->x->failed = true;
}

static void declare(struct scan *s, const struct stem_stmt *stmt)
{
    struct stem_expander *x = s->x;
    for (const struct stem_ast_param *p = stmt->decl; p && !x->failed; p = p->next) {
        struct stem_type t;
        struct stem_sym name = stem_expand_path(x, s->path, stem_name(x->m, p->id.name));
        if (slot(x, name)->n != STEM_NONE)
            continue;
        if (!stem_eval_type(&x->eval, &p->type, &t)) {
            x->failed = true;
            return;
        }
        struct stem_value_id v =
            add(x, stmt->kind == STEM_S_WEIGHT ? STEM_BUFFER_WEIGHT : STEM_BUFFER_STATE, name, &t, p->id.span);
        *slot(x, name) = v;
        if (p->from && v.n != STEM_NONE)
            name_tensors(s, p, &t, v);
    }
}

static void call(struct scan *s, const struct stem_x *e)
{
    struct stem_expander *x = s->x;
    struct stem_global g = stem_global_find(x->m, e->id.name);
    if (g.kind != STEM_G_CALLABLE || x->m->callables.at[g.index].item->kind != STEM_I_LAYER)
        return;
    struct stem_sym outer = s->path;
    struct stem_sym path = stem_expand_path(x, outer, stem_name(x->m, stem_expand_instance(x, &s->eval, e)));
    while (x->seen.len <= path.n)
        stem_vec_push(&x->seen, false);
    if (x->seen.at[path.n])
        return;
    x->seen.at[path.n] = true;
    struct stem_indices none = {{0}}, indices = s->indices;
    uint32_t outside = s->instance.v.len;
    const struct stem_sub *part = e->subs;
    for (const struct stem_ast_target *t = x->m->callables.at[g.index].item->indices; t; t = t->next, part = part->next)
        stem_vec_push(&s->instance.v, (struct stem_index){t->id.name, stem_eval_int(&s->eval, part->low)});
    s->indices = none;
    s->path = path;
    statements(s, x->m->callables.at[g.index].item->body);
    stem_vec_free(&s->indices.v);
    s->instance.v.len = outside;
    s->indices = indices;
    s->path = outer;
}

static void expr(struct scan *s, const struct stem_x *e)
{
    for (; e && !s->x->failed; e = e->next) {
        if (e->kind == STEM_X_CALL) {
            for (const struct stem_arg *a = e->args; a; a = a->next)
                expr(s, a->value);
            call(s, e);
        }
        if (e->a)
            expr(s, e->a);
        if (e->b)
            expr(s, e->b);
    }
}

static void repeat(struct scan *s, const struct stem_stmt *stmt)
{
    int64_t n = 0;
    stem_dim_value(s->eval.dims, stem_eval_int(&s->eval, stmt->expr), &n);
    uint32_t base = s->indices.v.len;
    for (int64_t i = 0; i < n && !s->x->failed && stem_expand_step(s->x, stmt->head); i++) {
        if (stmt->index.name.n)
            stem_vec_push(&s->indices.v, (struct stem_index){stmt->index.name, stem_dim_const(s->eval.dims, i)});
        statements(s, stmt->body);
        s->indices.v.len = base;
    }
}

static void statements(struct scan *s, const struct stem_stmt *stmt)
{
    for (; stmt && !s->x->failed && stem_expand_step(s->x, stmt->head); stmt = stmt->next) {
        int truth = -1;
        switch (stmt->kind) {
        case STEM_S_WEIGHT:
        case STEM_S_STATE:
            declare(s, stmt);
            break;
        case STEM_S_WHEN:
            truth = stem_eval(&s->eval, stmt->expr).truth;
            if (truth != 0)
                statements(s, stmt->body);
            if (truth != 1)
                statements(s, stmt->other);
            break;
        case STEM_S_REPEAT:
            repeat(s, stmt);
            break;
        default:
            expr(s, stmt->expr);
            statements(s, stmt->body);
        }
    }
}

/* ---- inputs and outputs ---- */

static bool is_param(const struct stem_callable *f, struct stem_sym name)
{
    for (const struct stem_ast_param *p = f->item->params; p; p = p->next)
        if (stem_sym_eq(p->id.name, name))
            return true;
    return false;
}

/* The result's name, "out" or "out0", "out1", ...; one that is made up is never a parameter's. */
static struct stem_sym output_name(struct stem_expander *x, const struct stem_callable *f,
                                   const struct stem_ast_param *r, uint32_t i)
{
    char text[32];
    if (r->id.name.n)
        return r->id.name;
    if (f->n_results == 1)
        snprintf(text, sizeof text, "out");
    else
        snprintf(text, sizeof text, "out%u", i);
    struct stem_sym s = stem_intern(x->m->strings, text);
    while (is_param(f, s))
        s = stem_intern_printf(x->m->strings, "%s_", stem_name(x->m, s));
    return s;
}

void stem_expand_externals(struct stem_expander *x, struct stem_value_id *outputs)
{
    const struct stem_callable *f = &x->m->callables.at[x->m->model];
    struct stem_type t;
    for (const struct stem_ast_param *p = f->item->params; p && !x->failed; p = p->next) {
        x->failed = !stem_eval_type(&x->eval, &p->type, &t);
        if (x->failed)
            break;
        struct stem_value_id v = add(x, STEM_BUFFER_INPUT, p->id.name, &t, p->id.span);
        stem_expand_set(x, p->id.name, v);
        if (v.n != STEM_NONE)
            x->p->buffers.at[stem_value_at(x->p, v)->tensor.buffer].inout = p->mode == STEM_AST_INOUT;
    }
    uint32_t i = 0;
    for (const struct stem_ast_param *r = f->item->results; r && !x->failed; r = r->next, i++) {
        x->failed = !stem_eval_type(&x->eval, &r->type, &t);
        if (!x->failed)
            outputs[i] = add(x, STEM_BUFFER_OUTPUT, output_name(x, f, r, i), &t, r->type.span);
    }
    struct scan s = {.x = x};
    s.eval = (struct stem_eval){
        .m = x->m, .dims = x->m->dims, .diags = x->diags, .dim_value = x->m->dim_symbols.at, .indices = &s.indices};
    /* A layer that is the program is its first instance. */
    for (const struct stem_ast_target *part = f->item->indices; part; part = part->next)
        stem_vec_push(&s.instance.v, (struct stem_index){part->id.name, stem_dim_const(s.eval.dims, 0)});
    statements(&s, f->item->body);
    stem_vec_free(&s.instance.v);
    stem_vec_free(&s.indices.v);
}
