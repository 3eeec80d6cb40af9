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
                                        "experts", "formats",   "experts_packed"};
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

void stem_experts_lower_up_packed(const struct stem_concrete *c, const struct stem_experts_sizes *s,
                                  const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l)
{
    (void)t;
    set_headers(l);
    up_plain(c, s, a, l);
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
    (void)t;
    set_headers(l);
    down_plain(c, s, a, l);
}
