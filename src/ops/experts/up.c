/* SPDX-License-Identifier: Apache-2.0
 *
 * experts_up: h[t, j] = act(gate) * up for each chosen expert, rounded to x's type. Rows of h whose id is not in
 * 0..E-1, or repeats an earlier id of the token, are not written; experts_down does not read them.
 */
#include <string.h>

#include "ops/experts/experts.h"
#include "ops/linear/format.h"
#include "ops/linear/linear.h"

static bool infer(struct stem_infer *c)
{
    const struct stem_type *x = &c->in[0], *ids = &c->in[1], *w13 = &c->in[2];
    struct stem_dim two = stem_dim_const(c->dims, 2);
    c->out[0] = (struct stem_type){.dtype = x->dtype == STEM_F8E4M3 ? STEM_BF16 : x->dtype, .rank = 3};
    c->out[0].dim[0] = ids->dim[0];
    c->out[0].dim[1] = ids->dim[1];
    c->out[0].dim[2] = stem_dim_op(c->dims, STEM_DIM_DIV, w13->dim[1], two);
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    struct stem_experts_sizes s = stem_experts_up_sizes(c);
    uint64_t size = stem_dtype_bits(c->operand[0].dtype) / 8, distinct = stem_experts_distinct(&s);
    uint64_t h_size = stem_dtype_bits(c->operand[c->n_in].dtype) / 8;
    uint64_t weights = distinct * 2 * stem_format_bytes(c->operand[2].dtype, s.inter, s.hidden),
             blocks = distinct * (uint64_t)(s.inter + 7) / 8;
    *cost = (struct stem_cost){.bytes_read =
                                   weights + (uint64_t)(s.tokens * s.hidden) * size + (uint64_t)(s.tokens * s.k) * 4,
                               .bytes_written = (uint64_t)(s.tokens * s.k * s.inter) * h_size,
                               .flops = 4 * (uint64_t)(s.tokens * s.k * s.inter) * (uint64_t)s.hidden,
                               .blocks = blocks > UINT32_MAX ? UINT32_MAX : (uint32_t)blocks};
}

const char *stem_experts_act(const struct stem_concrete *c)
{
    const char *act = stem_op_attr(c->def, c->attrs, "act")->text;
    return !strcmp(act, "gelu") ? "STEM_ACT_GELU" : !strcmp(act, "relu") ? "STEM_ACT_RELU" : "STEM_ACT_SILU";
}

static void lower_plain(const struct stem_concrete *c, const struct stem_experts_sizes *s, struct stem_arena *a,
                        struct stem_lowered *l)
{
    const char *type = stem_stream_type(c->operand[0].dtype);
    l->kernel = stem_arena_printf(a, "stem_experts_up_plain_%s_%s", stem_dtype_name(c->operand[0].dtype),
                                  stem_op_attr(c->def, c->attrs, "act")->text);
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(128) %s(const %s *x, const int *ids, "
        "const %s *w13, %s *h, int tokens, int k, int experts, int hidden, int inter)\n{\n"
        "    stem_experts_up_plain<%s, %s>(x, ids, w13, h, tokens, k, experts, hidden, inter);\n}\n",
        l->kernel, type, type, type, type, stem_experts_act(c));
    l->grid[0] = (uint32_t)((s->inter + 3) / 4);
    l->grid[1] = (uint32_t)(s->tokens * s->k < 32768 ? s->tokens * s->k : 32768);
    l->block[0] = 128;
}

/* One token (one.cuh): as many blocks as are there at once. More would each begin with the way to memory, and the first
 * blocks of experts_down would come only when the last of them had begun. */
static void lower_one(const struct stem_concrete *c, const struct stem_experts_sizes *s, const struct stem_target *t,
                      uint32_t stages, uint32_t warps, struct stem_arena *a, struct stem_lowered *l)
{
    int64_t items = s->k * ((s->inter + 7) / 8), resident = 2 * (int64_t)t->n_sms;
    const char *type = stem_stream_type(c->operand[0].dtype);
    l->headers[4] = "one";
    l->kernel = stem_arena_printf(a, "stem_experts_up_one_%s_%s_s%u_w%u", stem_dtype_name(c->operand[0].dtype),
                                  stem_op_attr(c->def, c->attrs, "act")->text, stages, warps);
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(%u) %s(const %s *x, const int *ids, const %s *w13, %s *h, "
        "int tokens, int k, int experts, int hidden, int inter)\n{\n    (void)tokens;\n"
        "    stem_experts_up_one<%s, %u, %u, %s>(x, ids, w13, h, k, experts, hidden, inter);\n}\n",
        32 * warps, l->kernel, type, type, type, type, stages, warps, stem_experts_act(c));
    l->grid[0] = (uint32_t)(items < resident ? items : resident);
    l->block[0] = 32 * warps;
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    struct stem_experts_sizes s = stem_experts_up_sizes(c);
    *l = (struct stem_lowered){.work = STEM_WORK_LAUNCH,
                               .headers = {"common", "stream", "groups", "experts"},
                               .grid = {1, 1, 1},
                               .block = {1, 1, 1},
                               .waits = true};
    stem_experts_scalars(&s, l);
    if (stem_format_scaled(c->operand[2].dtype)) {
        stem_experts_lower_up_packed(c, &s, t, a, l);
        return;
    }
    /* Three stages fill the memory's queue, and leave a quarter of the shared memory to the shared expert and to the
     * first blocks of experts_down. */
    uint32_t nt = stem_experts_nt(&s), warps = 8, stages = 3, fixed = 8 << 10; /* groups, reserved */
    uint32_t half = stem_stream_sm_smem(t) / 2 - fixed;
    while (stages > 2 && stem_stream_ring_bytes(1, nt, stages, warps) + stem_stream_tile_bytes(nt, warps) > half)
        stages--;
    l->smem = stem_stream_ring_bytes(1, nt, stages, warps) + stem_stream_tile_bytes(nt, warps);
    uint32_t ring = stem_stream_ring_bytes(1, nt, stages, warps);
    if (!stem_stream_fits(&c->operand[0], &c->operand[2], s.hidden) || !stem_experts_can_group(&s, ring)) {
        l->smem = 0;
        lower_plain(c, &s, a, l);
        return;
    }
    const char *type = stem_stream_type(c->operand[0].dtype);
    if (s.tokens == 1) {
        l->smem = stem_stream_ring_bytes(1, 1, stages, warps) + stem_stream_tile_bytes(1, warps);
        lower_one(c, &s, t, stages, warps, a, l);
        return;
    }
    l->kernel = stem_arena_printf(a, "stem_experts_up_%s_%s_n%u_s%u_w%u", stem_dtype_name(c->operand[0].dtype),
                                  stem_op_attr(c->def, c->attrs, "act")->text, nt, stages, warps);
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(%u) %s(const %s *x, const int *ids, const %s *w13, %s *h, "
        "int tokens, int k, int experts, int hidden, int inter, int tile)\n{\n"
        "    stem_experts_up<%s, %u, %u, %u, %s>(x, ids, w13, h, tokens, k, experts, hidden, inter, tile);\n}\n",
        32 * warps, l->kernel, type, type, type, type, nt, stages, warps, stem_experts_act(c));
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = s.tile}};
    int64_t groups = s.tile * s.k < s.experts ? s.tile * s.k : s.experts, items = groups * ((s.inter + 7) / 8);
    int64_t resident = 2 * (int64_t)t->n_sms;
    l->grid[0] = (uint32_t)(items < resident ? items : resident);
    l->grid[1] = (uint32_t)s.tiles;
    l->block[0] = 32 * warps;
}

const struct stem_op_def stem_op_experts_up = {
    .name = "experts_up",
    .blurb = "act(gate) * up of each token's experts; part of experts",
    .params = {{"x", STEM_MODE_IN, false, false},
               {"ids", STEM_MODE_IN, false, false},
               {"w13", STEM_MODE_IN, false, false},
               {"s13", STEM_MODE_IN, true, false},
               {"t13", STEM_MODE_IN, true, false},
               {"x_scale", STEM_MODE_IN, true, false}},
    .n_params = 6,
    .attrs = {{"act", STEM_ATTR_TYPE_WORD, false, 0, "silu", stem_experts_acts}},
    .n_attrs = 1,
    .results = {"h"},
    .internal = true,
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_experts_up_reference,
};
