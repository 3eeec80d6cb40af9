/* SPDX-License-Identifier: Apache-2.0
 *
 * For engines: fewer lanes (internal streams of the driver) for a CUDA graph, in process, before it is instantiated.
 *
 *     struct stem_relane_report r;
 *     stem_graph_relane(graph, NULL, &r);
 *     cuGraphInstantiate(&exec, graph, 0);
 *
 * In libmainstem. Nothing of the toolkit is needed to build this; a CUgraph is the driver's own incomplete struct.
 */
#ifndef STEM_LANES_MAINSTEM_LANES_H
#define STEM_LANES_MAINSTEM_LANES_H

#include <stdbool.h>
#include <stdint.h>

#ifndef STEM_API
#define STEM_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUgraph_st;
struct stem_lane_driver;  /* a model, of lanes.h */
struct stem_relane_edges; /* of relane.h */

/* Letters of the measured-format text lines; STEM_LANE_KINDS lists them in this order. */
enum stem_lane_kind {
    STEM_LANE_KERNEL,      /* k */
    STEM_LANE_EMPTY,       /* e */
    STEM_LANE_MEMSET,      /* m: of at most STEM_LANE_SMALL_MEMSET bytes */
    STEM_LANE_HOST,        /* h */
    STEM_LANE_MEMCPY,      /* c: within the device */
    STEM_LANE_EVENT,       /* r: record of an event */
    STEM_LANE_CHILD,       /* g: child graph */
    STEM_LANE_MEMORY,      /* a: allocation */
    STEM_LANE_CONDITIONAL, /* i */
    STEM_LANE_OTHER,       /* o: semaphores, batched memory operations, what later drivers bring */
    STEM_LANE_WAIT,        /* w: wait for an event */
    STEM_LANE_FREE,        /* f: free */
    STEM_LANE_TRANSFER,    /* t: memcpy from or to the host */
    STEM_LANE_FILL,        /* l: memset of more than STEM_LANE_SMALL_MEMSET bytes, which runs as kernels do */
};
#define STEM_LANE_KINDS "kemhcrgaiowftl"

#define STEM_LANE_SMALL_MEMSET 4096u /* measured between 4096 and 4097 bytes */

/* What is known about a prediction. */
enum stem_lane_trust {
    STEM_LANE_EXACT,   /* kernels, ordinary edges: no exception among all that was measured */
    STEM_LANE_GOOD,    /* programmatic edges, or other kinds of nodes: exceptions are known */
    STEM_LANE_MIXED,   /* both together: worse */
    STEM_LANE_UNKNOWN, /* nodes that were never measured, or whose contents are not known: a guess */
};

/* Kinds of nodes beside which edges are added, unless the options say otherwise: all but memory, conditional and other
 * nodes. A graph with one of those is left as it is: the driver does not let edges of a graph that allocates be taken
 * back, and bodies of conditional nodes are not read. */
#define STEM_RELANE_KINDS                                                                                            \
    (1u << STEM_LANE_KERNEL | 1u << STEM_LANE_EMPTY | 1u << STEM_LANE_MEMSET | 1u << STEM_LANE_HOST |                \
     1u << STEM_LANE_MEMCPY | 1u << STEM_LANE_EVENT | 1u << STEM_LANE_WAIT |               \
     1u << STEM_LANE_TRANSFER | 1u << STEM_LANE_FILL | 1u << STEM_LANE_CHILD)

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

/* Reads the graph through the driver that the process has loaded (12.3 or later; else FAILED with
 * CUDA_ERROR_NOT_FOUND), predicts, and adds edges to it. Each edge is proved before it is added: by a path of
 * ordinary edges that is in the graph already. So no cycle comes about, nothing that could overlap is kept apart, and
 * edges between programmatic pairs stay as they are. The same graph gets the same edges in the same order. The graph
 * belongs to the caller's thread meanwhile, as for any call that changes a graph; any number of threads may call with
 * graphs of their own. `options` may be NULL. Returns report->status. */
STEM_API enum stem_relane_status stem_graph_relane(struct CUgraph_st *graph,
                                                   const struct stem_relane_options *options,
                                                   struct stem_relane_report *report);

#ifdef __cplusplus
}
#endif

#endif
