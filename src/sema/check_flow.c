/* SPDX-License-Identifier: Apache-2.0
 *
 * Checking what the flow of control does to names: the branches of `when`, and what a `repeat` carries from one
 * iteration into the next.
 */
#include "sema/check.h"

#include <inttypes.h>

/* ---- when ---- */

struct branch {
    STEM_VEC(struct stem_checked_name) names; /* the last binding of each name */
};

/* Takes the names bound from `base` on out of scope, one for each name. */
static void take_branch(struct stem_checker *c, uint32_t base, struct branch *b)
{
    while (c->names.len > base) {
        struct stem_checked_name n = stem_vec_pop(&c->names);
        bool later = false;
        for (uint32_t i = 0; i < b->names.len && !later; i++)
            later = stem_sym_eq(b->names.at[i].name, n.name);
        if (later)
            stem_checker_warn_unused(c, &n);
        else
            stem_vec_push(&b->names, n);
    }
}

static struct stem_checked_name *in_branch(struct branch *b, struct stem_sym name)
{
    for (uint32_t i = 0; i < b->names.len; i++)
        if (stem_sym_eq(b->names.at[i].name, name))
            return &b->names.at[i];
    return NULL;
}

/* 0: only read, 1: write, 2: consume as well, 3: all */
static int rights(const struct stem_checker *c, struct stem_root r)
{
    static const int of_kind[] = {[STEM_ROOT_TEMP] = 3, [STEM_ROOT_STATE] = 1, [STEM_ROOT_WEIGHT] = 0};
    if (r.kind != STEM_ROOT_PARAM)
        return of_kind[r.kind];
    const struct stem_ast_param *p = c->m->callables.at[c->callable].item->params;
    for (uint32_t i = 0; i < r.index; i++)
        p = p->next;
    return p->mode == STEM_AST_RELEASE ? 3 : p->mode == STEM_AST_CONSUME ? 2 : p->mode == STEM_AST_INOUT;
}

/* Memory that might be either: what may be done with both. */
static struct stem_root both_roots(const struct stem_checker *c, struct stem_root a, struct stem_root b)
{
    int of_a = rights(c, a), of_b = rights(c, b);
    if (a.kind == STEM_ROOT_STATE && b.kind == STEM_ROOT_STATE && a.index != b.index)
        a.index = STEM_STATE_ANY;
    return of_a < of_b || (of_a == of_b && a.kind >= b.kind) ? a : b;
}

static void merge(struct stem_checker *c, const struct stem_checked_name *a, const struct stem_checked_name *b,
                  bool carried)
{
    struct stem_checked_name n = *a;
    n.used = a->used || b->used || carried;
    n.conflict = a->conflict || b->conflict || (!a->v.bad && !b->v.bad && !stem_type_same(&a->v.type, &b->v.type));
    n.v.bad = a->v.bad || b->v.bad;
    n.v.root = both_roots(c, a->v.root, b->v.root);
    n.v.slice = a->v.slice || b->v.slice;
    n.v.computed = a->v.computed || b->v.computed;
    stem_vec_push(&c->names, n);
}

static void merge_branches(struct stem_checker *c, struct branch *yes, struct branch *no)
{
    uint32_t outer = c->names.len;
    for (int side = 0; side < 2; side++) {
        struct branch *own = side ? no : yes, *other = side ? yes : no;
        for (uint32_t i = own->names.len; i-- > 0;) {
            struct stem_checked_name n = own->names.at[i], *twin = in_branch(other, n.name), *before = NULL;
            if (twin && side)
                continue;
            for (uint32_t k = outer; k-- > 0 && !before;)
                before = stem_sym_eq(c->names.at[k].name, n.name) ? &c->names.at[k] : NULL;
            if (before)
                before->used = true;
            if (twin) {
                merge(c, &n, twin, before != NULL);
            } else if (before) {
                struct stem_checked_name old = *before;
                merge(c, &n, &old, true);
            } else {
                stem_checker_warn_unused(c, &n);
                stem_vec_push(&c->gone, (struct stem_gone){n.name, n.span, "only in one branch of a `when`"});
            }
        }
    }
    stem_vec_free(&yes->names);
    stem_vec_free(&no->names);
}

static bool mentions_dim(const struct stem_checker *c, const struct stem_x *x)
{
    if (!x)
        return false;
    if (x->kind == STEM_X_NAME)
        return stem_global_find(c->m, x->id.name).kind == STEM_G_DIM;
    for (const struct stem_arg *a = x->args; a; a = a->next)
        if (mentions_dim(c, a->value))
            return true;
    return mentions_dim(c, x->a) || mentions_dim(c, x->b);
}

void stem_check_when(struct stem_checker *c, const struct stem_stmt *s)
{
    struct stem_num n = stem_eval(&c->eval, s->expr);
    if (n.kind == STEM_NUM_INT || n.kind == STEM_NUM_FLOAT)
        stem_error(c->m->diags, STEM_E_NOT_A_CONST, s->expr->span, "a condition is a comparison, not a number");
    if (n.kind == STEM_NUM_BOOL)
        stem_warn_rounding_condition(&c->eval, s->expr);
    int truth = n.kind == STEM_NUM_BOOL ? n.truth : -1;
    if (truth >= 0 && !mentions_dim(c, s->expr)) {
        c->skipped |= (truth ? s->other : s->body) != NULL;
        stem_check_statements(c, truth ? s->body : s->other, false); /* the other branch may make no sense for these consts */
        return;
    }
    bool outer = c->dim_branch;
    struct branch yes = {{0}}, no = {{0}};
    uint32_t base = c->names.len;
    c->dim_branch = true;
    stem_check_statements(c, s->body, false);
    take_branch(c, base, &yes);
    stem_check_statements(c, s->other, false);
    take_branch(c, base, &no);
    c->dim_branch = outer;
    merge_branches(c, &yes, &no);
}

/* ---- repeat ---- */

/* A body is checked once for all iterations, so a name stands in it for what it was before the loop *and* for what the
 * iteration before leaves. The latter is known at the end of the body only: it is noted, and the whole body of the layer
 * is walked again, until nothing new is noted. */
static void note_carried(struct stem_checker *c, const struct stem_stmt *loop, const struct stem_checked_name *before,
                         const struct stem_checked_name *n)
{
    struct stem_root r = both_roots(c, before->v.root, n->v.root);
    if (r.kind == before->v.root.kind && r.index == before->v.root.index && (before->v.slice || !n->v.slice))
        return;
    uint32_t i = 0;
    while (i < c->carries.v.len &&
           !(c->carries.v.at[i].loop == loop && stem_sym_eq(c->carries.v.at[i].name, n->name)))
        i++;
    if (i == c->carries.v.len)
        stem_vec_push(&c->carries.v, (struct stem_carry){.loop = loop, .name = n->name});
    struct stem_carry *e = &c->carries.v.at[i];
    *e = (struct stem_carry){loop, n->name, r, before->v.slice || n->v.slice, n->span};
    c->learnt = true;
}

/* Names as the body of the loop finds them, in all iterations. */
static void enter_loop(struct stem_checker *c, const struct stem_stmt *loop)
{
    for (uint32_t i = 0; i < c->carries.v.len; i++) {
        const struct stem_carry *e = &c->carries.v.at[i];
        struct stem_checked_name *before = e->loop == loop ? stem_checker_find(c, e->name) : NULL;
        if (!before)
            continue;
        before->used = true;
        struct stem_sval v = before->v;
        v.root = both_roots(c, v.root, e->root);
        v.slice |= e->slice;
        stem_checker_bind(c, e->name, v, before->span);
        struct stem_checked_name *n = &stem_vec_last(&c->names);
        n->used = n->carried = true;
        n->from = e->from;
    }
}

void stem_check_label_carried(struct stem_checker *c, const struct stem_x *x)
{
    const struct stem_x *base = stem_base_name(x);
    const struct stem_checked_name *n = base ? stem_checker_find(c, base->id.name) : NULL;
    if (n && n->carried)
        stem_diag_label(c->m->diags, n->from, "which a `repeat` carries into its next iteration from here");
}

/* Names from outside that the body binds again go on with the same type. */
static void carry(struct stem_checker *c, const struct stem_stmt *loop, uint32_t base)
{
    struct branch b = {{0}};
    take_branch(c, base, &b);
    for (uint32_t i = b.names.len; i-- > 0;) {
        struct stem_checked_name n = b.names.at[i];
        struct stem_checked_name *before = stem_checker_find(c, n.name);
        if (!before) {
            stem_checker_warn_unused(c, &n);
            stem_vec_push(&c->gone, (struct stem_gone){n.name, n.span, "inside of a `repeat`"});
            continue;
        }
        before->used = true;
        if (!before->v.bad && !n.v.bad && !stem_type_same(&before->v.type, &n.v.type)) {
            stem_error(c->m->diags, STEM_E_LOOP_TYPE, n.span, "'%s' is %s here, but began the `repeat` as %s",
                       stem_name(c->m, n.name), stem_type_text(&c->eval, &n.v.type),
                       stem_type_text(&c->eval, &before->v.type));
            stem_diag_label(c->m->diags, before->span, "bound here");
            n.v.bad = true;
        }
        if (!before->v.bad && !n.v.bad)
            note_carried(c, loop, before, &n);
        struct stem_checked_name old = *before;
        merge(c, &n, &old, true);
    }
    stem_vec_free(&b.names);
}

void stem_check_repeat(struct stem_checker *c, const struct stem_stmt *s)
{
    int64_t count = 1;
    struct stem_eval e = c->eval;
    e.dim_value = NULL; /* else the weights could differ from one value of a dim to another */
    struct stem_dim n = stem_eval_int(&e, s->expr);
    if (n.n && !stem_dim_value(e.dims, n, &count)) {
        stem_error(c->m->diags, STEM_E_NOT_A_CONST, s->expr->span, "the count of a `repeat` must be a constant");
        count = 1;
    } else if (n.n && (count < 0 || count > STEM_MAX_COUNT)) {
        stem_error(c->m->diags, STEM_E_BAD_COUNT, s->expr->span,
                   "%" PRId64 " repetitions; a `repeat` counts from 0 to %d", count, STEM_MAX_COUNT);
        count = 1;
    }
    uint32_t n_index = c->indices.v.len;
    enter_loop(c, s);
    uint32_t base = c->names.len;
    if (s->index.name.n && stem_checker_free_name(c, s->index)) {
        struct stem_sym unique =
            stem_intern_printf(c->m->strings, "%s#%u", stem_name(c->m, s->index.name), s->index.span.begin);
        struct stem_dim d = stem_dim_symbol(c->eval.dims, unique, 0, count > 0 ? count - 1 : 0);
        stem_vec_push(&c->indices.v, (struct stem_index){s->index.name, d});
        if (stem_checker_knows(c, s->index.name))
            stem_error(c->m->diags, STEM_E_REDEFINED, s->index.span, "'%s' is already a value",
                       stem_name(c->m, s->index.name));
    }
    const struct stem_stmt *outer = c->loop;
    uint32_t outer_names = c->loop_names;
    c->repeats++;
    c->loop = s;
    c->loop_names = base;
    stem_check_statements(c, s->body, false);
    c->repeats--;
    c->loop = outer;
    c->loop_names = outer_names;
    c->indices.v.len = n_index;
    carry(c, s, base);
}

