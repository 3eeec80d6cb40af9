/* SPDX-License-Identifier: Apache-2.0
 *
 * norm_query: q = norm_linear(x, norm, w), and y = mla_query(view(q[.., 0:H * (K + R)], [T, H, K + R]), up, pos), in one launch
 * with the bits of the two (norm_query.cuh). Made by the fuse pass, only where stem_norm_query_fits.
 */
#include <string.h>

#include "ops/linear/linear.h"
#include "ops/mla/mla.h"
#include "ops/rope/rope.h"
#include "ops/rule.h"

enum { X = 0, NORM, W, UP, POS, N_IN, Q = N_IN, Y, THREADS = 256, WARPS = THREADS / 32, ABSORBED = 128, COLUMNS = 64, MOST_ROW = 8192,
       MOST_TOKENS = 1 /* with more the two launches take no longer */ };

/* What the two ops see; the attributes of mla_query are the first ones. */
struct two {
    struct stem_tensor linear_operand[4], query_operand[4];
    struct stem_attr linear_attr[STEM_MAX_ATTRS];
    struct stem_concrete linear, query;
};

/* The head of a token is a row of its own. */
static struct stem_tensor heads_of(const struct stem_tensor *q, int64_t heads, int64_t each)
{
    struct stem_tensor v = *q;
    v.rank = 3;
    v.dim[0] = q->dim[0];
    v.dim[1] = heads;
    v.dim[2] = each;
    v.stride[0] = q->stride[0];
    v.stride[1] = each;
    v.stride[2] = 1;
    return v;
}

static void split(const struct stem_concrete *c, struct two *r)
{
    const struct stem_tensor *o = c->operand;
    const struct stem_tensor linear[] = {o[X], o[NORM], o[W], o[Q]};
    const struct stem_tensor query[] = {heads_of(&o[Q], o[Y].dim[1], o[UP].dim[1] + o[Y].dim[2] - o[UP].dim[2]), o[UP], o[POS],
                                        o[Y]};
    memcpy(r->linear_operand, linear, sizeof linear);
    memcpy(r->query_operand, query, sizeof query);
    stem_op_attr_defaults(&stem_op_norm_linear, r->linear_attr);
    ((struct stem_attr *)stem_op_attr(&stem_op_norm_linear, r->linear_attr, "eps"))->f = stem_op_attr(c->def, c->attrs, "eps")->f;
    r->linear = (struct stem_concrete){.def = &stem_op_norm_linear, .operand = r->linear_operand, .n_in = 3, .n_out = 1,
                                       .attrs = r->linear_attr, .n_attrs = stem_op_norm_linear.n_attrs};
    r->query = (struct stem_concrete){.def = &stem_op_mla_query, .operand = r->query_operand, .n_in = 3, .n_out = 1,
                                      .attrs = c->attrs, .n_attrs = STEM_ROPE_N_ATTRS};
}

void stem_norm_query_reference(const struct stem_concrete *c, void *const *data)
{
    struct two two;
    split(c, &two);
    stem_op_norm_linear.reference(&two.linear, (void *const[]){data[X], data[NORM], data[W], data[Q]});
    stem_mla_query_reference(&two.query, (void *const[]){data[Q], data[UP], data[POS], data[Y]});
}

/* How it is cut; `stages` of a warp, of so many `rows` of tokens. */
struct cut {
    uint32_t cluster, mine, rows, stages, parts, clusters, smem;
};

static bool cut_of(const struct stem_concrete *linear, const struct stem_concrete *query, const struct stem_target *t, struct cut *r)
{
    const struct stem_tensor *w = &linear->operand[2], *up = &query->operand[1], *q = &query->operand[0];
    int64_t tokens = q->dim[0], wide = q->dim[2], cluster = up->dim[2] / COLUMNS, n = w->dim[0], k = w->dim[1];
    struct stem_linear_shape s = stem_linear_shape(tokens, n, k, 1, false, t);
    if (up->dim[1] != ABSORBED || up->dim[2] % COLUMNS || cluster > 8 || (cluster & (cluster - 1)) || wide % (8 * cluster) ||
        (wide - ABSORBED) % (2 * cluster) || (wide - ABSORBED) % 16 || n % 8 || s.kparts != WARPS || s.groups != 1 || s.nt != 1)
        return false;
    *r = (struct cut){.cluster = (uint32_t)cluster, .mine = (uint32_t)(wide / cluster), .rows = s.rows,
                      .stages = (uint32_t)((k + 64 * WARPS - 1) / (64 * WARPS)), .parts = s.cluster,
                      .clusters = (uint32_t)((n + wide - 1) / wide)};
    /* stem_norm_query_smem */
    r->smem = WARPS * r->stages * (r->mine + r->rows + 1) * 128 +
              r->rows * (r->parts * (r->mine + 1) * 8 + COLUMNS * 8 + (uint32_t)wide) * 4 + 16;
    uint32_t turners = r->rows * (uint32_t)((wide - ABSORBED) / (2 * cluster));
    return r->mine >= 16 && r->mine <= 32 && r->parts <= r->stages && turners <= THREADS && r->rows * cluster >= 8 &&
           r->smem <= stem_stream_block_smem(t) &&
           r->clusters * cluster <= t->n_sms * (stem_stream_sm_smem(t) / (r->smem + 1024));
}

static bool fits(const struct stem_concrete *linear, const struct stem_concrete *query, const struct stem_target *t, struct cut *cut)
{
    const struct stem_tensor *x = &linear->operand[0], *norm = &linear->operand[1], *up = &query->operand[1];
    bool rows = x->rank == 2 && x->stride[1] == 1 && (x->dim[0] == 1 || x->stride[0] % 8 == 0) && x->stride[0] <= INT32_MAX &&
                norm->dtype == x->dtype && norm->offset % 16 == 0;
    bool heads = up->stride[2] == 1 && up->offset % 16 == 0 && up->stride[1] % 8 == 0 &&
                 (up->dim[0] == 1 || up->stride[0] % 8 == 0);
    return t->sm >= 90 && rows && heads && stem_stream_fits(x, &linear->operand[2], linear->operand[2].dim[1]) &&
           linear->operand[3].dtype == x->dtype && cut_of(linear, query, t, cut);
}

bool stem_norm_query_fits(const struct stem_concrete *linear, const struct stem_concrete *query, const struct stem_target *t)
{
    struct cut cut;
    return query->operand[0].dim[0] <= MOST_TOKENS && fits(linear, query, t, &cut);
}

static bool infer(struct stem_infer *c)
{
    struct stem_attr attrs[STEM_MAX_ATTRS];
    struct stem_infer own = *c;
    int64_t heads, k, row, wide;
    stem_op_attr_defaults(&stem_op_norm_linear, attrs);
    ((struct stem_attr *)stem_op_attr(&stem_op_norm_linear, attrs, "eps"))->f = stem_op_attr(&stem_op_norm_query, c->attrs, "eps")->f;
    own.n_in = 3;
    own.attrs = attrs;
    if (!stem_op_norm_linear.infer(&own))
        return false;
    c->out[0] = own.out[0];
    if (c->out[0].rank != 2 || !stem_dim_value(c->dims, c->out[0].dim[1], &wide) || c->in[UP].rank != 3 ||
        !stem_dim_value(c->dims, c->in[UP].dim[0], &heads) || !stem_dim_value(c->dims, c->in[UP].dim[1], &k))
        return stem_rule_fail(c, STEM_E_OP_SHAPE, UP, "norm_query takes x[T, K], w[N, K] and up[heads, K, latent]");
    row = heads > 0 ? stem_op_attr(&stem_op_norm_query, c->attrs, "row")->i : 0;
    if (row <= k || row > MOST_ROW || heads * row > wide)
        return stem_rule_fail(c, STEM_E_OP_SHAPE, W, "norm_query: there must be %lld rows for each head", (long long)row);
    struct stem_type q = c->out[0];
    q.rank = 3;
    q.dim[1] = stem_dim_const(c->dims, heads);
    q.dim[2] = stem_dim_const(c->dims, row);
    const struct stem_type query[] = {q, c->in[UP], c->in[POS]};
    own = *c;
    own.in = query;
    own.operand_span = (const struct stem_span[]){c->operand_span[W], c->operand_span[UP], c->operand_span[POS]};
    own.n_in = 3;
    if (!stem_op_mla_query.infer(&own))
        return false;
    c->out[1] = own.out[0];
    return true;
}

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    struct two two;
    struct stem_cost query;
    split(c, &two);
    stem_op_norm_linear.cost(&two.linear, cost);
    stem_op_mla_query.cost(&two.query, &query);
    cost->bytes_read += query.bytes_read - stem_tensor_elements(&two.query_operand[0]) * stem_dtype_bits(c->operand[X].dtype) / 8;
    cost->bytes_written += query.bytes_written;
    cost->flops += query.flops;
}

/* What both kernels are made of. */
struct text {
    uint32_t turned;
    const char *type, *index, *interleaved, *table;
    double amplitude;
};

static struct text text_of(const struct stem_concrete *c, const struct two *two, struct stem_arena *a)
{
    double turns[STEM_ROPE_MAX / 2];
    struct text r = {.turned = (uint32_t)(c->operand[Y].dim[2] - c->operand[UP].dim[2]),
                     .type = stem_stream_type(c->operand[X].dtype),
                     .index = stem_c_type(c->operand[POS].dtype),
                     .interleaved = stem_op_attr(c->def, c->attrs, "interleaved")->i ? "true" : "false"};
    r.amplitude = stem_rope_turns(two->query.def, two->query.attrs, r.turned, turns);
    r.table = stem_rope_table(a, "turns", turns, r.turned);
    return r;
}

static void lower_stream(const struct text *x, const struct cut *cut, struct stem_arena *a, struct stem_lowered *l)
{
    const char *body = stem_arena_printf(
        a,
        "(const %s *x, const %s *norm, const %s *w, const %s *up, const %s *pos, %s *q, %s *y, int tokens, int heads, int n, int k, "
        "long long distance, long long uh, long long ur, float eps)\n{\n    %s"
        "    stem_norm_query<%s, %s, %u, %u, %u, %u, %u, %s>(x, (int)distance, norm, w, up, pos, q, y, turns, (float)%.17g, "
        "tokens, heads, n, k, uh, ur, eps);\n}\n",
        x->type, x->type, x->type, x->type, x->index, x->type, x->type, x->table, x->type, x->index, cut->mine,
        cut->cluster, cut->rows, cut->stages, cut->parts, x->interleaved,  x->amplitude);
    l->kernel = stem_kernel_name(a, "stem_norm_query_", body, strlen(body));
    l->code = stem_arena_printf(a, "extern \"C\" __global__ void __launch_bounds__(%d) __cluster_dims__(%u, 1, 1) %s%s", THREADS,
                                cut->cluster, l->kernel, body);
    l->grid[0] = cut->clusters * cut->cluster;
    l->smem = cut->smem;
    l->early = 1u << NORM | 1u << W | 1u << UP | 1u << POS;
}

static void lower_plain(const struct stem_concrete *c, const struct text *x, struct stem_arena *a, struct stem_lowered *l)
{
    const struct stem_tensor *y = &c->operand[Y], *up = &c->operand[UP];
    int64_t row = up->dim[1] + x->turned, n = c->operand[W].dim[0];
    const char *body = stem_arena_printf(
        a,
        "(const %s *x, const %s *norm, const %s *w, const %s *up, const %s *pos, %s *q, %s *y, int, int heads, int n, int k, long "
        "long xt, long long uh, long long ur, float eps, long long xk, long long uc)\n{\n    %s"
        "    stem_norm_query_plain<%s, %s, %s, %u, %s>(x, norm, w, up, pos, q, y, turns, (float)%.17g, %lld, %lld, heads, n, k, xt, "
        "xk, uh, ur, uc, eps);\n}\n",
        x->type, stem_c_type(c->operand[NORM].dtype), x->type, x->type, x->index, x->type, x->type, x->table, x->type,
        stem_c_type(c->operand[NORM].dtype), x->index, x->turned, x->interleaved, x->amplitude, (long long)row,
        (long long)up->dim[2]);
    l->kernel = stem_kernel_name(a, "stem_norm_query_plain_", body, strlen(body));
    l->code = stem_arena_printf(a, "extern \"C\" __global__ void __launch_bounds__(%d) %s%s", THREADS, l->kernel, body);
    l->grid[0] = (uint32_t)(y->dim[0] * ((n + row - 1) / row));
    l->smem = (uint32_t)row * 4;
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I64, {.i = c->operand[X].stride[1]}};
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I64, {.i = up->stride[2]}};
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    const struct stem_tensor *x = &c->operand[X], *w = &c->operand[W], *up = &c->operand[UP];
    const int64_t small[] = {x->dim[0], up->dim[0], w->dim[0], w->dim[1]}, large[] = {x->stride[0], up->stride[0], up->stride[1]};
    struct two two;
    struct cut cut;
    split(c, &two);
    struct text text = text_of(c, &two, a);
    *l = (struct stem_lowered){.work = STEM_WORK_LAUNCH,
                               .headers = {"common", "pointwise", "stream", "linear", "norm_linear", "rope", "heads_linear",
                                           "norm_query"},
                               .grid = {1, 1, 1},
                               .block = {THREADS, 1, 1},
                               .waits = true};
    for (int i = 0; i < 4; i++)
        l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = small[i]}};
    for (int i = 0; i < 3; i++)
        l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I64, {.i = large[i]}};
    l->scalars[l->n_scalars++] =
        (struct stem_scalar){.kind = STEM_SCALAR_F32, .f = stem_op_attr(c->def, c->attrs, "eps")->f};
    if (fits(&two.linear, &two.query, t, &cut))
        lower_stream(&text, &cut, a, l);
    else
        lower_plain(c, &text, a, l);
}

const struct stem_op_def stem_op_norm_query = {
    .name = "norm_query",
    .blurb = "norm_linear, and mla_query of its first columns",
    .params = {{"x", STEM_MODE_IN, false, true},
               {"norm", STEM_MODE_IN, false, false},
               {"w", STEM_MODE_IN, false, false},
               {"up", STEM_MODE_IN, false, true},
               {"pos", STEM_MODE_IN, false, false}},
    .n_params = N_IN,
    .attrs = {STEM_ROPE_ATTRS,
              {"eps", STEM_ATTR_TYPE_FLOAT, false, 1e-6, NULL, NULL},
              {"row", STEM_ATTR_TYPE_INT, false, 192, NULL, NULL}}, /* elements of a head's query */
    .n_attrs = STEM_ROPE_N_ATTRS + 2,
    .results = {"q", "y"},
    .internal = true,
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_norm_query_reference,
};
