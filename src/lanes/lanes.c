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
    static const char *const names[] = {"kernel", "empty",  "memset",      "host",  "memcpy",     "event record",
                                        "child graph", "allocation", "conditional", "other", "event wait", "free"};
    return kind < sizeof names / sizeof names[0] ? names[kind] : "other";
}

static enum stem_lane_trust trust_of(const struct stem_lane_graph *g)
{
    bool programmatic = false, other = false;
    for (uint32_t i = 0; i < g->n_edges; i++)
        programmatic |= g->edges[i].programmatic;
    for (uint32_t v = 0; v < g->n; v++) {
        enum stem_lane_kind k = stem_lane_kind_of(g, v);
        if (k > STEM_LANE_HOST)
            return STEM_LANE_UNKNOWN;
        other |= k != STEM_LANE_KERNEL;
    }
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

bool stem_lanes_predict(const struct stem_lane_driver *driver, const struct stem_lane_graph *g, struct stem_arena *a,
                        struct stem_lanes *out)
{
    if (g->n > STEM_LANE_MAX_NODES)
        return false;
    struct stem_arena *scratch = stem_arena_new();
    struct stem_lane_adj adj;
    bool sound = stem_lane_adj_build(g, scratch, &adj) && (g->n == 0 || stem_lane_topological(&adj, scratch));
    if (sound) {
        *out = (struct stem_lanes){
            .n = g->n,
            .lane = STEM_NEW_ARRAY(a, uint32_t, g->n),
            .why = STEM_NEW_ARRAY(a, uint8_t, g->n),
            .by = STEM_NEW_ARRAY(a, uint32_t, g->n),
            .trust = trust_of(g),
        };
        for (uint32_t v = 0; v < g->n; v++)
            out->lane[v] = out->by[v] = UINT32_MAX;
        (driver ? driver : stem_lane_driver_find(NULL))->predict(g, scratch, out);
        out->order = stem_arena_dup(a, out->order, out->n_order * sizeof *out->order);
        uint32_t *seen = STEM_NEW_ARRAY(scratch, uint32_t, g->n);
        out->n_kernel_lanes = renumber(g->n, out->n_lanes, out->lane, g->kind, true, scratch, seen);
        out->n_lanes = renumber(g->n, out->n_lanes, out->lane, NULL, false, scratch, out->lane);
    }
    stem_arena_free(scratch);
    return sound;
}

uint32_t *stem_lanes_visible(const struct stem_lanes *l, const struct stem_lane_graph *g, struct stem_arena *a)
{
    uint32_t *seen = STEM_NEW_ARRAY(a, uint32_t, l->n);
    renumber(l->n, l->n_lanes, l->lane, g->kind, true, a, seen);
    return seen;
}
