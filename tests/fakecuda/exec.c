/* SPDX-License-Identifier: Apache-2.0
 *
 * Instantiated graphs: a flat copy of the nodes in topological order, child graphs unfolded. A launch issues one
 * operation for each, between a first and a last one; launches of one instance follow each other.
 */
#include "core.h"

static void exec_dispose(void *self)
{
    struct fc_exec *e = self;
    for (size_t i = 0; i < e->items.len; i++) {
        fc_work_free(&e->items.at[i].work);
        FC_FREE(&e->items.at[i].preds);
        FC_FREE(&e->items.at[i].programmatic);
    }
    FC_FREE(&e->items);
    if (e->last)
        fc_unref(e->last);
    e->last = NULL;
}

/* ---- flattening ---- */

/* Kahn's algorithm, lowest creation number first. False if there is a cycle. */
static bool topological(struct fc_graph *g, uint32_t *order)
{
    size_t n = g->nodes.len, done = 0;
    FC_VEC(struct fc_node *) ready = {0};
    for (size_t i = n; i-- > 0;) {
        struct fc_node *k = g->nodes.at[i];
        k->mark = (uint32_t)k->preds.len;
        if (!k->mark)
            FC_PUSH(&ready, k);
    }
    while (ready.len) {
        const struct fc_node *k = ready.at[--ready.len];
        order[done++] = k->index;
        for (size_t i = k->succs.len; i-- > 0;)
            if (--k->succs.at[i]->mark == 0)
                FC_PUSH(&ready, k->succs.at[i]);
    }
    FC_FREE(&ready);
    return done == n;
}

static uint32_t add_item(struct fc_exec *e, struct fc_node *source, const struct fc_work *w)
{
    struct fc_item item = {.source = source, .work = fc_work_clone(w)};
    FC_PUSH(&e->items, item);
    return (uint32_t)e->items.len - 1;
}

static void add_pred(struct fc_item *item, uint32_t pred, bool programmatic)
{
    FC_PUSH(&item->preds, pred);
    FC_PUSH(&item->programmatic, programmatic);
}

/* A launch-order edge only orders the starts, as a programmatic one into a kernel that does not wait. */
static bool loose(CUgraphEdgeData d)
{
    return d.from_port != CU_GRAPH_KERNEL_NODE_PORT_DEFAULT;
}

static bool flatten(struct fc_exec *e, struct fc_graph *g, uint32_t entry);

/* A child graph: an empty item, its nodes, and an empty item after all of them. */
static bool flatten_child(struct fc_exec *e, const struct fc_node *n, uint32_t entry, uint32_t *exit_item)
{
    const struct fc_work none = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    if (!flatten(e, n->work.u.child, entry))
        return false;
    *exit_item = add_item(e, NULL, &none);
    for (uint32_t i = entry; i < *exit_item; i++)
        add_pred(&e->items.at[*exit_item], i, false);
    return true;
}

static bool flatten(struct fc_exec *e, struct fc_graph *g, uint32_t entry)
{
    size_t n = g->nodes.len;
    const struct fc_work none = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    uint32_t *order = fc_alloc(n * sizeof *order), *exits = fc_alloc(n * sizeof *exits);
    bool ok = topological(g, order);
    for (size_t i = 0; ok && i < n; i++) {
        struct fc_node *k = g->nodes.at[order[i]];
        bool child = k->work.type == CU_GRAPH_NODE_TYPE_GRAPH;
        uint32_t item = add_item(e, k, child ? &none : &k->work);
        if (entry != UINT32_MAX)
            add_pred(&e->items.at[item], entry, false);
        for (size_t p = 0; p < k->preds.len; p++)
            add_pred(&e->items.at[item], exits[k->preds.at[p].node->index], loose(k->preds.at[p].data));
        exits[k->index] = item;
        if (child)
            ok = flatten_child(e, k, item, &exits[k->index]);
    }
    free(order);
    free(exits);
    return ok;
}

/* An item goes on in the lane of the first predecessor that nobody else went on in; else it opens one. Not the rule of
 * any driver: only a legal one. */
static void assign_lanes(struct fc_exec *e)
{
    bool *taken = fc_alloc(e->items.len * sizeof *taken);
    uint32_t n = 0;
    for (size_t i = 0; i < e->items.len; i++) {
        struct fc_item *item = &e->items.at[i];
        size_t k = 0;
        while (k < item->preds.len && taken[item->preds.at[k]])
            k++;
        item->lane = k < item->preds.len ? e->items.at[item->preds.at[k]].lane : n++;
        if (k < item->preds.len)
            taken[item->preds.at[k]] = true;
    }
    free(taken);
}

static CUresult instantiate(CUgraphExec *out, struct fc_graph *g, uint64_t flags)
{
    if (!g || !out || flags > 15)
        return CUDA_ERROR_INVALID_VALUE;
    if (g->capture || g->parent)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        return CUDA_ERROR_NOT_SUPPORTED;
    bool memory = fc_graph_has_memory(g);
    if (memory && g->execs)
        return CUDA_ERROR_NOT_SUPPORTED; /* its memory can belong to one instance only */
    struct fc_exec *e = fc_new(FC_EXEC, sizeof *e, exec_dispose);
    e->graph = g;
    e->flags = flags;
    e->memory = memory;
    if (!flatten(e, g, UINT32_MAX)) {
        fc_kill(e);
        return CUDA_ERROR_INVALID_VALUE;
    }
    assign_lanes(e);
    g->execs++;
    *out = (CUgraphExec)e;
    return CUDA_SUCCESS;
}

FC_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    FC_ENTER("cuGraphInstantiate", "%s %llu", fc_str(graph, FC_GRAPH), flags);
    return fc_leave(instantiate(out, fc_graph_get(graph), flags));
}

FC_API CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node, char *log,
                                      size_t size)
{
    FC_ENTER("cuGraphInstantiate", "%s", fc_str(graph, FC_GRAPH));
    if (error_node)
        *error_node = NULL;
    if (log && size)
        log[0] = '\0';
    return fc_leave(instantiate(out, fc_graph_get(graph), 0));
}

FC_API CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    FC_ENTER("cuGraphInstantiate", "%s %llu", fc_str(graph, FC_GRAPH), p ? (unsigned long long)p->flags : 0);
    if (!p)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    CUresult err = instantiate(out, fc_graph_get(graph), p->flags);
    p->hErrNode_out = NULL;
    p->result_out = err == CUDA_ERROR_INVALID_VALUE ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
                    : err                           ? CUDA_GRAPH_INSTANTIATE_ERROR
                                                    : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return fc_leave(err);
}

/* ---- launching ---- */

static struct fc_exec *exec_get(CUgraphExec handle)
{
    return fc_get(handle, FC_EXEC);
}

/* Memory that an earlier launch allocated and nobody freed since: an error, unless the instance frees it by itself.
 */
static CUresult memory_ready(struct fc_exec *e)
{
    for (size_t i = 0; i < e->items.len; i++) {
        struct fc_block *b = e->items.at[i].work.u.block;
        if (e->items.at[i].work.type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || !b->runs)
            continue;
        if (!(e->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult functions_alive(const struct fc_exec *e)
{
    for (size_t i = 0; i < e->items.len; i++)
        if (e->items.at[i].work.type == CU_GRAPH_NODE_TYPE_KERNEL && e->items.at[i].work.u.launch.function->o.dead) {
            fakecuda_fault("exec#%u is launched after the module of kernel %s was unloaded", e->o.id,
                           e->items.at[i].work.u.launch.function->kernel->name);
            return CUDA_ERROR_INVALID_VALUE;
        }
    return CUDA_SUCCESS;
}

static struct fc_op *submit(struct fc_exec *e, struct fc_work w, uint32_t stream, struct fc_ops *deps,
                            const bool *programmatic)
{
    struct fc_op *op = fc_submit(w, stream, deps, programmatic);
    op->exec = e;
    e->running++;
    fc_ops_clear(deps);
    return op;
}

static void auto_free(struct fc_exec *e, uint32_t stream, struct fc_ops *before)
{
    for (size_t i = 0; i < e->items.len; i++) {
        struct fc_work w = e->items.at[i].work;
        if (w.type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || !w.u.block->runs)
            continue;
        struct fc_ops deps = {0};
        for (size_t k = 0; k < before->len; k++)
            fc_ops_add(&deps, before->at[k]);
        w.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
        fc_ops_add(before, submit(e, w, stream, &deps, NULL));
    }
}

static void track_memory(const struct fc_work *w)
{
    if (w->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        w->u.block->runs = true;
    if (w->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        w->u.block->runs = false;
}

/* An event node acts on what the event is at the launch. */
static void track_event(const struct fc_work *w, struct fc_op *op)
{
    if (w->type != CU_GRAPH_NODE_TYPE_EVENT_RECORD)
        return;
    struct fc_event *ev = w->u.event;
    fc_ops_clear(&ev->ops);
    fc_ops_add(&ev->ops, op);
    ev->recorded = true;
    ev->capture = 0;
}

static struct fc_op *submit_item(struct fc_exec *e, const struct fc_item *item, struct fc_op **ops,
                                 struct fc_op *first, uint32_t stream)
{
    struct fc_ops deps = {0};
    FC_VEC(bool) programmatic = {0};
    for (size_t p = 0; p < item->preds.len; p++) {
        fc_ops_add(&deps, ops[item->preds.at[p]]);
        if (programmatic.len < deps.len)
            FC_PUSH(&programmatic, item->programmatic.at[p]);
    }
    fc_ops_add(&deps, first);
    FC_PUSH(&programmatic, false);
    if (item->work.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
        for (size_t k = 0; k < item->work.u.event->ops.len; k++) {
            fc_ops_add(&deps, item->work.u.event->ops.at[k]);
            FC_PUSH(&programmatic, false);
        }
    const struct fc_work none = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    struct fc_op *op = submit(e, item->disabled ? none : fc_work_clone(&item->work), stream, &deps, programmatic.at);
    op->correlation = first->correlation;
    op->lane = 1000 * e->o.id + item->lane;
    op->node = item->source ? item->source->o.id : 0;
    FC_FREE(&programmatic);
    track_memory(&item->work);
    track_event(&item->work, op);
    return op;
}

static void issue_graph(struct fc_exec *e, struct fc_stream *s)
{
    const struct fc_work none = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    uint32_t stream = s->o.id;
    struct fc_ops deps = {0}, all = {0};
    fc_order(s, &deps);
    if (e->last)
        fc_ops_add(&deps, e->last);
    auto_free(e, stream, &deps);
    struct fc_op *first = submit(e, none, stream, &deps, NULL);
    fc_ops_add(&all, first);
    struct fc_op **ops = fc_alloc(e->items.len * sizeof *ops);
    for (size_t i = 0; i < e->items.len; i++) {
        ops[i] = submit_item(e, &e->items.at[i], ops, first, stream);
        FC_PUSH(&all, fc_ref(ops[i]));
    }
    free(ops);
    struct fc_op *last = submit(e, none, stream, &all, NULL);
    fc_follow(s, last);
    if (e->last)
        fc_unref(e->last);
    e->last = fc_ref(last);
}

static CUresult launch(struct fc_exec *e, struct fc_stream *s)
{
    if (!e || !s)
        return e ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    CUresult err = fc_gate_stream(s);
    if (!err && s->capture) {
        /* Captured as a child node: of a copy of the graph, as it was instantiated. */
        if (e->memory || e->graph->o.dead)
            return CUDA_ERROR_NOT_SUPPORTED;
        struct fc_work w = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .u.child = fc_graph_clone(e->graph)};
        return fc_issue(s, &w, NULL);
    }
    if (!err)
        err = functions_alive(e);
    if (!err)
        err = memory_ready(e);
    if (!err)
        issue_graph(e, s);
    return err;
}

FC_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    FC_ENTER("cuGraphLaunch", "%s %s", fc_str(exec, FC_EXEC), fc_str(stream, FC_STREAM));
    return fc_leave(launch(exec_get(exec), fc_stream_get(stream)));
}

FC_API CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    FC_ENTER("cuGraphUpload", "%s %s", fc_str(exec, FC_EXEC), fc_str(stream, FC_STREAM));
    struct fc_stream *s = fc_stream_get(stream);
    if (!exec_get(exec) || !s)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    if (s->capture) {
        fc_capture_invalidate(s->capture);
        return fc_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    return fc_leave(fc_gate_stream(s));
}

FC_API CUresult cuGraphExecGetFlags(CUgraphExec exec, uint64_t *flags)
{
    FC_ENTER("cuGraphExecGetFlags", "%s", fc_str(exec, FC_EXEC));
    const struct fc_exec *e = exec_get(exec);
    if (!e || !flags)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = e->flags;
    return fc_leave(CUDA_SUCCESS);
}

static CUresult destroy(struct fc_exec *e)
{
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    if (e->running)
        fakecuda_fault("exec#%u is destroyed while a launch of it is pending", e->o.id);
    if (e->graph->execs)
        e->graph->execs--;
    fc_kill(e);
    return CUDA_SUCCESS;
}

FC_API CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    FC_ENTER_RELEASE("cuGraphExecDestroy", "%s", fc_str(exec, FC_EXEC));
    FC_LEAVE_RELEASE(destroy(exec_get(exec)));
}

/* ---- changing an instance ---- */

static CUresult set_work(CUgraphExec exec, CUgraphNode node, struct fc_work *w)
{
    struct fc_exec *e = exec_get(exec);
    const struct fc_node *n = fc_node_get(node);
    for (size_t i = 0; e && n && i < e->items.len; i++)
        if (e->items.at[i].source == n && e->items.at[i].work.type == w->type) {
            fc_work_free(&e->items.at[i].work);
            e->items.at[i].work = *w;
            return CUDA_SUCCESS;
        }
    fc_work_free(w);
    return CUDA_ERROR_INVALID_VALUE;
}

/* A disabled node keeps its work and its edges; what is issued already is not affected. */
static CUresult set_enabled(struct fc_exec *e, const struct fc_node *n, bool on)
{
    for (size_t i = 0; e && n && i < e->items.len; i++) {
        struct fc_item *item = &e->items.at[i];
        if (item->source != n)
            continue;
        if (n->work.type != CU_GRAPH_NODE_TYPE_KERNEL && n->work.type != CU_GRAPH_NODE_TYPE_MEMSET &&
            n->work.type != CU_GRAPH_NODE_TYPE_MEMCPY)
            return CUDA_ERROR_INVALID_VALUE;
        item->disabled = !on;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

FC_API CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned on)
{
    FC_ENTER("cuGraphNodeSetEnabled", "%s %s %u", fc_str(exec, FC_EXEC), fc_str(node, FC_NODE), on);
    return fc_leave(set_enabled(exec_get(exec), fc_node_get(node), on != 0));
}

/* The child's nodes are matched in order: kinds and edges must be those that were instantiated. */
static CUresult set_child(struct fc_exec *e, const struct fc_node *n, struct fc_graph *child)
{
    size_t at = 0;
    while (e && n && at < e->items.len && e->items.at[at].source != n)
        at++;
    if (!e || !n || !child || n->work.type != CU_GRAPH_NODE_TYPE_GRAPH || at == e->items.len)
        return CUDA_ERROR_INVALID_VALUE;
    struct fc_exec with = {0};
    const struct fc_work none = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    uint32_t last = 0;
    const struct fc_node probe = {.work = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .u.child = child}};
    add_item(&with, NULL, &none);
    bool ok = flatten_child(&with, &probe, 0, &last) && at + last < e->items.len;
    for (uint32_t i = 1; ok && i <= last; i++) {
        const struct fc_item *a = &e->items.at[at + i], *b = &with.items.at[i];
        ok = a->work.type == b->work.type && a->preds.len == b->preds.len;
        for (size_t k = 0; ok && k < a->preds.len; k++)
            ok = a->preds.at[k] == b->preds.at[k] + at;
    }
    for (uint32_t i = 1; ok && i <= last; i++) {
        struct fc_work old = e->items.at[at + i].work;
        e->items.at[at + i].work = with.items.at[i].work;
        with.items.at[i].work = old;
    }
    exec_dispose(&with);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FC_API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS *p)
{
    FC_ENTER("cuGraphExecKernelNodeSetParams", "%s %s", fc_str(exec, FC_EXEC), fc_str(node, FC_NODE));
    struct fc_work w;
    CUresult err = p ? fc_params_kernel(&w, p) : CUDA_ERROR_INVALID_VALUE;
    return fc_leave(err ? err : set_work(exec, node, &w));
}

FC_API CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *p,
                                               CUcontext ctx)
{
    FC_ENTER("cuGraphExecMemsetNodeSetParams", "%s %s %s", fc_str(exec, FC_EXEC), fc_str(node, FC_NODE),
             fc_str(ctx, FC_CONTEXT));
    struct fc_work w;
    CUresult err = p ? fc_params_memset(&w, p) : CUDA_ERROR_INVALID_VALUE;
    return fc_leave(err ? err : set_work(exec, node, &w));
}

FC_API CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p)
{
    FC_ENTER("cuGraphExecNodeSetParams", "%s %s", fc_str(exec, FC_EXEC), fc_str(node, FC_NODE));
    struct fc_work w;
    CUresult err = CUDA_ERROR_INVALID_VALUE;
    if (p && p->type == CU_GRAPH_NODE_TYPE_KERNEL)
        err = fc_params_kernel(&w, &p->u.kernel);
    else if (p && p->type == CU_GRAPH_NODE_TYPE_MEMSET)
        err = fc_params_memset(&w, &p->u.memset.v1);
    else if (p && p->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return fc_leave(set_child(exec_get(exec), fc_node_get(node), fc_graph_get(p->u.graph.graph)));
    return fc_leave(err ? err : set_work(exec, node, &w));
}

/* Nodes are matched by creation order; kinds and edges must be the same. */
static int compare(const struct fc_exec *e, const struct fc_exec *with, size_t *at)
{
    if (e->items.len != with->items.len)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (*at = 0; *at < e->items.len; (*at)++) {
        const struct fc_item *a = &e->items.at[*at], *b = &with->items.at[*at];
        if (a->preds.len != b->preds.len)
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        for (size_t k = 0; k < a->preds.len; k++)
            if (a->preds.at[k] != b->preds.at[k] || a->programmatic.at[k] != b->programmatic.at[k])
                return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        if (a->work.type != b->work.type)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUresult update(struct fc_exec *e, struct fc_graph *g, CUgraphExecUpdateResultInfo *info)
{
    if (!e || !g || !info)
        return CUDA_ERROR_INVALID_VALUE;
    struct fc_exec with = {0};
    size_t at = 0;
    *info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    if (flatten(&with, g, UINT32_MAX)) {
        info->result = compare(e, &with, &at);
        if (info->result && at < with.items.len)
            info->errorNode = (CUgraphNode)with.items.at[at].source;
    }
    for (size_t i = 0; !info->result && i < e->items.len; i++) {
        struct fc_work old = e->items.at[i].work;
        e->items.at[i].work = with.items.at[i].work;
        with.items.at[i].work = old;
    }
    exec_dispose(&with);
    return info->result ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE : CUDA_SUCCESS;
}

FC_API CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    FC_ENTER("cuGraphExecUpdate", "%s %s", fc_str(exec, FC_EXEC), fc_str(graph, FC_GRAPH));
    return fc_leave(update(exec_get(exec), fc_graph_get(graph), info));
}
