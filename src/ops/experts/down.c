/* SPDX-License-Identifier: Apache-2.0
 *
 * experts_down: y[t] = sum over j of scale[t, j] * w2[ids[t, j]] h[t, j], in f32, rounded once. A block owns 32 rows
 * of hidden for every token, so the sum over experts needs no other block: no atomics, and the same bits every time.
 */
#include "ops/experts/experts.h"

#include "ops/epilogue.h"
#include "ops/rule.h"
#include "ops/linear/format.h"
#include "ops/linear/linear.h"

static bool infer(struct stem_infer *c)
{
    const struct stem_type *h = &c->in[0], *ids = &c->in[1], *w2 = &c->in[3];
    c->out[0] = (struct stem_type){.dtype = h->dtype, .rank = 2};
    c->out[0].dim[0] = ids->dim[0];
    c->out[0].dim[1] = w2->dim[1];
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    struct stem_experts_sizes s = stem_experts_down_sizes(c);
    uint64_t size = stem_dtype_bits(c->operand[0].dtype) / 8;
    uint64_t weights = stem_experts_distinct(&s) * stem_format_bytes(c->operand[3].dtype, s.hidden, s.inter);
    *cost = (struct stem_cost){.bytes_read = weights + (uint64_t)(s.tokens * s.k) * ((uint64_t)s.inter * size + 8),
                               .bytes_written = (uint64_t)(s.tokens * s.hidden) * size,
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
    const uint32_t mt = s.tokens == 1 ? 1 : 2, warps = 4, groups = 8 << 10; /* stem_groups and what the system takes */
    uint32_t nt = stem_experts_nt(&s), stages = 4, ring = stem_stream_ring_bytes(mt, nt, stages, warps);
    uint32_t sums = (uint32_t)(s.tile * (warps * (16 * mt + 4) + s.k) * 4);
    while (stages > 2 && ring + sums + groups > stem_stream_sm_smem(t) / 2)
        ring = stem_stream_ring_bytes(mt, nt, --stages, warps);
    if (!stem_stream_fits(&c->operand[0], &c->operand[3], s.inter) || !stem_experts_can_group(&s, ring) ||
        ring + sums + groups > stem_stream_block_smem(t)) {
        lower_plain(c, &s, a, l);
        return;
    }
    const char *type = stem_stream_type(c->operand[0].dtype), *y = stem_c_type(c->operand[c->n_in].dtype), *define;
    bool early = c->constant >> 3 & 1;
    struct stem_store store;
    bool one = s.tokens == 1;
    const char *kernel =
        stem_arena_printf(a, "stem_experts_down_%s%s_m%u_n%u_s%u_w%u%s", one ? "one_" : "",
                          stem_dtype_name(c->operand[0].dtype), mt, nt, stages, warps, early ? "_w" : "");
    stem_epilogue_store(c, kernel, "hidden", a, &store, &define);
    l->kernel = stem_arena_printf(a, "%s%s", kernel, store.name);
    const char *call =
        one ? stem_arena_printf(a, "(void)tokens;\n    (void)tile;\n    stem_experts_down_one<%s, %u, %u, %u, %s>("
                                   "h, ids, scale, w2, %s, k, experts, hidden, inter);",
                                type, mt, stages, warps, early ? "true" : "false", store.make)
            : stem_arena_printf(a, "stem_experts_down_to<%s, %u, %u, %u, %u, %s>(h, ids, scale, w2, %s, tokens, k, "
                                   "experts, hidden, inter, tile);",
                                type, mt, nt, stages, warps, early ? "true" : "false", store.make);
    if (one)
        l->headers[5] = "one";
    l->code = stem_arena_printf(
        a,
        "%sextern \"C\" __global__ void __launch_bounds__(%u) %s(const %s *h, const int *ids, const float *scale, "
        "const %s *w2, %s%s%s *y, int tokens, int k, int experts, int hidden, int inter, int tile)\n{\n    %s\n}\n",
        define, 32 * warps, l->kernel, type, type, stem_format_rest(c, 4, a), store.params, y, call);
    l->early = early ? 1u << 1 | 1u << 2 | 1u << 3 : 0;
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = s.tile}};
    l->grid[0] = (uint32_t)((s.hidden + 16 * mt - 1) / (16 * mt));
    l->grid[1] = (uint32_t)s.tiles;
    l->block[0] = 32 * warps;
    l->smem = ring + sums;
}

const struct stem_op_def stem_op_experts_down = {
    .name = "experts_down",
    .blurb = "down projection of each token's experts and their weighted sum; part of experts",
    .params = {{"h", STEM_MODE_IN, false, false},
               {"ids", STEM_MODE_IN, false, false},
               {"scale", STEM_MODE_IN, false, false},
               {"w2", STEM_MODE_IN, false, false},
               {"s2", STEM_MODE_IN, true, false},
               {"t2", STEM_MODE_IN, true, false}},
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
