/* SPDX-License-Identifier: Apache-2.0 */
#include "lanes/relane.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "lanes/reach.h"
#include "lanes/repair.h"

#define DEFAULT_NODES 100000u
#define DEFAULT_WORK 4000000u
#define LEAST_WORK 10000u
#define CUDA_SUCCESS_CODE 0
#define CUDA_OUT_OF_MEMORY 2
#define CUDA_NOT_FOUND 500
#define EDGES_PER_NODE 16u  /* at most, on average */
#define EDGE_PROGRAMMATIC 1 /* CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC */
#define PORT_PROGRAMMATIC 1 /* CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC */

struct relane {
    const struct stem_relane_api *api;
    struct CUgraph_st *graph;
    struct stem_arena *a;
    struct stem_relane_report *report;
    struct CUgraphNode_st **node;
    struct stem_lane_graph g;
    bool understood; /* every kind of node and edge */
};

/* By CUgraphNodeType. */
static const uint8_t kind_of_type[] = {
    STEM_LANE_KERNEL, STEM_LANE_MEMCPY, STEM_LANE_MEMSET, STEM_LANE_HOST,        STEM_LANE_CHILD,
    STEM_LANE_EMPTY,  STEM_LANE_WAIT,   STEM_LANE_EVENT,  STEM_LANE_OTHER,       STEM_LANE_OTHER,
    STEM_LANE_MEMORY, STEM_LANE_FREE,   STEM_LANE_OTHER,  STEM_LANE_CONDITIONAL,
};

static enum stem_relane_status end(struct relane *r, enum stem_relane_status status, int error)
{
    r->report->status = status;
    r->report->error = error;
    return status;
}

/* ---- reading ---- */

static int read_nodes(struct relane *r, uint32_t kinds)
{
    size_t n = r->report->nodes;
    uint8_t *kind = STEM_NEW_ARRAY(r->a, uint8_t, n);
    r->node = STEM_NEW_ARRAY(r->a, struct CUgraphNode_st *, n);
    int error = n ? r->api->graph_nodes(r->graph, r->node, &n) : CUDA_SUCCESS_CODE;
    for (uint32_t v = 0; v < r->report->nodes && !error; v++) {
        int type = -1;
        error = r->api->node_type(r->node[v], &type);
        bool known = type >= 0 && (size_t)type < sizeof kind_of_type;
        kind[v] = known ? kind_of_type[type] : STEM_LANE_OTHER;
        r->report->by_kind[kind[v]]++;
        r->understood &= kinds >> kind[v] & 1;
    }
    r->g = (struct stem_lane_graph){.n = r->report->nodes, .kind = kind};
    return error;
}

struct place {
    struct CUgraphNode_st *node;
    uint32_t index;
};

static int by_address(const void *x, const void *y)
{
    uintptr_t a = (uintptr_t)((const struct place *)x)->node, b = (uintptr_t)((const struct place *)y)->node;
    return (a > b) - (a < b);
}

static uint32_t index_of(const struct place *sorted, uint32_t n, struct CUgraphNode_st *node)
{
    struct place key = {node, 0};
    const struct place *found = bsearch(&key, sorted, n, sizeof *sorted, by_address);
    return found ? found->index : STEM_NO_NODE;
}

static int read_edges(struct relane *r, size_t m)
{
    if (!m)
        return CUDA_SUCCESS_CODE;
    struct CUgraphNode_st **from = STEM_NEW_ARRAY(r->a, struct CUgraphNode_st *, m);
    struct CUgraphNode_st **to = STEM_NEW_ARRAY(r->a, struct CUgraphNode_st *, m);
    struct stem_relane_edge_data *data = STEM_NEW_ARRAY(r->a, struct stem_relane_edge_data, m);
    struct stem_lane_edge *edges = STEM_NEW_ARRAY(r->a, struct stem_lane_edge, m);
    struct place *sorted = STEM_NEW_ARRAY(r->a, struct place, r->g.n);
    int error = r->api->graph_edges(r->graph, from, to, data, &m);
    if (error)
        return error;
    for (uint32_t v = 0; v < r->g.n; v++)
        sorted[v] = (struct place){r->node[v], v};
    qsort(sorted, r->g.n, sizeof *sorted, by_address);
    for (size_t i = 0; i < m; i++) {
        bool plain = data[i].type == 0 && data[i].from_port == 0 && data[i].to_port == 0;
        bool programmatic = data[i].type == EDGE_PROGRAMMATIC && data[i].from_port == PORT_PROGRAMMATIC;
        edges[i] =
            (struct stem_lane_edge){index_of(sorted, r->g.n, from[i]), index_of(sorted, r->g.n, to[i]), !plain};
        r->understood &= (plain || programmatic) && edges[i].from < r->g.n && edges[i].to < r->g.n;
    }
    r->g.edges = edges;
    r->g.n_edges = r->report->edges = (uint32_t)m;
    return CUDA_SUCCESS_CODE;
}

/* ---- adding ---- */

static int add_edge(struct relane *r, struct stem_lane_edge e)
{
    struct stem_relane_edge_data ordinary = {0};
    return r->api->add_dependencies(r->graph, &r->node[e.from], &r->node[e.to], &ordinary, 1);
}

static int remove_edge(struct relane *r, struct stem_lane_edge e)
{
    struct stem_relane_edge_data ordinary = {0};
    return r->api->remove_dependencies(r->graph, &r->node[e.from], &r->node[e.to], &ordinary, 1);
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
    bool good = stem_lane_reach_init(&reach, &r->g, r->a);
    for (uint32_t i = 0; i < n && good; i++)
        good = edges[i].from < r->g.n && edges[i].to < r->g.n && proved(&reach, &r->g, edges[i]);
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
        keep->from[i] = r->node[edges[i].from];
        keep->to[i] = r->node[edges[i].to];
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
static enum stem_relane_status read_graph(struct relane *r, size_t max_nodes, uint32_t kinds)
{
    size_t n = 0, m = 0;
    int error = r->api->graph_nodes(r->graph, NULL, &n);
    if (error)
        return end(r, STEM_RELANE_FAILED, error);
    r->report->nodes = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
    if (n > max_nodes || n > STEM_LANE_MAX_NODES)
        return end(r, STEM_RELANE_LARGE, 0);
    if ((error = r->api->graph_edges(r->graph, NULL, NULL, NULL, &m)))
        return end(r, STEM_RELANE_FAILED, error);
    r->report->edges = m > UINT32_MAX ? UINT32_MAX : (uint32_t)m;
    if (m > max_nodes * EDGES_PER_NODE)
        return end(r, STEM_RELANE_LARGE, 0);
    r->understood = true;
    if ((error = read_nodes(r, kinds)) || (error = read_edges(r, m)))
        return end(r, STEM_RELANE_FAILED, error);
    return end(r, r->understood ? STEM_RELANE_DONE : STEM_RELANE_UNKNOWN, 0);
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
    if (read_graph(r, max_nodes, o->kinds ? o->kinds : STEM_RELANE_KINDS) != STEM_RELANE_DONE)
        return r->report->status;

    struct stem_lanes lanes;
    struct stem_lane_repair repair;
    struct stem_lane_repair_options how = {.max_edges = o->max_edges, .greedy = true, .work = work_for(o, &r->g)};
    if (!stem_lanes_predict(o->model, &r->g, r->a, &lanes) ||
        !stem_lanes_repair(o->model, &r->g, &how, r->a, &repair))
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
    if (!stem_lane_reach_init(&reach, &r->g, r->a))
        return end(r, STEM_RELANE_UNKNOWN, 0);
    for (uint32_t i = 0; i < edges->n; i++) {
        struct stem_lane_edge e = edges->edge[i];
        bool there = e.from < r->g.n && e.to < r->g.n && stem_lane_has_edge(&reach.adj, e.from, e.to);
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
    if (read_graph(&j->r, STEM_LANE_MAX_NODES, STEM_RELANE_KINDS) == STEM_RELANE_DONE)
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
    } entries[] = {
        {"cuGraphGetNodes", &api->graph_nodes},
        {"cuGraphGetEdges_v2", &api->graph_edges},
        {"cuGraphNodeGetType", &api->node_type},
        {"cuGraphAddDependencies_v2", &api->add_dependencies},
        {"cuGraphRemoveDependencies_v2", &api->remove_dependencies},
    };
    *handle = path ? dlopen(path, RTLD_NOW) : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    bool complete = *handle != NULL;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0] && complete; i++) {
        void *entry = dlsym(*handle, entries[i].name);
        memcpy(entries[i].place, &entry, sizeof entry);
        complete = entry != NULL;
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
