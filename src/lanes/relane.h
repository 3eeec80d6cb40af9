/* SPDX-License-Identifier: Apache-2.0
 *
 * Relaning: adds redundant edges to a CUDA graph that is about to be instantiated, so that the driver needs fewer
 * lanes. Nothing of the toolkit is needed to build this; handles are the driver's own incomplete structs.
 */
#ifndef STEM_LANES_RELANE_H
#define STEM_LANES_RELANE_H

#include <stddef.h>

#include "lanes/lanes.h"

struct CUgraph_st;
struct CUgraphNode_st;

/* CUgraphEdgeData. */
struct stem_relane_edge_data {
    uint8_t from_port, to_port, type, reserved[5];
};

/* The driver's functions; each returns a CUresult as int. */
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
};

/* Kinds of nodes beside which edges are added, unless the options say otherwise: all but child graphs, memory,
 * conditional and other nodes. A graph with one of those is left as it is. */
#define STEM_RELANE_KINDS                                                                                            \
    (1u << STEM_LANE_KERNEL | 1u << STEM_LANE_EMPTY | 1u << STEM_LANE_MEMSET | 1u << STEM_LANE_HOST |                \
     1u << STEM_LANE_MEMCPY | 1u << STEM_LANE_EVENT)

/* Edges that were added to a graph: by number of node, which fits every graph that is built the same way, and by
 * handle, which fits this one. */
struct stem_relane_edges {
    struct stem_lane_edge *edge;
    struct CUgraphNode_st **from, **to;
    uint32_t n;
};

struct stem_relane_options {
    const struct stem_lane_driver *model; /* NULL: the newest */
    uint32_t max_edges;                   /* 0: no limit */
    uint32_t max_nodes;                   /* larger graphs are left as they are; 0: 100,000 */
    uint64_t work;                        /* stem_lane_repair_options; 0: 4 million */
    uint32_t effort;                      /* no more work than this for each node and edge (10,000 in all); 0: any */
    uint32_t kinds;                       /* bits 1 << enum stem_lane_kind; 0: STEM_RELANE_KINDS */
    bool dry;                             /* only predict and report */
    struct stem_relane_edges *keep;       /* if set: what was added; the caller frees (stem_relane_edges_free) */
};

enum stem_relane_status {
    STEM_RELANE_DONE,    /* edges were added (dry: would be) */
    STEM_RELANE_NOTHING, /* no edges bring lanes down */
    STEM_RELANE_UNKNOWN, /* left as it was: nodes or edges that are not understood */
    STEM_RELANE_LARGE,   /* left as it was: more than max_nodes, or 16 edges for each of those */
    STEM_RELANE_FAILED,  /* left as it was: the driver refused something */
    STEM_RELANE_SPOILED, /* the driver refused an edge, and then to take back one added before; edges are still all
                          * redundant, so the graph means what it meant */
};

struct stem_relane_report {
    enum stem_relane_status status;
    uint32_t nodes, edges;
    uint32_t by_kind[sizeof STEM_LANE_KINDS - 1];
    uint32_t lanes_before, lanes_after, lanes_bound; /* predicted lanes of kernels; 0 if not predicted */
    enum stem_lane_trust trust;
    uint32_t added;
    int error; /* CUresult of what was refused, else 0 */
};

/* Reads the graph, predicts, and adds edges to it. Each edge is proved before it is added: by a path of ordinary
 * edges that is in the graph already. So no cycle comes about, nothing that could overlap is kept apart, and edges
 * between programmatic pairs stay as they are. The same graph gets the same edges in the same order. The graph
 * belongs to the caller's thread meanwhile, as for any call that changes a graph. `options` may be NULL. Returns
 * report->status. A graph for which there is no host memory is left as it was (FAILED, CUDA_ERROR_OUT_OF_MEMORY):
 * that is tried before, since memory that runs out half way aborts. */
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

/* The same as stem_relane with the driver that the process has loaded (12.3 or later; else FAILED with
 * CUDA_ERROR_NOT_FOUND). */
enum stem_relane_status stem_graph_relane(struct CUgraph_st *graph, const struct stem_relane_options *options,
                                          struct stem_relane_report *report);

#endif
