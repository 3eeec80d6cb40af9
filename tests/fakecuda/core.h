/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the stand-in driver: its objects, and what its files offer each other. One recursive lock guards all of it;
 * every entry point takes it (FC_ENTER) and gives it back (fc_leave).
 */
#ifndef FAKECUDA_CORE_H
#define FAKECUDA_CORE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "driver.h"
#include "fakecuda.h"

#define FC_API __attribute__((visibility("default")))

#define FC_VEC(type)                                                                                                 \
    struct {                                                                                                         \
        type *at;                                                                                                    \
        size_t len, cap;                                                                                             \
    }
#define FC_PUSH(v, x)                                                                                                \
    ((v)->at = fc_reserve((v)->at, &(v)->cap, (v)->len + 1, sizeof *(v)->at), (v)->at[(v)->len++] = (x))
#define FC_FREE(v) (free((v)->at), (v)->at = NULL, (v)->len = (v)->cap = 0)
void *fc_reserve(void *at, size_t *cap, size_t want, size_t size);
void *fc_alloc(size_t bytes); /* zeroed; never NULL */

enum fc_kind {
    FC_CONTEXT,
    FC_STREAM,
    FC_EVENT,
    FC_MODULE,
    FC_FUNCTION,
    FC_GRAPH,
    FC_NODE,
    FC_EXEC,
    FC_POOL,
    FC_BLAS,
    FC_N_KINDS
};

/* First member of every object. Destroyed objects stay registered, so that a stale handle is recognised. */
struct fc_object {
    UT_hash_handle hh;
    void *self;
    enum fc_kind kind;
    uint32_t id;
    bool dead;
    void (*dispose)(void *self); /* frees what hangs on it, at the reset */
};

struct fc_kernel { /* a layout made known by fakecuda_define_kernel */
    UT_hash_handle hh;
    char *name;
    uint32_t n_params;
    size_t *sizes, bytes;
    bool waits;
};

enum { FC_STATIC_SMEM = 16 << 10 }; /* `__shared__` variables of every kernel: more than usual, so that they count */

struct fc_module {
    struct fc_object o;
    FC_VEC(struct fc_function *) functions;
};

struct fc_function {
    struct fc_object o;
    struct fc_module *module;
    struct fc_kernel *kernel;
    uint32_t max_smem; /* as set; a launch may have it, or what FC_STATIC_SMEM leaves of 48 KiB */
};

enum fc_block_state { FC_UNBORN, FC_LIVE, FC_FREED };

struct fc_block {
    uint8_t *raw, *base;
    size_t bytes;
    uint32_t id;
    enum fc_block_state state; /* at this point of the execution */
    bool released;             /* on the host: its free was issued */
    bool host, graph_owned;    /* host memory; allocated by a node */
    bool runs;                 /* graph_owned: an allocation was issued and its free not */
};

/* ---- work: the payload of an operation or a node ---- */

struct fc_launch {
    struct fc_function *function;
    uint32_t grid[3], block[3], smem;
    bool programmatic;
    int priority;
    uint8_t *params; /* parameter values, one after the other, 16-byte aligned */
};

struct fc_copy {
    CUDA_MEMCPY3D p;
    bool linear; /* made by a one-dimensional call */
};

struct fc_work {
    CUgraphNodeType type;
    union {
        struct fc_launch launch;
        CUDA_MEMSET_NODE_PARAMS set;
        struct fc_copy copy;
        CUDA_HOST_NODE_PARAMS host;
        struct fc_event *event;
        struct fc_block *block;
        struct fc_graph *child; /* owned by the node */
    } u;
};

struct fc_work fc_work_clone(const struct fc_work *w); /* deep but for the child graph */
void fc_work_free(struct fc_work *w);
void fc_work_run(const struct fc_work *w);
CUresult fc_launch_check(const struct fc_launch *l, void **params, void **extra);
void fc_launch_params(struct fc_launch *l, void **params);
CUresult fc_copy_check(const CUDA_MEMCPY3D *p);

/* ---- operations (sched.c) ---- */

struct fc_ops {
    struct fc_op **at;
    size_t len, cap;
};

struct fc_op {
    struct fc_op *prev, *next;
    uint64_t seq;
    uint32_t refs, unmet;
    uint32_t stream; /* id of the stream object */
    bool done, wanted;
    struct fc_work work;
    struct fc_exec *exec; /* launched by this graph */
    uint32_t correlation, lane, node; /* what records say: the launch, the stream or lane, the graph's node */
    uint64_t start, end;              /* in the model of time (cupti.c); end is 0 until it has run */
    struct fc_ops deps, succs;
};

struct fc_op *fc_ref(struct fc_op *op);
void fc_unref(struct fc_op *op);
void fc_ops_clear(struct fc_ops *v);
void fc_ops_add(struct fc_ops *v, struct fc_op *op); /* takes a reference; each once */
/* Appends an operation; takes over the work. programmatic[i]: the edge from deps->at[i] is programmatic. NULL: none.
 */
struct fc_op *fc_submit(struct fc_work work, uint32_t stream, const struct fc_ops *deps, const bool *programmatic);
void fc_sync_ops(const struct fc_ops *targets, uint32_t stream); /* these, and all of a stream (0: none) */
void fc_sync_all(void);
bool fc_stream_busy(uint32_t stream, const struct fc_ops *tail);
void fc_sched_reset(void);
void fc_cupti_record(struct fc_op *op); /* as it executes */
uint32_t fc_pending(void);
bool fc_pending_module(const struct fc_module *m);

/* ---- streams and events (stream.c) ---- */

struct fc_dep {
    struct fc_node *node;
    CUgraphEdgeData data;
};
struct fc_deps {
    struct fc_dep *at;
    size_t len, cap;
};

struct fc_stream {
    struct fc_object o;
    uint32_t flags;
    int priority;
    bool legacy;
    struct fc_ops tail;         /* what the next operation must wait for */
    struct fc_capture *capture; /* or NULL */
    struct fc_deps pending;     /* capturing: what the next node depends on */
};

struct fc_event {
    struct fc_object o;
    uint32_t flags;
    struct fc_ops ops; /* last recorded outside of a capture; empty: never, or all done */
    bool recorded;
    uint64_t capture; /* last recorded in this capture, 0: outside */
    struct fc_deps pending;
};

struct fc_stream *fc_stream_get(CUstream handle);
void fc_stream_forget(struct fc_stream *s); /* drops it from its capture */
struct fc_event *fc_event_get(CUevent handle);
/* The one way for work into a stream: captured or submitted; takes over the work. */
CUresult fc_issue(struct fc_stream *s, struct fc_work *work, struct fc_node **node);
void fc_order(struct fc_stream *s, struct fc_ops *deps); /* what an operation issued now waits for */
void fc_follow(struct fc_stream *s, struct fc_op *op);
CUresult fc_sync_stream(struct fc_stream *s);
struct fc_stream *fc_legacy(void);
void fc_stream_reset(void);

/* ---- capture (capture.c) ---- */

struct fc_capture {
    struct fc_capture *prev, *next;
    uint64_t id;
    CUstreamCaptureMode mode;
    uint64_t thread;
    bool invalid;
    struct fc_stream *origin;
    struct fc_graph *graph;
    FC_VEC(struct fc_stream *) streams;
};

CUresult fc_capture_add(struct fc_stream *s, struct fc_work *work, struct fc_node **node);
CUresult fc_capture_wait(struct fc_stream *s, struct fc_event *e);
void fc_capture_record(struct fc_stream *s, struct fc_event *e);
void fc_capture_invalidate(struct fc_capture *c);
void fc_capture_end(struct fc_capture *c);
struct fc_capture *fc_capture_find(uint64_t id);
/* Gates: 0, or the error after invalidating what the call invalidates. */
CUresult fc_gate_stream(struct fc_stream *s); /* work into s */
CUresult fc_gate_unsafe(void);                /* a potentially unsafe call on this thread */
CUresult fc_gate_sync(struct fc_stream *s);   /* wait for s, or query it */
CUresult fc_gate_context(void);               /* wait for everything */
CUresult fc_gate_event(struct fc_event *e);   /* query, wait on the host */
uint32_t fc_capture_count(void);
void fc_capture_reset(void);

/* ---- graphs (graph.c, exec.c) ---- */

struct fc_node {
    struct fc_object o;
    struct fc_graph *graph;
    uint32_t index; /* in graph->nodes */
    struct fc_work work;
    struct fc_deps preds;
    FC_VEC(struct fc_node *) succs;
    struct fc_node *origin; /* the node this one was cloned from */
    uint32_t mark;
};

struct fc_graph {
    struct fc_object o;
    FC_VEC(struct fc_node *) nodes;
    struct fc_capture *capture; /* being captured into */
    struct fc_node *parent;     /* owned by this child-graph node */
    uint32_t execs;             /* instances that hold its memory nodes */
    struct fc_graph *cloned_from;
};

struct fc_item {            /* a node of an instantiated graph, in topological order */
    struct fc_node *source; /* for matching only */
    struct fc_work work;
    FC_VEC(uint32_t) preds;
    FC_VEC(bool) programmatic;
    uint32_t lane;
    bool disabled; /* launched as an empty node */
};

struct fc_exec {
    struct fc_object o;
    struct fc_graph *graph; /* for matching only */
    uint64_t flags;
    FC_VEC(struct fc_item) items;
    bool memory;        /* has memory nodes */
    struct fc_op *last; /* end of its previous launch */
    uint32_t running;   /* operations issued, not executed */
};

struct fc_graph *fc_graph_new(void);
struct fc_graph *fc_graph_get(CUgraph handle);
struct fc_node *fc_node_get(CUgraphNode handle);
struct fc_node *fc_node_add(struct fc_graph *g, struct fc_work work, const struct fc_dep *deps, size_t n);
void fc_graph_destroy(struct fc_graph *g);
struct fc_graph *fc_graph_clone(struct fc_graph *g);
bool fc_edge_valid(const struct fc_node *from, const struct fc_node *to, CUgraphEdgeData d);
bool fc_graph_has_memory(const struct fc_graph *g);
CUresult fc_params_kernel(struct fc_work *w, const CUDA_KERNEL_NODE_PARAMS *p);
CUresult fc_params_memset(struct fc_work *w, const CUDA_MEMSET_NODE_PARAMS *p);

/* ---- memory (memory.c) ---- */

struct fc_block *fc_block_new(size_t bytes, enum fc_block_state state);
struct fc_block *fc_block_at(const void *p);   /* whose bytes or guard zones contain p; the newest; or NULL */
struct fc_block *fc_block_base(CUdeviceptr p); /* that starts exactly there and is not released */
void fc_block_poison(struct fc_block *b);
void fc_memory_reset(void);
void fc_memory_counts(struct fakecuda_counts *c);

/* ---- state (state.c) ---- */

struct fc_thread {
    uint64_t generation, id;
    struct fc_object *current[16]; /* stack of contexts */
    uint32_t depth;
    int mode; /* interaction with captures */
    bool in_callback;
};

struct fc_state {
    uint64_t generation;
    bool inited;
    int sticky; /* an error of an executed operation; every later call reports it */
    struct fc_object *objects;
    uint32_t live[FC_N_KINDS], made[FC_N_KINDS];
    uint64_t calls, fail_at;
    uint32_t own; /* the calls are the test's own */
    int fail_error;
    bool failed;
    char failed_call[64];
    uint32_t faults;
    enum fakecuda_order order;
    uint64_t rng;
    uint64_t memory_limit;
    int driver_version, pointer_device, arch;
    bool reuse_streams;
    fakecuda_runner *runner;
    void *user;
    struct fc_kernel *kernels;
    struct fc_object *primary;
    uint32_t primary_refs;
};
extern struct fc_state fc;

struct fc_thread *fc_thread(void);
void fc_lock(void);
void fc_unlock(void);
enum { FC_NEED_NOTHING, FC_NEED_INIT, FC_NEED_CONTEXT };
CUresult fc_begin(int need, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
CUresult fc_leave(CUresult result);
bool fc_refused(void); /* not even a release is possible: before cuInit, or inside of a host function */
/* Every entry point: counts the call, writes the trace, injects failures. */
#define FC_ENTER_AS(need, ...)                                                                                       \
    fc_lock();                                                                                                       \
    CUresult fc_error = fc_begin(need, __VA_ARGS__);                                                                 \
    if (fc_error)                                                                                                    \
    return fc_leave(fc_error)
#define FC_ENTER(...) FC_ENTER_AS(FC_NEED_CONTEXT, __VA_ARGS__)
/* A call that releases something, or waits, does so even when it is made to fail. */
#define FC_ENTER_RELEASE_AS(need, ...)                                                                               \
    fc_lock();                                                                                                       \
    CUresult fc_error = fc_begin(need, __VA_ARGS__);                                                                 \
    if (fc_refused())                                                                                                \
    return fc_leave(fc_error)
#define FC_ENTER_RELEASE(...) FC_ENTER_RELEASE_AS(FC_NEED_CONTEXT, __VA_ARGS__)
#define FC_LEAVE_RELEASE(result)                                                                                     \
    do {                                                                                                             \
        CUresult fc_result = (result);                                                                               \
        return fc_leave(fc_error ? fc_error : fc_result);                                                            \
    } while (0)

void *fc_new(enum fc_kind kind, size_t bytes, void (*dispose)(void *));
void fc_kill(void *object);
void *fc_get(const void *handle, enum fc_kind kind);       /* NULL unless alive; a dead one is a fault */
const char *fc_str(const void *handle, enum fc_kind kind); /* "stream#3", for the trace */
const char *fc_ptr(CUdeviceptr p);                         /* "memory#2+128" */
uint64_t fc_random(void);
struct fc_kernel *fc_kernel_find(const char *name);

#endif
