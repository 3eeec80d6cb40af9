/* SPDX-License-Identifier: Apache-2.0
 *
 * Help for a call: what it gives, against what its callee takes.
 */
#include <string.h>

#include "sema/check.h"

void stem_check_list_attrs(struct stem_checker *c, const struct stem_op_def *def)
{
    struct stem_out o = {0};
    for (uint32_t i = 0; i < def->n_attrs; i++)
        if (def->attrs[i].type != STEM_ATTR_TYPE_EXPR)
            stem_out_printf(&o, "%s%s", stem_out_text(&o)[0] ? ", " : "", def->attrs[i].name);
    stem_diag_help(c->m->diags, stem_out_text(&o)[0] ? "%s has %s" : "%s has no attributes%s", def->name,
                   stem_out_text(&o));
    stem_out_free(&o);
}

void stem_check_show_operands(struct stem_checker *c, const struct stem_op_def *def, const struct stem_type *in, uint32_t n)
{
    struct stem_out o = {0};
    for (uint32_t i = 0; i < n; i++) {
        const struct stem_param *p = stem_op_param(def, i);
        if (p && in[i].dtype != STEM_N_DTYPES)
            stem_out_printf(&o, "%s%s: %s", o.len ? ", " : "", p->name, stem_type_text(&c->eval, &in[i]));
    }
    const struct stem_diags *q = c->m->diags;
    uint32_t id = stem_diags_count(q) ? stem_diags_get(q, stem_diags_count(q) - 1)->id : 0;
    if (n > 1 && id != STEM_E_OP_ATTR && id != STEM_E_OP_ARITY)
        stem_diag_help(c->m->diags, "given are %s", stem_out_text(&o));
    stem_out_free(&o);
}

/* ---- scalars of kernels and extern functions ---- */

/* An operand that was hardly meant to be one: a single number, without a mode. */
static bool like_scalar(const struct stem_checker *c, const struct stem_ast_param *p)
{
    const char *type = stem_name(c->m, p->type.dtype.name);
    return p->mode == STEM_AST_NONE && !p->type.dims && (!strcmp(type, "f32") || !strcmp(type, "i32") || !strcmp(type, "i64"));
}

static bool has_scalars(const struct stem_callable *f)
{
    return f->item->kind == STEM_I_KERNEL || f->item->kind == STEM_I_EXTERN;
}

void stem_check_label_scalar(struct stem_checker *c, const struct stem_callable *f, const struct stem_ast_param *p)
{
    const char *name = stem_name(c->m, p->id.name);
    if (!has_scalars(f) || !like_scalar(c, p))
        return;
    stem_diag_label(c->m->diags, p->span, "this declares an operand");
    stem_diag_help(c->m->diags, "scalars are declared behind a ';', `(...; %s: %s)`, and given by name, `%s = ...`", name,
                   stem_name(c->m, p->type.dtype.name), name);
}

void stem_check_list_scalars(struct stem_checker *c, const struct stem_callable *f)
{
    struct stem_out o = {0};
    for (const struct stem_ast_param *p = f->item->scalars; p; p = p->next)
        stem_out_printf(&o, "%s%s", o.len ? ", " : "", stem_name(c->m, p->id.name));
    if (has_scalars(f))
        stem_diag_help(c->m->diags, o.len ? "'%s' has %s" : "'%s' has no scalars%s", stem_name(c->m, f->item->id.name),
                       stem_out_text(&o));
    stem_out_free(&o);
}

static bool is_given(const struct stem_x *x, struct stem_sym name)
{
    for (const struct stem_arg *a = x->args; a; a = a->next)
        if (stem_sym_eq(a->attr.name, name))
            return true;
    return false;
}

void stem_check_help_scalars(struct stem_checker *c, const struct stem_callable *f, const struct stem_x *x, uint32_t have,
                             uint32_t need)
{
    for (const struct stem_ast_param *p = f->item->params; p && have < need; p = p->next)
        if (like_scalar(c, p)) {
            stem_check_label_scalar(c, f, p);
            return;
        }
    const struct stem_ast_param *scalar = f->item->scalars;
    for (const struct stem_arg *a = x->args; a && have > need; a = a->next) {
        uint32_t len = a->value->span.end - a->value->span.begin;
        if (a->attr.name.n || !stem_is_const(&c->eval, a->value))
            continue;
        while (scalar && is_given(x, scalar->id.name))
            scalar = scalar->next;
        if (!scalar || len > 60)
            return;
        if (a->value->kind == STEM_X_FLOAT && strcmp(stem_name(c->m, scalar->type.dtype.name), "f32"))
            continue;
        stem_diag_help(c->m->diags, "a scalar is given by name: %s = %.*s", stem_name(c->m, scalar->id.name), (int)len,
                       c->m->ast->source->text + a->value->span.begin);
        scalar = scalar->next;
    }
}
