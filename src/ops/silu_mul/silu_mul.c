/* SPDX-License-Identifier: Apache-2.0
 *
 * silu_mul: y = silu(first half of the last dim) * second half, in f32, rounded once.
 */
#include "ops/silu_mul/silu_mul.h"

#include "ops/rule.h"

enum { THREADS = 128 };

static bool infer(struct stem_infer *c)
{
    const struct stem_type *x = &c->in[0];
    if (!stem_rule_float(c, 0, "silu_mul: x"))
        return false;
    if (x->rank < 1)
        return stem_rule_fail(c, STEM_E_OP_RANK, 0, "silu_mul: x must have a dimension to halve");
    struct stem_dim two = stem_dim_const(c->dims, 2), last = x->dim[x->rank - 1];
    struct stem_dim half = stem_dim_op(c->dims, STEM_DIM_DIV, last, two);
    if (!stem_dim_same(stem_dim_op(c->dims, STEM_DIM_MUL, half, two), last))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 0, "silu_mul: the last size of x must be even");
    c->out[0] = *x;
    c->out[0].dim[x->rank - 1] = half;
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    uint64_t n = stem_tensor_elements(&c->operand[1]);
    *cost = (struct stem_cost){.bytes_read = stem_tensor_extent(&c->operand[0]),
                               .bytes_written = stem_tensor_extent(&c->operand[1]),
                               .flops = 3 * n,
                               .blocks = (uint32_t)((n + 1023) / 1024)};
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *arena,
                  struct stem_lowered *l)
{
    const struct stem_tensor *y = &c->operand[1];
    uint32_t bytes = stem_dtype_bits(y->dtype) / 8;
    uint32_t width = stem_vector_width((uint64_t)y->dim[y->rank - 1], 16 / bytes);
    uint64_t n = stem_tensor_elements(y);
    (void)t;
    for (int i = 0; i < 2; i++)
        while (width > 1 && c->operand[i].offset % (width * bytes))
            width /= 2;
    const char *type = stem_c_type(y->dtype);
    *l = (struct stem_lowered){
        .work = STEM_WORK_LAUNCH,
        .kernel = stem_arena_printf(arena, "stem_silu_mul_%s_v%u", stem_dtype_name(y->dtype), width),
        .headers = {"common", "pointwise", "silu_mul"},
        .grid = {(uint32_t)((n / width + THREADS - 1) / THREADS), 1, 1},
        .block = {THREADS, 1, 1},
        .scalars = {{.kind = STEM_SCALAR_I64, .i = (int64_t)n}, {.kind = STEM_SCALAR_I64, .i = y->dim[y->rank - 1]}},
        .n_scalars = 2,
        .waits = true,
        .ahead = true,
    };
    l->code = stem_arena_printf(arena,
                                "extern \"C\" __global__ void __launch_bounds__(%d)\n"
                                "%s(const %s *x, %s *y, long long n, long long half)\n"
                                "{\n"
                                "    stem_silu_mul<%s, %u>(x, y, n, half);\n"
                                "}\n",
                                THREADS, l->kernel, type, type, type, width);
}

const struct stem_op_def stem_op_silu_mul = {
    .name = "silu_mul",
    .blurb = "silu of the first half of the last dim, times the second half",
    .params = {{"x", STEM_MODE_IN, false, false}},
    .n_params = 1,
    .results = {"y"},
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_silu_mul_reference,
};
