/* SPDX-License-Identifier: Apache-2.0
 *
 * top_k: indices of the k largest of each row, in ascending order of index, then -1. The lower index of equals.
 * Neither -infinity nor NaN is chosen, so masked positions never are; with lens only the first lens[t] are looked at.
 * A radix select: histograms of 11, 11 and 10 bits of a key that orders like the floats.
 */
#include "ops/top_k/top_k.h"

#include "ops/linear/linear.h"
#include "ops/rule.h"

enum {
    THREADS = 1024,
    FIXED = 4 * 2048 * 4 + 64 * 4 + 16, /* bytes of stem_top_shared */
};

static bool infer(struct stem_infer *c)
{
    const struct stem_type *x = &c->in[0];
    int64_t k = stem_op_attr(&stem_op_top_k, c->attrs, "k")->i, low, high;
    if (x->dtype != STEM_F32)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 0, "top_k: the scores must be f32");
    if (x->rank != 2)
        return stem_rule_fail(c, STEM_E_OP_RANK, 0, "top_k: the scores must be [T, N]");
    stem_dim_bounds(c->dims, x->dim[1], &low, &high);
    if (high > INT32_MAX / 2)
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 0, "top_k: indices of the last dim must fit i32");
    if (c->n_in > 1 && c->in[1].dtype != STEM_N_DTYPES) {
        if (c->in[1].dtype != STEM_I32)
            return stem_rule_fail(c, STEM_E_OP_DTYPE, 1, "top_k: lens must be i32");
        if (c->in[1].rank != 1 || !stem_dim_same(c->in[1].dim[0], x->dim[0]))
            return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "top_k: lens must be [T], one for each row");
    }
    if (k < 1 || k > INT32_MAX / 2)
        return stem_rule_attr(c, "top_k: k = %lld must be at least 1 and at most %d", (long long)k, INT32_MAX / 2);
    c->out[0] = (struct stem_type){.dtype = STEM_I32, .rank = 2};
    c->out[0].dim[0] = x->dim[0];
    c->out[0].dim[1] = stem_dim_const(c->dims, k);
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    const struct stem_tensor *x = &c->operand[0], *y = &c->operand[c->n_in];
    *cost = (struct stem_cost){.bytes_read = stem_tensor_extent(x),
                               .bytes_written = stem_tensor_extent(y),
                               .flops = 4 * stem_tensor_elements(x),
                               .blocks = (uint32_t)(x->dim[0] * (x->dim[1] > 16384 ? 8 : 1))};
}

/* Keys of a block, a multiple of 128. */
static int64_t share_of(int64_t n, uint32_t cluster)
{
    return ((n + cluster - 1) / cluster + 127) / 128 * 128;
}

/* Blocks for a row: more than one where a row is long and there are multiprocessors to spare, or too long for one. */
static uint32_t cluster_of(int64_t n, int64_t rows, const struct stem_target *t)
{
    uint32_t cluster = 1;
    while (t->sm >= 90 && cluster < 8 &&
           ((n > 8192 * (int64_t)cluster && rows * 4 * cluster <= t->n_sms) ||
            FIXED + share_of(n, cluster) * 4 > stem_stream_block_smem(t)))
        cluster *= 2;
    return cluster;
}

/* Keys of a thread, if the registers of a block hold a row (top_few.cuh); 0: they do not. */
static uint32_t each_of(const struct stem_tensor *x)
{
    int64_t n = x->dim[1];
    return n % 4 || x->offset % 16 || n > 8 * THREADS ? 0 : n <= 4 * THREADS ? 4 : 8;
}

static void lower_few(const struct stem_concrete *c, uint32_t each, struct stem_arena *a, struct stem_lowered *l)
{
    bool lens = c->n_in > 1 && c->operand[1].dtype != STEM_N_DTYPES;
    l->headers[4] = "top_few";
    l->grid[0] = (uint32_t)c->operand[0].dim[0];
    l->smem = FIXED + THREADS * each * 4;
    l->early = lens ? 1u << 1 : 0;
    l->kernel = stem_arena_printf(a, "stem_top_few_e%u%s", each, c->n_in > 1 ? "_lens" : "");
    l->code = stem_arena_printf(a,
                                "extern \"C\" __global__ void __launch_bounds__(%d) %s(const float *x, %sint *y, int n, int k)\n{\n"
                                "    stem_top_few<%d, %u>(x, %s, y, n, k);\n}\n",
                                THREADS, l->kernel, c->n_in > 1 ? "const int *lens, " : "", THREADS, each, c->n_in > 1 ? "lens" : "nullptr");
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    const struct stem_tensor *x = &c->operand[0];
    int64_t n = x->dim[1];
    uint32_t cluster = cluster_of(n, x->dim[0], t);
    int64_t share = share_of(n, cluster);
    bool kept = FIXED + share * 4 <= stem_stream_block_smem(t);
    *l = (struct stem_lowered){.work = STEM_WORK_LAUNCH,
                               .headers = {"common", "stream", "linear", "top_k"},
                               .grid = {(uint32_t)x->dim[0] * cluster, 1, 1},
                               .block = {THREADS, 1, 1},
                               .smem = FIXED + (kept ? (uint32_t)share * 4 : 0),
                               .waits = true};
    l->scalars[0] = (struct stem_scalar){STEM_SCALAR_I32, {.i = n}};
    l->scalars[1] = (struct stem_scalar){STEM_SCALAR_I32, {.i = stem_op_attr(c->def, c->attrs, "k")->i}};
    l->n_scalars = 2;
    if (each_of(x)) {
        lower_few(c, each_of(x), a, l);
        return;
    }
    l->kernel = stem_arena_printf(a, "stem_top_k_c%u%s%s", cluster, kept ? "_kept" : "", c->n_in > 1 ? "_lens" : "");
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(%d)%s %s(const float *x, %sint *y, int n, int k)\n{\n"
        "    stem_top_k<%d, %u, %s>(x, %s, y, n, k);\n}\n",
        THREADS, cluster > 1 ? stem_arena_printf(a, " __cluster_dims__(%u, 1, 1)", cluster) : "", l->kernel,
        c->n_in > 1 ? "const int *lens, " : "", THREADS, cluster, kept ? "true" : "false",
        c->n_in > 1 ? "lens" : "nullptr");
}

static bool range(const struct stem_concrete *c, uint32_t i, int64_t *low, int64_t *high)
{
    *low = 1;
    *high = c->operand[0].dim[1];
    return i == 1;
}

const struct stem_op_def stem_op_top_k = {
    .name = "top_k",
    .blurb = "indices of the k largest of each row, ascending, -1 where there are fewer",
    .params = {{"scores", STEM_MODE_IN, false, false}, {"lens", STEM_MODE_IN, true, false}},
    .n_params = 2,
    .attrs = {{"k", STEM_ATTR_TYPE_INT, false, 2048, NULL, NULL}},
    .n_attrs = 1,
    .results = {"i"},
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_top_k_reference,
    .range = range,
};
