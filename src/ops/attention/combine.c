/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_combine: adds up what attention_part left of each item, in order of blocks, in f32, and divides: y = sum
 * of 2^(m - M) acc / sum of 2^(m - M) l, M the largest m. A token without cached positions gives zeros.
 */
#include "ops/attention/attention.h"
#include "ops/rule.h"

enum { THREADS = 256 };

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

/* Warps for each output: a warp adds up some eight shares at once. */
static uint32_t warps_of(int64_t parts, int64_t items)
{
    int64_t shares = parts / items + 2;
    return shares > 32 ? 8 : shares > 16 ? 4 : shares > 8 ? 2 : 1;
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    const struct stem_tensor *acc = &c->operand[0], *y = &c->operand[3];
    const char *type = stem_c_type(y->dtype);
    long long rows = acc->dim[1], latent = acc->dim[2], groups = int_attr(c->attrs, "groups"),
              unit = int_attr(c->attrs, "unit");
    bool sparse = int_attr(c->attrs, "sparse");
    uint32_t warps = warps_of(int_attr(c->attrs, "parts"), y->dim[0] * groups);
    uint64_t outputs = (uint64_t)(y->dim[0] * y->dim[1]);
    long long slice = latent % 128 ? latent : 128; /* narrower ones were not faster */
    outputs *= (uint64_t)(latent / slice);
    (void)t;
    *l = (struct stem_lowered){.work = STEM_WORK_LAUNCH,
                               .headers = {"common", "attention"},
                               .grid = {(uint32_t)((outputs * warps + 7) / 8), 1, 1},
                               .block = {THREADS, 1, 1},
                               .waits = true,
                               .early = 1u << 2}; /* lens: attention_part has read them, too */
    int64_t scalars[] = {y->dim[0], y->dim[1], int_attr(c->attrs, "most"), int_attr(c->attrs, "parts")};
    for (; l->n_scalars < 4; l->n_scalars++)
        l->scalars[l->n_scalars] = (struct stem_scalar){STEM_SCALAR_I32, {.i = scalars[l->n_scalars]}};
    l->kernel = stem_arena_printf(a, "stem_attention_combine_%s_r%lld_g%lld_d%lld_%lld_u%lld_w%u%s",
                                  stem_dtype_name(y->dtype), rows, groups, latent, slice, unit, warps,
                                  sparse ? "_sparse" : "");
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(%d) %s(const float *acc, const float *ml, const int *lens, "
        "%s *y, int tokens, int heads, int most, int parts)\n{\n"
        "    stem_attention_combine<%s, %lld, %lld, %lld, %lld, %lld, %s, %u>(acc, ml, lens, y, tokens, heads, most, "
        "parts);\n}\n",
        THREADS, l->kernel, type, type, rows, groups, latent, slice, unit, sparse ? "true" : "false", warps);
}

const struct stem_op_def stem_op_attention_combine = {
    .name = "attention_combine",
    .blurb = "adds up the shares of attention_part; part of gqa_attention and mla_attention",
    .params = {{"acc", STEM_MODE_IN, false, false},
               {"ml", STEM_MODE_IN, false, false},
               {"lens", STEM_MODE_IN, false, false}},
    .n_params = 3,
    .attrs = {{"heads", STEM_ATTR_TYPE_INT, false, 1, NULL, NULL},
              {"groups", STEM_ATTR_TYPE_INT, false, 1, NULL, NULL},
              {"parts", STEM_ATTR_TYPE_INT, false, 1, NULL, NULL},
              {"unit", STEM_ATTR_TYPE_INT, false, 64, NULL, NULL},
              {"most", STEM_ATTR_TYPE_INT, false, 1, NULL, NULL},
              {"sparse", STEM_ATTR_TYPE_INT, false, 0, NULL, NULL},
              {"dtype", STEM_ATTR_TYPE_DTYPE, true, 0, NULL, NULL}},
    .n_attrs = 7,
    .results = {"y"},
    .internal = true,
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_attention_combine_reference,
};
