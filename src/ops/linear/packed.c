/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering of linear with weights that have scales.
 */
#include "ops/epilogue.h"
#include "ops/linear/format.h"
#include "ops/linear/linear.h"
#include "ops/rule.h"

/* Expression for operand i's address. */
static const char *pointer(const struct stem_concrete *c, uint32_t i, struct stem_arena *a)
{
    return stem_format_operand(c, i) ? stem_arena_printf(a, "p%u", i) : "nullptr";
}

static void lower_plain(const struct stem_concrete *c, struct stem_arena *a, struct stem_lowered *l)
{
    const char *format = stem_format_name(c->operand[1].dtype), *y = stem_c_type(c->operand[c->n_in].dtype), *define;
    const char *kernel = stem_arena_printf(a, "stem_linear_plain_%s_%s%s", stem_dtype_name(c->operand[1].dtype),
                                           stem_dtype_name(c->operand[c->n_in].dtype), stem_format_tag(c, 2, a));
    struct stem_store s;
    stem_epilogue_store(c, kernel, "n", a, &s, &define);
    l->kernel = stem_arena_printf(a, "%s%s", kernel, s.name);
    l->code = stem_arena_printf(
        a,
        "%sextern \"C\" __global__ void __launch_bounds__(128) %s(const __nv_bfloat16 *x, const void *w, %s%s%s *y, "
        "int m, int n, int k)\n{\n    stem_linear_packed_plain<%s, %s>(x, w, p2, %s, %s, m, n, k);\n}\n",
        define, l->kernel, stem_format_rest(c, 2, a), s.params, y, format, s.pair ? "true" : "false",
        pointer(c, 3, a), s.make);
    l->grid[0] = (uint32_t)((l->scalars[1].i / (s.pair ? 2 : 1) + 3) / 4);
    l->grid[1] = (uint32_t)((l->scalars[0].i + 7) / 8);
    l->block[0] = 128;
}

/* ---- tensor cores ---- */

/* How the kernel is cut (linear_packed.cuh). */
struct shape {
    uint32_t mt, nt, stages, kparts, groups, cluster, kept, smem, per_sm;
    bool keep;
};

static uint32_t ceil_div(int64_t a, int64_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

/* Blocks of a shape that a multiprocessor holds at once: by shared memory and by registers. 0: not even one. */
static uint32_t resident(const struct shape *s, const struct stem_target *t)
{
    if (s->smem > stem_stream_block_smem(t))
        return 0;
    uint32_t by_smem = stem_stream_sm_smem(t) / (s->smem + 1024);
    uint32_t by_registers = stem_format_blocks(s->mt, s->nt, s->kparts * s->groups);
    return by_smem < by_registers ? by_smem : by_registers;
}

static void size_up(struct shape *s, enum stem_dtype w, uint32_t tokens, uint32_t chunks, const struct stem_target *t)
{
    uint32_t warps = s->kparts * s->groups;
    s->kept = s->keep ? ceil_div(chunks, s->kparts * s->cluster) * stem_format_token_bytes(w) * tokens : 0;
    s->kept = (s->kept + 15) / 16 * 16;
    s->smem = warps * (s->stages * stem_format_stage_bytes(w, s->mt) + 8 * s->nt * (16 * s->mt + 4) * 4);
    s->smem += s->kparts * s->kept;
    s->smem += s->cluster > 1 ? s->groups * s->nt * 8 * 16 * s->mt * 4 : 0;
    s->per_sm = resident(s, t);
}

/* The most warps up to 8 that share out the chunks evenly. */
static uint32_t parts_of(uint32_t chunks)
{
    uint32_t best = 8, least = UINT32_MAX;
    for (uint32_t p = 8; p >= 1; p--) {
        uint32_t waste = ceil_div(chunks, p) * p - chunks;
        if (p <= chunks && (waste < least || (p >= 6 && waste == 0))) {
            least = waste;
            best = p;
        }
        if (least == 0 && p <= 6)
            break;
    }
    return best;
}

/* Measured on an H200 (docs/kernels.md): 32 rows to an item, two stages and as many parts of k as a block has warps
 * are best where the tokens fit; a cluster pays from four stages to an item on, or to occupy the multiprocessors.
 * Many tokens of a long k fit if a larger cluster shares them and rows are shared out over the warps instead of k. */
static struct shape shape_of(enum stem_dtype w, int64_t m, int64_t columns, int64_t k, bool pair,
                             const struct stem_target *t)
{
    static const uint32_t others[][3] = {{1, 8, 4}, {2, 4, 4}, {2, 4, 2}, {1, 4, 4}};
    uint32_t chunks = ceil_div(k, w == STEM_F8E4M3 ? 128 : 256), most = t->sm >= 90 ? 4 : 1;
    struct shape s = {.nt = m <= 8 ? 1 : m <= 16 ? 2 : m <= 32 ? 4 : 8, .stages = 2, .cluster = 1, .keep = true};
    uint32_t tokens = (uint32_t)(m < 8 * s.nt ? m : 8 * s.nt);
    s.mt = s.nt > 2 ? 1 : 2;
    s.kparts = parts_of(chunks);
    s.groups = 8 / s.kparts;
    int64_t items = ceil_div(columns, (int64_t)(pair ? 8 : 16) * s.mt * s.groups);
    uint32_t share = ceil_div(chunks, s.kparts);
    if (share >= 4 && most > 1)
        s.cluster = 2;
    while (items * s.cluster < t->n_sms * 3 / 4 && s.cluster < most && s.kparts * s.cluster * 2 <= chunks)
        s.cluster *= 2;
    if (items * s.cluster < t->n_sms / 2)
        s.mt = 1;
    size_up(&s, w, tokens, chunks, t);
    for (uint32_t i = 0; i < sizeof others / sizeof *others && !s.per_sm; i++) {
        if (others[i][2] > most || others[i][0] * others[i][2] > chunks)
            continue;
        s.kparts = others[i][0];
        s.groups = others[i][1];
        s.cluster = others[i][2];
        size_up(&s, w, tokens, chunks, t);
    }
    if (!s.per_sm) { /* tokens from the second-level cache, each time */
        s.keep = false;
        s.cluster = 1;
        s.kparts = parts_of(chunks);
        s.groups = 1;
        size_up(&s, w, tokens, chunks, t);
    }
    return s;
}

static bool fits(const struct stem_concrete *c, int64_t k)
{
    const struct stem_tensor *w = &c->operand[1], *scale = &c->operand[2];
    return c->operand[0].offset % 16 == 0 && w->offset % 16 == 0 && scale->offset % 16 == 0 &&
           k % (w->dtype == STEM_F8E4M3 ? 16 : 256) == 0;
}

static void lower_stream(const struct stem_concrete *c, const struct stem_store *store, const char *define,
                         const char *kernel, const struct shape *s, bool early, struct stem_arena *a,
                         struct stem_lowered *l)
{
    const char *cluster = s->cluster > 1 ? stem_arena_printf(a, " __cluster_dims__(%u, 1, 1)", s->cluster) : "";
    uint32_t threads = 32 * s->kparts * s->groups;
    l->kernel = stem_arena_printf(a, "%s%s", kernel, store->name);
    l->code = stem_arena_printf(
        a,
        "%sextern \"C\" __global__ void __launch_bounds__(%u, %u)%s %s(const __nv_bfloat16 *x, const void *w, %s%s%s "
        "*y, "
        "int m, int n, int k, int kept)\n{\n"
        "    stem_linear_packed<%s, %u, %u, %u, %u, %u, %u, %s, %s, %s>(x, w, p2, %s, %s, m, n, k, kept);\n}\n",
        define, threads, stem_format_blocks(s->mt, s->nt, s->kparts * s->groups), cluster, l->kernel,
        stem_format_rest(c, 2, a), store->params, stem_c_type(c->operand[c->n_in].dtype),
        stem_format_name(c->operand[1].dtype), s->mt, s->nt, s->stages, s->kparts, s->groups, s->cluster,
        s->keep ? "true" : "false", early ? "true" : "false", store->pair ? "true" : "false", pointer(c, 3, a),
        store->make);
    l->block[0] = threads;
    l->smem = s->smem;
}

void stem_linear_lower_packed(const struct stem_concrete *c, const struct stem_target *t, struct stem_arena *a,
                              struct stem_lowered *l)
{
    static const char *const headers[] = {"common",  "pointwise",     "stream",       "linear",
                                          "formats", "packed_stream", "linear_packed"};
    int64_t m = l->scalars[0].i, n = l->scalars[1].i, k = l->scalars[2].i;
    enum stem_dtype type = c->operand[1].dtype;
    struct stem_epilogue e;
    bool pair = stem_epilogue_get(c->def, c->attrs, &e) && e.pair;
    int64_t columns = pair ? n / 2 : n;
    for (uint32_t i = 0; i < sizeof headers / sizeof *headers; i++)
        l->headers[i] = headers[i];
    struct shape s = {0};
    if (fits(c, k) && !(pair && columns % 8))
        s = shape_of(type, m, columns, k, pair, t);
    if (!s.per_sm) {
        lower_plain(c, a, l);
        return;
    }
    uint32_t weights = 3u << 1 | (stem_format_operand(c, 3) ? 1u << 3 : 0);
    bool early = (c->constant & weights) == weights;
    const char *kernel =
        stem_arena_printf(a, "stem_linear_%s_%s%s_m%u_n%u_s%u_k%u_g%u_c%u%s%s", stem_dtype_name(type),
                          stem_dtype_name(c->operand[c->n_in].dtype), stem_format_tag(c, 2, a), s.mt, s.nt, s.stages,
                          s.kparts, s.groups, s.cluster, s.keep ? "_x" : "", early ? "_w" : "");
    struct stem_store store;
    const char *define;
    stem_epilogue_store(c, kernel, "n", a, &store, &define);
    lower_stream(c, &store, define, kernel, &s, early, a, l);
    l->early = early ? weights : 0;
    int64_t items = ceil_div(columns, (int64_t)(pair ? 8 : 16) * s.mt * s.groups);
    int64_t most = (int64_t)t->n_sms * s.per_sm / s.cluster;
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = s.kept}};
    l->grid[0] = (uint32_t)(items < most ? items : most) * s.cluster;
    l->grid[1] = ceil_div(m, 8 * s.nt);
}
