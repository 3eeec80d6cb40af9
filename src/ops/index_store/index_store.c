/* SPDX-License-Identifier: Apache-2.0
 *
 * index_store: the new row of an indexer's key cache[pages, page, D] (DeepSeek-V3.2, 2025): x[t] less its mean, over its
 * deviation, times gain, plus bias, rounded; the first `size` elements turned to position pos[t] as rope does; written to
 * slot[t] = page * PAGE + place in the page. A slot outside of the cache is skipped. Two tokens with one slot: either may
 * win.
 */
#include "ops/index_store/index_store.h"

#include <string.h>

#include "ops/rope/rope.h"
#include "ops/rule.h"

enum { MAX_WIDTH = 1024 };

uint32_t stem_index_store_size(const struct stem_concrete *c)
{
    int64_t size = stem_op_attr(c->def, c->attrs, "size")->i;
    return (uint32_t)(size ? size : c->operand[1].dim[1]);
}

static bool types_fit(struct stem_infer *c)
{
    static const char *const names[] = {"the cache", "x", "gain", "bias"};
    static const uint32_t ranks[] = {3, 2, 1, 1, 1, 1};
    if (!stem_rule_float(c, 1, "index_store: x"))
        return false;
    for (uint32_t i = 0; i < 4; i++)
        if (c->in[i].dtype != c->in[1].dtype && (i < 2 || c->in[i].dtype != STEM_F32))
            return stem_rule_fail(c, STEM_E_OP_DTYPE, i, "index_store: %s must be %s, as x is%s", names[i],
                                  stem_dtype_name(c->in[1].dtype), i < 2 ? "" : ", or f32");
    if (c->in[2].dtype != c->in[3].dtype)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 3, "index_store: gain and bias must be of one type, %s",
                              stem_dtype_name(c->in[2].dtype));
    if (c->in[4].dtype != STEM_I32 && c->in[4].dtype != STEM_I64)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 4, "index_store: the positions must be i32 or i64");
    if (c->in[5].dtype != STEM_I32)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 5, "index_store: slot must be i32");
    for (uint32_t i = 0; i < 6; i++)
        if (c->in[i].rank != ranks[i])
            return stem_rule_fail(c, STEM_E_OP_RANK, i,
                                  "index_store takes cache[pages, page, D], x[T, D], gain[D], bias[D], pos[T], slot[T]");
    return true;
}

static bool infer(struct stem_infer *c)
{
    const struct stem_type *x = &c->in[1];
    int64_t width, size = stem_op_attr(&stem_op_index_store, c->attrs, "size")->i;
    if (!types_fit(c))
        return false;
    if (!stem_dim_same(x->dim[1], c->in[0].dim[2]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "index_store: x must be as wide as the cache, %s",
                              stem_rule_dim(c, c->in[0].dim[2]).s);
    for (uint32_t i = 2; i < 4; i++)
        if (!stem_dim_same(c->in[i].dim[0], x->dim[1]))
            return stem_rule_fail(c, STEM_E_OP_SHAPE, i, "index_store: gain and bias must be as wide as x, %s",
                                  stem_rule_dim(c, x->dim[1]).s);
    for (uint32_t i = 4; i < 6; i++)
        if (!stem_dim_same(c->in[i].dim[0], x->dim[0]))
            return stem_rule_fail(c, STEM_E_OP_SHAPE, i,
                                  "index_store: there must be a position and a slot for each of the %s tokens",
                                  stem_rule_dim(c, x->dim[0]).s);
    if (!stem_dim_value(c->dims, x->dim[1], &width) || width > MAX_WIDTH)
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "index_store: the width of a row must be a constant, at most %d", MAX_WIDTH);
    if (size < 0 || size > width || (size ? size : width) % 2)
        return stem_rule_attr(c, "index_store: size = %lld must be even and at most the width of x, %lld",
                              (long long)(size ? size : width), (long long)width);
    return stem_rule_eps(c, &stem_op_index_store) && stem_rope_attrs_fine(c, &stem_op_index_store);
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    uint64_t n = stem_tensor_elements(&c->operand[1]), bytes = n * stem_dtype_bits(c->operand[1].dtype) / 8;
    *cost = (struct stem_cost){
        .bytes_read = bytes, .bytes_written = bytes, .flops = 8 * n, .blocks = (uint32_t)c->operand[1].dim[0]};
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    const struct stem_tensor *cache = &c->operand[0], *x = &c->operand[1];
    uint32_t width = (uint32_t)x->dim[1], size = stem_index_store_size(c);
    double turns[STEM_ROPE_MAX / 2], amplitude = stem_rope_turns(c->def, c->attrs, size, turns);
    const char *type = stem_c_type(x->dtype), *wide = stem_c_type(c->operand[2].dtype), *index = stem_c_type(c->operand[4].dtype);
    (void)t;
    const char *body = stem_arena_printf(
        a,
        "(%s *cache, const %s *x, const %s *gain, const %s *bias, const %s *pos, const int *slot, long long slots, "
        "long long x_row, long long x_step, float eps)\n{\n    %s"
        "    stem_index_store<%s, %s, %s, %u, %u, %s>(cache, x, gain, bias, pos, slot, turns, (float)%.17g, slots, x_row, x_step, "
        "eps);\n}\n",
        type, type, wide, wide, index, stem_rope_table(a, "turns", turns, size), type, wide, index, width, size,
        stem_op_attr(c->def, c->attrs, "interleaved")->i ? "true" : "false", amplitude);
    *l = (struct stem_lowered){
        .work = STEM_WORK_LAUNCH,
        .kernel = stem_kernel_name(a, "stem_index_store_", body, strlen(body)),
        .headers = {"common", "rope", "index_store"},
        .grid = {(uint32_t)x->dim[0], 1, 1},
        .block = {32, 1, 1},
        .scalars = {{.kind = STEM_SCALAR_I64, .i = cache->dim[0] * cache->dim[1]},
                    {.kind = STEM_SCALAR_I64, .i = x->stride[0]},
                    {.kind = STEM_SCALAR_I64, .i = x->stride[1]},
                    {.kind = STEM_SCALAR_F32, .f = stem_op_attr(c->def, c->attrs, "eps")->f}},
        .n_scalars = 4,
        .waits = true,
        .ahead = true,
    };
    l->code = stem_arena_printf(a, "extern \"C\" __global__ void __launch_bounds__(32) %s%s", l->kernel, body);
}

static bool range(const struct stem_concrete *c, uint32_t i, int64_t *low, int64_t *high)
{
    *low = 0;
    *high = c->operand[0].dim[0] * c->operand[0].dim[1] - 1;
    return i == 5;
}

const struct stem_op_def stem_op_index_store = {
    .name = "index_store",
    .blurb = "new rows of an indexer's paged key cache: layer-normalised, rotated, stored",
    .params = {{"cache", STEM_MODE_INOUT, false, false},
               {"x", STEM_MODE_IN, false, true},
               {"gain", STEM_MODE_IN, false, false},
               {"bias", STEM_MODE_IN, false, false},
               {"pos", STEM_MODE_IN, false, false},
               {"slot", STEM_MODE_IN, false, false}},
    .n_params = 6,
    .attrs = {STEM_ROPE_ATTRS,
              {"eps", STEM_ATTR_TYPE_FLOAT, false, 1e-6, NULL, NULL},
              {"size", STEM_ATTR_TYPE_INT, false, 0, NULL, NULL}},
    .n_attrs = STEM_ROPE_N_ATTRS + 2,
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_index_store_reference,
    .range = range,
};
