/* SPDX-License-Identifier: Apache-2.0 */
#include "lanes/relane.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "lanes/reach.h"
#include "lanes/relane_read.h"
#include "lanes/repair.h"

#define DEFAULT_NODES 100000u
#define DEFAULT_WORK 4000000u
#define LEAST_WORK 10000u
#define CUDA_SUCCESS_CODE 0
#define CUDA_OUT_OF_MEMORY 2
#define CUDA_NOT_FOUND 500

struct relane {
    const struct stem_relane_api *api;
    struct CUgraph_st *graph;
    struct stem_arena *a;
    struct stem_relane_report *report;
    struct stem_relane_graph read;
};

static enum stem_relane_status end(struct relane *r, enum stem_relane_status status, int error)
{
    r->report->status = status;
    r->report->error = error;
    return status;
}

/* ---- adding ---- */

static int add_edge(struct relane *r, struct stem_lane_edge e)
{
    struct stem_relane_edge_data ordinary = {0};
    return r->api->add_dependencies(r->graph, &r->read.node[e.from], &r->read.node[e.to], &ordinary, 1);
}

static int remove_edge(struct relane *r, struct stem_lane_edge e)
{
    struct stem_relane_edge_data ordinary = {0};
    return r->api->remove_dependencies(r->graph, &r->read.node[e.from], &r->read.node[e.to], &ordinary, 1);
}

/* What the repair promises, checked again before the graph of somebody else is touched. */
static bool proved(struct stem_lane_reach *reach, const struct stem_lane_graph *g, struct stem_lane_edge e)
{
    return !e.programmatic && !stem_lane_has_edge(&reach->adj, e.from, e.to) &&
           stem_lane_may_leave(g, &reach->adj, e.from) && stem_lane_may_enter(g, &reach->adj, e.to) &&
           stem_lane_reach_before(reach, e.from, e.to);
}

static bool all_proved(struct relane *r, const struct stem_lane_edge *edges, uint32_t n)
{
    struct stem_lane_reach reach;
    bool good = stem_lane_reach_init(&reach, &r->read.g, r->a);
    for (uint32_t i = 0; i < n && good; i++)
        good = edges[i].from < r->read.g.n && edges[i].to < r->read.g.n && proved(&reach, &r->read.g, edges[i]);
    return good;
}

static bool keep_edges(const struct relane *r, const struct stem_lane_edge *edges, uint32_t n,
                       struct stem_relane_edges *keep)
{
    *keep = (struct stem_relane_edges){malloc((n + 1) * sizeof *keep->edge), malloc((n + 1) * sizeof(void *)),
                                       malloc((n + 1) * sizeof(void *)), n};
    if (!keep->edge || !keep->from || !keep->to) {
        stem_relane_edges_free(keep);
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        keep->edge[i] = edges[i];
        keep->from[i] = r->read.node[edges[i].from];
        keep->to[i] = r->read.node[edges[i].to];
    }
    return true;
}

static enum stem_relane_status add_all(struct relane *r, const struct stem_lane_edge *edges, uint32_t n,
                                       struct stem_relane_edges *keep)
{
    if (keep && !keep_edges(r, edges, n, keep)) {
        r->report->lanes_after = r->report->lanes_before;
        return end(r, STEM_RELANE_FAILED, CUDA_OUT_OF_MEMORY);
    }
    int error = 0;
    uint32_t added = 0;
    while (added < n && !(error = add_edge(r, edges[added])))
        added++;
    r->report->added = added;
    if (!error)
        return end(r, STEM_RELANE_DONE, 0);
    while (added > 0 && !remove_edge(r, edges[added - 1]))
        added--;
    if (keep && !(keep->n = added))
        stem_relane_edges_free(keep);
    r->report->added = added;
    r->report->lanes_after = r->report->lanes_before;
    return end(r, added ? STEM_RELANE_SPOILED : STEM_RELANE_FAILED, error);
}

/* Nodes and edges, and whether all are understood. */
static enum stem_relane_status read_graph(struct relane *r, size_t max_nodes)
{
    int error = stem_relane_read(r->api, r->graph, max_nodes, r->a, &r->read);
    r->report->nodes = r->read.n_top;
    r->report->edges = r->read.n_top_edges;
    if (error)
        return end(r, STEM_RELANE_FAILED, error);
    if (r->read.large)
        return end(r, STEM_RELANE_LARGE, 0);
    for (uint32_t v = 0; v < r->read.n_top; v++)
        r->report->by_kind[r->read.g.kind[v]]++;
    return end(r, r->read.known ? STEM_RELANE_DONE : STEM_RELANE_UNKNOWN, 0);
}

static uint64_t work_for(const struct stem_relane_options *o, const struct stem_lane_graph *g)
{
    uint64_t most = o->work ? o->work : DEFAULT_WORK, fair = (uint64_t)o->effort * (g->n + g->n_edges);
    if (o->effort && fair < LEAST_WORK)
        fair = LEAST_WORK;
    return o->effort && fair < most ? fair : most;
}

static enum stem_relane_status run(struct relane *r, const struct stem_relane_options *o)
{
    size_t max_nodes = o->max_nodes ? o->max_nodes : DEFAULT_NODES;
    if (read_graph(r, max_nodes) != STEM_RELANE_DONE)
        return r->report->status;

    struct stem_lanes lanes;
    struct stem_lane_repair repair;
    struct stem_lane_repair_options how = {.max_edges = o->max_edges, .greedy = true, .work = work_for(o, &r->read.g)};
    if (!stem_lanes_predict(o->model, &r->read.g, r->a, &lanes))
        return end(r, STEM_RELANE_UNKNOWN, 0);
    if (r->read.kinds & ~(o->kinds ? o->kinds : STEM_RELANE_KINDS)) { /* predicted all the same */
        r->report->trust = lanes.trust;
        r->report->lanes_before = r->report->lanes_after = lanes.n_kernel_lanes;
        r->report->lanes_bound = stem_lanes_bound(&r->read.g);
        return end(r, STEM_RELANE_UNKNOWN, 0);
    }
    if (!stem_lanes_repair(o->model, &r->read.g, &how, r->a, &repair))
        return end(r, STEM_RELANE_UNKNOWN, 0);
    r->report->trust = lanes.trust;
    r->report->lanes_before = repair.before;
    r->report->lanes_after = repair.after;
    r->report->lanes_bound = repair.bound;
    if (!repair.n_edges)
        return end(r, STEM_RELANE_NOTHING, 0);
    if (o->dry) {
        r->report->added = repair.n_edges;
        return end(r, STEM_RELANE_DONE, 0);
    }
    if (!all_proved(r, repair.edges, repair.n_edges))
        return end(r, STEM_RELANE_NOTHING, 0);
    return add_all(r, repair.edges, repair.n_edges, o->keep);
}

/* One of the two below, which has an arena of its own and may be ended by stem_arena_try until the first edge is added:
 * adding takes no memory of arenas. */
struct job {
    struct relane r;
    const struct stem_relane_options *options; /* stem_relane */
    const struct stem_relane_edges *edges;     /* stem_relane_again */
    struct stem_relane_edges *keep;
};

static enum stem_relane_status try_job(struct job *j, void (*work)(void *user))
{
    *j->r.report = (struct stem_relane_report){0};
    if (j->keep)
        *j->keep = (struct stem_relane_edges){0};
    if (!stem_arena_try(work, j))
        return end(&j->r, STEM_RELANE_FAILED, CUDA_OUT_OF_MEMORY);
    return j->r.report->status;
}

static void relane_job(void *user)
{
    struct job *j = user;
    j->r.a = stem_arena_new();
    run(&j->r, j->options);
    stem_arena_free(j->r.a);
}

enum stem_relane_status stem_relane(const struct stem_relane_api *api, struct CUgraph_st *graph,
                                    const struct stem_relane_options *options, struct stem_relane_report *report)
{
    static const struct stem_relane_options defaults;
    struct job j = {.r = {.api = api, .graph = graph, .report = report}, .options = options ? options : &defaults};
    j.keep = j.options->keep;
    return try_job(&j, relane_job);
}

/* Those that are there already (one that could not be taken back, say) are what is wanted. */
static enum stem_relane_status add_again(struct relane *r, const struct stem_relane_edges *edges,
                                         struct stem_relane_edges *keep)
{
    struct stem_lane_edge *missing = STEM_NEW_ARRAY(r->a, struct stem_lane_edge, edges->n);
    struct stem_lane_reach reach;
    uint32_t n = 0;
    if (!stem_lane_reach_init(&reach, &r->read.g, r->a))
        return end(r, STEM_RELANE_UNKNOWN, 0);
    for (uint32_t i = 0; i < edges->n; i++) {
        struct stem_lane_edge e = edges->edge[i];
        bool there = e.from < r->read.g.n && e.to < r->read.g.n && stem_lane_has_edge(&reach.adj, e.from, e.to);
        if (!there)
            missing[n++] = e;
    }
    if (!all_proved(r, missing, n))
        return end(r, STEM_RELANE_UNKNOWN, 0);
    return add_all(r, missing, n, keep);
}

static void again_job(void *user)
{
    struct job *j = user;
    j->r.a = stem_arena_new();
    if (read_graph(&j->r, STEM_LANE_MAX_NODES) == STEM_RELANE_DONE)
        add_again(&j->r, j->edges, j->keep);
    stem_arena_free(j->r.a);
}

enum stem_relane_status stem_relane_again(const struct stem_relane_api *api, struct CUgraph_st *graph,
                                          const struct stem_relane_edges *edges, struct stem_relane_edges *keep,
                                          struct stem_relane_report *report)
{
    struct job j = {.r = {.api = api, .graph = graph, .report = report}, .edges = edges, .keep = keep};
    return try_job(&j, again_job);
}

uint32_t stem_relane_undo(const struct stem_relane_api *api, struct CUgraph_st *graph,
                          const struct stem_relane_edges *edges)
{
    static const struct stem_relane_edge_data ordinary;
    uint32_t left = 0;
    for (uint32_t i = edges->n; i-- > 0;)
        left += api->remove_dependencies(graph, &edges->from[i], &edges->to[i], &ordinary, 1) != 0;
    return left;
}

void stem_relane_edges_free(struct stem_relane_edges *edges)
{
    free(edges->edge);
    free(edges->from);
    free(edges->to);
    *edges = (struct stem_relane_edges){0};
}

bool stem_relane_driver(const char *path, struct stem_relane_api *api, void **handle)
{
    const struct {
        const char *name;
        void *place;
        bool may_lack;
    } entries[] = {
        {"cuGraphGetNodes", &api->graph_nodes, false},
        {"cuGraphGetEdges_v2", &api->graph_edges, false},
        {"cuGraphNodeGetType", &api->node_type, false},
        {"cuGraphAddDependencies_v2", &api->add_dependencies, false},
        {"cuGraphRemoveDependencies_v2", &api->remove_dependencies, false},
        {"cuGraphMemcpyNodeGetParams", &api->memcpy_params, true},
        {"cuGraphMemsetNodeGetParams", &api->memset_params, true},
        {"cuGraphChildGraphNodeGetGraph", &api->child_graph, true},
    };
    *handle = path ? dlopen(path, RTLD_NOW) : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    bool complete = *handle != NULL;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0] && complete; i++) {
        void *entry = dlsym(*handle, entries[i].name);
        memcpy(entries[i].place, &entry, sizeof entry);
        complete = entry || entries[i].may_lack;
    }
    if (!complete && *handle) {
        dlclose(*handle);
        *handle = NULL;
    }
    return complete;
}

enum stem_relane_status stem_graph_relane(struct CUgraph_st *graph, const struct stem_relane_options *options,
                                          struct stem_relane_report *report)
{
    struct stem_relane_api api;
    void *driver;
    if (!stem_relane_driver(NULL, &api, &driver)) {
        *report = (struct stem_relane_report){.status = STEM_RELANE_FAILED, .error = CUDA_NOT_FOUND};
        return report->status;
    }
    stem_relane(&api, graph, options, report);
    dlclose(driver);
    return report->status;
}
