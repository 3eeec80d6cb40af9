/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/epilogue.h"

#include <stdlib.h>
#include <string.h>

#include "ops/pointwise/pointwise.h"
#include "ops/ref.h"
#include "ops/rule.h"

static const char *text_of(const struct stem_op_def *def, const struct stem_attr *attrs, const char *name)
{
    return stem_op_attr(def, attrs, name)->text;
}

bool stem_epilogue_get(const struct stem_op_def *def, const struct stem_attr *attrs, struct stem_epilogue *e)
{
    const char *why, *then = def->epilogue ? text_of(def, attrs, "then") : NULL;
    if (!then)
        return false;
    if (!stem_expr_parse(&e->expr, then, &why))
        abort();
    e->of = stem_dtype_from_name(text_of(def, attrs, "then_of"));
    e->type = stem_dtype_from_name(text_of(def, attrs, "then_type"));
    e->pair = text_of(def, attrs, "halves") != NULL;
    e->first = e->pair ? 2 : 1;
    return true;
}

enum stem_meets stem_epilogue_meets(const struct stem_tensor *more, const struct stem_tensor *result)
{
    int64_t stride = 1;
    bool all = more->rank == result->rank, last = more->rank > 0 && result->rank > 0;
    for (uint32_t i = more->rank; i-- > 0; stride *= more->dim[i])
        if (more->dim[i] != 1 && more->stride[i] != stride)
            return STEM_MEETS_NOT;
    for (uint32_t i = 0; i < more->rank; i++) {
        all = all && more->dim[i] == result->dim[i];
        last = last && more->dim[i] == (i + 1 == more->rank ? result->dim[result->rank - 1] : 1);
    }
    return all ? STEM_MEETS_ALL : last && more->rank <= result->rank ? STEM_MEETS_LAST : STEM_MEETS_NOT;
}

/* ---- the type rule ---- */

static bool fail(struct stem_infer *c, const struct stem_op_def *def, const char *what)
{
    stem_error(c->diags, STEM_E_OP_ATTR, c->span, "%s: %s", def->name, what);
    return false;
}

/* Shapes may be symbolic: the last size is the same, and so is each other one or it is 1. */
static bool meets(struct stem_infer *c, uint32_t i, const struct stem_type *y)
{
    const struct stem_type *t = &c->in[i];
    int64_t one;
    bool same = t->rank >= 1 && t->rank <= y->rank;
    for (uint32_t k = 0; same && k < t->rank; k++) {
        struct stem_dim d = y->dim[k + y->rank - t->rank];
        same = stem_dim_same(t->dim[k], d) ||
               (k + 1 < t->rank && stem_dim_value(c->dims, t->dim[k], &one) && one == 1);
    }
    return same || stem_rule_fail(c, STEM_E_OP_SHAPE, i, "an operand of an epilogue must have the result's shape");
}

bool stem_epilogue_infer(struct stem_infer *c, const struct stem_op_def *def)
{
    const char *why, *then = text_of(def, c->attrs, "then"), *of = text_of(def, c->attrs, "then_of"),
                     *type = text_of(def, c->attrs, "then_type");
    struct stem_expr e;
    struct stem_type *y = &c->out[0];
    bool pair = text_of(def, c->attrs, "halves") != NULL;
    if (!stem_expr_parse(&e, then, &why))
        return fail(c, def, "its epilogue is not an expression");
    if (!of || stem_dtype_from_name(of) != y->dtype)
        return fail(c, def, "its epilogue is of another element type");
    if (!type || !stem_c_type(stem_dtype_from_name(type)))
        return fail(c, def, "its epilogue stores an unknown element type");
    if (c->n_in < def->n_params || e.n_inputs > c->n_in - def->n_params + (pair ? 2 : 1))
        return fail(c, def, "its epilogue has more operands than there are");
    if (pair && !def->halves)
        return fail(c, def, "it has no halves");
    if (pair) {
        struct stem_dim two = stem_dim_const(c->dims, 2), last = y->dim[y->rank - 1],
                        half = stem_dim_op(c->dims, STEM_DIM_DIV, last, two);
        if (!stem_dim_same(stem_dim_op(c->dims, STEM_DIM_MUL, half, two), last))
            return fail(c, def, "an odd size has no halves");
        y->dim[y->rank - 1] = half;
    }
    y->dtype = stem_dtype_from_name(type);
    for (uint32_t i = def->n_params; i < c->n_in; i++)
        if (!stem_c_type(c->in[i].dtype) || !meets(c, i, y))
            return fail(c, def, "its epilogue does not fit its operands");
    return true;
}

/* ---- cost and reference ---- */

void stem_epilogue_base(const struct stem_concrete *c, const struct stem_epilogue *e, struct stem_tensor *tensor,
                        struct stem_concrete *base)
{
    uint32_t n = c->def->n_params;
    struct stem_tensor *y = &tensor[n];
    memcpy(tensor, c->operand, n * sizeof *tensor);
    *y = c->operand[c->n_in];
    *base = *c;
    base->operand = tensor;
    base->n_in = n;
    y->dtype = e->of;
    y->offset = 0;
    y->dim[y->rank - 1] *= e->pair ? 2 : 1;
    int64_t stride = 1;
    for (uint32_t i = y->rank; i-- > 0; stride *= y->dim[i])
        y->stride[i] = stride;
}

void stem_op_cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    struct stem_epilogue e;
    struct stem_tensor tensor[STEM_MAX_OPERANDS];
    struct stem_concrete base;
    if (!stem_epilogue_get(c->def, c->attrs, &e)) {
        c->def->cost(c, cost);
        return;
    }
    stem_epilogue_base(c, &e, tensor, &base);
    c->def->cost(&base, cost);
    cost->bytes_written = stem_tensor_extent(&c->operand[c->n_in]);
    for (uint32_t i = c->def->n_params; i < c->n_in; i++)
        cost->bytes_read += stem_tensor_extent(&c->operand[i]);
}

/* One row of the result: the op's own elements, then the operands' as f32, through the expression. */
static void finish_row(const struct stem_concrete *c, const struct stem_epilogue *e, const void *own, uint64_t row,
                       void *const *data, float *scratch)
{
    const struct stem_tensor *y = &c->operand[c->n_in];
    uint32_t n = (uint32_t)y->dim[y->rank - 1], each = e->first;
    const float *in[STEM_MAX_OPERANDS];
    for (uint32_t i = 0; i < each; i++) {
        in[i] = scratch + (size_t)i * n;
        stem_ref_load_row(e->of, own, (int64_t)(row * each + i) * n, 1, n, scratch + (size_t)i * n);
    }
    for (uint32_t i = c->def->n_params; i < c->n_in; i++) {
        uint32_t k = each + i - c->def->n_params;
        bool all = stem_epilogue_meets(&c->operand[i], y) == STEM_MEETS_ALL;
        in[k] = scratch + (size_t)k * n;
        stem_ref_load_row(c->operand[i].dtype, data[i], all ? (int64_t)row * n : 0, 1, n, scratch + (size_t)k * n);
    }
    float *out = scratch + (size_t)STEM_MAX_OPERANDS * n;
    stem_pointwise_finish(&e->expr, stem_expr_whole(&e->expr, NULL, e->type), in, n, out + n, out, e->type, data[c->n_in],
                          (int64_t)row * n);
}

void stem_op_reference(const struct stem_concrete *c, void *const *data)
{
    struct stem_epilogue e;
    struct stem_tensor tensor[STEM_MAX_OPERANDS];
    struct stem_concrete base;
    if (!stem_epilogue_get(c->def, c->attrs, &e)) {
        c->def->reference(c, data);
        return;
    }
    stem_epilogue_base(c, &e, tensor, &base);
    void *inner[STEM_MAX_OPERANDS];
    memcpy(inner, data, base.n_in * sizeof *inner);
    inner[base.n_in] = stem_xmalloc(stem_tensor_extent(&tensor[base.n_in]));
    c->def->reference(&base, inner);
    const struct stem_tensor *y = &c->operand[c->n_in];
    size_t row = (size_t)y->dim[y->rank - 1];
    float *scratch = stem_xmalloc((STEM_MAX_OPERANDS + 1 + e.expr.n) * row * sizeof *scratch);
    for (uint64_t r = 0; r < stem_ref_rows(y); r++)
        finish_row(c, &e, inner[base.n_in], r, data, scratch);
    free(scratch);
    free(inner[base.n_in]);
}

/* ---- device code ---- */

/* The functor's body: all that decides what it does, but for the name. */
static void print_functor(const struct stem_concrete *c, const struct stem_epilogue *e, struct stem_out *o)
{
    const char *of = stem_c_type(e->of), *y = stem_c_type(e->type);
    uint32_t n = c->def->n_params;
    for (uint32_t i = n; i < c->n_in; i++)
        stem_out_printf(o, "    const %s *e%u;\n", stem_c_type(c->operand[i].dtype), i - n);
    stem_out_printf(o,
                    "    %s *y;\n    long long n;\n"
                    "    __device__ __forceinline__ void operator()(int row, int column, float v, float u) const\n"
                    "    {\n        long long at = row * n + column;\n"
                    "        float a0 = stem_float(stem_round<%s>::from(v));\n",
                    y, of);
    if (e->pair)
        stem_out_printf(o, "        float a1 = stem_float(stem_round<%s>::from(u));\n", of);
    for (uint32_t i = n; i < c->n_in; i++)
        stem_out_printf(o, "        float a%u = stem_float(e%u[%s]);\n", e->first + i - n, i - n,
                        stem_epilogue_meets(&c->operand[i], &c->operand[c->n_in]) == STEM_MEETS_ALL ? "at" : "column");
    stem_pointwise_print_store(&e->expr, stem_expr_whole(&e->expr, NULL, e->type), NULL, e->type, "y[at]", o);
    stem_out_str(o, "    }\n};\n");
}

void stem_epilogue_store(const struct stem_concrete *c, const char *kernel, const char *columns,
                         struct stem_arena *arena, struct stem_store *s, const char **define)
{
    struct stem_epilogue e;
    const char *y = stem_c_type(c->operand[c->n_in].dtype);
    *s = (struct stem_store){.name = "", .params = "", .make = ""};
    *define = "";
    if (!stem_epilogue_get(c->def, c->attrs, &e)) {
        s->make = stem_arena_printf(arena, "stem_store_plain<%s>{y, %s}", y, columns);
        return;
    }
    struct stem_out o = {0}, params = {0}, args = {0};
    print_functor(c, &e, &o);
    for (uint32_t i = c->def->n_params; i < c->n_in; i++) {
        stem_out_printf(&params, "const %s *e%u, ", stem_c_type(c->operand[i].dtype), i - c->def->n_params);
        stem_out_printf(&args, "e%u, ", i - c->def->n_params);
    }
    s->pair = e.pair;
    s->name = stem_kernel_name(arena, "_", o.text, o.len);
    s->params = stem_arena_strdup(arena, stem_out_text(&params));
    s->make = stem_arena_printf(arena, "%s%s_store{%sy, %s%s}", kernel, s->name, stem_out_text(&args), columns,
                                e.pair ? " / 2" : "");
    *define = stem_arena_printf(arena, "struct %s%s_store {\n%s", kernel, s->name, stem_out_text(&o));
    stem_out_free(&o);
    stem_out_free(&params);
    stem_out_free(&args);
}
