/* SPDX-License-Identifier: Apache-2.0
 *
 * A CUDA graph read through the driver.
 */
#ifndef STEM_LANES_RELANE_READ_H
#define STEM_LANES_RELANE_READ_H

#include "lanes/relane.h"

struct stem_relane_graph {
    struct CUgraphNode_st **node; /* by number: first those of the graph itself in order of creation, then what its
                                   * child graphs hold */
    struct stem_lane_graph g;
    uint32_t n_top, n_top_edges;
    bool known;     /* every kind of node and edge, so that lanes can be predicted */
    uint32_t kinds; /* bits 1 << enum stem_lane_kind of all nodes */
    bool large;     /* more nodes than allowed, or EDGES_PER_NODE edges for each of those: not read to the end */
};

/* 0, or the driver's error. */
int stem_relane_read(const struct stem_relane_api *api, struct CUgraph_st *graph, size_t max_nodes,
                     struct stem_arena *a, struct stem_relane_graph *out);

#endif
