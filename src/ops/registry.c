/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ops/epilogue.h"
#include "ops/headers.h"
#include "ops/op.h"

#define STEM_OP(name) extern const struct stem_op_def stem_op_##name;
#include "ops/ops.def"
#undef STEM_OP

static const struct stem_op_def *const all[] = {
#define STEM_OP(name) &stem_op_##name,
#include "ops/ops.def"
#undef STEM_OP
};

const struct stem_op_def *const *stem_op_all(uint32_t *n)
{
    *n = sizeof all / sizeof *all;
    return all;
}

const struct stem_op_def *stem_op_find(const char *name)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i]->name, name))
            return all[i];
    return NULL;
}

const char *stem_op_header(const char *name)
{
    const struct stem_header *h = stem_headers;
    while (h->name && strcmp(h->name, name))
        h++;
    return h->text;
}

const struct stem_attr *stem_op_attr(const struct stem_op_def *def, const struct stem_attr *attrs, const char *name)
{
    for (uint32_t i = 0; i < def->n_attrs; i++)
        if (!strcmp(def->attrs[i].name, name))
            return &attrs[i];
    abort();
}

uint32_t stem_op_n_results(const struct stem_op_def *def)
{
    uint32_t n = 0;
    while (n < sizeof def->results / sizeof *def->results && def->results[n])
        n++;
    return n;
}

const struct stem_param *stem_op_param(const struct stem_op_def *def, uint32_t i)
{
    static const struct stem_param more = {"more", STEM_MODE_IN, false, false};
    if (i < def->n_params)
        return &def->params[i];
    if (def->epilogue)
        return &more;
    return def->variadic ? &def->params[def->n_params - 1] : NULL;
}

static struct stem_attr default_of(const struct stem_attr_def *a)
{
    struct stem_attr v = {.name = a->name};
    switch (a->type) {
    case STEM_ATTR_TYPE_INT:
    case STEM_ATTR_TYPE_BOOL:
        v.kind = STEM_ATTR_INT;
        v.i = (int64_t)a->number;
        break;
    case STEM_ATTR_TYPE_FLOAT:
        v.kind = STEM_ATTR_FLOAT;
        v.f = a->number;
        break;
    default:
        v.kind = STEM_ATTR_TEXT;
        v.text = a->word;
    }
    return v;
}

void stem_op_attr_defaults(const struct stem_op_def *def, struct stem_attr *attrs)
{
    for (uint32_t i = 0; i < def->n_attrs; i++)
        attrs[i] = default_of(&def->attrs[i]);
}

static bool check_attr(struct stem_infer *c, const struct stem_op_def *def, uint32_t i)
{
    const struct stem_attr_def *a = &def->attrs[i];
    const struct stem_attr *v = &c->attrs[i];
    if (v->kind != STEM_ATTR_TEXT)
        return true;
    if (!v->text && a->required) {
        stem_error(c->diags, STEM_E_OP_ATTR, c->span, "%s needs the attribute '%s'", def->name, a->name);
        return false;
    }
    if (v->text && a->type == STEM_ATTR_TYPE_DTYPE && stem_dtype_from_name(v->text) == STEM_N_DTYPES) {
        stem_error(c->diags, STEM_E_OP_ATTR, c->span, "%s: %s = %s is not a dtype", def->name, a->name, v->text);
        return false;
    }
    uint32_t n = 0;
    if (!v->text || a->type != STEM_ATTR_TYPE_WORD || !a->words)
        return true;
    for (; a->words[n]; n++)
        if (!strcmp(a->words[n], v->text))
            return true;
    stem_error(c->diags, STEM_E_OP_ATTR, c->span, "%s: %s = %s is not known", def->name, a->name, v->text);
    const char *near = stem_nearest(v->text, a->words, n);
    if (near)
        stem_diag_help(c->diags, "did you mean '%s'?", near);
    return false;
}

/* How an op is called, and what a call may leave out before other operands. */
static void help_operands(const struct stem_op_def *def, struct stem_diags *q, uint32_t least)
{
    struct stem_out names = {0}, absent = {0};
    for (uint32_t i = 0; i < def->n_params; i++) {
        stem_out_printf(&names, "%s%s", i ? ", " : "", def->params[i].name);
        if (def->params[i].optional && i < least)
            stem_out_printf(&absent, "%s%s", absent.len ? " or " : "", def->params[i].name);
    }
    if (absent.len)
        stem_diag_help(q, "the operands are %s; `_` stands for %s where it is left out", stem_out_text(&names),
                       stem_out_text(&absent));
    else if (def->n_params)
        stem_diag_help(q, "the operands are %s", stem_out_text(&names));
    stem_out_free(&names);
    stem_out_free(&absent);
}

bool stem_op_infer(const struct stem_op_def *def, struct stem_infer *c)
{
    uint32_t least = 0;
    for (uint32_t i = 0; i < def->n_params; i++)
        least = def->params[i].optional ? least : i + 1;
    bool then = def->epilogue && stem_op_attr(def, c->attrs, "then")->text;
    uint32_t most = def->variadic || then ? STEM_MAX_OPERANDS - stem_op_n_results(def) : def->n_params;
    if (c->n_in < least || c->n_in > most) {
        stem_error(c->diags, STEM_E_OP_ARITY, c->span, "%s takes %s%u operand%s, not %u", def->name,
                   least == most     ? ""
                   : c->n_in < least ? "at least "
                                     : "at most ",
                   c->n_in < least ? least : most, (c->n_in < least ? least : most) == 1 ? "" : "s", c->n_in);
        help_operands(def, c->diags, least);
        return false;
    }
    for (uint32_t i = 0; i < c->n_in; i++)
        if (c->in[i].dtype == STEM_N_DTYPES && !stem_op_param(def, i)->optional) {
            stem_error(c->diags, STEM_E_OP_ARITY, c->operand_span[i], "%s needs its operand '%s'", def->name,
                       stem_op_param(def, i)->name);
            return false;
        }
    for (uint32_t i = 0; i < def->n_attrs; i++)
        if (!check_attr(c, def, i))
            return false;
    c->n_out = stem_op_n_results(def);
    return def->infer(c) && (!then || stem_epilogue_infer(c, def));
}
