/* SPDX-License-Identifier: Apache-2.0
 *
 * Divisions of whole numbers that round down although a float comes of them: `x * (1 / 128)` is x * 0. The value stays
 * what the language says; whoever meant it can say so, (N - N % 128) / 128.
 */
#include <inttypes.h>
#include <stdio.h>

#include "sema/module.h"

static bool same(const struct stem_eval *e, const struct stem_x *a, const struct stem_x *b)
{
    struct stem_num p = stem_eval(e, a), q = stem_eval(e, b);
    return p.kind == STEM_NUM_INT && q.kind == STEM_NUM_INT && stem_dim_same(p.i, q.i);
}

/* The division x of two integers has no remainder for any value of the dims, or is (n - n % d) / d. */
static bool is_exact(const struct stem_eval *e, const struct stem_x *x)
{
    int64_t low, high;
    struct stem_num a = stem_eval(e, x->a), b = stem_eval(e, x->b);
    if (a.kind != STEM_NUM_INT || b.kind != STEM_NUM_INT)
        return true;
    struct stem_dim rest = stem_dim_op(e->dims, STEM_DIM_MOD, a.i, b.i);
    if (!rest.n)
        return true; /* a division by zero, which was said */
    stem_dim_bounds(e->dims, rest, &low, &high);
    if (low == 0 && high == 0)
        return true;
    const struct stem_x *n = x->a;
    return n->kind == STEM_X_BINARY && n->op == STEM_X_SUB && n->b->kind == STEM_X_BINARY && n->b->op == STEM_X_MOD &&
           same(e, n->a, n->b->a) && same(e, x->b, n->b->b);
}

const struct stem_x *stem_rounding(const struct stem_eval *e, const struct stem_x *x)
{
    const struct stem_x *found = NULL;
    struct stem_global g;
    switch (x->kind) {
    case STEM_X_NAME:
        g = stem_global_find(e->m, x->id.name);
        return g.kind == STEM_G_CONST ? e->m->consts.at[g.index].rounding : NULL;
    case STEM_X_UNARY:
        return stem_rounding(e, x->a);
    case STEM_X_BINARY:
        found = stem_rounding(e, x->a);
        found = found ? found : stem_rounding(e, x->b);
        return found || x->op != STEM_X_DIV || is_exact(e, x) ? found : x;
    case STEM_X_CALL: /* of whole numbers: ceil_div says that it rounds, and how */
        for (const struct stem_arg *a = x->args; a && !found; a = a->next)
            found = stem_rounding(e, a->value);
        return found;
    default:
        return NULL;
    }
}

/* `1.0 / H`, `1.0 * N / H`: the division x as one of floats; and what says that it is not to be one. */
static void help(const struct stem_eval *e, const struct stem_x *x, const int64_t *value)
{
    char text[32] = "1.0";
    struct stem_x number = {.kind = STEM_X_FLOAT, .text = text}, division = *x, rest = *x;
    struct stem_x product = {.kind = STEM_X_BINARY, .op = STEM_X_MUL, .a = &number, .b = x->a};
    struct stem_x n = {.kind = STEM_X_BINARY, .op = STEM_X_SUB, .a = x->a, .b = &rest};
    struct stem_out o = {0}, down = {0};
    if (x->a->kind == STEM_X_INT)
        snprintf(text, sizeof text, "%" PRId64 ".0", x->a->i);
    division.a = x->a->kind == STEM_X_INT ? &number : &product;
    stem_x_print(&division, e->m->strings, &o);
    rest.op = STEM_X_MOD;
    division.a = &n;
    if (x->a->kind == STEM_X_INT && value)
        stem_out_printf(&down, "%" PRId64, *value);
    else
        stem_x_print(&division, e->m->strings, &down);
    stem_diag_help(e->diags, "%s does not round; if rounding down is meant, %s says so", stem_out_text(&o), stem_out_text(&down));
    stem_out_free(&o);
    stem_out_free(&down);
}

static void warn(const struct stem_eval *e, const struct stem_x *division, const struct stem_x *use)
{
    int64_t v;
    struct stem_num n = stem_eval(e, division);
    bool known = n.kind == STEM_NUM_INT && stem_dim_value(e->dims, n.i, &v);
    if (stem_diags_said(e->diags, STEM_E_WHOLE_DIVISION, division->span))
        return;
    if (known)
        stem_warning(e->diags, STEM_E_WHOLE_DIVISION, division->span,
                     "this division of whole numbers rounds down to %" PRId64 ", where a float is wanted", v);
    else
        stem_warning(e->diags, STEM_E_WHOLE_DIVISION, division->span,
                     "this division of whole numbers rounds down, where a float is wanted");
    if (use->span.begin > division->span.begin || use->span.end < division->span.end)
        stem_diag_label(e->diags, use->span, "it is used as a float here");
    help(e, division, known ? &v : NULL);
}

void stem_warn_rounding(const struct stem_eval *e, const struct stem_x *x)
{
    struct stem_num n = stem_eval(e, x);
    if (n.kind == STEM_NUM_INT) {
        const struct stem_x *division = stem_rounding(e, x);
        if (division)
            warn(e, division, x);
        return;
    }
    if (x->kind == STEM_X_UNARY || x->kind == STEM_X_BINARY)
        stem_warn_rounding(e, x->a);
    if (x->kind == STEM_X_BINARY)
        stem_warn_rounding(e, x->b);
    for (const struct stem_arg *a = x->kind == STEM_X_CALL ? x->args : NULL; a; a = a->next)
        stem_warn_rounding(e, a->value);
}

/* A comparison of whole numbers is one of whole numbers. */
void stem_warn_rounding_condition(const struct stem_eval *e, const struct stem_x *x)
{
    if (x->kind == STEM_X_UNARY) {
        stem_warn_rounding_condition(e, x->a);
    } else if (x->kind == STEM_X_BINARY && (x->op == STEM_X_AND || x->op == STEM_X_OR)) {
        stem_warn_rounding_condition(e, x->a);
        stem_warn_rounding_condition(e, x->b);
    } else if (x->kind == STEM_X_BINARY &&
               (stem_eval(e, x->a).kind == STEM_NUM_FLOAT || stem_eval(e, x->b).kind == STEM_NUM_FLOAT)) {
        stem_warn_rounding(e, x->a);
        stem_warn_rounding(e, x->b);
    }
}
