/* SPDX-License-Identifier: Apache-2.0
 *
 * cache_store: writes row t of x into slot[t] of a paged cache, in place; slot = page * PAGE + position in the page.
 * A slot outside of the cache (-1: a token that is not there) is skipped. Two rows for one slot: either may win.
 */
#include "ops/cache_store/cache_store.h"

#include "ops/rule.h"

enum { THREADS = 128 };

static bool infer(struct stem_infer *c)
{
    const struct stem_type *cache = &c->in[0], *x = &c->in[1], *slot = &c->in[2];
    if (stem_dtype_packed(cache->dtype))
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 0, "cache_store: the cache cannot be %s",
                              stem_dtype_name(cache->dtype));
    if (x->dtype != cache->dtype)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 1, "cache_store: x must be %s, as the cache is",
                              stem_dtype_name(cache->dtype));
    if (slot->dtype != STEM_I32)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 2, "cache_store: slot must be i32");
    if (cache->rank < 3)
        return stem_rule_fail(c, STEM_E_OP_RANK, 0, "cache_store: the cache must be [pages, page, row..]");
    if (x->rank + 1 != cache->rank)
        return stem_rule_fail(c, STEM_E_OP_RANK, 1, "cache_store: x must be [T, row..], of %u dimensions",
                              cache->rank - 1);
    for (uint32_t i = 1; i < x->rank; i++)
        if (!stem_dim_same(x->dim[i], cache->dim[i + 1]))
            return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "cache_store: rows of x and of the cache differ in size");
    if (slot->rank != 1 || !stem_dim_same(slot->dim[0], x->dim[0]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 2, "cache_store: slot must be [T], one for each row of x");
    return true;
}

static uint64_t row_elements(const struct stem_concrete *c)
{
    const struct stem_tensor *x = &c->operand[1];
    return stem_tensor_elements(x) / (uint64_t)x->dim[0];
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    uint64_t bytes = stem_tensor_extent(&c->operand[1]);
    *cost = (struct stem_cost){.bytes_read = bytes + stem_tensor_extent(&c->operand[2]),
                               .bytes_written = bytes,
                               .blocks = (uint32_t)((bytes + 2047) / 2048)};
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *arena,
                  struct stem_lowered *l)
{
    const struct stem_tensor *cache = &c->operand[0], *x = &c->operand[1];
    uint32_t bytes = stem_dtype_bits(x->dtype) / 8;
    uint64_t length = row_elements(c), rows = (uint64_t)x->dim[0];
    uint32_t width = stem_vector_width(length, 16 / bytes);
    (void)t;
    for (int i = 0; i < 2; i++)
        while (width > 1 && c->operand[i].offset % (width * bytes))
            width /= 2;
    const char *bits = stem_c_bits(bytes);
    *l = (struct stem_lowered){
        .work = STEM_WORK_LAUNCH,
        .kernel = stem_arena_printf(arena, "stem_cache_store_b%u_v%u", bytes, width),
        .headers = {"common", "cache_store"},
        .grid = {(uint32_t)((length / width + THREADS - 1) / THREADS), rows < 65535 ? (uint32_t)rows : 65535, 1},
        .block = {THREADS, 1, 1},
        .scalars = {{.kind = STEM_SCALAR_I64, .i = (int64_t)rows},
                    {.kind = STEM_SCALAR_I64, .i = cache->dim[0] * cache->dim[1]},
                    {.kind = STEM_SCALAR_I64, .i = (int64_t)length}},
        .n_scalars = 3,
        .waits = true,
        .ahead = true,
    };
    l->code = stem_arena_printf(arena,
                                "extern \"C\" __global__ void __launch_bounds__(%d)\n"
                                "%s(%s *cache, const %s *x, const int *slot, long long rows, long long slots, "
                                "long long n)\n"
                                "{\n"
                                "    stem_cache_store<%s, %u>(cache, x, slot, rows, slots, n);\n"
                                "}\n",
                                THREADS, l->kernel, bits, bits, bits, width);
}

static bool range(const struct stem_concrete *c, uint32_t i, int64_t *low, int64_t *high)
{
    *low = 0;
    *high = c->operand[0].dim[0] * c->operand[0].dim[1] - 1;
    return i == 2;
}

const struct stem_op_def stem_op_cache_store = {
    .name = "cache_store",
    .blurb = "writes rows into slots of a paged cache, in place",
    .params = {{"cache", STEM_MODE_INOUT, false, false},
               {"x", STEM_MODE_IN, false, false},
               {"slot", STEM_MODE_IN, false, false}},
    .n_params = 3,
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_cache_store_reference,
    .range = range,
};
