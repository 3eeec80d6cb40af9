/* SPDX-License-Identifier: Apache-2.0
 *
 * heads_linear: for each head h, y[t, h, n] = sum over k of x[t, h, k] * w[h, n, k], or of w[h, k, n] if
 * `transposed`: the two products by which multi-head latent attention stays in its latent space (DeepSeek-V2, 2024),
 * where the weights of both are slices of one tensor of the checkpoint. x and w may be slices with gaps; nothing is
 * copied.
 */
#include "ops/heads_linear/heads_linear.h"

#include "ops/linear/linear.h"
#include "ops/rule.h"

enum { PLAIN_THREADS = 128, TILE = 64 /* columns of a block of the transposed form */ };

static bool infer(struct stem_infer *c)
{
    const struct stem_type *x = &c->in[0], *w = &c->in[1];
    const char *out = stem_op_attr(&stem_op_heads_linear, c->attrs, "out")->text;
    bool flip = stem_op_attr(&stem_op_heads_linear, c->attrs, "transposed")->i;
    const char *form = flip ? "w[H, K, N]" : "w[H, N, K]";
    if (!stem_rule_float(c, 0, "heads_linear: x"))
        return false;
    if (w->dtype != x->dtype)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 1, "heads_linear: w must be %s, as x is",
                              stem_dtype_name(x->dtype));
    if (out && !stem_stream_is_float(stem_dtype_from_name(out))) {
        stem_error(c->diags, STEM_E_OP_ATTR, c->span, "heads_linear: out is bf16, f16 or f32, not %s", out);
        return false;
    }
    if (x->rank != 3)
        return stem_rule_fail(c, STEM_E_OP_RANK, 0, "heads_linear: x must be x[T, H, K]");
    if (w->rank != 3)
        return stem_rule_fail(c, STEM_E_OP_RANK, 1, "heads_linear: w must be %s", form);
    if (!stem_dim_same(x->dim[1], w->dim[0]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "heads_linear: %s must have x's %s heads", form,
                              stem_rule_dim(c, x->dim[1]).s);
    if (!stem_dim_same(x->dim[2], w->dim[flip ? 1 : 2]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "heads_linear: K of %s must be x's last size, %s", form,
                              stem_rule_dim(c, x->dim[2]).s);
    c->out[0] = *x;
    c->out[0].dtype = out ? stem_dtype_from_name(out) : x->dtype;
    c->out[0].dim[2] = w->dim[flip ? 2 : 1];
    return true;
}

struct sizes {
    int64_t tokens, heads, n, k;
    bool flip;
};

static struct sizes sizes_of(const struct stem_concrete *c)
{
    const struct stem_tensor *x = &c->operand[0], *y = &c->operand[2];
    return (struct sizes){x->dim[0], x->dim[1], y->dim[2], x->dim[2],
                          stem_op_attr(c->def, c->attrs, "transposed")->i != 0};
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    struct sizes s = sizes_of(c);
    uint64_t size = stem_dtype_bits(c->operand[0].dtype) / 8;
    *cost = (struct stem_cost){.bytes_read = (uint64_t)((s.tokens + s.n) * s.heads * s.k) * size,
                               .bytes_written = stem_tensor_extent(&c->operand[2]),
                               .flops = 2 * (uint64_t)(s.tokens * s.heads * s.n * s.k),
                               .blocks = (uint32_t)(s.heads * ((s.n + 15) / 16) * ((s.tokens + 63) / 64))};
}

/* Whether the last dim of a tensor is dense and its rows start at multiples of 16 bytes. */
static bool rows_fit(const struct stem_tensor *t)
{
    if (t->stride[2] != 1 || t->dim[2] % 8 || t->offset % 16)
        return false;
    for (int i = 0; i < 2; i++)
        if (t->dim[i] > 1 && t->stride[i] % 8)
            return false;
    return true;
}

static bool fits(const struct stem_concrete *c)
{
    const struct stem_tensor *x = &c->operand[0], *w = &c->operand[1];
    return x->dtype != STEM_F32 && rows_fit(x) && rows_fit(w) && x->dim[2] % (sizes_of(c).flip ? 16 : 8) == 0;
}

/* The parameters of all three kernels after the pointers. */
static void scalars(const struct stem_concrete *c, struct stem_lowered *l)
{
    const struct stem_tensor *x = &c->operand[0], *w = &c->operand[1];
    struct sizes s = sizes_of(c);
    const int64_t small[] = {s.tokens, s.heads, s.n, s.k},
                  large[] = {x->stride[0], x->stride[1], w->stride[0], w->stride[1]};
    for (int i = 0; i < 4; i++) {
        l->scalars[i] = (struct stem_scalar){STEM_SCALAR_I32, {.i = small[i]}};
        l->scalars[4 + i] = (struct stem_scalar){STEM_SCALAR_I64, {.i = large[i]}};
    }
    l->n_scalars = 8;
}

#define PARAMETERS                                                                                                   \
    "(const %s *x, const %s *w, %s *y, int tokens, int heads, int n, int k, long long xt, long long xh, long long "  \
    "wh, "                                                                                                           \
    "long long wr"

static void lower_plain(const struct stem_concrete *c, const char *in, const char *out, const char *types,
                        struct stem_arena *a, struct stem_lowered *l)
{
    struct sizes s = sizes_of(c);
    uint64_t outputs = (uint64_t)(s.tokens * s.heads * s.n);
    l->kernel = stem_arena_printf(a, "stem_heads_linear_plain_%s%s", types, s.flip ? "_t" : "");
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(%d) %s" PARAMETERS
        ", long long xk, long long wc)\n{\n    stem_heads_plain<%s, %s>(x, w, y, tokens, heads, n, k, xt, xh, xk, "
        "wh, %s);\n}\n",
        PLAIN_THREADS, l->kernel, in, in, out, in, out, s.flip ? "wc, wr" : "wr, wc");
    l->grid[0] = (uint32_t)((outputs + PLAIN_THREADS - 1) / PLAIN_THREADS);
    l->block[0] = PLAIN_THREADS;
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I64, {.i = c->operand[0].stride[2]}};
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I64, {.i = c->operand[1].stride[2]}};
}

static uint32_t power_of_two_up_to(int64_t n, uint32_t most)
{
    uint32_t p = 1;
    while (p * 2 <= most && p * 2 <= n)
        p *= 2;
    return p;
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    struct sizes s = sizes_of(c);
    enum stem_dtype type = c->operand[0].dtype, result = c->operand[2].dtype;
    const char *in = stem_stream_type(type), *out = stem_stream_type(result);
    const char *types = stem_arena_printf(a, "%s_%s", stem_dtype_name(type), stem_dtype_name(result));
    bool early = c->constant >> 1 & 1;
    *l = (struct stem_lowered){.work = STEM_WORK_LAUNCH,
                               .headers = {"common", "stream", "heads_linear"},
                               .grid = {1, 1, 1},
                               .block = {1, 1, 1},
                               .waits = true};
    scalars(c, l);
    if (!fits(c)) {
        lower_plain(c, in, out, types, a, l);
        return;
    }
    bool small = stem_stream_block_smem(t) < 128u << 10;
    uint32_t nt = s.tokens <= 8 ? 1 : s.tokens <= 16 || (small && !s.flip) ? 2 : s.tokens <= 32 || s.flip ? 4 : 8;
    uint32_t parts =
        s.flip ? power_of_two_up_to(s.k / 16, nt == 4 ? 4 : 8) : power_of_two_up_to((s.k + 63) / 64, nt == 8 ? 4 : 8);
    uint32_t share = (uint32_t)((s.k + 64 * parts - 1) / (64 * parts)), stages = share < 2   ? 2
                                                                                 : share < 4 ? share
                                                                                             : 4;
    if (nt == 8 || small)
        stages = 2;
    l->kernel = stem_arena_printf(a, "stem_heads_linear_%s_n%u_%s%u_k%u%s", types, nt, s.flip ? "t" : "s",
                                  s.flip ? 0 : stages, parts, early ? "_w" : "");
    const char *shape =
        s.flip ? stem_arena_printf(a, "%u, %u", nt, parts) : stem_arena_printf(a, "%u, %u, %u", nt, stages, parts);
    l->code = stem_arena_printf(
        a,
        "extern \"C\" __global__ void __launch_bounds__(%u) %s" PARAMETERS
        ")\n{\n    stem_heads_%s<%s, %s, %s, %s>(x, w, y, tokens, heads, n, k, xt, xh, wh, wr);\n}\n",
        32 * parts, l->kernel, in, in, out, s.flip ? "transposed" : "rows", in, out, shape, early ? "true" : "false");
    l->early = early ? 1u << 1 : 0;
    l->ahead = s.flip; /* stem_heads_tile */
    l->grid[0] = (uint32_t)(s.heads * (s.flip ? (s.n + TILE - 1) / TILE : (s.n + 15) / 16));
    l->grid[1] = (uint32_t)((s.tokens + 8 * nt - 1) / (8 * nt));
    l->block[0] = 32 * parts;
    l->smem = s.flip ? parts * 8 * nt * (TILE + 4) * 4
                     : stem_stream_ring_bytes(1, nt, stages, parts) + stem_stream_tile_bytes(nt, parts);
}

const struct stem_op_def stem_op_heads_linear = {
    .name = "heads_linear",
    .blurb = "y[T, H, N] = x[T, H, K] times w[H, N, K] transposed, head by head",
    .params = {{"x", STEM_MODE_IN, false, true}, {"w", STEM_MODE_IN, false, true}},
    .n_params = 2,
    .attrs = {{"transposed", STEM_ATTR_TYPE_BOOL, false, 0, NULL, NULL}, /* w is [H, K, N] */
              {"out", STEM_ATTR_TYPE_DTYPE, false, 0, NULL, NULL}},
    .n_attrs = 2,
    .results = {"y"},
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_heads_linear_reference,
};
