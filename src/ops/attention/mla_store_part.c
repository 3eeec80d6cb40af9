/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_store_part: mla_store, then attention_part of the cache that it leaves, in one launch with the bits of the two
 * (mla_new.cuh). No other launch writes the cache, so its rows may be loaded before this one waits. Made by the fuse pass,
 * only where stem_mla_store_part_fits.
 */
#include <string.h>

#include "ops/attention/attention.h"
#include "ops/linear/linear.h"
#include "ops/mla/mla.h"
#include "ops/rope/rope.h"
#include "ops/rule.h"

enum { THREADS = 256, MOST_TOKENS = 16, Q = 0, CACHE, TABLE, LENS, KV, NORM, POS, SLOT, N_IN };

/* What the two ops see; their attributes follow each other. */
struct two {
    struct stem_tensor part_operand[7], store_operand[5];
    struct stem_concrete part, store;
};

static void split(const struct stem_concrete *c, struct two *r)
{
    const struct stem_tensor *o = c->operand, none = {.rank = STEM_NONE, .buffer = STEM_NONE};
    const struct stem_tensor part[] = {o[Q], o[CACHE], none, o[TABLE], o[LENS], o[N_IN], o[N_IN + 1]};
    const struct stem_tensor store[] = {o[CACHE], o[KV], o[NORM], o[POS], o[SLOT]};
    memcpy(r->part_operand, part, sizeof part);
    memcpy(r->store_operand, store, sizeof store);
    r->part = (struct stem_concrete){.def = &stem_op_attention_part, .operand = r->part_operand, .n_in = 5, .n_out = 2,
                                     .attrs = c->attrs, .n_attrs = STEM_N_PART_ATTRS};
    r->store = (struct stem_concrete){.def = &stem_op_mla_store, .operand = r->store_operand, .n_in = 5,
                                      .attrs = c->attrs + STEM_N_PART_ATTRS, .n_attrs = stem_op_mla_store.n_attrs};
}

void stem_mla_store_part_reference(const struct stem_concrete *c, void *const *data)
{
    struct two two;
    split(c, &two);
    stem_mla_store_reference(&two.store, (void *const[]){data[CACHE], data[KV], data[NORM], data[POS], data[SLOT]});
    stem_attention_part_reference(&two.part, (void *const[]){data[Q], data[CACHE], NULL, data[TABLE], data[LENS],
                                                             data[N_IN], data[N_IN + 1]});
}

bool stem_mla_store_part_fits(const struct stem_concrete *part, const struct stem_concrete *store,
                              const struct stem_target *t)
{
    struct stem_attention_sizes s = stem_attention_sizes_of(part);
    const struct stem_tensor *kv = &store->operand[1];
    int64_t turned = kv->dim[1] - s.latent;
    bool rows = kv->stride[1] == 1 && kv->offset % 8 == 0 && (kv->dim[0] == 1 || kv->stride[0] % 4 == 0) &&
                store->operand[2].offset % 8 == 0 && store->operand[2].dim[0] == s.latent && turned % 8 == 0;
    return t->sm >= 90 && rows && s.indices == 0 && s.groups == 1 && s.rows <= 32 && s.tokens <= MOST_TOKENS &&
           stem_mla_takes(part, &s) && !stem_mla_wide(part, &s, t) && stem_mla_shape_of(&s, t, true).stages > 0;
}

/* There is but the one kernel. */
static bool takes(struct stem_infer *c)
{
    int64_t heads = 0, width = 0, turned, rows = stem_op_attr(&stem_op_mla_store_part, c->attrs, "rows")->i;
    int64_t latent = stem_op_attr(&stem_op_mla_store_part, c->attrs, "latent")->i, norm = 0;
    bool fine = stem_dim_value(c->dims, c->in[Q].dim[1], &heads) && stem_dim_value(c->dims, c->in[CACHE].dim[2], &width) &&
                stem_dim_value(c->dims, c->in[NORM].dim[0], &norm);
    turned = width - latent;
    fine = fine && (c->in[Q].dtype == STEM_BF16 || c->in[Q].dtype == STEM_F16) && heads == rows && rows <= 32 &&
           width % 64 == 0 && width <= 640 && latent % 128 == 0 && latent <= 512 && latent == norm && turned % 8 == 0 &&
           stem_op_attr(&stem_op_mla_store_part, c->attrs, "unit")->i == STEM_MLA_UNIT;
    return fine || stem_rule_fail(c, STEM_E_OP_SHAPE, Q, "mla_store_part: no kernel for these sizes");
}

static bool infer(struct stem_infer *c)
{
    /* each op's own rule */
    const struct stem_type none = {.dtype = STEM_N_DTYPES};
    const struct stem_type part[] = {c->in[Q], c->in[CACHE], none, c->in[TABLE], c->in[LENS]};
    const struct stem_type store[] = {c->in[CACHE], c->in[KV], c->in[NORM], c->in[POS], c->in[SLOT]};
    struct stem_span part_span[] = {c->operand_span[Q], c->operand_span[CACHE], c->span, c->operand_span[TABLE],
                                    c->operand_span[LENS]};
    struct stem_infer own = *c;
    own.in = store;
    own.operand_span = (const struct stem_span[]){c->operand_span[CACHE], c->operand_span[KV], c->operand_span[NORM],
                                                  c->operand_span[POS], c->operand_span[SLOT]};
    own.n_in = 5;
    own.attrs = c->attrs + STEM_N_PART_ATTRS;
    if (!stem_op_mla_store.infer(&own))
        return false;
    own.in = part;
    own.operand_span = part_span;
    own.attrs = c->attrs;
    if (!stem_op_attention_part.infer(&own))
        return false;
    for (int i = 0; i < 2; i++)
        c->out[i] = own.out[i];
    return takes(c);
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    struct two two;
    struct stem_cost store;
    split(c, &two);
    stem_op_attention_part.cost(&two.part, cost);
    stem_op_mla_store.cost(&two.store, &store);
    cost->bytes_read += store.bytes_read;
    cost->bytes_written += store.bytes_written;
    cost->flops += store.flops;
}

static void scalars(const struct stem_concrete *c, const struct stem_attention_sizes *s, struct stem_lowered *l)
{
    stem_attention_scalars(s, stem_op_attr(c->def, c->attrs, "scale")->f, l);
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I64, {.i = c->operand[KV].stride[0]}};
    l->scalars[l->n_scalars++] =
        (struct stem_scalar){.kind = STEM_SCALAR_F32, .f = stem_op_attr(c->def, c->attrs, "eps")->f};
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    struct two two;
    split(c, &two);
    struct stem_attention_sizes s = stem_attention_sizes_of(&two.part);
    struct stem_mla_shape shape = stem_mla_shape_of(&s, t, true);
    uint32_t turned = (uint32_t)(c->operand[KV].dim[1] - s.latent), tokens = 8;
    bool interleaved = stem_op_attr(c->def, c->attrs, "interleaved")->i;
    double turns[STEM_ROPE_MAX / 2],
        amplitude = stem_rope_turns(two.store.def, two.store.attrs, turned, turns);
    const char *type = stem_stream_type(c->operand[Q].dtype), *index = stem_c_type(c->operand[POS].dtype);
    while (tokens < s.tokens)
        tokens *= 2;
    uint32_t parts = (uint32_t)s.parts, adders = ((uint32_t)s.tokens + 7) / 8;
    *l = (struct stem_lowered){.work = STEM_WORK_LAUNCH,
                               .headers = {"common", "stream", "rope", "attention", "mla_part", "mla_new"},
                               .grid = {parts + (parts + adders <= t->n_sms ? adders : 0), 1, 1},
                               .block = {THREADS, 1, 1},
                               .smem = shape.smem,
                               .waits = true,
                               .ahead = shape.whole,
                               .early = 1u << CACHE | 1u << TABLE | 1u << LENS | 1u << POS | 1u << SLOT};
    scalars(c, &s, l);
    bool one = s.tokens == 1 && s.most / s.unit < 1 << 15 && s.parts < 1 << 15;
    const char *how = !shape.whole ? "0" : shape.split ? "STEM_MLA_WHOLE | STEM_MLA_SPLIT" : "STEM_MLA_WHOLE";
    const char *body = stem_arena_printf(
        a,
        "(const %s *q, %s *cache, const int *table, const int *lens, const %s *kv, const %s *norm, const %s *pos, const int "
        "*slot, float *acc, float *ml, int tokens, int heads, int pages, int max_pages, int, int parts, float scale, long "
        "long kv_row, float eps)\n{\n    %s"
        "    typedef stem_mla_new<%s, %s, %lld, %u, %u, %s> fresh;\n"
        "    stem_mla_part<%s, %lld, %lld, %lld, 1, %lld, %u, %u, %u, false, fresh, %s, %s>(q, cache, table, lens, nullptr, acc, "
        "ml, tokens, heads, pages, max_pages, 0, parts, scale, fresh(cache, kv, norm, pos, slot, turns, tokens, pages * "
        "%lld, kv_row, (float)%.17g, eps));\n}\n",
        type, type, type, type, index, stem_rope_table(a, "turns", turns, turned), type, index, (long long)s.latent,
        turned, tokens, interleaved ? "true" : "false", type, (long long)s.width, (long long)s.latent,
        (long long)s.rows, (long long)s.page, shape.wk, shape.tile, shape.stages, how, one ? "true" : "false",
        (long long)s.page, amplitude);
    l->kernel = stem_kernel_name(a, "stem_mla_store_part_", body, strlen(body));
    l->code =
        stem_arena_printf(a, "extern \"C\" __global__ void __launch_bounds__(%d) %s%s", THREADS, l->kernel, body);
}

static bool range(const struct stem_concrete *c, uint32_t i, int64_t *low, int64_t *high)
{
    const struct stem_tensor *cache = &c->operand[CACHE];
    int64_t positions = c->operand[TABLE].dim[1] * cache->dim[1];
    *low = i == LENS;
    *high = i == TABLE ? cache->dim[0] - 1 : positions;
    return i == TABLE || i == LENS;
}

const struct stem_op_def stem_op_mla_store_part = {
    .name = "mla_store_part",
    .blurb = "mla_store, then attention_part of the cache that it leaves",
    .params = {{"q", STEM_MODE_IN, false, false},
               {"cache", STEM_MODE_INOUT, false, false},
               {"table", STEM_MODE_IN, false, false},
               {"lens", STEM_MODE_IN, false, false},
               {"kv", STEM_MODE_IN, false, true},
               {"norm", STEM_MODE_IN, false, false},
               {"pos", STEM_MODE_IN, false, false},
               {"slot", STEM_MODE_IN, false, false}},
    .n_params = N_IN,
    .attrs = {STEM_PART_ATTRS, STEM_ROPE_ATTRS, {"eps", STEM_ATTR_TYPE_FLOAT, false, 1e-6, NULL, NULL}},
    .n_attrs = STEM_N_PART_ATTRS + STEM_ROPE_N_ATTRS + 1,
    .results = {"acc", "ml"},
    .internal = true,
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_mla_store_part_reference,
    .range = range,
};
