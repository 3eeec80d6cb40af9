/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensor-core lowering of attention_part for latents (mla_part.cuh).
 */
#include "ops/attention/attention.h"
#include "ops/linear/linear.h"

enum { THREADS = 256, MOST_STAGES = 6 };

struct stem_mla_split stem_mla_split_of(int64_t rows)
{
    uint32_t halves = rows > 64 ? 2 : 1;
    return (struct stem_mla_split){halves, ((uint32_t)rows + halves - 1) / halves};
}

/* stem_mla_smem. */
static uint32_t smem_of(const struct stem_attention_sizes *s, uint32_t tile, uint32_t wk, uint32_t stages, bool whole)
{
    uint32_t rows = stem_mla_split_of(s->rows).rows, mt = rows <= 16 ? 1 : rows <= 32 ? 2 : 4;
    uint32_t row = 2 * (uint32_t)s->width;
    uint32_t scores = tile == 64 ? 68 : 40, weights = tile == 64 ? 72 : 40;
    return stages * tile * row + (mt == 4 || whole ? 16 * mt * row : 0) + wk * 16 * mt * scores * 4 + 16 * mt * weights * 2 +
           16 * mt * 4 + stages * tile;
}

/* Positions at once, warps that share out the width, and stages that fit; stages 0: too wide. Few heads are bound by what a tile costs, whatever its
 * size: 64, if two more are on their way meanwhile and a block has more than that. No more stages than a block has tiles, and
 * one: then the kernel behind finds room to start early. */
struct stem_mla_shape stem_mla_shape_of(const struct stem_attention_sizes *s, const struct stem_target *t, bool adds)
{
    int64_t positions = stem_attention_block_units(s) * s->unit;
    struct stem_mla_shape r = {.wk = 2};
    uint32_t *tile = &r.tile, *wk = &r.wk, *stages = &r.stages;
    /* sharing out the width saves reads of the queries, and takes memory for the scores */
    *wk = s->rows > 32 && stem_stream_block_smem(t) < 200u << 10 ? 1 : 2;
    for (*tile = s->rows <= 16 && positions > 64 ? 64 : 32;; *tile = 32) {
        *stages = MOST_STAGES;
        while (*stages && smem_of(s, *tile, *wk, *stages, false) > stem_stream_block_smem(t))
            --*stages;
        if (*stages > 2 || *tile == 32)
            break;
    }
    if (*stages < 2)
        *stages = 0;
    int64_t tiles = (positions + *tile - 1) / *tile;
    /* All at once, where another kernel takes them one after the other. */
    r.split = adds && *tile == 32 && positions == 64 && s->rows <= 16 && *stages > 2;
    if (r.split)
        *tile = 64, tiles = 1;
    r.whole = adds && tiles <= *stages && smem_of(s, *tile, *wk, (uint32_t)tiles, true) <= stem_stream_block_smem(t);
    if (*stages > 2 && tiles + 1 < *stages)
        *stages = (uint32_t)(tiles + 1);
    if (r.whole)
        *stages = (uint32_t)tiles;
    r.smem = *stages ? smem_of(s, *tile, *wk, *stages, r.whole) : 0;
    return r;
}

bool stem_mla_takes(const struct stem_concrete *c, const struct stem_attention_sizes *s)
{
    enum stem_dtype dtype = c->operand[0].dtype;
    return c->operand[2].rank == STEM_NONE && c->operand[1].rank == 3 && (dtype == STEM_BF16 || dtype == STEM_F16) &&
           c->operand[0].offset % 16 == 0 && c->operand[1].offset % 16 == 0 && s->width % 64 == 0 &&
           s->latent % 128 == 0 && s->latent <= 512 && s->width <= 640 && s->rows <= STEM_MLA_ROWS &&
           s->unit == STEM_MLA_UNIT;
}

bool stem_attention_lower_mla(const struct stem_concrete *c, const struct stem_attention_sizes *s,
                              const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l)
{
    enum stem_dtype dtype = c->operand[0].dtype;
    if (!stem_mla_takes(c, s))
        return false;
    struct stem_mla_shape shape = stem_mla_shape_of(s, t, false);
    if (!shape.stages)
        return false;
    const char *type = stem_stream_type(dtype);
    bool given = c->n_in > 5, sparse = s->indices > 0;
    l->headers[1] = "stream";
    l->headers[2] = "attention";
    l->headers[3] = "mla_part";
    l->grid[0] *= stem_mla_split_of(s->rows).halves;
    l->block[0] = THREADS;
    l->smem = shape.smem;
    l->kernel = stem_arena_printf(a, "stem_mla_part_%s_w%lld_%lld_r%lld_g%lld_p%lld_k%u_t%u_s%u%s",
                                  stem_dtype_name(dtype), (long long)s->width, (long long)s->latent,
                                  (long long)s->rows, (long long)s->groups, (long long)s->page, shape.wk, shape.tile,
                                  shape.stages,
                                  sparse  ? "_sparse"
                                  : given ? "_all"
                                          : "");
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(%d) %s(const %s *q, const %s *cache, const %s *, "
        "const int *table, const int *lens, %sfloat *acc, float *ml, int tokens, int heads, int pages, "
        "int max_pages, int indices, int parts, float scale)\n{\n"
        "    stem_mla_part<%s, %lld, %lld, %lld, %lld, %lld, %u, %u, %u, %s>(q, cache, table, lens, %s, acc, ml, "
        "tokens, "
        "heads, pages, max_pages, indices, parts, scale);\n}\n",
        THREADS, l->kernel, type, type, type, given ? "const int *chosen, " : "", type, (long long)s->width,
        (long long)s->latent, (long long)s->rows, (long long)s->groups, (long long)s->page, shape.wk,
        shape.tile, shape.stages, sparse ? "true" : "false", given ? "chosen" : "nullptr");
    return true;
}
