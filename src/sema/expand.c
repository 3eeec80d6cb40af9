/* SPDX-License-Identifier: Apache-2.0
 *
 * From a checked module to a program: dims become numbers, `repeat` is unrolled, `when` resolved, layers are expanded
 * in place. Every statement costs time in proportion to what it adds.
 */
#include "sema/expand.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sema/check.h"

void stem_expand_too_many(struct stem_expander *x, struct stem_span at, bool ops)
{
    stem_error(x->diags, STEM_E_TOO_MANY_OPS, at, "expanding gives more than %u %s", ops ? STEM_MAX_OPS : STEM_MAX_STEPS,
               ops ? "ops" : "statements");
    x->failed = true;
}

bool stem_expand_step(struct stem_expander *x, struct stem_span at)
{
    if (x->failed)
        return false;
    x->steps++;
    if (x->p->ops.len <= STEM_MAX_OPS && x->steps <= STEM_MAX_STEPS)
        return true;
    stem_expand_too_many(x, at, x->p->ops.len > STEM_MAX_OPS);
    return false;
}

struct stem_sym stem_expand_path(struct stem_expander *x, struct stem_sym path, const char *name)
{
    if (!path.n)
        return stem_intern(x->m->strings, name);
    return stem_intern_printf(x->m->strings, "%s.%s", stem_name(x->m, path), name);
}

struct stem_sym stem_expand_instance(struct stem_expander *x, const struct stem_eval *e, const struct stem_x *call)
{
    struct stem_out o = {0};
    if (!call->subs)
        return call->id.name;
    stem_out_str(&o, stem_name(x->m, call->id.name));
    for (const struct stem_sub *s = call->subs; s; s = s->next) {
        int64_t i = 0;
        stem_dim_value(e->dims, stem_eval_int(e, s->low), &i);
        stem_out_printf(&o, "%s%" PRId64, s == call->subs ? "[" : ",", i);
    }
    stem_out_char(&o, ']');
    struct stem_sym name = stem_intern(x->m->strings, stem_out_text(&o));
    stem_out_free(&o);
    return name;
}

/* ---- context ---- */

struct context {
    struct stem_stream_id pin;
    int32_t priority;
    struct stem_sym resource;
    uint32_t n_after;
};

static struct context enter(struct stem_expander *x, const struct stem_mods *m)
{
    struct context outer = {x->b.pin, x->b.priority, x->b.resource, x->after.len};
    int64_t priority = 0;
    for (uint32_t i = 0; m->on.name.n && i < x->m->streams.len; i++)
        if (stem_sym_eq(x->m->streams.at[i].name, m->on.name))
            x->b.pin = (struct stem_stream_id){i};
    if (m->priority && stem_dim_value(x->eval.dims, stem_eval_int(&x->eval, m->priority), &priority))
        x->b.priority = (int32_t)priority;
    if (m->resource.name.n)
        x->b.resource = m->resource.name;
    for (const struct stem_ast_target *t = m->after; t; t = t->next) {
        struct stem_op_id op = stem_value_def(x->p, stem_expand_lookup(x, t->id.name));
        if (op.n != STEM_NONE) /* a parameter may turn out to be an input of the program */
            stem_vec_push(&x->after, op);
    }
    x->b.after = x->after.at;
    x->b.n_after = x->after.len;
    return outer;
}

static void leave(struct stem_expander *x, struct context outer)
{
    x->b.pin = outer.pin;
    x->b.priority = outer.priority;
    x->b.resource = outer.resource;
    x->after.len = outer.n_after;
    x->b.after = x->after.at;
    x->b.n_after = outer.n_after;
}

/* ---- segments ---- */

static void new_segment(struct stem_expander *x, bool eager, struct stem_span at)
{
    struct stem_segment s = {eager, at};
    if (x->segment_begin == x->p->ops.len) {
        stem_vec_last(&x->p->segments) = s; /* nothing is in it yet */
    } else {
        stem_vec_push(&x->p->segments, s);
        x->segment_begin = x->p->ops.len;
    }
    x->b.segment = x->p->segments.len - 1;
}

/* ---- statements ---- */

/* Ops are named after what they define; where they define several things, after the callee. */
static void name_ops(struct stem_expander *x, const struct stem_stmt *s)
{
    struct stem_sym name = s->targets && !s->targets->next ? s->targets->id.name
                           : s->expr->kind == STEM_X_CALL  ? s->expr->id.name
                                                           : s->targets->id.name;
    if (s->targets && !strcmp(stem_name(x->m, name), "_") && s->expr->kind == STEM_X_CALL)
        name = s->expr->id.name;
    x->b.name = stem_expand_path(x, x->path, stem_name(x->m, name));
    x->b.span = s->expr->span;
}

static struct stem_sym base_name(const struct stem_x *e)
{
    return stem_base_name(e)->id.name;
}

/* Whether a name that the call f(inout x[0:4]); will bind anew stands for a version after which another was made. */
static bool behind(struct stem_expander *x, const struct stem_stmt *s)
{
    bool is = false;
    for (const struct stem_arg *a = s->targets || s->expr->kind != STEM_X_CALL ? NULL : s->expr->args; a; a = a->next) {
        const struct stem_x *base = a->mode == STEM_AST_INOUT ? stem_base_name(a->value) : NULL;
        if (!base)
            continue;
        const struct stem_value *v = stem_value_at(x->p, stem_expand_lookup(x, base->id.name));
        is |= v->version != x->p->buffers.at[v->tensor.buffer].newest;
    }
    return is;
}

/* f(inout x[0:4]) made `i` of the results, and x is to have a new version as a whole: not if that has in it what was written
 * to a part that x does not know of, in this call or before op `first`, which is none if nobody did. */
static bool whole_again(struct stem_expander *x, const struct stem_called *r, uint32_t i, uint32_t first)
{
    const struct stem_value_id old = stem_expand_lookup(x, base_name(r->inout[i]));
    const char *name = stem_name(x->m, base_name(r->inout[i]));
    bool copied = stem_value_at(x->p, old)->tensor.buffer != stem_value_at(x->p, r->v[i])->tensor.buffer;
    if (first && !copied && stem_build_written_since(&x->b, old, first)) {
        stem_error(x->diags, STEM_E_STALE_WRITE, r->inout[i]->span,
                   "'%s' was written in part before, and the new '%s' would be without that", name, name);
        stem_diag_help(x->diags, "bind '%s' there, too: a call without results, f(inout %s[...]);, does", name, name);
        return !(x->failed = true);
    }
    for (uint32_t k = 0; k < r->n_inout; k++) {
        struct stem_sym other = base_name(r->inout[k]);
        if (stem_sym_eq(other, base_name(r->inout[i])) ||
            !stem_build_overlap(x->p, stem_expand_lookup(x, other), r->v[i]))
            continue;
        stem_error(x->diags, STEM_E_STALE_WRITE, r->inout[i]->span, "'%s' and '%s' are one piece of memory, which the call writes as both",
                   name, stem_name(x->m, other));
        stem_diag_help(x->diags, "make one of them another before: %s = copy(%s);", name, name);
        return !(x->failed = true);
    }
    return true;
}

/* A call without targets binds the names of its in place operands anew, each to the newest version that it made of it. */
static void rebind(struct stem_expander *x, const struct stem_called *r, uint32_t first)
{
    for (uint32_t i = 0; i < r->n_inout; i++) {
        if (!whole_again(x, r, i, first))
            return;
    }
    for (uint32_t i = 0; i < r->n_inout; i++) {
        struct stem_sym name = base_name(r->inout[i]);
        struct stem_value_id v = r->v[i], old = stem_expand_lookup(x, name);
        for (uint32_t k = 0; k < r->n_inout; k++)
            if (stem_sym_eq(base_name(r->inout[k]), name) && stem_value_at(x->p, r->v[k])->version > stem_value_at(x->p, v)->version)
                v = r->v[k];
        stem_expand_set(x, name, r->inout[i]->kind != STEM_X_NAME ? stem_expand_whole(x, old, v) : v);
    }
}

static void bind(struct stem_expander *x, const struct stem_stmt *s)
{
    struct stem_called r = {.n = 1};
    uint32_t first = behind(x, s) ? x->p->ops.len : 0;
    struct context outer = enter(x, &s->mods);
    name_ops(x, s);
    if (s->expr->kind == STEM_X_CALL && !stem_is_pointwise(&x->eval, s->expr))
        stem_expand_call(x, s->expr, &r);
    else
        r.v[0] = stem_expand_value(x, s->expr);
    leave(x, outer);
    if (x->failed)
        return;
    uint32_t i = 0;
    for (const struct stem_ast_target *t = s->targets; t; t = t->next, i++)
        stem_expand_set(x, t->id.name, r.v[i]);
    if (!s->targets)
        rebind(x, &r, first);
}

static void declare(struct stem_expander *x, const struct stem_stmt *s)
{
    for (const struct stem_ast_param *p = s->decl; p; p = p->next) {
        struct stem_sym name = stem_expand_path(x, x->path, stem_name(x->m, p->id.name));
        struct stem_value_id v = x->external.at[name.n];
        if (s->kind == STEM_S_STATE)
            v = stem_expand_whole(x, v, x->latest.at[stem_value_at(x->p, v)->tensor.buffer]);
        stem_expand_set(x, p->id.name, v);
    }
}

static void repeat(struct stem_expander *x, const struct stem_stmt *s)
{
    int64_t n = 0;
    stem_dim_value(x->eval.dims, stem_eval_int(&x->eval, s->expr), &n);
    uint32_t base = x->indices.v.len;
    for (int64_t i = 0; i < n && stem_expand_step(x, s->head); i++) {
        if (s->index.name.n)
            stem_vec_push(&x->indices.v, (struct stem_index){s->index.name, stem_dim_const(x->eval.dims, i)});
        stem_expand_body(x, s->body);
        x->indices.v.len = base;
    }
}

static void statement(struct stem_expander *x, const struct stem_stmt *s)
{
    struct context outer;
    switch (s->kind) {
    case STEM_S_BIND:
        bind(x, s);
        break;
    case STEM_S_RETURN:
        x->returned = s->expr;
        break;
    case STEM_S_WEIGHT:
    case STEM_S_STATE:
        declare(x, s);
        break;
    case STEM_S_REGION:
        outer = enter(x, &s->mods);
        stem_expand_body(x, s->body);
        leave(x, outer);
        break;
    case STEM_S_WHEN:
        stem_expand_body(x, stem_eval(&x->eval, s->expr).truth == 1 ? s->body : s->other);
        break;
    case STEM_S_REPEAT:
        repeat(x, s);
        break;
    case STEM_S_BREAK:
        new_segment(x, false, s->head);
        break;
    case STEM_S_EAGER:
        new_segment(x, true, s->head);
        stem_expand_body(x, s->body);
        new_segment(x, false, s->head);
        break;
    }
}

void stem_expand_body(struct stem_expander *x, const struct stem_stmt *s)
{
    for (; s && stem_expand_step(x, s->head); s = s->next)
        statement(x, s);
}

/* ---- the program ---- */

static void bind_dims(struct stem_expander *x, const struct stem_binding *bindings, uint32_t n)
{
    struct stem_module *m = x->m;
    const char **names = STEM_NEW_ARRAY(x->p->arena, const char *, m->dim_infos.len);
    bool *given = STEM_NEW_ARRAY(x->p->arena, bool, m->dim_infos.len);
    for (uint32_t k = 0; k < m->dim_infos.len; k++) {
        struct stem_dim_info *d = &m->dim_infos.at[k];
        int64_t value = d->value;
        names[k] = stem_name(m, d->name);
        for (uint32_t i = 0; i < n; i++)
            if (!strcmp(bindings[i].name, names[k])) {
                value = bindings[i].value;
                given[k] = true;
            }
        x->dim_value[k] = stem_dim_const(x->eval.dims, value);
        stem_vec_push(&x->p->dim_names, d->name);
        stem_vec_push(&x->p->dim_values, value);
        if (!given[k] && !d->has_default) {
            stem_error(x->diags, STEM_E_DIM_UNBOUND, d->span, "the dim '%s' has no value", names[k]);
            stem_diag_help(x->diags, "give one, --dim %s=%" PRId64 ", or a default in the text", names[k], d->low);
            x->failed = true;
        } else if (value < d->low || value > d->high) {
            stem_error(x->diags, STEM_E_DIM_RANGE, d->span, "%s = %" PRId64 " is not in %" PRId64 "..%" PRId64,
                       names[k], value, d->low, d->high);
            x->failed = true;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = 0;
        while (k < m->dim_infos.len && strcmp(bindings[i].name, names[k]))
            k++;
        if (k < m->dim_infos.len)
            continue;
        stem_error(x->diags, STEM_E_UNKNOWN_DIM, STEM_NOWHERE, "there is no dim '%s'", bindings[i].name);
        stem_suggest(x->diags, bindings[i].name, names, m->dim_infos.len);
        x->failed = true;
    }
}

/* What the model returns must end up in its output: written there directly if possible, else copied. */
static void store_results(struct stem_expander *x, const struct stem_value_id *outputs)
{
    const struct stem_callable *f = &x->m->callables.at[x->m->model];
    struct stem_value_id v[STEM_MAX_LAYER_PARAMS], results[STEM_MAX_OPERANDS];
    uint32_t n = 0;
    for (const struct stem_x *e = x->returned; e && !x->failed; e = e->next, n++) {
        x->b.name = stem_value_at(x->p, outputs[n])->name;
        x->b.span = e->span;
        v[n] = stem_expand_to_read(x, stem_expand_value(x, e));
    }
    const struct stem_x *e = x->returned;
    for (uint32_t i = 0; i < n && i < f->n_results && !x->failed; i++, e = e->next) {
        struct stem_input in = {v[i], STEM_MODE_IN, e->span};
        x->b.name = stem_value_at(x->p, outputs[i])->name;
        x->b.span = e->span;
        struct stem_builder early = stem_build_before_writer(&x->b, v[i]);
        if (stem_build_can_move(&x->b, v[i], outputs[i]))
            stem_build_move(&x->b, v[i], outputs[i]);
        else
            x->failed |= !stem_build_op(&early, stem_op_find("copy"), &in, 1, NULL, &outputs[i], results);
    }
}

static void expand(struct stem_expander *x)
{
    struct stem_value_id outputs[STEM_MAX_LAYER_PARAMS];
    struct stem_program *p = x->p;
    p->name = x->m->ast->module.name.n ? x->m->ast->module.name : x->m->callables.at[x->m->model].item->id.name;
    for (uint32_t i = 1; i < x->m->streams.len; i++)
        stem_vec_push(&p->streams, x->m->streams.at[i]);
    p->streams.at[0].priority = x->m->streams.at[0].priority;
    stem_expand_declare_calls(x);
    if (!stem_expand_fits(x))
        return;
    stem_expand_externals(x, outputs);
    if (x->failed)
        return;
    stem_expand_body(x, x->m->callables.at[x->m->model].item->body);
    if (!x->failed)
        store_results(x, outputs);
    if (p->segments.len > 1 && x->segment_begin == p->ops.len)
        p->segments.len--; /* nothing came after the last break */
    stem_expand_unique(p);
}

struct stem_program *stem_expand(const struct stem_module *m, const struct stem_binding *bindings, uint32_t n,
                                 struct stem_diags *diags)
{
    struct stem_dims *dims = stem_dims_new();
    /* the module is only read; evaluation takes it without const because checking shares it */
    struct stem_expander x = {.m = (struct stem_module *)m, .diags = diags, .callable = m->model};
    x.p = stem_program_new(m->strings, m->ast->source);
    x.b = stem_builder_new(x.p, dims, diags);
    x.dim_value = STEM_NEW_ARRAY(x.p->arena, struct stem_dim, m->dim_infos.len);
    x.eval =
        (struct stem_eval){.m = x.m, .dims = dims, .diags = diags, .dim_value = x.dim_value, .indices = &x.indices};
    bind_dims(&x, bindings, n);
    if (!x.failed)
        expand(&x);
    stem_vec_free(&x.names);
    stem_vec_free(&x.external);
    stem_vec_free(&x.seen);
    stem_vec_free(&x.taken);
    stem_vec_free(&x.latest);
    stem_vec_free(&x.lender);
    stem_vec_free(&x.after);
    stem_vec_free(&x.indices.v);
    stem_dims_free(dims);
    if (!x.failed) {
        x.p->state |= STEM_FACT_EXPANDED;
        return x.p;
    }
    stem_program_free(x.p);
    return NULL;
}
