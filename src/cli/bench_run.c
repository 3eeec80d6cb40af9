/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "cli/bench.h"
#include "cli/tune.h"

enum { WARMUP = 2 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint32_t n_variants(const struct bench *b)
{
    return bench_reference(b)->plan->n_variants;
}

/* ---- making ---- */

/* The first program owns the buffers, which are as large as its largest specialisation needs them; the others share them. */
static bool load(struct bench *b, const struct bench_cubins *cubins, struct stem_rt_error *err)
{
    const struct stem_cli_exec *share = NULL;
    struct stem_gpu *g = b->g;
    for (uint32_t p = 0; p < BENCH_PLANS; p++) {
        if (!b->compiled[p])
            continue;
        const struct stem_plan *plan = b->compiled[p]->plan;
        const struct stem_cubin *cubin = &cubins->cubin[cubins->of[p]];
        struct stem_exec_options o = {.cubin = cubin->data, .cubin_bytes = cubin->bytes};
        if (!stem_cli_exec_new(g->rt, plan, &o, share, &b->exec[p], err))
            return false;
        if (stem_cli_state_bytes(plan, 0) > STEM_MOST_STATE)
            b->exec[p].states = STEM_STATES_LEFT;
        share = share ? share : &b->exec[p];
        g->poison_bytes = plan->slab_bytes > g->poison_bytes ? plan->slab_bytes : g->poison_bytes;
    }
    g->many = *share;
    g->poison = stem_xmalloc(g->poison_bytes);
    memset(g->poison, 0xff, g->poison_bytes);
    b->ways = calloc((size_t)n_variants(b) * BENCH_KINDS + 1, sizeof *b->ways);
    b->bytes = calloc((size_t)n_variants(b) + 1, sizeof *b->bytes);
    for (uint32_t i = 0; b->ways && i < n_variants(b) * BENCH_KINDS; i++)
        b->ways[i].us = stem_xmalloc(b->o->iters * sizeof(double));
    if (!b->ways || !b->bytes) {
        *err = (struct stem_rt_error){.status = STEM_E_MEMORY, .message = "out of memory"};
        return false;
    }
    return true;
}

/* What a copy moves depends on where its arrays lie and on what the card did before: the best of the run counts, with the
 * memory empty and after each specialisation, so that no floor is too high. */
static bool measure_copy(struct bench *b, struct stem_rt_error *err)
{
    double bandwidth;
    if (!tune_bandwidth(b->g, &bandwidth, err))
        return false;
    b->bandwidth = bandwidth > b->bandwidth ? bandwidth : b->bandwidth;
    return true;
}

/* Contents follow from seed, name and shape: weights of the first specialisation are those of all. */
static bool fill(struct bench *b, uint32_t variant, struct stem_rt_error *err)
{
    const struct stem_plan_variant *all = b->g->many.plan->variants, *v = &all[variant];
    struct stem_exec *e = b->g->many.exec;
    if (variant == 0)
        return stem_exec_fill(e, 0, b->o->seed, err) == STEM_OK;
    for (uint32_t i = 0; i < b->g->many.plan->n_external; i++) {
        const struct stem_plan_buffer *mine = &v->buffers[i], *first = &all[0].buffers[i];
        bool alike = mine->bytes == first->bytes && !memcmp(mine->dim, first->dim, sizeof mine->dim);
        if (mine->kind == STEM_BUFFER_OUTPUT || mine->bytes == 0 || (mine->kind == STEM_BUFFER_WEIGHT && alike))
            continue;
        if (stem_rt_fill(b->g->rt, mine, b->o->seed, stem_exec_address(e, i), err) != STEM_OK)
            return false;
    }
    return true;
}

static bool build(struct bench *b, uint32_t variant, uint32_t kind, struct stem_rt_error *err)
{
    struct bench_way *x = bench_way(b, variant, kind);
    x->replay.e = &b->exec[bench_kinds[kind].plan];
    return stem_replay_new(b->g, variant, bench_kinds[kind].by, &x->replay, err);
}

static bool build_all(struct bench *b, uint32_t variant, struct stem_rt_error *err)
{
    for (uint32_t k = 0; k < BENCH_KINDS; k++) {
        if (!b->o->way[k])
            continue;
        if (!build(b, variant, k, err))
            return false;
        stem_graph_info(bench_way(b, variant, k)->replay.graph, &bench_way(b, variant, k)->info);
    }
    return true;
}

static void free_graphs(struct bench *b, uint32_t variant)
{
    for (uint32_t k = 0; b->ways && k < BENCH_KINDS; k++)
        stem_replay_free(b->g, &bench_way(b, variant, k)->replay);
}

/* ---- measuring ---- */

static bool time_all(struct bench *b, uint32_t variant, struct stem_progress *bar, struct stem_rt_error *err)
{
    struct stem_timer *t = NULL;
    uint32_t rounds = b->o->iters + WARMUP;
    bool fine = stem_timer_new(b->g->rt, &t, err) == STEM_OK;
    for (uint32_t i = 0; fine && i < rounds; i++) {
        for (uint32_t k = 0; fine && k < BENCH_KINDS; k++) {
            struct bench_way *x = bench_way(b, variant, k);
            double us;
            if (!b->o->way[k])
                continue;
            fine = stem_timer_start(t, b->g->stream, err) == STEM_OK && stem_replay(b->g, &x->replay, err) &&
                   stem_timer_stop(t, b->g->stream, &us, err) == STEM_OK;
            if (fine && i >= WARMUP)
                x->us[i - WARMUP] = us;
        }
        stem_progress_step(bar, (uint64_t)variant * rounds + i, (uint64_t)n_variants(b) * rounds);
    }
    stem_timer_free(t);
    return fine;
}

static bool same_bits(struct bench *b, uint32_t variant, struct stem_rt_error *err)
{
    const struct stem_plan_variant *v = &bench_reference(b)->plan->variants[variant];
    struct stem_results first = {0}, r;
    const char *where;
    bool fine = true;
    for (uint32_t k = b->first; fine && k < BENCH_KINDS; k++) {
        struct bench_way *x = bench_way(b, variant, k);
        if (!b->o->way[k])
            continue;
        fine = stem_gpu_execute(b->g, &x->replay, true, &r, err);
        if (!fine)
            break;
        if (k == b->first) {
            first = r;
            x->same = true;
            continue;
        }
        x->same = stem_results_same(v, &r, &first, &where);
        stem_results_free(&r);
    }
    stem_results_free(&first);
    return fine;
}

static bool measure(struct bench *b, uint32_t variant, struct stem_progress *bar, struct stem_rt_error *err)
{
    double start = now();
    bool fine = fill(b, variant, err) && build_all(b, variant, err) && same_bits(b, variant, err) &&
                stem_gpu_fill_states(b->g->rt, &b->g->many, b->o->seed, err);
    b->fill_s += now() - start;
    start = now();
    fine = fine && time_all(b, variant, bar, err) &&
           stem_bench_count(b->g, bench_reference(b), variant, &b->bytes[variant], err) && measure_copy(b, err);
    b->time_s += now() - start;
    free_graphs(b, variant);
    return fine;
}

/* Kernel records change timing, so lanes are read when all is timed: each way launched once, in order. */
static void measure_lanes(struct bench *b)
{
    struct stem_rt_error err;
    struct stem_audit *audit;
    const struct stem_audit_record *records;
    uint32_t n, *lanes = NULL, launches = n_variants(b) * b->n_ways, at = 0;
    double start = now();
    if (stem_audit_start(NULL, &audit, &err) != STEM_OK)
        return;
    bool fine = true;
    for (uint32_t v = 0; fine && v < n_variants(b); v++) {
        for (uint32_t k = 0; fine && k < BENCH_KINDS; k++)
            if (b->o->way[k])
                fine = build(b, v, k, &err) && stem_replay(b->g, &bench_way(b, v, k)->replay, &err) &&
                       stem_rt_synchronize(b->g->rt, b->g->stream, &err) == STEM_OK;
        free_graphs(b, v);
    }
    if (fine && stem_audit_stop(audit, &records, &n, &err) == STEM_OK) {
        uint32_t replays = stem_audit_lanes(audit, &lanes);
        for (uint32_t v = 0; v < n_variants(b) && replays == launches; v++)
            for (uint32_t k = 0; k < BENCH_KINDS; k++)
                if (b->o->way[k])
                    bench_way(b, v, k)->lanes = lanes[at++];
        if (replays != launches)
            stem_cli_error("the audit saw %u graph launches, not %u; lanes are not shown", replays, launches);
        free(lanes);
    }
    stem_audit_free(audit);
    b->lanes_s = now() - start;
}

bool bench_run(struct bench *b, const struct bench_cubins *cubins, struct stem_rt_error *err)
{
    double start = now();
    bool fine = measure_copy(b, err) && load(b, cubins, err);
    b->fill_s = now() - start;
    struct stem_progress bar = stem_progress_start("timing");
    for (uint32_t v = 0; fine && v < n_variants(b); v++)
        fine = measure(b, v, &bar, err);
    stem_progress_end(&bar);
    if (fine)
        measure_lanes(b);
    return fine;
}

void bench_free(struct bench *b)
{
    bool loaded = b->ways != NULL;
    for (uint32_t v = 0; loaded && v < n_variants(b); v++)
        free_graphs(b, v);
    for (uint32_t i = 0; loaded && i < n_variants(b) * BENCH_KINDS; i++)
        free(b->ways[i].us);
    free(b->ways);
    free(b->bytes);
    free(b->g->poison);
    b->g->poison = NULL;
    b->g->many = (struct stem_cli_exec){0}; /* one of these */
    for (uint32_t p = 0; p < BENCH_PLANS; p++)
        stem_exec_free(b->exec[p].exec);
    for (uint32_t p = 0; p < BENCH_PLANS; p++)
        stem_compiled_free(b->compiled[p]);
}
