/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_part: for each block's share of each item (attention.h), the sums that softmax needs. With s = scale *
 * log2(e) * q.k in f32, m = the largest s rounded up to an integer, p = 2^(s - m) rounded to the cache's type: acc =
 * sum of p * v, ml = (m, sum of p); zeros for an empty share. m being an integer, sums that were begun with a smaller
 * m are scaled by a power of two, so neither the order nor the number of steps changes how p is rounded.
 */
#include <stdlib.h>

#include "ops/attention/attention.h"
#include "ops/linear/linear.h"
#include "ops/rule.h"

static int64_t int_attr(const struct stem_attr *attrs, const char *name)
{
    return stem_op_attr(&stem_op_attention_part, attrs, name)->i;
}

static bool infer(struct stem_infer *c)
{
    const struct stem_type *q = &c->in[0];
    int64_t heads = 1, rows = int_attr(c->attrs, "rows"), parts = int_attr(c->attrs, "parts");
    if (q->rank != 3 || !stem_dim_value(c->dims, q->dim[1], &heads) || rows < 1 || parts < 1)
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 0, "attention_part: q must be [T, heads, width]");
    struct stem_dim groups = stem_dim_const(c->dims, (heads + rows - 1) / rows);
    struct stem_dim items = stem_dim_op(c->dims, STEM_DIM_MUL, q->dim[0], groups);
    struct stem_dim slots = stem_dim_op(c->dims, STEM_DIM_ADD, items, stem_dim_const(c->dims, parts - 1));
    for (int i = 0; i < 2; i++) {
        c->out[i] = (struct stem_type){.dtype = STEM_F32, .rank = 3};
        c->out[i].dim[0] = slots;
        c->out[i].dim[1] = stem_dim_const(c->dims, rows);
        c->out[i].dim[2] = stem_dim_const(c->dims, i ? 2 : int_attr(c->attrs, "latent"));
    }
    return true;
}

struct stem_attention_sizes stem_attention_sizes_of(const struct stem_concrete *c)
{
    const struct stem_tensor *q = &c->operand[0], *k = &c->operand[1], *table = &c->operand[3];
    int64_t rows = int_attr(c->attrs, "rows");
    bool sparse = c->n_in > 5 && c->operand[5].rank != STEM_NONE;
    struct stem_attention_sizes s = {
        .tokens = q->dim[0],
        .heads = q->dim[1],
        .rows = rows,
        .groups = (q->dim[1] + rows - 1) / rows,
        .kv_heads = k->rank == 4 ? k->dim[2] : 1,
        .width = q->dim[2],
        .latent = int_attr(c->attrs, "latent"),
        .pages = k->dim[0],
        .page = k->dim[1],
        .max_pages = table->dim[1],
        .indices = sparse ? c->operand[5].dim[1] : 0,
        .unit = int_attr(c->attrs, "unit"),
        .parts = int_attr(c->attrs, "parts"),
    };
    s.most = sparse ? s.indices : s.max_pages * s.page;
    return s;
}

int64_t stem_attention_block_units(const struct stem_attention_sizes *s)
{
    int64_t units = s->tokens * s->groups * ((s->most + s->unit - 1) / s->unit);
    return (units + s->parts - 1) / s->parts;
}

/* What is cached is only known on the device: the estimate is for full tables. */
static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    struct stem_attention_sizes s = stem_attention_sizes_of(c);
    uint64_t size = stem_dtype_bits(c->operand[0].dtype) / 8, n = (uint64_t)(s.tokens * s.most);
    uint64_t row = (uint64_t)(s.kv_heads * s.width) * (c->operand[2].rank == STEM_NONE ? 1 : 2);
    *cost = (struct stem_cost){.bytes_read = n * row * size + (uint64_t)(s.tokens * s.heads * s.width) * size +
                                             (uint64_t)(s.tokens * (s.max_pages + 1)) * 4,
                               .bytes_written = (uint64_t)((s.parts + s.tokens * s.groups - 1) * s.rows) *
                                                (uint64_t)(s.latent + 2) * 4,
                               .flops = 2 * n * (uint64_t)(s.heads * (s.width + s.latent)),
                               .blocks = (uint32_t)s.parts};
}

void stem_attention_scalars(const struct stem_attention_sizes *s, double scale, struct stem_lowered *l)
{
    const int64_t v[] = {s->tokens, s->heads, s->pages, s->max_pages, s->indices, s->parts};
    for (l->n_scalars = 0; l->n_scalars < 6; l->n_scalars++)
        l->scalars[l->n_scalars] = (struct stem_scalar){STEM_SCALAR_I32, {.i = v[l->n_scalars]}};
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_F32, {.f = scale * 1.4426950408889634}};
}

static void lower_plain(const struct stem_concrete *c, const struct stem_attention_sizes *s, struct stem_arena *a,
                        struct stem_lowered *l)
{
    const char *type = stem_stream_type(c->operand[0].dtype);
    l->kernel = stem_arena_printf(a, "stem_attention_plain_%s_r%lld_g%lld_h%lld_d%lld_%lld_p%lld_u%lld%s",
                                  stem_dtype_name(c->operand[0].dtype), (long long)s->rows, (long long)s->groups,
                                  (long long)s->kv_heads, (long long)s->width, (long long)s->latent,
                                  (long long)s->page, (long long)s->unit, c->n_in > 5 ? "_s" : "");
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(128) %s(const %s *q, const %s *k, const %s *v, "
        "const int *table, const int *lens, %sfloat *acc, float *ml, int tokens, int heads, int pages, "
        "int max_pages, int indices, int parts, float scale)\n{\n"
        "    stem_attention_plain<%s, %lld, %lld>(q, k, v, table, lens, %s, acc, ml, "
        "stem_attention_call{tokens, heads, %lld, %lld, %lld, pages, %lld, max_pages, indices, %lld, parts, scale}, "
        "%lld, %lld);\n}\n",
        l->kernel, type, type, type, c->n_in > 5 ? "const int *chosen, " : "", type, (long long)s->rows,
        (long long)(s->latent + 31) / 32, c->n_in > 5 ? "chosen" : "nullptr", (long long)s->rows,
        (long long)s->groups, (long long)s->kv_heads, (long long)s->page, (long long)s->unit, (long long)s->width,
        (long long)s->latent);
    l->block[0] = 128;
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    struct stem_attention_sizes s = stem_attention_sizes_of(c);
    *l = (struct stem_lowered){.work = STEM_WORK_LAUNCH,
                               .headers = {"common", "attention"},
                               .grid = {(uint32_t)s.parts, 1, 1},
                               .block = {1, 1, 1},
                               .waits = true,
                               .early = 1u << 3 | 1u << 4}; /* table, lens */
    stem_attention_scalars(&s, stem_op_attr(c->def, c->attrs, "scale")->f, l);
    if (!stem_attention_lower_gqa(c, &s, t, a, l) && !stem_attention_lower_mla_wgmma(c, &s, t, a, l) &&
        !stem_attention_lower_mla(c, &s, t, a, l))
        lower_plain(c, &s, a, l);
}

static bool range(const struct stem_concrete *c, uint32_t i, int64_t *low, int64_t *high)
{
    struct stem_attention_sizes s = stem_attention_sizes_of(c);
    *low = i == 4;
    *high = i == 3 ? s.pages - 1 : s.max_pages * s.page - (i == 5);
    return i >= 3;
}

const struct stem_op_def stem_op_attention_part = {
    .name = "attention_part",
    .blurb = "sums over shares of the cached positions; part of gqa_attention and mla_attention",
    .params = {{"q", STEM_MODE_IN, false, false},
               {"k", STEM_MODE_IN, false, false},
               {"v", STEM_MODE_IN, true, false},
               {"table", STEM_MODE_IN, false, false},
               {"lens", STEM_MODE_IN, false, false},
               {"indices", STEM_MODE_IN, true, false}},
    .n_params = 6,
    .attrs = {STEM_PART_ATTRS},
    .n_attrs = STEM_N_PART_ATTRS,
    .results = {"acc", "ml"},
    .internal = true,
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_attention_part_reference,
    .range = range,
};
