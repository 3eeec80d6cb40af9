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
    static const char *const names[] = {"common", "pointwise", "stream",        "groups",        "experts",
                                        "one",    "formats",   "packed_stream", "group_stream",  "experts_packed"};
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

static bool coded(const struct stem_concrete *c)
{
    return c->operand[0].dtype == STEM_F8E4M3;
}

static void up_plain(const struct stem_concrete *c, const struct stem_experts_sizes *s, struct stem_arena *a,
                     struct stem_lowered *l)
{
    const char *type = stem_dtype_name(c->operand[2].dtype);
    l->kernel = stem_arena_printf(a, "stem_experts_up_plain_%s_%s%s%s", type, stem_op_attr(c->def, c->attrs, "act")->text,
                                  stem_format_tag(c, 3, a), coded(c) ? "_x8" : "");
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(128) %s(%s *x, const int *ids, "
        "const void *w13, %s__nv_bfloat16 *h, int tokens, int k, int experts, int hidden, int inter)\n{\n"
        "    stem_experts_up_packed_plain<%s, __nv_bfloat16, %s>(%s, ids, w13, p3, %s, h, tokens, k, experts, hidden, "
        "inter);\n}\n",
        l->kernel, stem_format_x_type(c), stem_format_rest(c, 3, a), stem_format_name(c->operand[2].dtype),
        stem_experts_act(c), stem_format_x(c, 5, a), pointer(c, 4, a));
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

/* Columns of a chunk, 128 bytes of a row. */
static uint32_t chunk_of(enum stem_dtype weight)
{
    return weight == STEM_F8E4M3 ? 128 : 256;
}

/* How a kernel is cut (experts_packed.cuh). */
struct cut {
    uint32_t mt, nt, stages, warps, width, ring, smem; /* width: tokens of a group, at most */
    bool keep;
};

/* Blocks that a multiprocessor holds at once. */
static uint32_t resident(const struct cut *c, const struct stem_target *t)
{
    const uint32_t fixed = 8 << 10; /* groups, reserved */
    uint32_t n = stem_stream_sm_smem(t) / (c->smem + fixed), most = stem_format_blocks(c->mt, c->nt, c->warps);
    return n < 1 ? 1 : n < most ? n : most;
}

/* Tokens of a group are kept in shared memory unless an expert is likely to be chosen by several. Two blocks of 8 warps
 * with two stages each then fit on a multiprocessor, or of 6, where more registers help; else four of 4 warps. */
static struct cut up_cut(enum stem_dtype type, const struct stem_experts_sizes *s, const struct stem_target *t)
{
    const uint32_t half = stem_stream_sm_smem(t) / 2 - (6 << 10) - 512; /* less groups, reserved */
    uint32_t chunks = (uint32_t)((s->hidden + chunk_of(type) - 1) / chunk_of(type));
    struct cut c = {.mt = 2, .nt = stem_experts_nt(s), .stages = 2, .keep = s->tile * s->k <= s->experts};
    c.warps = !c.keep ? 4 : type == STEM_INT4 || (type == STEM_NVFP4 && s->tokens > 1) ? 6 : 8;
    c.width = !c.keep ? 8 * c.nt : s->tokens > 1 ? 2 : 1;
    for (;; c.keep && c.width > 1 ? c.width-- : (c.warps /= 2)) {
        c.ring = c.warps * c.stages * stem_format_stage_bytes(type, c.mt);
        c.smem = c.ring + (c.keep ? (chunks * c.width * stem_format_token_bytes(type) + 15) / 16 * 16 : 0);
        c.smem += 2 * c.warps * c.width * (16 * c.mt + 4) * 4;
        if (c.smem <= half || c.warps <= 2)
            return c;
    }
}

void stem_experts_lower_up_packed(const struct stem_concrete *c, const struct stem_experts_sizes *s,
                                  const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l)
{
    enum stem_dtype type = c->operand[2].dtype;
    struct cut p = up_cut(type, s, t);
    int64_t groups = s->tile * s->k < s->experts ? s->tile * s->k : s->experts;
    int64_t items = groups * ((s->inter + 8 * p.mt - 1) / (8 * p.mt));
    bool one = s->tokens == 1;
    set_headers(l);
    if (!fits(c, 0, 2, 3, s->hidden) || !stem_experts_can_group(s, p.ring) || p.smem > stem_stream_block_smem(t)) {
        up_plain(c, s, a, l);
        return;
    }
    l->kernel = stem_arena_printf(a, "stem_experts_up_%s_%s%s%s_m%u_n%u_s%u_w%u%s%s", stem_dtype_name(type),
                                  stem_op_attr(c->def, c->attrs, "act")->text, stem_format_tag(c, 3, a), coded(c) ? "_x8" : "",
                                  p.mt, p.nt, p.stages, p.warps, p.keep ? "_x" : "", one ? "_one" : "");
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(%u, %u) %s(%s *x, const int *ids, "
        "const void *w13, %s__nv_bfloat16 *h, int tokens, int k, int experts, int hidden, int inter, int tile, "
        "int width)\n{\n"
        "    stem_experts_up_packed<%s, %u, %u, %u, %u, %s, %s, %s>(%s, ids, w13, p3, %s, h, tokens, k, experts, "
        "hidden, inter, tile, width);\n}\n",
        32 * p.warps, stem_format_blocks(p.mt, p.nt, p.warps), l->kernel, stem_format_x_type(c), stem_format_rest(c, 3, a),
        stem_format_name(type), p.mt, p.nt, p.stages, p.warps, stem_experts_act(c), p.keep ? "true" : "false",
        one ? "true" : "false", stem_format_x(c, 5, a), pointer(c, 4, a));
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = s->tile}};
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = p.width}};
    l->grid[0] = at_most(items, t->n_sms * resident(&p, t));
    l->grid[1] = (uint32_t)s->tiles;
    l->block[0] = 32 * p.warps;
    l->smem = p.smem;
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

/* Tokens of a group: few, if an expert is seldom chosen by more. */
static uint32_t down_width(const struct stem_experts_sizes *s)
{
    int64_t pairs = s->tile * s->k;
    return s->tokens == 1 ? 1 : 2 * pairs <= s->experts ? 2 : pairs <= s->experts ? 4 : pairs <= 4 * s->experts ? 8 : 16;
}

static struct cut down_cut(enum stem_dtype type, const struct stem_experts_sizes *s, const struct stem_target *t)
{
    const uint32_t half = stem_stream_sm_smem(t) / 2 - (8 << 10);
    struct cut c = {.mt = 2, .stages = 2, .warps = type == STEM_INT4 ? 6 : 8, .width = down_width(s)};
    c.nt = (c.width + 7) / 8;
    for (;; c.warps /= 2) {
        uint32_t stage = stem_format_stage_bytes(type, c.mt) + c.width * chunk_of(type) * 2;
        c.ring = c.warps * c.stages * stage;
        c.smem = c.ring + (uint32_t)(s->tile * (c.warps * (16 * c.mt + 4) + s->k) * 4);
        if (c.smem <= half || c.warps <= 2)
            return c;
    }
}

void stem_experts_lower_down_packed(const struct stem_concrete *c, const struct stem_experts_sizes *s,
                                    const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l)
{
    enum stem_dtype type = c->operand[3].dtype;
    struct cut p = down_cut(type, s, t);
    bool one = s->tokens == 1;
    set_headers(l);
    if (!fits(c, 0, 3, 4, s->inter) || !stem_experts_can_group(s, p.ring) ||
        p.smem + (8 << 10) > stem_stream_block_smem(t)) {
        down_plain(c, s, a, l);
        return;
    }
    uint32_t weights = 3u << 3 | (stem_format_operand(c, 5) ? 1u << 5 : 0);
    bool early = (c->constant & weights) == weights;
    const char *kernel = stem_arena_printf(a, "stem_experts_down_%s%s_m%u_r%u_s%u_w%u%s%s", stem_dtype_name(type),
                                           stem_format_tag(c, 4, a), p.mt, p.width, p.stages, p.warps,
                                           early ? "_w" : "", one ? "_one" : "");
    const char *define;
    struct stem_store store;
    stem_epilogue_store(c, kernel, "hidden", a, &store, &define);
    l->kernel = stem_arena_printf(a, "%s%s", kernel, store.name);
    l->code = stem_arena_printf(
        a,
        "%sextern \"C\" __global__ void __launch_bounds__(%u, %u) %s(const __nv_bfloat16 *h, const int *ids, "
        "const float *scale, const void *w2, %s%s%s *y, int tokens, int k, int experts, int hidden, int inter, "
        "int tile)\n{\n    stem_experts_down_packed<%s, %u, %u, %u, %u, %s, %s>(h, ids, scale, w2, p4, %s, %s, "
        "tokens, k, experts, hidden, inter, tile);\n}\n",
        define, 32 * p.warps, stem_format_blocks(p.mt, p.nt, p.warps), l->kernel, stem_format_rest(c, 4, a),
        store.params, stem_c_type(c->operand[c->n_in].dtype), stem_format_name(type), p.mt, p.stages, p.warps, p.width,
        early ? "true" : "false", one ? "true" : "false", pointer(c, 5, a), store.make);
    l->early = early ? weights | 1u << 1 | 1u << 2 : 0;
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = s->tile}};
    l->grid[0] = (uint32_t)((s->hidden + 16 * p.mt - 1) / (16 * p.mt));
    l->grid[1] = (uint32_t)s->tiles;
    l->block[0] = 32 * p.warps;
    l->smem = p.smem;
}
