/* SPDX-License-Identifier: Apache-2.0
 *
 * Checking expressions: names, slices, views, pointwise arithmetic.
 */
#include <inttypes.h>
#include <string.h>

#include "sema/check.h"

static const struct stem_sval bad = {.bad = true};

/* ---- names ---- */

struct stem_checked_name *stem_checker_find(struct stem_checker *c, struct stem_sym name)
{
    for (uint32_t i = c->names.len; i-- > 0;)
        if (stem_sym_eq(c->names.at[i].name, name))
            return &c->names.at[i];
    return NULL;
}

bool stem_checker_knows(const struct stem_checker *c, struct stem_sym name)
{
    for (uint32_t i = c->names.len; i-- > 0;)
        if (stem_sym_eq(c->names.at[i].name, name))
            return true;
    return false;
}

void stem_checker_wrote(struct stem_checker *c, struct stem_root root)
{
    for (uint32_t i = 0; root.kind == STEM_ROOT_STATE && i < c->states.len; i++)
        c->states.at[i].written |= root.index == i || root.index == STEM_STATE_ANY;
}

void stem_checker_bind(struct stem_checker *c, struct stem_sym name, struct stem_sval v, struct stem_span span)
{
    if (c->names.len == STEM_MAX_NAMES && !c->many_names)
        stem_error(c->m->diags, STEM_E_TOO_MANY_NAMES, span, "more than %d names in one layer", STEM_MAX_NAMES);
    c->many_names |= c->names.len == STEM_MAX_NAMES;
    if (c->names.len >= STEM_MAX_NAMES)
        c->names.len--; /* the last one gives way: searching stays quick, and an error was reported */
    stem_vec_push(&c->names, (struct stem_checked_name){.name = name, .v = v, .span = span});
}

bool stem_suggest_name(const struct stem_eval *e, const char *word)
{
    STEM_VEC(const char *) list = {0};
    const struct stem_checker *c = e->checker;
    if (stem_diags_errors(e->diags) > 100)
        return true;
    for (uint32_t i = 0; c && !e->of_indices && i < c->names.len; i++)
        stem_vec_push(&list, stem_name(e->m, c->names.at[i].name));
    for (uint32_t i = 0; e->indices && i < e->indices->v.len; i++)
        stem_vec_push(&list, stem_name(e->m, e->indices->v.at[i].name));
    for (uint32_t i = 0; !e->of_indices && i < e->m->consts.len; i++)
        stem_vec_push(&list, stem_name(e->m, e->m->consts.at[i].item->id.name));
    for (uint32_t i = 0; e->dim_value && !e->of_indices && i < e->m->dim_infos.len; i++)
        stem_vec_push(&list, stem_name(e->m, e->m->dim_infos.at[i].name));
    for (uint32_t i = c ? c->gone.len : 0; i-- > 0;)
        if (!strcmp(stem_name(e->m, c->gone.at[i].name), word)) {
            stem_diag_label(e->diags, c->gone.at[i].span, "it was bound here, but %s", c->gone.at[i].where);
            stem_vec_free(&list);
            return true;
        }
    bool near = stem_suggest(e->diags, word, list.at, list.len);
    stem_vec_free(&list);
    return near;
}

static struct stem_sval name(struct stem_checker *c, const struct stem_x *x)
{
    const char *text = stem_name(c->m, x->id.name);
    struct stem_checked_name *n = stem_checker_find(c, x->id.name);
    if (n) {
        n->used = true;
        if (n->conflict && !n->v.bad) {
            stem_error(c->m->diags, STEM_E_BRANCH_TYPE, x->span, "'%s' has different types in the branches of `when`",
                       text);
            stem_diag_label(c->m->diags, n->span, "bound here, among others");
            return bad;
        }
        return n->v;
    }
    if (stem_is_const(&c->eval, x)) {
        stem_error(c->m->diags, STEM_E_NOT_A_TENSOR, x->span, "'%s' is a number, and a tensor is needed", text);
        return bad;
    }
    if (stem_global_find(c->m, x->id.name).kind == STEM_G_CALLABLE) {
        stem_error(c->m->diags, STEM_E_NOT_A_TENSOR, x->span, "'%s' is a function, and a tensor is needed", text);
        stem_diag_help(c->m->diags, "call it: %s(...)", text);
        return bad;
    }
    stem_error(c->m->diags, STEM_E_UNKNOWN_NAME, x->span, "unknown name '%s'", text);
    stem_suggest_name(&c->eval, text);
    return bad;
}

void stem_check_label_param(struct stem_checker *c, const struct stem_ast_param *p)
{
    if (p->mode == STEM_AST_INOUT || p->mode == STEM_AST_CONSUME)
        stem_diag_label(c->m->diags, p->span, "a parameter that is `%s`", stem_ast_mode_text(p->mode));
    else
        stem_diag_label(c->m->diags, p->span, "a parameter that is lent");
}

const struct stem_x *stem_base_name(const struct stem_x *x)
{
    while (x->kind == STEM_X_SLICE || x->kind == STEM_X_VIEW)
        x = x->a;
    return x->kind == STEM_X_NAME ? x : NULL;
}

/* ---- slices ---- */

/* a <= b for all values of the dims */
static bool at_most(const struct stem_eval *e, struct stem_dim a, struct stem_dim b)
{
    int64_t low, high;
    struct stem_dim d = stem_dim_op(e->dims, STEM_DIM_SUB, b, a);
    if (!d.n)
        return false;
    stem_dim_bounds(e->dims, d, &low, &high);
    return low >= 0;
}

static const char *dim_text(const struct stem_eval *e, struct stem_dim d)
{
    struct stem_out o = {0};
    stem_dim_print(e->dims, e->m->strings, d, &o);
    const char *text = stem_arena_strdup(e->m->arena, stem_out_text(&o));
    stem_out_free(&o);
    return text;
}

/* What is wrong with the part [low, high) of a size, as surely as it is known. */
static void bad_part(struct stem_checker *c, const struct stem_sub *s, struct stem_dim low, struct stem_dim high,
                     struct stem_dim size)
{
    const struct stem_eval *e = &c->eval;
    struct stem_dim one = stem_dim_const(e->dims, 1);
    const char *what = s->range ? "this slice" : "this index";
    bool outside = at_most(e, stem_dim_op(e->dims, STEM_DIM_ADD, low, one), stem_dim_const(e->dims, 0)) ||
                   at_most(e, stem_dim_op(e->dims, STEM_DIM_ADD, size, one), high);
    if (s->range && at_most(e, high, low))
        stem_error(c->m->diags, STEM_E_BAD_SLICE, s->span, "this slice %s",
                   at_most(e, low, high) ? "is empty" : "ends before it begins");
    else
        stem_error(c->m->diags, STEM_E_BAD_SLICE, s->span, "%s %s within a size of %s", what,
                   outside ? "does not lie" : "is not sure to lie", dim_text(e, size));
}

/* Help for x[-1] and x[:-1], which count from the end elsewhere. */
static void help_from_end(struct stem_checker *c, const struct stem_sub *s, struct stem_dim low, struct stem_dim high,
                          struct stem_dim size)
{
    const struct stem_eval *e = &c->eval;
    bool from_low = s->low && s->low->kind == STEM_X_UNARY && s->low->op == STEM_X_NEG;
    bool from_high = s->high && s->high->kind == STEM_X_UNARY && s->high->op == STEM_X_NEG;
    if (from_low)
        low = stem_dim_op(e->dims, STEM_DIM_ADD, size, low);
    if (from_high)
        high = stem_dim_op(e->dims, STEM_DIM_ADD, size, high);
    if ((!from_low && !from_high) || !low.n || !high.n || !at_most(e, stem_dim_const(e->dims, 0), low))
        return;
    if (!s->range)
        stem_diag_help(c->m->diags, "counted from the end, this is %s", dim_text(e, low));
    else if (at_most(e, stem_dim_op(e->dims, STEM_DIM_ADD, low, stem_dim_const(e->dims, 1)), high))
        stem_diag_help(c->m->diags, "counted from the end, this is %s:%s", dim_text(e, low), dim_text(e, high));
}

/* One subscript of a size; *out is the new size (n == 0: the size is dropped). */
static bool subscript(struct stem_checker *c, const struct stem_sub *s, struct stem_dim size, struct stem_dim *out)
{
    const struct stem_eval *e = &c->eval;
    struct stem_dim zero = stem_dim_const(e->dims, 0), one = stem_dim_const(e->dims, 1);
    struct stem_dim low = s->low ? stem_eval_int(e, s->low) : zero;
    struct stem_dim high = s->high ? stem_eval_int(e, s->high) : size;
    if (!s->range && low.n)
        high = stem_dim_op(e->dims, STEM_DIM_ADD, low, one);
    if (!low.n || !high.n)
        return false;
    struct stem_dim more = stem_dim_op(e->dims, STEM_DIM_ADD, low, one);
    if (!at_most(e, zero, low) || !at_most(e, more, high) || !at_most(e, high, size)) {
        bad_part(c, s, low, high, size);
        help_from_end(c, s, low, high, size);
        return false;
    }
    *out = s->range ? stem_dim_op(e->dims, STEM_DIM_SUB, high, low) : STEM_DIM_BAD;
    return !s->range || out->n;
}

/* A slice with too few subscripts, as it would be with all of them. */
static void help_rank(struct stem_checker *c, const struct stem_x *x, uint32_t n, uint32_t rank)
{
    struct stem_out o = {0};
    uint32_t len = x->span.end - x->span.begin;
    for (; n < rank; n++)
        stem_out_printf(&o, ", :");
    if (o.len && len > 1 && len <= 60)
        stem_diag_help(c->m->diags, "every size has a subscript, `:` for the whole: %.*s%s]", (int)len - 1,
                       c->m->ast->source->text + x->span.begin, stem_out_text(&o));
    stem_out_free(&o);
}

static struct stem_sval slice(struct stem_checker *c, const struct stem_x *x)
{
    struct stem_sval v = stem_check_expr(c, x->a), r = v;
    uint32_t n = 0;
    if (v.bad)
        return bad;
    for (const struct stem_sub *s = x->subs; s; s = s->next)
        n++;
    if (n != v.type.rank) {
        stem_error(c->m->diags, STEM_E_RANK, x->span, "%u subscript%s for %s", n, n == 1 ? "" : "s",
                   stem_type_text(&c->eval, &v.type));
        help_rank(c, x, n, v.type.rank);
        return bad;
    }
    if (stem_dtype_bits(v.type.dtype) < 8) {
        stem_error(c->m->diags, STEM_E_BAD_SLICE, x->span, "%s cannot be sliced: its elements are packed",
                   stem_dtype_name(v.type.dtype));
        return bad;
    }
    r.type.rank = 0;
    n = 0;
    for (const struct stem_sub *s = x->subs; s; s = s->next, n++) {
        struct stem_dim d;
        if (!subscript(c, s, v.type.dim[n], &d))
            r.bad = true;
        else if (s->range)
            r.type.dim[r.type.rank++] = d;
        /* what keeps all later sizes whole, and takes one stretch of the first, has no gaps */
        if (n > 0 && !(s->range && !s->low && !s->high))
            r.slice = true;
    }
    return r;
}

/* ---- views ---- */

static bool elements(const struct stem_eval *e, const struct stem_type *t, struct stem_dim *n)
{
    *n = stem_dim_const(e->dims, 1);
    for (uint32_t i = 0; i < t->rank; i++)
        *n = stem_dim_op(e->dims, STEM_DIM_MUL, *n, t->dim[i]);
    return n->n != 0;
}

/* Whether each size of `from` is the product of sizes of `to` that follow each other: then strides can tell it, gaps or
 * not. */
static bool only_splits(const struct stem_eval *e, const struct stem_type *from, const struct stem_type *to)
{
    struct stem_dim one = stem_dim_const(e->dims, 1);
    uint32_t k = 0;
    for (uint32_t i = 0; i < from->rank; i++) {
        struct stem_dim n = one;
        while (n.n && !stem_dim_same(n, from->dim[i]) && k < to->rank)
            n = stem_dim_op(e->dims, STEM_DIM_MUL, n, to->dim[k++]);
        if (!n.n || !stem_dim_same(n, from->dim[i]))
            return false;
    }
    while (k < to->rank && stem_dim_same(to->dim[k], one))
        k++;
    return k == to->rank;
}

static struct stem_sval view(struct stem_checker *c, const struct stem_x *x)
{
    const struct stem_eval *e = &c->eval;
    struct stem_sval v = stem_check_expr(c, x->a);
    struct stem_type t = {.dtype = v.bad ? STEM_F32 : v.type.dtype};
    bool fine = true;
    for (const struct stem_x *d = x->shape; d; d = d->next) {
        if (t.rank == STEM_MAX_RANK) {
            stem_error(c->m->diags, STEM_E_RANK, d->span, "a tensor has at most %d sizes", STEM_MAX_RANK);
            return bad;
        }
        t.dim[t.rank] = stem_eval_int(e, d);
        fine &= t.dim[t.rank++].n != 0;
    }
    if (v.bad || !fine || !stem_type_possible(e, &t, x->span))
        return bad;
    struct stem_dim have = {0}, want = {0};
    if (!elements(e, &v.type, &have) || !elements(e, &t, &want) || !stem_dim_same(have, want)) {
        stem_error(c->m->diags, STEM_E_BAD_VIEW, x->span, "%s cannot be seen as %s: %s elements against %s",
                   stem_type_text(e, &v.type), stem_type_text(e, &t), dim_text(e, have), dim_text(e, want));
        return bad;
    }
    if (v.slice && !only_splits(e, &v.type, &t)) {
        stem_error(c->m->diags, STEM_E_BAD_VIEW, x->span, "sizes of a slice with gaps can be split, not merged");
        stem_diag_help(c->m->diags, "copy it first: view(copy(...), [...])");
        return bad;
    }
    v.type = t;
    return v;
}

/* ---- pointwise ---- */

struct leaves {
    struct stem_checker *c;
    struct stem_sval v[STEM_MAX_OPERANDS];
};

static enum stem_dtype leaf(void *user, const struct stem_x *x, uint32_t i)
{
    struct leaves *l = user;
    l->v[i] = stem_check_expr(l->c, x);
    return l->v[i].bad ? STEM_N_DTYPES : l->v[i].type.dtype;
}

static struct stem_sval pointwise(struct stem_checker *c, const struct stem_x *x)
{
    struct leaves l = {.c = c};
    struct stem_pointwise pw = {0};
    struct stem_sval r = {.computed = true};
    bool fine = stem_pointwise_build(&c->eval, x, leaf, &l, &pw);
    if (fine)
        fine = stem_pointwise_type(&c->eval, &pw, l.v, x->span, &r.type);
    stem_out_free(&pw.text);
    return fine ? r : bad;
}

/* numpy's rule: sizes are aligned at the end, and a size of 1 (or a missing one) stretches. */
bool stem_pointwise_type(const struct stem_eval *e, const struct stem_pointwise *pw, const struct stem_sval *v,
                         struct stem_span at, struct stem_type *r)
{
    struct stem_dim one = stem_dim_const(e->dims, 1);
    *r = (struct stem_type){.dtype = pw->dtype};
    for (uint32_t i = 0; i < pw->n; i++)
        r->rank = v[i].type.rank > r->rank ? v[i].type.rank : r->rank;
    for (uint32_t k = 0; k < r->rank; k++)
        r->dim[k] = one;
    for (uint32_t i = 0; i < pw->n; i++)
        for (uint32_t k = 0; k < v[i].type.rank; k++) {
            struct stem_dim have = v[i].type.dim[k], *d = &r->dim[r->rank - v[i].type.rank + k];
            if (stem_dim_same(have, one) || stem_dim_same(have, *d))
                continue;
            if (!stem_dim_same(*d, one)) {
                stem_error(e->diags, STEM_E_SHAPE, pw->leaf[i]->span,
                           "%s does not fit the other operands: %s against %s", stem_type_text(e, &v[i].type),
                           dim_text(e, have), dim_text(e, *d));
                stem_diag_label(e->diags, pw->leaf[0]->span, "the first operand is %s",
                                stem_type_text(e, &v[0].type));
                return false;
            }
            *d = have;
        }
    return stem_type_possible(e, r, at);
}

/* ---- all ---- */

static struct stem_sval call(struct stem_checker *c, const struct stem_x *x)
{
    struct stem_results r;
    stem_check_call(c, x, &r);
    if (r.bad)
        return bad;
    if (r.n == 1)
        return r.v[0];
    stem_error(c->m->diags, STEM_E_RESULT_COUNT, x->span, "'%s' has %u results; one is needed here",
               stem_name(c->m, x->id.name), r.n);
    if (r.n > 1) {
        struct stem_out o = {0};
        for (uint32_t i = 0; i < r.n; i++)
            stem_out_printf(&o, r.n > 26 ? "%sr%u" : "%s%c", i ? ", " : "", r.n > 26 ? i : 'a' + i);
        stem_diag_help(c->m->diags, "bind them to names first: %s = %s(...);", stem_out_text(&o), stem_name(c->m, x->id.name));
        stem_out_free(&o);
    }
    return bad;
}

struct stem_sval stem_check_expr(struct stem_checker *c, const struct stem_x *x)
{
    if (x->kind == STEM_X_ERROR)
        return bad;
    if (x->kind == STEM_X_NAME)
        return name(c, x);
    if (x->kind == STEM_X_SLICE)
        return slice(c, x);
    if (x->kind == STEM_X_VIEW)
        return view(c, x);
    if (stem_is_const(&c->eval, x)) {
        stem_error(c->m->diags, STEM_E_NOT_A_TENSOR, x->span, "this is a number, and a tensor is needed");
        return bad;
    }
    return stem_is_pointwise(&c->eval, x) ? pointwise(c, x) : call(c, x);
}
