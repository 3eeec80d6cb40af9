/* SPDX-License-Identifier: Apache-2.0 */
#include "graphs.h"

#include "base/vec.h"
#include "lanes/relane.h"
#include "lanes/repair.h"

/* A graph behind the driver's functions. Addresses of nodes are handed out downwards, so that nothing may depend on
 * their order. */
struct CUgraphNode_st {
    uint32_t index;
};

struct CUgraph_st {
    struct CUgraphNode_st node[1000];
    uint32_t n;
    const int *type;
    STEM_VEC(struct stem_lane_edge) edges;
    STEM_VEC(struct stem_relane_edge_data) data;
    uint32_t calls, fail_at; /* the fail_at-th call of any function fails; 0: none */
    bool keep;               /* and removing fails as well */
};

static struct CUgraphNode_st *node_of(struct CUgraph_st *g, uint32_t v)
{
    g->node[999 - v].index = v;
    return &g->node[999 - v];
}

static bool fails(struct CUgraph_st *g)
{
    return ++g->calls == g->fail_at;
}

static struct CUgraph_st *present; /* node_type is not told the graph */

static int graph_nodes(struct CUgraph_st *g, struct CUgraphNode_st **nodes, size_t *n)
{
    if (fails(g))
        return 1;
    for (uint32_t v = 0; nodes && v < g->n; v++)
        nodes[v] = node_of(g, v);
    *n = g->n;
    return 0;
}

static int graph_edges(struct CUgraph_st *g, struct CUgraphNode_st **from, struct CUgraphNode_st **to,
                       struct stem_relane_edge_data *data, size_t *n)
{
    if (fails(g))
        return 1;
    for (uint32_t i = 0; from && i < g->edges.len; i++) {
        from[i] = node_of(g, g->edges.at[i].from);
        to[i] = node_of(g, g->edges.at[i].to);
        data[i] = g->data.at[i];
    }
    *n = g->edges.len;
    return 0;
}

static int node_type(struct CUgraphNode_st *node, int *type)
{
    if (fails(present))
        return 1;
    *type = present->type ? present->type[node->index] : 0;
    return 0;
}

static int add_dependencies(struct CUgraph_st *g, struct CUgraphNode_st *const *from,
                            struct CUgraphNode_st *const *to, const struct stem_relane_edge_data *data, size_t n)
{
    if (fails(g))
        return 9;
    for (size_t i = 0; i < n; i++) {
        stem_vec_push(&g->edges, (struct stem_lane_edge){from[i]->index, to[i]->index, false});
        stem_vec_push(&g->data, data[i]);
    }
    return 0;
}

static int remove_dependencies(struct CUgraph_st *g, struct CUgraphNode_st *const *from,
                               struct CUgraphNode_st *const *to, const struct stem_relane_edge_data *data, size_t n)
{
    (void)data;
    if (g->keep)
        return 8;
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = g->edges.len; k-- > 0;)
            if (g->edges.at[k].from == from[i]->index && g->edges.at[k].to == to[i]->index) {
                g->edges.at[k] = g->edges.at[--g->edges.len];
                g->data.at[k] = g->data.at[--g->data.len];
                break;
            }
    return 0;
}

static const struct stem_relane_api api = {graph_nodes, graph_edges, node_type, add_dependencies,
                                           remove_dependencies, NULL, NULL, NULL};

static struct CUgraph_st *graph_from(const struct stem_lane_graph *g)
{
    struct CUgraph_st *graph = calloc(1, sizeof *graph);
    graph->n = g->n;
    for (uint32_t i = 0; i < g->n_edges; i++) {
        stem_vec_push(&graph->edges, g->edges[i]);
        struct stem_relane_edge_data data = {.from_port = g->edges[i].programmatic, .type = g->edges[i].programmatic};
        stem_vec_push(&graph->data, data);
    }
    return present = graph;
}

static void graph_free(struct CUgraph_st *g)
{
    stem_vec_free(&g->edges);
    stem_vec_free(&g->data);
    free(g);
}

static void layers(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_graph g = fork_join(a, 2, 61, 1, 3, true, false);
    struct CUgraph_st *one = graph_from(&g);
    struct stem_relane_report r;
    CU_ASSERT_EQUAL(stem_relane(&api, one, &(struct stem_relane_options){.dry = true}, &r), STEM_RELANE_DONE);
    CU_ASSERT_EQUAL(one->edges.len, g.n_edges);
    CU_ASSERT_EQUAL(r.added, 60);
    CU_ASSERT_EQUAL(stem_relane(&api, one, NULL, &r), STEM_RELANE_DONE);
    CU_ASSERT_EQUAL(r.nodes, g.n);
    CU_ASSERT_EQUAL(r.edges, g.n_edges);
    CU_ASSERT_EQUAL(r.lanes_before, 62);
    CU_ASSERT_EQUAL(r.lanes_after, 2);
    CU_ASSERT_EQUAL(r.lanes_bound, 2);
    CU_ASSERT_EQUAL(r.trust, STEM_LANE_EXACT);
    CU_ASSERT_EQUAL(r.added, 60);
    CU_ASSERT_EQUAL(r.by_kind[STEM_LANE_KERNEL], g.n);
    struct stem_lane_graph now = {.n = g.n, .edges = one->edges.at, .n_edges = one->edges.len};
    CU_ASSERT_EQUAL(lanes_of(&now), 2);
    for (uint32_t i = g.n_edges; i < one->edges.len; i++)
        CU_ASSERT(stem_lanes_implied(&g, one->edges.at[i].from, one->edges.at[i].to));

    /* The same again gives the same edges in the same order; and what was relaned needs nothing more. */
    struct CUgraph_st *two = graph_from(&g);
    CU_ASSERT_EQUAL(stem_relane(&api, two, NULL, &r), STEM_RELANE_DONE);
    CU_ASSERT_EQUAL(one->edges.len, two->edges.len);
    for (uint32_t i = 0; i < one->edges.len; i++)
        CU_ASSERT(one->edges.at[i].from == two->edges.at[i].from && one->edges.at[i].to == two->edges.at[i].to);
    CU_ASSERT_EQUAL(stem_relane(&api, two, NULL, &r), STEM_RELANE_NOTHING);
    CU_ASSERT_EQUAL(two->edges.len, one->edges.len);
    graph_free(one);
    graph_free(two);
    stem_arena_free(a);
}

/* Whichever call fails, the graph is as it was. */
static void failures(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_graph g = fork_join(a, 2, 5, 1, 2, true, false);
    for (uint32_t k = 1;; k++) {
        struct CUgraph_st *graph = graph_from(&g);
        struct stem_relane_report r;
        graph->fail_at = k;
        enum stem_relane_status status = stem_relane(&api, graph, NULL, &r);
        bool done = graph->calls < k;
        CU_ASSERT_EQUAL(status, done ? STEM_RELANE_DONE : STEM_RELANE_FAILED);
        CU_ASSERT_EQUAL(graph->edges.len, g.n_edges + (done ? 4 : 0));
        CU_ASSERT_EQUAL(r.added, done ? 4 : 0);
        CU_ASSERT_EQUAL(r.error != 0, !done);
        for (uint32_t i = 0; i < g.n_edges; i++)
            CU_ASSERT(graph->edges.at[i].from == g.edges[i].from && graph->edges.at[i].to == g.edges[i].to);
        graph_free(graph);
        if (done)
            break;
    }
    struct CUgraph_st *graph = graph_from(&g);
    struct stem_relane_report r;
    graph->keep = true;
    graph->fail_at = 4 + g.n + 2; /* the second edge: nodes twice, types, edges twice, one edge */
    CU_ASSERT_EQUAL(stem_relane(&api, graph, NULL, &r), STEM_RELANE_SPOILED);
    CU_ASSERT_EQUAL(r.added, 1);
    CU_ASSERT_EQUAL(r.error, 9);
    graph_free(graph);
    stem_arena_free(a);
}

static void left_alone(void)
{
    struct stem_arena *a = stem_arena_new();
    struct stem_lane_graph g = fork_join(a, 2, 3, 1, 2, true, false);
    int type[100] = {0};
    struct CUgraph_st *graph = graph_from(&g);
    struct stem_relane_report r;
    static const int unknown[] = {4, 8, 9, 10, 11, 12, 13, 14, -1};
    graph->type = type;
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        type[0] = unknown[i];
        CU_ASSERT_EQUAL(stem_relane(&api, graph, NULL, &r), STEM_RELANE_UNKNOWN);
        CU_ASSERT_EQUAL(graph->edges.len, g.n_edges);
        CU_ASSERT_EQUAL(r.added, 0);
        /* Memory and conditional nodes: lanes are told all the same; of a child graph whose contents are not, no. */
        CU_ASSERT_EQUAL(r.lanes_before != 0, unknown[i] >= 10 && unknown[i] != 12 && unknown[i] < 14);
    }
    type[0] = 0;
    CU_ASSERT_EQUAL(stem_relane(&api, graph, &(struct stem_relane_options){.max_nodes = 4}, &r), STEM_RELANE_LARGE);
    graph->data.at[0].from_port = 2; /* launch order: never measured */
    graph->data.at[0].type = 1;
    CU_ASSERT_EQUAL(stem_relane(&api, graph, NULL, &r), STEM_RELANE_UNKNOWN);
    CU_ASSERT_EQUAL(graph->edges.len, g.n_edges);
    graph_free(graph);

    /* No edge goes to or from a kernel by its programmatic side. */
    struct stem_lane_edge *programmatic = stem_arena_dup(a, g.edges, g.n_edges * sizeof *g.edges);
    for (uint32_t i = 0; i < g.n_edges; i++)
        programmatic[i].programmatic = true;
    g.edges = programmatic;
    graph = graph_from(&g);
    CU_ASSERT_EQUAL(stem_relane(&api, graph, NULL, &r), STEM_RELANE_NOTHING);
    CU_ASSERT_EQUAL(r.trust, STEM_LANE_GOOD);
    graph_free(graph);

    struct stem_lane_graph empty = {.n = 0};
    graph = graph_from(&empty);
    CU_ASSERT_EQUAL(stem_relane(&api, graph, NULL, &r), STEM_RELANE_NOTHING);
    graph_free(graph);
    stem_arena_free(a);
}

static void without_driver(void)
{
    struct stem_relane_report r;
    CU_ASSERT_EQUAL(stem_graph_relane(NULL, NULL, &r), STEM_RELANE_FAILED);
    CU_ASSERT_EQUAL(r.error, 500);
}

UNIT_MAIN("relane", {"61 layers", layers}, {"failures leave the graph as it was", failures},
          {"what is not understood is left alone", left_alone}, {"without a driver", without_driver})
