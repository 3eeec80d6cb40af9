/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of models, and what is common to all: checks, numbering, how far a prediction can be trusted.
 */
#include "lanes/lanes.h"

#include <string.h>

#include "lanes/lanes_internal.h"

static const struct stem_lane_driver *const drivers[] = {&stem_lane_driver_580};
#define N_DRIVERS (sizeof drivers / sizeof drivers[0])

const struct stem_lane_driver *const *stem_lane_drivers(uint32_t *n)
{
    *n = N_DRIVERS;
    return drivers;
}

const struct stem_lane_driver *stem_lane_driver_find(const char *name)
{
    if (!name)
        return drivers[N_DRIVERS - 1];
    for (size_t i = 0; i < N_DRIVERS; i++)
        if (strcmp(drivers[i]->name, name) == 0)
            return drivers[i];
    return NULL;
}

const struct stem_lane_driver *stem_lane_driver_for(uint32_t branch, bool *measured)
{
    const struct stem_lane_driver *best = drivers[0];
    for (size_t i = 0; i < N_DRIVERS; i++)
        if (drivers[i]->first <= branch)
            best = drivers[i];
    *measured = branch >= best->first && branch <= best->last;
    return best;
}

const char *stem_lane_kind_name(uint32_t kind)
{
    static const char *const names[] = {"kernel",       "empty",       "memset",     "host",        "memcpy",
                                        "event record", "child graph", "allocation", "conditional", "other",
                                        "event wait",   "free",        "transfer",   "large memset"};
    return kind < sizeof names / sizeof names[0] ? names[kind] : "other";
}

/* Lanes of nodes in a child graph or a body are told only if it is known what that holds. */
static bool holds_nothing_known(const struct stem_lane_graph *g, struct stem_arena *a)
{
    bool *holds = STEM_NEW_ARRAY(a, bool, g->n);
    for (uint32_t v = 0; g->within && v < g->n; v++)
        if (g->within[v] != STEM_NO_NODE)
            holds[g->within[v]] = true;
    for (uint32_t v = 0; v < g->n; v++) {
        enum stem_lane_kind k = stem_lane_kind_of(g, v);
        if ((k == STEM_LANE_CHILD || k == STEM_LANE_CONDITIONAL) && !holds[v])
            return true;
    }
    return false;
}

static enum stem_lane_trust trust_of(const struct stem_lane_graph *g, struct stem_arena *a)
{
    bool programmatic = false, other = false;
    for (uint32_t i = 0; i < g->n_edges; i++)
        programmatic |= g->edges[i].programmatic;
    for (uint32_t v = 0; v < g->n; v++) {
        if (stem_lane_kind_of(g, v) == STEM_LANE_OTHER)
            return STEM_LANE_UNKNOWN;
        other |= stem_lane_kind_of(g, v) != STEM_LANE_KERNEL;
    }
    if (other && holds_nothing_known(g, a))
        return STEM_LANE_UNKNOWN;
    return programmatic && other ? STEM_LANE_MIXED : programmatic || other ? STEM_LANE_GOOD : STEM_LANE_EXACT;
}

/* Numbers lanes by first appearance among the nodes for which `keep` holds; others get STEM_NO_LANE. */
static uint32_t renumber(uint32_t n, uint32_t n_lanes, const uint32_t *lane, const uint8_t *kind, bool kernels_only,
                         struct stem_arena *a, uint32_t *out)
{
    uint32_t *number = STEM_NEW_ARRAY(a, uint32_t, n_lanes); /* + 1; 0: not seen */
    uint32_t next = 0;
    for (uint32_t v = 0; v < n; v++) {
        if (lane[v] == STEM_NO_LANE || (kernels_only && kind && kind[v] != STEM_LANE_KERNEL)) {
            out[v] = STEM_NO_LANE;
            continue;
        }
        if (!number[lane[v]])
            number[lane[v]] = ++next;
        out[v] = number[lane[v]] - 1;
    }
    return next;
}

/* ---- bodies of conditional nodes ---- */

/* By node: the outermost conditional node that it is in. */
static uint32_t *outermost_bodies(const struct stem_lane_graph *g, struct stem_arena *a)
{
    uint32_t *body = STEM_NEW_ARRAY(a, uint32_t, g->n);
    for (uint32_t v = 0; v < g->n; v++) {
        uint32_t w = stem_lane_within(g, v);
        bool in_body = w != STEM_NO_NODE && stem_lane_kind_of(g, w) == STEM_LANE_CONDITIONAL;
        body[v] = w != STEM_NO_NODE && body[w] != STEM_NO_NODE ? body[w] : in_body ? w : STEM_NO_NODE;
    }
    return body;
}

/* Nodes (or edges) sorted by body: those of body w are list[at[w]] .. list[at[w + 1] - 1]. */
static uint32_t *sort_by_body(const uint32_t *body, const struct stem_lane_edge *edges, uint32_t len, uint32_t n,
                              struct stem_arena *a, uint32_t *at)
{
    uint32_t *list = STEM_NEW_ARRAY(a, uint32_t, len);
    for (uint32_t i = 0; i < len; i++) {
        uint32_t w = body[edges ? edges[i].from : i];
        if (w != STEM_NO_NODE)
            at[w + 1]++;
    }
    for (uint32_t w = 0; w < n; w++)
        at[w + 1] += at[w];
    for (uint32_t i = 0; i < len; i++) {
        uint32_t w = body[edges ? edges[i].from : i];
        if (w != STEM_NO_NODE)
            list[at[w]++] = i;
    }
    memmove(at + 1, at, (size_t)n * sizeof *at);
    at[0] = 0;
    return list;
}

/* A graph of what conditional node w holds: nodes list[0 .. n-1], edges g->edges[edge[0 .. m-1]]. */
static struct stem_lane_graph body_graph(const struct stem_lane_graph *g, uint32_t w, const uint32_t *list,
                                         uint32_t n, const uint32_t *edge, uint32_t m, uint32_t *number,
                                         struct stem_arena *a)
{
    uint8_t *kind = STEM_NEW_ARRAY(a, uint8_t, n);
    uint32_t *within = STEM_NEW_ARRAY(a, uint32_t, n);
    struct stem_lane_edge *edges = STEM_NEW_ARRAY(a, struct stem_lane_edge, m);
    for (uint32_t i = 0; i < n; i++) {
        number[list[i]] = i;
        kind[i] = (uint8_t)stem_lane_kind_of(g, list[i]);
        within[i] = g->within[list[i]] == w ? STEM_NO_NODE : number[g->within[list[i]]];
    }
    for (uint32_t i = 0; i < m; i++) {
        struct stem_lane_edge e = g->edges[edge[i]];
        edges[i] = (struct stem_lane_edge){number[e.from], number[e.to], e.programmatic};
    }
    return (struct stem_lane_graph){.n = n, .kind = kind, .within = within, .edges = edges, .n_edges = m};
}

/* Each has lanes of its own, after all others. Conditional nodes in bodies are found by the inner predictions. */
static void predict_bodies(const struct stem_lane_driver *driver, const struct stem_lane_graph *g,
                           struct stem_arena *a, struct stem_lanes *out)
{
    uint32_t n = g->n, *body = outermost_bodies(g, a), *number = STEM_NEW_ARRAY(a, uint32_t, n);
    uint32_t *node_at = STEM_NEW_ARRAY(a, uint32_t, (size_t)n + 1),
             *edge_at = STEM_NEW_ARRAY(a, uint32_t, (size_t)n + 1);
    const uint32_t *nodes = sort_by_body(body, NULL, n, n, a, node_at);
    const uint32_t *edges = sort_by_body(body, g->edges, g->n_edges, n, a, edge_at);
    uint32_t *order = STEM_NEW_ARRAY(a, uint32_t, n);
    if (out->n_order)
        memcpy(order, out->order, out->n_order * sizeof *order);
    out->order = order;
    for (uint32_t w = 0; w < n; w++) {
        const uint32_t *list = nodes + node_at[w];
        struct stem_lanes inner;
        struct stem_lane_graph b = body_graph(g, w, list, node_at[w + 1] - node_at[w], edges + edge_at[w],
                                              edge_at[w + 1] - edge_at[w], number, a);
        if (!b.n || !stem_lanes_predict(driver, &b, a, &inner))
            continue;
        for (uint32_t i = 0; i < b.n; i++) {
            out->lane[list[i]] = inner.lane[i] == STEM_NO_LANE ? STEM_NO_LANE : out->n_lanes + inner.lane[i];
            out->why[list[i]] = inner.why[i];
            out->by[list[i]] = inner.by[i] == STEM_NO_NODE ? STEM_NO_NODE : list[inner.by[i]];
        }
        for (uint32_t i = 0; i < inner.n_order; i++)
            order[out->n_order++] = list[inner.order[i]];
        out->n_lanes += inner.n_lanes;
    }
}

bool stem_lanes_predict(const struct stem_lane_driver *driver, const struct stem_lane_graph *g, struct stem_arena *a,
                        struct stem_lanes *out)
{
    if (g->n > STEM_LANE_MAX_NODES)
        return false;
    struct stem_arena *scratch = stem_arena_new();
    struct stem_lane_adj adj;
    bool sound = stem_lane_adj_build(g, scratch, &adj) && stem_lane_nesting_is_sound(g) &&
                 (g->n == 0 || stem_lane_topological(&adj, scratch));
    if (sound) {
        *out = (struct stem_lanes){
            .n = g->n,
            .lane = STEM_NEW_ARRAY(a, uint32_t, g->n),
            .why = STEM_NEW_ARRAY(a, uint8_t, g->n),
            .by = STEM_NEW_ARRAY(a, uint32_t, g->n),
            .trust = trust_of(g, scratch),
        };
        for (uint32_t v = 0; v < g->n; v++)
            out->lane[v] = out->by[v] = UINT32_MAX;
        (driver ? driver : stem_lane_driver_find(NULL))->predict(g, scratch, out);
        if (g->within)
            predict_bodies(driver, g, scratch, out);
        out->order = stem_arena_dup(a, out->order, out->n_order * sizeof *out->order);
        uint32_t *seen = STEM_NEW_ARRAY(scratch, uint32_t, g->n);
        out->n_kernel_lanes = renumber(g->n, out->n_lanes, out->lane, g->kind, true, scratch, seen);
        out->n_lanes = renumber(g->n, out->n_lanes, out->lane, NULL, false, scratch, out->lane);
    }
    stem_arena_free(scratch);
    return sound;
}

struct stem_lane_fit stem_lanes_fit(const struct stem_lanes *l, const uint32_t *measured)
{
    struct stem_arena *a = stem_arena_new();
    uint32_t *number = STEM_NEW_ARRAY(a, uint32_t, l->n_lanes); /* + 1; 0: not seen */
    uint32_t predicted = 0, most = 0;
    bool exact = true;
    for (uint32_t v = 0; v < l->n; v++) {
        if (measured[v] == STEM_NO_LANE)
            continue;
        most = measured[v] + 1 > most ? measured[v] + 1 : most;
        uint32_t lane = l->lane[v], *known = lane == STEM_NO_LANE ? NULL : &number[lane];
        if (known && !*known)
            *known = ++predicted;
        exact &= known && *known - 1 == measured[v];
    }
    stem_arena_free(a);
    return (struct stem_lane_fit){exact, predicted == most};
}

uint32_t *stem_lanes_visible(const struct stem_lanes *l, const struct stem_lane_graph *g, struct stem_arena *a)
{
    uint32_t *seen = STEM_NEW_ARRAY(a, uint32_t, l->n);
    renumber(l->n, l->n_lanes, l->lane, g->kind, true, a, seen);
    return seen;
}
