/* SPDX-License-Identifier: Apache-2.0
 *
 * gqa_store: all between a merged projection x[T, H + 2G, D] and grouped-query attention, in one launch. Of each
 * token the first H heads are queries, then G keys and G values. Queries and keys are normalised (rmsnorm over the
 * head, with q_norm and k_norm, if they are given) and rounded, then turned to position pos[t] (rope); queries are
 * the result, keys and values are written to slot[t] = page * PAGE + place of the caches k and v[pages, page, G, D].
 * A slot outside of the cache is skipped.
 */
#include "ops/gqa_store/gqa_store.h"

#include <string.h>

#include "ops/rope/rope.h"
#include "ops/rule.h"

enum { WARPS = 4, K_CACHE = 0, V_CACHE, X, Q_NORM, K_NORM, POS, SLOT, Y };

static bool has(const struct stem_infer *c, uint32_t i)
{
    return c->in[i].dtype != STEM_N_DTYPES;
}

static bool types_fine(struct stem_infer *c)
{
    static const char *const names[] = {"k", "v", "x", "q_norm", "k_norm"};
    if (!stem_rule_float(c, X, "gqa_store: x"))
        return false;
    for (uint32_t i = 0; i <= K_NORM; i++)
        if (has(c, i) && c->in[i].dtype != c->in[X].dtype)
            return stem_rule_fail(c, STEM_E_OP_DTYPE, i, "gqa_store: %s must be %s, as x is", names[i],
                                  stem_dtype_name(c->in[X].dtype));
    if (c->in[POS].dtype != STEM_I32 && c->in[POS].dtype != STEM_I64)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, POS, "gqa_store: the positions must be i32 or i64");
    if (c->in[SLOT].dtype != STEM_I32)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, SLOT, "gqa_store: slot must be i32");
    static const uint32_t ranks[] = {4, 4, 3, 1, 1, 1, 1};
    for (uint32_t i = 0; i < Y; i++)
        if (has(c, i) && c->in[i].rank != ranks[i])
            return stem_rule_fail(
                c, STEM_E_OP_RANK, i,
                "gqa_store takes k and v[pages, page, G, D], x[T, H + 2G, D], q_norm[D], k_norm[D], pos[T], slot[T]");
    return true;
}

static bool infer(struct stem_infer *c)
{
    const struct stem_type *k = &c->in[K_CACHE], *x = &c->in[X];
    int64_t heads, groups, width;
    if (!types_fine(c))
        return false;
    for (int i = 0; i < 4; i++)
        if (!stem_dim_same(k->dim[i], c->in[V_CACHE].dim[i]))
            return stem_rule_fail(c, STEM_E_OP_SHAPE, V_CACHE, "gqa_store: both caches must have the same sizes");
    if (!stem_dim_same(k->dim[3], x->dim[2]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, X, "gqa_store: heads must be as wide as the cache's, %s",
                              stem_rule_dim(c, k->dim[3]).s);
    for (uint32_t i = Q_NORM; i <= K_NORM; i++)
        if (has(c, i) && !stem_dim_same(c->in[i].dim[0], x->dim[2]))
            return stem_rule_fail(c, STEM_E_OP_SHAPE, i, "gqa_store: a norm must be as wide as a head, %s",
                                  stem_rule_dim(c, x->dim[2]).s);
    for (uint32_t i = POS; i <= SLOT; i++)
        if (!stem_dim_same(c->in[i].dim[0], x->dim[0]))
            return stem_rule_fail(c, STEM_E_OP_SHAPE, i,
                                  "gqa_store: there must be a position and a slot for each of the %s tokens",
                                  stem_rule_dim(c, x->dim[0]).s);
    if (!stem_dim_value(c->dims, x->dim[1], &heads) || !stem_dim_value(c->dims, k->dim[2], &groups) ||
        !stem_dim_value(c->dims, x->dim[2], &width) || heads <= 2 * groups || width % 2 || width > STEM_ROPE_MAX)
        return stem_rule_fail(
            c, STEM_E_OP_SHAPE, X,
            "gqa_store: x must have more than twice the cache's heads, of an even width of at most %d, all constants",
            STEM_ROPE_MAX);
    if (!stem_rule_eps(c, &stem_op_gqa_store) || !stem_rope_attrs_fine(c, &stem_op_gqa_store))
        return false;
    c->out[0] = *x;
    c->out[0].dim[1] = stem_dim_const(c->dims, heads - 2 * groups);
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    uint64_t n = stem_tensor_elements(&c->operand[X]), bytes = n * stem_dtype_bits(c->operand[X].dtype) / 8;
    *cost =
        (struct stem_cost){.bytes_read = bytes,
                           .bytes_written = bytes,
                           .flops = 8 * n,
                           .blocks = (uint32_t)((c->operand[X].dim[0] * c->operand[X].dim[1] + WARPS - 1) / WARPS)};
}

/* Pairs that a lane loads at once. */
static uint32_t width_of(const struct stem_concrete *c, bool interleaved)
{
    const struct stem_tensor *x = &c->operand[X];
    uint32_t bytes = stem_dtype_bits(x->dtype) / 8;
    uint64_t half = (uint64_t)x->dim[2] / 2, all = half;
    if (interleaved || x->stride[2] != 1)
        return 1;
    for (uint32_t i = 0; i <= Y; i++)
        if (c->operand[i].rank != STEM_NONE && i != POS && i != SLOT)
            all |= c->operand[i].offset / bytes;
    for (uint32_t i = 0; i < 2; i++)
        all |= x->dim[i] > 1 ? (uint64_t)x->stride[i] : 0;
    uint32_t width = stem_vector_width(all, 16 / bytes);
    while (width > 1 && half / width < 32)
        width /= 2;
    return width;
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    const struct stem_tensor *cache = &c->operand[K_CACHE], *x = &c->operand[X];
    bool interleaved = stem_op_attr(c->def, c->attrs, "interleaved")->i;
    bool q_norm = c->operand[Q_NORM].rank != STEM_NONE, k_norm = c->operand[K_NORM].rank != STEM_NONE;
    double turns[STEM_ROPE_MAX / 2], amplitude = stem_rope_turns(c->def, c->attrs, (uint32_t)x->dim[2], turns);
    const char *type = stem_c_type(x->dtype), *index = stem_c_type(c->operand[POS].dtype);
    uint32_t norms = (q_norm ? 1u << Q_NORM : 0) | (k_norm ? 1u << K_NORM : 0);
    bool early = (c->constant & norms) == norms;
    (void)t;
    const char *body = stem_arena_printf(
        a,
        "(%s *k, %s *v, const %s *x, const %s *q_norm, const %s *k_norm, const %s *pos, const int *slot, %s *y, int "
        "tokens, "
        "int heads, int groups, long long slots, long long token_stride, long long head_stride, long long stride, "
        "float eps)\n{\n    %s"
        "    stem_gqa_store<%s, %s, %u, %u, %s, %s, %s, %s>(k, v, x, q_norm, k_norm, pos, slot, y, turns, (float)%.17g, "
        "tokens, heads, "
        "groups, slots, token_stride, head_stride, stride, eps);\n}\n",
        type, type, type, type, type, index, type, stem_rope_table(a, "turns", turns, (uint32_t)x->dim[2]), type,
        index, (uint32_t)x->dim[2], width_of(c, interleaved), interleaved ? "true" : "false",
        q_norm ? "true" : "false", k_norm ? "true" : "false", early ? "true" : "false", amplitude);
    *l = (struct stem_lowered){
        .work = STEM_WORK_LAUNCH,
        .kernel = stem_kernel_name(a, "stem_gqa_store_", body, strlen(body)),
        .headers = {"common", "rope", "gqa_store"},
        .grid = {(uint32_t)((x->dim[0] * x->dim[1] + WARPS - 1) / WARPS), 1, 1},
        .block = {32 * WARPS, 1, 1},
        .scalars = {{.kind = STEM_SCALAR_I32, .i = x->dim[0]},
                    {.kind = STEM_SCALAR_I32, .i = x->dim[1]},
                    {.kind = STEM_SCALAR_I32, .i = cache->dim[2]},
                    {.kind = STEM_SCALAR_I64, .i = cache->dim[0] * cache->dim[1]},
                    {.kind = STEM_SCALAR_I64, .i = x->stride[0]},
                    {.kind = STEM_SCALAR_I64, .i = x->stride[1]},
                    {.kind = STEM_SCALAR_I64, .i = x->stride[2]},
                    {.kind = STEM_SCALAR_F32, .f = stem_op_attr(c->def, c->attrs, "eps")->f}},
        .n_scalars = 8,
        .waits = true,
        .early = 1u << POS | 1u << SLOT | (early ? norms : 0),
        .ahead = true,
    };
    l->code =
        stem_arena_printf(a, "extern \"C\" __global__ void __launch_bounds__(%d) %s%s", 32 * WARPS, l->kernel, body);
}

const struct stem_op_def stem_op_gqa_store = {
    .name = "gqa_store",
    .blurb = "queries, keys and values of a merged projection: normalised, rotated, stored in paged caches",
    .params = {{"k", STEM_MODE_INOUT, false, false},
               {"v", STEM_MODE_INOUT, false, false},
               {"x", STEM_MODE_IN, false, true},
               {"q_norm", STEM_MODE_IN, true, false},
               {"k_norm", STEM_MODE_IN, true, false},
               {"pos", STEM_MODE_IN, false, false},
               {"slot", STEM_MODE_IN, false, false}},
    .n_params = 7,
    .attrs = {STEM_ROPE_ATTRS, {"eps", STEM_ATTR_TYPE_FLOAT, false, 1e-6, NULL, NULL}},
    .n_attrs = STEM_ROPE_N_ATTRS + 1,
    .results = {"q"},
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_gqa_store_reference,
};
