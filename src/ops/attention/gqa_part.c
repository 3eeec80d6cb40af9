/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensor-core lowering of attention_part for grouped queries (gqa_part.cuh).
 */
#include "ops/attention/attention.h"
#include "ops/linear/linear.h"

enum { WARPS = 4, MOST_STAGES = 6 };

static bool aligned(const struct stem_concrete *c)
{
    return c->operand[0].offset % 16 == 0 && c->operand[1].offset % 16 == 0 && c->operand[2].offset % 16 == 0;
}

bool stem_attention_lower_gqa(const struct stem_concrete *c, const struct stem_attention_sizes *s,
                              const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l)
{
    enum stem_dtype dtype = c->operand[0].dtype;
    uint32_t stage = 32 * (uint32_t)((2 * s->width + 127) / 128 * 128), warps = WARPS;
    if (c->operand[2].rank == STEM_NONE || c->n_in > 5 || (dtype != STEM_BF16 && dtype != STEM_F16) || !aligned(c) ||
        s->width % 32 || s->width > 256 || s->rows > 16 || s->unit != STEM_GQA_UNIT)
        return false;
    uint32_t merge = 2 * (uint32_t)(s->rows * (s->width + 8)) * 4;
    uint32_t stages =
        (stem_stream_sm_smem(t) / 2 - 1024 - merge) / (warps * stage); /* two blocks on a multiprocessor */
    if (stages < 3)
        stages = (stem_stream_block_smem(t) - merge) / (warps * stage);
    stages = stages > MOST_STAGES ? MOST_STAGES : stages;
    if (stages < 2)
        return false;
    /* No more than a block has tiles, and one: the kernel behind finds room to start early. */
    int64_t tiles = stem_attention_block_units(s);
    stages = stages > 2 && tiles + 1 < stages ? (uint32_t)(tiles + 1) : stages;
    const char *type = stem_stream_type(dtype);
    l->headers[1] = "stream";
    l->headers[2] = "attention";
    l->headers[3] = "gqa_part";
    l->block[0] = 32 * WARPS;
    l->smem = warps * stages * stage + merge; /* stem_gqa_smem */
    l->kernel =
        stem_arena_printf(a, "stem_gqa_part_%s_d%lld_r%lld_g%lld_p%lld_s%u", stem_dtype_name(dtype),
                          (long long)s->width, (long long)s->rows, (long long)s->groups, (long long)s->page, stages);
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(%d) %s(const %s *q, const %s *k, const %s *v, "
        "const int *table, const int *lens, float *acc, float *ml, int tokens, int heads, int pages, "
        "int max_pages, int, int parts, float scale)\n{\n"
        "    stem_gqa_part<%s, %lld, %lld, %lld, %lld, %u>(q, k, v, table, lens, acc, ml, tokens, heads, pages, "
        "max_pages, parts, scale);\n}\n",
        32 * WARPS, l->kernel, type, type, type, type, (long long)s->width, (long long)s->rows, (long long)s->groups,
        (long long)s->page, stages);
    return true;
}
