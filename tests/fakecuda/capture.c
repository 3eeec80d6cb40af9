/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream capture: which streams belong to one, what the next node of each depends on, and the calls that a capture
 * forbids. A forbidden call fails and invalidates the captures that forbid it; an invalid capture answers
 * everything with an error until it is ended.
 */
#include "core.h"

#include <utlist.h>

static struct fc_capture *captures;
static uint64_t last_id;

struct fc_capture *fc_capture_find(uint64_t id)
{
    struct fc_capture *c;
    DL_FOREACH(captures, c)
    {
        if (c->id == id)
            return c;
    }
    return NULL;
}

uint32_t fc_capture_count(void)
{
    uint32_t n = 0;
    const struct fc_capture *c;
    DL_FOREACH(captures, c)
    {
        n++;
    }
    return n;
}

void fc_capture_invalidate(struct fc_capture *c)
{
    c->invalid = true;
}

void fc_stream_forget(struct fc_stream *s)
{
    struct fc_capture *c = s->capture;
    for (size_t i = 0; i < c->streams.len; i++)
        if (c->streams.at[i] == s)
            c->streams.at[i] = c->streams.at[--c->streams.len];
    FC_FREE(&s->pending);
    s->capture = NULL;
    if (c->origin == s) {
        struct fc_graph *g = c->graph;
        fc_capture_end(c);
        fc_graph_destroy(g);
    }
}

/* Lets the streams go; the graph stays with the caller. */
void fc_capture_end(struct fc_capture *c)
{
    for (size_t i = 0; i < c->streams.len; i++) {
        FC_FREE(&c->streams.at[i]->pending);
        c->streams.at[i]->capture = NULL;
    }
    FC_FREE(&c->streams);
    c->graph->capture = NULL;
    DL_DELETE(captures, c);
    free(c);
}

void fc_capture_reset(void)
{
    while (captures)
        fc_capture_end(captures);
    last_id = 0;
}

static void join(struct fc_capture *c, struct fc_stream *s)
{
    s->capture = c;
    FC_PUSH(&c->streams, s);
}

/* ---- gates ---- */

static bool takes_part(const struct fc_capture *c, bool blocking_only)
{
    for (size_t i = 0; i < c->streams.len; i++)
        if (!blocking_only || !(c->streams.at[i]->flags & CU_STREAM_NON_BLOCKING))
            return true;
    return false;
}

/* The legacy stream would order itself against every blocking stream, also one that is being captured. */
static CUresult gate_legacy(void)
{
    CUresult err = CUDA_SUCCESS;
    struct fc_capture *c;
    DL_FOREACH(captures, c)
    {
        if (takes_part(c, true)) {
            fc_capture_invalidate(c);
            err = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    }
    return err;
}

CUresult fc_gate_stream(struct fc_stream *s)
{
    if (s->capture)
        return s->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    return s->legacy ? gate_legacy() : CUDA_SUCCESS;
}

CUresult fc_gate_unsafe(void)
{
    const struct fc_thread *t = fc_thread();
    CUresult err = CUDA_SUCCESS;
    struct fc_capture *c;
    DL_FOREACH(captures, c)
    {
        bool own = c->thread == t->id && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        bool other = c->thread != t->id && c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (t->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
            (own || (other && t->mode == CU_STREAM_CAPTURE_MODE_GLOBAL))) {
            fc_capture_invalidate(c);
            err = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return err;
}

CUresult fc_gate_sync(struct fc_stream *s)
{
    if (s->capture) {
        bool was = s->capture->invalid;
        fc_capture_invalidate(s->capture);
        return was ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    CUresult err = s->legacy ? gate_legacy() : CUDA_SUCCESS;
    return err ? err : fc_gate_unsafe();
}

CUresult fc_gate_context(void)
{
    struct fc_capture *c;
    DL_FOREACH(captures, c)
    {
        fc_capture_invalidate(c);
    }
    return captures ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult fc_gate_event(struct fc_event *e)
{
    if (!e->capture)
        return fc_gate_unsafe();
    struct fc_capture *c = fc_capture_find(e->capture);
    if (c)
        fc_capture_invalidate(c);
    return CUDA_ERROR_CAPTURED_EVENT;
}

/* ---- work under capture ---- */

static void add_dep(struct fc_deps *to, struct fc_dep d)
{
    for (size_t i = 0; i < to->len; i++)
        if (to->at[i].node == d.node)
            return;
    FC_PUSH(to, d);
}

CUresult fc_capture_add(struct fc_stream *s, struct fc_work *work, struct fc_node **node)
{
    bool programmatic = work->type == CU_GRAPH_NODE_TYPE_KERNEL && work->u.launch.programmatic;
    /* With the attribute every incoming edge from a kernel turns programmatic, those of other streams too. */
    for (size_t i = 0; programmatic && i < s->pending.len; i++)
        if (s->pending.at[i].node->work.type == CU_GRAPH_NODE_TYPE_KERNEL)
            s->pending.at[i].data = (CUgraphEdgeData){.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                                                      .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    struct fc_node *n = fc_node_add(s->capture->graph, *work, s->pending.at, s->pending.len);
    s->pending.len = 0;
    struct fc_dep d = {.node = n};
    FC_PUSH(&s->pending, d);
    if (node)
        *node = n;
    return CUDA_SUCCESS;
}

void fc_capture_record(struct fc_stream *s, struct fc_event *e)
{
    e->pending.len = 0;
    for (size_t i = 0; i < s->pending.len; i++)
        FC_PUSH(&e->pending, s->pending.at[i]);
    e->capture = s->capture->id;
    e->recorded = true;
}

CUresult fc_capture_wait(struct fc_stream *s, struct fc_event *e)
{
    CUresult err = fc_gate_stream(s);
    if (err)
        return err;
    struct fc_capture *from = e->capture ? fc_capture_find(e->capture) : NULL;
    /* Outside work, or a capture that is over, on one side: the dependency would cross the boundary. */
    if (!from) {
        if (s->capture)
            fc_capture_invalidate(s->capture);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (from->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (s->capture && s->capture != from) {
        fc_capture_invalidate(s->capture);
        fc_capture_invalidate(from);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (s->legacy) {
        fc_capture_invalidate(from);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!s->capture)
        join(from, s);
    for (size_t i = 0; i < e->pending.len; i++)
        add_dep(&s->pending, e->pending.at[i]);
    return CUDA_SUCCESS;
}

/* ---- begin and end ---- */

static CUresult begin(struct fc_stream *s, CUstreamCaptureMode mode, struct fc_graph *into)
{
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct fc_capture *c = fc_alloc(sizeof *c);
    c->id = ++last_id;
    c->mode = mode;
    c->thread = fc_thread()->id;
    c->origin = s;
    c->graph = into ? into : fc_graph_new();
    c->graph->capture = c;
    DL_APPEND(captures, c);
    join(c, s);
    return CUDA_SUCCESS;
}

FC_API CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    FC_ENTER("cuStreamBeginCapture", "%s %d", fc_str(stream, FC_STREAM), (int)mode);
    return fc_leave(begin(fc_stream_get(stream), mode, NULL));
}

static void mark_ancestors(struct fc_node *n)
{
    FC_VEC(struct fc_node *) stack = {0};
    FC_PUSH(&stack, n);
    while (stack.len) {
        n = stack.at[--stack.len];
        if (n->mark)
            continue;
        n->mark = 1;
        for (size_t i = 0; i < n->preds.len; i++)
            FC_PUSH(&stack, n->preds.at[i].node);
    }
    FC_FREE(&stack);
}

/* Every stream's last node must come before what the origin would do next. */
static bool joined(const struct fc_capture *c)
{
    for (size_t i = 0; i < c->graph->nodes.len; i++)
        c->graph->nodes.at[i]->mark = 0;
    for (size_t i = 0; i < c->origin->pending.len; i++)
        mark_ancestors(c->origin->pending.at[i].node);
    for (size_t i = 0; i < c->streams.len; i++) {
        const struct fc_deps *p = &c->streams.at[i]->pending;
        for (size_t k = 0; k < p->len; k++)
            if (!p->at[k].node->mark)
                return false;
    }
    return true;
}

static CUresult end(struct fc_stream *s, CUgraph *out, CUresult forced)
{
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    struct fc_capture *c = s->capture;
    if (!c || !out)
        return c ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_ILLEGAL_STATE;
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != fc_thread()->id)
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (s != c->origin) {
        fc_capture_invalidate(c);
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    CUresult err = forced;
    if (!err)
        err = c->invalid  ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
              : joined(c) ? CUDA_SUCCESS
                          : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    struct fc_graph *g = c->graph;
    fc_capture_end(c);
    *out = err ? NULL : (CUgraph)g;
    if (err)
        fc_graph_destroy(g);
    return err;
}

FC_API CUresult cuStreamEndCapture(CUstream stream, CUgraph *out)
{
    FC_ENTER_RELEASE("cuStreamEndCapture", "%s", fc_str(stream, FC_STREAM));
    FC_LEAVE_RELEASE(end(fc_stream_get(stream), out, fc_error));
}

FC_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    FC_ENTER_AS(FC_NEED_INIT, "cuThreadExchangeStreamCaptureMode", "%d", mode ? (int)*mode : -1);
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    struct fc_thread *t = fc_thread();
    CUstreamCaptureMode old = (CUstreamCaptureMode)t->mode;
    t->mode = (int)*mode;
    *mode = old;
    return fc_leave(CUDA_SUCCESS);
}

/* ---- inspection ---- */

static CUresult status(struct fc_stream *s, CUstreamCaptureStatus *out)
{
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    /* Asking about the legacy stream while a blocking stream captures is a use of it. */
    CUresult err = s->legacy ? gate_legacy() : CUDA_SUCCESS;
    if (err)
        return err;
    *out = !s->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
           : s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                 : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

FC_API CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *out)
{
    FC_ENTER("cuStreamIsCapturing", "%s", fc_str(stream, FC_STREAM));
    return fc_leave(status(fc_stream_get(stream), out));
}

struct info {
    uint64_t *id;
    CUgraph *graph;
    const CUgraphNode **deps;
    const CUgraphEdgeData **data;
    size_t *n;
};

/* The arrays stay valid until this thread asks again. */
static CUresult capture_info(struct fc_stream *s, CUstreamCaptureStatus *st, const struct info *out)
{
    static _Thread_local CUgraphNode nodes[256];
    static _Thread_local CUgraphEdgeData data[256];
    CUresult err = status(s, st);
    if (err || *st != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return err;
    if (s->pending.len > 256)
        return CUDA_ERROR_UNKNOWN;
    for (size_t i = 0; i < s->pending.len; i++) {
        nodes[i] = (CUgraphNode)s->pending.at[i].node;
        data[i] = s->pending.at[i].data;
        if (data[i].type && out->deps && !out->data)
            return CUDA_ERROR_LOSSY_QUERY;
    }
    if (out->id)
        *out->id = s->capture->id;
    if (out->graph)
        *out->graph = (CUgraph)s->capture->graph;
    if (out->deps)
        *out->deps = nodes;
    if (out->data)
        *out->data = data;
    if (out->n)
        *out->n = s->pending.len;
    return CUDA_SUCCESS;
}

FC_API CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *st, uint64_t *id, CUgraph *graph,
                                          const CUgraphNode **deps, size_t *n)
{
    FC_ENTER("cuStreamGetCaptureInfo", "%s", fc_str(stream, FC_STREAM));
    return fc_leave(capture_info(fc_stream_get(stream), st, &(struct info){id, graph, deps, NULL, n}));
}

FC_API CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *st, uint64_t *id, CUgraph *graph,
                                          const CUgraphNode **deps, const CUgraphEdgeData **data, size_t *n)
{
    FC_ENTER("cuStreamGetCaptureInfo", "%s", fc_str(stream, FC_STREAM));
    return fc_leave(capture_info(fc_stream_get(stream), st, &(struct info){id, graph, deps, data, n}));
}

static CUresult update(struct fc_stream *s, const CUgraphNode *deps, const CUgraphEdgeData *data, size_t n,
                       unsigned flags)
{
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (s->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (n && !deps))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) {
        const struct fc_node *node = fc_node_get(deps[i]);
        if (!node || node->graph != s->capture->graph)
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        s->pending.len = 0;
    for (size_t i = 0; i < n; i++)
        add_dep(&s->pending, (struct fc_dep){fc_node_get(deps[i]), data ? data[i] : (CUgraphEdgeData){0}});
    return CUDA_SUCCESS;
}

FC_API CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *deps, size_t n, unsigned flags)
{
    FC_ENTER("cuStreamUpdateCaptureDependencies", "%s %zu %u", fc_str(stream, FC_STREAM), n, flags);
    return fc_leave(update(fc_stream_get(stream), deps, NULL, n, flags));
}

FC_API CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *deps, const CUgraphEdgeData *data,
                                                     size_t n, unsigned flags)
{
    FC_ENTER("cuStreamUpdateCaptureDependencies", "%s %zu %u", fc_str(stream, FC_STREAM), n, flags);
    return fc_leave(update(fc_stream_get(stream), deps, data, n, flags));
}
