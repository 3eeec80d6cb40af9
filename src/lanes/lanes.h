/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes: the internal streams that the CUDA driver gives to the nodes of a graph at instantiation. The rule is not
 * documented; driver_NNN.c holds a model of it for each measured driver, fitted to measurements. A model predicts;
 * only an audit on the device decides. docs/lanes.md says how exact each model is.
 *
 * All functions are pure: the same graph gives the same result, byte for byte; memory comes from the arena of the
 * caller; any number of threads may call them with arenas of their own.
 */
#ifndef STEM_LANES_LANES_H
#define STEM_LANES_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/out.h"
#include "base/source.h"
#include "lanes/mainstem_lanes.h"

struct stem_plan_variant;

/* No lane (an empty node that the driver contracts away), or no node. */
#define STEM_NO_LANE UINT32_MAX
#define STEM_NO_NODE UINT32_MAX
/* Graphs above this are refused: they are not graphs that a driver instantiates. */
#define STEM_LANE_MAX_NODES (1u << 22)

struct stem_lane_edge {
    uint32_t from, to;
    bool programmatic;
};

/* Nodes 0..n-1 in creation order. The order of edges plays no part; an edge given twice counts once (and is
 * programmatic if one of the two is). Edges may go from a higher to a lower number. */
struct stem_lane_graph {
    uint32_t n;
    const uint8_t *kind;     /* enum stem_lane_kind for each node; NULL: all are kernels */
    const char *const *name; /* for people; NULL, or NULL entries: "node N" */
    /* The child-graph node, or the conditional node, that a node is in; it has a lower number. STEM_NO_NODE: none.
     * NULL: none is in another. Edges join nodes that are in the same one. */
    const uint32_t *within;
    const struct stem_lane_edge *edges;
    uint32_t n_edges;
};

/* How a memset of so many bytes is treated. */
static inline enum stem_lane_kind stem_lane_memset_kind(uint64_t bytes)
{
    return bytes > STEM_LANE_SMALL_MEMSET ? STEM_LANE_FILL : STEM_LANE_MEMSET;
}

/* "kernel", "event wait": for people; "other" for what is no kind. */
const char *stem_lane_kind_name(uint32_t kind);

/* How a node came to its lane. */
enum stem_lane_why {
    STEM_LANE_CONTRACTED, /* has none */
    STEM_LANE_CONTINUES,  /* runs on the lane of `by`, its parent */
    STEM_LANE_PINNED,     /* on the first lane: every path from a root to the only sink crosses it */
    STEM_LANE_ROOT,       /* opened: it has no parent */
    STEM_LANE_BRANCH,     /* opened: its parent `by` forks, and another child had continued by's lane already */
    STEM_LANE_LEFT,       /* opened at its own turn: no parent handed it a lane */
};

/* Arrays of n entries. Lanes are numbered by first appearance in creation order over all nodes. */
struct stem_lanes {
    uint32_t n;
    uint32_t n_lanes;  /* lanes, those without a kernel included */
    uint32_t n_kernel_lanes; /* lanes that a profiler of kernels sees; for all-kernel graphs the same */
    uint32_t *lane;    /* or STEM_NO_LANE */
    uint8_t *why;      /* enum stem_lane_why */
    uint32_t *by;      /* CONTINUES, BRANCH: the parent meant; else STEM_NO_NODE */
    uint32_t *order;   /* nodes that have a lane, in the order in which the driver visits them */
    uint32_t n_order;
    enum stem_lane_trust trust;
};

struct stem_lane_driver {
    const char *name;    /* "580" */
    uint32_t first, last; /* driver branches that it was measured on */
    const char *blurb;
    /* The graph was checked before and has no cycle. */
    void (*predict)(const struct stem_lane_graph *g, struct stem_arena *a, struct stem_lanes *out);
};

/* All models, newest last; *n set. */
const struct stem_lane_driver *const *stem_lane_drivers(uint32_t *n);
/* By name; NULL gives the newest. NULL if there is none of that name. */
const struct stem_lane_driver *stem_lane_driver_find(const char *name);
/* The model for a driver branch (580 for 580.159.04); the nearest older one, else the oldest. *measured says whether
 * that branch is one it was measured on. */
const struct stem_lane_driver *stem_lane_driver_for(uint32_t branch, bool *measured);

/* Lanes of every node. `driver` NULL: the newest. False, with nothing else done, if an edge names a node that does
 * not exist or goes from a node to itself, if the edges have a cycle, if nodes are not within others as above, or above
 * STEM_LANE_MAX_NODES nodes.
 * Time near-linear in nodes and edges. */
bool stem_lanes_predict(const struct stem_lane_driver *driver, const struct stem_lane_graph *g, struct stem_arena *a,
                        struct stem_lanes *out);

/* How a prediction fits lanes that were measured (n entries, by first appearance; STEM_NO_LANE where there is no
 * record): on the nodes that were seen, whether each lane and whether the number of lanes is right. */
struct stem_lane_fit {
    bool exact, number;
};
struct stem_lane_fit stem_lanes_fit(const struct stem_lanes *l, const uint32_t *measured);

/* Lanes of kernel nodes only, renumbered by first appearance; STEM_NO_LANE for others: what a profiler of kernels
 * sees. n entries in the arena. */
uint32_t *stem_lanes_visible(const struct stem_lanes *l, const struct stem_lane_graph *g, struct stem_arena *a);

#endif
