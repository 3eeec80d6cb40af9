/* SPDX-License-Identifier: Apache-2.0
 *
 * Explicit graphs: nodes, edges, their checks, cloning and destruction.
 */
#include "core.h"

static void node_dispose(void *self)
{
    struct fc_node *n = self;
    if (n->work.type == CU_GRAPH_NODE_TYPE_KERNEL)
        fc_work_free(&n->work);
    FC_FREE(&n->preds);
    FC_FREE(&n->succs);
}

static void graph_dispose(void *self)
{
    struct fc_graph *g = self;
    FC_FREE(&g->nodes);
}

struct fc_graph *fc_graph_new(void)
{
    return fc_new(FC_GRAPH, sizeof(struct fc_graph), graph_dispose);
}

struct fc_graph *fc_graph_get(CUgraph handle)
{
    return fc_get(handle, FC_GRAPH);
}

struct fc_node *fc_node_get(CUgraphNode handle)
{
    return fc_get(handle, FC_NODE);
}

static void link_nodes(struct fc_node *from, struct fc_node *to, CUgraphEdgeData data)
{
    struct fc_dep d = {from, data};
    FC_PUSH(&to->preds, d);
    FC_PUSH(&from->succs, to);
}

struct fc_node *fc_node_add(struct fc_graph *g, struct fc_work work, const struct fc_dep *deps, size_t n)
{
    struct fc_node *node = fc_new(FC_NODE, sizeof *node, node_dispose);
    node->graph = g;
    node->index = (uint32_t)g->nodes.len;
    node->work = work;
    if (work.type == CU_GRAPH_NODE_TYPE_GRAPH)
        work.u.child->parent = node;
    FC_PUSH(&g->nodes, node);
    for (size_t i = 0; i < n; i++)
        link_nodes(deps[i].node, node, deps[i].data);
    return node;
}

static void unlink_node(struct fc_node *from, struct fc_node *to)
{
    for (size_t i = 0; i < to->preds.len; i++)
        if (to->preds.at[i].node == from) {
            memmove(&to->preds.at[i], &to->preds.at[i + 1], (to->preds.len - i - 1) * sizeof *to->preds.at);
            to->preds.len--;
            break;
        }
    for (size_t i = 0; i < from->succs.len; i++)
        if (from->succs.at[i] == to) {
            memmove(&from->succs.at[i], &from->succs.at[i + 1], (from->succs.len - i - 1) * sizeof *from->succs.at);
            from->succs.len--;
            break;
        }
}

static void kill_node(struct fc_node *n)
{
    if (n->work.type == CU_GRAPH_NODE_TYPE_GRAPH)
        fc_graph_destroy(n->work.u.child);
    fc_kill(n);
}

void fc_graph_destroy(struct fc_graph *g)
{
    for (size_t i = 0; i < g->nodes.len; i++)
        kill_node(g->nodes.at[i]);
    fc_kill(g);
}

struct fc_graph *fc_graph_clone(struct fc_graph *g)
{
    struct fc_graph *c = fc_graph_new();
    c->cloned_from = g;
    for (size_t i = 0; i < g->nodes.len; i++) {
        const struct fc_node *n = g->nodes.at[i];
        struct fc_work w = fc_work_clone(&n->work);
        if (w.type == CU_GRAPH_NODE_TYPE_GRAPH)
            w.u.child = fc_graph_clone(w.u.child);
        fc_node_add(c, w, NULL, 0)->origin = g->nodes.at[i];
    }
    for (size_t i = 0; i < g->nodes.len; i++) {
        const struct fc_deps *p = &g->nodes.at[i]->preds;
        for (size_t k = 0; k < p->len; k++)
            link_nodes(c->nodes.at[p->at[k].node->index], c->nodes.at[i], p->at[k].data);
    }
    return c;
}

bool fc_graph_has_memory(const struct fc_graph *g)
{
    for (size_t i = 0; i < g->nodes.len; i++) {
        const struct fc_work *w = &g->nodes.at[i]->work;
        if (w->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || w->type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
            (w->type == CU_GRAPH_NODE_TYPE_GRAPH && fc_graph_has_memory(w->u.child)))
            return true;
    }
    return false;
}

/* Only a kernel has ports other than 0, and only a kernel can start before the whole of its predecessor is done. */
bool fc_edge_valid(const struct fc_node *from, const struct fc_node *to, CUgraphEdgeData d)
{
    bool kernel = from->work.type == CU_GRAPH_NODE_TYPE_KERNEL;
    for (size_t i = 0; i < sizeof d.reserved; i++)
        if (d.reserved[i])
            return false;
    if (d.to_port || d.from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER ||
        d.type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC || (d.from_port && !kernel))
        return false;
    if (d.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
        return fc.arch >= 90 && kernel && to->work.type == CU_GRAPH_NODE_TYPE_KERNEL && d.from_port;
    return d.from_port != CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
}

static bool has_edge(const struct fc_node *from, const struct fc_node *to)
{
    for (size_t i = 0; i < to->preds.len; i++)
        if (to->preds.at[i].node == from)
            return true;
    return false;
}

/* A caller's graph, not one being captured into and not inside of an instantiated parent. */
static CUresult writable(const struct fc_graph *g)
{
    if (!g)
        return CUDA_ERROR_INVALID_HANDLE;
    return g->capture ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
}

FC_API CUresult cuGraphCreate(CUgraph *out, unsigned flags)
{
    FC_ENTER("cuGraphCreate", "%u", flags);
    if (!out || flags)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    *out = (CUgraph)fc_graph_new();
    return fc_leave(CUDA_SUCCESS);
}

static CUresult destroy(struct fc_graph *g)
{
    if (!g)
        return CUDA_ERROR_INVALID_HANDLE;
    if (g->capture || g->parent)
        return CUDA_ERROR_INVALID_VALUE;
    fc_graph_destroy(g);
    return CUDA_SUCCESS;
}

FC_API CUresult cuGraphDestroy(CUgraph graph)
{
    FC_ENTER_RELEASE("cuGraphDestroy", "%s", fc_str(graph, FC_GRAPH));
    FC_LEAVE_RELEASE(destroy(fc_graph_get(graph)));
}

FC_API CUresult cuGraphClone(CUgraph *out, CUgraph graph)
{
    FC_ENTER("cuGraphClone", "%s", fc_str(graph, FC_GRAPH));
    struct fc_graph *g = fc_graph_get(graph);
    if (!g || !out)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    if (fc_graph_has_memory(g))
        return fc_leave(CUDA_ERROR_NOT_SUPPORTED);
    *out = (CUgraph)fc_graph_clone(g);
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode node, CUgraph clone)
{
    FC_ENTER("cuGraphNodeFindInClone", "%s %s", fc_str(node, FC_NODE), fc_str(clone, FC_GRAPH));
    const struct fc_graph *g = fc_graph_get(clone);
    const struct fc_node *n = fc_node_get(node);
    for (size_t i = 0; out && g && n && i < g->nodes.len; i++)
        if (g->nodes.at[i]->origin == n) {
            *out = (CUgraphNode)g->nodes.at[i];
            return fc_leave(CUDA_SUCCESS);
        }
    return fc_leave(CUDA_ERROR_INVALID_VALUE);
}

/* ---- dependencies ---- */

struct edges {
    const CUgraphNode *from, *to;
    const CUgraphEdgeData *data;
    size_t n;
};

static CUresult check_edges(const struct fc_graph *g, const struct edges *e, bool adding)
{
    CUresult err = writable(g);
    if (err)
        return err;
    if (e->n && (!e->from || !e->to))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < e->n; i++) {
        const struct fc_node *from = fc_node_get(e->from[i]), *to = fc_node_get(e->to[i]);
        if (!from || !to || from->graph != g || to->graph != g || from == to)
            return CUDA_ERROR_INVALID_VALUE;
        if (has_edge(from, to) == adding)
            return CUDA_ERROR_INVALID_VALUE;
        if (adding && e->data && !fc_edge_valid(from, to, e->data[i]))
            return CUDA_ERROR_INVALID_VALUE;
        for (size_t k = 0; k < i; k++)
            if (e->from[k] == e->from[i] && e->to[k] == e->to[i])
                return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult add_edges(struct fc_graph *g, const struct edges *e)
{
    CUresult err = check_edges(g, e, true);
    for (size_t i = 0; !err && i < e->n; i++)
        link_nodes(fc_node_get(e->from[i]), fc_node_get(e->to[i]), e->data ? e->data[i] : (CUgraphEdgeData){0});
    return err;
}

static CUresult remove_edges(struct fc_graph *g, const struct edges *e)
{
    CUresult err = check_edges(g, e, false);
    for (size_t i = 0; !err && i < e->n; i++)
        unlink_node(fc_node_get(e->from[i]), fc_node_get(e->to[i]));
    return err;
}

FC_API CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                          const CUgraphEdgeData *data, size_t n)
{
    FC_ENTER("cuGraphAddDependencies", "%s %zu", fc_str(graph, FC_GRAPH), n);
    return fc_leave(add_edges(fc_graph_get(graph), &(struct edges){from, to, data, n}));
}

FC_API CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
    return cuGraphAddDependencies_v2(graph, from, to, NULL, n);
}

FC_API CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                             const CUgraphEdgeData *data, size_t n)
{
    (void)data;
    FC_ENTER("cuGraphRemoveDependencies", "%s %zu", fc_str(graph, FC_GRAPH), n);
    return fc_leave(remove_edges(fc_graph_get(graph), &(struct edges){from, to, NULL, n}));
}

FC_API CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
    return cuGraphRemoveDependencies_v2(graph, from, to, NULL, n);
}

static CUresult destroy_node(struct fc_node *n)
{
    if (!n)
        return CUDA_ERROR_INVALID_HANDLE;
    struct fc_graph *g = n->graph;
    CUresult err = writable(g);
    if (err || n->work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || n->work.type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        return err ? err : CUDA_ERROR_NOT_SUPPORTED;
    while (n->preds.len)
        unlink_node(n->preds.at[0].node, n);
    while (n->succs.len)
        unlink_node(n, n->succs.at[0]);
    memmove(&g->nodes.at[n->index], &g->nodes.at[n->index + 1], (g->nodes.len - n->index - 1) * sizeof *g->nodes.at);
    g->nodes.len--;
    for (uint32_t i = n->index; i < g->nodes.len; i++)
        g->nodes.at[i]->index = i;
    kill_node(n);
    return CUDA_SUCCESS;
}

FC_API CUresult cuGraphDestroyNode(CUgraphNode node)
{
    FC_ENTER_RELEASE("cuGraphDestroyNode", "%s", fc_str(node, FC_NODE));
    FC_LEAVE_RELEASE(destroy_node(fc_node_get(node)));
}

/* ---- queries ---- */

/* The driver's protocol for lists: without an array the count; with one at most *n, and the rest zero. */
static size_t room(const void *array, size_t *n, size_t have)
{
    size_t copy = array && *n < have ? *n : have;
    *n = array ? copy : have;
    return array ? copy : 0;
}

FC_API CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
    FC_ENTER("cuGraphGetNodes", "%s", fc_str(graph, FC_GRAPH));
    const struct fc_graph *g = fc_graph_get(graph);
    if (!g || !n)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = *n; nodes && i-- > g->nodes.len;)
        nodes[i] = NULL;
    size_t copy = room(nodes, n, g->nodes.len);
    for (size_t i = 0; i < copy; i++)
        nodes[i] = (CUgraphNode)g->nodes.at[i];
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
    FC_ENTER("cuGraphGetRootNodes", "%s", fc_str(graph, FC_GRAPH));
    const struct fc_graph *g = fc_graph_get(graph);
    if (!g || !n)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    size_t have = 0;
    for (size_t i = 0; i < g->nodes.len; i++)
        if (!g->nodes.at[i]->preds.len) {
            if (nodes && have < *n)
                nodes[have] = (CUgraphNode)g->nodes.at[i];
            have++;
        }
    room(nodes, n, have);
    return fc_leave(CUDA_SUCCESS);
}

static CUresult get_edges(const struct fc_graph *g, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
                          size_t *n)
{
    if (!g || !n || !from != !to || (data && !from))
        return CUDA_ERROR_INVALID_VALUE;
    size_t have = 0;
    for (size_t i = 0; i < g->nodes.len; i++) {
        const struct fc_deps *p = &g->nodes.at[i]->preds;
        for (size_t k = 0; k < p->len; k++, have++) {
            bool plain = !p->at[k].data.type && !p->at[k].data.from_port;
            if (!from || have >= *n)
                continue;
            if (!data && !plain)
                return CUDA_ERROR_LOSSY_QUERY;
            from[have] = (CUgraphNode)p->at[k].node;
            to[have] = (CUgraphNode)g->nodes.at[i];
            if (data)
                data[have] = p->at[k].data;
        }
    }
    room(from, n, have);
    return CUDA_SUCCESS;
}

FC_API CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
                                   size_t *n)
{
    FC_ENTER("cuGraphGetEdges", "%s", fc_str(graph, FC_GRAPH));
    return fc_leave(get_edges(fc_graph_get(graph), from, to, data, n));
}

FC_API CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *n)
{
    return cuGraphGetEdges_v2(graph, from, to, NULL, n);
}

FC_API CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *deps, CUgraphEdgeData *data, size_t *n)
{
    FC_ENTER("cuGraphNodeGetDependencies", "%s", fc_str(node, FC_NODE));
    const struct fc_node *k = fc_node_get(node);
    if (!k || !n)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    size_t copy = room(deps, n, k->preds.len);
    for (size_t i = 0; i < copy; i++) {
        if (!data && k->preds.at[i].data.type)
            return fc_leave(CUDA_ERROR_LOSSY_QUERY);
        deps[i] = (CUgraphNode)k->preds.at[i].node;
        if (data)
            data[i] = k->preds.at[i].data;
    }
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *deps, size_t *n)
{
    return cuGraphNodeGetDependencies_v2(node, deps, NULL, n);
}

FC_API CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    FC_ENTER("cuGraphNodeGetType", "%s", fc_str(node, FC_NODE));
    const struct fc_node *n = fc_node_get(node);
    if (!n || !type)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    *type = n->work.type;
    return fc_leave(CUDA_SUCCESS);
}
