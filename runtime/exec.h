/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a program on a device, shared by the files that make, bind, launch and record it.
 */
#ifndef STEM_RUNTIME_EXEC_H
#define STEM_RUNTIME_EXEC_H

#include "internal.h"

/* ---- routes (route.c): what replaying a variant's steps needs beyond the steps ---- */

struct stem_route {
    bool *fork; /* [segment][stream]: the stream must be forked from stream 0 when the segment starts */
    bool *used; /* [segment][stream]: the segment has steps on this stream */
    bool *skip; /* [step]: a wait for an event of an earlier segment; the segment's start implies it */
};

/* Fails if a stream is not joined at the end of a segment: its work would be outstanding, and a capture unjoined. */
enum stem_status stem_route_make(const struct stem_plan *p, uint32_t variant, struct stem_route *route,
                                 struct stem_rt_error *err);
void stem_route_free(struct stem_route *route);

/* ---- the program ---- */

struct stem_binding {
    uint64_t at, bytes;
    bool own;
};

struct stem_variant_state {
    struct stem_route route;
    uint64_t *address; /* of each buffer, temporaries in the slab */
    uint64_t
        *pool; /* the same while an eager launch in pool mode runs: temporaries as allocated, 0 when they are not */
    uint64_t generation; /* of the bindings that `address` and its checks belong to; 0: none */
    uint32_t *matmul;    /* by op: which of the program's products a MATMUL is; NULL: the program has none */
};

/* ---- the order of launches (order.c) ----
 *
 * Launches of one program use the same memory, so each must follow the one before, on whatever stream. */
struct stem_order {
    bool launched;           /* something may still run: what `unmarked` or the event `done` stands for */
    struct stem_graph *unmarked; /* the last launch was of this graph, and no event marks its end */
    struct CUstream_st *stream;  /* where that was */
    unsigned long long id, next; /* the driver's number of that stream, and of the one being launched on */
    bool marks;                  /* each launch is marked by `done`: they change streams, or are waited for */
};

struct stem_extern_state {
    stem_extern_fn *fn;
    void *library;
};

struct stem_exec {
    struct stem_rt *rt;
    const struct stem_plan *plan;
    struct stem_exec_options o;
    atomic_bool busy;
    bool pushed; /* the device's context was not the caller's: ours to pop */

    struct stem_cubin cubin;
    struct CUmod_st *module;
    struct CUfunc_st **kernels;
    struct stem_extern_state *externs;
    struct stem_matmuls *matmuls; /* cuBLASLt and what it was told (matmul.c); NULL: not needed */

    struct CUstream_st **streams; /* [0] is NULL: the caller's stream stands for it */
    struct CUstream_st *origin;   /* where graphs of our own are captured; never launched on but for uploads */
    struct CUstream_st *helper;   /* where extern ops are captured for graphs built node by node */
    struct CUevent_st **events;
    uint32_t n_events;
    struct CUevent_st *fork, *join, *done;
    struct stem_order order;

    struct stem_binding *bindings;
    uint64_t generation; /* counts changes of bindings and of the slab */
    uint64_t slab;
    bool own_slab;

    struct stem_variant_state *variants;

    /* Scratch for one op. */
    uint64_t *values; /* kernel parameters: pointers, then scalars, 8 bytes each */
    void **params;    /* their addresses */
    uint32_t max_params;
};

/* One user at a time. */
enum stem_status stem_acquire(struct stem_exec *e, struct stem_rt_error *err);
void stem_release(struct stem_exec *e);
enum stem_status stem_check_variant_index(const struct stem_exec *e, uint32_t variant, struct stem_rt_error *err);

/* ---- memory and bindings (bind.c) ---- */

enum stem_status stem_slab_ready(struct stem_exec *e, struct stem_rt_error *err);
void stem_slab_drop(struct stem_exec *e);
/* Binds a buffer of the program's own, zeroed. */
enum stem_status stem_binding_own(struct stem_exec *e, uint32_t index, struct stem_rt_error *err);
/* Checks the bindings of a variant and computes its addresses, if anything changed since the last time. */
enum stem_status stem_resolve(struct stem_exec *e, uint32_t variant, struct stem_rt_error *err);
enum stem_status stem_pool_alloc(struct stem_exec *e, size_t bytes, struct CUstream_st *stream, uint64_t *at,
                                 struct stem_rt_error *err);
enum stem_status stem_pool_free(struct stem_exec *e, uint64_t at, size_t bytes, struct CUstream_st *stream,
                                struct stem_rt_error *err);

/* ---- issuing (issue.c): one op on one stream, eagerly or into a capture ---- */

/* Fills e->values and e->params for an op, given the addresses of the variant's buffers; the number of parameters. */
uint32_t stem_op_params(struct stem_exec *e, const struct stem_plan_op *op, const uint64_t *address);
enum stem_status stem_issue_op(struct stem_exec *e, const struct stem_plan_op *op, const uint64_t *address,
                               struct CUstream_st *stream, bool capturing, struct stem_rt_error *err);
/* The op as a node; for EXTERN `child` is the graph of its work. */
void stem_op_node(struct stem_exec *e, const struct stem_plan_op *op, const uint64_t *address,
                  struct CUgraph_st *child, struct stem_cuda_node_params *out);

/* ---- nodes of a graph (nodes.c) ---- */

enum { STEM_MATMUL_MAX_NODES = 4 }; /* kernels that one product may be */

/* Which op a node belongs to. Nodes that nobody put in are not of this plan. */
struct stem_node_map {
    struct CUgraphNode_st **node;
    uint32_t *op;
    size_t n, cap; /* cap is a power of two */
};

bool stem_node_put(struct stem_node_map *m, struct CUgraphNode_st *node, uint32_t op);
uint32_t stem_node_op(const struct stem_node_map *m, struct CUgraphNode_st *node); /* STEM_NONE: unknown */
void stem_node_map_free(struct stem_node_map *m);
/* All nodes of a graph, malloc'd. */
enum stem_status stem_graph_list(struct stem_rt *rt, struct CUgraph_st *graph, struct CUgraphNode_st ***nodes,
                                 size_t *n, struct stem_rt_error *err);

/* Compares a graph with a segment of a plan: each op has its node, no node is unknown (unless `foreign` allows nodes
 * of somebody else), and the edges between ops are the plan's. With `repair`, edges that a capture made programmatic
 * although the plan has them full are replaced first; without it they are accepted, since their target waits. */
struct stem_graph_check {
    struct stem_exec *e;
    const struct stem_plan_variant *v;
    uint32_t segment;
    struct CUgraph_st *graph;
    const struct stem_node_map *map;
    bool foreign, repair;
    struct CUgraphNode_st *(*chain)[STEM_MATMUL_MAX_NODES]; /* if not NULL: gets the nodes of each MATMUL in order */
    uint32_t n_nodes, n_edges, n_programmatic; /* found, between ops */
};
enum stem_status stem_graph_compare(struct stem_graph_check *c, struct stem_rt_error *err);

/* ---- captures (capture.c) ---- */

struct stem_capture {
    int status; /* STEM_CUDA_CAPTURE_* */
    uint64_t id;
    struct CUgraph_st *graph;
    struct CUgraphNode_st *const *nodes; /* what the stream depends on; valid until the next call on the stream */
    size_t n_nodes;
};
/* The capture that a stream is in. The legacy default stream cannot capture and is not asked. */
enum stem_status stem_capture_of(struct stem_rt *rt, struct CUstream_st *stream, struct stem_capture *c,
                                 struct stem_rt_error *err);
/* Side streams belong to the program: one that is part of a capture other than `main` would carry work into it. */
enum stem_status stem_check_side_streams(const struct stem_exec *e, const struct stem_capture *main,
                                         struct stem_rt_error *err);

/* ---- replay (replay.c): the one routine that walks steps ---- */

struct stem_replay {
    struct stem_exec *e;
    uint32_t variant;
    struct CUstream_st *main;
    bool capturing;
    bool pool;                                 /* eager only: temporaries are allocated and freed as the steps say */
    const struct stem_launch_options *options; /* eager only, may be NULL */
    struct stem_node_map *map;                 /* capture: gets the node of each op */
};
/* Replays a segment. On failure, side streams have been rejoined as far as the driver allows. */
enum stem_status stem_replay_segment(struct stem_replay *r, uint32_t segment, struct stem_rt_error *err);

/* ---- graphs (graph.c) ---- */

struct stem_graph_part {
    struct CUgraph_st *graph; /* kept: updates name its nodes. NULL: the segment is eager */
    struct CUgraphExec_st *exec;
};

struct stem_graph {
    struct stem_exec *e;
    uint32_t variant;
    enum stem_graph_by by;
    struct stem_graph_part *parts; /* of each segment */
    struct CUgraphNode_st **node;  /* of each op, the last where there are several; NULL: an extern op captured in line */
    struct CUgraphNode_st *(*chain)[STEM_MATMUL_MAX_NODES]; /* of each op, all of a MATMUL's; NULL: the program has none */
    uint64_t *address;             /* of each buffer, as the instantiated graphs have them */
    uint64_t generation;
    bool simple; /* one graph, all of whose nodes can be switched off */
    bool asleep; /* some of them are */
    struct stem_graph_info info;
};

/* ---- order of launches (order.c) ---- */

/* Orders what comes next on `stream` behind the program's last launch; `g` is the graph to be launched, NULL: an eager
 * launch. After a failure nothing may be launched. */
enum stem_status stem_order_begin(struct stem_exec *e, struct stem_graph *g, struct CUstream_st *stream,
                                  struct stem_rt_error *err);
/* After a launch. `failed` ones count too, unless they were of a simple graph: some of their work was enqueued. */
enum stem_status stem_order_end(struct stem_exec *e, struct stem_graph *g, struct CUstream_st *stream, bool failed,
                                struct stem_rt_error *err);
/* Waits on the host for the last launch. A program that goes on afterwards will be waited for again. */
enum stem_status stem_order_wait(struct stem_exec *e, bool goes_on, struct stem_rt_error *err);
/* Switches the nodes of a graph on again. */
enum stem_status stem_order_wake(struct stem_graph *g, struct stem_rt_error *err);

#endif
