/* SPDX-License-Identifier: Apache-2.0
 *
 * The lowering of attention_part for latents and many heads on sm_90 (mla_wgmma.cuh). Whether the compiler of the kernel has
 * wgmma is known to it alone: cubins for later GPUs can be asked for beside those for sm_90, and NVRTC before 12.0 knows
 * no sm_90a. There the kernel is stem_mla_part, in the same launch.
 */
#include "ops/attention/attention.h"
#include "ops/linear/linear.h"

enum { THREADS = 384, SLAB = 8192 };

/* stem_mla_wgmma_smem. */
static uint32_t smem_of(const struct stem_attention_sizes *s)
{
    return 1024 + 3 * (uint32_t)(s->width / 64) * SLAB + SLAB + 64 * 4 + 2 * 64 + 64;
}

/* The other kernel has fewer barriers and starts sooner. With 17 to 32 heads half of the rows of the products here are
 * empty, so they are for long sequences only; positions of a block in full tables decide. */
static bool is_worth(const struct stem_attention_sizes *s)
{
    return s->rows > 32 || (s->rows > 16 && stem_attention_block_units(s) * s->unit >= 512);
}

bool stem_mla_wide(const struct stem_concrete *c, const struct stem_attention_sizes *s, const struct stem_target *t)
{
    return t->sm == 90 && stem_mla_takes(c, s) && s->width <= 576 && s->latent == 512 && is_worth(s);
}

bool stem_attention_lower_mla_wgmma(const struct stem_concrete *c, const struct stem_attention_sizes *s,
                                    const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l)
{
    if (!stem_mla_wide(c, s, t))
        return false;
    enum stem_dtype dtype = c->operand[0].dtype;
    const char *type = stem_stream_type(dtype);
    bool given = c->n_in > 5, sparse = s->indices > 0;
    l->headers[1] = "stream";
    l->headers[2] = "attention";
    l->headers[3] = "mla_part";
    l->headers[4] = "wgmma";
    l->headers[5] = "mla_wgmma";
    l->grid[0] *= stem_mla_split_of(s->rows).halves;
    l->block[0] = THREADS;
    l->smem = smem_of(s);
    l->kernel = stem_arena_printf(a, "stem_mla_wgmma_%s_w%lld_r%lld_g%lld_p%lld%s", stem_dtype_name(dtype),
                                  (long long)s->width, (long long)s->rows, (long long)s->groups, (long long)s->page,
                                  sparse  ? "_sparse"
                                  : given ? "_all"
                                          : "");
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(%d, 1) %s(const %s *q, const %s *cache, const %s *, "
        "const int *table, const int *lens, %sfloat *acc, float *ml, int tokens, int heads, int pages, "
        "int max_pages, int indices, int parts, float scale)\n{\n"
        "#ifdef STEM_WGMMA\n"
        "    stem_mla_wgmma<%s, %lld, %lld, %lld, %lld, %s>(q, cache, table, lens, %s, acc, ml, tokens, heads, pages, "
        "max_pages, indices, parts, scale);\n"
        "#else\n"
        "    if (threadIdx.x < 256)\n"
        "        stem_mla_part<%s, %lld, %lld, %lld, %lld, %lld, 2, 32, 3, %s>(q, cache, table, lens, %s, acc, ml, "
        "tokens, heads, pages, max_pages, indices, parts, scale);\n"
        "#endif\n}\n",
        THREADS, l->kernel, type, type, type, given ? "const int *chosen, " : "", type, (long long)s->width,
        (long long)s->rows, (long long)s->groups, (long long)s->page, sparse ? "true" : "false",
        given ? "chosen" : "nullptr", type, (long long)s->width, (long long)s->latent, (long long)s->rows,
        (long long)s->groups, (long long)s->page, sparse ? "true" : "false", given ? "chosen" : "nullptr");
    return true;
}
