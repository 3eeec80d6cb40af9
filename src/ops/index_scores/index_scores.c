/* SPDX-License-Identifier: Apache-2.0
 *
 * index_scores: how much each cached position matters to a token (the lightning indexer of DeepSeek-V3.2, 2025):
 * score[t, i] = sum over heads of w[t, h] * max(q[t, h] . cache[position i of t's sequence], 0), in f32; -infinity
 * from lens[t] on.
 */
#include "ops/index_scores/index_scores.h"

#include "ops/attention/attention.h"
#include "ops/linear/linear.h"
#include "ops/rule.h"

static bool infer(struct stem_infer *c)
{
    const struct stem_type *q = &c->in[0], *w = &c->in[1], *cache = &c->in[2];
    int64_t most = stem_op_attr(&stem_op_index_scores, c->attrs, "max_len")->i, page, pages, heads, width;
    if (!stem_rule_float(c, 0, "index_scores: q"))
        return false;
    if (q->rank != 3)
        return stem_rule_fail(c, STEM_E_OP_RANK, 0, "index_scores: q must be [tokens, heads, width]");
    if (w->dtype != STEM_F32 && w->dtype != q->dtype)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 1, "index_scores: w must be f32 or %s, as q is",
                              stem_dtype_name(q->dtype));
    if (w->rank != 2 || !stem_dim_same(w->dim[0], q->dim[0]) || !stem_dim_same(w->dim[1], q->dim[1]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "index_scores: w must have a number for each head of q");
    if (!stem_attention_check_paged(c, 2, 3, 3, 4, "index_scores"))
        return false;
    if (!stem_dim_same(q->dim[2], cache->dim[2]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 2, "index_scores: cache rows must have the width of q, %s",
                              stem_rule_dim(c, q->dim[2]).s);
    if (!stem_dim_value(c->dims, q->dim[1], &heads) || !stem_dim_value(c->dims, q->dim[2], &width))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 0, "index_scores: heads and width must be constants");
    stem_dim_value(c->dims, cache->dim[1], &page);
    stem_dim_value(c->dims, c->in[3].dim[1], &pages);
    if (most < 0 || most > pages * page)
        return stem_rule_attr(c, "index_scores: max_len = %lld must be from 0 to the table's %lld positions", (long long)most,
                              (long long)(pages * page));
    c->out[0] = (struct stem_type){.dtype = STEM_F32, .rank = 2};
    c->out[0].dim[0] = q->dim[0];
    c->out[0].dim[1] = stem_dim_const(c->dims, most ? most : pages * page);
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    const struct stem_tensor *q = &c->operand[0], *y = &c->operand[5];
    uint64_t n = stem_tensor_elements(y), size = stem_dtype_bits(q->dtype) / 8;
    *cost = (struct stem_cost){.bytes_read = n * (uint64_t)q->dim[2] * size + stem_tensor_extent(q) +
                                             stem_tensor_extent(&c->operand[1]) + stem_tensor_extent(&c->operand[3]),
                               .bytes_written = stem_tensor_extent(y),
                               .flops = 2 * n * (uint64_t)(q->dim[1] * q->dim[2]),
                               .blocks = (uint32_t)((n + 127) / 128)};
}

enum { THREADS = 256, UNIT = 128, WARPS = 8, MOST_STAGES = 6 };
enum { WIDE_GROUPS = 2, WIDE_STAGES = 3 }; /* index_wide.cuh */

/* Stages of a warp's ring, 0: the tensor-core kernel does not take these operands. */
static uint32_t stages_of(const struct stem_concrete *c, const struct stem_target *t)
{
    const struct stem_tensor *q = &c->operand[0];
    int64_t heads = q->dim[1], width = q->dim[2];
    uint32_t stage = 16 * (uint32_t)((2 * width + 127) / 128 * 128);
    if ((q->dtype != STEM_BF16 && q->dtype != STEM_F16) || q->offset % 16 || c->operand[2].offset % 16 ||
        width % 32 || heads % 8 || heads * width > 8192)
        return 0;
    uint32_t stages = stem_stream_block_smem(t) / (WARPS * stage);
    return stages < 2 ? 0 : stages > MOST_STAGES ? MOST_STAGES : stages;
}

/* By warpgroups: for as many heads as wgmma's columns hold well. What is in its place where there is no wgmma is slow. */
static bool is_wide(const struct stem_concrete *c, const struct stem_target *t)
{
    const struct stem_tensor *q = &c->operand[0];
    return t->sm == 90 && stages_of(c, t) && q->dim[1] == 64 && q->dim[2] % 64 == 0;
}

static void lower_wide(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l)
{
    static const char *const headers[] = {"common", "stream", "attention", "index_scores", "wgmma", "index_wide"};
    const struct stem_tensor *q = &c->operand[0], *cache = &c->operand[2], *y = &c->operand[5];
    const char *type = stem_stream_type(q->dtype), *w = stem_stream_type(c->operand[1].dtype);
    int64_t width = q->dim[2], page = cache->dim[1], blocks = (y->dim[0] * ((y->dim[1] + 63) / 64) + WIDE_GROUPS - 1) / WIDE_GROUPS;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        l->headers[i] = headers[i];
    l->early = 1u << 3 | 1u << 4; /* table, lens */
    l->grid[0] = (uint32_t)(blocks < t->n_sms ? blocks : t->n_sms);
    l->block[0] = 128 * WIDE_GROUPS;
    l->smem = 1024 + WIDE_GROUPS * (WIDE_STAGES + 1) * (uint32_t)(width / 64) * 8192;
    l->kernel = stem_arena_printf(a, "stem_index_wide_%s_%s_d%lld_p%lld", stem_dtype_name(q->dtype),
                                  stem_dtype_name(c->operand[1].dtype), (long long)width, (long long)page);
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(%d, 1) %s(const %s *q, const %s *w, const %s *cache, "
        "const int *table, const int *lens, float *y, int tokens, int most, int pages, int max_pages)\n{\n"
        "#ifdef STEM_WGMMA\n"
        "    stem_index_wide<%s, %s, %lld, %lld, %d, %d>(q, w, cache, table, lens, y, tokens, most, pages, max_pages);\n"
        "#else\n"
        "    if (threadIdx.x < %d)\n"
        "        stem_index_scores_plain<%s, %s, 64, %lld, %lld>(q, w, cache, table, lens, y, tokens, most, pages, max_pages);\n"
        "#endif\n}\n",
        128 * WIDE_GROUPS, l->kernel, type, w, type, type, w, (long long)width, (long long)page, WIDE_STAGES, WIDE_GROUPS, THREADS,
        type, w, (long long)width, (long long)page);
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    const struct stem_tensor *q = &c->operand[0], *cache = &c->operand[2], *y = &c->operand[5];
    const char *type = stem_stream_type(q->dtype), *w = stem_stream_type(c->operand[1].dtype);
    uint32_t stages = stages_of(c, t);
    int64_t items = y->dim[0] * (stages ? (y->dim[1] + UNIT - 1) / UNIT : (y->dim[1] + 7) / 8);
    int64_t most = stages ? t->n_sms : 65536;
    *l = (struct stem_lowered){.work = STEM_WORK_LAUNCH,
                               .headers = {"common", "index_scores"},
                               .grid = {(uint32_t)(items < most ? items : most), 1, 1},
                               .block = {THREADS, 1, 1},
                               .waits = true};
    if (stages) {
        l->early = 1u << 3 | 1u << 4; /* table, lens */
        static const char *const headers[] = {"common", "stream", "attention", "index_scores", "index_part"};
        for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
            l->headers[i] = headers[i];
        l->smem = WARPS * stages * 16 * (uint32_t)((2 * q->dim[2] + 127) / 128 * 128);
    }
    int64_t scalars[] = {y->dim[0], y->dim[1], cache->dim[0], c->operand[3].dim[1]};
    for (; l->n_scalars < 4; l->n_scalars++)
        l->scalars[l->n_scalars] = (struct stem_scalar){STEM_SCALAR_I32, {.i = scalars[l->n_scalars]}};
    if (is_wide(c, t)) {
        lower_wide(c, t, a, l);
        return;
    }
    const char *shape = stem_arena_printf(a, "%lld, %lld, %lld", (long long)q->dim[1], (long long)q->dim[2],
                                          (long long)cache->dim[1]);
    l->kernel = stem_arena_printf(a, "stem_index_scores_%s_%s_h%lld_d%lld_p%lld_s%u", stem_dtype_name(q->dtype),
                                  stem_dtype_name(c->operand[1].dtype), (long long)q->dim[1], (long long)q->dim[2],
                                  (long long)cache->dim[1], stages);
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(%d) %s(const %s *q, const %s *w, const %s *cache, "
        "const int *table, const int *lens, float *y, int tokens, int most, int pages, int max_pages)\n{\n"
        "    stem_index_scores%s<%s, %s, %s%s>(q, w, cache, table, lens, y, tokens, most, pages, max_pages);\n}\n",
        THREADS, l->kernel, type, w, type, stages ? "" : "_plain", type, w, shape,
        stages ? stem_arena_printf(a, ", %u", stages) : "");
}

static bool range(const struct stem_concrete *c, uint32_t i, int64_t *low, int64_t *high)
{
    const struct stem_tensor *cache = &c->operand[2], *table = &c->operand[3];
    *low = i == 4;
    *high = i == 3 ? cache->dim[0] - 1 : table->dim[1] * cache->dim[1];
    return i >= 3;
}

const struct stem_op_def stem_op_index_scores = {
    .name = "index_scores",
    .blurb = "scores of cached positions: sum over heads of w * relu(q . k)",
    .params = {{"q", STEM_MODE_IN, false, false},
               {"w", STEM_MODE_IN, false, false},
               {"cache", STEM_MODE_IN, false, false},
               {"table", STEM_MODE_IN, false, false},
               {"lens", STEM_MODE_IN, false, false}},
    .n_params = 5,
    .attrs = {{"max_len", STEM_ATTR_TYPE_INT, false, 0, NULL, NULL}},
    .n_attrs = 1,
    .results = {"score"},
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_index_scores_reference,
    .range = range,
};
