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
    static const char *const names[] = {"common",  "pointwise",     "stream", "groups",       "experts",       "one",
                                        "formats", "packed_stream", "fixed",  "group_stream", "experts_packed", "one_packed",
                                        "down_slots", "experts_packed_plain"};
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        l->headers[i] = names[i];
}

/* Expression for operand i's address. */
static const char *pointer(const struct stem_concrete *c, uint32_t i, struct stem_arena *a)
{
    return stem_format_operand(c, i) ? stem_arena_printf(a, "p%u", i) : "nullptr";
}

/* k, experts, hidden, inter as arguments of a kernel: numbers with the formats of 4 bits, so that what follows from them is not
 * computed for each stage; they are in the kernel's name then. */
static const char *sizes_of(const struct stem_experts_sizes *s, enum stem_dtype type, const char **tag, struct stem_arena *a)
{
    long long k = s->k, experts = s->experts, hidden = s->hidden, inter = s->inter;
    *tag = "";
    if (type == STEM_F8E4M3)
        return "k, experts, hidden, inter";
    *tag = stem_arena_printf(a, "_%lldx%lld_k%lld_%lld", hidden, inter, k, experts);
    return stem_arena_printf(a, "%lld, %lld, %lld, %lld", k, experts, hidden, inter);
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

/* Tensor cores take at least `least` of `rows` rows of k elements of operand w, whose scales are the operand after `scale`. */
static bool fits(const struct stem_concrete *c, uint32_t x, uint32_t w, uint32_t scale, int64_t k, int64_t rows,
                 int64_t least)
{
    if (rows < least)
        return false;
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
    uint32_t height;                                   /* of down: rows of a tile */
    bool keep, fixed;                                  /* fixed: tokens in fixed point (fixed.cuh) */
    bool whole;                                        /* a block's shared memory holds all of its item (one_packed.cuh) */
    bool slots;                                        /* of down: sums have slots (down_slots.cuh) */
    uint32_t tiles;                                    /* of slots: tiles of a block */
};

/* Whether an expert is likely to be chosen by few tokens. */
static bool few(const struct stem_experts_sizes *s)
{
    return s->tile * s->k <= s->experts;
}

/* In nvfp4, whose weights take more to unpack and whose products are twice as many, experts with several tokens are faster in bf16. */
static bool takes_fixed(enum stem_dtype type, const struct stem_experts_sizes *s, const struct stem_target *t)
{
    return stem_format_fixed(type, t) && (few(s) || (type == STEM_INT4 && s->tile * s->k <= 2 * s->experts));
}

/* Tokens of a group: an expert that is chosen by more although that is unlikely is read twice. */
static uint32_t fixed_width(const struct stem_experts_sizes *s)
{
    return s->tokens == 1 || 8 * s->tile * s->k <= s->experts ? 1 : few(s) ? 2 : 3;
}

static const char *format_of(enum stem_dtype type, const struct cut *p)
{
    return p->fixed ? stem_format_fixed_name(type) : stem_format_name(type);
}

/* Of `width` tokens of a group, so many chunks. */
static uint32_t token_bytes(enum stem_dtype type, const struct cut *p, uint32_t chunks)
{
    uint32_t each = p->fixed ? STEM_FIXED_BYTES : stem_format_token_bytes(type);
    return (chunks * p->width * each + 15) / 16 * 16 + (p->fixed ? STEM_FIXED_ZEROS : 0);
}

/* Shared memory of a warp in one_packed.cuh. */
static uint32_t whole_bytes(enum stem_dtype type, uint32_t mt, uint32_t stages)
{
    return stages * (stem_format_stage_bytes(type, mt) + STEM_FIXED_BYTES) + STEM_FIXED_ZEROS;
}

/* A single token's items each in a block that holds all of it, if they are few and small. */
static bool whole_cut(enum stem_dtype type, const struct stem_experts_sizes *s, const struct stem_target *t, uint32_t chunks,
                      struct cut *c)
{
    const uint32_t most_warps = 8, most_stages = 4;
    int64_t items = s->k * ((s->inter + 8 * c->mt - 1) / (8 * c->mt));
    if (!c->fixed || s->tokens != 1 || chunks > most_warps * most_stages)
        return false;
    struct cut w = *c;
    w.whole = true;
    w.nt = w.width = 1;
    w.stages = (chunks + most_warps - 1) / most_warps;
    w.warps = (chunks + w.stages - 1) / w.stages;
    w.ring = w.smem = w.warps * whole_bytes(type, w.mt, w.stages);
    if (w.smem > stem_stream_block_smem(t) || items > (int64_t)t->n_sms * (stem_stream_sm_smem(t) / (w.smem + 1024)))
        return false;
    *c = w;
    return true;
}

/* Blocks on a multiprocessor that registers leave room for. */
static uint32_t blocks_of(const struct cut *c)
{
    if (c->whole) /* registers for one, and for blocks of down beside it */
        return 3;
    return stem_format_blocks(c->mt, c->fixed ? 1 : c->nt, c->warps);
}

/* Shared memory of a block of up besides what it asks for: groups, and what is reserved. */
enum { UP_FIXED = (6 << 10) + 512 };

/* Those that it holds at once. */
static uint32_t resident(const struct cut *c, const struct stem_target *t)
{
    uint32_t n = stem_stream_sm_smem(t) / (c->smem + UP_FIXED), most = blocks_of(c);
    return n < 1 ? 1 : n < most ? n : most;
}

/* Tokens of a group are kept in shared memory unless an expert is likely to be chosen by several. Two blocks of 8 warps
 * with two stages each then fit on a multiprocessor, or of 6, where more registers help; else four of 4 warps. */
static struct cut up_cut(enum stem_dtype type, const struct stem_experts_sizes *s, const struct stem_target *t)
{
    const uint32_t half = stem_stream_sm_smem(t) / 2 - UP_FIXED;
    uint32_t chunks = (uint32_t)((s->hidden + chunk_of(type) - 1) / chunk_of(type));
    struct cut c = {.mt = 2, .nt = stem_experts_nt(s), .stages = 2};
    c.fixed = takes_fixed(type, s, t);
    c.keep = few(s) || c.fixed;
    c.warps = !c.keep ? 4 : c.fixed && !few(s) ? 6 : !c.fixed && (type == STEM_INT4 || (type == STEM_NVFP4 && s->tokens > 1)) ? 6 : 8;
    c.width = c.fixed ? fixed_width(s) : !c.keep ? 8 * c.nt : s->tokens > 1 ? 2 : 1;
    if (whole_cut(type, s, t, chunks, &c))
        return c;
    if (type == STEM_F8E4M3 && s->tokens == 1 && s->k * ((s->inter + 15) / 16) <= t->n_sms)
        c.stages = 3; /* a multiprocessor has one block only */
    for (;; c.stages > 2 ? c.stages-- : c.keep && c.width > 1 ? c.width-- : (c.warps /= 2)) {
        c.nt = c.fixed ? c.width : c.nt;
        c.ring = c.warps * c.stages * stem_format_stage_bytes(type, c.mt);
        c.smem = c.ring + (c.keep ? token_bytes(type, &c, chunks) : 0);
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
    const char *call, *tag, *sizes = sizes_of(s, type, &tag, a);
    if (stem_experts_up_is_wide(c, s, t)) {
        stem_experts_lower_up_wide(c, s, t, a, l);
        return;
    }
    set_headers(l);
    if (!fits(c, 0, 2, 3, s->hidden, s->inter, 8 * p.mt) || (!p.whole && !stem_experts_can_group(s, p.ring)) ||
        p.smem > stem_stream_block_smem(t)) {
        up_plain(c, s, a, l);
        return;
    }
    l->kernel = stem_arena_printf(a, "stem_experts_up_%s_%s%s%s_m%u_n%u_s%u_w%u%s%s%s", stem_dtype_name(type),
                                  stem_op_attr(c->def, c->attrs, "act")->text, stem_format_tag(c, 3, a), coded(c) ? "_x8" : "",
                                  p.mt, p.nt, p.stages, p.warps, p.fixed ? "_f" : p.keep ? "_x" : "", p.whole ? "_a" : one ? "_one" : "", tag);
    if (p.whole)
        call = stem_arena_printf(a, "stem_experts_up_packed_one<%s, %u, %u, %u, %s>(x, ids, w13, p3, %s, h, %s)",
                                 format_of(type, &p), p.mt, p.stages, p.warps, stem_experts_act(c), pointer(c, 4, a), sizes);
    else
        call = stem_arena_printf(a,
                                 "stem_experts_up_packed<%s, %u, %u, %u, %u, %s, %s, %s>(%s, ids, w13, p3, %s, h, tokens, %s, tile, width)",
                                 format_of(type, &p), p.mt, p.nt, p.stages, p.warps, stem_experts_act(c), p.keep ? "true" : "false",
                                 one ? "true" : "false", stem_format_x(c, 5, a), pointer(c, 4, a), sizes);
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(%u, %u) %s(%s *x, const int *ids, "
        "const void *w13, %s__nv_bfloat16 *h, int tokens, int k, int experts, int hidden, int inter, int tile, "
        "int width)\n{\n    %s;\n}\n",
        32 * p.warps, blocks_of(&p), l->kernel, stem_format_x_type(c), stem_format_rest(c, 3, a), call);
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = s->tile}};
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = p.width}};
    l->grid[0] = p.whole ? (uint32_t)items : at_most(items, t->n_sms * resident(&p, t));
    l->grid[1] = (uint32_t)s->tiles;
    l->block[0] = 32 * p.warps;
    l->smem = p.smem;
}

static void down_plain(const struct stem_concrete *c, const struct stem_experts_sizes *s, struct stem_arena *a,
                       struct stem_lowered *l)
{
    const char *y = stem_c_type(c->operand[c->n_in].dtype), *define;
    const char *kernel = stem_arena_printf(a, "stem_experts_down_plain_%s%s%s", stem_dtype_name(c->operand[3].dtype),
                                           stem_format_tag(c, 4, a), coded(c) ? "_x8" : "");
    struct stem_store store;
    stem_epilogue_store(c, kernel, "hidden", a, &store, &define);
    l->kernel = stem_arena_printf(a, "%s%s", kernel, store.name);
    l->code = stem_arena_printf(
        a,
        "%sextern \"C\" __global__ void __launch_bounds__(128) %s(%s *x, const int *ids, "
        "const float *scale, const void *w2, %s%s%s *y, int tokens, int k, int experts, int hidden, int inter)\n{\n"
        "    stem_experts_down_packed_plain<%s>(%s, ids, scale, w2, p4, %s, %s, tokens, k, experts, hidden, "
        "inter);\n}\n",
        define, l->kernel, stem_format_x_type(c), stem_format_rest(c, 4, a), store.params, y,
        stem_format_name(c->operand[3].dtype), stem_format_x(c, 5, a), coded(c) ? "nullptr" : pointer(c, 5, a), store.make);
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

/* Rows of a tile, so that the multiprocessor with the most has as few as may be. The products are of full height, which pays
 * where memory is the bound. */
static uint32_t down_height(uint32_t full, const struct stem_experts_sizes *s, const struct stem_target *t)
{
    int64_t least = INT64_MAX;
    uint32_t best = full;
    for (uint32_t h = full; h >= full - 8; h -= 4) {
        int64_t tiles = (s->hidden + h - 1) / h, most = (tiles + t->n_sms - 1) / t->n_sms * h;
        if (most < least) {
            least = most;
            best = h;
        }
    }
    return best;
}

/* As many warps as there is room for beside the slots of all pairs. */
static bool slots_cut(enum stem_dtype type, const struct stem_experts_sizes *s, const struct stem_target *t, struct cut *c)
{
    const uint32_t most = stem_stream_block_smem(t) - (8 << 10), more = (uint32_t)(s->tile * s->k * (16 * c->mt + 5) * 4);
    if (type == STEM_F8E4M3 || (c->fixed ? few(s) : c->nt != 1 || c->warps >= 8))
        return false;
    struct cut w = *c;
    w.width = c->fixed ? 4 : 8; /* it reads no expert twice but a few */
    uint32_t stage = stem_format_stage_bytes(type, c->mt), own = c->fixed ? token_bytes(type, &w, 1) : 0;
    for (w.warps = 16; w.warps > (c->fixed ? 8 : 2 * c->warps); w.warps -= 2) {
        w.ring = w.warps * (c->stages * stage + own);
        if (w.ring + more <= most) {
            w.slots = true;
            w.smem = w.ring + more;
            w.height = down_height(16 * c->mt, s, t);
            w.tiles = (s->hidden + w.height - 1) / w.height > t->n_sms ? 2 : 1;
            *c = w;
            return true;
        }
    }
    return false;
}

static struct cut down_cut(enum stem_dtype type, const struct stem_experts_sizes *s, const struct stem_target *t)
{
    const uint32_t half = stem_stream_sm_smem(t) / 2 - (8 << 10);
    struct cut c = {.mt = 2, .stages = 2, .warps = type == STEM_INT4 ? 6 : 8, .width = down_width(s)};
    c.fixed = takes_fixed(type, s, t);
    if (c.fixed) {
        c.width = fixed_width(s);
        c.warps = 8;
    }
    c.nt = c.fixed ? c.width : (c.width + 7) / 8;
    c.height = c.fixed && type == STEM_INT4 ? down_height(16 * c.mt, s, t) : 16 * c.mt;
    for (;; c.warps /= 2) {
        uint32_t stage = stem_format_stage_bytes(type, c.mt) + (c.fixed ? 0 : c.width * chunk_of(type) * 2);
        c.ring = c.warps * (c.stages * stage + (c.fixed ? token_bytes(type, &c, 1) : 0));
        c.smem = c.ring + (uint32_t)(s->tile * (c.warps * (16 * c.mt + 4) + s->k) * 4);
        if (c.smem <= half || c.warps <= 2)
            break;
    }
    slots_cut(type, s, t, &c);
    return c;
}

void stem_experts_lower_down_packed(const struct stem_concrete *c, const struct stem_experts_sizes *s,
                                    const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l)
{
    enum stem_dtype type = c->operand[3].dtype;
    struct cut p = down_cut(type, s, t);
    bool one = s->tokens == 1;
    if (stem_experts_down_is_wide(s, type, t) && fits(c, 0, 3, 4, s->inter, s->hidden, 64)) {
        stem_experts_lower_down_wide(c, s, t, a, l);
        return;
    }
    set_headers(l);
    if (coded(c) || !fits(c, 0, 3, 4, s->inter, s->hidden, 16 * p.mt) || !stem_experts_can_group(s, p.ring) ||
        p.smem + (8 << 10) > stem_stream_block_smem(t)) {
        down_plain(c, s, a, l);
        return;
    }
    uint32_t weights = 3u << 3 | (stem_format_operand(c, 5) ? 1u << 5 : 0);
    bool early = (c->constant & weights) == weights;
    const char *tag, *sizes = sizes_of(s, type, &tag, a);
    const char *kernel = stem_arena_printf(a, "stem_experts_down_%s%s_m%u_r%u_s%u_w%u%s%s%s%s", stem_dtype_name(type),
                                           stem_format_tag(c, 4, a), p.mt, p.width, p.stages, p.warps,
                                           p.fixed ? "_f" : "", early ? "_w" : "", p.slots ? p.tiles > 1 ? "_s2" : "_s" : one ? "_one" : "", tag);
    const char *define;
    struct stem_store store;
    stem_epilogue_store(c, kernel, "hidden", a, &store, &define);
    l->kernel = stem_arena_printf(a, "%s%s", kernel, store.name);
    const char *function =
        p.slots ? stem_arena_printf(a, "stem_experts_down_slots<%s, %u, %u, %u, %u, %u, %s>", format_of(type, &p), p.mt, p.stages,
                                    p.warps, p.width, p.tiles, early ? "true" : "false")
                : stem_arena_printf(a, "stem_experts_down_packed<%s, %u, %u, %u, %u, %s, %s>", format_of(type, &p), p.mt, p.stages,
                                    p.warps, p.width, early ? "true" : "false", one ? "true" : "false");
    l->code = stem_arena_printf(
        a,
        "%sextern \"C\" __global__ void __launch_bounds__(%u, %u) %s(const __nv_bfloat16 *h, const int *ids, "
        "const float *scale, const void *w2, %s%s%s *y, int tokens, int k, int experts, int hidden, int inter, "
        "int tile, int height)\n{\n    %s(h, ids, scale, w2, p4, %s, %s, tokens, %s, tile, height);\n}\n",
        define, 32 * p.warps, blocks_of(&p), l->kernel, stem_format_rest(c, 4, a),
        store.params, stem_c_type(c->operand[c->n_in].dtype), function, pointer(c, 5, a), store.make, sizes);
    l->early = early ? weights | 1u << 1 | 1u << 2 : 0;
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = s->tile}};
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = p.height}};
    l->grid[0] = (uint32_t)((s->hidden + p.height - 1) / p.height);
    if (p.tiles > 1)
        l->grid[0] = (l->grid[0] + p.tiles - 1) / p.tiles;
    l->grid[1] = (uint32_t)s->tiles;
    l->block[0] = 32 * p.warps;
    l->smem = p.smem;
}
