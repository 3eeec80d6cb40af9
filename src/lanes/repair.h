/* SPDX-License-Identifier: Apache-2.0
 *
 * Why lanes are opened, how few there could be, and which redundant edges bring them down.
 */
#ifndef STEM_LANES_REPAIR_H
#define STEM_LANES_REPAIR_H

#include "lanes/lanes.h"

/* A place where a lane is opened. */
struct stem_lane_opening {
    uint32_t node, lane;
    enum stem_lane_why why; /* ROOT, BRANCH or LEFT */
    uint32_t parent;        /* the last parent that the driver visits; STEM_NO_NODE for a root */
    uint32_t rival;         /* the child that runs on the parent's lane instead; STEM_NO_NODE if there is none */
    uint32_t tail;          /* a lane that ended although `node` comes after its end: the edge tail -> node is implied
                             * by the edges there are, and could continue it; STEM_NO_NODE if there is none */
};

struct stem_lane_openings {
    const struct stem_lane_opening *at; /* in the driver's order */
    uint32_t len;
};

/* `l` is the prediction for `g`. Work is bounded: in huge graphs a tail that is far away may be missed. */
void stem_lanes_explain(const struct stem_lane_graph *g, const struct stem_lanes *l, struct stem_arena *a,
                        struct stem_lane_openings *out);

/* A bound from below: the largest set of kernels none of which comes before another (Dilworth), since two of those
 * cannot share a lane. Exact for graphs that fall into parts of at most 1024 nodes between bottlenecks; parts that
 * are larger count as 1. The graph has no cycle. */
uint32_t stem_lanes_bound(const struct stem_lane_graph *g);

enum stem_lane_proof {
    STEM_LANE_SMALL,    /* the work allowed was used up before anything was proved */
    STEM_LANE_MINIMAL,  /* no one edge can be left out */
    STEM_LANE_SMALLEST, /* no set of fewer edges does as well: all were tried, or one edge or none is enough */
};

struct stem_lane_repair_options {
    uint32_t max_edges; /* 0: no limit */
    uint32_t enough;    /* stop at so many lanes; 0: at the bound */
    bool greedy;        /* do not try all sets on small graphs: a hundred times faster there */
    const uint32_t *stream; /* by node: only edges between nodes of different streams; NULL: any */
    uint64_t work;      /* bound of the work, in nodes + edges looked at; 0: 20 million (a few seconds at most) */
};

struct stem_lane_repair {
    const struct stem_lane_edge *edges; /* to be added, by `to`, then `from`; none is in the graph */
    uint32_t n_edges;
    uint32_t before, after; /* lanes of kernels, predicted */
    uint32_t bound;         /* stem_lanes_bound */
    enum stem_lane_proof proof;
};

/* Redundant edges that lower the number of lanes. Each joins two kernels, the second of which comes after the first
 * already, by a path of ordinary edges alone, so nothing that could run at the same time no longer can; none goes
 * from a kernel that has a programmatic edge to another or into one that has one from another. No nodes move. The
 * same graph gives the same edges. `options` may be NULL. False if the graph is not one (stem_lanes_predict). */
bool stem_lanes_repair(const struct stem_lane_driver *driver, const struct stem_lane_graph *g,
                       const struct stem_lane_repair_options *options, struct stem_arena *a,
                       struct stem_lane_repair *out);

/* True if `to` comes after `from` by a path of ordinary edges alone. */
bool stem_lanes_implied(const struct stem_lane_graph *g, uint32_t from, uint32_t to);

#endif
