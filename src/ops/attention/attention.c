/* SPDX-License-Identifier: Apache-2.0
 *
 * gqa_attention and mla_attention: softmax(scale * q k^T) v of each token's queries over the positions of its
 * sequence that are in the cache (Ainslie et al., 2023; DeepSeek-V2, 2024, in its absorbed form, where a cache row is
 * the key and its first `latent` elements the value). Two launches: attention_part and attention_combine.
 */
#include "ops/attention/attention.h"

#include <math.h>

#include "ir/build.h"
#include "ops/rule.h"

static bool is_index(struct stem_infer *c, uint32_t i, uint32_t rank, const char *what, const char *form)
{
    if (c->in[i].dtype != STEM_I32)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, i, "%s: %s must be i32", what, form);
    if (c->in[i].rank != rank)
        return stem_rule_fail(c, STEM_E_OP_RANK, i, "%s: %s must have %u dimension%s", what, form, rank,
                              rank == 1 ? "" : "s");
    if (!stem_dim_same(c->in[i].dim[0], c->in[0].dim[0]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, i, "%s: %s must have a row for each of the %s tokens", what, form,
                              stem_rule_dim(c, c->in[0].dim[0]).s);
    return true;
}

bool stem_attention_check_paged(struct stem_infer *c, uint32_t cache, uint32_t rank, uint32_t table, uint32_t lens,
                                const char *what)
{
    int64_t page, pages;
    if (c->in[cache].dtype != c->in[0].dtype)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, cache, "%s: the cache must be %s, as q is", what,
                              stem_dtype_name(c->in[0].dtype));
    if (c->in[cache].rank != rank)
        return stem_rule_fail(c, STEM_E_OP_RANK, cache, "%s: the cache must be [pages, page, %swidth]", what,
                              rank == 4 ? "heads, " : "");
    if (!stem_dim_value(c->dims, c->in[cache].dim[1], &page))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, cache, "%s: the size of a page must be a constant", what);
    if (!is_index(c, table, 2, what, "table[T, pages]") || !is_index(c, lens, 1, what, "lens[T]"))
        return false;
    if (!stem_dim_value(c->dims, c->in[table].dim[1], &pages) || pages > INT32_MAX / page)
        return stem_rule_fail(c, STEM_E_OP_SHAPE, table,
                              "%s: the pages of a sequence must be a constant, and their positions fit i32", what);
    return true;
}

static bool check_scale(struct stem_infer *c, const struct stem_op_def *def)
{
    double scale = stem_op_attr(def, c->attrs, "scale")->f;
    if (isnan(scale)) /* not given */
        return true;
    return (scale > 0 && scale < 1e30) || stem_rule_attr(c, "%s: scale = %g must be positive", def->name, scale);
}

static bool infer_gqa(struct stem_infer *c)
{
    const struct stem_type *q = &c->in[0], *k = &c->in[1], *v = &c->in[2];
    int64_t heads, groups, width;
    if (!stem_rule_float(c, 0, "gqa_attention: q"))
        return false;
    if (q->rank != 3)
        return stem_rule_fail(c, STEM_E_OP_RANK, 0, "gqa_attention: q must be [tokens, heads, width]");
    if (!stem_attention_check_paged(c, 1, 4, 3, 4, "gqa_attention"))
        return false;
    if (v->dtype != k->dtype)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 2, "gqa_attention: both caches must have one element type");
    if (v->rank != 4)
        return stem_rule_fail(c, STEM_E_OP_RANK, 2, "gqa_attention: the cache must be [pages, page, heads, width]");
    for (int i = 0; i < 4; i++)
        if (!stem_dim_same(k->dim[i], v->dim[i]))
            return stem_rule_fail(c, STEM_E_OP_SHAPE, 2, "gqa_attention: both caches must have the same sizes");
    if (!stem_dim_same(q->dim[2], k->dim[3]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "gqa_attention: keys must have the width of q, %s",
                              stem_rule_dim(c, q->dim[2]).s);
    if (!stem_dim_value(c->dims, q->dim[1], &heads) || !stem_dim_value(c->dims, k->dim[2], &groups) ||
        !stem_dim_value(c->dims, q->dim[2], &width))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "gqa_attention: heads and width must be constants");
    if (heads % groups || heads / groups > 16)
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1,
                              "gqa_attention: the heads of q, %lld, must be a multiple of the cache's %lld, at most 16 "
                              "times as many",
                              (long long)heads, (long long)groups);
    if (width > 256)
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "gqa_attention: heads are at most 256 wide");
    if (!check_scale(c, &stem_op_gqa_attention))
        return false;
    c->out[0] = *q;
    return true;
}

static bool infer_mla(struct stem_infer *c)
{
    const struct stem_type *q = &c->in[0], *cache = &c->in[1];
    int64_t heads, width, latent = stem_op_attr(&stem_op_mla_attention, c->attrs, "latent")->i;
    if (!stem_rule_float(c, 0, "mla_attention: q"))
        return false;
    if (q->rank != 3)
        return stem_rule_fail(c, STEM_E_OP_RANK, 0, "mla_attention: q must be [tokens, heads, width]");
    if (!stem_attention_check_paged(c, 1, 3, 2, 3, "mla_attention"))
        return false;
    if (!stem_dim_same(q->dim[2], cache->dim[2]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "mla_attention: cache rows must have the width of q, %s",
                              stem_rule_dim(c, q->dim[2]).s);
    if (!stem_dim_value(c->dims, q->dim[1], &heads) || !stem_dim_value(c->dims, q->dim[2], &width))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 0, "mla_attention: heads and width must be constants");
    if (heads > 1024 || width > 1024)
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 0, "mla_attention: at most 1024 heads and a width of 1024");
    if (latent < 1 || latent > width || latent > 512)
        return stem_rule_attr(c, "mla_attention: latent = %lld must be at least 1, and at most 512 and the width of a cache row, %lld",
                              (long long)latent, (long long)width);
    if (c->n_in > 4 && c->in[4].dtype != STEM_N_DTYPES) {
        int64_t k;
        if (!is_index(c, 4, 2, "mla_attention", "indices[T, K]"))
            return false;
        if (!stem_dim_value(c->dims, c->in[4].dim[1], &k))
            return stem_rule_fail(c, STEM_E_OP_SHAPE, 4, "mla_attention: the number of indices must be a constant");
    }
    if (!check_scale(c, &stem_op_mla_attention))
        return false;
    c->out[0] = *q;
    c->out[0].dim[2] = stem_dim_const(c->dims, latent);
    return true;
}

/* ---- parts ---- */

static struct stem_attr int_attr(const char *name, int64_t i)
{
    return (struct stem_attr){.name = name, .kind = STEM_ATTR_INT, .i = i};
}

struct call {
    int64_t rows, groups, unit, blocks, latent;
    double scale;
};

/* in: q, k, v or NO_VALUE, table, lens, indices or NO_VALUE. */
static struct stem_value_id build(struct stem_builder *b, const struct stem_value_id in[6], const struct call *call)
{
    const struct stem_tensor *q = &stem_value_at(b->program, in[0])->tensor;
    int64_t tokens = q->dim[0], heads = q->dim[1], page = stem_value_at(b->program, in[1])->tensor.dim[1];
    bool sparse = in[5].n != STEM_NONE;
    int64_t most = sparse ? stem_value_at(b->program, in[5])->tensor.dim[1]
                          : stem_value_at(b->program, in[3])->tensor.dim[1] * page;
    enum stem_dtype type = q->dtype;
    int64_t units = tokens * call->groups * ((most + call->unit - 1) / call->unit);
    int64_t parts = units < call->blocks ? units : call->blocks;
    struct stem_attr scale = {.name = "scale", .kind = STEM_ATTR_FLOAT, .f = call->scale};
    struct stem_attr attrs[] = {int_attr("rows", call->rows), int_attr("parts", parts), int_attr("unit", call->unit),
                                int_attr("latent", call->latent), scale};
    struct stem_value_id part = stem_build_simple(b, "attention_part", in, sparse ? 6 : 5, attrs, 5);
    const struct stem_op *op = &b->program->ops.at[b->program->ops.len - 1];
    struct stem_value_id two[] = {part, op->operands[op->n_in + 1].value, in[4]};
    struct stem_attr dtype = {.name = "dtype", .kind = STEM_ATTR_TEXT, .text = stem_dtype_name(type)};
    struct stem_attr rest[] = {int_attr("heads", heads),
                               int_attr("groups", call->groups),
                               int_attr("parts", parts),
                               int_attr("unit", call->unit),
                               int_attr("most", most),
                               int_attr("sparse", sparse),
                               dtype};
    return stem_build_simple(b, "attention_combine", two, 3, rest, 7);
}

/* Blocks that share out the positions. If all of them are more than half a unit for each and no more than one, blocks get two:
 * that is half as many shares to add up, and an item's are all alike. */
static int64_t blocks_of(int64_t items, int64_t most, int64_t unit, int64_t blocks)
{
    int64_t units = (most + unit - 1) / unit, all = items * units;
    return all > blocks / 2 && all <= blocks ? items * ((units + 1) / 2) : blocks;
}

static void expand_gqa(struct stem_builder *b, const struct stem_value_id *in, const struct stem_attr *attrs,
                       struct stem_value_id *out)
{
    const struct stem_tensor *q = &stem_value_at(b->program, in[0])->tensor;
    int64_t groups = stem_value_at(b->program, in[1])->tensor.dim[2];
    int64_t most = stem_value_at(b->program, in[3])->tensor.dim[1] * stem_value_at(b->program, in[1])->tensor.dim[1];
    double scale = stem_op_attr(&stem_op_gqa_attention, attrs, "scale")->f;
    struct call call = {.rows = q->dim[1] / groups,
                        .groups = groups,
                        .unit = STEM_GQA_UNIT,
                        .blocks = blocks_of(q->dim[0] * groups, most, STEM_GQA_UNIT, STEM_GQA_PARTS),
                        .latent = q->dim[2],
                        .scale = isnan(scale) ? 1 / sqrt((double)q->dim[2]) : scale};
    struct stem_value_id operands[6] = {in[0], in[1], in[2], in[3], in[4], STEM_NO_VALUE};
    out[0] = build(b, operands, &call);
}

static void expand_mla(struct stem_builder *b, const struct stem_value_id *in, const struct stem_attr *attrs,
                       struct stem_value_id *out)
{
    const struct stem_tensor *q = &stem_value_at(b->program, in[0])->tensor;
    int64_t heads = q->dim[1], groups = (heads + STEM_MLA_ROWS - 1) / STEM_MLA_ROWS, rows = (heads + groups - 1) / groups;
    int64_t most = in[4].n != STEM_NONE ? stem_value_at(b->program, in[4])->tensor.dim[1]
                                        : stem_value_at(b->program, in[2])->tensor.dim[1] *
                                              stem_value_at(b->program, in[1])->tensor.dim[1];
    /* many heads are bound by the tensor cores of all multiprocessors */
    int64_t blocks = heads > 16 ? STEM_MLA_PARTS / stem_mla_split_of(rows).halves
                                : blocks_of(q->dim[0], most, STEM_MLA_UNIT, STEM_MLA_PARTS);
    struct call call = {.rows = rows,
                        .groups = groups,
                        .unit = STEM_MLA_UNIT,
                        .blocks = blocks,
                        .latent = stem_op_attr(&stem_op_mla_attention, attrs, "latent")->i,
                        .scale = stem_op_attr(&stem_op_mla_attention, attrs, "scale")->f};
    struct stem_value_id operands[6] = {in[0], in[1], STEM_NO_VALUE, in[2], in[3], in[4]};
    out[0] = build(b, operands, &call);
}

const struct stem_op_def stem_op_gqa_attention = {
    .name = "gqa_attention",
    .blurb = "decode attention over a paged cache; query heads share key heads",
    .params = {{"q", STEM_MODE_IN, false, false},
               {"k_cache", STEM_MODE_IN, false, false},
               {"v_cache", STEM_MODE_IN, false, false},
               {"table", STEM_MODE_IN, false, false},
               {"lens", STEM_MODE_IN, false, false}},
    .n_params = 5,
    .attrs = {{"scale", STEM_ATTR_TYPE_FLOAT, false, NAN, "1/sqrt(D)", NULL}},
    .n_attrs = 1,
    .results = {"y"},
    .infer = infer_gqa,
    .expand = expand_gqa,
};

const struct stem_op_def stem_op_mla_attention = {
    .name = "mla_attention",
    .blurb = "decode attention over a paged cache of latents (absorbed MLA), of all or of chosen positions",
    .params = {{"q", STEM_MODE_IN, false, false},
               {"cache", STEM_MODE_IN, false, false},
               {"table", STEM_MODE_IN, false, false},
               {"lens", STEM_MODE_IN, false, false},
               {"indices", STEM_MODE_IN, true, false}},
    .n_params = 5,
    .attrs = {{"scale", STEM_ATTR_TYPE_FLOAT, true, 1, NULL, NULL},
              {"latent", STEM_ATTR_TYPE_INT, false, 512, NULL, NULL}},
    .n_attrs = 2,
    .results = {"y"},
    .infer = infer_mla,
    .expand = expand_mla,
};
