/* SPDX-License-Identifier: Apache-2.0
 *
 * norm_linear: linear of a normalised x in one launch, with the normalisation last (norm_linear.cuh):
 * y[.., N] = sum over k of r(x[.., k] * norm[k]) * w[N, k], over sqrt(mean(x^2) + eps), where r rounds to x's type. As near
 * to the exact value as rmsnorm and linear one after the other, but not the same bits: it is what a program asks for, no
 * pass makes it. x may be a slice with gaps.
 */
#include <math.h>
#include <stdlib.h>

#include "ops/linear/linear.h"
#include "ops/ref.h"
#include "ops/rule.h"

static bool infer(struct stem_infer *c)
{
    const struct stem_type *x = &c->in[0], *norm = &c->in[1], *w = &c->in[2];
    const char *out = stem_op_attr(&stem_op_norm_linear, c->attrs, "out")->text;
    enum stem_dtype type = out ? stem_dtype_from_name(out) : x->dtype;
    if (!stem_rule_float(c, 0, "norm_linear: x") || !stem_rule_float(c, 1, "norm_linear: the norm's weight"))
        return false;
    if (norm->dtype != x->dtype && norm->dtype != STEM_F32)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 1, "norm_linear: the norm's weight is of x's type or f32");
    if (w->dtype != x->dtype)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 2, "norm_linear: w is of x's type");
    if (x->rank < 1 || norm->rank != 1 || w->rank != 2)
        return stem_rule_fail(c, STEM_E_OP_RANK, x->rank < 1 ? 0 : norm->rank != 1 ? 1 : 2,
                              "norm_linear takes x[.., K], the norm's weight [K] and w[N, K]");
    if (!stem_dim_same(norm->dim[0], x->dim[x->rank - 1]) || !stem_dim_same(w->dim[1], x->dim[x->rank - 1]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, stem_dim_same(w->dim[1], x->dim[x->rank - 1]) ? 1 : 2,
                              "norm_linear: the last sizes differ from x's");
    if (!stem_stream_is_float(type))
        return stem_rule_attr(c, "norm_linear: out is bf16, f16 or f32, not %s", stem_dtype_name(type));
    if (!stem_rule_eps(c, &stem_op_norm_linear))
        return false;
    c->out[0] = *x;
    c->out[0].dtype = type;
    c->out[0].dim[x->rank - 1] = w->dim[0];
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    uint64_t elements = (uint64_t)stem_tensor_elements(&c->operand[0]);
    struct stem_concrete linear = *c; /* of x as if it had no gaps: no more is read */
    const struct stem_tensor operand[3] = {c->operand[0], c->operand[2], c->operand[c->n_in]};
    linear.operand = operand;
    linear.n_in = 2;
    stem_op_linear.cost(&linear, cost);
    cost->bytes_read += stem_tensor_extent(&c->operand[1]);
    cost->flops += 3 * elements;
}

/* Rows of x, times norm and rounded, and the factors that come last. */
static void begin(const struct stem_concrete *c, void *const *data, float *scaled, float *factor)
{
    const struct stem_tensor *x = &c->operand[0];
    uint32_t k = (uint32_t)x->dim[x->rank - 1];
    float *norm = stem_ref_alloc(k * sizeof *norm);
    stem_ref_load_row(c->operand[1].dtype, data[1], 0, 1, k, norm);
    for (uint64_t r = 0; r < stem_ref_rows(x); r++) {
        float *row = scaled + r * k;
        double sum = 0;
        stem_ref_load_row(x->dtype, data[0], stem_ref_row_offset(x, r), x->stride[x->rank - 1], k, row);
        for (uint32_t i = 0; i < k; i++) {
            sum += (double)row[i] * row[i];
            row[i] = stem_ref_round(x->dtype, row[i] * norm[i]);
        }
        factor[r] = (float)(1.0 / sqrt(sum / k + stem_op_attr(c->def, c->attrs, "eps")->f));
    }
    free(norm);
}

static void reference(const struct stem_concrete *c, void *const *data)
{
    const struct stem_tensor *w = &c->operand[2], *y = &c->operand[c->n_in];
    uint64_t m = stem_ref_rows(&c->operand[0]);
    int64_t n = w->dim[0], k = w->dim[1];
    float *scaled = stem_ref_alloc((size_t)m * (size_t)k * sizeof *scaled), *factor = stem_ref_alloc(m * sizeof *factor);
    float *row = stem_ref_alloc((size_t)k * sizeof *row);
    begin(c, data, scaled, factor);
    for (int64_t j = 0; j < n; j++) {
        stem_ref_load_row(w->dtype, data[2], j * k, 1, (uint32_t)k, row);
        for (uint64_t r = 0; r < m; r++)
            stem_ref_store(y->dtype, data[c->n_in], (int64_t)r * n + j,
                           factor[r] * stem_ref_dot(scaled + (int64_t)r * k, row, k));
    }
    free(scaled);
    free(factor);
    free(row);
}

const struct stem_op_def stem_op_norm_linear = {
    .name = "norm_linear",
    .blurb = "linear of rmsnorm(x, norm), with the normalisation last; f32 sums, one rounding",
    .params = {{"x", STEM_MODE_IN, false, true}, {"norm", STEM_MODE_IN, false, false}, {"w", STEM_MODE_IN, false, false}},
    .n_params = 3,
    .attrs = {{"out", STEM_ATTR_TYPE_DTYPE, false, 0, NULL, NULL},
              {"eps", STEM_ATTR_TYPE_FLOAT, false, 1e-6, NULL, NULL},
              STEM_EPILOGUE_ATTRS},
    .n_attrs = 2 + STEM_N_EPILOGUE_ATTRS,
    .epilogue = true,
    .halves = true,
    .can_share = true,
    .results = {"y"},
    .infer = infer,
    .cost = cost,
    .lower = stem_norm_linear_lower,
    .reference = reference,
};
