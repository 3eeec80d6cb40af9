/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering of the two parts of experts with weights that have scales.
 */
#include "ops/experts/experts.h"
#include "ops/epilogue.h"
#include "ops/linear/format.h"
#include "ops/linear/linear.h"
#include "ops/rule.h"

static void set_headers(struct stem_lowered *l)
{
    static const char *const names[] = {"common",  "pointwise", "stream",        "groups",
                                        "experts", "formats",   "packed_stream", "experts_packed"};
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        l->headers[i] = names[i];
}

/* Expression for operand i's address. */
static const char *pointer(const struct stem_concrete *c, uint32_t i, struct stem_arena *a)
{
    return stem_format_operand(c, i) ? stem_arena_printf(a, "p%u", i) : "nullptr";
}

static uint32_t at_most(int64_t n, uint32_t most)
{
    return n < most ? (uint32_t)n : most;
}

static void up_plain(const struct stem_concrete *c, const struct stem_experts_sizes *s, struct stem_arena *a,
                     struct stem_lowered *l)
{
    const char *type = stem_dtype_name(c->operand[2].dtype);
    l->kernel = stem_arena_printf(a, "stem_experts_up_plain_%s_%s%s", type,
                                  stem_op_attr(c->def, c->attrs, "act")->text, stem_format_tag(c, 3, a));
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(128) %s(const __nv_bfloat16 *x, const int *ids, "
        "const void *w13, %s__nv_bfloat16 *h, int tokens, int k, int experts, int hidden, int inter)\n{\n"
        "    stem_experts_up_packed_plain<%s, __nv_bfloat16, %s>(x, ids, w13, p3, %s, h, tokens, k, experts, hidden, "
        "inter);\n}\n",
        l->kernel, stem_format_rest(c, 3, a), stem_format_name(c->operand[2].dtype), stem_experts_act(c),
        pointer(c, 4, a));
    l->grid[0] = (uint32_t)((s->inter + 3) / 4);
    l->grid[1] = at_most(s->tokens * s->k, 32768);
    l->block[0] = 128;
}

/* Tensor cores take rows of k elements of operand w, whose scales are the operand after `scale`. */
static bool fits(const struct stem_concrete *c, uint32_t x, uint32_t w, uint32_t scale, int64_t k)
{
    return c->operand[x].offset % 16 == 0 && c->operand[w].offset % 16 == 0 && c->operand[scale].offset % 16 == 0 &&
           k % (c->operand[w].dtype == STEM_F8E4M3 ? 16 : 256) == 0;
}

/* Warps that share out k: 7 or 8 where there are few items, so that each ends soon, else 4, of which a multiprocessor
 * holds four blocks. */
static uint32_t warps_for(enum stem_dtype weight, int64_t k, bool few)
{
    int64_t each = weight == STEM_F8E4M3 ? 128 : 256, chunks = (k + each - 1) / each;
    return !few ? 4 : chunks % 8 && chunks % 7 == 0 ? 7 : 8;
}

/* Blocks that a multiprocessor holds at once. */
static uint32_t resident(uint32_t smem, uint32_t mt, uint32_t nt, uint32_t warps, const struct stem_target *t)
{
    uint32_t n = stem_stream_sm_smem(t) / smem, most = stem_format_blocks(mt, nt, warps);
    return n < 1 ? 1 : n < most ? n : most;
}

void stem_experts_lower_up_packed(const struct stem_concrete *c, const struct stem_experts_sizes *s,
                                  const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l)
{
    enum stem_dtype type = c->operand[2].dtype;
    const uint32_t mt = 2, stages = 2, fixed = 8 << 10; /* groups, reserved */
    uint32_t nt = stem_experts_nt(s), ring, smem;
    int64_t groups = s->tile * s->k < s->experts ? s->tile * s->k : s->experts;
    int64_t items = groups * ((s->inter + 8 * mt - 1) / (8 * mt));
    uint32_t warps = warps_for(type, s->hidden, items <= 2 * (int64_t)t->n_sms);
    set_headers(l);
    for (;; warps /= 2) {
        ring = warps * stages * stem_format_stage_bytes(type, mt);
        smem = ring + warps * 8 * nt * (16 * mt + 4) * 4;
        if (smem + fixed <= stem_stream_block_smem(t) || warps <= 2)
            break;
    }
    if (!fits(c, 0, 2, 3, s->hidden) || !stem_experts_can_group(s, ring)) {
        up_plain(c, s, a, l);
        return;
    }
    l->kernel = stem_arena_printf(a, "stem_experts_up_%s_%s%s_m%u_n%u_s%u_w%u", stem_dtype_name(type),
                                  stem_op_attr(c->def, c->attrs, "act")->text, stem_format_tag(c, 3, a), mt, nt,
                                  stages, warps);
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(%u, %u) %s(const __nv_bfloat16 *x, const int *ids, "
        "const void *w13, %s__nv_bfloat16 *h, int tokens, int k, int experts, int hidden, int inter, int tile)\n{\n"
        "    stem_experts_up_packed<%s, %u, %u, %u, %u, %s>(x, ids, w13, p3, %s, h, tokens, k, experts, hidden, "
        "inter, "
        "tile);\n}\n",
        32 * warps, stem_format_blocks(mt, nt, warps), l->kernel, stem_format_rest(c, 3, a), stem_format_name(type),
        mt, nt, stages, warps, stem_experts_act(c), pointer(c, 4, a));
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = s->tile}};
    l->grid[0] = at_most(items, t->n_sms * resident(smem + fixed, mt, nt, warps, t));
    l->grid[1] = (uint32_t)s->tiles;
    l->block[0] = 32 * warps;
    l->smem = smem;
}

static void down_plain(const struct stem_concrete *c, const struct stem_experts_sizes *s, struct stem_arena *a,
                       struct stem_lowered *l)
{
    const char *y = stem_c_type(c->operand[c->n_in].dtype), *define;
    const char *kernel = stem_arena_printf(a, "stem_experts_down_plain_%s%s", stem_dtype_name(c->operand[3].dtype),
                                           stem_format_tag(c, 4, a));
    struct stem_store store;
    stem_epilogue_store(c, kernel, "hidden", a, &store, &define);
    l->kernel = stem_arena_printf(a, "%s%s", kernel, store.name);
    l->code = stem_arena_printf(
        a,
        "%sextern \"C\" __global__ void __launch_bounds__(128) %s(const __nv_bfloat16 *h, const int *ids, "
        "const float *scale, const void *w2, %s%s%s *y, int tokens, int k, int experts, int hidden, int inter)\n{\n"
        "    stem_experts_down_packed_plain<%s>(h, ids, scale, w2, p4, %s, %s, tokens, k, experts, hidden, "
        "inter);\n}\n",
        define, l->kernel, stem_format_rest(c, 4, a), store.params, y, stem_format_name(c->operand[3].dtype),
        pointer(c, 5, a), store.make);
    l->grid[0] = (uint32_t)((s->hidden + 3) / 4);
    l->grid[1] = at_most(s->tokens, 32768);
    l->block[0] = 128;
}

void stem_experts_lower_down_packed(const struct stem_concrete *c, const struct stem_experts_sizes *s,
                                    const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l)
{
    enum stem_dtype type = c->operand[3].dtype;
    const uint32_t mt = 2, stages = 2, groups = 8 << 10; /* stem_groups and what the system takes */
    uint32_t nt = stem_experts_nt(s), warps = 8, ring, sums;
    set_headers(l);
    for (;; warps /= 2) {
        ring = warps * stages * stem_format_stage_bytes(type, mt);
        sums = (uint32_t)(s->tile * (warps * (16 * mt + 4) + s->k) * 4);
        if (ring + sums + groups <= stem_stream_sm_smem(t) / 2 || warps <= 2)
            break;
    }
    if (!fits(c, 0, 3, 4, s->inter) || !stem_experts_can_group(s, ring) ||
        ring + sums + groups > stem_stream_block_smem(t)) {
        down_plain(c, s, a, l);
        return;
    }
    uint32_t weights = 3u << 3 | (stem_format_operand(c, 5) ? 1u << 5 : 0);
    bool early = (c->constant & weights) == weights;
    const char *kernel = stem_arena_printf(a, "stem_experts_down_%s%s_m%u_n%u_s%u_w%u%s", stem_dtype_name(type),
                                           stem_format_tag(c, 4, a), mt, nt, stages, warps, early ? "_w" : "");
    const char *define;
    struct stem_store store;
    stem_epilogue_store(c, kernel, "hidden", a, &store, &define);
    l->kernel = stem_arena_printf(a, "%s%s", kernel, store.name);
    l->code = stem_arena_printf(
        a,
        "%sextern \"C\" __global__ void __launch_bounds__(%u, %u) %s(const __nv_bfloat16 *h, const int *ids, "
        "const float *scale, const void *w2, %s%s%s *y, int tokens, int k, int experts, int hidden, int inter, "
        "int tile)\n{\n    stem_experts_down_packed<%s, %u, %u, %u, %u, %s>(h, ids, scale, w2, p4, %s, %s, tokens, "
        "k, "
        "experts, hidden, inter, tile);\n}\n",
        define, 32 * warps, stem_format_blocks(mt, nt, warps), l->kernel, stem_format_rest(c, 4, a), store.params,
        stem_c_type(c->operand[c->n_in].dtype), stem_format_name(type), mt, nt, stages, warps,
        early ? "true" : "false", pointer(c, 5, a), store.make);
    l->early = early ? weights | 1u << 1 | 1u << 2 : 0;
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = s->tile}};
    l->grid[0] = (uint32_t)((s->hidden + 16 * mt - 1) / (16 * mt));
    l->grid[1] = (uint32_t)s->tiles;
    l->block[0] = 32 * warps;
    l->smem = ring + sums;
}
