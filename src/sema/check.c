/* SPDX-License-Identifier: Apache-2.0
 *
 * Checking the body of a layer: statements and scopes. A body is checked once, with symbolic dims.
 */
#include "sema/check.h"
#include "sema/names.h"

#include <string.h>

static bool is_blank(const struct stem_checker *c, struct stem_sym s)
{
    return !strcmp(stem_name(c->m, s), "_");
}

/* ---- scopes ---- */

void stem_checker_warn_unused(struct stem_checker *c, const struct stem_checked_name *n)
{
    if (n->used || n->v.bad || n->conflict || stem_diags_errors(c->m->diags))
        return; /* after errors it may be read in what was not understood */
    stem_warning(c->m->diags, STEM_E_UNUSED, n->span, "'%s' is never read", stem_name(c->m, n->name));
}

/* Forgets the names from `base` on. */
static void leave(struct stem_checker *c, uint32_t base)
{
    for (uint32_t i = base; i < c->names.len; i++)
        stem_checker_warn_unused(c, &c->names.at[i]);
    c->names.len = base;
}

bool stem_checker_free_name(struct stem_checker *c, struct stem_ident id)
{
    struct stem_global g = stem_global_find(c->m, id.name);
    const char *what = g.kind == STEM_G_CONST ? "const" : g.kind == STEM_G_DIM ? "dim" : NULL;
    for (uint32_t i = 0; i < c->indices.v.len; i++)
        if (stem_sym_eq(c->indices.v.at[i].name, id.name))
            what = "repeat index";
    if (!what)
        return true;
    stem_error(c->m->diags, STEM_E_REDEFINED, id.span, "'%s' is a %s; a value needs another name",
               stem_name(c->m, id.name), what);
    if (g.kind == STEM_G_CONST)
        stem_diag_label(c->m->diags, c->m->consts.at[g.index].item->id.span, "defined here");
    if (g.kind == STEM_G_DIM)
        stem_diag_label(c->m->diags, c->m->dim_infos.at[g.index].span, "defined here");
    return false;
}

/* ---- modifiers ---- */

static void after(struct stem_checker *c, const struct stem_ast_target *t)
{
    for (; t; t = t->next) {
        struct stem_x x = {.kind = STEM_X_NAME, .span = t->id.span, .id = t->id};
        struct stem_sval v = stem_check_expr(c, &x);
        if (!v.bad && !v.computed)
            stem_error(c->m->diags, STEM_E_BAD_AFTER, t->id.span, "no op computes '%s': there is nothing to wait for",
                       stem_name(c->m, t->id.name));
    }
}

static void modifiers(struct stem_checker *c, const struct stem_mods *m)
{
    int64_t value = 0;
    after(c, m->after);
    if (!m->priority)
        return;
    struct stem_dim d = stem_eval_int(&c->eval, m->priority);
    if (!d.n)
        return;
    if (!stem_dim_value(c->eval.dims, d, &value) || value < -100 || value > 100) {
        stem_error(c->m->diags, STEM_E_NOT_A_CONST, m->priority->span, "a priority is a constant in -100..100");
        return;
    }
    for (uint32_t i = 0; m->on.name.n && i < c->m->streams.len; i++) {
        struct stem_stream_decl *s = &c->m->streams.at[i];
        if (stem_sym_eq(s->name, m->on.name) && value > s->priority)
            s->priority = (int32_t)value;
    }
}

/* ---- bindings ---- */

static bool mentions(const struct stem_x *x, struct stem_sym name)
{
    for (const struct stem_sub *s = x && x->kind == STEM_X_SLICE ? x->subs : NULL; s; s = s->next)
        if (mentions(s->low, name) || mentions(s->high, name))
            return true;
    for (const struct stem_arg *a = x ? x->args : NULL; a; a = a->next)
        if (mentions(a->value, name))
            return true;
    return x && ((x->kind == STEM_X_NAME && stem_sym_eq(x->id.name, name)) || mentions(x->a, name) || mentions(x->b, name));
}

/* How the operand in place `x`, a part of `base`, goes on from iteration to iteration. */
enum part_use { EACH_ITS_OWN, CARRIED, SEVERAL_CARRIED };
static enum part_use part_use(struct stem_checker *c, const struct stem_x *x, const struct stem_x *base)
{
    const struct stem_checked_name *n = stem_checker_find(c, base->id.name);
    uint32_t indices = 0;
    if (!c->loop || (n && n - c->names.at >= (ptrdiff_t)c->loop_names))
        return EACH_ITS_OWN;
    if (!c->loop->index.name.n || !mentions(x, c->loop->index.name))
        return CARRIED;
    for (uint32_t i = 0; i < c->indices.v.len; i++)
        indices += mentions(x, c->indices.v.at[i].name);
    return indices < c->repeats ? SEVERAL_CARRIED : EACH_ITS_OWN;
}

/* Only under a name that the loop carries does an iteration go on from what the last one left. */
static void help_carried(struct stem_checker *c, const struct stem_x *x, const struct stem_results *r, const char *targets)
{
    struct stem_out o = {0};
    struct stem_x call = *x;
    struct stem_arg **last = &call.args;
    stem_out_str(&o, "in a `repeat`, name the part before the loop and write that name in place: ");
    for (const struct stem_arg *a = x->args; a; a = a->next, last = &(*last)->next) {
        *last = STEM_NEW(c->m->arena, struct stem_arg);
        **last = *a;
        for (uint32_t i = 0; i < r->n_inout; i++) {
            const struct stem_x *base = stem_base_name(a->value);
            if (r->inout[i] != a->value || !base || a->value->kind == STEM_X_NAME)
                continue;
            struct stem_x *named = STEM_NEW(c->m->arena, struct stem_x);
            *named = *base;
            named->id.name = stem_intern_printf(c->m->strings, "%s_part%u", stem_name(c->m, base->id.name), i);
            (*last)->value = named;
            stem_out_printf(&o, "%s = ", stem_name(c->m, named->id.name));
            stem_x_print(a->value, c->m->strings, &o);
            stem_out_str(&o, "; ");
        }
    }
    stem_out_printf(&o, "repeat ... { %s = ", targets);
    stem_x_print(&call, c->m->strings, &o);
    stem_diag_help(c->m->diags, "%s; }", stem_out_text(&o));
    stem_out_free(&o);
}

/* Fewer names than results: those of operands in place are forgotten easily. A part gets a name of its own: what it is a part of
 * would be bound to the part alone. */
static void help_inout(struct stem_checker *c, const struct stem_stmt *s, const struct stem_results *r, uint32_t n)
{
    struct stem_out o = {0};
    const struct stem_x *part = NULL;
    enum part_use use = EACH_ITS_OWN;
    for (uint32_t i = 0; i < r->n_inout; i++) {
        const struct stem_x *base = stem_base_name(r->inout[i]);
        stem_out_printf(&o, "%s%s", i ? ", " : "", base ? stem_name(c->m, base->id.name) : "_");
        if (base && r->inout[i]->kind != STEM_X_NAME) {
            enum part_use u = part_use(c, r->inout[i], base);
            stem_out_printf(&o, "_part%u", i);
            part = base;
            use = u > use ? u : use;
        }
    }
    const struct stem_ast_target *t = s->targets;
    for (uint32_t i = r->n_inout; i < r->n; i++, t = t && n == r->n - r->n_inout ? t->next : NULL)
        stem_out_printf(&o, ", %s", t && n == r->n - r->n_inout ? stem_name(c->m, t->id.name) : "_");
    if (use == CARRIED)
        help_carried(c, s->expr, r, stem_out_text(&o));
    else if (use == SEVERAL_CARRIED)
        stem_diag_help(c->m->diags, "an outer `repeat` writes these parts again: write the inner one out, and name each part before the outer");
    else
        stem_diag_help(c->m->diags, "the new versions of operands in place come first: %s = ...", stem_out_text(&o));
    if (part)
        stem_diag_help(c->m->diags, "'%s' itself stays what it was; only a call without results binds the whole of it anew",
                       stem_name(c->m, part->id.name));
    stem_out_free(&o);
}

/* f(inout x); is short for x = f(inout x); */
static void rebind(struct stem_checker *c, const struct stem_stmt *s, const struct stem_results *r)
{
    if (r->n != r->n_inout) {
        stem_error(c->m->diags, STEM_E_RESULT_COUNT, s->expr->span, "%u result%s dropped here", r->n - r->n_inout,
                   r->n - r->n_inout == 1 ? " is" : "s are");
        if (r->n_inout)
            help_inout(c, s, r, 0);
        else
            stem_diag_help(c->m->diags, "bind the results to names, or to _");
        return;
    }
    for (uint32_t i = 0; i < r->n_inout; i++) {
        const struct stem_x *base = stem_base_name(r->inout[i]);
        if (!base) {
            stem_error(c->m->diags, STEM_E_MODE, r->inout[i]->span,
                       "in a call without results an in place operand is a name, so that it can be bound again");
            continue;
        }
        struct stem_checked_name *n = stem_checker_find(c, base->id.name);
        struct stem_sval v = n ? n->v : (struct stem_sval){.bad = true};
        v.computed = true;
        stem_checker_bind(c, base->id.name, v, base->span);
        stem_vec_last(&c->names).used = true;
    }
}

static void bind_targets(struct stem_checker *c, const struct stem_stmt *s, const struct stem_results *r)
{
    uint32_t n = 0;
    for (const struct stem_ast_target *t = s->targets; t; t = t->next)
        n++;
    if (!r->bad && n != r->n) {
        struct stem_span at = s->targets->id.span;
        for (const struct stem_ast_target *t = s->targets; t; t = t->next)
            at = stem_span_join(at, t->id.span);
        stem_error(c->m->diags, STEM_E_RESULT_COUNT, at, "%u name%s for %u result%s", n, n == 1 ? "" : "s", r->n,
                   r->n == 1 ? "" : "s");
        if (n < r->n && r->n_inout)
            help_inout(c, s, r, n);
    }
    uint32_t i = 0;
    for (const struct stem_ast_target *t = s->targets; t; t = t->next, i++) {
        if (is_blank(c, t->id.name) || !stem_checker_free_name(c, t->id))
            continue;
        for (const struct stem_ast_target *u = s->targets; n == r->n && u != t; u = u->next)
            if (stem_sym_eq(u->id.name, t->id.name))
                stem_error(c->m->diags, STEM_E_REDEFINED, t->id.span, "'%s' is bound twice in one statement",
                           stem_name(c->m, t->id.name));
        struct stem_sval v = {.bad = true};
        if (!r->bad && n == r->n)
            v = r->v[i];
        stem_checker_bind(c, t->id.name, v, t->id.span);
        /* an in place write is itself the use of what it yields */
        stem_vec_last(&c->names).used = i < r->n_inout;
    }
}

static void bind(struct stem_checker *c, const struct stem_stmt *s)
{
    struct stem_results r;
    modifiers(c, &s->mods);
    if (s->expr->kind == STEM_X_CALL && !stem_is_pointwise(&c->eval, s->expr) && !stem_is_const(&c->eval, s->expr)) {
        stem_check_call(c, s->expr, &r);
    } else {
        r.n = 1;
        r.n_inout = 0;
        r.v[0] = stem_check_expr(c, s->expr);
        r.bad = r.v[0].bad;
    }
    if (s->targets)
        bind_targets(c, s, &r);
    else if (!r.bad)
        rebind(c, s, &r);
}

/* ---- weights and states ---- */

/* Here the indices of instances have no values yet, and which layers enclose this one is not known. */
static void weight_names(struct stem_checker *c, const struct stem_ast_param *p, const struct stem_type *t)
{
    struct stem_indices all = {{0}};
    struct stem_eval e = c->eval;
    int64_t dim[STEM_MAX_RANK] = {0};
    e.dim_value = NULL;
    e.indices = &all;
    for (uint32_t i = 0; i < c->m->callables.len; i++)
        for (const struct stem_ast_target *x = c->m->callables.at[i].item->indices; x; x = x->next) {
            struct stem_sym unique =
                stem_intern_printf(c->m->strings, "%s#%u", stem_name(c->m, x->id.name), x->id.span.begin);
            stem_vec_push(&all.v, (struct stem_index){x->id.name, stem_dim_symbol(e.dims, unique, 1, INT32_MAX)});
        }
    if (stem_type_dims(e.dims, t, dim))
        stem_weight_names(&e, p, t, dim);
    stem_vec_free(&all.v);
}

static void declare(struct stem_checker *c, const struct stem_stmt *s)
{
    struct stem_eval e = c->eval;
    const char *word = s->kind == STEM_S_WEIGHT ? "weight" : "state";
    e.dim_value = NULL;
    for (const struct stem_ast_param *p = s->decl; p; p = p->next) {
        struct stem_sval v = {.root = {STEM_ROOT_WEIGHT, 0}};
        if (s->kind == STEM_S_STATE) {
            v.root = (struct stem_root){STEM_ROOT_STATE, c->states.len};
            stem_vec_push(&c->states, (struct stem_checked_state){p->id, false});
        }
        if (c->repeats || c->dim_branch)
            stem_error(c->m->diags, STEM_E_MISPLACED_WEIGHT, p->id.span, "a %s cannot be declared inside of %s", word,
                       c->repeats ? "a `repeat`" : "a `when` that a dim decides");
        if (p->mode != STEM_AST_NONE || p->value)
            stem_error(c->m->diags, STEM_E_BAD_SIGNATURE, p->span, "a %s has a name and a type, no mode and no value%s",
                       word, s->kind == STEM_S_WEIGHT ? " but a string" : "");
        if (s->kind == STEM_S_WEIGHT && p->mode == STEM_AST_NONE && p->value && p->value->kind == STEM_X_NAME)
            stem_diag_help(c->m->diags, "a tensor's name stands in quotes: weight %s: ... = \"%s\";",
                           stem_name(c->m, p->id.name), stem_name(c->m, p->value->id.name));
        v.bad = !stem_eval_type(&e, &p->type, &v.type);
        if (p->from && !v.bad)
            weight_names(c, p, &v.type);
        if (!stem_checker_free_name(c, p->id))
            continue;
        struct stem_checked_name *old = stem_checker_find(c, p->id.name);
        if (old) {
            stem_error(c->m->diags, STEM_E_REDEFINED, p->id.span, "'%s' is already a name in this layer",
                       stem_name(c->m, p->id.name));
            stem_diag_label(c->m->diags, old->span, "bound here");
        }
        stem_checker_bind(c, p->id.name, v, p->id.span);
    }
}

/* ---- the rest ---- */

static void note_segment(struct stem_checker *c, const struct stem_stmt *s)
{
    struct stem_callable *f = &c->m->callables.at[c->callable];
    if (c->eagers)
        stem_error(c->m->diags, STEM_E_IN_EAGER, s->head, "'%s' inside of an eager block",
                   s->kind == STEM_S_BREAK ? "break" : "eager");
    if (!f->segment_stmt)
        f->segment_stmt = s;
}

static void check_return(struct stem_checker *c, const struct stem_stmt *s, bool top)
{
    struct stem_callable *f = &c->m->callables.at[c->callable];
    const struct stem_ast_param *p = f->item->results;
    uint32_t n = 0;
    if (!top || s->next) {
        stem_error(c->m->diags, STEM_E_RETURN, s->head,
                   "'return' can only be the last statement, outside of all blocks");
        c->returned = true;
        return;
    }
    c->returned = true;
    for (const struct stem_x *x = s->expr; x; x = x->next, n++) {
        struct stem_sval v = stem_check_expr(c, x);
        if (n >= f->n_results)
            continue;
        f->result_root[n] = v.root;
        stem_checker_wrote(c, v.root); /* the caller may */
        const struct stem_type *need = &f->result_type[n];
        if (!v.bad && need->dtype != STEM_N_DTYPES && !stem_type_same(&v.type, need)) {
            stem_error(c->m->diags, STEM_E_RESULT_TYPE, x->span, "the result is declared as %s, and this is %s",
                       stem_type_text(&c->eval, need), stem_type_text(&c->eval, &v.type));
            stem_diag_label(c->m->diags, p->type.span, "declared here");
        }
        p = p->next;
    }
    if (n != f->n_results) {
        stem_error(c->m->diags, STEM_E_RESULT_COUNT, s->span, "%u value%s returned; %u declared", n,
                   n == 1 ? "" : "s", f->n_results);
        stem_diag_label(c->m->diags, f->item->id.span, "declared here");
    }
}

static void statement(struct stem_checker *c, const struct stem_stmt *s, bool top)
{
    switch (s->kind) {
    case STEM_S_BIND:
        bind(c, s);
        break;
    case STEM_S_RETURN:
        check_return(c, s, top);
        break;
    case STEM_S_WEIGHT:
    case STEM_S_STATE:
        declare(c, s);
        break;
    case STEM_S_REGION:
        modifiers(c, &s->mods);
        stem_check_statements(c, s->body, false);
        break;
    case STEM_S_WHEN:
        stem_check_when(c, s);
        break;
    case STEM_S_REPEAT:
        stem_check_repeat(c, s);
        break;
    case STEM_S_BREAK:
        note_segment(c, s);
        break;
    case STEM_S_EAGER:
        note_segment(c, s);
        c->eagers++;
        stem_check_statements(c, s->body, false);
        c->eagers--;
        break;
    }
}

void stem_check_statements(struct stem_checker *c, const struct stem_stmt *s, bool top)
{
    for (; s; s = s->next)
        statement(c, s, top);
}

/* An in place parameter must still be the caller's memory at the end. */
static void check_inout_params(struct stem_checker *c, const struct stem_callable *f)
{
    uint32_t i = 0;
    for (const struct stem_ast_param *p = f->item->params; p; p = p->next, i++) {
        struct stem_checked_name *n = stem_checker_find(c, p->id.name);
        if (p->mode != STEM_AST_INOUT || !n || n->v.bad)
            continue;
        n->used = true;
        if (n->v.root.kind == STEM_ROOT_PARAM && n->v.root.index == i && n->v.type.rank == f->param_type[i].rank &&
            stem_type_same(&n->v.type, &f->param_type[i]))
            continue;
        stem_error(c->m->diags, STEM_E_MODE, n->span, "'%s' is bound to other memory, but it is an `inout` parameter",
                   stem_name(c->m, p->id.name));
        stem_diag_label(c->m->diags, p->span, "the caller's memory is declared here");
    }
}

/* A state keeps what a launch writes into it in place. Binding its name anew writes nothing. */
static void check_states(struct stem_checker *c)
{
    for (uint32_t i = 0; i < c->states.len && !c->skipped && !stem_diags_errors(c->m->diags); i++) {
        struct stem_checked_state *s = &c->states.at[i];
        const char *name = stem_name(c->m, s->id.name);
        const struct stem_checked_name *last = stem_checker_find(c, s->id.name);
        bool used = false;
        for (uint32_t k = 0; k < c->names.len; k++)
            used |= c->names.at[k].span.begin == s->id.span.begin && c->names.at[k].used;
        if (s->written || !used) /* one that is not read, either, was said to be unused */
            continue;
        stem_warning(c->m->diags, STEM_E_STATE_UNWRITTEN, s->id.span,
                     "nothing writes the state '%s': each launch finds in it what the first one found", name);
        if (last && last->v.root.kind != STEM_ROOT_STATE)
            stem_diag_label(c->m->diags, last->span, "this binds the name to another value, and the state stays as it was");
        stem_diag_help(c->m->diags, "write it in place, by a kernel or an op with `inout %s` (such as cache_store); "
                                    "what never changes is a `weight`", name);
    }
}

static void check_once(struct stem_checker *c, struct stem_callable *f)
{
    struct stem_module *m = c->m;
    uint32_t i = 0;
    for (const struct stem_ast_param *p = f->item->params; p; p = p->next, i++) {
        struct stem_sval v = {.type = f->param_type[i],
                              .root = {STEM_ROOT_PARAM, i},
                              .computed = c->callable != m->model,
                              .bad = f->param_type[i].dtype == STEM_N_DTYPES,
                              .slice = false};
        if (!stem_checker_free_name(c, p->id))
            continue;
        struct stem_checked_name *old = stem_checker_find(c, p->id.name);
        if (old)
            stem_error(m->diags, STEM_E_REDEFINED, p->id.span, "two parameters '%s'", stem_name(m, p->id.name));
        stem_checker_bind(c, p->id.name, v, p->id.span);
    }
    stem_check_statements(c, f->item->body, true);
    if (f->n_results && !c->returned) {
        stem_error(m->diags, STEM_E_RETURN, f->item->end, "'%s' ends without a return",
                   stem_name(m, f->item->id.name));
        stem_diag_help(m->diags, "%s", f->n_results == 1 ? "its last statement says what its result is: return NAME;"
                                                         : "its last statement says what its results are: return NAME, NAME;");
    }
    check_inout_params(c, f);
    check_states(c);
    leave(c, 0);
}

/* One walk over the body, with what earlier ones found out about its loops; true if this one found out more. */
static bool walk(struct stem_module *m, uint32_t callable, struct stem_carries *carries)
{
    struct stem_checker c = {.m = m, .callable = callable, .carries = *carries};
    c.eval = (struct stem_eval){.m = m,
                                .dims = m->dims,
                                .diags = m->diags,
                                .dim_value = m->dim_symbols.at,
                                .indices = &c.indices,
                                .checker = &c};
    check_once(&c, &m->callables.at[callable]);
    *carries = c.carries;
    stem_vec_free(&c.names);
    stem_vec_free(&c.gone);
    stem_vec_free(&c.states);
    stem_vec_free(&c.indices.v);
    return c.learnt;
}

static bool has_repeat(const struct stem_stmt *s)
{
    for (; s; s = s->next)
        if (s->kind == STEM_S_REPEAT || has_repeat(s->body) || has_repeat(s->other))
            return true;
    return false;
}

void stem_check_body(struct stem_module *m, uint32_t callable)
{
    struct stem_callable *f = &m->callables.at[callable];
    struct stem_carries carries = {{0}};
    f->state = STEM_DOING;
    if (f->n_params > STEM_MAX_LAYER_PARAMS || f->n_results > STEM_MAX_LAYER_PARAMS)
        return; /* reported */
    if (has_repeat(f->item->body)) {
        /* What the first iteration may do, a later one may not: see check_flow.c. Each walk takes what a name carries one
         * binding further, and few do; what more than these would find is left to the verifier. */
        struct stem_diags *diags = m->diags;
        m->diags = stem_diags_new(0);
        for (int i = 0; i < 20 && walk(m, callable, &carries);)
            i++;
        stem_diags_free(m->diags);
        m->diags = diags;
    }
    walk(m, callable, &carries);
    f->state = STEM_DONE;
    stem_vec_free(&carries.v);
}
