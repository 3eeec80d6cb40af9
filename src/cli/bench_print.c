/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"

static double floor_us(const struct bench *b, uint32_t variant)
{
    return 1e6 * b->bytes[variant].moved / b->bandwidth;
}

static const struct stem_plan_variant *variant_of(const struct bench *b, uint32_t variant, uint32_t kind)
{
    return &b->exec[bench_kinds[kind].plan].plan->variants[variant];
}

static uint64_t graph_bytes(const struct bench_way *x)
{
    return x->info.device_bytes > 0 ? (uint64_t)x->info.device_bytes : 0;
}

/* ---- tables ---- */

static void print_head(const struct bench *b, uint32_t variant)
{
    const struct stem_plan *p = bench_reference(b)->plan;
    const struct stem_rt_info *info = &b->g->info;
    const struct stem_bench_bytes *bytes = &b->bytes[variant];
    printf("%s%s", variant ? "\n" : "", p->name);
    for (uint32_t i = 0; i < p->n_dims; i++)
        printf(", %s = %lld", p->dims[i], (long long)p->variants[variant].dim[i]);
    printf(", %s, driver %d.%d, median of %u replays; floor %.1f us: %s at the %.2f TB/s of a copy", info->name,
           info->driver / 1000, info->driver % 1000 / 10, b->o->iters, floor_us(b, variant),
           stem_cli_bytes((uint64_t)bytes->moved), b->bandwidth / 1e12);
    if (bytes->n_experts)
        printf("; %.1f experts chosen in a layer", bytes->experts / bytes->n_experts);
    printf("\n\n| schedule | graph | nodes | edges | programmatic | lanes predicted | lanes measured | instantiate | memory "
           "| replay | over the floor | same bits |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n");
}

static void print_way(const struct bench *b, uint32_t variant, uint32_t kind, double base)
{
    const struct bench_way *x = bench_way(b, variant, kind);
    double us = stem_quantile(x->us, b->o->iters, 0.5);
    char lanes[16] = "-";
    if (x->lanes)
        snprintf(lanes, sizeof lanes, "%u", x->lanes);
    printf("| %s | %s | %u | %u | %u | %u | %s | %.2f ms | %s | %.1f us (%.3f) | %.2f | %s |\n", bench_kinds[kind].schedule,
           bench_kinds[kind].built, x->info.n_nodes, x->info.n_edges, x->info.n_programmatic,
           variant_of(b, variant, kind)->lanes, lanes, x->info.instantiate_us / 1000, stem_cli_bytes(graph_bytes(x)), us,
           us / base, us / floor_us(b, variant), x->same ? "yes" : "NO");
}

/* ---- JSON ---- */

static json_t *way_json(const struct bench *b, uint32_t variant, uint32_t kind)
{
    const struct bench_way *x = bench_way(b, variant, kind);
    const struct bench_kind *k = &bench_kinds[kind];
    json_t *o = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:o}", "way", k->name, "schedule", k->schedule, "graph", k->built,
                          "nodes", (int)x->info.n_nodes, "edges", (int)x->info.n_edges, "programmatic",
                          (int)x->info.n_programmatic, "lanes_predicted", (int)variant_of(b, variant, kind)->lanes,
                          "lanes_measured", x->lanes ? json_integer((json_int_t)x->lanes) : json_null());
    json_t *more = json_pack("{s:f, s:I, s:f, s:f, s:f, s:f, s:b}", "instantiate_us", x->info.instantiate_us, "graph_bytes",
                             (json_int_t)graph_bytes(x), "us", stem_quantile(x->us, b->o->iters, 0.5), "us_10",
                             stem_quantile(x->us, b->o->iters, 0.1), "us_90", stem_quantile(x->us, b->o->iters, 0.9),
                             "over_floor", stem_quantile(x->us, b->o->iters, 0.5) / floor_us(b, variant), "same_bits", x->same);
    json_object_update(o, more);
    json_decref(more);
    return o;
}

static json_t *variant_json(const struct bench *b, uint32_t variant)
{
    const struct stem_plan *p = bench_reference(b)->plan;
    const struct stem_bench_bytes *bytes = &b->bytes[variant];
    json_t *dims = json_object(), *ways = json_array();
    for (uint32_t i = 0; i < p->n_dims; i++)
        json_object_set_new(dims, p->dims[i], json_integer((json_int_t)p->variants[variant].dim[i]));
    for (uint32_t k = 0; k < BENCH_KINDS; k++)
        if (b->o->way[k])
            json_array_append_new(ways, way_json(b, variant, k));
    return json_pack("{s:o, s:f, s:f, s:o, s:o}", "dims", dims, "floor_us", floor_us(b, variant), "floor_bytes", bytes->moved,
                     "experts", bytes->n_experts ? json_real(bytes->experts / bytes->n_experts) : json_null(), "ways", ways);
}

static bool write_json(const struct bench *b)
{
    const struct stem_rt_info *info = &b->g->info;
    json_t *variants = json_array();
    for (uint32_t v = 0; v < bench_reference(b)->plan->n_variants; v++)
        json_array_append_new(variants, variant_json(b, v));
    json_t *seconds = json_pack("{s:f, s:f, s:f, s:f}", "compile", b->compile_s, "fill", b->fill_s, "time", b->time_s, "lanes",
                                b->lanes_s);
    json_t *all = json_pack("{s:i, s:s, s:s, s:i, s:i, s:I, s:f, s:o, s:o}", "mainstem_bench", 1, "program",
                            bench_reference(b)->plan->name, "gpu", info->name, "driver", info->driver, "iters", (int)b->o->iters,
                            "seed", (json_int_t)b->o->seed, "bandwidth", b->bandwidth, "seconds", seconds, "variants", variants);
    char *text = all ? json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    bool fine = false;
    if (text)
        fine = stem_cli_write(b->o->json, text, strlen(text));
    else
        stem_cli_error("cannot write '%s': out of memory", b->o->json);
    free(text);
    json_decref(all);
    return fine;
}

int bench_print(struct bench *b)
{
    int status = STEM_EXIT_OK;
    for (uint32_t v = 0; v < bench_reference(b)->plan->n_variants; v++) {
        print_head(b, v);
        double base = stem_quantile(bench_way(b, v, b->first)->us, b->o->iters, 0.5);
        for (uint32_t k = 0; k < BENCH_KINDS; k++) {
            if (!b->o->way[k])
                continue;
            print_way(b, v, k, base);
            status = bench_way(b, v, k)->same ? status : STEM_EXIT_DIFFER;
        }
    }
    return b->o->json && !write_json(b) ? STEM_EXIT_WORLD : status;
}
