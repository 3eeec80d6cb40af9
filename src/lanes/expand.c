/* SPDX-License-Identifier: Apache-2.0
 *
 * Child graphs opened: what they hold takes their place in the order of nodes, behind a start node. One time through
 * the nodes and one through the edges; an edge between two child graphs becomes one from each last node of the first
 * to the start of the second.
 */
#include "lanes/lanes_internal.h"

#include <string.h>

struct list { /* linked, in the order of numbers */
    uint32_t *first, *last, *next;
};

struct expansion {
    const struct stem_lane_graph *g;
    bool closed;
    struct stem_arena *a;
    struct list inside; /* by node: what it holds */
    struct list ends;   /* by node: nodes of the result that its successors follow */
    uint32_t *start;    /* by node: the node of the result that follows its predecessors */
    bool *leads, *led;  /* has successors, predecessors */
    uint8_t *kind;
    uint32_t n, *old, *node;
    struct stem_lane_edge *edges; /* NULL while they are counted */
    uint32_t n_edges;
};

static void link_to(struct list *l, uint32_t holder, uint32_t entry)
{
    if (l->first[holder] == STEM_NO_NODE)
        l->first[holder] = entry;
    else
        l->next[l->last[holder]] = entry;
    l->last[holder] = entry;
    l->next[entry] = STEM_NO_NODE;
}

static struct list list_new(struct stem_arena *a, uint32_t holders, uint32_t entries)
{
    struct list l = {STEM_NEW_ARRAY(a, uint32_t, holders), STEM_NEW_ARRAY(a, uint32_t, holders),
                     STEM_NEW_ARRAY(a, uint32_t, entries)};
    memset(l.first, 0xff, holders * sizeof *l.first);
    return l;
}

static void add_edge(struct expansion *x, uint32_t from, uint32_t to, bool programmatic)
{
    if (x->edges)
        x->edges[x->n_edges] = (struct stem_lane_edge){from, to, programmatic};
    x->n_edges++;
}

static uint32_t add_node(struct expansion *x, uint32_t kind, uint32_t old)
{
    x->kind[x->n] = (uint8_t)kind;
    x->old[x->n] = old;
    return x->n++;
}

/* The end of a child graph, once its contents are placed: what follows it follows its last nodes. */
static void close_child(struct expansion *x, uint32_t v)
{
    uint32_t end = x->closed ? add_node(x, STEM_LANE_MARK, STEM_NO_NODE) : STEM_NO_NODE;
    for (uint32_t w = x->inside.first[v]; w != STEM_NO_NODE; w = x->inside.next[w]) {
        if (!x->led[w])
            add_edge(x, x->start[v], x->start[w], false);
        for (uint32_t e = x->leads[w] ? STEM_NO_NODE : x->ends.first[w], next; e != STEM_NO_NODE; e = next) {
            next = x->ends.next[e];
            if (x->closed)
                add_edge(x, e, end, false);
            else
                link_to(&x->ends, v, e);
        }
    }
    if (x->closed)
        link_to(&x->ends, v, end);
}

static void place_one(struct expansion *x, uint32_t v)
{
    x->node[v] = x->start[v] = add_node(x, stem_lane_kind_of(x->g, v), v);
    link_to(&x->ends, v, x->node[v]);
    if (x->closed && stem_lane_kind_of(x->g, v) == STEM_LANE_CONDITIONAL)
        add_edge(x, x->node[v], add_node(x, STEM_LANE_MARK, STEM_NO_NODE), false);
}

/* v and what it holds, without recursion: nesting may be deep. */
static void place(struct expansion *x, uint32_t v)
{
    for (uint32_t at = v;; at = x->inside.next[at]) {
        while (stem_lane_kind_of(x->g, at) == STEM_LANE_CHILD && x->inside.first[at] != STEM_NO_NODE) {
            x->start[at] = add_node(x, x->closed ? STEM_LANE_MARK : STEM_LANE_START, STEM_NO_NODE);
            at = x->inside.first[at];
        }
        place_one(x, at);
        while (at != v && x->inside.next[at] == STEM_NO_NODE) {
            at = x->g->within[at];
            close_child(x, at);
        }
        if (at == v)
            return;
    }
}

static void place_all(struct expansion *x)
{
    uint32_t n = x->g->n;
    x->ends = list_new(x->a, n, 3 * n);
    x->n = x->n_edges = 0;
    for (uint32_t v = 0; v < n; v++)
        x->node[v] = x->start[v] = STEM_NO_NODE;
    for (uint32_t v = 0; v < n; v++)
        if (stem_lane_within(x->g, v) == STEM_NO_NODE)
            place(x, v);
    for (uint32_t i = 0; i < x->g->n_edges; i++) {
        struct stem_lane_edge e = x->g->edges[i];
        if (x->start[e.from] == STEM_NO_NODE)
            continue;
        for (uint32_t from = x->ends.first[e.from]; from != STEM_NO_NODE; from = x->ends.next[from])
            add_edge(x, from, x->start[e.to], e.programmatic);
    }
}

void stem_lane_expand(const struct stem_lane_graph *g, bool closed, struct stem_arena *a,
                      struct stem_lane_expanded *out)
{
    uint32_t n = g->n;
    struct expansion x = {.g = g, .closed = closed, .a = a};
    x.inside = list_new(a, n, n);
    x.start = STEM_NEW_ARRAY(a, uint32_t, n);
    x.node = STEM_NEW_ARRAY(a, uint32_t, n);
    x.leads = STEM_NEW_ARRAY(a, bool, n);
    x.led = STEM_NEW_ARRAY(a, bool, n);
    x.kind = STEM_NEW_ARRAY(a, uint8_t, 3 * (size_t)n);
    x.old = STEM_NEW_ARRAY(a, uint32_t, 3 * (size_t)n);
    for (uint32_t v = 0; v < n; v++)
        if (stem_lane_within(g, v) != STEM_NO_NODE)
            link_to(&x.inside, g->within[v], v);
    for (uint32_t i = 0; i < g->n_edges; i++) {
        x.leads[g->edges[i].from] = true;
        x.led[g->edges[i].to] = true;
    }
    place_all(&x);
    x.edges = STEM_NEW_ARRAY(a, struct stem_lane_edge, x.n_edges);
    place_all(&x);
    *out = (struct stem_lane_expanded){
        .graph = {.n = x.n, .kind = x.kind, .edges = x.edges, .n_edges = x.n_edges},
        .node = x.node,
        .old = x.old,
    };
}
