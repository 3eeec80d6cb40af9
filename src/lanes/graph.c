/* SPDX-License-Identifier: Apache-2.0
 *
 * Adjacency and topological order of a graph, by counting sorts: linear in nodes and edges.
 */
#include "lanes/lanes_internal.h"

#include <string.h>

/* Rows by `key`, entries in the order in which they are met. */
static void rows(const struct stem_lane_edge *e, uint32_t m, uint32_t n, bool by_from, uint32_t *at, uint32_t *index)
{
    memset(at, 0, ((size_t)n + 1) * sizeof *at);
    for (uint32_t i = 0; i < m; i++)
        at[(by_from ? e[i].from : e[i].to) + 1]++;
    for (uint32_t v = 0; v < n; v++)
        at[v + 1] += at[v];
    for (uint32_t i = 0; i < m; i++)
        index[at[by_from ? e[i].from : e[i].to]++] = i;
    memmove(at + 1, at, (size_t)n * sizeof *at);
    at[0] = 0;
}

/* Edges sorted by (from, to) without doubles; returns how many are left. */
static uint32_t sorted_edges(const struct stem_lane_graph *g, struct stem_arena *a, struct stem_lane_edge *out)
{
    uint32_t m = g->n_edges;
    uint32_t *at = STEM_NEW_ARRAY(a, uint32_t, (size_t)g->n + 1);
    uint32_t *index = STEM_NEW_ARRAY(a, uint32_t, m);
    struct stem_lane_edge *by_to = STEM_NEW_ARRAY(a, struct stem_lane_edge, m);
    rows(g->edges, m, g->n, false, at, index);
    for (uint32_t i = 0; i < m; i++)
        by_to[i] = g->edges[index[i]];
    rows(by_to, m, g->n, true, at, index);
    uint32_t k = 0;
    for (uint32_t i = 0; i < m; i++) {
        struct stem_lane_edge e = by_to[index[i]];
        if (k && out[k - 1].from == e.from && out[k - 1].to == e.to)
            out[k - 1].programmatic |= e.programmatic;
        else
            out[k++] = e;
    }
    return k;
}

bool stem_lane_adj_build(const struct stem_lane_graph *g, struct stem_arena *a, struct stem_lane_adj *adj)
{
    uint32_t n = g->n;
    for (uint32_t i = 0; i < g->n_edges; i++)
        if (g->edges[i].from >= n || g->edges[i].to >= n || g->edges[i].from == g->edges[i].to)
            return false;

    struct stem_lane_edge *e = STEM_NEW_ARRAY(a, struct stem_lane_edge, g->n_edges);
    uint32_t m = sorted_edges(g, a, e);
    *adj = (struct stem_lane_adj){
        .n = n,
        .n_edges = m,
        .child_at = STEM_NEW_ARRAY(a, uint32_t, (size_t)n + 1),
        .parent_at = STEM_NEW_ARRAY(a, uint32_t, (size_t)n + 1),
        .child = STEM_NEW_ARRAY(a, uint32_t, m),
        .parent = STEM_NEW_ARRAY(a, uint32_t, m),
        .child_prog = STEM_NEW_ARRAY(a, uint8_t, m),
        .parent_prog = STEM_NEW_ARRAY(a, uint8_t, m),
    };
    uint32_t *index = STEM_NEW_ARRAY(a, uint32_t, m);
    rows(e, m, n, true, adj->child_at, index);
    for (uint32_t i = 0; i < m; i++) {
        adj->child[i] = e[index[i]].to;
        adj->child_prog[i] = e[index[i]].programmatic;
    }
    rows(e, m, n, false, adj->parent_at, index);
    for (uint32_t i = 0; i < m; i++) {
        adj->parent[i] = e[index[i]].from;
        adj->parent_prog[i] = e[index[i]].programmatic;
    }
    return true;
}

bool stem_lane_nesting_is_sound(const struct stem_lane_graph *g)
{
    for (uint32_t v = 0; g->within && v < g->n; v++) {
        uint32_t w = g->within[v];
        if (w == STEM_NO_NODE)
            continue;
        enum stem_lane_kind k = w < v ? stem_lane_kind_of(g, w) : STEM_LANE_KERNEL;
        if (k != STEM_LANE_CHILD && k != STEM_LANE_CONDITIONAL)
            return false;
    }
    for (uint32_t i = 0; g->within && i < g->n_edges; i++)
        if (g->within[g->edges[i].from] != g->within[g->edges[i].to])
            return false;
    return true;
}

/* Nodes in topological order, as far as they go; for the others `missing` keeps how many parents were not reached. */
static uint32_t peel(const struct stem_lane_adj *adj, uint32_t *order, uint32_t *missing)
{
    uint32_t len = 0;
    for (uint32_t v = 0; v < adj->n; v++) {
        missing[v] = adj->parent_at[v + 1] - adj->parent_at[v];
        if (!missing[v])
            order[len++] = v;
    }
    for (uint32_t i = 0; i < len; i++)
        for (uint32_t k = adj->child_at[order[i]]; k < adj->child_at[order[i] + 1]; k++)
            if (--missing[adj->child[k]] == 0)
                order[len++] = adj->child[k];
    return len;
}

uint32_t *stem_lane_topological(const struct stem_lane_adj *adj, struct stem_arena *a)
{
    uint32_t *order = STEM_NEW_ARRAY(a, uint32_t, adj->n), *missing = STEM_NEW_ARRAY(a, uint32_t, adj->n);
    return peel(adj, order, missing) == adj->n ? order : NULL;
}

uint32_t stem_lane_cycle(const struct stem_lane_adj *adj, struct stem_arena *a)
{
    uint32_t *order = STEM_NEW_ARRAY(a, uint32_t, adj->n), *missing = STEM_NEW_ARRAY(a, uint32_t, adj->n);
    if (peel(adj, order, missing) == adj->n)
        return STEM_NO_NODE;
    /* Each node that was not reached has a parent that was not: going up n times ends on a cycle. */
    uint32_t v = 0;
    while (!missing[v])
        v++;
    for (uint32_t step = 0; step < adj->n; step++)
        for (uint32_t k = adj->parent_at[v]; k < adj->parent_at[v + 1]; k++)
            if (missing[adj->parent[k]]) {
                v = adj->parent[k];
                break;
            }
    return v;
}
