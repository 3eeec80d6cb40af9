/* SPDX-License-Identifier: Apache-2.0 */
#include "lanes/relane_read.h"

#include <stdlib.h>
#include <string.h>

#define EDGES_PER_NODE 16u  /* at most, on average */
#define EDGE_PROGRAMMATIC 1 /* CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC */
#define PORT_PROGRAMMATIC 1 /* CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC */
#define MEMORY_HOST 1       /* CU_MEMORYTYPE_HOST */

/* By CUgraphNodeType. */
static const uint8_t kind_of_type[] = {
    STEM_LANE_KERNEL, STEM_LANE_MEMCPY, STEM_LANE_MEMSET, STEM_LANE_HOST,        STEM_LANE_CHILD,
    STEM_LANE_EMPTY,  STEM_LANE_WAIT,   STEM_LANE_EVENT,  STEM_LANE_OTHER,       STEM_LANE_OTHER,
    STEM_LANE_MEMORY, STEM_LANE_FREE,   STEM_LANE_OTHER,  STEM_LANE_CONDITIONAL,
};

struct reading {
    const struct stem_relane_api *api;
    struct stem_arena *a;
    struct stem_relane_graph *out;
    struct CUgraphNode_st **node;
    uint8_t *kind;
    uint32_t *within;
    uint32_t n, cap;
    struct stem_lane_edge *edges;
    size_t n_edges, cap_edges;
    size_t max_nodes;
};

static void *grown(struct stem_arena *a, const void *old, size_t len, size_t cap, size_t size)
{
    void *at = stem_arena_alloc(a, cap * size);
    if (len)
        memcpy(at, old, len * size);
    return at;
}

/* Room for n more nodes and m more edges; false if that is too much. */
static bool make_room(struct reading *r, size_t n, size_t m)
{
    if (n > r->max_nodes - r->n || r->n + n > STEM_LANE_MAX_NODES || r->n_edges + m > r->max_nodes * EDGES_PER_NODE) {
        r->out->large = true;
        return false;
    }
    if (r->n + n > r->cap) {
        uint32_t cap = (uint32_t)(r->n + n > 2 * (size_t)r->cap ? r->n + n : 2 * (size_t)r->cap);
        r->node = grown(r->a, r->node, r->n, cap, sizeof(struct CUgraphNode_st *));
        r->kind = grown(r->a, r->kind, r->n, cap, sizeof *r->kind);
        r->within = grown(r->a, r->within, r->n, cap, sizeof *r->within);
        r->cap = cap;
    }
    if (r->n_edges + m > r->cap_edges) {
        r->cap_edges = r->n_edges + m > 2 * r->cap_edges ? r->n_edges + m : 2 * r->cap_edges;
        r->edges = grown(r->a, r->edges, r->n_edges, r->cap_edges, sizeof *r->edges);
    }
    return true;
}

/* ---- kinds ---- */

/* Whether a memcpy is from or to the host, and how large a memset is, decides how the driver runs it. Parameters that
 * cannot be had leave it unknown. */
static enum stem_lane_kind kind_by_parameters(struct reading *r, struct CUgraphNode_st *node,
                                              enum stem_lane_kind kind)
{
    if (kind == STEM_LANE_MEMCPY) {
        struct stem_relane_memcpy p = {0};
        if (!r->api->memcpy_params || r->api->memcpy_params(node, &p))
            r->out->known = false;
        return p.source_type == MEMORY_HOST || p.target_type == MEMORY_HOST ? STEM_LANE_TRANSFER : kind;
    }
    if (kind == STEM_LANE_MEMSET) {
        struct stem_relane_memset p = {0};
        if (!r->api->memset_params || r->api->memset_params(node, &p))
            r->out->known = false;
        return stem_lane_memset_kind((uint64_t)p.element_size * p.width * p.height);
    }
    return kind;
}

static int read_kinds(struct reading *r, uint32_t first)
{
    for (uint32_t v = first; v < r->n; v++) {
        int type = -1, error = r->api->node_type(r->node[v], &type);
        if (error)
            return error;
        bool known = type >= 0 && (size_t)type < sizeof kind_of_type;
        enum stem_lane_kind kind = known ? (enum stem_lane_kind)kind_of_type[type] : STEM_LANE_OTHER;
        r->kind[v] = (uint8_t)kind_by_parameters(r, r->node[v], kind);
        r->out->known &= r->kind[v] != STEM_LANE_OTHER;
        r->out->kinds |= 1u << r->kind[v];
    }
    return 0;
}

/* ---- edges ---- */

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

/* The m edges of a graph whose nodes are numbers first .. r->n - 1. */
static int read_edges(struct reading *r, struct CUgraph_st *graph, uint32_t first, size_t m)
{
    if (!m)
        return 0;
    uint32_t n = r->n - first;
    struct CUgraphNode_st **from = STEM_NEW_ARRAY(r->a, struct CUgraphNode_st *, m);
    struct CUgraphNode_st **to = STEM_NEW_ARRAY(r->a, struct CUgraphNode_st *, m);
    struct stem_relane_edge_data *data = STEM_NEW_ARRAY(r->a, struct stem_relane_edge_data, m);
    struct place *sorted = STEM_NEW_ARRAY(r->a, struct place, n);
    size_t len = m;
    int error = r->api->graph_edges(graph, from, to, data, &len);
    if (error)
        return error;
    for (uint32_t i = 0; i < n; i++)
        sorted[i] = (struct place){r->node[first + i], first + i};
    qsort(sorted, n, sizeof *sorted, by_address);
    for (size_t i = 0; i < len && i < m; i++) {
        bool plain = data[i].type == 0 && data[i].from_port == 0 && data[i].to_port == 0;
        bool programmatic = data[i].type == EDGE_PROGRAMMATIC && data[i].from_port == PORT_PROGRAMMATIC;
        struct stem_lane_edge e = {index_of(sorted, n, from[i]), index_of(sorted, n, to[i]), !plain};
        r->out->known &= plain || programmatic;
        if (e.from != STEM_NO_NODE && e.to != STEM_NO_NODE)
            r->edges[r->n_edges++] = e;
        else
            r->out->known = false;
    }
    return 0;
}

/* ---- graphs ---- */

static int read_level(struct reading *r, struct CUgraph_st *graph, uint32_t within)
{
    size_t n = 0, m = 0;
    uint32_t first = r->n;
    int error = r->api->graph_nodes(graph, NULL, &n);
    if (error)
        return error;
    if (within == STEM_NO_NODE)
        r->out->n_top = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
    if (!make_room(r, n, 0))
        return 0;
    if ((error = r->api->graph_edges(graph, NULL, NULL, NULL, &m)))
        return error;
    if (within == STEM_NO_NODE)
        r->out->n_top_edges = m > UINT32_MAX ? UINT32_MAX : (uint32_t)m;
    if (!make_room(r, n, m))
        return 0;
    if (n && (error = r->api->graph_nodes(graph, r->node + first, &n)))
        return error;
    r->n += (uint32_t)n;
    for (uint32_t v = first; v < r->n; v++)
        r->within[v] = within;
    error = read_kinds(r, first);
    return error ? error : read_edges(r, graph, first, m);
}

int stem_relane_read(const struct stem_relane_api *api, struct CUgraph_st *graph, size_t max_nodes,
                     struct stem_arena *a, struct stem_relane_graph *out)
{
    struct reading r = {.api = api, .a = a, .out = out, .max_nodes = max_nodes};
    *out = (struct stem_relane_graph){.known = true};
    int error = read_level(&r, graph, STEM_NO_NODE);
    /* What child graphs hold goes behind all that is known already. */
    for (uint32_t v = 0; v < r.n && !error && !out->large; v++) {
        struct CUgraph_st *child = NULL;
        if (r.kind[v] != STEM_LANE_CHILD)
            continue;
        if (api->child_graph && !api->child_graph(r.node[v], &child) && child)
            error = read_level(&r, child, v);
        else
            out->known = false;
    }
    out->node = r.node;
    out->g = (struct stem_lane_graph){.n = r.n, .kind = r.kind, .edges = r.edges, .n_edges = (uint32_t)r.n_edges};
    out->g.within = r.n > out->n_top ? r.within : NULL;
    return error;
}
