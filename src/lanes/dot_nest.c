/* SPDX-License-Identifier: Apache-2.0
 *
 * Child graphs and bodies of conditional nodes, which DOT has as graphs of their own, put into the nodes that hold
 * them: one graph, in which a holder is followed by what it holds.
 */
#include <string.h>

#include "lanes/lanes_internal.h"
#include "lanes/read_dot.h"

#define NONE UINT32_MAX

struct nest {
    const struct stem_lane_case *cases; /* by group */
    const struct stem_dot_hold *holds;  /* sorted by group, then node */
    uint32_t n_holds;
    uint32_t *first_hold; /* by group */
    uint32_t **number;    /* by group, node: in the merged graph */
    uint8_t *kind;
    const char **name;
    uint32_t *within;
    struct stem_lane_edge *edges;
    uint32_t n, n_edges;
    struct stem_span span;
};

struct level { /* a group that is being put in */
    uint32_t group, at, hold;
};

static void put_node(struct nest *x, const struct level *l, uint32_t within)
{
    const struct stem_lane_graph *g = &x->cases[l->group].graph;
    x->number[l->group][l->at] = x->n;
    x->kind[x->n] = g->kind[l->at];
    x->name[x->n] = g->name[l->at];
    x->within[x->n++] = within;
}

static void put_edges(struct nest *x, uint32_t group)
{
    const struct stem_lane_graph *g = &x->cases[group].graph;
    for (uint32_t i = 0; i < g->n_edges; i++)
        x->edges[x->n_edges++] = (struct stem_lane_edge){x->number[group][g->edges[i].from],
                                                         x->number[group][g->edges[i].to], g->edges[i].programmatic};
    x->span = stem_span_join(x->span, x->cases[group].span);
}

/* Group `top` and all that is held in it, the deepest as soon as its holder is there. `stack` has room for all
 * groups, since a group is held once, by an earlier one. */
static void put_group(struct nest *x, uint32_t top, struct level *stack)
{
    uint32_t depth = 0;
    stack[depth++] = (struct level){top, 0, x->first_hold[top]};
    while (depth) {
        struct level *l = &stack[depth - 1];
        if (l->at == x->cases[l->group].graph.n) {
            put_edges(x, l->group);
            depth--;
            continue;
        }
        const struct stem_dot_hold *h = l->hold < x->n_holds ? &x->holds[l->hold] : NULL;
        if (x->number[l->group][l->at] == NONE) {
            const struct level *up = depth > 1 ? &stack[depth - 2] : NULL;
            put_node(x, l, up ? x->number[up->group][up->at] : STEM_NO_NODE);
        } else if (h && h->group == l->group && h->node == l->at) {
            l->hold++;
            stack[depth++] = (struct level){h->held, 0, x->first_hold[h->held]};
        } else {
            l->at++;
        }
    }
}

static struct stem_lane_case merged(struct nest *x, uint32_t top, struct stem_arena *a)
{
    struct stem_lane_case c = x->cases[top];
    c.span = x->span;
    c.graph = (struct stem_lane_graph){
        .n = x->n,
        .kind = stem_arena_dup(a, x->kind, x->n),
        .name = stem_arena_dup(a, x->name, x->n * sizeof *x->name),
        .within = x->n > x->cases[top].graph.n ? stem_arena_dup(a, x->within, x->n * sizeof *x->within) : NULL,
        .edges = stem_arena_dup(a, x->edges, x->n_edges * sizeof *x->edges),
        .n_edges = x->n_edges,
    };
    return c;
}

/* A group is held by the first node that names it, if that is in an earlier group: so no group holds itself. */
static uint32_t sort_holds(struct stem_dot_hold *holds, uint32_t n, uint32_t n_groups, struct stem_arena *a,
                           bool *held)
{
    uint32_t len = 0, *at = STEM_NEW_ARRAY(a, uint32_t, (size_t)n_groups + 1);
    for (uint32_t i = 0; i < n; i++)
        if (holds[i].group < holds[i].held && !held[holds[i].held]) {
            held[holds[i].held] = true;
            holds[len++] = holds[i];
            at[holds[i].group + 1]++;
        }
    for (uint32_t g = 0; g < n_groups; g++)
        at[g + 1] += at[g];
    struct stem_dot_hold *sorted = STEM_NEW_ARRAY(a, struct stem_dot_hold, len);
    for (uint32_t i = 0; i < len; i++)
        sorted[at[holds[i].group]++] = holds[i];
    if (len)
        memcpy(holds, sorted, len * sizeof *holds);
    return len;
}

void stem_dot_nest(struct stem_lane_case *cases, uint32_t n_groups, struct stem_dot_hold *holds, uint32_t n_holds,
                   struct stem_arena *a, struct stem_lane_cases *out)
{
    struct stem_arena *scratch = stem_arena_new();
    bool *held = STEM_NEW_ARRAY(scratch, bool, n_groups);
    uint32_t nodes = 0, edges = 0;
    struct nest x = {.cases = cases, .holds = holds};
    x.n_holds = sort_holds(holds, n_holds, n_groups, scratch, held);
    x.first_hold = STEM_NEW_ARRAY(scratch, uint32_t, n_groups);
    x.number = STEM_NEW_ARRAY(scratch, uint32_t *, n_groups);
    for (uint32_t g = 0, k = 0; g < n_groups; g++) {
        while (k < x.n_holds && holds[k].group < g)
            k++;
        x.first_hold[g] = k;
        x.number[g] = STEM_NEW_ARRAY(scratch, uint32_t, cases[g].graph.n);
        memset(x.number[g], 0xff, cases[g].graph.n * sizeof **x.number);
        nodes += cases[g].graph.n;
        edges += cases[g].graph.n_edges;
    }
    x.kind = STEM_NEW_ARRAY(scratch, uint8_t, nodes);
    x.name = STEM_NEW_ARRAY(scratch, const char *, nodes);
    x.within = STEM_NEW_ARRAY(scratch, uint32_t, nodes);
    x.edges = STEM_NEW_ARRAY(scratch, struct stem_lane_edge, edges);
    struct level *stack = STEM_NEW_ARRAY(scratch, struct level, n_groups);
    struct stem_lane_case *list = STEM_NEW_ARRAY(a, struct stem_lane_case, n_groups);
    out->len = 0;
    for (uint32_t g = 0; g < n_groups; g++) {
        if (held[g] || !cases[g].graph.n)
            continue;
        x.n = x.n_edges = 0;
        x.span = cases[g].span;
        put_group(&x, g, stack);
        list[out->len++] = merged(&x, g, a);
    }
    out->at = list;
    stem_arena_free(scratch);
}
