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

/* Estimated time, in stages of 16 rows on the multiprocessor that has the most to do; an item costs about as much as
 * two more for its sums, four if a cluster meets. Tokens that are not kept come anew for every item, from afar. */
static double price(const struct shape *s, uint32_t chunks, int64_t columns, bool pair, const struct stem_target *t)
{
    int64_t items = ceil_div(columns, (int64_t)(pair ? 8 : 16) * s->mt * s->groups);
    int64_t at_once = (int64_t)t->n_sms * s->per_sm / s->cluster;
    if (at_once < 1)
        return 1e30;
    double rounds = (double)ceil_div(items, at_once);
    double busy = rounds > 1 ? s->per_sm : ceil_div(items * s->cluster, t->n_sms);
    double share = (double)ceil_div(chunks, s->kparts * s->cluster) * s->kparts * s->groups * s->mt;
    double meeting = s->cluster > 1 ? 4 : 2, far = s->keep ? 0 : 0.5 * share * s->nt / s->mt;
    double flight = busy * s->kparts * s->groups * (s->stages - 1) * s->mt; /* stages of 16 rows on their way */
    double slow = flight < 24 ? 24 / flight : 1;
    return rounds * busy * (share * slow + far + meeting * s->mt);
}

static struct shape shape_of(enum stem_dtype w, int64_t m, int64_t columns, int64_t k, bool pair,
                             const struct stem_target *t)
{
    uint32_t chunks = ceil_div(k, w == STEM_F8E4M3 ? 128 : 256);
    struct shape best = {0};
    double least = 1e30;
    for (uint32_t warps = 4; warps <= 8; warps++)
        for (uint32_t groups = 1; groups <= warps; groups++)
            for (uint32_t cluster = 1; cluster <= (t->sm >= 90 ? 4u : 1u); cluster *= 2)
                for (uint32_t mt = 1; mt <= 2; mt++)
                    for (uint32_t keep = 0; keep < 2; keep++) {
                        struct shape s = {.mt = mt,
                                          .nt = m <= 8    ? 1
                                                : m <= 16 ? 2
                                                : m <= 32 ? 4
                                                          : 8,
                                          .stages = mt == 1 ? 3 : 2,
                                          .kparts = warps / groups,
                                          .groups = groups,
                                          .cluster = cluster,
                                          .keep = keep};
                        if (warps % groups || s.kparts * cluster > chunks || (mt == 2 && s.nt == 8))
                            continue;
                        size_up(&s, w, (uint32_t)(m < 8 * s.nt ? m : 8 * s.nt), chunks, t);
                        double p = s.per_sm ? price(&s, chunks, columns, pair, t) : 1e30;
                        if (p < least) {
                            least = p;
                            best = s;
                        }
                    }
    return best;
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
