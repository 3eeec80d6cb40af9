/* SPDX-License-Identifier: Apache-2.0
 *
 * experts: the routed experts of a mixture. y[t] = sum over j of scale[t, j] * w2[e] (act(gate) * up), where e is
 * ids[t, j] and gate, up are the halves of w13[e] x[t]. Composite: experts_up makes h[t, j] = act(gate) * up, rounded
 * to x's type; experts_down multiplies by w2 and adds up in f32, rounding once. An id outside of 0..E-1 contributes
 * nothing.
 */
#include "ops/experts/experts.h"

#include "ir/build.h"
#include "ops/linear/format.h"

const char *const stem_experts_acts[] = {"silu", "gelu", "relu", NULL};

static bool wrong_type(struct stem_infer *c, uint32_t i, const char *name, enum stem_dtype need)
{
    if (c->in[i].dtype == need)
        return false;
    stem_error(c->diags, STEM_E_OP_DTYPE, c->operand_span[i], "experts: %s is %s here, not %s", name,
               stem_dtype_name(need), stem_dtype_name(c->in[i].dtype));
    return true;
}

static bool wrong_rank(struct stem_infer *c, uint32_t i, const char *shape, uint32_t need)
{
    if (c->in[i].rank == need)
        return false;
    stem_error(c->diags, STEM_E_OP_RANK, c->operand_span[i], "experts takes %s, of %u dimensions, not %u", shape,
               need, c->in[i].rank);
    return true;
}

static bool differ(struct stem_infer *c, uint32_t i, struct stem_dim a, struct stem_dim b, const char *what)
{
    if (stem_dim_same(a, b))
        return false;
    stem_error(c->diags, STEM_E_OP_SHAPE, c->operand_span[i], "experts: %s", what);
    return true;
}

static const struct stem_format_operands w13_operands = {.op = "experts",
                                                         .what = "w13",
                                                         .scale_name = "s13",
                                                         .tensor_name = "t13",
                                                         .x = 0,
                                                         .weight = 3,
                                                         .scale = 5,
                                                         .tensor = 7,
                                                         .halves = 2,
                                                         .per = 2,
                                                         .x_scale = 9};
static const struct stem_format_operands w2_operands = {.op = "experts",
                                                        .what = "w2",
                                                        .scale_name = "s2",
                                                        .tensor_name = "t2",
                                                        .x = 0,
                                                        .weight = 4,
                                                        .scale = 6,
                                                        .tensor = 8,
                                                        .halves = 1,
                                                        .per = 1,
                                                        .x_scale = 9};

static bool infer(struct stem_infer *c)
{
    const struct stem_type *x = &c->in[0], *ids = &c->in[1], *scale = &c->in[2], *w13 = &c->in[3], *w2 = &c->in[4];
    bool coded = x->dtype == STEM_F8E4M3;
    if (x->dtype != STEM_BF16 && x->dtype != STEM_F16 && x->dtype != STEM_F32 && !coded) {
        stem_error(c->diags, STEM_E_OP_DTYPE, c->operand_span[0], "experts takes bf16, f16, f32 or, with its scales, f8e4m3, not %s",
                   stem_dtype_name(x->dtype));
        return false;
    }
    if (wrong_type(c, 1, "ids", STEM_I32) || wrong_type(c, 2, "scale", STEM_F32))
        return false;
    if (wrong_rank(c, 0, "x[T, H]", 2) || wrong_rank(c, 1, "ids[T, k]", 2) || wrong_rank(c, 2, "scale[T, k]", 2) ||
        wrong_rank(c, 3, "w13[E, 2*I, H]", 3) || wrong_rank(c, 4, "w2[E, H, I]", 3))
        return false;
    struct stem_dim two = stem_dim_const(c->dims, 2), twice = stem_dim_op(c->dims, STEM_DIM_MUL, two, w2->dim[2]);
    if (differ(c, 1, ids->dim[0], x->dim[0], "ids[T, k] and x[T, H] have different T") ||
        differ(c, 2, scale->dim[0], ids->dim[0], "scale and ids have different T") ||
        differ(c, 2, scale->dim[1], ids->dim[1], "scale and ids have different k") ||
        differ(c, 3, w13->dim[2], x->dim[1], "w13[E, 2*I, H] and x[T, H] have different H") ||
        differ(c, 4, w2->dim[0], w13->dim[0], "w2[E, H, I] and w13[E, 2*I, H] have different E") ||
        differ(c, 4, w2->dim[1], x->dim[1], "w2[E, H, I] and x[T, H] have different H") ||
        differ(c, 4, twice, w13->dim[1], "w13[E, 2*I, H] has not twice the I rows that w2[E, H, I] has columns"))
        return false;
    int64_t k;
    if (stem_dim_value(c->dims, ids->dim[1], &k) && k > 32) {
        stem_error(c->diags, STEM_E_OP_SHAPE, c->operand_span[1],
                   "experts: at most 32 experts for each token, not %lld", (long long)k);
        return false;
    }
    if (w13->dtype != w2->dtype) {
        stem_error(c->diags, STEM_E_OP_DTYPE, c->operand_span[4],
                   "experts: w13 and w2 are of one type, not %s and %s", stem_dtype_name(w13->dtype),
                   stem_dtype_name(w2->dtype));
        return false;
    }
    if (!stem_format_check(c, &w13_operands) || !stem_format_check(c, &w2_operands))
        return false;
    c->out[0] = *x;
    c->out[0].dtype = coded ? STEM_BF16 : x->dtype;
    return true;
}

static void expand(struct stem_builder *b, const struct stem_value_id *in, const struct stem_attr *attrs,
                   struct stem_value_id *out)
{
    struct stem_value_id up[] = {in[0], in[1], in[3], in[5], in[7], in[9]};
    uint32_t scales = in[7].n != STEM_NONE ? 2 : in[5].n != STEM_NONE ? 1 : 0; /* w13 and w2 are of one type */
    struct stem_value_id h =
        stem_build_simple(b, "experts_up", up, in[9].n != STEM_NONE ? 6 : 3 + scales, stem_op_attr(&stem_op_experts, attrs, "act"), 1);
    struct stem_value_id down[] = {h, in[1], in[2], in[4], in[6], in[8]};
    out[0] = stem_build_simple(b, "experts_down", down, 4 + scales, NULL, 0);
}

const struct stem_op_def stem_op_experts = {
    .name = "experts",
    .blurb = "routed experts: gate and up, activation, down, weighted sum for each token",
    .params = {{"x", STEM_MODE_IN, false, false},
               {"ids", STEM_MODE_IN, false, false},
               {"scale", STEM_MODE_IN, false, false},
               {"w13", STEM_MODE_IN, false, false},
               {"w2", STEM_MODE_IN, false, false},
               {"s13", STEM_MODE_IN, true, false},
               {"s2", STEM_MODE_IN, true, false},
               {"t13", STEM_MODE_IN, true, false},
               {"t2", STEM_MODE_IN, true, false},
               {"x_scale", STEM_MODE_IN, true, false}},
    .n_params = 10,
    .attrs = {{"act", STEM_ATTR_TYPE_WORD, false, 0, "silu", stem_experts_acts}},
    .n_attrs = 1,
    .results = {"y"},
    .infer = infer,
    .expand = expand,
};

/* ---- shared by the two parts ---- */

static struct stem_experts_sizes with_tiles(struct stem_experts_sizes s)
{
    int64_t most = 512 / s.k < 64 ? 512 / s.k : 64;
    s.tile = s.tokens < most ? s.tokens : most;
    s.tiles = (s.tokens + s.tile - 1) / s.tile;
    return s;
}

struct stem_experts_sizes stem_experts_up_sizes(const struct stem_concrete *c)
{
    const struct stem_tensor *x = &c->operand[0], *ids = &c->operand[1], *w13 = &c->operand[2];
    return with_tiles((struct stem_experts_sizes){.tokens = ids->dim[0],
                                                  .k = ids->dim[1],
                                                  .experts = w13->dim[0],
                                                  .hidden = x->dim[1],
                                                  .inter = w13->dim[1] / 2});
}

struct stem_experts_sizes stem_experts_down_sizes(const struct stem_concrete *c)
{
    const struct stem_tensor *ids = &c->operand[1], *w2 = &c->operand[3];
    return with_tiles((struct stem_experts_sizes){
        .tokens = ids->dim[0], .k = ids->dim[1], .experts = w2->dim[0], .hidden = w2->dim[1], .inter = w2->dim[2]});
}

uint64_t stem_experts_distinct(const struct stem_experts_sizes *s)
{
    double missed = 1;
    for (int64_t t = 0; t < s->tokens && missed > 1e-4; t++)
        missed *= 1 - (double)(s->k < s->experts ? s->k : s->experts) / (double)s->experts;
    return (uint64_t)((double)s->experts * (1 - missed) + 0.5);
}

uint32_t stem_experts_nt(const struct stem_experts_sizes *s)
{
    return s->tile * s->k > 4 * s->experts ? 2 : 1;
}

bool stem_experts_can_group(const struct stem_experts_sizes *s, uint32_t ring)
{
    return s->experts < 32768 && s->experts * 4 + 512 * 8 + 4 <= ring;
}

void stem_experts_scalars(const struct stem_experts_sizes *s, struct stem_lowered *l)
{
    const int64_t v[] = {s->tokens, s->k, s->experts, s->hidden, s->inter};
    for (l->n_scalars = 0; l->n_scalars < 5; l->n_scalars++)
        l->scalars[l->n_scalars] = (struct stem_scalar){STEM_SCALAR_I32, {.i = v[l->n_scalars]}};
}
