/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree as text again.
 */
#include "ast/ast.h"

#include <inttypes.h>

struct printer {
    const struct stem_strtab *strings;
    const struct stem_source *source;
    struct stem_out *o;
    int indent;
};

static const struct {
    const char *text;
    int precedence;
} ops[] = {
#define X(suffix, text, precedence) {text, precedence},
    STEM_X_OPS(X)
#undef X
};

const char *stem_x_op_text(enum stem_x_op op)
{
    return ops[op].text;
}

const char *stem_ast_mode_text(enum stem_ast_mode m)
{
    static const char *const text[] = {"", "in", "out", "inout", "consume", "release", "workspace"};
    return text[m];
}

static void name(struct printer *p, struct stem_ident id)
{
    stem_out_str(p->o, stem_sym_str(p->strings, id.name));
}

static void mode(struct printer *p, enum stem_ast_mode m)
{
    if (m != STEM_AST_NONE)
        stem_out_printf(p->o, "%s ", stem_ast_mode_text(m));
}

static void expr(struct printer *p, const struct stem_x *x, int outer);

static void exprs(struct printer *p, const struct stem_x *x)
{
    for (; x; x = x->next) {
        expr(p, x, 0);
        if (x->next)
            stem_out_str(p->o, ", ");
    }
}

static void subs(struct printer *p, const struct stem_sub *s)
{
    stem_out_char(p->o, '[');
    for (; s; s = s->next) {
        if (s->low)
            expr(p, s->low, 0);
        if (s->range)
            stem_out_char(p->o, ':');
        if (s->high)
            expr(p, s->high, 0);
        if (s->next)
            stem_out_str(p->o, ", ");
    }
    stem_out_char(p->o, ']');
}

static void call(struct printer *p, const struct stem_x *x)
{
    name(p, x->id);
    if (x->subs)
        subs(p, x->subs);
    stem_out_char(p->o, '(');
    for (const struct stem_arg *a = x->args; a; a = a->next) {
        mode(p, a->mode);
        if (a->attr.name.n) {
            name(p, a->attr);
            stem_out_str(p->o, " = ");
        }
        expr(p, a->value, 0);
        if (a->next)
            stem_out_str(p->o, ", ");
    }
    stem_out_char(p->o, ')');
}

static void operation(struct printer *p, const struct stem_x *x, int outer)
{
    int own = ops[x->op].precedence;
    bool parens = own < outer;
    if (parens)
        stem_out_char(p->o, '(');
    if (x->kind == STEM_X_UNARY) {
        stem_out_str(p->o, ops[x->op].text);
        expr(p, x->a, own);
    } else {
        expr(p, x->a, own);
        stem_out_printf(p->o, " %s ", ops[x->op].text);
        expr(p, x->b, own + 1);
    }
    if (parens)
        stem_out_char(p->o, ')');
}

/* `outer`: the precedence around it; what binds less tightly gets parentheses. */
static void expr(struct printer *p, const struct stem_x *x, int outer)
{
    switch (x->kind) {
    case STEM_X_ERROR:
        stem_out_str(p->o, "<error>");
        break;
    case STEM_X_INT:
        stem_out_printf(p->o, "%" PRId64, x->i);
        break;
    case STEM_X_FLOAT:
        stem_out_str(p->o, x->text);
        break;
    case STEM_X_NAME:
        name(p, x->id);
        break;
    case STEM_X_UNARY:
    case STEM_X_BINARY:
        operation(p, x, outer);
        break;
    case STEM_X_CALL:
        call(p, x);
        break;
    case STEM_X_SLICE:
        expr(p, x->a, 8);
        subs(p, x->subs);
        break;
    case STEM_X_VIEW:
        stem_out_str(p->o, "view(");
        expr(p, x->a, 0);
        stem_out_str(p->o, ", [");
        exprs(p, x->shape);
        stem_out_str(p->o, "])");
        break;
    }
}

void stem_x_print(const struct stem_x *x, const struct stem_strtab *strings, struct stem_out *o)
{
    expr(&(struct printer){.strings = strings, .o = o}, x, 0);
}

static void line(struct printer *p)
{
    stem_out_char(p->o, '\n');
    for (int i = 0; i < p->indent; i++)
        stem_out_str(p->o, "  ");
}

static void type(struct printer *p, const struct stem_ast_type *t)
{
    name(p, t->dtype);
    if (!t->dims)
        return;
    stem_out_char(p->o, '[');
    exprs(p, t->dims);
    stem_out_char(p->o, ']');
}

static void string(struct printer *p, const char *text)
{
    stem_out_char(p->o, '"');
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            stem_out_char(p->o, '\\');
        stem_out_char(p->o, *c);
    }
    stem_out_char(p->o, '"');
}

static void params(struct printer *p, const struct stem_ast_param *q)
{
    for (; q; q = q->next) {
        mode(p, q->mode);
        if (q->id.name.n) {
            name(p, q->id);
            stem_out_str(p->o, ": ");
        }
        type(p, &q->type);
        if (q->value) {
            stem_out_str(p->o, " = ");
            expr(p, q->value, 0);
        }
        if (q->from) {
            stem_out_str(p->o, " = ");
            string(p, q->from);
        }
        if (q->next)
            stem_out_str(p->o, ", ");
    }
}

static void targets(struct printer *p, const struct stem_ast_target *t)
{
    for (; t; t = t->next) {
        name(p, t->id);
        if (t->next)
            stem_out_str(p->o, ", ");
    }
}

/* Each modifier with a blank before it, or after it. */
static void mods(struct printer *p, const struct stem_mods *m, const char *before, const char *after)
{
    if (m->on.name.n) {
        stem_out_printf(p->o, "%son ", before);
        name(p, m->on);
        stem_out_str(p->o, after);
    }
    if (m->after) {
        stem_out_printf(p->o, "%safter ", before);
        targets(p, m->after);
        stem_out_str(p->o, after);
    }
    if (m->priority) {
        stem_out_printf(p->o, "%spriority ", before);
        expr(p, m->priority, 5);
        stem_out_str(p->o, after);
    }
    if (m->resource.name.n) {
        stem_out_printf(p->o, "%sresource ", before);
        name(p, m->resource);
        stem_out_str(p->o, after);
    }
}

static void stmt(struct printer *p, const struct stem_stmt *s);

static void block(struct printer *p, const struct stem_stmt *s)
{
    stem_out_char(p->o, '{');
    p->indent++;
    for (; s; s = s->next) {
        line(p);
        stmt(p, s);
    }
    p->indent--;
    line(p);
    stem_out_char(p->o, '}');
}

static void when(struct printer *p, const struct stem_stmt *s)
{
    stem_out_str(p->o, "when (");
    expr(p, s->expr, 0);
    stem_out_str(p->o, ") ");
    block(p, s->body);
    if (s->has_else) {
        stem_out_str(p->o, " else ");
        block(p, s->other);
    }
}

static void repeat(struct printer *p, const struct stem_stmt *s)
{
    stem_out_str(p->o, "repeat ");
    expr(p, s->expr, 0);
    if (s->index.name.n) {
        stem_out_str(p->o, " as ");
        name(p, s->index);
    }
    stem_out_char(p->o, ' ');
    block(p, s->body);
}

static void stmt(struct printer *p, const struct stem_stmt *s)
{
    switch (s->kind) {
    case STEM_S_BIND:
        targets(p, s->targets);
        if (s->targets)
            stem_out_str(p->o, " = ");
        expr(p, s->expr, 0);
        mods(p, &s->mods, " ", "");
        stem_out_char(p->o, ';');
        break;
    case STEM_S_RETURN:
        stem_out_str(p->o, "return ");
        exprs(p, s->expr);
        stem_out_char(p->o, ';');
        break;
    case STEM_S_WEIGHT:
    case STEM_S_STATE:
        stem_out_str(p->o, s->kind == STEM_S_WEIGHT ? "weight " : "state ");
        params(p, s->decl);
        stem_out_char(p->o, ';');
        break;
    case STEM_S_REGION:
        mods(p, &s->mods, "", " ");
        block(p, s->body);
        break;
    case STEM_S_WHEN:
        when(p, s);
        break;
    case STEM_S_REPEAT:
        repeat(p, s);
        break;
    case STEM_S_BREAK:
        stem_out_str(p->o, "break;");
        break;
    case STEM_S_EAGER:
        stem_out_str(p->o, "eager ");
        block(p, s->body);
        break;
    }
}

static void results(struct printer *p, const struct stem_ast_param *r)
{
    if (!r)
        return;
    stem_out_str(p->o, " -> ");
    if (!r->next && !r->id.name.n) {
        type(p, &r->type);
        return;
    }
    stem_out_char(p->o, '(');
    params(p, r);
    stem_out_char(p->o, ')');
}

static void clause(struct printer *p, const char *word, const struct stem_x *x)
{
    if (!x)
        return;
    stem_out_printf(p->o, " %s(", word);
    exprs(p, x);
    stem_out_char(p->o, ')');
}

static void callable(struct printer *p, const struct stem_item *it)
{
    static const char *const word[] = {"", "", "layer", "model", "kernel", "extern"};
    stem_out_printf(p->o, "%s ", word[it->kind]);
    name(p, it->id);
    if (it->indices) {
        stem_out_char(p->o, '[');
        targets(p, it->indices);
        stem_out_char(p->o, ']');
    }
    stem_out_char(p->o, '(');
    params(p, it->params);
    if (it->scalars) {
        stem_out_str(p->o, "; ");
        params(p, it->scalars);
    }
    stem_out_char(p->o, ')');
    if (it->kind == STEM_I_LAYER || it->kind == STEM_I_MODEL) {
        results(p, it->results);
        stem_out_char(p->o, ' ');
        block(p, it->body);
        return;
    }
    clause(p, "grid", it->grid);
    clause(p, "block", it->block);
    clause(p, "smem", it->smem);
    if (it->waits)
        stem_out_str(p->o, " waits");
    if (it->kind == STEM_I_KERNEL) {
        stem_out_str(p->o, " {{");
        stem_out_bytes(p->o, p->source->text + it->code.begin, it->code.end - it->code.begin);
        stem_out_str(p->o, "}}");
        return;
    }
    if (it->library) {
        stem_out_str(p->o, " from ");
        string(p, it->library);
    }
    stem_out_char(p->o, ';');
}

static void item(struct printer *p, const struct stem_item *it)
{
    if (it->kind == STEM_I_CONST) {
        stem_out_str(p->o, "const ");
        name(p, it->id);
        stem_out_str(p->o, " = ");
        expr(p, it->value, 0);
        stem_out_char(p->o, ';');
    } else if (it->kind == STEM_I_DIM) {
        stem_out_str(p->o, "dim ");
        name(p, it->id);
        stem_out_str(p->o, " in ");
        expr(p, it->low, 0);
        stem_out_str(p->o, "..");
        expr(p, it->high, 0);
        if (it->value) {
            stem_out_str(p->o, " = ");
            expr(p, it->value, 0);
        }
        stem_out_char(p->o, ';');
    } else {
        callable(p, it);
    }
    stem_out_char(p->o, '\n');
}

void stem_ast_print(const struct stem_ast *ast, const struct stem_strtab *strings, struct stem_out *o)
{
    struct printer p = {.strings = strings, .source = ast->source, .o = o};
    if (ast->module.name.n) {
        stem_out_str(o, "module ");
        name(&p, ast->module);
        stem_out_str(o, ";\n");
    }
    for (const struct stem_item *it = ast->items; it; it = it->next)
        item(&p, it);
}
