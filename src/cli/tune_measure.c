/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/arena.h"
#include "cli/tune.h"

enum { WARMUP = 2, REPLAYS = 9, FEWEST = 3 };
#define LENGTH_US 800.0   /* of a run: long beside what starting a graph takes */
#define ENOUGH_US 20000.0 /* of all replays of a run */

static bool bind(struct stem_exec *e, const struct stem_plan *p, const uint64_t *address, struct stem_rt_error *err)
{
    for (uint32_t i = 0; i < p->n_external; i++)
        if (address[i] && stem_exec_bind(e, i, address[i], p->variants[0].buffers[i].bytes, err) != STEM_OK)
            return false;
        else if (!address[i] && stem_exec_bind_own(e, i, err) != STEM_OK)
            return false;
    return true;
}

static bool replay(struct tune *t, struct stem_graph *g, double *us, struct stem_rt_error *err)
{
    struct stem_timer *timer = NULL;
    double all[REPLAYS], sum = 0;
    uint32_t n = 0;
    bool fine = stem_timer_new(t->gpu->rt, &timer, err) == STEM_OK;
    for (uint32_t i = 0; fine && i < WARMUP + REPLAYS && !(n >= FEWEST && sum > ENOUGH_US); i++) {
        fine = stem_timer_start(timer, t->gpu->stream, err) == STEM_OK &&
               stem_graph_launch(g, t->gpu->stream, err) == STEM_OK &&
               stem_timer_stop(timer, t->gpu->stream, &all[n], err) == STEM_OK;
        sum += fine ? all[n] : 0;
        n += i >= WARMUP;
    }
    if (fine)
        *us = stem_quantile(all, n, 0.5);
    stem_timer_free(timer);
    return fine;
}

bool tune_time(struct tune *t, const struct tune_run *r, double *us, struct stem_rt_error *err)
{
    struct stem_arena *a = stem_arena_new();
    const uint64_t *address;
    struct stem_plan *p = tune_plan(r, a, &address);
    const struct stem_cubin *cubin = stem_exec_cubin(r->a->program->exec.exec);
    struct stem_exec_options o = {.cubin = cubin->data, .cubin_bytes = cubin->bytes};
    struct stem_exec *e = NULL;
    struct stem_graph *g = NULL;
    bool fine = stem_exec_new(t->gpu->rt, p, &o, &e, err) == STEM_OK && bind(e, p, address, err) &&
                stem_graph_new(e, 0, STEM_GRAPH_BY_NODES, &g, err) == STEM_OK && replay(t, g, us, err);
    stem_graph_free(g);
    stem_exec_free(e);
    stem_plan_free(p);
    stem_arena_free(a);
    return fine;
}

static uint32_t times_for(double us)
{
    double n = LENGTH_US / (us > 0.1 ? us : 0.1);
    return n < 4 ? 4 : n > 400 ? 400 : (uint32_t)n;
}

/* Two lengths: their difference has no part that does not grow with the number of launches. */
static bool per_launch(struct tune *t, struct tune_run r, double *us, struct stem_rt_error *err)
{
    double first, shorter, longer;
    r.times_a = 2;
    if (!tune_time(t, &r, &first, err))
        return false;
    uint32_t n = times_for(first / 2);
    r.times_a = n / 4;
    if (!tune_time(t, &r, &shorter, err))
        return false;
    r.times_a = n;
    if (!tune_time(t, &r, &longer, err))
        return false;
    *us = (longer - shorter) / (n - n / 4);
    if (*us <= 0)
        *us = longer / n;
    return true;
}

static bool waits(const struct tune_op *o)
{
    const struct stem_plan *p = o->program->exec.plan;
    return p->variants[o->variant].ops[o->op].work == STEM_WORK_LAUNCH && p->kernels[p->variants[o->variant].ops[o->op].kernel].waits;
}

static bool early(const struct tune *t)
{
    return t->options->pdl != STEM_PDL_OFF && t->gpu->info.sm >= 90;
}

bool tune_measure_op(struct tune *t, struct tune_op *o, struct stem_rt_error *err)
{
    struct stem_cost_entry e = {.key = o->key, .kernel = o->kernel};
    struct tune_run r = {.form = TUNE_CHAIN, .a = o};
    bool fine = tune_rotate(t, o, err) && per_launch(t, r, &e.us, err);
    r.early = true;
    if (fine && early(t) && waits(o))
        fine = per_launch(t, r, &e.early_us, err);
    if (!fine)
        return false;
    o->entry = stem_costs_put(t->costs, t->table, e);
    o->us = e.early_us > 0 ? e.early_us : e.us;
    o->stale = false;
    return true;
}

/* While both run, each is slowed down alike: as long as chains of equal length take together, over what one takes. */
static bool slowdown(struct tune *t, struct tune_run r, double *factor, struct stem_rt_error *err)
{
    double us;
    r.form = TUNE_TOGETHER;
    r.times_a = times_for(r.a->us);
    double length = r.times_a * r.a->us;
    r.times_b = (uint32_t)(length / r.b->us + 0.5);
    r.times_b = r.times_b < 1 ? 1 : r.times_b > 2000 ? 2000 : r.times_b;
    if (!tune_time(t, &r, &us, err))
        return false;
    double other = r.times_b * r.b->us, longer = length > other ? length : other, shorter = length + other - longer;
    /* us = shorter * factor + (longer - shorter) */
    *factor = (us - (longer - shorter)) / shorter;
    *factor = *factor < 1 ? 1 : *factor;
    return true;
}

/* Times of two ops that run together and start together. */
static double together(double a, double b, double factor)
{
    double shorter = a < b ? a : b, longer = a < b ? b : a;
    return shorter * factor + longer - shorter;
}

bool tune_measure_pair(struct tune *t, const struct tune_pair *p, struct stem_rt_error *err)
{
    if (!tune_rotate(t, &t->ops.at[p->a], err) || !tune_rotate(t, &t->ops.at[p->b], err))
        return false;
    /* With the weights of where each was met first, the kernels of the plan that has both. */
    struct tune_op in_plan[] = {t->ops.at[p->a], t->ops.at[p->b]}, *a = &in_plan[0], *b = &in_plan[1];
    a->program = b->program = p->program;
    a->variant = b->variant = p->variant;
    a->op = p->op_a;
    b->op = p->op_b;
    struct tune_run r = {.form = TUNE_FORKED, .a = a, .b = b, .early = early(t)};
    struct stem_cost_pair pair = {.a = a->entry, .b = b->entry};
    double forked, serial;
    if (!slowdown(t, r, &pair.slowdown, err) || !per_launch(t, r, &forked, err))
        return false;
    r.form = TUNE_SERIAL;
    if (!per_launch(t, r, &serial, err))
        return false;
    /* What overlapping should save, less what a fork does save. */
    pair.fork_us = a->us + b->us - together(a->us, b->us, pair.slowdown) - (serial - forked);
    stem_costs_put_pair(t->table, pair);
    return true;
}

bool tune_bandwidth(struct stem_gpu *g, double *bandwidth, struct stem_rt_error *err)
{
    enum { COPIES = 8, ROUNDS = 5 };
    uint64_t bytes = g->info.total_bytes / 32 < (uint64_t)1 << 30 ? g->info.total_bytes / 32 : (uint64_t)1 << 30, from = 0, to = 0;
    struct stem_timer *timer = NULL;
    double us[ROUNDS];
    bool fine = stem_rt_alloc(g->rt, bytes, &from, err) == STEM_OK && stem_rt_alloc(g->rt, bytes, &to, err) == STEM_OK &&
                stem_timer_new(g->rt, &timer, err) == STEM_OK;
    for (int i = 0; fine && i < ROUNDS; i++) {
        fine = stem_timer_start(timer, g->stream, err) == STEM_OK;
        for (int k = 0; fine && k < COPIES; k++)
            fine = stem_rt_copy(g->rt, to, from, bytes, g->stream, err) == STEM_OK;
        fine = fine && stem_timer_stop(timer, g->stream, &us[i], err) == STEM_OK;
    }
    if (fine)
        *bandwidth = 2e6 * COPIES * (double)bytes / stem_quantile(us, ROUNDS, 0.5);
    stem_timer_free(timer);
    stem_rt_free(g->rt, from);
    stem_rt_free(g->rt, to);
    return fine;
}
