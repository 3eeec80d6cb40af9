/* SPDX-License-Identifier: Apache-2.0
 *
 * From arithmetic on tensors to the postfix text of one pointwise op (src/ops/pointwise/expr.h). Checking and
 * expanding share this walk; they differ in what a leaf is to them.
 */
#include "ops/pointwise/expr.h"

#include <stdio.h>
#include <string.h>

#include "sema/module.h"

#define MAX_INPUTS STEM_EXPR_MAX_INPUTS

uint32_t stem_pointwise_arity(const char *name)
{
    static const char *const operators[] = {"neg", "add", "sub", "mul", "div"}; /* written + - * / */
    enum stem_expr_fn fn = stem_expr_fn_find(name);
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (!strcmp(name, operators[i]))
            return 0;
    return fn == STEM_N_FN ? 0 : stem_expr_fn_binary(fn) ? 2 : 1;
}

bool stem_is_pointwise(const struct stem_eval *e, const struct stem_x *x)
{
    if (x->kind == STEM_X_UNARY || x->kind == STEM_X_BINARY)
        return !stem_is_const(e, x);
    if (x->kind != STEM_X_CALL || stem_global_find(e->m, x->id.name).kind == STEM_G_CALLABLE)
        return false;
    const char *name = stem_name(e->m, x->id.name);
    return stem_pointwise_arity(name) || stem_dtype_from_name(name) != STEM_N_DTYPES;
}

struct walk {
    const struct stem_eval *e;
    struct stem_pointwise *pw;
    enum stem_dtype (*leaf)(void *user, const struct stem_x *x, uint32_t i);
    void *user;
    uint32_t nodes;
    bool failed;
};

static const enum stem_dtype number = (enum stem_dtype)(STEM_N_DTYPES + 1); /* a constant: takes the other's dtype */

static void token(struct walk *w, const char *text)
{
    stem_out_printf(&w->pw->text, "%s%s", w->nodes++ ? " " : "", text);
}

static enum stem_dtype fail(struct walk *w)
{
    w->failed = true;
    return STEM_F32;
}

static enum stem_dtype constant(struct walk *w, const struct stem_x *x)
{
    bool is_int;
    int64_t i;
    double f = 1;
    char text[40];
    struct stem_num n = stem_eval(w->e, x);
    if (n.kind == STEM_NUM_BOOL)
        stem_error(w->e->diags, STEM_E_NOT_A_TENSOR, x->span, "a comparison is no number");
    if (n.kind == STEM_NUM_BAD || n.kind == STEM_NUM_BOOL)
        return fail(w);
    if (w->e->checker)
        stem_warn_rounding(w->e, x);
    if (!stem_num_plain(w->e->dims, n, &is_int, &i, &f))
        f = 1; /* depends on a dim: known when expanding */
    if (!stem_num_fits_f32(w->e, x, f))
        return fail(w);
    snprintf(text, sizeof text, "c:%.9g", (double)(float)f);
    token(w, text);
    return number;
}

static enum stem_dtype operand(struct walk *w, const struct stem_x *x)
{
    struct stem_pointwise *pw = w->pw;
    uint32_t i = 0;
    char text[16];
    while (i < pw->n && !(x->kind == STEM_X_NAME && pw->leaf[i]->kind == STEM_X_NAME &&
                          stem_sym_eq(x->id.name, pw->leaf[i]->id.name)))
        i++;
    if (i == MAX_INPUTS) {
        stem_error(w->e->diags, STEM_E_TOO_MANY_OPERANDS, x->span, "a pointwise expression has at most %d operands",
                   MAX_INPUTS);
        return fail(w);
    }
    if (i == pw->n) {
        pw->leaf[i] = x;
        pw->leaf_dtype[i] = w->leaf(w->user, x, i);
        pw->n++;
    }
    if (pw->leaf_dtype[i] == STEM_N_DTYPES)
        return fail(w);
    snprintf(text, sizeof text, "i%u", i);
    token(w, text);
    return pw->leaf_dtype[i];
}

static bool is_float(enum stem_dtype t)
{
    return t == STEM_F32 || t == STEM_F16 || t == STEM_BF16;
}

/* Arithmetic is on floats; anything else must be converted by a cast first. */
static enum stem_dtype arithmetic_type(struct walk *w, const struct stem_x *x, enum stem_dtype t)
{
    if (w->failed || t == number || is_float(t))
        return t;
    stem_error(w->e->diags, STEM_E_NOT_FLOAT, x->span, "arithmetic on %s: convert it first, f32(...)",
               stem_dtype_name(t));
    return fail(w);
}

static enum stem_dtype promote(enum stem_dtype a, enum stem_dtype b)
{
    return a == number ? b : b == number || a == b ? a : STEM_F32;
}

static enum stem_dtype walk(struct walk *w, const struct stem_x *x);

/* Of a divisor: a number that is zero, or becomes zero in f32. A tensor's element may be. */
static bool is_zero(const struct walk *w, const struct stem_x *x)
{
    bool is_int;
    int64_t i;
    double f;
    return stem_is_const(w->e, x) && stem_num_plain(w->e->dims, stem_eval(w->e, x), &is_int, &i, &f) && (float)f == 0;
}

static enum stem_dtype two(struct walk *w, const struct stem_x *a, const struct stem_x *b, const char *fn)
{
    enum stem_dtype s = arithmetic_type(w, a, walk(w, a));
    if (w->failed)
        return s;
    enum stem_dtype t = arithmetic_type(w, b, walk(w, b));
    if (!w->failed && !strcmp(fn, "div") && is_zero(w, b)) {
        stem_error(w->e->diags, STEM_E_DIVISION_BY_ZERO, b->span, "the divisor is zero in f32, whose smallest number is 1.4e-45");
        return fail(w);
    }
    token(w, fn);
    return promote(s, t);
}

static enum stem_dtype operation(struct walk *w, const struct stem_x *x)
{
    static const char *const fn[] = {[STEM_X_ADD] = "add", [STEM_X_SUB] = "sub", [STEM_X_MUL] = "mul",
                                     [STEM_X_DIV] = "div", [STEM_X_NEG] = "neg", [STEM_X_NOT] = NULL};
    if (!fn[x->op]) {
        stem_error(w->e->diags, STEM_E_NOT_A_TENSOR, x->span, "'%s' works on numbers, not on tensors",
                   stem_x_op_text(x->op));
        return fail(w);
    }
    if (x->kind == STEM_X_BINARY)
        return two(w, x->a, x->b, fn[x->op]);
    enum stem_dtype t = arithmetic_type(w, x->a, walk(w, x->a));
    token(w, fn[x->op]);
    return t;
}

static enum stem_dtype function(struct walk *w, const struct stem_x *x)
{
    const char *name = stem_name(w->e->m, x->id.name);
    enum stem_dtype cast = stem_dtype_from_name(name);
    uint32_t arity = cast != STEM_N_DTYPES ? 1 : stem_pointwise_arity(name), n = 0;
    for (const struct stem_arg *a = x->args; a; a = a->next, n++)
        if (a->attr.name.n || (a->mode != STEM_AST_NONE && a->mode != STEM_AST_IN)) {
            stem_error(w->e->diags, a->attr.name.n ? STEM_E_UNKNOWN_ATTR : STEM_E_MODE, a->span,
                       "'%s' takes plain operands only", name);
            return fail(w);
        }
    if (n != arity || x->subs) {
        stem_error(w->e->diags, STEM_E_ARITY, x->id.span, "'%s' takes %u operand%s, not %u", name, arity,
                   arity == 1 ? "" : "s", n);
        return fail(w);
    }
    if (arity == 2)
        return two(w, x->args->value, x->args->next->value, name);
    enum stem_dtype t = walk(w, x->args->value);
    if (cast == STEM_N_DTYPES) {
        t = arithmetic_type(w, x->args->value, t);
        token(w, name);
        return t;
    }
    if (w->failed)
        return t;
    if (stem_dtype_bits(cast) < 8 || stem_dtype_bits(t == number ? STEM_F32 : t) < 8) {
        stem_error(w->e->diags, STEM_E_DTYPE, x->span, "elements of 4 bits have no value without their scales: no cast converts them");
        return fail(w);
    }
    char text[24];
    snprintf(text, sizeof text, "as:%s", name);
    token(w, text);
    return cast;
}

static enum stem_dtype walk(struct walk *w, const struct stem_x *x)
{
    if (w->failed)
        return STEM_F32;
    if (stem_is_const(w->e, x))
        return constant(w, x);
    if (!stem_is_pointwise(w->e, x))
        return operand(w, x);
    return x->kind == STEM_X_CALL ? function(w, x) : operation(w, x);
}

bool stem_pointwise_build(const struct stem_eval *e, const struct stem_x *x,
                          enum stem_dtype (*leaf)(void *user, const struct stem_x *x, uint32_t i), void *user,
                          struct stem_pointwise *pw)
{
    struct walk w = {.e = e, .pw = pw, .leaf = leaf, .user = user};
    pw->n = 0;
    pw->dtype = walk(&w, x);
    if (w.failed)
        return false;
    if (pw->n == 0) {
        stem_error(e->diags, STEM_E_NOT_A_TENSOR, x->span, "this is a number, and a tensor is needed");
        return false;
    }
    if (w.nodes > STEM_EXPR_MAX_NODES) {
        stem_error(e->diags, STEM_E_TOO_MANY_OPERANDS, x->span,
                   "a pointwise expression has at most %d operands, constants and operators, not %u",
                   STEM_EXPR_MAX_NODES, w.nodes);
        return false;
    }
    return true;
}
