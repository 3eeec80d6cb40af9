/* SPDX-License-Identifier: Apache-2.0
 *
 * gqa_store_part: gqa_store, then attention_part of its queries and of the caches that it leaves, in one launch with the bits
 * of the two (gqa_new.cuh). No other launch writes the caches, so their rows may be loaded before this one waits. Made by the
 * fuse pass, only where stem_gqa_store_part_fits.
 */
#include <stdlib.h>
#include <string.h>

#include "ops/attention/attention.h"
#include "ops/gqa_store/gqa_store.h"
#include "ops/linear/linear.h"
#include "ops/rope/rope.h"
#include "ops/rule.h"

/* MOST_TOKENS: more take longer than in two launches. */
enum { MOST_TOKENS = 4, K = 0, V, TABLE, LENS, X, Q_NORM, K_NORM, POS, SLOT, N_IN, STORE_IN = 7 };

/* What the two ops see; their attributes follow each other. */
struct two {
    struct stem_tensor part_operand[7], store_operand[STORE_IN + 1];
    struct stem_concrete part, store;
};

static void split(const struct stem_concrete *c, struct two *r)
{
    const struct stem_tensor *o = c->operand;
    int64_t heads = o[X].dim[1] - 2 * o[K].dim[2], width = o[X].dim[2];
    const struct stem_tensor q = {.dtype = o[X].dtype, .rank = 3, .buffer = STEM_NONE, .dim = {o[X].dim[0], heads, width},
                                  .stride = {heads * width, width, 1}};
    const struct stem_tensor part[] = {q, o[K], o[V], o[TABLE], o[LENS], o[N_IN], o[N_IN + 1]};
    const struct stem_tensor store[] = {o[K], o[V], o[X], o[Q_NORM], o[K_NORM], o[POS], o[SLOT], q};
    memcpy(r->part_operand, part, sizeof part);
    memcpy(r->store_operand, store, sizeof store);
    r->part = (struct stem_concrete){.def = &stem_op_attention_part, .operand = r->part_operand, .n_in = 5, .n_out = 2,
                                     .attrs = c->attrs, .n_attrs = STEM_N_PART_ATTRS};
    r->store = (struct stem_concrete){.def = &stem_op_gqa_store, .operand = r->store_operand, .n_in = STORE_IN, .n_out = 1,
                                      .attrs = c->attrs + STEM_N_PART_ATTRS, .n_attrs = stem_op_gqa_store.n_attrs};
}

void stem_gqa_store_part_reference(const struct stem_concrete *c, void *const *data)
{
    struct two two;
    split(c, &two);
    void *q = stem_xmalloc(stem_tensor_elements(&two.part_operand[0]) * stem_dtype_bits(two.part_operand[0].dtype) / 8);
    stem_gqa_store_reference(&two.store, (void *const[]){data[K], data[V], data[X], data[Q_NORM], data[K_NORM], data[POS],
                                                         data[SLOT], q});
    stem_attention_part_reference(&two.part, (void *const[]){q, data[K], data[V], data[TABLE], data[LENS], data[N_IN],
                                                             data[N_IN + 1]});
    free(q);
}

bool stem_gqa_store_part_fits(const struct stem_concrete *part, const struct stem_concrete *store,
                              const struct stem_target *t)
{
    struct stem_attention_sizes s = stem_attention_sizes_of(part);
    struct stem_gqa_shape shape;
    return t->sm >= 90 && s.tokens <= MOST_TOKENS && s.page % 16 == 0 && store->operand[2].stride[2] == 1 &&
           stem_gqa_shape_of(part, &s, t, true, &shape);
}

/* There is but the one kernel. */
static bool takes(struct stem_infer *c, const struct stem_type *q)
{
    int64_t heads, groups, width, page, tokens, rows = stem_op_attr(&stem_op_gqa_store_part, c->attrs, "rows")->i;
    bool fine = stem_dim_value(c->dims, q->dim[1], &heads) && stem_dim_value(c->dims, c->in[K].dim[2], &groups) &&
                stem_dim_value(c->dims, q->dim[2], &width) && stem_dim_value(c->dims, c->in[K].dim[1], &page) &&
                stem_dim_value(c->dims, q->dim[0], &tokens) && (q->dtype == STEM_BF16 || q->dtype == STEM_F16) &&
                heads == rows * groups && rows <= 16 && width % 32 == 0 && width <= 256 && page % 16 == 0 && tokens <= 32 &&
                stem_op_attr(&stem_op_gqa_store_part, c->attrs, "latent")->i == width &&
                stem_op_attr(&stem_op_gqa_store_part, c->attrs, "unit")->i == STEM_GQA_UNIT;
    return fine || stem_rule_fail(c, STEM_E_OP_SHAPE, X, "gqa_store_part: no kernel for these sizes");
}

static bool infer(struct stem_infer *c)
{
    /* each op's own rule */
    static const uint32_t of_store[STORE_IN] = {K, V, X, Q_NORM, K_NORM, POS, SLOT};
    struct stem_type store[STORE_IN];
    struct stem_span store_span[STORE_IN];
    for (int i = 0; i < STORE_IN; i++) {
        store[i] = c->in[of_store[i]];
        store_span[i] = c->operand_span[of_store[i]];
    }
    struct stem_infer own = *c;
    own.in = store;
    own.operand_span = store_span;
    own.n_in = STORE_IN;
    own.attrs = c->attrs + STEM_N_PART_ATTRS;
    if (!stem_op_gqa_store.infer(&own))
        return false;
    const struct stem_type q = own.out[0], part[] = {q, c->in[K], c->in[V], c->in[TABLE], c->in[LENS]};
    struct stem_span part_span[] = {c->operand_span[X], c->operand_span[K], c->operand_span[V], c->operand_span[TABLE],
                                    c->operand_span[LENS]};
    own.in = part;
    own.operand_span = part_span;
    own.n_in = 5;
    own.attrs = c->attrs;
    if (!stem_op_attention_part.infer(&own))
        return false;
    for (int i = 0; i < 2; i++)
        c->out[i] = own.out[i];
    return takes(c, &q);
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    struct two two;
    struct stem_cost store;
    split(c, &two);
    stem_op_attention_part.cost(&two.part, cost);
    stem_op_gqa_store.cost(&two.store, &store);
    uint64_t q = stem_tensor_elements(&two.part_operand[0]) * stem_dtype_bits(two.part_operand[0].dtype) / 8;
    cost->bytes_read += store.bytes_read - q; /* queries stay where they are made */
    cost->bytes_written += store.bytes_written - q;
    cost->flops += store.flops;
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    struct two two;
    split(c, &two);
    struct stem_attention_sizes s = stem_attention_sizes_of(&two.part);
    struct stem_gqa_shape shape;
    stem_gqa_shape_of(&two.part, &s, t, true, &shape);
    const struct stem_tensor *x = &c->operand[X];
    bool interleaved = stem_op_attr(c->def, c->attrs, "interleaved")->i;
    bool q_norm = c->operand[Q_NORM].rank != STEM_NONE, k_norm = c->operand[K_NORM].rank != STEM_NONE;
    double turns[STEM_ROPE_MAX / 2],
        amplitude = stem_rope_turns(two.store.def, two.store.attrs, (uint32_t)s.width, turns);
    uint32_t norms = (q_norm ? 1u << Q_NORM : 0) | (k_norm ? 1u << K_NORM : 0);
    bool early = (c->constant & norms) == norms;
    const char *type = stem_stream_type(x->dtype), *index = stem_c_type(c->operand[POS].dtype);
    *l = (struct stem_lowered){
        .work = STEM_WORK_LAUNCH,
        .headers = {"common", "stream", "rope", "gqa_store", "attention", "gqa_part", "gqa_new"},
        .grid = {(uint32_t)s.parts, 1, 1},
        .block = {STEM_GQA_THREADS, 1, 1},
        .smem = shape.smem,
        .waits = true,
        .early = 1u << K | 1u << V | 1u << TABLE | 1u << LENS | 1u << POS | 1u << SLOT | (early ? norms : 0),
    };
    stem_attention_scalars(&s, stem_op_attr(c->def, c->attrs, "scale")->f, l);
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I64, {.i = x->stride[0]}};
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I64, {.i = x->stride[1]}};
    l->scalars[l->n_scalars++] =
        (struct stem_scalar){.kind = STEM_SCALAR_F32, .f = stem_op_attr(c->def, c->attrs, "eps")->f};
    bool one = s.tokens == 1 && s.most / s.unit < 1 << 15 && s.parts * s.groups < 1 << 15;
    const char *body = stem_arena_printf(
        a,
        "(%s *k, %s *v, const int *table, const int *lens, const %s *x, const %s *q_norm, const %s *k_norm, const %s *pos, "
        "const int *slot, float *acc, float *ml, int tokens, int heads, int pages, int max_pages, int, int parts, float scale, "
        "long long token_stride, long long head_stride, float eps)\n{\n    %s"
        "    typedef stem_gqa_new<%s, %s, %lld, %lld, %lld, %u, %s, %s, %s, %s> fresh;\n"
        "    stem_gqa_part<%s, %lld, %lld, %lld, %lld, %u, fresh, %s>(nullptr, k, v, table, lens, acc, ml, tokens, heads, pages, "
        "max_pages, parts, scale, fresh(k, v, x, q_norm, k_norm, pos, slot, turns, tokens, pages * %lld, token_stride, "
        "head_stride, (float)%.17g, eps));\n}\n",
        type, type, type, type, type, index, stem_rope_table(a, "turns", turns, (uint32_t)s.width), type, index,
        (long long)s.width, (long long)s.rows, (long long)s.groups, stem_gqa_store_width(&two.store), interleaved ? "true" : "false",
        q_norm ? "true" : "false", k_norm ? "true" : "false", early ? "true" : "false", type, (long long)s.width,
        (long long)s.rows, (long long)s.groups, (long long)s.page, shape.stages, one ? "true" : "false", (long long)s.page,
        amplitude);
    l->kernel = stem_kernel_name(a, "stem_gqa_store_part_", body, strlen(body));
    l->code = stem_arena_printf(a, "extern \"C\" __global__ void __launch_bounds__(%d) %s%s", STEM_GQA_THREADS, l->kernel,
                                body);
}

static bool range(const struct stem_concrete *c, uint32_t i, int64_t *low, int64_t *high)
{
    const struct stem_tensor *k = &c->operand[K];
    int64_t positions = c->operand[TABLE].dim[1] * k->dim[1];
    *low = i == LENS;
    *high = i == TABLE ? k->dim[0] - 1 : positions;
    return i == TABLE || i == LENS;
}

const struct stem_op_def stem_op_gqa_store_part = {
    .name = "gqa_store_part",
    .blurb = "gqa_store, then attention_part of its queries and of the caches that it leaves",
    .params = {{"k", STEM_MODE_INOUT, false, false},
               {"v", STEM_MODE_INOUT, false, false},
               {"table", STEM_MODE_IN, false, false},
               {"lens", STEM_MODE_IN, false, false},
               {"x", STEM_MODE_IN, false, true},
               {"q_norm", STEM_MODE_IN, true, false},
               {"k_norm", STEM_MODE_IN, true, false},
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
    .reference = stem_gqa_store_part_reference,
    .range = range,
};
