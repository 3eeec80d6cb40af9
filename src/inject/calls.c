/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <time.h>

#include "inject/inject.h"

#define DEFAULT_NODES 50000u
/* Enough for all lanes of layers that fork (300 layers of 6 nodes: 5 ms), and of the order of the instantiation. */
#define EFFORT 20u

/* An instantiation or an update between its entry and its exit. */
struct call {
    struct CUgraph_st *graph;
    struct stem_inject_instance *place; /* instantiation */
    struct stem_relane_edges added;
    struct stem_relane_report report;
    uint64_t started, own_ns;
};

/* A driver function that is implemented by another may be reported as both; the outer one counts. And whatever the
 * handlers call themselves is none of the program's calls. */
static __thread uint32_t depth;

uint64_t stem_inject_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void stem_inject_init(struct stem_inject *s, const struct stem_inject_options *options,
                      const struct stem_relane_api *api)
{
    s->options = *options;
    s->api = *api;
    stem_inject_tally_init(&s->tally);
    stem_inject_measure_init(&s->measure);
    atomic_init(&s->off, false);
}

void stem_inject_free(struct stem_inject *s)
{
    stem_inject_tally_free(&s->tally);
    stem_inject_measure_free(&s->measure);
}

static void enter_instantiate(struct stem_inject *s, const struct stem_inject_instantiate *p, struct call *c)
{
    c->place = stem_inject_tally_reserve(&s->tally);
    const struct stem_relane_options how = {
        .model = s->options.model,
        .max_nodes = s->options.max_nodes ? s->options.max_nodes : DEFAULT_NODES,
        .effort = EFFORT,
        .dry = !s->options.relane || !c->place, /* edges that are not remembered would make updates fail */
        .keep = &c->added,
    };
    c->graph = p->graph;
    stem_relane(&s->api, c->graph, &how, &c->report);
}

static void enter_update(struct stem_inject *s, const struct stem_inject_update *p, struct call *c)
{
    const struct stem_relane_edges *edges = stem_inject_tally_edges(&s->tally, p->exec);
    c->graph = p->graph;
    if (edges)
        stem_relane_again(&s->api, c->graph, edges, &c->added, &c->report);
}

static void enter_change(struct stem_inject *s, enum stem_inject_call call, const void *params, uint64_t *slot)
{
    struct call *c = depth ? NULL : calloc(1, sizeof *c);
    if (!c)
        return;
    depth++;
    uint64_t begin = stem_inject_now();
    if (call == STEM_INJECT_INSTANTIATE)
        enter_instantiate(s, params, c);
    else
        enter_update(s, params, c);
    c->started = stem_inject_now();
    c->own_ns = c->started - begin;
    *slot = (uintptr_t)c;
}

void stem_inject_enter(struct stem_inject *s, enum stem_inject_call call, const void *params, uint32_t correlation,
                       uint64_t *slot)
{
    *slot = 0;
    if (atomic_load(&s->off))
        return;
    switch (call) {
    case STEM_INJECT_INSTANTIATE:
    case STEM_INJECT_UPDATE: enter_change(s, call, params, slot); return;
    case STEM_INJECT_LAUNCH: {
        const struct stem_inject_update *p = params;
        uint32_t group = depth ? STEM_INJECT_NO_GROUP : stem_inject_tally_launch(&s->tally, p->exec);
        if (group != STEM_INJECT_NO_GROUP && s->options.measure)
            stem_inject_watch_launch(&s->measure, correlation, group);
        return;
    }
    case STEM_INJECT_DESTROY: {
        const struct stem_inject_update *p = params;
        if (!depth)
            stem_inject_tally_destroy(&s->tally, p->exec);
        return;
    }
    }
}

static void exit_instantiate(struct stem_inject *s, const struct stem_inject_instantiate *p, bool failed,
                             struct call *c, const struct stem_inject_timing *timing)
{
    struct CUgraphExec_st *exec = failed || !p->exec ? NULL : *p->exec;
    bool watch;
    uint32_t group = stem_inject_tally_instance(&s->tally, c->place, exec, &c->report, &c->added, timing, &watch);
    if (watch && s->options.measure && s->options.exec_id)
        stem_inject_watch_instance(&s->measure, s->options.exec_id(exec), group);
}

void stem_inject_exit(struct stem_inject *s, enum stem_inject_call call, const void *params, int result,
                      uint64_t *slot)
{
    struct call *c = call <= STEM_INJECT_UPDATE ? (struct call *)(uintptr_t)*slot : NULL;
    if (!c)
        return;
    *slot = 0;
    uint64_t now = stem_inject_now();
    struct stem_inject_timing timing = {.driver_ns = now - c->started};
    if (c->added.n)
        timing.edges_left = stem_relane_undo(&s->api, c->graph, &c->added);
    timing.own_ns = c->own_ns + stem_inject_now() - now;
    if (call == STEM_INJECT_INSTANTIATE)
        exit_instantiate(s, params, result != 0, c, &timing);
    else
        stem_inject_tally_update(&s->tally, ((const struct stem_inject_update *)params)->exec, result != 0, &timing);
    stem_relane_edges_free(&c->added);
    free(c);
    depth--;
}
