/* SPDX-License-Identifier: Apache-2.0
 *
 * Constructors of tree nodes, one for each grammar action. They watch the depth, so that whoever walks a tree later
 * may recurse.
 */
#include "grammar/parse.h"

static struct stem_span nothing(struct stem_span at)
{
    return (struct stem_span){at.begin, at.begin};
}

static bool too_deep(struct stem_parse *p, uint32_t depth, struct stem_span at, const char *help)
{
    if (depth <= STEM_AST_MAX_DEPTH)
        return false;
    if (!p->deep) {
        stem_error(p->diags, STEM_E_TOO_DEEP, at, "nested deeper than %d levels", STEM_AST_MAX_DEPTH);
        stem_diag_help(p->diags, "%s", help);
    }
    p->deep = true;
    return true;
}

static uint32_t deeper(uint32_t depth, const struct stem_x *x)
{
    for (; x; x = x->next)
        depth = x->depth > depth ? x->depth : depth;
    return depth;
}

struct stem_x *stem_make_expr(struct stem_parse *p, enum stem_x_kind kind, struct stem_span at)
{
    struct stem_x *x = STEM_NEW(p->arena, struct stem_x);
    x->kind = kind;
    x->span = at;
    x->depth = 1;
    return x;
}

/* A node above `below` levels; an ERROR leaf if that is too deep. */
static struct stem_x *above(struct stem_parse *p, enum stem_x_kind kind, uint32_t below, struct stem_span at)
{
    if (too_deep(p, below + 1, at, "every operator of a chain like a + b + c is a level, too: give names to parts of it"))
        return stem_make_expr(p, STEM_X_ERROR, at);
    struct stem_x *x = stem_make_expr(p, kind, at);
    x->depth = below + 1;
    return x;
}

struct stem_x *stem_make_name(struct stem_parse *p, struct stem_ident id)
{
    struct stem_x *x = stem_make_expr(p, STEM_X_NAME, id.span);
    x->id = id;
    return x;
}

struct stem_x *stem_make_unary(struct stem_parse *p, enum stem_x_op op, struct stem_x *a, struct stem_span at)
{
    struct stem_x *x = above(p, STEM_X_UNARY, a->depth, at);
    if (x->kind == STEM_X_ERROR)
        return x;
    x->op = op;
    x->a = a;
    return x;
}

struct stem_x *stem_make_binary(struct stem_parse *p, enum stem_x_op op, struct stem_x *a, struct stem_x *b)
{
    struct stem_x *x =
        above(p, STEM_X_BINARY, a->depth > b->depth ? a->depth : b->depth, stem_span_join(a->span, b->span));
    if (x->kind == STEM_X_ERROR)
        return x;
    x->op = op;
    x->a = a;
    x->b = b;
    return x;
}

static uint32_t subs_depth(const struct stem_sub *s)
{
    uint32_t depth = 0;
    for (; s; s = s->next) {
        if (s->low && s->low->depth > depth)
            depth = s->low->depth;
        if (s->high && s->high->depth > depth)
            depth = s->high->depth;
    }
    return depth;
}

static bool callable(const struct stem_x *callee)
{
    if (callee->kind == STEM_X_NAME)
        return true;
    if (callee->kind != STEM_X_SLICE || callee->a->kind != STEM_X_NAME)
        return false;
    for (const struct stem_sub *s = callee->subs; s; s = s->next)
        if (s->range)
            return false;
    return true;
}

struct stem_x *stem_make_call(struct stem_parse *p, struct stem_x *callee, struct stem_arg *args, struct stem_span at)
{
    if (!callable(callee)) {
        if (callee->kind != STEM_X_ERROR)
            stem_error(p->diags, STEM_E_BAD_CALLEE, callee->span,
                       "only a name, or a layer with an index, can be called");
        return stem_make_expr(p, STEM_X_ERROR, at);
    }
    uint32_t depth = subs_depth(callee->subs);
    for (const struct stem_arg *a = args; a; a = a->next)
        depth = a->value->depth > depth ? a->value->depth : depth;
    struct stem_x *x = above(p, STEM_X_CALL, depth, at);
    if (x->kind == STEM_X_ERROR)
        return x;
    x->id = callee->kind == STEM_X_NAME ? callee->id : callee->a->id;
    x->subs = callee->subs;
    x->args = args;
    return x;
}

struct stem_x *stem_make_slice(struct stem_parse *p, struct stem_x *a, struct stem_sub *subs, struct stem_span at)
{
    uint32_t depth = subs_depth(subs);
    struct stem_x *x = above(p, STEM_X_SLICE, a->depth > depth ? a->depth : depth, at);
    if (x->kind == STEM_X_ERROR)
        return x;
    x->a = a;
    x->subs = subs;
    return x;
}

struct stem_x *stem_make_view(struct stem_parse *p, struct stem_x *a, struct stem_x *shape, struct stem_span at)
{
    struct stem_x *x = above(p, STEM_X_VIEW, deeper(a->depth, shape), at);
    if (x->kind == STEM_X_ERROR)
        return x;
    x->a = a;
    x->shape = shape;
    return x;
}

struct stem_arg *stem_make_arg(struct stem_parse *p, enum stem_ast_mode mode, struct stem_ident attr,
                               struct stem_x *value, struct stem_span at)
{
    struct stem_arg *a = STEM_NEW(p->arena, struct stem_arg);
    a->mode = mode;
    a->attr = attr;
    a->value = value;
    a->span = at;
    return a;
}

struct stem_sub *stem_make_sub(struct stem_parse *p, bool range, struct stem_x *low, struct stem_x *high,
                               struct stem_span at)
{
    struct stem_sub *s = STEM_NEW(p->arena, struct stem_sub);
    s->range = range;
    s->low = low;
    s->high = high;
    s->span = at;
    return s;
}

struct stem_ast_target *stem_make_target(struct stem_parse *p, struct stem_ident id)
{
    struct stem_ast_target *t = STEM_NEW(p->arena, struct stem_ast_target);
    t->id = id;
    return t;
}

struct stem_ast_param *stem_make_param(struct stem_parse *p, enum stem_ast_mode mode, struct stem_ident id,
                                       struct stem_ast_type type, struct stem_x *value, struct stem_span at)
{
    struct stem_ast_param *q = STEM_NEW(p->arena, struct stem_ast_param);
    q->mode = mode;
    q->id = id;
    q->type = type;
    q->value = value;
    q->span = at;
    return q;
}

struct stem_ast_param *stem_make_weight(struct stem_parse *p, struct stem_ident id, struct stem_ast_type type,
                                        const char *from, struct stem_span from_span, struct stem_span at)
{
    struct stem_ast_param *q = stem_make_param(p, STEM_AST_NONE, id, type, NULL, at);
    q->from = from;
    q->from_span = from_span;
    return q;
}

struct stem_stmt *stem_make_decl(struct stem_parse *p, enum stem_stmt_kind kind, struct stem_span head,
                                 struct stem_ast_param *decl, struct stem_span at)
{
    struct stem_stmt *s = stem_make_stmt(p, kind, head, at);
    s->decl = decl;
    return s;
}

struct stem_stmt *stem_make_stmt(struct stem_parse *p, enum stem_stmt_kind kind, struct stem_span head,
                                 struct stem_span at)
{
    struct stem_stmt *s = STEM_NEW(p->arena, struct stem_stmt);
    s->kind = kind;
    s->head = head;
    s->span = at;
    s->depth = 1;
    return s;
}

struct stem_stmt *stem_make_block_stmt(struct stem_parse *p, enum stem_stmt_kind kind, struct stem_span head,
                                       struct stem_stmt *body, struct stem_stmt *other, struct stem_span at)
{
    uint32_t depth = 0;
    for (const struct stem_stmt *s = body; s; s = s->next)
        depth = s->depth > depth ? s->depth : depth;
    for (const struct stem_stmt *s = other; s; s = s->next)
        depth = s->depth > depth ? s->depth : depth;
    struct stem_stmt *s = stem_make_stmt(p, kind, head, at);
    if (too_deep(p, depth + 1, head, "a layer may have a part of it"))
        return s; /* empty: reported, and shallow again */
    s->depth = depth + 1;
    s->body = body;
    s->other = other;
    return s;
}

struct stem_stmt *stem_make_bind(struct stem_parse *p, struct stem_ast_target *targets, struct stem_x *x,
                                 struct stem_mods mods, struct stem_span at)
{
    if (!targets && x->kind != STEM_X_CALL && x->kind != STEM_X_ERROR)
        stem_error(p->diags, STEM_E_SYNTAX, x->span, "this statement does nothing: expected a binding or a call");
    struct stem_stmt *s = stem_make_stmt(p, STEM_S_BIND, targets ? targets->id.span : x->span, at);
    s->targets = targets;
    s->expr = x;
    s->mods = mods;
    return s;
}

struct stem_item *stem_make_item(struct stem_parse *p, enum stem_item_kind kind, struct stem_ident id,
                                 struct stem_span at)
{
    struct stem_item *it = STEM_NEW(p->arena, struct stem_item);
    it->kind = kind;
    it->id = id;
    it->span = at;
    it->end = nothing(at);
    return it;
}

void stem_set_module(struct stem_parse *p, struct stem_ident id, bool first, struct stem_span at)
{
    if (!first || p->ast->module.name.n)
        stem_error(p->diags, STEM_E_SYNTAX, at, "'module' can only be the first declaration, once");
    p->ast->module = id;
}

static void twice(struct stem_parse *p, const char *word, struct stem_span at)
{
    stem_error(p->diags, STEM_E_TWICE, at, "'%s' is given twice", word);
}

struct stem_mods stem_merge_mods(struct stem_parse *p, struct stem_mods a, struct stem_mods b)
{
    if (a.on.name.n && b.on.name.n)
        twice(p, "on", b.span);
    if (a.resource.name.n && b.resource.name.n)
        twice(p, "resource", b.span);
    if (a.priority && b.priority)
        twice(p, "priority", b.span);
    if (b.on.name.n)
        a.on = b.on;
    if (b.resource.name.n)
        a.resource = b.resource;
    if (b.priority)
        a.priority = b.priority;
    if (a.after && b.after)
        a.after_last->next = b.after;
    else if (b.after)
        a.after = b.after;
    if (b.after)
        a.after_last = b.after_last;
    a.span = stem_span_join(a.span, b.span);
    return a;
}

struct stem_clauses stem_merge_clauses(struct stem_parse *p, struct stem_clauses a, struct stem_clauses b,
                                       struct stem_span at)
{
    if (a.grid && b.grid)
        twice(p, "grid", at);
    if (a.block && b.block)
        twice(p, "block", at);
    if (a.smem && b.smem)
        twice(p, "smem", at);
    if (a.waits && b.waits)
        twice(p, "waits", at);
    a.grid = b.grid ? b.grid : a.grid;
    a.block = b.block ? b.block : a.block;
    a.smem = b.smem ? b.smem : a.smem;
    a.waits |= b.waits;
    return a;
}
