/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering of linear by linear_wide.cuh: how a product is cut, and the kernel's text.
 */
#include "ops/linear/wide.h"

#include "ops/linear/format.h"
#include "ops/linear/linear.h"
#include "ops/rule.h"

static uint32_t ceil_div(int64_t a, int64_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

static uint32_t tiles_of(const struct stem_even_product *p)
{
    return ceil_div(p->columns, p->pair ? 32 : 64);
}

/* Dynamic shared memory, as stem_linear_wide has it. */
static uint32_t smem_of(const struct stem_even_product *p, const struct stem_wide_shape *s)
{
    uint32_t most = p->m < 8 * s->nt ? (uint32_t)p->m : 8 * s->nt, rows = p->pair ? 32 : 64;
    uint32_t ring = ceil_div(s->stages * (8192 + 1024 * s->nt + 4 * (4 + 8 * s->nt)), 1024) * 1024;
    uint32_t each = ceil_div(most * rows / 4, s->cluster) * 4, sums = each * (p->pair ? 2 : 1) * s->cluster;
    return 1024 + s->groups * ring + (s->cluster > 1 ? sums * 4 + 16 : 0);
}

/* What it would take, in KiB that a multiprocessor reads: as in even.c, the one with the most to do and the mean count half each. Then
 * what it costs to meet in a cluster, and that blocks are not all there at once: of clusters some that would fit do not, as each stays
 * inside of a part of the machine. The rest is what was fastest on an H200: for few tokens warpgroups that hold most of their weights
 * before the wait, for many that the next kernel finds room. */
static double cost_of(const struct stem_even_product *p, const struct stem_target *t, const struct stem_wide_shape *s)
{
    uint32_t chunks = ceil_div(p->k, 128), tiles = tiles_of(p) * ceil_div(p->m, 8 * s->nt), blocks = ceil_div(tiles * s->cluster, t->n_sms);
    uint32_t held = blocks * (s->smem + 1024), all = stem_stream_sm_smem(t);
    double busiest = blocks * ceil_div(chunks, s->cluster), mean = (double)tiles * chunks / t->n_sms;
    double cost = (busiest + mean) / 2 * (8 + s->nt / 2.0);
    if (s->cluster > 1)
        return cost + 10 + (s->groups == 2 ? 0 : 10) + (held > all - all / 8 ? 60 : 0);
    return cost + (s->groups == (s->nt <= 2 && chunks > 8 ? 4 : 2) ? 0 : 10) + (held > all ? 60 : 0);
}

bool stem_wide_shape(const struct stem_even_product *p, const struct stem_target *t, struct stem_wide_shape *best)
{
    uint32_t chunks = ceil_div(p->k, 128);
    double least = 0;
    if (t->sm != 90 || p->weight != STEM_F8E4M3 || (p->pair && p->columns % 16))
        return false;
    struct stem_wide_shape s = {.nt = p->m <= 8 ? 1 : p->m <= 16 ? 2 : p->m <= 32 ? 4 : 8};
    for (s.cluster = 1; s.cluster <= 8 && s.cluster <= chunks; s.cluster *= 2)
        for (s.groups = 1; s.groups <= 4; s.groups *= 2) {
            uint32_t share = ceil_div(chunks, s.cluster * s.groups), most = s.nt <= 2 && s.cluster == 1 ? 4 : 3;
            s.stages = share + 1 < most ? share + 1 : most;
            s.smem = smem_of(p, &s);
            double cost = cost_of(p, t, &s);
            if (s.smem <= stem_stream_block_smem(t) && (least == 0 || cost < least)) {
                least = cost;
                *best = s;
            }
        }
    return least > 0;
}

void stem_wide_lower(const struct stem_concrete *c, const struct stem_even_product *p, const struct stem_wide_shape *s,
                     bool early, struct stem_arena *a, struct stem_lowered *l)
{
    static const char *const headers[] = {"common", "pointwise", "stream", "linear", "formats", "linear_packed", "wgmma", "linear_wide"};
    const char *y = stem_c_type(c->operand[c->n_in].dtype), *define;
    const char *kernel = stem_arena_printf(a, "stem_linear_wide_%s%s%s_n%u_s%u_g%u_c%u%s", stem_dtype_name(c->operand[c->n_in].dtype),
                                           stem_format_tag(c, 2, a), p->coded ? "_x8" : "", s->nt, s->stages, s->groups, s->cluster, early ? "_w" : "");
    const char *cluster = s->cluster > 1 ? stem_arena_printf(a, " __cluster_dims__(%u, 1, 1)", s->cluster) : "";
    struct stem_store store;
    for (uint32_t i = 0; i < sizeof headers / sizeof *headers; i++)
        l->headers[i] = headers[i];
    stem_epilogue_store(c, kernel, "n", a, &store, &define);
    l->kernel = stem_arena_printf(a, "%s%s", kernel, store.name);
    const char *pair = store.pair ? "true" : "false", *x = stem_format_x(c, 4, a);
    l->code = stem_arena_printf(a,
                                "%sextern \"C\" __global__ void __launch_bounds__(%u, %u)%s %s(%s *x, const void *w, %s%s%s *y, int m, "
                                "int n, int k)\n{\n"
                                "#ifdef STEM_WGMMA\n"
                                "    stem_linear_wide<%u, %u, %u, %u, %s, %s>(%s, w, p2, %s, m, n, k);\n"
                                "#else\n"
                                "    stem_linear_packed_plain<stem_f8, %s>(%s, w, p2, nullptr, %s, m, n, k);\n"
                                "#endif\n}\n",
                                define, 128 * s->groups, 4 / s->groups, cluster, l->kernel, stem_format_x_type(c),
                                stem_format_rest(c, 2, a), store.params, y, s->nt, s->stages, s->groups, s->cluster,
                                early ? "true" : "false", pair, x, store.make, pair, x, store.make);
    l->grid[0] = tiles_of(p) * s->cluster;
    l->grid[1] = ceil_div(p->m, 8 * s->nt);
    l->block[0] = 128 * s->groups;
    l->smem = s->smem;
}
