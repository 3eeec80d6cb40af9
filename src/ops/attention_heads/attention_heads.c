/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_heads: attention_combine and the heads_linear that reads its result, in one launch with the bits of the two
 * (attention_heads.cuh). Made by the fuse pass. Before sm_90 there are no clusters to share the sum, so nothing is fused;
 * shapes that the kernel does not take have a plain one, with sums in another order.
 */
#include "ops/attention_heads/attention_heads.h"

#include <string.h>

#include "ops/attention/attention.h"
#include "ops/linear/linear.h"
#include "ops/rule.h"

enum { THREADS = 256, PER_SM = 4, MOST_TOKENS = 8, MOST_LATENT = 512 };

static int64_t int_attr(const struct stem_attr *attrs, const char *name)
{
    return stem_op_attr(&stem_op_attention_heads, attrs, name)->i;
}

static bool infer(struct stem_infer *c)
{
    const struct stem_type *acc = &c->in[0], *lens = &c->in[2], *w = &c->in[3];
    const char *dtype = stem_op_attr(&stem_op_attention_heads, c->attrs, "dtype")->text;
    const char *out = stem_op_attr(&stem_op_attention_heads, c->attrs, "out")->text;
    int64_t latent;
    if (acc->rank != 3 || lens->rank != 1 || w->rank != 3 || !stem_dim_same(acc->dim[2], w->dim[2]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 3, "attention_heads takes acc[slots, rows, K], ml, lens[T], w[H, N, K]");
    if (!stem_dim_value(c->dims, acc->dim[2], &latent) || latent > MOST_LATENT)
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 0, "attention_heads: K must be a constant, at most %d", MOST_LATENT);
    if (w->dtype != stem_dtype_from_name(dtype))
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 3, "attention_heads: w must be %s, as the sum is", dtype);
    c->out[0] = (struct stem_type){.dtype = out ? stem_dtype_from_name(out) : w->dtype, .rank = 3};
    c->out[0].dim[0] = lens->dim[0];
    c->out[0].dim[1] = w->dim[0];
    c->out[0].dim[2] = w->dim[1];
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    const struct stem_tensor *acc = &c->operand[0], *w = &c->operand[3], *y = &c->operand[4];
    *cost = (struct stem_cost){
        .bytes_read = stem_tensor_extent(acc) + stem_tensor_extent(&c->operand[1]) +
                      stem_tensor_elements(w) * stem_dtype_bits(w->dtype) / 8,
        .bytes_written = stem_tensor_extent(y),
        .flops = 2 * (stem_tensor_elements(acc) + (uint64_t)y->dim[0] * stem_tensor_elements(w)),
        .blocks = (uint32_t)(w->dim[0] * ((w->dim[2] + 63) / 64) * ((w->dim[1] + 127) / 128))};
}

bool stem_attention_heads_fit(const struct stem_tensor *acc, int64_t tokens, enum stem_dtype type,
                              const struct stem_tensor *w, const struct stem_target *t)
{
    int64_t latent = acc->dim[2], cluster = latent / 64;
    bool rows = w->stride[2] == 1 && w->offset % 16 == 0 && w->stride[1] % 8 == 0 &&
                (w->dim[0] == 1 || w->stride[0] % 8 == 0);
    return t->sm >= 90 && tokens <= MOST_TOKENS && (type == STEM_BF16 || type == STEM_F16) && w->dtype == type && rows &&
           latent % 64 == 0 && cluster <= 8 && (cluster & (cluster - 1)) == 0;
}

static void lower_plain(const struct stem_concrete *c, const char *sizes, struct stem_arena *a, struct stem_lowered *l)
{
    const struct stem_tensor *w = &c->operand[3], *y = &c->operand[4];
    const char *in = stem_stream_type(w->dtype), *out = stem_stream_type(y->dtype);
    const char *body = stem_arena_printf(
        a,
        "(const float *acc, const float *ml, const int *lens, const %s *w, %s *y, int tokens, int heads, int most, int parts, "
        "int n, long long wh, long long wr, long long wc)\n{\n    stem_attention_heads_plain<%s, %s, %s>(acc, ml, lens, w, "
        "y, tokens, heads, most, parts, n, wh, wr, wc);\n}\n",
        in, out, in, out, sizes);
    l->kernel = stem_kernel_name(a, "stem_attention_heads_plain_", body, strlen(body));
    l->code = stem_arena_printf(a, "extern \"C\" __global__ void __launch_bounds__(%d) %s%s", THREADS, l->kernel, body);
    l->grid[0] = (uint32_t)(y->dim[0] * y->dim[1]);
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I64, {.i = w->stride[2]}};
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    const struct stem_tensor *acc = &c->operand[0], *w = &c->operand[3], *y = &c->operand[4];
    int64_t tokens = y->dim[0], heads = y->dim[1], n = y->dim[2], latent = acc->dim[2], cluster = latent / 64;
    int64_t groups = int_attr(c->attrs, "groups"), parts = int_attr(c->attrs, "parts");
    bool early = c->constant >> 3 & 1;
    *l = (struct stem_lowered){.work = STEM_WORK_LAUNCH,
                               .headers = {"common", "stream", "linear", "attention", "attention_heads"},
                               .grid = {1, 1, 1},
                               .block = {THREADS, 1, 1},
                               .waits = true,
                               .ahead = true,
                               .early = 1u << 2}; /* lens: attention_part has read them, too */
    const int64_t small[] = {tokens, heads, int_attr(c->attrs, "most"), parts, n};
    for (int i = 0; i < 5; i++)
        l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = small[i]}};
    for (int i = 0; i < 2; i++)
        l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I64, {.i = w->stride[i]}};
    const char *sizes = stem_arena_printf(a, "%lld, %lld, %lld, %lld, %s", (long long)acc->dim[1], (long long)groups,
                                          (long long)latent, (long long)int_attr(c->attrs, "unit"),
                                          int_attr(c->attrs, "sparse") ? "true" : "false");
    if (!stem_attention_heads_fit(acc, tokens, stem_dtype_from_name(stem_op_attr(c->def, c->attrs, "dtype")->text), w, t)) {
        lower_plain(c, sizes, a, l);
        return;
    }
    struct stem_attention_cut cut = stem_attention_cut_of(tokens, groups, parts, latent);
    const char *in = stem_stream_type(w->dtype), *out = stem_stream_type(y->dtype);
    const char *body = stem_arena_printf(
        a,
        "(const float *acc, const float *ml, const int *lens, const %s *w, %s *y, int tokens, int heads, int most, int parts, "
        "int n, long long wh, long long wr)\n{\n    stem_attention_heads<%s, %s, %s, %u, %u, %s>(acc, ml, lens, w, y, "
        "tokens, heads, most, parts, n, wh, wr);\n}\n",
        in, out, in, out, sizes, 8 / cut.warps, cut.batch, early ? "true" : "false");
    l->kernel = stem_kernel_name(a, "stem_attention_heads_", body, strlen(body));
    l->code = stem_arena_printf(a, "extern \"C\" __global__ void __launch_bounds__(%d, %d)%s %s%s", THREADS, PER_SM,
                                cluster > 1 ? stem_arena_printf(a, " __cluster_dims__(%lld, 1, 1)", (long long)cluster) : "",
                                l->kernel, body);
    l->early |= early ? 1u << 3 : 0;
    l->grid[0] = (uint32_t)(heads * cluster);
    l->grid[1] = (uint32_t)((n + 127) / 128);
    /* stem_attention_heads_smem: weights, tokens, products, sums of eight warps, mailbox */
    l->smem = 8 * 2048 + 1024 + 8 / cut.warps * 128 * 4 + 8 * (64 + 2) * 4 + 16;
}

const struct stem_op_def stem_op_attention_heads = {
    .name = "attention_heads",
    .blurb = "attention_combine, then heads_linear of its result",
    .params = {STEM_COMBINE_PARAMS, {"w", STEM_MODE_IN, false, true}},
    .n_params = STEM_N_COMBINE_PARAMS + 1,
    .attrs = {STEM_COMBINE_ATTRS, {"out", STEM_ATTR_TYPE_DTYPE, false, 0, NULL, NULL}},
    .n_attrs = STEM_N_COMBINE_ATTRS + 1,
    .results = {"y"},
    .internal = true,
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_attention_heads_reference,
};
