/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_query: q[T, H, K + R], w[H, K, L], pos[T] -> y[T, H, L + R]. The first K elements of a head's query times w[h],
 * the absorbed up projection of the keys, and beside them the last R, turned as rope does: what mla_attention takes,
 * without a concatenation. The same bits as heads_linear(.., transposed = true) and rope.
 */
#include <string.h>

#include "ops/linear/linear.h"
#include "ops/mla/mla.h"
#include "ops/rope/rope.h"
#include "ops/rule.h"

enum { PLAIN_THREADS = 128, TILE = 64 };

static bool infer(struct stem_infer *c)
{
    const struct stem_type *q = &c->in[0], *w = &c->in[1], *pos = &c->in[2];
    int64_t row, k, n;
    if (!stem_rule_float(c, 0, "mla_query: q"))
        return false;
    if (w->dtype != q->dtype)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 1, "mla_query: w must be %s, as q is", stem_dtype_name(q->dtype));
    if (pos->dtype != STEM_I32 && pos->dtype != STEM_I64)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 2, "mla_query: the positions must be i32 or i64");
    if (q->rank != 3)
        return stem_rule_fail(c, STEM_E_OP_RANK, 0, "mla_query: q must be [T, heads, K + R]");
    if (w->rank != 3)
        return stem_rule_fail(c, STEM_E_OP_RANK, 1, "mla_query: w must be [heads, K, latent]");
    if (pos->rank != 1 || !stem_dim_same(pos->dim[0], q->dim[0]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 2, "mla_query: there must be a position for each of q's %s tokens",
                              stem_rule_dim(c, q->dim[0]).s);
    if (!stem_dim_same(q->dim[1], w->dim[0]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "mla_query: w must have q's %s heads",
                              stem_rule_dim(c, q->dim[1]).s);
    if (!stem_dim_value(c->dims, q->dim[2], &row) || !stem_dim_value(c->dims, w->dim[1], &k) ||
        !stem_dim_value(c->dims, w->dim[2], &n))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "mla_query: the sizes of a head must be constants");
    if (row <= k || (row - k) % 2 || row - k > STEM_ROPE_MAX)
        return stem_rule_fail(
            c, STEM_E_OP_SHAPE, 0,
            "mla_query: q must have an even number, at most %d, of elements more than w has rows, %lld",
            STEM_ROPE_MAX, (long long)k);
    if (!stem_rope_attrs_fine(c, &stem_op_mla_query))
        return false;
    c->out[0] = *q;
    c->out[0].dim[2] = stem_dim_const(c->dims, n + row - k);
    return true;
}

struct sizes {
    int64_t tokens, heads, k, n, turned;
};

static struct sizes sizes_of(const struct stem_concrete *c)
{
    const struct stem_tensor *q = &c->operand[0], *w = &c->operand[1];
    return (struct sizes){q->dim[0], q->dim[1], w->dim[1], w->dim[2], q->dim[2] - w->dim[1]};
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    struct sizes s = sizes_of(c);
    uint64_t size = stem_dtype_bits(c->operand[0].dtype) / 8;
    *cost = (struct stem_cost){.bytes_read =
                                   (uint64_t)(s.tokens * s.heads * (s.k + s.turned) + s.heads * s.k * s.n) * size,
                               .bytes_written = stem_tensor_extent(&c->operand[3]),
                               .flops = 2 * (uint64_t)(s.tokens * s.heads * s.n * s.k),
                               .blocks = (uint32_t)(s.heads * ((s.n + TILE - 1) / TILE + 1))};
}

static bool fits(const struct stem_concrete *c, const struct sizes *s)
{
    const struct stem_tensor *q = &c->operand[0], *w = &c->operand[1];
    if (q->dtype == STEM_F32 || s->k % 16 || s->n % 8 || s->turned % 16)
        return false;
    for (int i = 0; i < 2; i++) {
        const struct stem_tensor *t = &c->operand[i];
        if (t->stride[2] != 1 || t->offset % 16 || (t->dim[0] > 1 && t->stride[0] % 8) ||
            (t->dim[1] > 1 && t->stride[1] % 8))
            return false;
    }
    return w->dtype == q->dtype && c->operand[3].offset % 16 == 0;
}

static void scalars(const struct stem_concrete *c, const struct sizes *s, struct stem_lowered *l)
{
    const struct stem_tensor *q = &c->operand[0], *w = &c->operand[1];
    const int64_t small[] = {s->tokens, s->heads, s->n, s->k};
    const int64_t large[] = {q->stride[0], q->stride[1], w->stride[0], w->stride[1], q->stride[2], w->stride[2]};
    for (int i = 0; i < 4; i++)
        l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = small[i]}};
    for (int i = 0; i < 6; i++)
        l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I64, {.i = large[i]}};
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    struct sizes s = sizes_of(c);
    const char *type = stem_c_type(c->operand[0].dtype), *index = stem_c_type(c->operand[2].dtype);
    const char *interleaved = stem_op_attr(c->def, c->attrs, "interleaved")->i ? "true" : "false";
    bool early = c->constant >> 1 & 1, quick = fits(c, &s);
    double turns[STEM_ROPE_MAX / 2], amplitude = stem_rope_turns(c->def, c->attrs, (uint32_t)s.turned, turns);
    uint32_t nt = s.tokens <= 8 ? 1 : s.tokens <= 16 ? 2 : 4, parts = nt == 4 ? 4 : 8;
    (void)t;
    while (parts * 16 > s.k && parts > 1)
        parts /= 2;
    *l = (struct stem_lowered){.work = STEM_WORK_LAUNCH,
                               .headers = {"common", "stream", "rope", "heads_linear"},
                               .grid = {1, 1, 1},
                               .block = {quick ? 32 * parts : PLAIN_THREADS, 1, 1},
                               .early = quick && early ? 1u << 1 : 0,
                               .waits = true,
                               .ahead = true};
    scalars(c, &s, l);
    if (!quick) {
        l->headers[1] = "rope";
        l->headers[2] = "mla";
        l->headers[3] = NULL;
    }
    const char *call =
        quick
            ? stem_arena_printf(a,
                                "    const int tiles = (n + 63) / 64, h = blockIdx.x / (tiles + 1), tile = "
                                "blockIdx.x - h * (tiles + 1);\n"
                                "    const int m0 = blockIdx.y * %u, width = n + %d;\n"
                                "    if (tile < tiles) {\n"
                                "        stem_heads_tile<%s, %s, %u, %u, %s>(q, w, y, h, tile * 64, m0, tokens, n, "
                                "k, qt, qh, wh, wk, "
                                "(long long)heads * width, width);\n"
                                "    } else {\n"
                                "        stem_launch_dependents();\n"
                                "        stem_wait();\n"
                                "        stem_rope_block<%d, 8, %s>(q + h * qh + k, pos, y + h * width + n, turns, "
                                "(float)%.17g, m0, "
                                "min(tokens, m0 + %u), qt, (long long)heads * width);\n"
                                "    }\n",
                                8 * nt, (int)s.turned, type, type, nt, parts, early ? "true" : "false", (int)s.turned,
                                interleaved, amplitude, 8 * nt)
            : stem_arena_printf(
                  a,
                  "    stem_mla_query_plain<%d, %s>(q, w, pos, y, turns, (float)%.17g, tokens, heads, n, k, qt, qh, "
                  "qk, wh, wk, wn);\n",
                  (int)s.turned, interleaved, amplitude);
    const char *body =
        stem_arena_printf(a,
                          "(const %s *q, const %s *w, const %s *pos, %s *y, int tokens, int heads, int n, int k, "
                          "long long qt, long long qh, "
                          "long long wh, long long wk, long long qk, long long wn)\n{\n    %s%s}\n",
                          type, type, index, type, stem_rope_table(a, "turns", turns, (uint32_t)s.turned), call);
    l->kernel = stem_kernel_name(a, "stem_mla_query_", body, strlen(body));
    l->code =
        stem_arena_printf(a, "extern \"C\" __global__ void __launch_bounds__(%u) %s%s", l->block[0], l->kernel, body);
    if (quick) {
        l->grid[0] = (uint32_t)(s.heads * ((s.n + TILE - 1) / TILE + 1));
        l->grid[1] = (uint32_t)((s.tokens + 8 * nt - 1) / (8 * nt));
        l->smem = parts * 8 * nt * (TILE + 4) * 4;
    } else {
        l->grid[0] = (uint32_t)((s.tokens * s.heads * (s.n + s.turned) + PLAIN_THREADS - 1) / PLAIN_THREADS);
    }
}

const struct stem_op_def stem_op_mla_query = {
    .name = "mla_query",
    .blurb = "query of the latent cache: the first part absorbed, the last part rotated",
    .params = {{"q", STEM_MODE_IN, false, true},
               {"w", STEM_MODE_IN, false, true},
               {"pos", STEM_MODE_IN, false, false}},
    .n_params = 3,
    .attrs = {STEM_ROPE_ATTRS},
    .n_attrs = STEM_ROPE_N_ATTRS,
    .results = {"y"},
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_mla_query_reference,
};
