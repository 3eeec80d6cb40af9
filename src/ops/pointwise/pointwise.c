/* SPDX-License-Identifier: Apache-2.0
 *
 * pointwise: one expression for each element (expr.h), operands broadcast by numpy's rule.
 */
#include "ops/pointwise/pointwise.h"

#include "ops/pointwise/expr.h"
#include "ops/rule.h"

static bool broadcast(struct stem_infer *c, uint32_t i, struct stem_type *out)
{
    const struct stem_type *t = &c->in[i];
    int64_t one;
    if (t->rank > out->rank) { /* make room on the left */
        uint32_t more = t->rank - out->rank;
        for (uint32_t k = out->rank; k-- > 0;)
            out->dim[k + more] = out->dim[k];
        for (uint32_t k = 0; k < more; k++)
            out->dim[k] = stem_dim_const(c->dims, 1);
        out->rank = t->rank;
    }
    for (uint32_t k = 0; k < t->rank; k++) {
        struct stem_dim *d = &out->dim[k + out->rank - t->rank];
        if (stem_dim_same(*d, t->dim[k]) || (stem_dim_value(c->dims, t->dim[k], &one) && one == 1))
            continue;
        if (!stem_dim_value(c->dims, *d, &one) || one != 1)
            return stem_rule_fail(c, STEM_E_OP_SHAPE, i, "a size of this operand is %s where others have %s",
                                  stem_rule_dim(c, t->dim[k]).s, stem_rule_dim(c, *d).s);
        *d = t->dim[k];
    }
    return true;
}

static bool infer(struct stem_infer *c)
{
    struct stem_type *out = &c->out[0];
    struct stem_expr e;
    const char *why, *text = stem_op_attr(&stem_op_pointwise, c->attrs, "expr")->text;
    *out =
        (struct stem_type){.dtype = stem_dtype_from_name(stem_op_attr(&stem_op_pointwise, c->attrs, "dtype")->text)};
    if (!stem_expr_parse(&e, text, &why)) {
        stem_error(c->diags, STEM_E_OP_ATTR, c->span, "pointwise: '%s' is not an expression: %s", text, why);
        return false;
    }
    if (e.n_inputs > c->n_in) {
        stem_error(c->diags, STEM_E_OP_ARITY, c->span, "pointwise: the expression has %u operands, not %u",
                   e.n_inputs, c->n_in);
        return false;
    }
    if (stem_dtype_packed(out->dtype)) {
        stem_error(c->diags, STEM_E_OP_DTYPE, c->span, "pointwise: the result cannot be %s",
                   stem_dtype_name(out->dtype));
        return false;
    }
    for (uint32_t i = 0; i < c->n_in; i++) {
        if (stem_dtype_packed(c->in[i].dtype))
            return stem_rule_fail(c, STEM_E_OP_DTYPE, i, "pointwise: an operand cannot be %s",
                                  stem_dtype_name(c->in[i].dtype));
        if (!broadcast(c, i, out))
            return false;
    }
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    struct stem_expr e;
    const char *why;
    const struct stem_tensor *y = &c->operand[c->n_in];
    uint64_t n = stem_tensor_elements(y);
    *cost = (struct stem_cost){.bytes_written = stem_tensor_extent(y), .blocks = (uint32_t)((n + 1023) / 1024)};
    for (uint32_t i = 0; i < c->n_in; i++)
        cost->bytes_read += stem_tensor_elements(&c->operand[i]) * stem_dtype_bits(c->operand[i].dtype) / 8;
    if (stem_expr_parse(&e, stem_op_attr(c->def, c->attrs, "expr")->text, &why))
        for (uint32_t i = 0; i < e.n; i++)
            cost->flops += e.node[i].kind == STEM_EXPR_UNARY || e.node[i].kind == STEM_EXPR_BINARY ? n : 0;
}

const struct stem_op_def stem_op_pointwise = {
    .name = "pointwise",
    .blurb = "one expression for each element, operands broadcast",
    .params = {{"x", STEM_MODE_IN, false, true}},
    .n_params = 1,
    .variadic = true,
    .attrs = {{"expr", STEM_ATTR_TYPE_EXPR, true, 0, NULL, NULL},
              {"dtype", STEM_ATTR_TYPE_DTYPE, true, 0, NULL, NULL}},
    .n_attrs = 2,
    .results = {"y"},
    .internal = true,
    .infer = infer,
    .cost = cost,
    .lower = stem_pointwise_lower,
    .reference = stem_pointwise_reference,
};
