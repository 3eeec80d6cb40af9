/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_store: the new row of a latent cache[pages, page, L + R]: of each kv[t] the first L elements normalised as
 * rmsnorm does, the last R turned to position pos[t] as rope does, written to slot[t] = page * PAGE + place in the
 * page. A slot outside of the cache (-1: a token that is not there) is skipped. Two tokens with one slot: either may
 * win.
 */
#include <string.h>

#include "ops/linear/linear.h"
#include "ops/mla/mla.h"
#include "ops/rope/rope.h"
#include "ops/rule.h"

enum { THREADS = 128, MAX_CHUNKS = 4 };

static bool infer(struct stem_infer *c)
{
    const struct stem_type *cache = &c->in[0], *kv = &c->in[1], *norm = &c->in[2], *pos = &c->in[3],
                           *slot = &c->in[4];
    int64_t row, latent;
    if (!stem_rule_float(c, 1, "mla_store: kv"))
        return false;
    for (uint32_t i = 0; i < 3; i += 2)
        if (c->in[i].dtype != kv->dtype)
            return stem_rule_fail(c, STEM_E_OP_DTYPE, i, "mla_store: %s must be %s, as kv is",
                                  i ? "norm" : "the cache", stem_dtype_name(kv->dtype));
    if (pos->dtype != STEM_I32 && pos->dtype != STEM_I64)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 3, "mla_store: the positions must be i32 or i64");
    if (slot->dtype != STEM_I32)
        return stem_rule_fail(c, STEM_E_OP_DTYPE, 4, "mla_store: slot must be i32");
    static const uint32_t ranks[] = {3, 2, 1, 1, 1};
    for (uint32_t i = 0; i < 5; i++)
        if (c->in[i].rank != ranks[i])
            return stem_rule_fail(
                c, STEM_E_OP_RANK, i,
                "mla_store takes cache[pages, page, L + R], kv[T, L + R], norm[L], pos[T], slot[T]");
    if (!stem_dim_same(kv->dim[1], cache->dim[2]))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "mla_store: kv must be as wide as the cache, %s",
                              stem_rule_dim(c, cache->dim[2]).s);
    for (uint32_t i = 3; i < 5; i++)
        if (!stem_dim_same(c->in[i].dim[0], kv->dim[0]))
            return stem_rule_fail(c, STEM_E_OP_SHAPE, i,
                                  "mla_store: there must be a position and a slot for each of the %s tokens",
                                  stem_rule_dim(c, kv->dim[0]).s);
    if (!stem_dim_value(c->dims, kv->dim[1], &row) || !stem_dim_value(c->dims, norm->dim[0], &latent))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1, "mla_store: the sizes of a row must be constants");
    if (latent >= row || (row - latent) % 2 || row - latent > STEM_ROPE_MAX)
        return stem_rule_fail(c, STEM_E_OP_SHAPE, 1,
                              "mla_store: kv must have an even number, at most %d, of elements more than norm, %lld",
                              STEM_ROPE_MAX, (long long)latent);
    return stem_rule_eps(c, &stem_op_mla_store) && stem_rope_attrs_fine(c, &stem_op_mla_store);
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    uint64_t n = stem_tensor_elements(&c->operand[1]), bytes = n * stem_dtype_bits(c->operand[1].dtype) / 8;
    *cost = (struct stem_cost){
        .bytes_read = bytes, .bytes_written = bytes, .flops = 6 * n, .blocks = (uint32_t)c->operand[1].dim[0]};
}

/* Elements of an access to what is normalised and turned. */
static uint32_t width_of(const struct stem_concrete *c, uint32_t latent, uint32_t turned, bool interleaved)
{
    const struct stem_tensor *kv = &c->operand[1];
    uint32_t bytes = stem_dtype_bits(kv->dtype) / 8;
    uint64_t all = latent | (interleaved ? turned : turned / 2) | (uint64_t)c->operand[0].dim[2] |
                   c->operand[0].offset / bytes | kv->offset / bytes | c->operand[2].offset / bytes;
    if (kv->stride[1] != 1)
        return 1;
    if (kv->dim[0] > 1)
        all |= (uint64_t)kv->stride[0];
    return stem_vector_width(all, latent >= 1024 ? 8 : 4);
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    const struct stem_tensor *cache = &c->operand[0], *kv = &c->operand[1];
    uint32_t latent = (uint32_t)c->operand[2].dim[0], turned = (uint32_t)kv->dim[1] - latent;
    bool interleaved = stem_op_attr(c->def, c->attrs, "interleaved")->i;
    double turns[STEM_ROPE_MAX / 2], amplitude = stem_rope_turns(c->def, c->attrs, turned, turns);
    uint32_t width = width_of(c, latent, turned, interleaved), chunks = (latent / width + THREADS - 1) / THREADS;
    const char *type = stem_c_type(kv->dtype), *index = stem_c_type(c->operand[3].dtype);
    (void)t;
    const char *body = stem_arena_printf(
        a,
        "(%s *cache, const %s *kv, const %s *norm, const %s *pos, const int *slot, long long slots, "
        "long long kv_row, long long kv_step, float eps)\n{\n    %s"
        "    stem_mla_store<%s, %s, %u, %u, %u, %u, %s>(cache, kv, norm, pos, slot, turns, (float)%.17g, slots, kv_row, "
        "kv_step, eps);\n}\n",
        type, type, type, index, stem_rope_table(a, "turns", turns, turned), type, index, latent, turned, width,
        chunks > MAX_CHUNKS ? 0 : chunks, interleaved ? "true" : "false", amplitude);
    *l = (struct stem_lowered){
        .work = STEM_WORK_LAUNCH,
        .kernel = stem_kernel_name(a, "stem_mla_store_", body, strlen(body)),
        .headers = {"common", "rope", "mla"},
        .grid = {(uint32_t)kv->dim[0], 1, 1},
        .block = {THREADS, 1, 1},
        .scalars = {{.kind = STEM_SCALAR_I64, .i = cache->dim[0] * cache->dim[1]},
                    {.kind = STEM_SCALAR_I64, .i = kv->stride[0]},
                    {.kind = STEM_SCALAR_I64, .i = kv->stride[1]},
                    {.kind = STEM_SCALAR_F32, .f = stem_op_attr(c->def, c->attrs, "eps")->f}},
        .n_scalars = 4,
        .waits = true,
        .ahead = true,
    };
    l->code =
        stem_arena_printf(a, "extern \"C\" __global__ void __launch_bounds__(%d) %s%s", THREADS, l->kernel, body);
}

const struct stem_op_def stem_op_mla_store = {
    .name = "mla_store",
    .blurb = "new rows of a paged latent cache: normalised, rotated, stored",
    .params = {{"cache", STEM_MODE_INOUT, false, false},
               {"kv", STEM_MODE_IN, false, true},
               {"norm", STEM_MODE_IN, false, false},
               {"pos", STEM_MODE_IN, false, false},
               {"slot", STEM_MODE_IN, false, false}},
    .n_params = 5,
    .attrs = {STEM_ROPE_ATTRS, {"eps", STEM_ATTR_TYPE_FLOAT, false, 1e-6, NULL, NULL}},
    .n_attrs = STEM_ROPE_N_ATTRS + 1,
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_mla_store_reference,
};
