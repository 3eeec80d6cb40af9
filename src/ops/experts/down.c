/* SPDX-License-Identifier: Apache-2.0
 *
 * experts_down: y[t] = sum over j of scale[t, j] * w2[ids[t, j]] h[t, j], in f32, rounded once. A block owns its
 * rows of hidden for every token, so the sum over experts needs no other block: no atomics, and the same bits every
 * time.
 */
#include "ops/experts/experts.h"

#include "ops/epilogue.h"
#include "ops/rule.h"
#include "ops/linear/format.h"
#include "ops/linear/linear.h"

static bool infer(struct stem_infer *c)
{
    const struct stem_type *h = &c->in[0], *ids = &c->in[1], *w2 = &c->in[3];
    c->out[0] = (struct stem_type){.dtype = h->dtype == STEM_F8E4M3 ? STEM_BF16 : h->dtype, .rank = 2};
    c->out[0].dim[0] = ids->dim[0];
    c->out[0].dim[1] = w2->dim[1];
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    struct stem_experts_sizes s = stem_experts_down_sizes(c);
    uint64_t size = stem_dtype_bits(c->operand[0].dtype) / 8, y_size = stem_dtype_bits(c->operand[c->n_in].dtype) / 8;
    uint64_t weights = stem_experts_distinct(&s) * stem_format_bytes(c->operand[3].dtype, s.hidden, s.inter);
    *cost = (struct stem_cost){.bytes_read = weights + (uint64_t)(s.tokens * s.k) * ((uint64_t)s.inter * size + 8),
                               .bytes_written = (uint64_t)(s.tokens * s.hidden) * y_size,
                               .flops = 2 * (uint64_t)(s.tokens * s.k * s.inter) * (uint64_t)s.hidden,
                               .blocks = (uint32_t)((s.hidden + 31) / 32 * s.tiles)};
}

static void lower_plain(const struct stem_concrete *c, const struct stem_experts_sizes *s, struct stem_arena *a,
                        struct stem_lowered *l)
{
    const char *type = stem_stream_type(c->operand[0].dtype), *y = stem_c_type(c->operand[c->n_in].dtype), *define;
    const char *kernel = stem_arena_printf(a, "stem_experts_down_plain_%s%s", stem_dtype_name(c->operand[0].dtype),
                                           stem_format_tag(c, 4, a));
    struct stem_store store;
    stem_epilogue_store(c, kernel, "hidden", a, &store, &define);
    l->kernel = stem_arena_printf(a, "%s%s", kernel, store.name);
    l->code =
        stem_arena_printf(a,
                          "%sextern \"C\" __global__ void __launch_bounds__(128) %s(const %s *h, const int *ids, "
                          "const float *scale, const %s *w2, %s%s%s *y, int tokens, int k, int experts, int hidden, "
                          "int inter)\n{\n    stem_experts_down_plain_to(h, ids, scale, w2, %s, tokens, k, experts, "
                          "hidden, inter);\n}\n",
                          define, l->kernel, type, type, stem_format_rest(c, 4, a), store.params, y, store.make);
    l->smem = 0;
    l->grid[0] = (uint32_t)((s->hidden + 3) / 4);
    l->grid[1] = (uint32_t)(s->tokens < 32768 ? s->tokens : 32768);
    l->block[0] = 128;
}

enum { DOWN_FIXED = 8 << 10 }; /* stem_groups and what the system takes */

/* How experts_down.cuh is cut: tiles of 16 rows of hidden for a block, token rows of a stage, stages, warps. */
struct down_shape {
    uint32_t mt, tr, stages, warps, ring, smem;
};

static struct down_shape down_cut(const struct stem_experts_sizes *s, uint32_t mt, uint32_t tr, uint32_t stages,
                                  uint32_t warps)
{
    uint32_t ring = warps * stages * (16 * mt + tr) * 128;
    uint32_t sums = tr == 1 ? warps * 16 * mt * 4 : (uint32_t)(s->tile * (warps * (16 * mt + 4) + s->k)) * 4;
    return (struct down_shape){mt, tr, stages, warps, ring, ring + sums};
}

/* Blocks of a multiprocessor: as many as all of them come to, at most 64 rows of hidden. */
static uint32_t blocks_each(const struct stem_experts_sizes *s, uint32_t mt, const struct stem_target *t)
{
    int64_t blocks = (s->hidden + 16 * mt - 1) / (16 * mt), each = (blocks + t->n_sms - 1) / t->n_sms;
    return each < 4 / mt ? (uint32_t)each : 4 / mt;
}

/* One token. Blocks should find room beside those of experts_up, and load while these finish; where there are three
 * or more for a multiprocessor, one of them does, and warps that take whole experts (stem_experts_down_one, with
 * stages for 8 tokens) are faster by half a percent of a layer. */
static struct down_shape down_shape_one(const struct stem_experts_sizes *s, const struct stem_target *t)
{
    uint32_t each = blocks_each(s, 1, t);
    if (each <= 2)
        return down_cut(s, 1, 1, 3, each == 1 ? 11 : 5);
    struct down_shape d = down_cut(s, 1, 8, 4, 4);
    return d.smem + DOWN_FIXED > stem_stream_sm_smem(t) / 2 ? down_cut(s, 1, 8, 3, 4) : d;
}

/* Several tokens. All blocks are there at once, so what counts is that every multiprocessor has as many as the others
 * (blocks_each), and about 64 KiB on their way: the first of these, by the time they took, whose blocks find room.
 * Where there would be room for one more, the multiprocessors that are free first would take it and leave others
 * idle, so blocks ask for so much shared memory that there is none. */
static struct down_shape down_shape_many(const struct stem_experts_sizes *s, const struct stem_target *t)
{
    static const struct {
        uint32_t mt, stages, warps;
    } large[] = {{2, 2, 8}, {2, 2, 6}, {1, 2, 4}, {2, 2, 4}}, half[] = {{1, 3, 6}, {1, 2, 6}, {1, 2, 4}},
      whole[] = {{1, 3, 12}, {1, 2, 12}, {1, 2, 8}, {1, 2, 4}}, *list = large;
    uint32_t each = blocks_each(s, 1, t), n = each == 2 ? 3 : 4, sm = stem_stream_sm_smem(t);
    uint32_t most = stem_stream_block_smem(t) - DOWN_FIXED, least;
    uint32_t tr = s->tile > 8 ? 8 * stem_experts_nt(s) : s->tile > 4 ? 8 : s->tile > 2 ? 4 : 2;
    struct down_shape d = {0};
    if (each <= 2)
        list = each == 1 ? whole : half;
    for (uint32_t i = 0; i < n && (i == 0 || d.smem + DOWN_FIXED > sm / each); i++) {
        d = down_cut(s, list[i].mt, tr, list[i].stages, list[i].warps);
        each = blocks_each(s, d.mt, t);
    }
    least = sm / (each + 1);
    least = least < most ? least : most;
    d.smem = d.smem > least ? d.smem : least;
    return d;
}

static void lower_cut(const struct stem_concrete *c, const struct stem_experts_sizes *s, struct down_shape d,
                      struct stem_arena *a, struct stem_lowered *l)
{
    const char *type = stem_stream_type(c->operand[0].dtype), *y = stem_c_type(c->operand[c->n_in].dtype), *define;
    bool reads_early = c->constant >> 3 & 1, one = s->tokens == 1;
    const char *early = reads_early ? "true" : "false";
    struct stem_store store;
    const char *name = !one ? "stem_experts_down" : d.tr == 1 ? "stem_experts_down_single" : "stem_experts_down_one";
    const char *tr = one ? "" : stem_arena_printf(a, "%u, ", d.tr);
    const char *kernel = stem_arena_printf(a, "%s_%s_m%u_r%u_s%u_w%u%s", name, stem_dtype_name(c->operand[0].dtype),
                                           d.mt, d.tr, d.stages, d.warps, reads_early ? "_w" : "");
    stem_epilogue_store(c, kernel, "hidden", a, &store, &define);
    l->kernel = stem_arena_printf(a, "%s%s", kernel, store.name);
    const char *call =
        stem_arena_printf(a, "%s%s<%s, %u, %s%u, %u, %s>(h, ids, scale, w2, %s, %sk, experts, hidden, inter%s);",
                          one ? "(void)tokens;\n    (void)tile;\n    " : "", name, type, d.mt, tr, d.stages, d.warps,
                          early, store.make, one ? "" : "tokens, ", one ? "" : ", tile");
    l->headers[5] = "one";
    l->headers[6] = "experts_down";
    l->code = stem_arena_printf(
        a,
        "%sextern \"C\" __global__ void __launch_bounds__(%u) %s(const %s *h, const int *ids, const float *scale, "
        "const %s *w2, %s%s%s *y, int tokens, int k, int experts, int hidden, int inter, int tile)\n{\n    %s\n}\n",
        define, 32 * d.warps, l->kernel, type, type, stem_format_rest(c, 4, a), store.params, y, call);
    l->early = reads_early ? 1u << 1 | 1u << 2 | 1u << 3 : 0;
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = s->tile}};
    l->grid[0] = (uint32_t)((s->hidden + 16 * d.mt - 1) / (16 * d.mt));
    l->grid[1] = (uint32_t)s->tiles;
    l->block[0] = 32 * d.warps;
    l->smem = d.smem;
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    struct stem_experts_sizes s = stem_experts_down_sizes(c);
    *l = (struct stem_lowered){.work = STEM_WORK_LAUNCH,
                               .headers = {"common", "pointwise", "stream", "groups", "experts"},
                               .grid = {1, 1, 1},
                               .block = {1, 1, 1},
                               .waits = true};
    stem_experts_scalars(&s, l);
    if (stem_format_scaled(c->operand[3].dtype)) {
        stem_experts_lower_down_packed(c, &s, t, a, l);
        return;
    }
    struct down_shape d = s.tokens == 1 ? down_shape_one(&s, t) : down_shape_many(&s, t);
    if (!stem_stream_fits(&c->operand[0], &c->operand[3], s.inter) || !stem_experts_can_group(&s, d.ring) ||
        d.smem + DOWN_FIXED > stem_stream_block_smem(t)) {
        lower_plain(c, &s, a, l);
        return;
    }
    lower_cut(c, &s, d, a, l);
}

const struct stem_op_def stem_op_experts_down = {
    .name = "experts_down",
    .blurb = "down projection of each token's experts and their weighted sum; part of experts",
    .params = {{"h", STEM_MODE_IN, false, false},
               {"ids", STEM_MODE_IN, false, false},
               {"scale", STEM_MODE_IN, false, false},
               {"w2", STEM_MODE_IN, false, false},
               {"s2", STEM_MODE_IN, true, false},
               {"t2", STEM_MODE_IN, true, false}}, /* of h in f8e4m3: its scales */
    .n_params = 6,
    .attrs = {STEM_EPILOGUE_ATTRS},
    .n_attrs = STEM_N_EPILOGUE_ATTRS,
    .epilogue = true,
    .results = {"y"},
    .internal = true,
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_experts_down_reference,
};
