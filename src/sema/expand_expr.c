/* SPDX-License-Identifier: Apache-2.0
 *
 * Expanding expressions into values: names, slices, views, pointwise arithmetic.
 */
#include "ops/pointwise/expr.h"

#include <string.h>

#include "sema/check.h"
#include "sema/expand.h"

struct stem_value_id stem_expand_lookup(struct stem_expander *x, struct stem_sym name)
{
    for (uint32_t i = x->names.len; i-- > x->frame;)
        if (stem_sym_eq(x->names.at[i].name, name))
            return x->names.at[i].value;
    return STEM_NO_VALUE;
}

/* One entry for each name of a frame: a new binding takes the place of the old one, also from within a loop. */
void stem_expand_set(struct stem_expander *x, struct stem_sym name, struct stem_value_id v)
{
    for (uint32_t i = x->names.len; i-- > x->frame;)
        if (stem_sym_eq(x->names.at[i].name, name)) {
            x->names.at[i].value = v;
            return;
        }
    stem_vec_push(&x->names, (struct stem_bound){name, v});
}

/* ---- borrowed memory ---- */

bool stem_expand_borrows(const struct stem_expander *x, struct stem_value_id v)
{
    return v.n < x->lender.len && x->lender.at[v.n].n != STEM_NONE;
}

struct stem_value_id stem_expand_to_read(const struct stem_expander *x, struct stem_value_id v)
{
    return stem_expand_borrows(x, v) ? x->lender.at[v.n] : v;
}

static struct stem_value_id borrow(struct stem_expander *x, struct stem_value_id v, struct stem_value_id lender)
{
    while (x->lender.len <= v.n)
        stem_vec_push(&x->lender, STEM_NO_VALUE);
    x->lender.at[v.n] = lender;
    return v;
}

/* The value of a cast to the same type: one of its own, so that it is known where it is written. */
static struct stem_value_id recast(struct stem_expander *x, struct stem_value_id v)
{
    struct stem_tensor t = stem_value_at(x->p, v)->tensor;
    if (stem_expand_borrows(x, v))
        return v;
    return borrow(x, stem_build_view(&x->b, v, stem_value_at(x->p, v)->name, 0, t.rank, t.dim, t.stride), v);
}

/* `v` is a part or another shape of `of`. */
static struct stem_value_id part(struct stem_expander *x, struct stem_value_id of, struct stem_value_id v)
{
    return stem_expand_borrows(x, of) ? borrow(x, v, v) : v;
}

/* ---- slices and views ---- */

static int64_t number(struct stem_expander *x, const struct stem_x *e)
{
    int64_t i = 0;
    stem_dim_value(x->eval.dims, stem_eval_int(&x->eval, e), &i);
    return i;
}

static struct stem_value_id slice(struct stem_expander *x, const struct stem_x *e)
{
    struct stem_value_id v = stem_expand_value(x, e->a);
    if (x->failed)
        return v;
    struct stem_tensor t = stem_value_at(x->p, v)->tensor;
    int64_t dim[STEM_MAX_RANK], stride[STEM_MAX_RANK], first = 0;
    uint32_t rank = 0, i = 0;
    for (const struct stem_sub *s = e->subs; s; s = s->next, i++) {
        int64_t low = s->low ? number(x, s->low) : 0, high = s->high ? number(x, s->high) : t.dim[i];
        first += low * t.stride[i];
        if (!s->range)
            continue;
        dim[rank] = high - low;
        stride[rank++] = t.stride[i];
    }
    if (rank == t.rank && first == 0 && !memcmp(dim, t.dim, rank * sizeof *dim))
        return v;
    uint64_t offset = (uint64_t)first * stem_dtype_bits(t.dtype) / 8;
    return part(x, v, stem_build_view(&x->b, v, stem_value_at(x->p, v)->name, offset, rank, dim, stride));
}

/* Strides of `t`, whose sizes split those of `from`, which may have gaps. */
static void split_strides(const struct stem_tensor *from, struct stem_tensor *t)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < from->rank; i++) {
        uint32_t first = k;
        for (int64_t n = 1; n != from->dim[i] && k < t->rank; k++)
            n *= t->dim[k];
        int64_t stride = from->stride[i];
        for (uint32_t j = k; j-- > first;) {
            t->stride[j] = stride;
            stride *= t->dim[j];
        }
    }
}

/* The new shape of a cast was judged as that of a tensor without gaps. The name goes on as the copy, which is the same
 * value: it may be about to be written through this view. */
static struct stem_value_id without_gaps(struct stem_expander *x, const struct stem_x *e, struct stem_value_id v)
{
    const struct stem_x *base = stem_base_name(e);
    if (!base)
        return stem_expand_contiguous(x, v);
    stem_expand_set(x, base->id.name, stem_expand_contiguous(x, stem_expand_lookup(x, base->id.name)));
    return stem_expand_value(x, e);
}

static struct stem_value_id view(struct stem_expander *x, const struct stem_x *e)
{
    struct stem_value_id v = stem_expand_value(x, e->a);
    struct stem_tensor t;
    int64_t dim[STEM_MAX_RANK];
    uint32_t rank = 0;
    for (const struct stem_x *d = e->shape; d; d = d->next)
        dim[rank++] = number(x, d);
    if (stem_expand_borrows(x, v) && !stem_tensor_contiguous(&stem_value_at(x->p, v)->tensor))
        v = without_gaps(x, e->a, v);
    if (x->failed || !stem_tensor_init(&t, stem_value_at(x->p, v)->tensor.dtype, rank, dim))
        return v;
    if (!stem_tensor_contiguous(&stem_value_at(x->p, v)->tensor))
        split_strides(&stem_value_at(x->p, v)->tensor, &t);
    return part(x, v, stem_build_view(&x->b, v, stem_value_at(x->p, v)->name, 0, rank, dim, t.stride));
}

struct stem_value_id stem_expand_whole(struct stem_expander *x, struct stem_value_id old, struct stem_value_id v)
{
    const struct stem_value *o = stem_value_at(x->p, old), *n = stem_value_at(x->p, v);
    struct stem_tensor t = o->tensor;
    if (t.offset == n->tensor.offset && t.rank == n->tensor.rank &&
        !memcmp(t.dim, n->tensor.dim, t.rank * sizeof *t.dim))
        return v;
    /* the difference may be negative: it wraps, as offsets are added modulo 2^64 */
    return stem_build_view(&x->b, v, o->name, t.offset - n->tensor.offset, t.rank, t.dim, t.stride);
}

/* ---- pointwise ---- */

struct leaves {
    struct stem_expander *x;
    struct stem_input in[STEM_MAX_OPERANDS];
    struct stem_value_id given; /* the last one as its text stands for it */
};

static enum stem_dtype leaf(void *user, const struct stem_x *e, uint32_t i)
{
    struct leaves *l = user;
    struct stem_value_id v = l->given = stem_expand_operand(l->x, e);
    if (l->x->failed)
        return STEM_N_DTYPES;
    v = stem_expand_to_read(l->x, v);
    l->in[i] = (struct stem_input){v, STEM_MODE_IN, e->span};
    return stem_value_at(l->x->p, v)->tensor.dtype;
}

/* A conversion to the type that the value has already. */
static bool is_nothing(const struct stem_pointwise *pw, const char *text)
{
    const char *as = strstr(text, " as:");
    return pw->n == 1 && pw->leaf_dtype[0] == pw->dtype && !strncmp(text, "i0", 2) && as == text + 2 &&
           !strchr(as + 1, ' ');
}

struct stem_value_id stem_expand_pointwise(struct stem_expander *x, const struct stem_x *e)
{
    struct leaves l = {.x = x};
    struct stem_pointwise pw = {0};
    struct stem_attr attrs[STEM_MAX_ATTRS];
    struct stem_value_id results[STEM_MAX_OPERANDS] = {STEM_NO_VALUE};
    const struct stem_op_def *def = stem_op_find("pointwise");
    struct stem_span outer = x->b.span;
    if (!stem_pointwise_build(&x->eval, e, leaf, &l, &pw)) {
        x->failed = true;
    } else if (is_nothing(&pw, stem_out_text(&pw.text))) {
        results[0] = recast(x, l.given);
    } else {
        stem_op_attr_defaults(def, attrs);
        for (uint32_t i = 0; i < def->n_attrs; i++) {
            if (def->attrs[i].type == STEM_ATTR_TYPE_EXPR)
                attrs[i].text = stem_out_text(&pw.text);
            if (def->attrs[i].type == STEM_ATTR_TYPE_DTYPE)
                attrs[i].text = stem_dtype_name(pw.dtype);
        }
        x->b.span = e->span;
        x->failed |= !stem_build_op(&x->b, def, l.in, pw.n, attrs, NULL, results);
        x->b.span = outer;
    }
    stem_out_free(&pw.text);
    return results[0];
}

struct stem_value_id stem_expand_value(struct stem_expander *x, const struct stem_x *e)
{
    struct stem_called r;
    if (x->failed)
        return STEM_NO_VALUE;
    switch (e->kind) {
    case STEM_X_NAME:
        return stem_expand_lookup(x, e->id.name);
    case STEM_X_SLICE:
        return slice(x, e);
    case STEM_X_VIEW:
        return view(x, e);
    default:
        if (stem_is_pointwise(&x->eval, e))
            return stem_expand_pointwise(x, e);
        stem_expand_call(x, e, &r);
        return x->failed ? STEM_NO_VALUE : r.v[0];
    }
}
