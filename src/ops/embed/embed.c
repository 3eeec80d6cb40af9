/* SPDX-License-Identifier: Apache-2.0
 *
 * embed: row ids[t] of a table for each t. An id outside the table gives a row of zeros, never a stray access.
 */
#include "ops/embed/embed.h"

#include "ops/rule.h"

enum { THREADS = 128 };

static bool infer(struct stem_infer *c)
{
    const struct stem_type *ids = &c->in[0], *table = &c->in[1];
    if (ids->dtype != STEM_I32 && ids->dtype != STEM_I64)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 0, "embed: the ids must be i32 or i64");
    if (stem_dtype_packed(table->dtype))
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 1, "embed: the table cannot be %s", stem_dtype_name(table->dtype));
    if (ids->rank != 1)
        return stem_rule_fail(c, STEM_E_OP_RANK, 0, "embed: the ids must have one dimension");
    if (table->rank != 2)
        return stem_rule_fail(c, STEM_E_OP_RANK, 1, "embed: the table must have two dimensions");
    c->out[0] = *table;
    c->out[0].dim[0] = ids->dim[0];
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    uint64_t bytes = stem_tensor_extent(&c->operand[2]);
    *cost = (struct stem_cost){.bytes_read = bytes + stem_tensor_extent(&c->operand[0]),
                               .bytes_written = bytes,
                               .blocks = (uint32_t)((bytes + 2047) / 2048)};
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *arena,
                  struct stem_lowered *l)
{
    const struct stem_tensor *table = &c->operand[1];
    uint32_t bytes = stem_dtype_bits(table->dtype) / 8;
    uint64_t length = (uint64_t)table->dim[1], rows = (uint64_t)c->operand[0].dim[0];
    uint32_t width = stem_vector_width(length, 16 / bytes);
    (void)t;
    for (int i = 1; i < 3; i++)
        while (width > 1 && c->operand[i].offset % (width * bytes))
            width /= 2;
    const char *bits = stem_c_bits(bytes), *id = stem_c_type(c->operand[0].dtype);
    *l = (struct stem_lowered){
        .work = STEM_WORK_LAUNCH,
        .kernel =
            stem_arena_printf(arena, "stem_embed_%s_b%u_v%u", stem_dtype_name(c->operand[0].dtype), bytes, width),
        .headers = {"common", "embed"},
        .grid = {(uint32_t)((length / width + THREADS - 1) / THREADS), rows < 65535 ? (uint32_t)rows : 65535, 1},
        .block = {THREADS, 1, 1},
        .scalars = {{.kind = STEM_SCALAR_I64, .i = (int64_t)rows},
                    {.kind = STEM_SCALAR_I64, .i = table->dim[0]},
                    {.kind = STEM_SCALAR_I64, .i = table->dim[1]}},
        .n_scalars = 3,
        .waits = true,
    };
    l->code = stem_arena_printf(arena,
                                "extern \"C\" __global__ void __launch_bounds__(%d)\n"
                                "%s(const %s *ids, const %s *table, %s *y, long long rows, long long entries, "
                                "long long n)\n"
                                "{\n"
                                "    stem_embed<%s, %s, %u>(ids, table, y, rows, entries, n);\n"
                                "}\n",
                                THREADS, l->kernel, id, bits, bits, id, bits, width);
}

const struct stem_op_def stem_op_embed = {
    .name = "embed",
    .blurb = "rows of a table, by id",
    .params = {{"ids", STEM_MODE_IN, false, false}, {"table", STEM_MODE_IN, false, false}},
    .n_params = 2,
    .results = {"y"},
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_embed_reference,
};
