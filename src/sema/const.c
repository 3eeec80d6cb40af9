/* SPDX-License-Identifier: Apache-2.0
 *
 * Constant expressions: integers over dims (kept symbolic where a dim is not bound), floats, and truth values.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sema/check.h"
#include "sema/module.h"

static const struct stem_num bad = {STEM_NUM_BAD, {0}, 0, false, 0};

const char *stem_name(const struct stem_module *m, struct stem_sym s)
{
    return stem_sym_str(m->strings, s);
}

struct stem_global stem_global_find(const struct stem_module *m, struct stem_sym name)
{
    return name.n < m->globals.len ? m->globals.at[name.n] : (struct stem_global){STEM_G_NONE, 0};
}

bool stem_suggest(struct stem_diags *diags, const char *word, const char *const *candidates, uint32_t n)
{
    if (stem_diags_errors(diags) > 100)
        return true; /* nobody sees it any more, and a search for each error of a broken file would take long */
    const char *near = stem_nearest(word, candidates, n);
    if (near)
        stem_diag_help(diags, "did you mean '%s'?", near);
    return near != NULL;
}

static struct stem_num integer(struct stem_dim d)
{
    return (struct stem_num){.kind = d.n ? STEM_NUM_INT : STEM_NUM_BAD, .i = d};
}

static struct stem_num real(double f, bool known)
{
    return (struct stem_num){.kind = STEM_NUM_FLOAT, .f = f, .known = known};
}

static struct stem_num truth(int t)
{
    return (struct stem_num){.kind = STEM_NUM_BOOL, .truth = t};
}

bool stem_num_plain(const struct stem_dims *dims, struct stem_num n, bool *is_int, int64_t *i, double *f)
{
    *is_int = n.kind == STEM_NUM_INT;
    if (n.kind == STEM_NUM_FLOAT) {
        *f = n.f;
        return n.known;
    }
    if (n.kind != STEM_NUM_INT || !stem_dim_value(dims, n.i, i))
        return false;
    *f = (double)*i;
    return true;
}

bool stem_num_fits_f32(const struct stem_eval *e, const struct stem_x *x, double f)
{
    if (isfinite((float)f))
        return true;
    stem_error(e->diags, STEM_E_CONST_OVERFLOW, x->span, "%.9g is beyond f32, whose largest number is 3.40282347e+38", f);
    return false;
}

/* ---- operators ---- */

static struct stem_num int_result(const struct stem_eval *e, enum stem_dim_op op, struct stem_num a,
                                  struct stem_num b, const struct stem_x *x)
{
    struct stem_dim r = stem_dim_op(e->dims, op, a.i, b.i);
    if (r.n)
        return integer(r);
    int64_t low, high;
    stem_dim_bounds(e->dims, b.i, &low, &high);
    if ((op == STEM_DIM_DIV || op == STEM_DIM_MOD) && low <= 0 && high >= 0)
        stem_error(e->diags, STEM_E_DIVISION_BY_ZERO, x->span, "the divisor is zero, or can be");
    else
        stem_error(e->diags, STEM_E_CONST_OVERFLOW, x->span,
                   "the result does not fit 64 bits, or has too many terms");
    return bad;
}

static struct stem_num float_result(const struct stem_eval *e, double f, bool known, const struct stem_x *x)
{
    if (!known)
        return real(1, false);
    if (!isfinite(f)) {
        stem_error(e->diags, STEM_E_CONST_OVERFLOW, x->span, "the result is not a finite number");
        return bad;
    }
    return real(f, true);
}

static struct stem_num arithmetic(const struct stem_eval *e, const struct stem_x *x, struct stem_num a,
                                  struct stem_num b)
{
    static const enum stem_dim_op op[] = {[STEM_X_ADD] = STEM_DIM_ADD,
                                          [STEM_X_SUB] = STEM_DIM_SUB,
                                          [STEM_X_MUL] = STEM_DIM_MUL,
                                          [STEM_X_DIV] = STEM_DIM_DIV,
                                          [STEM_X_MOD] = STEM_DIM_MOD};
    if (a.kind == STEM_NUM_INT && b.kind == STEM_NUM_INT)
        return int_result(e, op[x->op], a, b, x);
    bool is_int;
    int64_t i;
    double f = 1, g = 1;
    bool known = stem_num_plain(e->dims, a, &is_int, &i, &f);
    known &= stem_num_plain(e->dims, b, &is_int, &i, &g);
    if (known && g == 0 && (x->op == STEM_X_DIV || x->op == STEM_X_MOD)) {
        stem_error(e->diags, STEM_E_DIVISION_BY_ZERO, x->span, "the divisor is zero");
        return bad;
    }
    switch (x->op) {
    case STEM_X_ADD:
        return float_result(e, f + g, known, x);
    case STEM_X_SUB:
        return float_result(e, f - g, known, x);
    case STEM_X_MUL:
        return float_result(e, f * g, known, x);
    case STEM_X_DIV:
        return float_result(e, f / g, known, x);
    default:
        return float_result(e, f - floor(f / g) * g, known, x);
    }
}

/* Sign of a - b if it is the same for all values of the dims: -1, 0, 1; else what can be said by low and high. */
static void difference(const struct stem_eval *e, struct stem_num a, struct stem_num b, int64_t *low, int64_t *high)
{
    *low = -1;
    *high = 1;
    if (a.kind == STEM_NUM_INT && b.kind == STEM_NUM_INT) {
        struct stem_dim d = stem_dim_op(e->dims, STEM_DIM_SUB, a.i, b.i);
        if (d.n)
            stem_dim_bounds(e->dims, d, low, high);
        return;
    }
    bool is_int;
    int64_t i;
    double f, g;
    if (stem_num_plain(e->dims, a, &is_int, &i, &f) && stem_num_plain(e->dims, b, &is_int, &i, &g))
        *low = *high = (f > g) - (f < g);
}

static int less(int64_t low, int64_t high, int64_t than) /* a - b < than */
{
    return high < than ? 1 : low >= than ? 0 : -1;
}

static int negate(int t)
{
    return t < 0 ? -1 : !t;
}

static struct stem_num comparison(const struct stem_eval *e, const struct stem_x *x, struct stem_num a,
                                  struct stem_num b)
{
    int64_t low, high;
    difference(e, a, b, &low, &high);
    int equal = low == 0 && high == 0 ? 1 : low > 0 || high < 0 ? 0 : -1;
    switch (x->op) {
    case STEM_X_EQ:
        return truth(equal);
    case STEM_X_NE:
        return truth(negate(equal));
    case STEM_X_LT:
        return truth(less(low, high, 0));
    case STEM_X_GE:
        return truth(negate(less(low, high, 0)));
    case STEM_X_LE:
        return truth(less(low, high, 1));
    default:
        return truth(negate(less(low, high, 1)));
    }
}

static struct stem_num logic(enum stem_x_op op, int a, int b)
{
    if (op == STEM_X_AND)
        return truth(a == 0 || b == 0 ? 0 : a < 0 || b < 0 ? -1 : 1);
    return truth(a == 1 || b == 1 ? 1 : a < 0 || b < 0 ? -1 : 0);
}

static struct stem_num wrong_kind(const struct stem_eval *e, const struct stem_x *x, const char *need)
{
    stem_error(e->diags, STEM_E_NOT_A_CONST, x->span, "'%s' needs %s", stem_x_op_text(x->op), need);
    return bad;
}

static struct stem_num binary(const struct stem_eval *e, const struct stem_x *x)
{
    struct stem_num a = stem_eval(e, x->a), b = stem_eval(e, x->b);
    if (a.kind == STEM_NUM_BAD || b.kind == STEM_NUM_BAD)
        return bad;
    bool bools = a.kind == STEM_NUM_BOOL && b.kind == STEM_NUM_BOOL;
    bool numbers = a.kind != STEM_NUM_BOOL && b.kind != STEM_NUM_BOOL;
    if (x->op == STEM_X_AND || x->op == STEM_X_OR)
        return bools ? logic(x->op, a.truth, b.truth) : wrong_kind(e, x, "comparisons on both sides");
    if (!numbers)
        return wrong_kind(e, x, "numbers on both sides");
    return x->op >= STEM_X_ADD ? arithmetic(e, x, a, b) : comparison(e, x, a, b);
}

static struct stem_num unary(const struct stem_eval *e, const struct stem_x *x)
{
    struct stem_num a = stem_eval(e, x->a);
    if (a.kind == STEM_NUM_BAD)
        return bad;
    if (x->op == STEM_X_NOT)
        return a.kind == STEM_NUM_BOOL ? truth(negate(a.truth)) : wrong_kind(e, x, "a comparison");
    if (a.kind == STEM_NUM_BOOL)
        return wrong_kind(e, x, "a number");
    if (a.kind == STEM_NUM_FLOAT)
        return real(-a.f, a.known);
    return int_result(e, STEM_DIM_SUB, integer(stem_dim_const(e->dims, 0)), a, x);
}

/* ---- functions ---- */

static double fn_rsqrt(double x)
{
    return 1 / sqrt(x);
}

static const struct {
    const char *name;
    double (*one)(double);
    uint32_t n;
    int op; /* of two integers; -1: none */
} functions[] = {{"min", NULL, 2, STEM_DIM_MIN},
                 {"max", NULL, 2, STEM_DIM_MAX},
                 {"ceil_div", NULL, 2, STEM_DIM_DIV},
                 {"exp", exp, 1, -1},
                 {"log", log, 1, -1},
                 {"sqrt", sqrt, 1, -1},
                 {"rsqrt", fn_rsqrt, 1, -1},
                 {"abs", fabs, 1, -1}};
#define N_FUNCTIONS (sizeof functions / sizeof *functions)

static uint32_t function(const char *name)
{
    uint32_t i = 0;
    while (i < N_FUNCTIONS && strcmp(functions[i].name, name))
        i++;
    return i;
}

bool stem_is_number_function(const char *name)
{
    return function(name) < N_FUNCTIONS;
}

static struct stem_num of_two(const struct stem_eval *e, const struct stem_x *x, uint32_t f, struct stem_num a,
                              struct stem_num b)
{
    bool ceil = !strcmp(functions[f].name, "ceil_div");
    if (a.kind == STEM_NUM_INT && b.kind == STEM_NUM_INT) {
        if (!ceil)
            return int_result(e, (enum stem_dim_op)functions[f].op, a, b, x);
        struct stem_num one = integer(stem_dim_const(e->dims, 1));
        a = int_result(e, STEM_DIM_ADD, a, b, x);
        a = a.kind == STEM_NUM_BAD ? a : int_result(e, STEM_DIM_SUB, a, one, x);
        return a.kind == STEM_NUM_BAD ? a : int_result(e, STEM_DIM_DIV, a, b, x);
    }
    if (ceil || a.kind == STEM_NUM_BOOL || b.kind == STEM_NUM_BOOL) {
        stem_error(e->diags, STEM_E_NOT_A_CONST, x->span, "'%s' needs two %s", functions[f].name,
                   ceil ? "integers" : "numbers");
        return bad;
    }
    bool is_int;
    int64_t i;
    double p = 1, q = 1;
    bool known = stem_num_plain(e->dims, a, &is_int, &i, &p);
    known &= stem_num_plain(e->dims, b, &is_int, &i, &q);
    return real(functions[f].op == STEM_DIM_MIN ? fmin(p, q) : fmax(p, q), known);
}

static struct stem_num call(const struct stem_eval *e, const struct stem_x *x)
{
    const char *name = stem_name(e->m, x->id.name);
    uint32_t f = function(name), n = 0;
    struct stem_num v[2];
    if (f == N_FUNCTIONS) {
        stem_error(e->diags, STEM_E_NOT_A_CONST, x->span, "'%s(...)' is not a constant", name);
        return bad;
    }
    for (const struct stem_arg *a = x->args; a; a = a->next, n++) {
        if (n >= functions[f].n || a->attr.name.n || a->mode != STEM_AST_NONE) {
            n = 99;
            break;
        }
        v[n] = stem_eval(e, a->value);
        if (v[n].kind == STEM_NUM_BAD)
            return bad;
    }
    if (n != functions[f].n) {
        stem_error(e->diags, STEM_E_ARITY, x->id.span, "'%s' takes %u number%s", name, functions[f].n,
                   functions[f].n == 1 ? "" : "s");
        return bad;
    }
    if (n == 2)
        return of_two(e, x, f, v[0], v[1]);
    bool is_int;
    int64_t i;
    double p = 1;
    if (v[0].kind == STEM_NUM_BOOL)
        return wrong_kind(e, x, "a number");
    bool known = stem_num_plain(e->dims, v[0], &is_int, &i, &p);
    if (known && is_int && functions[f].one == fabs)
        return p < 0 ? int_result(e, STEM_DIM_SUB, integer(stem_dim_const(e->dims, 0)), v[0], x) : v[0];
    return float_result(e, functions[f].one(p), known, x);
}

/* ---- names ---- */

static struct stem_num const_value(const struct stem_eval *e, uint32_t index, struct stem_span at);

static bool find_index(const struct stem_eval *e, struct stem_sym name, struct stem_dim *d)
{
    for (uint32_t i = e->indices ? e->indices->v.len : 0; i-- > 0;)
        if (stem_sym_eq(e->indices->v.at[i].name, name)) {
            *d = e->indices->v.at[i].value;
            return true;
        }
    return false;
}

/* Constants are kept as numbers, not as dims, since each evaluation may have its own table of dims. */
static struct stem_num translate(const struct stem_eval *e, struct stem_num n)
{
    int64_t i;
    if (n.kind == STEM_NUM_INT && stem_dim_value(e->m->dims, n.i, &i))
        return integer(stem_dim_const(e->dims, i));
    return n;
}

static struct stem_num name(const struct stem_eval *e, const struct stem_x *x)
{
    struct stem_dim d;
    if (find_index(e, x->id.name, &d))
        return integer(d);
    struct stem_global g = stem_global_find(e->m, x->id.name);
    if (g.kind == STEM_G_CONST)
        return translate(e, const_value(e, g.index, x->span));
    if (g.kind == STEM_G_DIM && e->dim_value)
        return integer(e->dim_value[g.index]);
    const char *text = stem_name(e->m, x->id.name);
    if (g.kind == STEM_G_DIM) {
        stem_error(e->diags, STEM_E_NOT_A_CONST, x->span, "'%s' is a dim: its value is not known here", text);
        stem_diag_label(e->diags, e->m->dim_infos.at[g.index].span, "declared here");
    } else if (g.kind == STEM_G_CALLABLE || (e->checker && stem_checker_knows(e->checker, x->id.name))) {
        stem_error(e->diags, STEM_E_NOT_A_CONST, x->span, "'%s' is not a number", text);
    } else {
        stem_error(e->diags, STEM_E_UNKNOWN_NAME, x->span, "unknown name '%s'", text);
        if (!stem_suggest_name(e, text) && !e->of_indices && (e->dim_value || !e->m->dim_infos.len))
            stem_diag_help(e->diags, "sizes are declared before: `const %s = 64;`, or `dim %s in 1..64;` for one that is chosen when the "
                                     "program is compiled", text, text);
    }
    return bad;
}

struct stem_num stem_eval(const struct stem_eval *e, const struct stem_x *x)
{
    switch (x->kind) {
    case STEM_X_INT:
        return integer(stem_dim_const(e->dims, x->i));
    case STEM_X_FLOAT:
        return real(x->f, true);
    case STEM_X_NAME:
        return name(e, x);
    case STEM_X_UNARY:
        return unary(e, x);
    case STEM_X_BINARY:
        return binary(e, x);
    case STEM_X_CALL:
        return call(e, x);
    case STEM_X_ERROR:
        return bad;
    default:
        stem_error(e->diags, STEM_E_NOT_A_CONST, x->span, "this is not a number");
        return bad;
    }
}

struct stem_dim stem_eval_int(const struct stem_eval *e, const struct stem_x *x)
{
    struct stem_num n = stem_eval(e, x);
    if (n.kind == STEM_NUM_FLOAT || n.kind == STEM_NUM_BOOL)
        stem_error(e->diags, STEM_E_NOT_A_CONST, x->span, "an integer is needed here");
    return n.kind == STEM_NUM_INT ? n.i : STEM_DIM_BAD;
}

bool stem_is_const(const struct stem_eval *e, const struct stem_x *x)
{
    struct stem_dim d;
    enum stem_global_kind g;
    switch (x->kind) {
    case STEM_X_INT:
    case STEM_X_FLOAT:
        return true;
    case STEM_X_NAME:
        g = stem_global_find(e->m, x->id.name).kind;
        return g == STEM_G_CONST || g == STEM_G_DIM || find_index(e, x->id.name, &d);
    case STEM_X_UNARY:
        return stem_is_const(e, x->a);
    case STEM_X_BINARY:
        return stem_is_const(e, x->a) && stem_is_const(e, x->b);
    case STEM_X_CALL:
        if (!stem_is_number_function(stem_name(e->m, x->id.name)) || !x->args)
            return false;
        for (const struct stem_arg *a = x->args; a; a = a->next)
            if (!stem_is_const(e, a->value))
                return false;
        return true;
    default:
        return false;
    }
}

/* ---- const definitions ---- */

static struct stem_num overridden(struct stem_module *m, const struct stem_module_const *c, struct stem_num usual)
{
    char *end;
    errno = 0;
    long long i = strtoll(c->override, &end, 0);
    if (*c->override && !*end && !errno) {
        if (usual.kind == STEM_NUM_FLOAT)
            return real((double)i, true);
        return integer(stem_dim_const(m->dims, i));
    }
    double f = strtod(c->override, &end);
    if (*c->override && !*end && isfinite(f) && usual.kind == STEM_NUM_FLOAT)
        return real(f, true);
    stem_error(m->diags, STEM_E_UNKNOWN_CONST, STEM_NOWHERE, "-D %s=%s: the value is not %s",
               stem_name(m, c->item->id.name), c->override,
               usual.kind == STEM_NUM_FLOAT ? "a number" : "an integer of 64 bits");
    stem_diag_label(m->diags, c->item->id.span, "the const is defined here");
    return bad;
}

static struct stem_num const_value(const struct stem_eval *e, uint32_t index, struct stem_span at)
{
    struct stem_module *m = e->m;
    struct stem_module_const *c = &m->consts.at[index];
    if (c->state == STEM_DONE)
        return c->value;
    if (c->state == STEM_DOING) {
        stem_error(m->diags, STEM_E_CONST_CYCLE, at, "'%s' is defined by itself", stem_name(m, c->item->id.name));
        stem_diag_label(m->diags, c->item->id.span, "defined here");
        return bad;
    }
    if (m->const_depth == STEM_MAX_CONST_DEPTH) {
        stem_error(m->diags, STEM_E_TOO_DEEP, at, "more than %d constants use each other before their definition",
                   STEM_MAX_CONST_DEPTH);
        return bad;
    }
    c->state = STEM_DOING;
    m->const_depth++;
    struct stem_eval own = {.m = m, .dims = m->dims, .diags = m->diags};
    struct stem_num v = stem_eval(&own, c->item->value);
    if (v.kind == STEM_NUM_BOOL) {
        stem_error(m->diags, STEM_E_NOT_A_CONST, c->item->value->span, "a const is a number, not a comparison");
        v = bad;
    }
    m->const_depth--;
    c->value = c->override && v.kind != STEM_NUM_BAD ? overridden(m, c, v) : v;
    c->rounding = v.kind == STEM_NUM_INT && !c->override ? stem_rounding(&own, c->item->value) : NULL;
    c->state = STEM_DONE;
    return c->value;
}

static void apply_override(struct stem_module *m, const struct stem_override *o)
{
    const char *names[256];
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->consts.len; i++) {
        const char *text = stem_name(m, m->consts.at[i].item->id.name);
        if (!strcmp(text, o->name)) {
            m->consts.at[i].override = o->value;
            return;
        }
        if (n < 256)
            names[n++] = text;
    }
    stem_error(m->diags, STEM_E_UNKNOWN_CONST, STEM_NOWHERE, "-D %s=%s: there is no const '%s'", o->name, o->value,
               o->name);
    for (uint32_t i = 0; i < m->dim_infos.len; i++)
        if (!strcmp(stem_name(m, m->dim_infos.at[i].name), o->name)) {
            stem_diag_help(m->diags, "'%s' is a dim: --dim %s=%s specialises the program for it", o->name, o->name, o->value);
            return;
        }
    stem_suggest(m->diags, o->name, names, n);
}

void stem_eval_consts(struct stem_module *m, const struct stem_override *overrides, uint32_t n)
{
    struct stem_eval e = {.m = m, .dims = m->dims, .diags = m->diags};
    for (uint32_t i = 0; i < n; i++)
        apply_override(m, &overrides[i]);
    for (uint32_t i = 0; i < m->consts.len; i++)
        if (const_value(&e, i, m->consts.at[i].item->id.span).kind == STEM_NUM_FLOAT && !m->consts.at[i].override)
            stem_warn_rounding(&e, m->consts.at[i].item->value);
}
