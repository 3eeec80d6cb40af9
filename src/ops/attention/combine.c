/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_combine: adds up what attention_part left of each item, in order of blocks, in f32, and divides: y = sum
 * of 2^(m - M) acc / sum of 2^(m - M) l, M the largest m. A token without cached positions gives zeros.
 */
#include "ops/attention/attention.h"
#include "ops/rule.h"

enum { THREADS = 256, PER_SM = 4 };

static int64_t int_attr(const struct stem_attr *attrs, const char *name)
{
    return stem_op_attr(&stem_op_attention_combine, attrs, name)->i;
}

static bool infer(struct stem_infer *c)
{
    const char *dtype = stem_op_attr(&stem_op_attention_combine, c->attrs, "dtype")->text;
    if (c->in[0].rank != 3 || c->in[2].rank != 1)
        return stem_rule_fail(c, STEM_E_OP_RANK, 0, "attention_combine: acc must be [slots, rows, width]");
    c->out[0] = (struct stem_type){.dtype = stem_dtype_from_name(dtype), .rank = 3};
    c->out[0].dim[0] = c->in[2].dim[0];
    c->out[0].dim[1] = stem_dim_const(c->dims, int_attr(c->attrs, "heads"));
    c->out[0].dim[2] = c->in[0].dim[2];
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    *cost = (struct stem_cost){.bytes_read = stem_tensor_extent(&c->operand[0]) + stem_tensor_extent(&c->operand[1]),
                               .bytes_written = stem_tensor_extent(&c->operand[3]),
                               .flops = 2 * stem_tensor_elements(&c->operand[0]),
                               .blocks = (uint32_t)(c->operand[3].dim[0] * c->operand[3].dim[1])};
}

/* Few tokens are spread over warps, and narrow slices over multiprocessors; a warp then loads all of its shares at
 * once, in registers that leave room for the blocks of attention_part. */
struct stem_attention_cut stem_attention_cut_of(int64_t tokens, int64_t groups, int64_t parts, int64_t latent)
{
    struct stem_attention_cut c = {.warps = tokens == 1 ? 8 : tokens == 2 ? 4 : tokens <= 4 ? 2 : 1};
    c.slice = (uint32_t)(tokens <= 8 && latent % 64 == 0 ? 64 : latent % 128 ? latent : 128);
    uint32_t each = (c.slice + 31) / 32, most = each == 1 ? 32 : 36 / each / 2 * 2;
    int64_t shares = (parts / (tokens * groups) + 2 + c.warps - 1) / c.warps, even = (shares + 1) / 2 * 2;
    c.batch = even < most ? (uint32_t)even : most;
    return c;
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    const struct stem_tensor *acc = &c->operand[0], *y = &c->operand[3];
    const char *type = stem_c_type(y->dtype);
    long long rows = acc->dim[1], latent = acc->dim[2], groups = int_attr(c->attrs, "groups"),
              unit = int_attr(c->attrs, "unit");
    bool sparse = int_attr(c->attrs, "sparse");
    struct stem_attention_cut cut = stem_attention_cut_of(y->dim[0], groups, int_attr(c->attrs, "parts"), latent);
    uint64_t outputs = (uint64_t)(y->dim[0] * y->dim[1] * (latent / cut.slice));
    (void)t;
    *l = (struct stem_lowered){.work = STEM_WORK_LAUNCH,
                               .headers = {"common", "attention"},
                               .grid = {(uint32_t)((outputs * cut.warps + 7) / 8), 1, 1},
                               .block = {THREADS, 1, 1},
                               .waits = true,
                               .ahead = true,
                               .early = 1u << 2}; /* lens: attention_part has read them, too */
    int64_t scalars[] = {y->dim[0], y->dim[1], int_attr(c->attrs, "most"), int_attr(c->attrs, "parts")};
    for (; l->n_scalars < 4; l->n_scalars++)
        l->scalars[l->n_scalars] = (struct stem_scalar){STEM_SCALAR_I32, {.i = scalars[l->n_scalars]}};
    l->kernel = stem_arena_printf(a, "stem_attention_combine_%s_r%lld_g%lld_d%lld_%u_u%lld_w%u_b%u%s",
                                  stem_dtype_name(y->dtype), rows, groups, latent, cut.slice, unit, cut.warps, cut.batch,
                                  sparse ? "_sparse" : "");
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(%d, %d) %s(const float *acc, const float *ml, const int *lens, "
        "%s *y, int tokens, int heads, int most, int parts)\n{\n"
        "    stem_attention_combine<%s, %lld, %lld, %lld, %u, %lld, %s, %u, %u>(acc, ml, lens, y, tokens, heads, most, "
        "parts);\n}\n",
        THREADS, PER_SM, l->kernel, type, type, rows, groups, latent, cut.slice, unit, sparse ? "true" : "false", cut.warps,
        cut.batch);
}

const struct stem_op_def stem_op_attention_combine = {
    .name = "attention_combine",
    .blurb = "adds up the shares of attention_part; part of gqa_attention and mla_attention",
    .params = {STEM_COMBINE_PARAMS},
    .n_params = STEM_N_COMBINE_PARAMS,
    .attrs = {STEM_COMBINE_ATTRS},
    .n_attrs = STEM_N_COMBINE_ATTRS,
    .results = {"y"},
    .internal = true,
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_attention_combine_reference,
};
