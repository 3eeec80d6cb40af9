/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering of experts_up of a single token by one_wide.cuh.
 */
#include "ops/experts/experts.h"
#include "ops/linear/format.h"
#include "ops/linear/linear.h"

/* Warpgroups, bytes of a stage, and stages: as many as leave the first blocks of experts_down room. */
enum { GROUPS = 4, STAGE = 8192, STAGES = 4 };

static uint32_t ceil_div(int64_t a, int64_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

static bool aligned(const struct stem_tensor *t)
{
    return !t || t->offset % 16 == 0;
}

/* Pairs of eight rows of a block, of gate and of up. */
static uint32_t pairs_of(const struct stem_experts_sizes *s, const struct stem_target *t)
{
    return ceil_div(s->k * (s->inter / 8), t->n_sms);
}

static uint32_t smem_of(const struct stem_experts_sizes *s, uint32_t pairs)
{
    return 1024 + GROUPS * STAGES * (STAGE + 32) + (uint32_t)(s->hidden + s->hidden / 32) + GROUPS * 2 * pairs * 32;
}

/* Where a block has few rows: with more the rings of experts_packed.cuh have time enough. */
bool stem_experts_up_is_wide(const struct stem_concrete *c, const struct stem_experts_sizes *s, const struct stem_target *t)
{
    bool sizes = s->tokens == 1 && s->hidden % 1024 == 0 && s->inter % 8 == 0 && aligned(&c->operand[0]) && aligned(&c->operand[2]) &&
                 aligned(&c->operand[3]) && aligned(stem_format_operand(c, 5));
    return t->sm == 90 && c->operand[2].dtype == STEM_F8E4M3 && sizes && pairs_of(s, t) <= 2 &&
           smem_of(s, pairs_of(s, t)) <= stem_stream_block_smem(t) * 3 / 4;
}

void stem_experts_lower_up_wide(const struct stem_concrete *c, const struct stem_experts_sizes *s, const struct stem_target *t,
                                struct stem_arena *a, struct stem_lowered *l)
{
    static const char *const headers[] = {"common", "pointwise", "stream", "groups", "experts", "one",
                                          "formats", "packed_stream", "wgmma", "one_wide", "experts_packed_plain"};
    uint32_t pairs = pairs_of(s, t);
    const char *x = stem_format_x(c, 5, a), *act = stem_experts_act(c);
    for (uint32_t i = 0; i < sizeof headers / sizeof *headers; i++)
        l->headers[i] = headers[i];
    l->kernel = stem_arena_printf(a, "stem_experts_up_one_wide_%s%s%s", stem_op_attr(c->def, c->attrs, "act")->text,
                                  stem_format_tag(c, 3, a), c->operand[0].dtype == STEM_F8E4M3 ? "_x8" : "");
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(%d, 2) %s(%s *x, const int *ids, const void *w13, %s__nv_bfloat16 *h, "
        "int tokens, int k, int experts, int hidden, int inter, int octets)\n{\n"
        "#ifdef STEM_WGMMA\n"
        "    stem_experts_up_one_wide<%d, %d, %s>(%s, ids, w13, p3, h, k, experts, hidden, inter, octets);\n"
        "#else\n"
        "    stem_experts_up_packed_plain<stem_f8, __nv_bfloat16, %s>(%s, ids, w13, p3, nullptr, h, tokens, k, experts, hidden, inter);\n"
        "#endif\n}\n",
        128 * GROUPS, l->kernel, stem_format_x_type(c), stem_format_rest(c, 3, a), GROUPS, STAGES, act, x, act, x);
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = 2 * pairs}};
    l->grid[0] = ceil_div(s->k * (s->inter / 8), pairs);
    l->block[0] = 128 * GROUPS;
    l->smem = smem_of(s, pairs);
}
