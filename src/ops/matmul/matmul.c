/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul: linear by cuBLASLt. y[.., N] = x[.., K] times the transpose of w[N, K], f32 sums, one rounding. The library pass
 * puts it in place of linear where that is faster; nothing in the language makes it. Its bits differ from linear's,
 * since the library sums in another order; they are the same for a given GPU and version of the library.
 *
 * The second result is memory that the library works in: it has no value.
 */
#include "ops/matmul/matmul.h"

#include "ops/epilogue.h"
#include "ops/linear/linear.h"
#include "ops/rule.h"

static bool infer(struct stem_infer *c)
{
    const struct stem_type *x = &c->in[0], *w = &c->in[1];
    const char *out = stem_op_attr(&stem_op_matmul, c->attrs, "out")->text;
    enum stem_dtype type = out ? stem_dtype_from_name(out) : x->dtype;
    if ((x->dtype != STEM_BF16 && x->dtype != STEM_F16) || w->dtype != x->dtype || (type != x->dtype && type != STEM_F32))
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 0, "matmul multiplies bf16 or f16 to that or f32");
    if (x->rank < 1 || w->rank != 2 || !stem_dim_same(x->dim[x->rank - 1], w->dim[1]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "matmul multiplies x[.., K] by w[N, K]");
    c->out[0] = *x;
    c->out[0].dtype = type;
    c->out[0].dim[x->rank - 1] = w->dim[0];
    c->out[1] = (struct stem_type){.dtype = STEM_U8, .rank = 1};
    c->out[1].dim[0] = stem_dim_const(c->dims, STEM_MATMUL_WORKSPACE);
    return true;
}

/* Of 151,936 columns (a vocabulary) cuBLASLt of CUDA 13.0 recorded no chain of kernels by any algorithm that it named; of
 * 102,400 it does. Where between is not known. */
enum { MOST_COLUMNS = 131072 };

bool stem_matmul_can(const struct stem_concrete *c, const char **why)
{
    const struct stem_tensor *x = &c->operand[0], *w = &c->operand[1], *y = &c->operand[c->n_in];
    int64_t n = w->dim[0], k = w->dim[1], m = 1;
    bool more = stem_op_attr(c->def, c->attrs, "then")->text;
    for (uint32_t i = 2; i < c->n_in; i++)
        more |= c->operand[i].rank != STEM_NONE;
    for (uint32_t i = 0; i + 1 < x->rank; i++)
        m *= x->dim[i];
    *why = more || w->dtype != x->dtype                               ? "its weights have scales, or it has an epilogue"
           : x->dtype != STEM_BF16 && x->dtype != STEM_F16            ? "it multiplies neither bf16 nor f16"
           : y->dtype != x->dtype && y->dtype != STEM_F32             ? "its result is neither of x's type nor f32"
           : n % 8 || k % 8                                           ? "its sizes are not multiples of 8"
           : x->offset % 16 || w->offset % 16 || y->offset % 16       ? "an operand does not begin at a multiple of 16 bytes"
           : n > MOST_COLUMNS                                         ? "it has more than 131072 columns"
           : m > INT32_MAX || k > INT32_MAX || m < 1                  ? "it is too large"
                                                                      : NULL;
    return !*why;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    stem_op_linear.cost(c, cost);
    cost->efficiency = 1 / 1.3; /* what was measured of its large products on an H200 */
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l)
{
    (void)c, (void)t, (void)a;
    *l = (struct stem_lowered){.work = STEM_WORK_MATMUL};
}

const struct stem_op_def stem_op_matmul = {
    .name = "matmul",
    .blurb = "linear by cuBLASLt; where the compiler finds it faster",
    .params = {{"x", STEM_MODE_IN, false, false}, {"w", STEM_MODE_IN, false, false}},
    .n_params = 2,
    .attrs = {{"out", STEM_ATTR_TYPE_DTYPE, false, 0, NULL, NULL}},
    .n_attrs = 1,
    .results = {"y", "workspace"},
    .scratch = 1 << 1,
    .start_us = 3.5, /* an H200: 5.3 us behind each other, of shapes that move nothing to speak of */
    .internal = true,
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_linear_reference,
};
