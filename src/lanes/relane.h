/* SPDX-License-Identifier: Apache-2.0
 *
 * Relaning: adds redundant edges to a CUDA graph that is about to be instantiated, so that the driver needs fewer
 * lanes. Nothing of the toolkit is needed to build this; handles are the driver's own incomplete structs.
 */
#ifndef STEM_LANES_RELANE_H
#define STEM_LANES_RELANE_H

#include <stddef.h>

#include "lanes/lanes.h"
#include "lanes/mainstem_lanes.h"

struct CUgraphNode_st;

/* CUgraphEdgeData. */
struct stem_relane_edge_data {
    uint8_t from_port, to_port, type, reserved[5];
};

/* CUDA_MEMCPY3D_v2 and CUDA_MEMSET_NODE_PARAMS: what is looked at, and room for the whole. */
struct stem_relane_memcpy {
    uint64_t before[4];
    int source_type; /* CUmemorytype */
    uint64_t between[10];
    int target_type;
    uint64_t after[16];
};
struct stem_relane_memset {
    uint64_t target, pitch;
    uint32_t value, element_size;
    uint64_t width, height, after[8];
};

/* The driver's functions; each returns a CUresult as int. Those that may be NULL tell more about nodes; without them
 * graphs with such nodes are not understood. */
struct stem_relane_api {
    int (*graph_nodes)(struct CUgraph_st *graph, struct CUgraphNode_st **nodes, size_t *n); /* cuGraphGetNodes */
    int (*graph_edges)(struct CUgraph_st *graph, struct CUgraphNode_st **from, struct CUgraphNode_st **to,
                       struct stem_relane_edge_data *data, size_t *n); /* cuGraphGetEdges_v2 */
    int (*node_type)(struct CUgraphNode_st *node, int *type);          /* cuGraphNodeGetType */
    int (*add_dependencies)(struct CUgraph_st *graph, struct CUgraphNode_st *const *from,
                            struct CUgraphNode_st *const *to, const struct stem_relane_edge_data *data,
                            size_t n); /* cuGraphAddDependencies_v2 */
    int (*remove_dependencies)(struct CUgraph_st *graph, struct CUgraphNode_st *const *from,
                               struct CUgraphNode_st *const *to, const struct stem_relane_edge_data *data,
                               size_t n); /* cuGraphRemoveDependencies_v2 */
    int (*memcpy_params)(struct CUgraphNode_st *node, struct stem_relane_memcpy *p); /* may be NULL */
    int (*memset_params)(struct CUgraphNode_st *node, struct stem_relane_memset *p); /* may be NULL */
    int (*child_graph)(struct CUgraphNode_st *node, struct CUgraph_st **graph);      /* may be NULL */
};

/* Edges that were added to a graph: by number of node, which fits every graph that is built the same way, and by
 * handle, which fits this one. */
struct stem_relane_edges {
    struct stem_lane_edge *edge;
    struct CUgraphNode_st **from, **to;
    uint32_t n;
};

/* Reads the graph, predicts, and adds edges to it. Each edge is proved before it is added: by a path of ordinary
 * edges that is in the graph already. So no cycle comes about, nothing that could overlap is kept apart, and edges
 * between programmatic pairs stay as they are. The same graph gets the same edges in the same order. The graph
 * belongs to the caller's thread meanwhile, as for any call that changes a graph. `options` may be NULL. Returns
 * report->status. If host memory runs out the graph is left as it was (FAILED, CUDA_ERROR_OUT_OF_MEMORY). */
enum stem_relane_status stem_relane(const struct stem_relane_api *api, struct CUgraph_st *graph,
                                    const struct stem_relane_options *options, struct stem_relane_report *report);

/* Adds to `graph` what was added to one built the same way, so that the second can update an instance of the first.
 * All of it except what is there already; nothing (UNKNOWN) if an edge is not implied by the edges of this graph.
 * `keep` is set as above. */
enum stem_relane_status stem_relane_again(const struct stem_relane_api *api, struct CUgraph_st *graph,
                                          const struct stem_relane_edges *edges, struct stem_relane_edges *keep,
                                          struct stem_relane_report *report);

/* Takes the edges back, the last first, by handle. Returns how many could not be. */
uint32_t stem_relane_undo(const struct stem_relane_api *api, struct CUgraph_st *graph,
                          const struct stem_relane_edges *edges);
void stem_relane_edges_free(struct stem_relane_edges *edges); /* what it holds */

/* The functions of the driver: of `path`, or if NULL of the one that the process has loaded. False if it lacks one.
 * dlclose(*handle) when they are no longer needed. */
bool stem_relane_driver(const char *path, struct stem_relane_api *api, void **handle);

#endif
