/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a graph back and holds it against the plan. Nodes are looked up by address but never ordered by it: what is
 * compared, and what a message names, depends on the plan's numbering alone.
 */
#include "exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- node map: open addressing, at most half full ---- */

static size_t slot(const struct stem_node_map *m, const struct CUgraphNode_st *node)
{
    uint64_t h = (uint64_t)(uintptr_t)node * 0x9E3779B97F4A7C15ull;
    size_t at = (size_t)(h >> 20) & (m->cap - 1);
    while (m->node[at] && m->node[at] != node)
        at = (at + 1) & (m->cap - 1);
    return at;
}

static bool enlarge(struct stem_node_map *m)
{
    struct stem_node_map bigger = {.cap = m->cap ? m->cap * 2 : 256, .n = m->n};
    bigger.node = stem_zalloc(bigger.cap, sizeof *bigger.node);
    bigger.op = stem_zalloc(bigger.cap, sizeof *bigger.op);
    if (!bigger.node || !bigger.op) {
        stem_node_map_free(&bigger);
        return false;
    }
    for (size_t i = 0; i < m->cap; i++) {
        if (!m->node[i])
            continue;
        size_t at = slot(&bigger, m->node[i]);
        bigger.node[at] = m->node[i];
        bigger.op[at] = m->op[i];
    }
    stem_node_map_free(m);
    *m = bigger;
    return true;
}

bool stem_node_put(struct stem_node_map *m, struct CUgraphNode_st *node, uint32_t op)
{
    if (m->n * 2 >= m->cap && !enlarge(m))
        return false;
    size_t at = slot(m, node);
    m->n += !m->node[at];
    m->node[at] = node;
    m->op[at] = op;
    return true;
}

uint32_t stem_node_op(const struct stem_node_map *m, struct CUgraphNode_st *node)
{
    if (!m->cap)
        return STEM_NONE;
    size_t at = slot(m, node);
    return m->node[at] ? m->op[at] : STEM_NONE;
}

void stem_node_map_free(struct stem_node_map *m)
{
    free(m->node);
    free(m->op);
    memset(m, 0, sizeof *m);
}

/* ---- reading back ---- */

enum stem_status stem_graph_list(struct stem_rt *rt, struct CUgraph_st *graph, struct CUgraphNode_st ***nodes,
                                 size_t *n, struct stem_rt_error *err)
{
    *nodes = NULL;
    *n = 0;
    int code = rt->d.graph_nodes(graph, NULL, n);
    if (code)
        return stem_fail_cuda(err, &rt->d, code, "cuGraphGetNodes");
    *nodes = stem_zalloc(*n, sizeof **nodes);
    if (!*nodes)
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    if (*n && (code = rt->d.graph_nodes(graph, *nodes, n)))
        return stem_fail_cuda(err, &rt->d, code, "cuGraphGetNodes");
    return STEM_OK;
}

struct edge_list {
    struct CUgraphNode_st **from, **to;
    struct stem_cuda_edge *data;
    size_t n;
};

static void edges_free(struct edge_list *l)
{
    free(l->from);
    free(l->to);
    free(l->data);
    memset(l, 0, sizeof *l);
}

static enum stem_status edges_read(struct stem_rt *rt, struct CUgraph_st *graph, struct edge_list *l,
                                   struct stem_rt_error *err)
{
    memset(l, 0, sizeof *l);
    int code = rt->d.graph_edges(graph, NULL, NULL, NULL, &l->n);
    if (code)
        return stem_fail_cuda(err, &rt->d, code, "cuGraphGetEdges");
    l->from = stem_zalloc(l->n, sizeof *l->from);
    l->to = stem_zalloc(l->n, sizeof *l->to);
    l->data = stem_zalloc(l->n, sizeof *l->data);
    if (!l->from || !l->to || !l->data)
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    if (l->n && (code = rt->d.graph_edges(graph, l->from, l->to, l->data, &l->n)))
        return stem_fail_cuda(err, &rt->d, code, "cuGraphGetEdges");
    return STEM_OK;
}

static const struct stem_plan_edge *find_edge(const struct stem_plan_variant *v, uint32_t from, uint32_t to)
{
    uint32_t low = 0, high = v->n_edges;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct stem_plan_edge *e = &v->edges[mid];
        if (e->to < to || (e->to == to && e->from < from))
            low = mid + 1;
        else
            high = mid;
    }
    return low < v->n_edges && v->edges[low].from == from && v->edges[low].to == to ? &v->edges[low] : NULL;
}

/* A capture makes every edge into a programmatic launch programmatic; the plan has only the one from its own stream
 * so. */
static enum stem_status repair(const struct stem_graph_check *c, struct edge_list *l, struct stem_rt_error *err)
{
    static const struct stem_cuda_edge full;
    const struct stem_driver *d = &c->e->rt->d;
    for (size_t i = 0; i < l->n; i++) {
        uint32_t from = stem_node_op(c->map, l->from[i]), to = stem_node_op(c->map, l->to[i]);
        if (from == STEM_NONE || to == STEM_NONE || from == to || l->data[i].type != STEM_CUDA_EDGE_PROGRAMMATIC)
            continue;
        const struct stem_plan_edge *e = find_edge(c->v, from, to);
        if (!e || e->kind == STEM_EDGE_PROGRAMMATIC)
            continue;
        int code = d->graph_remove_dependencies(c->graph, &l->from[i], &l->to[i], &l->data[i], 1);
        if (!code)
            code = d->graph_add_dependencies(c->graph, &l->from[i], &l->to[i], &full, 1);
        if (code) {
            stem_fail_cuda(err, d, code, "making an edge full");
            stem_error_at_op(err, c->e->plan, c->v, to);
            return STEM_E_CUDA;
        }
        l->data[i] = full;
    }
    return STEM_OK;
}

/* ---- comparing ---- */

static enum stem_status differ(const struct stem_graph_check *c, uint32_t from, uint32_t to, const char *what,
                               struct stem_rt_error *err)
{
    stem_fail(err, STEM_E_MISMATCH, "the graph %s the edge from %s (stream %s, line %u)", what, c->v->ops[from].name,
              c->e->plan->streams[c->v->ops[from].stream], (unsigned)c->v->ops[from].line);
    stem_error_at_op(err, c->e->plan, c->v, to);
    return STEM_E_MISMATCH;
}

static bool in_segment(const struct stem_graph_check *c, uint32_t op)
{
    const struct stem_plan_segment *s = &c->v->segments[c->segment];
    return op >= s->first_op && op - s->first_op < s->n_ops;
}

static enum stem_status compare_nodes(struct stem_graph_check *c, struct stem_rt_error *err)
{
    const struct stem_plan_segment *s = &c->v->segments[c->segment];
    struct CUgraphNode_st **nodes;
    size_t n;
    uint32_t unknown = 0, missing = STEM_NONE;
    enum stem_status status = stem_graph_list(c->e->rt, c->graph, &nodes, &n, err);
    bool *seen = stem_zalloc(s->n_ops, sizeof *seen);
    if (!status && !seen)
        status = stem_fail(err, STEM_E_MEMORY, "out of memory");
    for (size_t i = 0; !status && i < n; i++) {
        uint32_t op = stem_node_op(c->map, nodes[i]);
        if (op == STEM_NONE || !in_segment(c, op))
            unknown++;
        else
            seen[op - s->first_op] = true;
    }
    c->n_nodes = (uint32_t)n - unknown;
    for (uint32_t i = s->n_ops; !status && i-- > 0;)
        if (!seen[i])
            missing = s->first_op + i;
    if (!status && missing != STEM_NONE) {
        status = stem_fail(err, STEM_E_MISMATCH, "the graph has no node for it");
        stem_error_at_op(err, c->e->plan, c->v, missing);
    } else if (!status && unknown && !c->foreign) {
        status = stem_fail(err, STEM_E_MISMATCH, "the graph of segment %u has %u nodes that the plan does not have",
                           (unsigned)c->segment, (unsigned)unknown);
    }
    free(seen);
    free(nodes);
    return status;
}

/* Marks each edge of the plan that the graph has; the first in the plan's order that is missing, or of another kind,
 * or the lowest that is too many, is the difference. */
static enum stem_status compare_edges(struct stem_graph_check *c, const struct edge_list *l,
                                      struct stem_rt_error *err)
{
    enum stem_status s = STEM_OK;
    struct stem_plan_edge extra = {STEM_NONE, STEM_NONE, STEM_EDGE_FULL, false};
    char *seen = stem_zalloc(c->v->n_edges, sizeof *seen); /* 1: as in the plan, 2: of another kind */
    if (!seen)
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    for (size_t i = 0; i < l->n; i++) {
        uint32_t from = stem_node_op(c->map, l->from[i]), to = stem_node_op(c->map, l->to[i]);
        if (from == STEM_NONE || to == STEM_NONE || from == to || !in_segment(c, from) || !in_segment(c, to))
            continue;
        const struct stem_plan_edge *e = find_edge(c->v, from, to);
        bool programmatic = l->data[i].type == STEM_CUDA_EDGE_PROGRAMMATIC;
        if (!e && (to < extra.to || (to == extra.to && from < extra.from))) {
            extra.from = from;
            extra.to = to;
        }
        if (!e)
            continue;
        bool same = programmatic == (e->kind == STEM_EDGE_PROGRAMMATIC && stem_rt_programmatic(c->e->rt));
        bool accepted = same || (c->foreign && programmatic &&
                                 (c->v->ops[to].programmatic || c->v->ops[to].work == STEM_WORK_MATMUL));
        c->n_edges += !seen[e - c->v->edges];
        c->n_programmatic += !seen[e - c->v->edges] && programmatic;
        seen[e - c->v->edges] = accepted ? 1 : 2;
    }
    for (uint32_t i = 0; i < c->v->n_edges && !s; i++) {
        const struct stem_plan_edge *e = &c->v->edges[i];
        if (!in_segment(c, e->to) || !in_segment(c, e->from) || seen[i] == 1)
            continue;
        s = differ(c, e->from, e->to, seen[i] ? "has with another kind" : "lacks", err);
    }
    if (!s && extra.to != STEM_NONE)
        s = differ(c, extra.from, extra.to, "has, unlike the plan,", err);
    free(seen);
    return s;
}

/* ---- products of a library, which may be several kernels ---- */

static uint32_t place_of(struct CUgraphNode_st *const *chain, const struct CUgraphNode_st *node)
{
    uint32_t i = 0;
    while (i < STEM_MATMUL_MAX_NODES && chain[i] && chain[i] != node)
        i++;
    return i;
}

/* Nodes as they come, then exchanged until no edge goes backwards: they are a path. */
static void find_chains(const struct stem_graph_check *c, const struct edge_list *l)
{
    for (size_t i = 0; i < c->map->cap; i++) {
        uint32_t op = c->map->op[i];
        if (!c->map->node[i] || !in_segment(c, op) || c->v->ops[op].work != STEM_WORK_MATMUL)
            continue;
        uint32_t at = place_of(c->chain[op], c->map->node[i]);
        if (at < STEM_MATMUL_MAX_NODES)
            c->chain[op][at] = c->map->node[i];
    }
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < l->n; i++) {
            uint32_t op = stem_node_op(c->map, l->from[i]);
            if (op == STEM_NONE || op != stem_node_op(c->map, l->to[i]) || !in_segment(c, op) ||
                c->v->ops[op].work != STEM_WORK_MATMUL)
                continue;
            uint32_t a = place_of(c->chain[op], l->from[i]), b = place_of(c->chain[op], l->to[i]);
            if (a > b && a < STEM_MATMUL_MAX_NODES) {
                c->chain[op][a] = l->to[i];
                c->chain[op][b] = l->from[i];
                again = true;
            }
        }
    }
}

enum stem_status stem_graph_compare(struct stem_graph_check *c, struct stem_rt_error *err)
{
    struct edge_list l = {0};
    enum stem_status s = compare_nodes(c, err);
    if (!s)
        s = edges_read(c->e->rt, c->graph, &l, err);
    if (!s && c->repair)
        s = repair(c, &l, err);
    if (!s && c->repair) {
        edges_free(&l);
        s = edges_read(c->e->rt, c->graph, &l, err);
    }
    if (!s)
        s = compare_edges(c, &l, err);
    if (!s && c->chain)
        find_chains(c, &l);
    edges_free(&l);
    return s;
}
