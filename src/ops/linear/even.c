/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering of linear by linear_even.cuh: which of the ways to cut a product would take least, and the kernel's text.
 */
#include "ops/linear/even.h"

#include "ops/linear/format.h"
#include "ops/linear/linear.h"
#include "ops/rule.h"

static uint32_t ceil_div(int64_t a, int64_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

static uint32_t chunk_of(enum stem_dtype w)
{
    return w == STEM_F8E4M3 ? 128 : 256;
}

/* Bytes of a stage of a warp's ring, of a token's columns of a chunk, of a tile's sums of a token. */
static uint32_t stage_bytes(enum stem_dtype w, uint32_t mt)
{
    return w == STEM_F8E4M3 ? 16 * mt * 128 + (8 * mt + 15) / 16 * 16 : 16 * mt * 144;
}

static uint32_t token_bytes(enum stem_dtype w, bool fixed)
{
    return fixed ? STEM_FIXED_BYTES : w == STEM_F8E4M3 ? 2 * 64 + 4 : 8 * 64;
}

static uint32_t slot_bytes(uint32_t mt)
{
    return (16 * mt + 4) * 4;
}

/* Clusters on `n` multiprocessors. Those of more than two blocks stay inside of a group of some 16 of them, and leave a
 * remainder: 30 clusters of 4 and 14 of 8 find room on the 132 of an H200. */
static uint32_t clusters_on(uint32_t n, uint32_t cluster)
{
    return cluster <= 2 ? n / cluster : cluster == 4 ? n * 10 / 11 / 4 : n * 28 / 33 / 8;
}

/* Places tiles and rounds; false if a block has no room. */
static bool size_up(const struct stem_even_product *p, const struct stem_target *t, struct stem_even_shape *s)
{
    uint32_t chunks = ceil_div(p->k, chunk_of(p->weight)), tiles = ceil_div(p->columns, (p->pair ? 8 : 16) * s->mt);
    uint32_t block = stem_stream_sm_smem(t) / s->room - 1024;
    if (block > stem_stream_block_smem(t))
        block = stem_stream_block_smem(t);
    uint32_t most = clusters_on(t->n_sms, s->cluster) * s->per_sm;
    s->clusters = tiles < most ? tiles : most;
    if (chunks < s->cluster || !s->clusters)
        return false;
    uint32_t kept = ceil_div(ceil_div(chunks, s->cluster) * s->most * token_bytes(p->weight, s->fixed), 16) * 16;
    kept += s->fixed ? STEM_FIXED_ZEROS : 0;
    uint32_t slot = s->most * slot_bytes(s->mt), sum = s->cluster > 1 ? s->most * 64 * s->mt : 0;
    /* a cluster's blocks share out fours of rows, which may leave a remainder; and a barrier and a scale */
    uint32_t spare = (s->cluster - 1) * s->most * (p->pair ? 32 : 16) + 16;
    uint32_t fixed = s->warps * s->stages * stage_bytes(p->weight, s->mt) + kept + (s->warps - 1) * slot + spare;
    if (fixed + slot + sum > block)
        return false;
    uint32_t each = (block - fixed) / (slot + sum), own = ceil_div(tiles, s->clusters);
    s->each = each < own ? each : own;
    s->smem = fixed + s->each * (slot + sum);
    return true;
}

/* What it would take, in KiB of weights that a multiprocessor reads. The weights of the one with the most to do count half, the
 * mean half, since the others leave it bandwidth; then the tokens that its blocks fetch, the sums that clusters exchange,
 * and what it costs that no block of the next kernel finds room beside it, or to meet for another round. The factors are
 * those that choose best among the configurations of even.cu on an H200. */
static double cost_of(const struct stem_even_product *p, const struct stem_target *t, const struct stem_even_shape *s)
{
    uint32_t tiles = ceil_div(p->columns, (p->pair ? 8 : 16) * s->mt), own = ceil_div(tiles, s->clusters);
    uint32_t all = ceil_div(p->k, chunk_of(p->weight)), chunks = ceil_div(all, s->cluster);
    uint32_t blocks = ceil_div((int64_t)s->clusters * s->cluster, t->n_sms);
    double stage = stage_bytes(p->weight, s->mt) / 1024.0;
    double weights = (blocks * own * chunks + (double)tiles * all / t->n_sms) * stage / 2;
    double tokens = blocks * chunks * (chunk_of(p->weight) * s->most * (p->coded ? 1 : 2) / 1024.0);
    double sums = s->cluster > 1 ? blocks * own * s->most * s->mt / 16.0 : 0;
    /* codes are copied, not made by each block, so that less of them is no gain that a cluster has to pay for */
    double fixed = s->cluster > 1 && p->weight == STEM_F8E4M3 && !p->coded ? 20 : 0;
    fixed += (s->cluster > 2 && !p->coded ? 20 : 0) + (s->room == 1 ? 30 : 0) + (ceil_div(own, s->each) - 1) * 30.0;
    return ((s->warps < 16 ? 1.1 : 1) * weights + tokens / 2 + 3 * sums + fixed) * ceil_div(p->m, s->most);
}

/* The same for weights of 4 bits and up to 16 tokens. Their products take as long as their bytes, so what counts of the busiest
 * multiprocessor is what those of its warps take that have most to do. The factors are those of a search over what even.cu measured
 * of some 700 ways to cut seven products: what they choose takes 2 % longer than the best, on the average. */
struct factors {
    double warps[3], wide, mean, tokens, sums, cluster, alone, round; /* 8, 12, 16 warps; tiles of 32 rows; .. */
};
static const struct factors up_to_8 = {{0.66, 0.66, 0.41}, 1.1, 0.56, 0.5, 2.5, -26, 27, 75},
                            up_to_16 = {{0.47, 0.5, 0.69}, 0.88, 0.82, 0.8, 6, -27, -7, 20};

static double cost_of_few(const struct stem_even_product *p, const struct stem_target *t, const struct stem_even_shape *s)
{
    const struct factors *f = s->most > 8 ? &up_to_16 : &up_to_8;
    uint32_t tiles = ceil_div(p->columns, (p->pair ? 8 : 16) * s->mt), own = ceil_div(tiles, s->clusters);
    uint32_t all = ceil_div(p->k, 256), chunks = ceil_div(all, s->cluster), rounds = ceil_div(own, s->each);
    uint32_t blocks = ceil_div((int64_t)s->clusters * s->cluster, t->n_sms), last = own - (rounds - 1) * s->each;
    uint32_t most = (rounds - 1) * ceil_div(s->each * chunks, s->warps) + ceil_div(last * chunks, s->warps);
    double stage = stage_bytes(p->weight, s->mt) / 1024.0, mean = (double)tiles * all / t->n_sms * stage;
    double busiest = blocks * most * s->warps * stage * f->warps[s->warps < 12 ? 0 : s->warps < 16 ? 1 : 2];
    double cost = busiest * (s->mt > 1 ? f->wide : 1) + f->mean * mean + f->tokens * (blocks * chunks * (s->most / 2.0));
    if (s->cluster > 1)
        cost += f->sums * (blocks * own * s->most * s->mt / 16.0) + f->cluster;
    return cost + (s->room == 1 ? f->alone : 0) + f->round * (rounds - 1) + 60; /* more than 0 */
}

/* Ways to cut a product, for as many tokens as nt says and for weights of 8 or of 4 bits. */
struct way {
    uint8_t nt, bits, mt, warps, stages, room, per_sm, clusters; /* clusters: the largest */
};
static const struct way ways[] = {
    {1, 8, 1, 8, 4, 2, 2, 2},  {1, 8, 1, 16, 4, 1, 1, 4}, {1, 4, 1, 12, 3, 2, 1, 2}, {1, 4, 1, 16, 2, 1, 1, 4},
    {1, 4, 1, 8, 4, 2, 1, 2},  {2, 8, 1, 8, 3, 2, 1, 1},  {2, 8, 1, 16, 2, 1, 1, 4}, {2, 4, 1, 16, 2, 1, 1, 4},
    {2, 4, 1, 8, 2, 2, 1, 2},  {2, 4, 1, 8, 3, 1, 1, 4},  {2, 4, 2, 8, 2, 1, 1, 4},  {2, 4, 2, 12, 2, 1, 1, 1},  {4, 8, 1, 8, 3, 1, 1, 8},  {4, 4, 1, 8, 3, 1, 1, 8},
    {4, 8, 1, 8, 2, 1, 1, 8},  {4, 4, 1, 8, 2, 1, 1, 8},  {8, 8, 1, 8, 3, 1, 1, 8},  {8, 4, 1, 8, 3, 1, 1, 8},
    {8, 8, 1, 8, 2, 1, 1, 8},  {8, 4, 1, 8, 2, 1, 1, 8},
};
static const struct way few[] = {
    {1, 4, 2, 8, 2, 2, 2, 1}, {1, 4, 1, 8, 4, 2, 2, 2}, {1, 4, 1, 8, 4, 2, 1, 2}, {1, 4, 1, 16, 2, 1, 1, 4}}; /* one token */
static const struct way single = {1, 8, 2, 8, 3, 2, 2, 1}; /* one token */
static const struct way least = {1, 0, 1, 8, 2, 1, 1, 4};  /* where nothing else has room */

/* The best cluster for way w, if that is better than *best, whose cost is *cost; 0: there is none. */
static void consider(const struct stem_even_product *p, const struct stem_target *t, const struct way *w, uint32_t most,
                     bool fixed, struct stem_even_shape *best, double *cost)
{
    struct stem_even_shape s = {.mt = w->mt, .nt = w->nt, .stages = w->stages, .warps = w->warps, .room = w->room,
                                .per_sm = w->per_sm, .fixed = fixed};
    s.most = p->m < most ? (uint32_t)p->m : most;
    for (s.cluster = 1; s.cluster <= (t->sm >= 90 ? w->clusters : 1); s.cluster *= 2) {
        bool four = p->weight != STEM_F8E4M3 && p->m <= 16;
        double c = !size_up(p, t, &s) ? 0 : four ? cost_of_few(p, t, &s) : cost_of(p, t, &s);
        if (c > 0 && (*cost == 0 || c < *cost)) {
            *cost = c;
            *best = s;
        }
    }
}

bool stem_even_shape(const struct stem_even_product *p, const struct stem_target *t, struct stem_even_shape *best)
{
    uint32_t nt = p->m <= 8 ? 1 : p->m <= 16 ? 2 : p->m <= 32 ? 4 : 8, bits = p->weight == STEM_F8E4M3 ? 8 : 4;
    double cost = 0;
    for (uint32_t i = 0; i < sizeof few / sizeof *few && p->m == 1 && stem_format_fixed(p->weight, t); i++)
        consider(p, t, &few[i], 1, true, best, &cost);
    for (; nt && cost == 0; nt /= 2)
        for (uint32_t i = 0; i < sizeof ways / sizeof *ways; i++)
            if (ways[i].nt == nt && ways[i].bits == bits)
                consider(p, t, &ways[i], 8 * nt, false, best, &cost);
    if (p->m == 1 && bits == 8 && cost > 0)
        consider(p, t, &single, 8, false, best, &cost);
    for (uint32_t most = 8; most && cost == 0; most /= 2)
        consider(p, t, &least, most, false, best, &cost);
    return cost > 0;
}

void stem_even_lower(const struct stem_concrete *c, const struct stem_even_product *p, const struct stem_even_shape *s,
                     bool early, struct stem_arena *a, struct stem_lowered *l)
{
    static const char *const headers[] = {"common",  "pointwise",     "stream", "linear",
                                          "formats", "packed_stream", "fixed",  "linear_even"};
    const char *y = stem_c_type(c->operand[c->n_in].dtype), *define;
    const char *kernel = stem_arena_printf(a, "stem_linear_%s_%s%s%s_e%u_n%u_s%u_w%u_c%u%s%s", stem_dtype_name(p->weight),
                                           stem_dtype_name(c->operand[c->n_in].dtype), stem_format_tag(c, 2, a),
                                           p->coded ? "_x8" : "", s->mt, s->nt, s->stages, s->warps, s->cluster,
                                           s->fixed ? "_f" : "", early ? "_w" : "");
    const char *cluster = s->cluster > 1 ? stem_arena_printf(a, " __cluster_dims__(%u, 1, 1)", s->cluster) : "";
    struct stem_store store;
    for (uint32_t i = 0; i < sizeof headers / sizeof *headers; i++)
        l->headers[i] = headers[i];
    stem_epilogue_store(c, kernel, "n", a, &store, &define);
    l->kernel = stem_arena_printf(a, "%s%s", kernel, store.name);
    l->code = stem_arena_printf(
        a,
        "%sextern \"C\" __global__ void __launch_bounds__(%u, %u)%s %s(%s *x, const void *w, %s%s%s *y, int m, "
        "int n, int k, int most, int each)\n{\n"
        "    stem_linear_even<%s, %u, %u, %u, %u, %u, %s, %s>(%s, w, p2, %s, %s, m, n, k, most, each);\n}\n",
        define, 32 * s->warps, s->room, cluster, l->kernel, stem_format_x_type(c), stem_format_rest(c, 2, a), store.params, y,
        s->fixed ? stem_format_fixed_name(p->weight) : stem_format_name(p->weight), s->mt, s->nt, s->stages, s->warps,
        s->cluster, early ? "true" : "false", store.pair ? "true" : "false", stem_format_x(c, 4, a),
        stem_format_operand(c, 3) ? "p3" : "nullptr", store.make);
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = s->most}};
    l->scalars[l->n_scalars++] = (struct stem_scalar){STEM_SCALAR_I32, {.i = s->each}};
    l->grid[0] = s->clusters * s->cluster;
    l->grid[1] = ceil_div(p->m, s->most);
    l->block[0] = 32 * s->warps;
    l->smem = s->smem;
}
