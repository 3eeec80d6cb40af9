/* SPDX-License-Identifier: Apache-2.0
 *
 * Checking calls: of ops, layers, kernels and extern functions. Operand modes are judged here, too.
 */
#include <stdio.h>
#include <string.h>

#include "sema/check.h"

static const struct stem_sval bad = {.bad = true};

/* What the callee does to an operand. */
struct need {
    const char *name;          /* of the parameter */
    enum stem_ast_mode mode;   /* IN, INOUT, CONSUME, RELEASE */
    struct stem_span declared; /* STEM_NOWHERE: built in */
};

bool stem_same_type(struct stem_checker *c, const struct stem_type *have, const struct stem_type *need,
                    struct stem_span at, const char *what)
{
    if (stem_type_same(have, need))
        return true;
    enum stem_diag_id id = STEM_E_SHAPE;
    if (have->dtype != need->dtype)
        id = STEM_E_DTYPE;
    else if (have->rank != need->rank)
        id = STEM_E_RANK;
    stem_error(c->m->diags, id, at, "%s must be %s, not %s", what, stem_type_text(&c->eval, need),
               stem_type_text(&c->eval, have));
    return false;
}

/* ---- modes ---- */

static const struct stem_ast_param *own_param(struct stem_checker *c, uint32_t i)
{
    const struct stem_ast_param *p = c->m->callables.at[c->callable].item->params;
    while (i--)
        p = p->next;
    return p;
}

/* The value's memory may be given up here. */
static void may_release(struct stem_checker *c, const struct stem_arg *a, struct stem_root root)
{
    const char *word = stem_ast_mode_text(a->mode);
    struct stem_diags *q = c->m->diags;
    if (root.kind == STEM_ROOT_TEMP)
        return;
    if (root.kind != STEM_ROOT_PARAM) {
        stem_error(q, STEM_E_RELEASE_BORROWED, a->span, "'%s' of a %s: the program's caller owns it", word,
                   root.kind == STEM_ROOT_WEIGHT ? "weight" : "state");
        return;
    }
    const struct stem_ast_param *p = own_param(c, root.index);
    if (p->mode == STEM_AST_RELEASE || (p->mode == STEM_AST_CONSUME && a->mode == STEM_AST_CONSUME))
        return;
    bool model = c->callable == c->m->model;
    const char *name = stem_name(c->m, p->id.name);
    stem_error(q, STEM_E_RELEASE_BORROWED, a->span, "'%s' of '%s', which the %s's caller owns", word, name,
               model ? "model" : "layer");
    stem_check_label_param(c, p);
    if (!model)
        stem_diag_help(q, "declare the parameter as `%s %s: ...` and let callers give it up", word, name);
}

static void may_write(struct stem_checker *c, const struct stem_arg *a, struct stem_root root)
{
    struct stem_diags *q = c->m->diags;
    stem_checker_wrote(c, root);
    if (root.kind == STEM_ROOT_TEMP || root.kind == STEM_ROOT_STATE)
        return;
    if (root.kind == STEM_ROOT_WEIGHT) {
        stem_error(q, STEM_E_WRITE_BORROWED, a->span, "a weight is constant: it cannot be written in place");
        return;
    }
    const struct stem_ast_param *p = own_param(c, root.index);
    if (p->mode == STEM_AST_INOUT || p->mode == STEM_AST_CONSUME || p->mode == STEM_AST_RELEASE)
        return;
    const char *name = stem_name(c->m, p->id.name);
    stem_error(q, STEM_E_WRITE_BORROWED, a->span, "'%s' belongs to the caller and may not be written in place", name);
    stem_check_label_param(c, p);
    stem_diag_help(q, "declare it as `inout %s: ...`, or write to a copy: inout copy(%s)", name, name);
}

static void mode_error(struct stem_checker *c, const struct stem_arg *a, const struct need *n)
{
    if (a->mode == STEM_AST_INOUT)
        stem_error(c->m->diags, STEM_E_MODE, a->span, "'%s' is only read: `inout` cannot stand here", n->name);
    else
        stem_error(c->m->diags, STEM_E_MODE, a->span, "'%s' needs `%s` at the call", n->name,
                   stem_ast_mode_text(n->mode));
    if (n->declared.begin != UINT32_MAX)
        stem_diag_label(c->m->diags, n->declared, "declared here");
}

static void check_mode(struct stem_checker *c, const struct stem_arg *a, const struct need *n, struct stem_root root)
{
    bool fine = n->mode == STEM_AST_IN        ? a->mode != STEM_AST_INOUT
                : n->mode == STEM_AST_CONSUME ? a->mode == STEM_AST_CONSUME || a->mode == STEM_AST_RELEASE
                                              : a->mode == n->mode;
    uint32_t errors = stem_diags_errors(c->m->diags);
    if (!fine)
        mode_error(c, a, n);
    else if (a->mode == STEM_AST_INOUT)
        may_write(c, a, root);
    else if (a->mode == STEM_AST_RELEASE || a->mode == STEM_AST_CONSUME)
        may_release(c, a, root);
    if (fine && stem_diags_errors(c->m->diags) != errors)
        stem_check_label_carried(c, a->value);
}

/* Whoever writes a part in place must know strides. */
static void may_write_slice(struct stem_checker *c, const struct stem_arg *a, struct stem_sval v)
{
    if (a->mode != STEM_AST_INOUT || !v.slice)
        return;
    stem_error(c->m->diags, STEM_E_WRITE_BORROWED, a->span, "a slice with gaps cannot be written in place here");
    stem_diag_help(c->m->diags, "pass the whole tensor, or a slice of its first size");
}

static void add_result(struct stem_results *r, struct stem_sval v)
{
    if (r->n < sizeof r->v / sizeof *r->v)
        r->v[r->n++] = v;
}

static void add_inout(struct stem_results *r, const struct stem_arg *a, struct stem_sval v)
{
    if (r->n_inout == STEM_MAX_LAYER_PARAMS)
        return;
    r->inout[r->n_inout++] = a->value;
    v.computed = true;
    add_result(r, v);
}

static uint32_t n_operands(const struct stem_x *x)
{
    uint32_t n = 0;
    for (const struct stem_arg *a = x->args; a; a = a->next)
        n += a->attr.name.n == 0;
    return n;
}

/* ---- built-in ops ---- */

static bool attr_number(struct stem_checker *c, const struct stem_attr_def *def, const struct stem_arg *a,
                        struct stem_attr *out)
{
    bool is_int;
    struct stem_num n = stem_eval(&c->eval, a->value);
    if (n.kind == STEM_NUM_BAD)
        return false;
    if (n.kind == STEM_NUM_INT && def->type != STEM_ATTR_TYPE_FLOAT) {
        if (stem_dim_value(c->eval.dims, n.i, &out->i))
            return true;
        stem_error(c->m->diags, STEM_E_BAD_ATTR, a->value->span, "'%s' cannot depend on a dim or an index",
                   def->name);
        return false;
    }
    if (def->type == STEM_ATTR_TYPE_FLOAT && n.kind != STEM_NUM_BOOL) {
        stem_warn_rounding(&c->eval, a->value);
        if (!stem_num_plain(c->eval.dims, n, &is_int, &out->i, &out->f))
            out->f = 1; /* known when expanding */
        return true;
    }
    stem_error(c->m->diags, STEM_E_BAD_ATTR, a->value->span, "'%s' needs %s", def->name,
               def->type == STEM_ATTR_TYPE_FLOAT ? "a number" : "an integer");
    return false;
}

static bool attr_word(struct stem_checker *c, const struct stem_attr_def *def, const struct stem_arg *a,
                      struct stem_attr *out)
{
    const char *names[STEM_N_DTYPES];
    const char *const *words = def->words;
    uint32_t n = 0;
    if (def->type == STEM_ATTR_TYPE_DTYPE) {
        for (; n < STEM_N_DTYPES; n++)
            names[n] = stem_dtype_name((enum stem_dtype)n);
        words = names;
    } else {
        while (words && words[n])
            n++;
    }
    out->text = a->value->kind == STEM_X_NAME ? stem_name(c->m, a->value->id.name) : NULL;
    for (uint32_t i = 0; out->text && i < n; i++)
        if (!strcmp(words[i], out->text))
            return true;
    if (out->text && !words)
        return true;
    struct stem_out o = {0};
    for (uint32_t i = 0; i < n; i++)
        stem_out_printf(&o, "%s%s", i == 0 ? "" : i + 1 == n ? " or " : ", ", words[i]);
    stem_error(c->m->diags, STEM_E_BAD_ATTR, a->value->span, "'%s' must be %s", def->name, stem_out_text(&o));
    stem_out_free(&o);
    if (out->text)
        stem_suggest(c->m->diags, out->text, words, n);
    return false;
}

static bool attr_bool(struct stem_checker *c, const struct stem_attr_def *def, const struct stem_arg *a,
                      struct stem_attr *out)
{
    const char *text = a->value->kind == STEM_X_NAME ? stem_name(c->m, a->value->id.name) : "";
    out->i = !strcmp(text, "true");
    if (out->i || !strcmp(text, "false"))
        return true;
    if (stem_is_const(&c->eval, a->value) && attr_number(c, def, a, out)) {
        out->i = out->i != 0;
        return true;
    }
    stem_error(c->m->diags, STEM_E_BAD_ATTR, a->value->span, "'%s' must be true or false", def->name);
    return false;
}

static bool duplicate(struct stem_checker *c, const struct stem_x *x, const struct stem_arg *a)
{
    for (const struct stem_arg *b = x->args; b != a; b = b->next)
        if (stem_sym_eq(b->attr.name, a->attr.name)) {
            stem_error(c->m->diags, STEM_E_TWICE, a->span, "'%s' is given twice", stem_name(c->m, a->attr.name));
            return true;
        }
    return false;
}

/* One named argument into its place in attrs. */
static bool op_attr(struct stem_checker *c, const struct stem_op_def *def, const struct stem_x *x,
                    const struct stem_arg *a, struct stem_attr *attrs, bool *given)
{
    const char *text = stem_name(c->m, a->attr.name), *names[STEM_MAX_ATTRS];
    for (uint32_t i = 0; i < def->n_attrs; i++) {
        const struct stem_attr_def *d = &def->attrs[i];
        names[i] = d->name;
        if (strcmp(d->name, text) || d->type == STEM_ATTR_TYPE_EXPR)
            continue;
        given[i] = true;
        if (duplicate(c, x, a))
            return false;
        if (d->type == STEM_ATTR_TYPE_INT || d->type == STEM_ATTR_TYPE_FLOAT)
            return attr_number(c, d, a, &attrs[i]);
        return d->type == STEM_ATTR_TYPE_BOOL ? attr_bool(c, d, a, &attrs[i]) : attr_word(c, d, a, &attrs[i]);
    }
    stem_error(c->m->diags, STEM_E_UNKNOWN_ATTR, a->attr.span, "'%s' has no attribute '%s'", def->name, text);
    if (stem_nearest(text, names, def->n_attrs))
        stem_suggest(c->m->diags, text, names, def->n_attrs);
    else
        stem_check_list_attrs(c, def);
    return false;
}

static bool op_attrs(struct stem_checker *c, const struct stem_op_def *def, const struct stem_x *x,
                     struct stem_attr *attrs)
{
    bool given[STEM_MAX_ATTRS] = {false}, fine = true;
    stem_op_attr_defaults(def, attrs);
    for (const struct stem_arg *a = x->args; a; a = a->next)
        if (a->attr.name.n)
            fine &= op_attr(c, def, x, a, attrs, given);
    for (uint32_t i = 0; i < def->n_attrs; i++)
        if (def->attrs[i].required && !given[i]) {
            stem_error(c->m->diags, STEM_E_MISSING_ATTR, x->id.span, "'%s' needs the attribute '%s'", def->name,
                       def->attrs[i].name);
            fine = false;
        }
    return fine;
}

static bool is_absent(const struct stem_checker *c, const struct stem_arg *a)
{
    return a->value->kind == STEM_X_NAME && !strcmp(stem_name(c->m, a->value->id.name), "_");
}

/* Operands of an op into `in`; false if one is bad. */
static bool op_operands(struct stem_checker *c, const struct stem_op_def *def, const struct stem_x *x,
                        struct stem_type *in, struct stem_span *at, uint32_t *n, struct stem_results *r)
{
    bool fine = true;
    *n = 0;
    if (n_operands(x) > STEM_MAX_OPERANDS) {
        stem_error(c->m->diags, STEM_E_TOO_MANY_OPERANDS, x->id.span, "more than %d operands", STEM_MAX_OPERANDS);
        return false;
    }
    for (const struct stem_arg *a = x->args; a; a = a->next) {
        if (a->attr.name.n)
            continue;
        const struct stem_param *p = stem_op_param(def, *n);
        at[*n] = a->value->span;
        if (is_absent(c, a)) {
            in[(*n)++] = (struct stem_type){.dtype = STEM_N_DTYPES};
            continue;
        }
        struct stem_sval v = stem_check_expr(c, a->value);
        fine &= !v.bad;
        in[(*n)++] = v.type;
        if (!p || v.bad)
            continue;
        struct need need = {p->name, STEM_AST_IN, STEM_NOWHERE};
        need.mode = p->mode == STEM_MODE_INOUT     ? STEM_AST_INOUT
                    : p->mode == STEM_MODE_CONSUME ? STEM_AST_CONSUME
                                                   : STEM_AST_IN;
        check_mode(c, a, &need, v.root);
        if (!p->any_stride)
            may_write_slice(c, a, v);
        if (need.mode == STEM_AST_INOUT)
            add_inout(r, a, v);
    }
    return fine;
}

static void call_op(struct stem_checker *c, const struct stem_op_def *def, const struct stem_x *x,
                    struct stem_results *r)
{
    struct stem_type in[STEM_MAX_OPERANDS];
    struct stem_span at[STEM_MAX_OPERANDS];
    struct stem_attr attrs[STEM_MAX_ATTRS];
    uint32_t n;
    bool fine = op_operands(c, def, x, in, at, &n, r);
    fine &= op_attrs(c, def, x, attrs);
    r->bad = !fine;
    if (!fine)
        return;
    struct stem_infer i = {.dims = c->eval.dims,
                           .strings = c->m->strings,
                           .diags = c->m->diags,
                           .span = x->id.span,
                           .operand_span = at,
                           .in = in,
                           .n_in = n,
                           .attrs = attrs};
    r->bad = !stem_op_infer(def, &i);
    if (r->bad)
        stem_check_show_operands(c, def, in, n);
    for (uint32_t k = 0; !r->bad && k < i.n_out; k++) {
        r->bad = !stem_type_possible(&c->eval, &i.out[k], x->id.span);
        add_result(r, (struct stem_sval){.type = i.out[k], .computed = true});
    }
}

/* zero(f32[T, 64]): its operand is a type. */
static void call_zero(struct stem_checker *c, const struct stem_x *x, struct stem_results *r)
{
    struct stem_sval v = {.computed = true};
    if (!x->args || x->args->next || x->args->attr.name.n || x->args->mode != STEM_AST_NONE) {
        stem_error(c->m->diags, STEM_E_ARITY, x->id.span, "'zero' takes one type: zero(f32[4, 64])");
        r->bad = true;
        return;
    }
    r->bad = !stem_eval_type_expr(&c->eval, x->args->value, &v.type);
    add_result(r, v);
}

/* ---- functions of the file ---- */

static enum stem_ast_mode written_mode(const struct stem_ast_param *p)
{
    return p->mode == STEM_AST_NONE ? STEM_AST_IN : p->mode;
}

/* Parameters that the call gives an operand for. */
static bool is_operand(const struct stem_ast_param *p)
{
    return p->mode != STEM_AST_OUT && p->mode != STEM_AST_WORKSPACE;
}

/* `counted`: the operands are as many as there must be; if not, a scalar may be among them. */
static void scalar_args(struct stem_checker *c, const struct stem_callable *f, const struct stem_x *x, bool counted,
                        struct stem_results *r)
{
    const char *names[STEM_MAX_OPERANDS], *callee = stem_name(c->m, x->id.name);
    uint32_t n = 0;
    for (const struct stem_ast_param *p = f->item->scalars; p && n < STEM_MAX_OPERANDS; p = p->next)
        names[n++] = stem_name(c->m, p->id.name);
    for (const struct stem_arg *a = x->args; a; a = a->next) {
        const struct stem_ast_param *p = f->item->scalars;
        if (!a->attr.name.n)
            continue;
        while (p && !stem_sym_eq(p->id.name, a->attr.name))
            p = p->next;
        if (!p) {
            stem_error(c->m->diags, STEM_E_UNKNOWN_ATTR, a->attr.span, "'%s' has no scalar parameter '%s'", callee,
                       stem_name(c->m, a->attr.name));
            if (!stem_suggest(c->m->diags, stem_name(c->m, a->attr.name), names, n))
                stem_check_list_scalars(c, f);
        } else if (!duplicate(c, x, a)) {
            stem_check_scalar(&c->eval, p, a->value);
        }
    }
    for (const struct stem_ast_param *p = f->item->scalars; p; p = p->next) {
        const struct stem_arg *a = x->args;
        while (a && !stem_sym_eq(a->attr.name, p->id.name))
            a = a->next;
        if (a || p->value || !counted)
            continue;
        stem_error(c->m->diags, STEM_E_MISSING_ATTR, x->id.span, "'%s' needs the scalar '%s'", callee,
                   stem_name(c->m, p->id.name));
        stem_diag_label(c->m->diags, p->span, "declared here, without a default");
        r->bad = true;
    }
}

/* Root of a layer's result as the caller sees it. */
static struct stem_root seen_root(struct stem_root inner, const struct stem_sval *args)
{
    if (inner.kind == STEM_ROOT_STATE)
        inner.index = STEM_STATE_FOREIGN;
    return inner.kind == STEM_ROOT_PARAM ? args[inner.index].root : inner;
}

static void call_operands(struct stem_checker *c, const struct stem_callable *f, const struct stem_x *x,
                          struct stem_sval *v, struct stem_results *r)
{
    const struct stem_ast_param *p = f->item->params;
    uint32_t i = 0;
    for (const struct stem_arg *a = x->args; a; a = a->next) {
        if (a->attr.name.n)
            continue;
        for (; p && !is_operand(p); p = p->next)
            i++;
        bool number = stem_is_const(&c->eval, a->value);
        if (!p && number) /* one too many, and so it was said */
            continue;
        struct stem_sval have = stem_check_expr(c, a->value);
        if (!p)
            continue;
        if (number)
            stem_check_label_scalar(c, f, p);
        struct need need = {stem_name(c->m, p->id.name), written_mode(p), p->span};
        char what[80];
        snprintf(what, sizeof what, "'%.60s'", need.name);
        v[i] = have;
        if (have.bad) {
            r->bad = true;
        } else {
            if (f->param_type[i].dtype != STEM_N_DTYPES &&
                !stem_same_type(c, &have.type, &f->param_type[i], a->value->span, what))
                stem_diag_label(c->m->diags, p->span, "declared here");
            check_mode(c, a, &need, have.root);
            if (f->item->kind != STEM_I_LAYER)
                may_write_slice(c, a, have);
        }
        if (need.mode == STEM_AST_INOUT)
            add_inout(r, a, have);
        p = p->next;
        i++;
    }
}

/* Operands that the call gives, against those that it must give. */
static bool count_operands(struct stem_checker *c, const struct stem_callable *f, const struct stem_x *x)
{
    uint32_t have = n_operands(x), need = 0;
    for (const struct stem_ast_param *p = f->item->params; p; p = p->next)
        need += is_operand(p);
    if (have == need)
        return true;
    stem_error(c->m->diags, STEM_E_ARITY, x->id.span, "'%s' takes %u operand%s, not %u", stem_name(c->m, x->id.name),
               need, need == 1 ? "" : "s", have);
    stem_diag_label(c->m->diags, f->item->id.span, "declared here");
    stem_check_help_scalars(c, f, x, have, need);
    return false;
}

static void instance_index(struct stem_checker *c, const struct stem_callable *f, const struct stem_x *x)
{
    int64_t low, high;
    uint32_t have = 0, need = 0;
    for (const struct stem_sub *s = x->subs; s; s = s->next)
        have++;
    for (const struct stem_ast_target *t = f->item->indices; t; t = t->next)
        need++;
    if (need && have != need) {
        stem_error(c->m->diags, STEM_E_INDEX_COUNT, x->id.span, "layer '%s' names %u part%s of its index, not %u",
                   stem_name(c->m, x->id.name), need, need == 1 ? "" : "s", have);
        stem_diag_label(c->m->diags, f->item->indices->id.span, "here");
    }
    if (!x->subs)
        return;
    if (f->item->kind != STEM_I_LAYER) {
        stem_error(c->m->diags, STEM_E_BAD_CALLEE, x->id.span, "only a layer has instances: '%s' is none",
                   stem_name(c->m, x->id.name));
        return;
    }
    struct stem_eval e = c->eval;
    e.dim_value = NULL; /* weights are the same for all values of the dims */
    for (const struct stem_sub *s = x->subs; s; s = s->next) {
        struct stem_dim d = stem_eval_int(&e, s->low);
        if (!d.n)
            continue;
        stem_dim_bounds(e.dims, d, &low, &high);
        if (low < 0)
            stem_error(c->m->diags, STEM_E_BAD_SLICE, s->span, "the index of a layer cannot be negative");
    }
}

static void call_callable(struct stem_checker *c, uint32_t index, const struct stem_x *x, struct stem_results *r)
{
    struct stem_sval v[STEM_MAX_LAYER_PARAMS] = {{0}};
    if (c->m->callables.at[index].state != STEM_DONE) { /* recursion: reported */
        r->bad = true;
        return;
    }
    const struct stem_callable *f = &c->m->callables.at[index];
    struct stem_callable *own = &c->m->callables.at[c->callable];
    if (f->item->kind == STEM_I_MODEL) {
        stem_error(c->m->diags, STEM_E_BAD_CALLEE, x->id.span, "a model cannot be called; make it a layer");
        r->bad = true;
        return;
    }
    if (f->segment_stmt) {
        if (c->eagers) {
            stem_error(c->m->diags, STEM_E_IN_EAGER, x->id.span, "'%s' ends segments, and this is an eager block",
                       stem_name(c->m, x->id.name));
            stem_diag_label(c->m->diags, f->segment_stmt->head, "here");
        }
        own->segment_stmt = own->segment_stmt ? own->segment_stmt : f->segment_stmt;
    }
    instance_index(c, f, x);
    bool counted = count_operands(c, f, x);
    r->bad = !counted;
    if (f->n_params > STEM_MAX_LAYER_PARAMS || f->n_results > STEM_MAX_LAYER_PARAMS) {
        r->bad = true; /* reported at the declaration */
        return;
    }
    call_operands(c, f, x, v, r);
    scalar_args(c, f, x, counted, r);
    for (uint32_t i = 0; i < f->n_results; i++) {
        struct stem_sval out = {
            .type = f->result_type[i], .computed = true, .bad = f->result_type[i].dtype == STEM_N_DTYPES};
        if (f->result_root)
            out.root = seen_root(f->result_root[i], v);
        add_result(r, out);
    }
}

/* ---- which one ---- */

void stem_check_call(struct stem_checker *c, const struct stem_x *x, struct stem_results *r)
{
    uint32_t n_args = 0;
    r->n = r->n_inout = 0;
    r->bad = false;
    for (const struct stem_arg *a = x->args; a; a = a->next)
        n_args++;
    if (n_args > STEM_MAX_ARGS) {
        stem_error(c->m->diags, STEM_E_TOO_MANY_OPERANDS, x->id.span, "%u arguments; a call has at most %d", n_args,
                   STEM_MAX_ARGS);
        r->bad = true;
        return;
    }
    if (x->kind != STEM_X_CALL) {
        r->v[r->n++] = stem_check_expr(c, x);
        r->bad = r->v[0].bad;
        return;
    }
    const char *name = stem_name(c->m, x->id.name);
    struct stem_global g = stem_global_find(c->m, x->id.name);
    if (g.kind == STEM_G_CALLABLE) {
        call_callable(c, g.index, x, r);
        return;
    }
    const struct stem_op_def *def = stem_op_find(name);
    bool is_zero = def && !strcmp(name, "zero");
    if (def && (!def->internal || is_zero)) {
        if (x->subs)
            stem_error(c->m->diags, STEM_E_BAD_CALLEE, x->id.span, "only a layer has instances: '%s' is an op", name);
        if (is_zero)
            call_zero(c, x, r);
        else
            call_op(c, def, x, r);
        return;
    }
    stem_check_unknown(c, x);
    for (const struct stem_arg *a = x->args; a; a = a->next) /* numbers may be what it would take */
        if (!a->attr.name.n && !is_absent(c, a) && !stem_is_const(&c->eval, a->value))
            stem_check_expr(c, a->value);
    r->bad = true;
    r->v[0] = bad;
}
