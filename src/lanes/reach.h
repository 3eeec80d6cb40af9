/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions about ancestors of a node, answered by walking back from it through a topological order; the work is what
 * lies between the two, and it is counted.
 */
#ifndef STEM_LANES_REACH_H
#define STEM_LANES_REACH_H

#include "lanes/lanes_internal.h"

struct stem_lane_reach {
    struct stem_lane_adj adj;
    uint32_t *order, *position; /* topological */
    uint32_t *seen;             /* stamp of the last walk that met a node */
    uint32_t stamp;
    uint64_t steps; /* positions and edges looked at so far */
    const uint32_t *stream; /* by node: tails are on another one than what they continue into; NULL: any */
};

/* False if the graph is not one, or has a cycle. */
bool stem_lane_reach_init(struct stem_lane_reach *r, const struct stem_lane_graph *g, struct stem_arena *a);
bool stem_lane_reach_before(struct stem_lane_reach *r, uint32_t from, uint32_t to);
bool stem_lane_has_edge(const struct stem_lane_adj *adj, uint32_t from, uint32_t to);
/* Calls visit for the ancestors of v by ordinary edges, nearest in the order first, until it returns false or
 * `max_steps` are spent. */
void stem_lane_reach_walk(struct stem_lane_reach *r, uint32_t v, uint64_t max_steps,
                          bool (*visit)(void *user, uint32_t ancestor), void *user);

/* Whether a redundant edge may leave, or enter, this node: a kernel without a programmatic edge there. */
bool stem_lane_may_leave(const struct stem_lane_graph *g, const struct stem_lane_adj *adj, uint32_t v);
bool stem_lane_may_enter(const struct stem_lane_graph *g, const struct stem_lane_adj *adj, uint32_t v);

/* Up to `max` candidates for continuing a lane into v: ends of lanes that come before v, nearest first. `is_tail` has
 * an entry for each node. */
uint32_t stem_lane_tails(struct stem_lane_reach *r, const struct stem_lane_graph *g, const bool *is_tail, uint32_t v,
                         uint32_t max, uint32_t *tail);
/* The last node of each lane, as a flag for each node of `l`. */
bool *stem_lane_tail_flags(const struct stem_lane_graph *g, const struct stem_lanes *l, struct stem_arena *a);

#endif
