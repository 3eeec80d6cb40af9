/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of src/lanes/ share: adjacency of a checked graph, and the models.
 */
#ifndef STEM_LANES_INTERNAL_H
#define STEM_LANES_INTERNAL_H

#include "lanes/lanes.h"

/* Adjacency in compressed rows, without double edges; neighbours ascending. Children of u are
 * child[child_at[u]] .. child[child_at[u + 1] - 1]; `*_prog` says which of them are programmatic. */
struct stem_lane_adj {
    uint32_t n, n_edges;
    uint32_t *child_at, *child;
    uint32_t *parent_at, *parent;
    uint8_t *child_prog, *parent_prog;
};

/* False if an edge is out of range or a loop. */
bool stem_lane_adj_build(const struct stem_lane_graph *g, struct stem_arena *a, struct stem_lane_adj *adj);
/* A topological order (n entries), or NULL if there is a cycle. */
uint32_t *stem_lane_topological(const struct stem_lane_adj *adj, struct stem_arena *a);
/* A node on a cycle, or STEM_NO_NODE. */
uint32_t stem_lane_cycle(const struct stem_lane_adj *adj, struct stem_arena *a);

static inline enum stem_lane_kind stem_lane_kind_of(const struct stem_lane_graph *g, uint32_t v)
{
    return g->kind ? (enum stem_lane_kind)g->kind[v] : STEM_LANE_KERNEL;
}

static inline uint32_t stem_lane_within(const struct stem_lane_graph *g, uint32_t v)
{
    return g->within ? g->within[v] : STEM_NO_NODE;
}

/* Whether nodes hold others, and edges join siblings, as struct stem_lane_graph says. */
bool stem_lane_nesting_is_sound(const struct stem_lane_graph *g);

/* Kinds that only an expanded graph has. */
enum { STEM_LANE_START = 64, STEM_LANE_MARK };

/* Child graphs opened. `closed`: each has a mark before and one after what it holds, and each conditional node has one
 * behind it for its body; else each has a start node before it, and what is behind it follows its last nodes. What
 * conditional nodes hold is left out. */
struct stem_lane_expanded {
    struct stem_lane_graph graph;
    uint32_t *node; /* by node of the graph given: its number here; STEM_NO_NODE: an opened child graph, or left out */
    uint32_t *old;  /* the inverse; STEM_NO_NODE: a start or a mark */
};
void stem_lane_expand(const struct stem_lane_graph *g, bool closed, struct stem_arena *a,
                      struct stem_lane_expanded *out);

extern const struct stem_lane_driver stem_lane_driver_580;

#endif
