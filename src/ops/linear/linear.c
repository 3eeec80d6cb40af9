/* SPDX-License-Identifier: Apache-2.0
 *
 * linear: y[.., N] = x[.., K] times the transpose of w[N, K]; the layout of a weight in every model file.
 * One launch whatever the shape. Few rows of w and a long k are spread over the multiprocessors by a thread-block
 * cluster whose blocks share out k and add up through distributed shared memory, so there is no second launch, no
 * workspace and no atomic; before sm_90 the blocks of a cluster are one block.
 */
#include "ops/linear/linear.h"

#include "ops/epilogue.h"
#include "ops/linear/format.h"
#include "ops/rule.h"

static const struct stem_format_operands scales = {.op = "linear",
                                                   .what = "w",
                                                   .scale_name = "scale",
                                                   .tensor_name = "tensor_scale",
                                                   .x = 0,
                                                   .weight = 1,
                                                   .scale = 2,
                                                   .tensor = 3,
                                                   .halves = 1,
                                                   .per = 1,
                                                   .x_scale = 4};

static bool infer(struct stem_infer *c)
{
    const struct stem_type *x = &c->in[0], *w = &c->in[1];
    const char *out = stem_op_attr(&stem_op_linear, c->attrs, "out")->text;
    bool coded = x->dtype == STEM_F8E4M3;
    enum stem_dtype type = out ? stem_dtype_from_name(out) : coded ? STEM_BF16 : x->dtype;
    if (!stem_stream_is_float(x->dtype) && !coded) {
        stem_error(c->diags, STEM_E_OP_DTYPE, c->operand_span[0], "linear takes bf16, f16, f32 or, with its scales, f8e4m3, not %s",
                   stem_dtype_name(x->dtype));
        return false;
    }
    if (!stem_stream_is_float(type)) {
        stem_error(c->diags, STEM_E_OP_ATTR, c->span, "linear: out is bf16, f16 or f32, not %s", out);
        return false;
    }
    if (x->rank < 1) {
        stem_error(c->diags, STEM_E_OP_RANK, c->operand_span[0], "linear needs at least one dimension of x");
        return false;
    }
    if (w->rank != 2) {
        stem_error(c->diags, STEM_E_OP_RANK, c->operand_span[1],
                   "linear needs a weight of 2 dimensions [N, K], not %u", w->rank);
        return false;
    }
    if (!stem_dim_same(x->dim[x->rank - 1], w->dim[1])) {
        stem_error(c->diags, STEM_E_OP_SHAPE, c->operand_span[1],
                   "the last sizes of x and w differ: linear multiplies x[.., K] by w[N, K]");
        return false;
    }
    if (!stem_format_check(c, &scales))
        return false;
    c->out[0] = *x;
    c->out[0].dtype = type;
    c->out[0].dim[x->rank - 1] = w->dim[0];
    return true;
}

/* Sizes of the product: m rows of x, n rows of w. */
struct product {
    int64_t m, n, k;
};

static struct product product_of(const struct stem_concrete *c)
{
    const struct stem_tensor *x = &c->operand[0], *w = &c->operand[1];
    struct product p = {1, w->dim[0], w->dim[1]};
    for (uint32_t i = 0; i + 1 < x->rank; i++)
        p.m *= x->dim[i];
    return p;
}

/* The kernel is made to stream weights: with many tokens it comes to this share of the tensor cores' rate, in every format
 * (an H200, 60 to 110 of 800 Tflop/s; docs/kernels_measured.md). */
#define EFFICIENCY (1.0 / 9)

static void cost(const struct stem_concrete *c, struct stem_cost *cost)
{
    struct product p = product_of(c);
    uint64_t size = stem_dtype_bits(c->operand[0].dtype) / 8;
    uint64_t weights = stem_format_bytes(c->operand[1].dtype, p.n, p.k);
    uint64_t blocks = (uint64_t)((p.n + 15) / 16) * (uint64_t)((p.m + 63) / 64) * (uint64_t)(p.k >= 2048 ? 8 : 1);
    *cost =
        (struct stem_cost){.bytes_read = (uint64_t)(p.m * p.k) * size + weights,
                           .bytes_written = (uint64_t)(p.m * p.n) * stem_dtype_bits(c->operand[c->n_in].dtype) / 8,
                           .flops = 2 * (uint64_t)(p.m * p.n) * (uint64_t)p.k,
                           .blocks = blocks > UINT32_MAX ? UINT32_MAX : (uint32_t)blocks,
                           .efficiency = EFFICIENCY};
}

static uint32_t power_of_two_up_to(int64_t n, uint32_t most)
{
    uint32_t p = 1;
    while (p * 2 <= most && p * 2 <= n)
        p *= 2;
    return p;
}

/* `more`: rows of each stage beside weights and tokens, which come with as many sums of a token. */
static uint32_t smem_of(const struct stem_linear_shape *s, uint32_t more)
{
    uint32_t warps = s->kparts * s->groups, mailbox = 16;
    return warps * s->stages * (16 + s->rows * s->nt + more) * 128 + stem_stream_tile_bytes(s->nt, warps) +
           (s->cluster > 1 ? s->groups * s->nt * 8 * (16 + more) * 4 + mailbox : 0);
}

/* More items than two blocks of every multiprocessor take at once, but no more than three with rings of two stages. */
static bool fits_at_once(const struct stem_linear_shape *s, int64_t tiles, uint32_t more, const struct stem_target *t)
{
    struct stem_linear_shape shorter = *s;
    int64_t items = (tiles + s->groups - 1) / s->groups;
    shorter.stages = 2;
    return items > 2 * (int64_t)t->n_sms && items <= 3 * (int64_t)t->n_sms &&
           stem_stream_sm_smem(t) / (smem_of(&shorter, more) + 1024) >= 3;
}

/* Rings that hold all that a warp multiplies, if every block is resident then: the weights are there before the tokens
 * are, and the next kernel finds room. Where that is many blocks, half as many warps leave it registers, too. */
static bool hold_all(struct stem_linear_shape *s, int64_t tiles, int64_t chunks, uint32_t more, const struct stem_target *t)
{
    struct stem_linear_shape whole = *s;
    int64_t blocks = (tiles + s->groups - 1) / s->groups * s->cluster;
    for (whole.kparts = blocks > 2 * (int64_t)t->n_sms && s->kparts == 8 ? 4 : s->kparts; whole.kparts <= s->kparts;
         whole.kparts *= 2) {
        int64_t parts = whole.kparts * whole.cluster, share = (chunks + parts - 1) / parts, warps = whole.kparts * s->groups;
        whole.stages = (uint32_t)(share < 5 ? share : 5);
        if (share <= 4 && blocks * warps <= 32 * (int64_t)t->n_sms &&
            blocks <= (int64_t)t->n_sms * (stem_stream_sm_smem(t) / (smem_of(&whole, more) + 1024))) {
            *s = whole;
            return true;
        }
    }
    return false;
}

/* The deepest rings with which two blocks fit into half of a multiprocessor, or one if each has but one; and no more
 * blocks than fit there. */
static void leave_room(struct stem_linear_shape *s, int64_t tiles, uint32_t more, const struct stem_target *t)
{
    struct stem_linear_shape less = *s;
    int64_t all = (tiles + s->groups - 1) / s->groups * s->cluster;
    uint32_t blocks = all <= t->n_sms ? 1 : 2;
    for (; less.stages >= 2; less.stages--) {
        less.smem = smem_of(&less, more);
        less.per_sm = stem_stream_sm_smem(t) / 2 / (less.smem + 1024);
        if (less.per_sm >= blocks) {
            less.whole = s->whole && less.stages == s->stages && all <= (int64_t)t->n_sms * less.per_sm;
            *s = less;
            return;
        }
    }
}

struct stem_linear_shape stem_linear_shape(int64_t m, int64_t n, int64_t k, uint32_t more, bool shares,
                                           const struct stem_target *t)
{
    int64_t chunks = (k + 63) / 64, tiles = (n + 15) / 16;
    struct stem_linear_shape s = {.nt = m <= 8 ? 1 : m <= 16 ? 2 : m <= 32 ? 4 : 8, .cluster = 1};
    s.rows = m <= 1 ? 1 : m <= 2 ? 2 : m <= 4 ? 4 : 8;
    uint32_t warps = 8;
    for (;;) {
        /* A short k is no work to share: small blocks find room beside those of another kernel. */
        s.kparts = chunks <= 4 && s.nt <= 2 ? 1 : power_of_two_up_to(chunks, warps);
        if (s.kparts == 1 && warps > 2)
            warps = 2;
        s.groups = warps / s.kparts;
        if (t->sm >= 90) { /* as long as every block of the grid is resident at once */
            int64_t blocks = (tiles + s.groups - 1) / s.groups;
            s.cluster = power_of_two_up_to(t->n_sms * (s.nt == 8 ? 1 : 2) / (blocks ? blocks : 1), 8);
            s.cluster = power_of_two_up_to(chunks / s.kparts, s.cluster);
        }
        int64_t share = (chunks + s.kparts * s.cluster - 1) / (s.kparts * s.cluster);
        s.stages = s.nt == 1 ? 4 : s.nt == 2 ? 3 : 2;
        s.whole = s.nt == 1 && hold_all(&s, tiles, chunks, more, t);
        if (!s.whole && share * ((tiles + s.groups - 1) / s.groups) <= 2 * (int64_t)t->n_sms && share < s.stages)
            s.stages = (uint32_t)share;
        if (s.nt == 2 && fits_at_once(&s, tiles, more, t))
            s.stages = 2;
        s.smem = smem_of(&s, more);
        if (s.smem <= stem_stream_block_smem(t)) {
            s.per_sm = stem_stream_sm_smem(t) / (s.smem + 1024);
            if (shares)
                leave_room(&s, tiles, more, t);
            return s;
        }
        if (warps > 4)
            warps /= 2;
        else
            s.nt /= 2;
    }
}

static void lower_plain(const struct stem_concrete *c, struct product p, const char *x, const char *y,
                        const char *name, struct stem_arena *a, struct stem_lowered *l)
{
    struct stem_store s;
    const char *define, *kernel = stem_arena_printf(a, "stem_linear_plain_%s", name);
    stem_epilogue_store(c, kernel, "n", a, &s, &define);
    l->kernel = stem_arena_printf(a, "%s%s", kernel, s.name);
    l->code = stem_arena_printf(a,
                                "%sextern \"C\" __global__ void __launch_bounds__(128) %s(const %s *x, const %s *w, "
                                "%s%s%s *y, int m, int n, int k)\n{\n"
                                "    stem_linear_plain_to<%s, %s>(x, w, %s, m, n, k);\n}\n",
                                define, l->kernel, x, x, stem_format_rest(c, 2, a), s.params, y, x,
                                s.pair ? "true" : "false", s.make);
    l->grid[0] = (uint32_t)((p.n / (s.pair ? 2 : 1) + 3) / 4);
    l->grid[1] = (uint32_t)((p.m + 7) / 8);
    l->block[0] = 128;
}

static void lower_stream(const struct stem_concrete *c, struct product p, const char *x, const char *y,
                         const char *name, const struct stem_target *t, struct stem_arena *a, struct stem_lowered *l)
{
    struct stem_linear_shape s = stem_linear_shape(p.m, p.n, p.k, 0, c->shares, t);
    struct stem_store store;
    const char *define;
    bool early = c->constant >> 1 & 1;
    uint32_t threads = 32 * s.kparts * s.groups;
    const char *kernel = stem_arena_printf(a, "stem_linear_%s_n%u_r%u_s%u%s_k%u_g%u_c%u%s", name, s.nt, s.rows, s.stages,
                                           s.whole ? "a" : "", s.kparts, s.groups, s.cluster, early ? "_w" : "");
    stem_epilogue_store(c, kernel, "n", a, &store, &define);
    const char *cluster = s.cluster > 1 ? stem_arena_printf(a, " __cluster_dims__(%u, 1, 1)", s.cluster) : "";
    int64_t each = (store.pair ? 8 : 16) * s.groups, columns = p.n / (store.pair ? 2 : 1);
    int64_t items = (columns + each - 1) / each;
    int64_t most = (int64_t)t->n_sms * s.per_sm; /* resident at once */
    l->kernel = stem_arena_printf(a, "%s%s", kernel, store.name);
    l->code = stem_arena_printf(a,
                                "%sextern \"C\" __global__ void __launch_bounds__(%u)%s %s(const %s *x, const %s *w, "
                                "%s%s%s *y, int m, int n, int k)\n"
                                "{\n    stem_linear_to<%s, %u, %u, %u, %u, %u, %s, %s, %u, %s>(x, w, %s, m, n, k);\n}\n",
                                define, threads, cluster, l->kernel, x, x, stem_format_rest(c, 2, a), store.params, y,
                                x, s.nt, s.stages, s.kparts, s.groups, s.cluster, early ? "true" : "false",
                                store.pair ? "true" : "false", s.rows, s.whole ? "true" : "false", store.make);
    l->early = early ? 1u << 1 : 0;
    l->ahead = early && s.whole;
    l->grid[0] = (uint32_t)(items < most ? items : most) * s.cluster;
    l->grid[1] = (uint32_t)((p.m + 8 * s.nt - 1) / (8 * s.nt));
    l->block[0] = threads;
    l->smem = s.smem;
}

static void lower(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                  struct stem_lowered *l)
{
    struct product p = product_of(c);
    enum stem_dtype in = c->operand[0].dtype, out = c->operand[c->n_in].dtype;
    const char *x = stem_stream_type(in), *y = stem_c_type(out);
    const char *types =
        stem_arena_printf(a, "%s_%s%s", stem_dtype_name(in), stem_dtype_name(out), stem_format_tag(c, 2, a));
    *l = (struct stem_lowered){.work = STEM_WORK_LAUNCH,
                               .headers = {"common", "pointwise", "stream", "linear"},
                               .grid = {1, 1, 1},
                               .block = {1, 1, 1},
                               .n_scalars = 3,
                               .waits = true};
    l->scalars[0] = (struct stem_scalar){STEM_SCALAR_I32, {.i = p.m}};
    l->scalars[1] = (struct stem_scalar){STEM_SCALAR_I32, {.i = p.n}};
    l->scalars[2] = (struct stem_scalar){STEM_SCALAR_I32, {.i = p.k}};
    if (stem_format_scaled(c->operand[1].dtype))
        stem_linear_lower_packed(c, t, a, l);
    else if (stem_stream_fits(&c->operand[0], &c->operand[1], p.k))
        lower_stream(c, p, x, y, types, t, a, l);
    else
        lower_plain(c, p, x, y, types, a, l);
}

const struct stem_op_def stem_op_linear = {
    .name = "linear",
    .blurb = "y[.., N] = x[.., K] times w[N, K] transposed; f32 sums, one rounding",
    .params = {{"x", STEM_MODE_IN, false, false},
               {"w", STEM_MODE_IN, false, false},
               {"scale", STEM_MODE_IN, true, false},
               {"tensor_scale", STEM_MODE_IN, true, false},
               {"x_scale", STEM_MODE_IN, true, false}},
    .n_params = 5,
    .attrs = {{"out", STEM_ATTR_TYPE_DTYPE, false, 0, NULL, NULL}, STEM_EPILOGUE_ATTRS},
    .n_attrs = 1 + STEM_N_EPILOGUE_ATTRS,
    .epilogue = true,
    .halves = true,
    .can_share = true,
    .results = {"y"},
    .infer = infer,
    .cost = cost,
    .lower = lower,
    .reference = stem_linear_reference,
};
