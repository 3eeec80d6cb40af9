/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering of experts_down by experts_down_wide.cuh.
 */
#include "ops/epilogue.h"
#include "ops/experts/experts.h"
#include "ops/linear/format.h"
#include "ops/linear/linear.h"
#include "ops/rule.h"

enum { GROUPS = 4, STAGE = 9216, SCALES = 64, LD = 68 };

/* Rows of a tile, so that the multiprocessor with the most has as few as may be. */
static uint32_t height_of(const struct stem_experts_sizes *s, const struct stem_target *t)
{
    int64_t least = INT64_MAX;
    uint32_t best = 64;
    for (uint32_t h = 64; h >= 40; h -= 8) {
        int64_t most = ((s->hidden + h - 1) / h + t->n_sms - 1) / t->n_sms * h;
        if (most < least) {
            least = most;
            best = h;
        }
    }
    return best;
}

/* Beside stages, for each warpgroup sums; and weights of places. */
static uint32_t smem_of(const struct stem_experts_sizes *s, uint32_t stages)
{
    return 1024 + GROUPS * (stages * (STAGE + SCALES) + (uint32_t)s->tile * LD * 4) + (uint32_t)(s->tile * s->k) * 4;
}

/* Where experts are likely to be chosen by several tokens: with fewer it takes as long as experts_packed.cuh, and h is quantised for it. */
bool stem_experts_down_is_wide(const struct stem_experts_sizes *s, enum stem_dtype weight, const struct stem_target *t)
{
    return t->sm == 90 && weight == STEM_F8E4M3 && s->tile * s->k > s->experts && s->hidden % 8 == 0 && s->hidden >= 64 && s->inter % 16 == 0 &&
           stem_experts_can_group(s, GROUPS * 2 * STAGE) && smem_of(s, 2) + (8 << 10) <= stem_stream_block_smem(t);
}

void stem_experts_lower_down_wide(const struct stem_concrete *c, const struct stem_experts_sizes *s, const struct stem_target *t,
                                  struct stem_arena *a, struct stem_lowered *l)
{
    static const char *const headers[] = {"common", "pointwise",     "stream",         "linear",           "groups",              "experts",
                                          "formats", "packed_stream", "wgmma", "linear_wide", "experts_down_wide", "experts_packed_plain"};
    const uint32_t weights = 3u << 3;
    bool early = (c->constant & weights) == weights, coded = c->operand[0].dtype == STEM_F8E4M3;
    uint32_t stages = smem_of(s, 4) <= 180 << 10 ? 4 : smem_of(s, 3) + (8 << 10) <= stem_stream_block_smem(t) ? 3 : 2, height = height_of(s, t);
    const char *define, *kernel = stem_arena_printf(a, "stem_experts_down_wide%s%s_s%u%s", stem_format_tag(c, 4, a), coded ? "_x8" : "",
                                                    stages, early ? "_w" : "");
    struct stem_store store;
    for (uint32_t i = 0; i < sizeof headers / sizeof *headers; i++)
        l->headers[i] = headers[i];
    stem_epilogue_store(c, kernel, "hidden", a, &store, &define);
    l->kernel = stem_arena_printf(a, "%s%s", kernel, store.name);
    const char *x = stem_format_x(c, 5, a);
    l->code = stem_arena_printf(
        a,
        "%sextern \"C\" __global__ void __launch_bounds__(%d, 1) %s(%s *x, const int *ids, const float *scale, const void *w2, "
        "%s%s%s *y, int tokens, int k, int experts, int hidden, int inter, int tile, int height)\n{\n"
        "#ifdef STEM_WGMMA\n"
        "    stem_experts_down_wide<%u, %d, %s>(%s, ids, scale, w2, p4, %s, tokens, k, experts, hidden, inter, tile, height);\n"
        "#else\n"
        "    stem_experts_down_packed_plain<stem_f8>(%s, ids, scale, w2, p4, nullptr, %s, tokens, k, experts, hidden, inter);\n"
        "#endif\n}\n",
        define, 128 * GROUPS, l->kernel, stem_format_x_type(c), stem_format_rest(c, 4, a), store.params,
        stem_c_type(c->operand[c->n_in].dtype), stages, GROUPS, early ? "true" : "false", x, store.make, x, store.make);
    l->early = early ? weights | 1u << 1 | 1u << 2 : 0;
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = s->tile}};
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = height}};
    l->grid[0] = (uint32_t)((s->hidden + height - 1) / height);
    l->grid[1] = (uint32_t)s->tiles;
    l->block[0] = 128 * GROUPS;
    l->smem = smem_of(s, stages);
}
