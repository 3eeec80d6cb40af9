/* SPDX-License-Identifier: Apache-2.0
 *
 * Expanding calls: ops become nodes, layers are expanded in place, kernels and extern functions become calls.
 */
#include <inttypes.h>
#include <string.h>

#include "sema/check.h"
#include "sema/expand.h"

struct stem_value_id stem_expand_operand(struct stem_expander *x, const struct stem_x *e)
{
    struct stem_sym outer = x->b.name;
    struct stem_span span = x->b.span;
    if (e->kind == STEM_X_CALL && !stem_is_pointwise(&x->eval, e))
        x->b.name = stem_intern_printf(x->m->strings, "%s.%s", stem_name(x->m, outer), stem_name(x->m, e->id.name));
    else if (e->kind != STEM_X_NAME)
        x->b.name = stem_intern_printf(x->m->strings, "%s.in", stem_name(x->m, outer));
    struct stem_value_id v = stem_expand_value(x, e);
    x->b.name = outer;
    x->b.span = span;
    return v;
}

struct stem_value_id stem_expand_contiguous(struct stem_expander *x, struct stem_value_id v)
{
    if (x->failed || stem_tensor_contiguous(&stem_value_at(x->p, v)->tensor))
        return v;
    struct stem_sym outer = x->b.name;
    x->b.name = stem_expand_path(x, outer, "copy");
    v = stem_build_simple(&x->b, "copy", &v, 1, NULL, 0);
    x->b.name = outer;
    return v;
}

/* An external buffer was written in place: whoever declares it next sees this version. */
static void note_version(struct stem_expander *x, struct stem_value_id v)
{
    uint32_t buffer = stem_value_at(x->p, v)->tensor.buffer;
    if (buffer < x->latest.len)
        x->latest.at[buffer] = v;
}

/* ---- writing in place ---- */

/* The innermost `repeat` around `at`; NULL: none. */
static const struct stem_stmt *loop_around(const struct stem_stmt *s, struct stem_span at)
{
    for (; s; s = s->next) {
        if (at.begin < s->span.begin || at.begin >= s->span.end)
            continue;
        const struct stem_stmt *in = loop_around(s->body, at);
        in = in ? in : loop_around(s->other, at);
        return in || s->kind != STEM_S_REPEAT ? in : s;
    }
    return NULL;
}

/* The op that wrote v's memory last is of the same text: an iteration before this one was it. */
static bool by_iteration(const struct stem_expander *x, const struct stem_x *e, struct stem_value_id v)
{
    uint32_t by = x->p->buffers.at[stem_value_at(x->p, v)->tensor.buffer].newest_by;
    if (by >= x->p->ops.len || !loop_around(x->m->callables.at[x->callable].item->body, e->span))
        return false;
    const struct stem_op *op = &x->p->ops.at[by];
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->operands[i].span.begin == e->span.begin && op->operands[i].mode == STEM_MODE_INOUT)
            return true;
    return false;
}

static void stale(struct stem_expander *x, const struct stem_x *e, struct stem_value_id v)
{
    const struct stem_x *base = stem_base_name(e);
    const char *name = base ? stem_name(x->m, base->id.name) : "";
    x->failed = true;
    if (x->p->buffers.at[stem_value_at(x->p, v)->tensor.buffer].consumed) {
        stem_error(x->diags, STEM_E_STALE_WRITE, e->span, "a call before this one was given memory up that '%s' lies in", name);
        stem_diag_help(x->diags, "give up a copy where the layer is called: consume copy(...)");
        return;
    }
    stem_error(x->diags, STEM_E_STALE_WRITE, e->span,
               "this is a version that was overwritten in place before, and its memory cannot hold both");
    if (base && by_iteration(x, e, v) && e == base)
        stem_diag_help(x->diags, "the next iteration goes on from what this one binds the same name to: %s = f(inout %s)", name, name);
    else if (base && by_iteration(x, e, v))
        stem_diag_help(x->diags, "the next iteration goes on from a part that has a name from before: p = %s[...]; repeat ... { p = f(inout p); }", name);
    else if (base && e == base && x->p->buffers.at[stem_value_at(x->p, v)->tensor.buffer].parted)
        stem_diag_help(x->diags, "parts of it were written under other names: a call without results, f(inout %s[...]);, binds '%s' anew", name, name);
    else if (base)
        stem_diag_help(x->diags, "go on from the new version: n = f(inout %s), then g(inout n)", name);
}

/* The caller of the layer wants to find the last version of an `inout` parameter in its own memory. */
static bool is_inout_param(const struct stem_expander *x, struct stem_sym name)
{
    for (const struct stem_ast_param *p = x->m->callables.at[x->callable].item->params; p; p = p->next)
        if (stem_sym_eq(p->id.name, name))
            return p->mode == STEM_AST_INOUT;
    return false;
}

/* The operand `e`, of value v, is to be written in place. If somebody else does that to the same version, or its memory
 * is borrowed, the name goes on as a copy of what it stood for, made before that. Of memory that outlives the call another part
 * may have been written since, as a layer writes two `inout` parameters that are parts of one value. */
static struct stem_value_id writable(struct stem_expander *x, const struct stem_x *e, struct stem_value_id v)
{
    const struct stem_x *base = stem_base_name(e);
    bool borrows = stem_expand_borrows(x, v);
    if (x->failed || (!borrows && stem_build_can_write(&x->b, v)))
        return v;
    if (borrows && (!base || e == base)) /* the name stays what it is: nobody overwrites that */
        return stem_build_copy_old(&x->b, v);
    if (!borrows && (x->p->buffers.at[stem_value_at(x->p, v)->tensor.buffer].kind != STEM_BUFFER_TEMP ||
                     (base && is_inout_param(x, base->id.name)))) {
        struct stem_value_id now = stem_build_newest(&x->b, v);
        if (now.n == STEM_NONE)
            stale(x, e, v);
        return now.n == STEM_NONE ? v : now;
    }
    if (!base)
        return stem_build_copy_old(&x->b, v);
    stem_expand_set(x, base->id.name, stem_build_copy_old(&x->b, stem_expand_lookup(x, base->id.name)));
    return stem_expand_operand(x, e);
}

struct writing {
    const struct stem_x *e;
    struct stem_value_id *v;
};

/* All operands of a call that it writes in place or consumes, once all operands have been computed. */
static bool writable_all(struct stem_expander *x, const struct writing *w, uint32_t n)
{
    bool copied = false;
    for (uint32_t i = 0; i < n && !x->failed; i++) {
        if (copied && stem_base_name(w[i].e)) /* a name may have become that of a copy */
            *w[i].v = stem_expand_operand(x, w[i].e);
        struct stem_value_id v = writable(x, w[i].e, *w[i].v);
        copied |= v.n != w[i].v->n;
        *w[i].v = v;
    }
    for (uint32_t i = 0; i < n && !x->failed; i++)
        for (uint32_t k = 0; k < i; k++) {
            const struct stem_tensor *s = &stem_value_at(x->p, *w[i].v)->tensor;
            const struct stem_tensor *t = &stem_value_at(x->p, *w[k].v)->tensor;
            if (s->buffer != t->buffer || s->offset >= t->offset + stem_tensor_extent(t) ||
                t->offset >= s->offset + stem_tensor_extent(s))
                continue;
            stem_error(x->diags, STEM_E_WRITE_TWICE, w[i].e->span, "the call writes these bytes twice");
            stem_diag_label(x->diags, w[k].e->span, "here, too");
            x->failed = true;
            return false;
        }
    return !x->failed;
}

static void add_inout(struct stem_expander *x, struct stem_called *r, const struct stem_x *e, struct stem_value_id v)
{
    note_version(x, v);
    r->inout[r->n_inout++] = e;
    r->v[r->n++] = v;
}

/* ---- ops ---- */

static void attribute(struct stem_expander *x, const struct stem_attr_def *def, const struct stem_x *e,
                      struct stem_attr *out)
{
    bool is_int;
    const char *word = e->kind == STEM_X_NAME ? stem_name(x->m, e->id.name) : "";
    switch (def->type) {
    case STEM_ATTR_TYPE_WORD:
    case STEM_ATTR_TYPE_DTYPE:
        out->text = word;
        return;
    case STEM_ATTR_TYPE_BOOL:
        if (!strcmp(word, "true") || !strcmp(word, "false")) {
            out->i = word[0] == 't';
            return;
        }
        stem_num_plain(x->eval.dims, stem_eval(&x->eval, e), &is_int, &out->i, &out->f);
        out->i = out->i != 0;
        return;
    default:
        stem_num_plain(x->eval.dims, stem_eval(&x->eval, e), &is_int, &out->i, &out->f);
    }
}

static void attributes(struct stem_expander *x, const struct stem_op_def *def, const struct stem_x *e,
                       struct stem_attr *attrs)
{
    stem_op_attr_defaults(def, attrs);
    for (const struct stem_arg *a = e->args; a; a = a->next)
        for (uint32_t i = 0; a->attr.name.n && i < def->n_attrs; i++)
            if (!strcmp(def->attrs[i].name, stem_name(x->m, a->attr.name)))
                attribute(x, &def->attrs[i], a->value, &attrs[i]);
}

/* The operand of value v for a parameter of mode `need`, with the mode that is written at the call as far as it matters to that. */
static struct stem_input operand(const struct stem_expander *x, const struct stem_arg *a, enum stem_mode need,
                                 struct stem_value_id v)
{
    bool borrows = stem_expand_borrows(x, v); /* its memory is not given up with it */
    if (need != STEM_MODE_IN)
        return (struct stem_input){v, need, a->value->span};
    bool up = a->mode == STEM_AST_RELEASE || a->mode == STEM_AST_CONSUME;
    return (struct stem_input){stem_expand_to_read(x, v), up && !borrows ? STEM_MODE_RELEASE : STEM_MODE_IN,
                               a->value->span};
}

static void call_op(struct stem_expander *x, const struct stem_op_def *def, const struct stem_x *e,
                    struct stem_called *r)
{
    struct stem_input in[STEM_MAX_OPERANDS];
    const struct stem_x *written[STEM_MAX_OPERANDS];
    struct writing w[STEM_MAX_OPERANDS];
    struct stem_attr attrs[STEM_MAX_ATTRS];
    struct stem_value_id results[STEM_MAX_OPERANDS];
    uint32_t n = 0, n_inout = 0, n_writing = 0;
    for (const struct stem_arg *a = e->args; a; a = a->next) {
        if (a->attr.name.n)
            continue;
        enum stem_mode need = stem_op_param(def, n)->mode;
        bool absent = a->value->kind == STEM_X_NAME && !strcmp(stem_name(x->m, a->value->id.name), "_");
        struct stem_value_id v = absent ? STEM_NO_VALUE : stem_expand_operand(x, a->value);
        in[n++] = operand(x, a, need, v);
        if (need == STEM_MODE_INOUT)
            written[n_inout++] = a->value;
        if (x->failed)
            return;
        if (!absent && (need == STEM_MODE_INOUT || need == STEM_MODE_CONSUME))
            w[n_writing++] = (struct writing){a->value, &in[n - 1].value};
    }
    if (!writable_all(x, w, n_writing))
        return;
    attributes(x, def, e, attrs);
    x->b.span = e->id.span;
    if (!stem_build_op(&x->b, def, in, n, attrs, NULL, results)) {
        x->failed = true;
        return;
    }
    for (uint32_t i = 0; i < n_inout; i++)
        add_inout(x, r, written[i], results[i]);
    for (uint32_t i = 0; i < stem_op_n_results(def); i++)
        r->v[r->n++] = results[n_inout + i];
}

static struct stem_value_id build_zero(struct stem_expander *x, const struct stem_type *t)
{
    static const char *const size[STEM_MAX_RANK] = {"d0", "d1", "d2", "d3", "d4", "d5"};
    const struct stem_op_def *def = stem_op_find("zero");
    struct stem_attr attrs[STEM_MAX_ATTRS];
    struct stem_value_id results[STEM_MAX_OPERANDS] = {STEM_NO_VALUE};
    int64_t dim[STEM_MAX_RANK];
    stem_op_attr_defaults(def, attrs);
    for (uint32_t i = 0; i < def->n_attrs; i++)
        if (def->attrs[i].type == STEM_ATTR_TYPE_DTYPE)
            attrs[i].text = stem_dtype_name(t->dtype);
    stem_type_dims(x->eval.dims, t, dim);
    for (uint32_t i = 0; i < t->rank; i++)
        ((struct stem_attr *)stem_op_attr(def, attrs, size[i]))->i = dim[i];
    x->failed |= !stem_build_op(&x->b, def, NULL, 0, attrs, NULL, results);
    return results[0];
}

/* ---- layers ---- */

/* What an `inout` parameter stands for at the end, in the caller's memory. */
static struct stem_value_id written_param(struct stem_expander *x, const struct stem_ast_param *p,
                                          struct stem_value_id given)
{
    struct stem_value_id v = stem_expand_lookup(x, p->id.name);
    if (stem_value_at(x->p, v)->tensor.buffer == stem_value_at(x->p, given)->tensor.buffer)
        return v;
    stem_error(x->diags, STEM_E_STALE_WRITE, p->span,
               "'%s' ends as a version that was written in place while another one was, too",
               stem_name(x->m, p->id.name));
    x->failed = true;
    return v;
}

static void expand_layer(struct stem_expander *x, uint32_t index, const struct stem_x *e,
                         const struct stem_value_id *args, struct stem_called *r)
{
    const struct stem_callable *f = &x->m->callables.at[index];
    struct stem_expander outer = *x;
    struct stem_sym instance = stem_expand_instance(x, &x->eval, e);
    x->path = stem_expand_path(x, outer.path, stem_name(x->m, instance));
    x->indices = (struct stem_indices){{0}};
    x->frame = x->names.len;
    x->callable = index;
    x->returned = NULL;
    x->b.layer = x->p->layers.len;
    stem_vec_push(&x->p->layers, x->path);
    uint32_t i = 0;
    for (const struct stem_ast_param *p = f->item->params; p; p = p->next)
        stem_vec_push(&x->names, (struct stem_bound){p->id.name, args[i++]});
    stem_expand_body(x, f->item->body);
    i = 0;
    for (const struct stem_ast_param *p = f->item->params; p && !x->failed; p = p->next, i++)
        if (p->mode == STEM_AST_INOUT)
            r->v[r->n++] = written_param(x, p, args[i]);
    const struct stem_ast_param *result = f->item->results;
    for (const struct stem_x *v = x->returned; v && !x->failed; v = v->next, result = result->next) {
        x->b.name = result->id.name.n ? result->id.name : stem_intern(x->m->strings, "out");
        x->b.name = stem_expand_path(x, x->path, stem_name(x->m, x->b.name));
        x->b.span = v->span;
        r->v[r->n++] = stem_expand_value(x, v);
    }
    stem_vec_free(&x->indices.v);
    x->names.len = x->frame;
    x->indices = outer.indices;
    x->frame = outer.frame;
    x->callable = outer.callable;
    x->path = outer.path;
    x->returned = outer.returned;
    x->b.layer = outer.b.layer;
    x->b.name = outer.b.name;
    x->b.span = outer.b.span;
}

static void call_layer(struct stem_expander *x, uint32_t index, const struct stem_x *e, struct stem_called *r)
{
    struct stem_value_id args[STEM_MAX_LAYER_PARAMS];
    struct writing w[STEM_MAX_LAYER_PARAMS];
    uint32_t n = 0, n_writing = 0;
    for (const struct stem_arg *a = e->args; a; a = a->next) {
        args[n++] = stem_expand_operand(x, a->value);
        if (x->failed)
            return;
        if (a->mode != STEM_AST_INOUT)
            continue;
        r->inout[r->n_inout++] = a->value;
        w[n_writing++] = (struct writing){a->value, &args[n - 1]};
    }
    if (writable_all(x, w, n_writing))
        expand_layer(x, index, e, args, r);
}

/* ---- kernels and extern functions ---- */

static struct stem_value_id new_buffer(struct stem_expander *x, const struct stem_type *t, struct stem_sym name)
{
    int64_t dim[STEM_MAX_RANK];
    stem_type_dims(x->eval.dims, t, dim);
    return stem_build_buffer(&x->b, STEM_BUFFER_TEMP, name, t->dtype, t->rank, dim);
}

static struct stem_input call_operand(struct stem_expander *x, const struct stem_ast_param *p,
                                      const struct stem_arg **arg, uint32_t n_out)
{
    struct stem_type t;
    if (p->mode == STEM_AST_OUT || p->mode == STEM_AST_WORKSPACE) {
        struct stem_sym name = x->b.name;
        if (n_out > 1 || p->mode == STEM_AST_WORKSPACE)
            name = stem_expand_path(x, name, stem_name(x->m, p->id.name));
        if (!stem_eval_type(&x->eval, &p->type, &t)) {
            x->failed = true;
            return (struct stem_input){STEM_NO_VALUE, STEM_MODE_OUT, p->span};
        }
        if (!p->value)
            return (struct stem_input){new_buffer(x, &t, name), STEM_MODE_OUT, p->span};
        struct stem_sym outer = x->b.name;
        x->b.name = name;
        struct stem_value_id cleared = build_zero(x, &t);
        x->b.name = outer;
        return (struct stem_input){cleared, STEM_MODE_INOUT, p->span};
    }
    while ((*arg)->attr.name.n)
        *arg = (*arg)->next;
    const struct stem_arg *a = *arg;
    *arg = a->next;
    enum stem_mode need = p->mode == STEM_AST_INOUT     ? STEM_MODE_INOUT
                          : p->mode == STEM_AST_CONSUME ? STEM_MODE_CONSUME
                                                        : STEM_MODE_IN;
    struct stem_input in = operand(x, a, need, stem_expand_operand(x, a->value));
    if (need == STEM_MODE_IN)
        in.value = stem_expand_contiguous(x, in.value);
    return in;
}

static struct stem_scalar scalar(struct stem_expander *x, const struct stem_ast_param *p, const struct stem_x *e)
{
    const struct stem_x *value = p->value;
    const char *type = stem_name(x->m, p->type.dtype.name);
    bool is_int;
    int64_t i = 0;
    double f = 0;
    for (const struct stem_arg *a = e->args; a; a = a->next)
        if (stem_sym_eq(a->attr.name, p->id.name))
            value = a->value;
    stem_num_plain(x->eval.dims, stem_eval(&x->eval, value), &is_int, &i, &f);
    struct stem_scalar s = {.kind = !strcmp(type, "f32")   ? STEM_SCALAR_F32
                                    : !strcmp(type, "i32") ? STEM_SCALAR_I32
                                                           : STEM_SCALAR_I64};
    if (s.kind == STEM_SCALAR_F32)
        s.f = f;
    else
        s.i = i;
    return s;
}

static void sizes(struct stem_expander *x, const struct stem_x *e, uint32_t *out)
{
    for (int i = 0; i < 3; i++, e = e ? e->next : NULL) {
        int64_t n = 1;
        if (e)
            stem_dim_value(x->eval.dims, stem_eval_int(&x->eval, e), &n);
        out[i] = (uint32_t)n;
    }
}

static void call_function(struct stem_expander *x, uint32_t index, const struct stem_x *e, struct stem_called *r)
{
    const struct stem_callable *f = &x->m->callables.at[index];
    const struct stem_arg *arg = e->args;
    struct stem_input in[STEM_MAX_OPERANDS];
    const struct stem_x *written[STEM_MAX_OPERANDS];
    struct writing w[STEM_MAX_OPERANDS];
    struct stem_scalar scalars[STEM_MAX_OPERANDS];
    struct stem_value_id results[STEM_MAX_OPERANDS];
    uint32_t n = 0, n_scalars = 0, n_writing = 0, grid[3], block[3];
    int64_t smem = 0;
    for (const struct stem_ast_param *p = f->item->params; p; p = p->next) {
        const struct stem_arg *a = arg;
        while (a && a->attr.name.n)
            a = a->next;
        written[n] = a ? a->value : NULL;
        in[n++] = call_operand(x, p, &arg, f->n_results);
        if (x->failed)
            return;
        if (p->mode == STEM_AST_INOUT || p->mode == STEM_AST_CONSUME)
            w[n_writing++] = (struct writing){written[n - 1], &in[n - 1].value};
    }
    if (!writable_all(x, w, n_writing))
        return;
    for (const struct stem_ast_param *p = f->item->scalars; p; p = p->next)
        scalars[n_scalars++] = scalar(x, p, e);
    bool kernel = f->item->kind == STEM_I_KERNEL;
    sizes(x, f->item->grid, grid);
    sizes(x, f->item->block, block);
    if (f->item->smem)
        stem_dim_value(x->eval.dims, stem_eval_int(&x->eval, f->item->smem), &smem);
    x->b.span = e->id.span;
    stem_build_call(&x->b, f->decl, in, n, scalars, n_scalars, kernel ? grid : NULL, kernel ? block : NULL,
                    (uint32_t)smem, results);
    uint32_t i = 0;
    for (const struct stem_ast_param *p = f->item->params; p; p = p->next, i++)
        if (p->mode == STEM_AST_INOUT)
            add_inout(x, r, written[i], results[i]);
    i = 0;
    for (const struct stem_ast_param *p = f->item->params; p; p = p->next, i++)
        if (p->mode == STEM_AST_OUT)
            r->v[r->n++] = results[i];
}

static const char *c_type(enum stem_dtype t)
{
    static const char *const text[] = {[STEM_F32] = "float",           [STEM_F16] = "__half",
                                       [STEM_BF16] = "__nv_bfloat16",  [STEM_F8E4M3] = "__nv_fp8_e4m3",
                                       [STEM_NVFP4] = "unsigned char", [STEM_I32] = "int",
                                       [STEM_I64] = "long long",       [STEM_U8] = "unsigned char",
                                       [STEM_INT4] = "unsigned char"};
    return text[t];
}

/* `const float *x, float *y, int n`: inputs (in place ones, too), results, scalars. */
static const char *c_params(struct stem_expander *x, const struct stem_callable *f)
{
    struct stem_out o = {0};
    for (int results = 0; results < 2; results++) {
        uint32_t i = 0;
        for (const struct stem_ast_param *p = f->item->params; p; p = p->next, i++) {
            bool out = p->mode == STEM_AST_OUT || (p->mode == STEM_AST_WORKSPACE && !p->value);
            bool read_only = p->mode == STEM_AST_NONE || p->mode == STEM_AST_IN;
            if (out == (results == 1))
                stem_out_printf(&o, "%s%s%s *%s", o.len ? ", " : "", read_only ? "const " : "",
                                c_type(f->param_type[i].dtype), stem_name(x->m, p->id.name));
        }
    }
    for (const struct stem_ast_param *p = f->item->scalars; p; p = p->next)
        stem_out_printf(&o, "%s%s %s", o.len ? ", " : "",
                        c_type(stem_dtype_from_name(stem_name(x->m, p->type.dtype.name))),
                        stem_name(x->m, p->id.name));
    const char *text = stem_arena_strdup(x->p->arena, stem_out_text(&o));
    stem_out_free(&o);
    return text;
}

void stem_expand_declare_calls(struct stem_expander *x)
{
    const char *source = x->m->ast->source->text;
    for (uint32_t i = 0; i < x->m->callables.len; i++) {
        const struct stem_callable *f = &x->m->callables.at[i];
        const struct stem_item *it = f->item;
        if (it->kind != STEM_I_KERNEL && it->kind != STEM_I_EXTERN)
            continue;
        struct stem_decl d = {.class = it->kind == STEM_I_KERNEL ? STEM_OP_KERNEL : STEM_OP_EXTERN,
                              .name = it->id.name,
                              .span = it->id.span};
        d.params = c_params(x, f);
        if (it->kind == STEM_I_KERNEL) {
            d.body = stem_arena_strndup(x->p->arena, source + it->code.begin, it->code.end - it->code.begin);
            d.body_span = it->code;
            d.waits = it->waits;
        } else if (it->library) {
            d.library = stem_arena_strdup(x->p->arena, it->library);
        }
        stem_vec_push(&x->p->decls, d);
    }
}

/* ---- which one ---- */

void stem_expand_call(struct stem_expander *x, const struct stem_x *e, struct stem_called *r)
{
    struct stem_global g = stem_global_find(x->m, e->id.name);
    struct stem_type t;
    r->n = r->n_inout = 0;
    if (x->failed || !stem_expand_step(x, e->span))
        return;
    if (g.kind == STEM_G_CALLABLE) {
        bool layer = x->m->callables.at[g.index].item->kind == STEM_I_LAYER;
        (layer ? call_layer : call_function)(x, g.index, e, r);
        return;
    }
    const struct stem_op_def *def = stem_op_find(stem_name(x->m, e->id.name));
    if (strcmp(def->name, "zero")) {
        call_op(x, def, e, r);
        return;
    }
    x->b.span = e->id.span;
    x->failed |= !stem_eval_type_expr(&x->eval, e->args->value, &t);
    if (!x->failed)
        r->v[r->n++] = build_zero(x, &t);
}
