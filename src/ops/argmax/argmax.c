/* SPDX-License-Identifier: Apache-2.0
 *
 * argmax: index of the largest element along the last dim. The lowest index of equals; NaN counts as larger than
 * anything, so that a broken row is seen; -0 equals +0.
 */
#include "ops/argmax/argmax.h"

#include "ops/rule.h"

enum { MAX_THREADS = 1024 };

static bool infer(struct stem_infer *c)
{
    const struct stem_type *x = &c->in[0];
    int64_t low, high;
    if (!stem_rule_float(c, 0, "argmax: x"))
        return false;
    if (x->rank < 1)
        return stem_rule_fail(c, STEM_E_OP_RANK, 0, "argmax: x must have a dimension");
    stem_dim_bounds(c->dims, x->dim[x->rank - 1], &low, &high);
    if (high > INT32_MAX)
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 0, "argmax: indices of the last dim must fit i32");
    c->out[0] = *x;
    c->out[0].dtype = STEM_I32;
    c->out[0].rank--;
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    *cost = (struct stem_cost){.bytes_read = stem_tensor_extent(&c->operand[0]),
                               .bytes_written = stem_tensor_extent(&c->operand[1]),
                               .flops = stem_tensor_elements(&c->operand[0]),
                               .blocks = (uint32_t)stem_tensor_elements(&c->operand[1])};
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *arena,
                  struct stem_lowered *l)
{
    const struct stem_tensor *x = &c->operand[0];
    uint32_t bytes = stem_dtype_bits(x->dtype) / 8;
    uint64_t length = (uint64_t)x->dim[x->rank - 1];
    uint32_t width = stem_vector_width(length, 16 / bytes);
    while (width > 1 && x->offset % (width * bytes))
        width /= 2;
    uint64_t threads = (length / width + 31) / 32 * 32;
    const char *type = stem_c_type(x->dtype);
    uint32_t cluster = t->sm < 90 || length / width < 4 * MAX_THREADS ? 1 : length / width < 16 * MAX_THREADS ? 4 : 8;
    *l = (struct stem_lowered){
        .work = STEM_WORK_LAUNCH,
        .kernel = stem_arena_printf(arena, "stem_argmax_%s_v%u_c%u", stem_dtype_name(x->dtype), width, cluster),
        .headers = {"common", "stream", "linear", "argmax"},
        .grid = {(uint32_t)stem_tensor_elements(&c->operand[1]) * cluster, 1, 1},
        .block = {threads > MAX_THREADS ? MAX_THREADS : (uint32_t)threads, 1, 1},
        .scalars = {{.kind = STEM_SCALAR_I64, .i = (int64_t)length}},
        .n_scalars = 1,
        .smem = 33 * 8,
        .waits = true,
    };
    l->code = stem_arena_printf(arena,
                                "extern \"C\" __global__ void __launch_bounds__(%d)%s\n"
                                "%s(const %s *x, int *y, long long n)\n"
                                "{\n"
                                "    stem_argmax<%s, %u, %u>(x, y, n);\n"
                                "}\n",
                                MAX_THREADS,
                                cluster > 1 ? stem_arena_printf(arena, " __cluster_dims__(%u, 1, 1)", cluster) : "",
                                l->kernel, type, type, width, cluster);
}

const struct stem_op_def stem_op_argmax = {
    .name = "argmax",
    .blurb = "index of the largest element along the last dim",
    .params = {{"x", STEM_MODE_IN, false, false}},
    .n_params = 1,
    .results = {"i"},
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_argmax_reference,
};
