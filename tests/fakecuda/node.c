/* SPDX-License-Identifier: Apache-2.0
 *
 * Adding nodes of each kind to a graph, and reading and changing their parameters.
 */
#include "core.h"

#include <inttypes.h>

/* ---- parameters to work ---- */

CUresult fc_params_kernel(struct fc_work *w, const CUDA_KERNEL_NODE_PARAMS *p)
{
    struct fc_launch l = {.function = fc_get(p->func, FC_FUNCTION),
                          .grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
                          .block = {p->blockDimX, p->blockDimY, p->blockDimZ},
                          .smem = p->sharedMemBytes};
    if (!l.function)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult err = fc_launch_check(&l, p->kernelParams, p->extra);
    if (err)
        return err;
    fc_launch_params(&l, p->kernelParams);
    *w = (struct fc_work){.type = CU_GRAPH_NODE_TYPE_KERNEL, .u.launch = l};
    return CUDA_SUCCESS;
}

CUresult fc_params_memset(struct fc_work *w, const CUDA_MEMSET_NODE_PARAMS *p)
{
    bool size = p->elementSize == 1 || p->elementSize == 2 || p->elementSize == 4;
    if (!size || !p->width || !p->height || !p->dst || p->dst % p->elementSize)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->height > 1 && p->pitch < p->width * p->elementSize)
        return CUDA_ERROR_INVALID_VALUE;
    *w = (struct fc_work){.type = CU_GRAPH_NODE_TYPE_MEMSET, .u.set = *p};
    return CUDA_SUCCESS;
}

static CUresult params_copy(struct fc_work *w, const CUDA_MEMCPY3D *p)
{
    *w = (struct fc_work){.type = CU_GRAPH_NODE_TYPE_MEMCPY, .u.copy.p = *p};
    return fc_copy_check(p);
}

static CUresult params_host(struct fc_work *w, const CUDA_HOST_NODE_PARAMS *p)
{
    *w = (struct fc_work){.type = CU_GRAPH_NODE_TYPE_HOST, .u.host = *p};
    return p->fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult params_event(struct fc_work *w, CUgraphNodeType type, CUevent event)
{
    *w = (struct fc_work){.type = type, .u.event = fc_event_get(event)};
    return w->u.event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult params_child(struct fc_work *w, CUgraph child, const struct fc_graph *into)
{
    struct fc_graph *g = fc_graph_get(child);
    if (!g || g == into || g->capture)
        return CUDA_ERROR_INVALID_VALUE;
    if (fc_graph_has_memory(g))
        return CUDA_ERROR_NOT_SUPPORTED;
    *w = (struct fc_work){.type = CU_GRAPH_NODE_TYPE_GRAPH, .u.child = fc_graph_clone(g)};
    return CUDA_SUCCESS;
}

static CUresult params_alloc(struct fc_work *w, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
    if (!p->bytesize)
        return CUDA_ERROR_INVALID_VALUE;
    struct fc_block *b = fc_block_new(p->bytesize, FC_UNBORN);
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    b->graph_owned = true;
    p->dptr = (uintptr_t)b->base;
    *w = (struct fc_work){.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .u.block = b};
    return CUDA_SUCCESS;
}

static CUresult params_free(struct fc_work *w, CUdeviceptr p)
{
    *w = (struct fc_work){.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .u.block = fc_block_base(p)};
    return w->u.block && w->u.block->graph_owned ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult params_any(struct fc_work *w, CUgraphNodeParams *p, const struct fc_graph *into)
{
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return fc_params_kernel(w, &p->u.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return params_copy(w, &p->u.memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return fc_params_memset(w, &p->u.memset.v1);
    case CU_GRAPH_NODE_TYPE_HOST:
        return params_host(w, &p->u.host);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return params_child(w, p->u.graph.graph, into);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        *w = (struct fc_work){.type = CU_GRAPH_NODE_TYPE_EMPTY};
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return params_event(w, p->type, p->u.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return params_alloc(w, &p->u.alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return params_free(w, p->u.free);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* ---- adding ---- */

struct where {
    CUgraphNode *out;
    CUgraph graph;
    const CUgraphNode *deps;
    const CUgraphEdgeData *data;
    size_t n;
};

static CUresult check_where(const struct where *at, struct fc_graph **g, struct fc_deps *deps)
{
    *g = fc_graph_get(at->graph);
    if (!*g || !at->out || (at->n && !at->deps))
        return CUDA_ERROR_INVALID_VALUE;
    /* A graph that is being captured may be extended by hand only between the library's calls; the stand-in does
     * not allow it from here, but for the nodes' own order. */
    for (size_t i = 0; i < at->n; i++) {
        struct fc_dep d = {fc_node_get(at->deps[i]), at->data ? at->data[i] : (CUgraphEdgeData){0}};
        if (!d.node || d.node->graph != *g)
            return CUDA_ERROR_INVALID_VALUE;
        for (size_t k = 0; k < i; k++)
            if (at->deps[k] == at->deps[i])
                return CUDA_ERROR_INVALID_VALUE;
        FC_PUSH(deps, d);
    }
    return CUDA_SUCCESS;
}

static void drop_work(struct fc_work *w)
{
    if (w->type == CU_GRAPH_NODE_TYPE_GRAPH)
        fc_graph_destroy(w->u.child);
    fc_work_free(w);
}

static CUresult add(const struct where *at, CUgraphNodeParams *p)
{
    struct fc_graph *g;
    struct fc_deps deps = {0};
    struct fc_work w;
    CUresult err = check_where(at, &g, &deps);
    if (!err)
        err = p ? params_any(&w, p, g) : CUDA_ERROR_INVALID_VALUE;
    if (!err) {
        const struct fc_node probe = {.work = w};
        for (size_t i = 0; !err && i < deps.len; i++)
            if (!fc_edge_valid(deps.at[i].node, &probe, deps.at[i].data))
                err = CUDA_ERROR_INVALID_VALUE;
        if (err)
            drop_work(&w);
    }
    if (!err)
        *at->out = (CUgraphNode)fc_node_add(g, w, deps.at, deps.len);
    FC_FREE(&deps);
    return err;
}

FC_API CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps,
                                  const CUgraphEdgeData *data, size_t n, CUgraphNodeParams *p)
{
    FC_ENTER("cuGraphAddNode", "%s %zu type %d", fc_str(graph, FC_GRAPH), n, p ? (int)p->type : -1);
    return fc_leave(add(&(struct where){out, graph, deps, data, n}, p));
}

FC_API CUresult cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t n,
                               CUgraphNodeParams *p)
{
    return cuGraphAddNode_v2(out, graph, deps, NULL, n, p);
}

FC_API CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t n,
                                        const CUDA_KERNEL_NODE_PARAMS *p)
{
    FC_ENTER("cuGraphAddKernelNode", "%s %zu", fc_str(graph, FC_GRAPH), n);
    if (!p)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .u.kernel = *p};
    return fc_leave(add(&(struct where){out, graph, deps, NULL, n}, &any));
}

FC_API CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t n,
                                     const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx)
{
    FC_ENTER("cuGraphAddMemsetNode", "%s %zu %s", fc_str(graph, FC_GRAPH), n, fc_str(ctx, FC_CONTEXT));
    if (!p || !fc_get(ctx, FC_CONTEXT))
        return fc_leave(p ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEMSET, .u.memset.v1 = *p};
    return fc_leave(add(&(struct where){out, graph, deps, NULL, n}, &any));
}

FC_API CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t n,
                                     const CUDA_MEMCPY3D *p, CUcontext ctx)
{
    FC_ENTER("cuGraphAddMemcpyNode", "%s %zu %s", fc_str(graph, FC_GRAPH), n, fc_str(ctx, FC_CONTEXT));
    if (!p || !fc_get(ctx, FC_CONTEXT))
        return fc_leave(p ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .u.memcpy.copyParams = *p};
    return fc_leave(add(&(struct where){out, graph, deps, NULL, n}, &any));
}

FC_API CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t n,
                                   const CUDA_HOST_NODE_PARAMS *p)
{
    FC_ENTER("cuGraphAddHostNode", "%s %zu", fc_str(graph, FC_GRAPH), n);
    if (!p)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_HOST, .u.host = *p};
    return fc_leave(add(&(struct where){out, graph, deps, NULL, n}, &any));
}

FC_API CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t n,
                                         CUgraph child)
{
    FC_ENTER("cuGraphAddChildGraphNode", "%s %zu %s", fc_str(graph, FC_GRAPH), n, fc_str(child, FC_GRAPH));
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .u.graph.graph = child};
    return fc_leave(add(&(struct where){out, graph, deps, NULL, n}, &any));
}

FC_API CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t n)
{
    FC_ENTER("cuGraphAddEmptyNode", "%s %zu", fc_str(graph, FC_GRAPH), n);
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    return fc_leave(add(&(struct where){out, graph, deps, NULL, n}, &any));
}

FC_API CUresult cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t n,
                                          CUevent event)
{
    FC_ENTER("cuGraphAddEventRecordNode", "%s %zu %s", fc_str(graph, FC_GRAPH), n, fc_str(event, FC_EVENT));
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .u.event = event};
    return fc_leave(add(&(struct where){out, graph, deps, NULL, n}, &any));
}

FC_API CUresult cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t n,
                                        CUevent event)
{
    FC_ENTER("cuGraphAddEventWaitNode", "%s %zu %s", fc_str(graph, FC_GRAPH), n, fc_str(event, FC_EVENT));
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .u.event = event};
    return fc_leave(add(&(struct where){out, graph, deps, NULL, n}, &any));
}

FC_API CUresult cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t n,
                                       CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
    FC_ENTER("cuGraphAddMemAllocNode", "%s %zu", fc_str(graph, FC_GRAPH), n);
    if (!p)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .u.alloc = *p};
    CUresult err = add(&(struct where){out, graph, deps, NULL, n}, &any);
    p->dptr = err ? p->dptr : any.u.alloc.dptr;
    return fc_leave(err);
}

FC_API CUresult cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t n,
                                      CUdeviceptr p)
{
    FC_ENTER("cuGraphAddMemFreeNode", "%s %zu %s", fc_str(graph, FC_GRAPH), n, fc_ptr(p));
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .u.free = p};
    return fc_leave(add(&(struct where){out, graph, deps, NULL, n}, &any));
}

/* ---- reading and changing ---- */

static struct fc_node *of_type(CUgraphNode node, CUgraphNodeType type)
{
    struct fc_node *n = fc_node_get(node);
    return n && n->work.type == type ? n : NULL;
}

/* kernelParams points to a list that lives until this thread's next call of it. */
FC_API CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p)
{
    static _Thread_local void *params[64];
    FC_ENTER("cuGraphKernelNodeGetParams", "%s", fc_str(node, FC_NODE));
    const struct fc_node *n = of_type(node, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!n || !p)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    const struct fc_launch *l = &n->work.u.launch;
    const struct fc_kernel *k = l->function->kernel;
    uint8_t *at = l->params;
    for (uint32_t i = 0; i < k->n_params && i < 64; i++) {
        params[i] = at;
        at += (k->sizes[i] + 15) & ~(size_t)15;
    }
    *p = (CUDA_KERNEL_NODE_PARAMS){.func = (CUfunction)l->function,
                                   .gridDimX = l->grid[0],
                                   .gridDimY = l->grid[1],
                                   .gridDimZ = l->grid[2],
                                   .blockDimX = l->block[0],
                                   .blockDimY = l->block[1],
                                   .blockDimZ = l->block[2],
                                   .sharedMemBytes = l->smem,
                                   .kernelParams = k->n_params ? params : NULL};
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p)
{
    FC_ENTER("cuGraphKernelNodeSetParams", "%s", fc_str(node, FC_NODE));
    struct fc_node *n = of_type(node, CU_GRAPH_NODE_TYPE_KERNEL);
    struct fc_work w;
    CUresult err = n && p ? fc_params_kernel(&w, p) : CUDA_ERROR_INVALID_VALUE;
    if (err)
        return fc_leave(err);
    fc_work_free(&n->work);
    n->work = w;
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from)
{
    FC_ENTER("cuGraphKernelNodeCopyAttributes", "%s %s", fc_str(to, FC_NODE), fc_str(from, FC_NODE));
    struct fc_node *t = of_type(to, CU_GRAPH_NODE_TYPE_KERNEL), *f = of_type(from, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!t || !f)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    t->work.u.launch.priority = f->work.u.launch.priority;
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, int id, const CUlaunchAttributeValue *value)
{
    FC_ENTER("cuGraphKernelNodeSetAttribute", "%s %d", fc_str(node, FC_NODE), id);
    struct fc_node *n = of_type(node, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!n || !value)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        n->work.u.launch.priority = value->priority;
    else if (id != CU_LAUNCH_ATTRIBUTE_COOPERATIVE && id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, int id, CUlaunchAttributeValue *value)
{
    FC_ENTER("cuGraphKernelNodeGetAttribute", "%s %d", fc_str(node, FC_NODE), id);
    const struct fc_node *n = of_type(node, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!n || !value || id != CU_LAUNCH_ATTRIBUTE_PRIORITY)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    *value = (CUlaunchAttributeValue){.priority = n->work.u.launch.priority};
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *p)
{
    FC_ENTER("cuGraphMemsetNodeGetParams", "%s", fc_str(node, FC_NODE));
    const struct fc_node *n = of_type(node, CU_GRAPH_NODE_TYPE_MEMSET);
    if (!n || !p)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    *p = n->work.u.set;
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *out)
{
    FC_ENTER("cuGraphChildGraphNodeGetGraph", "%s", fc_str(node, FC_NODE));
    const struct fc_node *n = of_type(node, CU_GRAPH_NODE_TYPE_GRAPH);
    if (!n || !out)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    *out = (CUgraph)n->work.u.child;
    return fc_leave(CUDA_SUCCESS);
}
