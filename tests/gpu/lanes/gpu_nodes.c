/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes of every kind. Each is as small as can be, and tells CUPTI its number where it leaves a record.
 */
#include "gpu_driver.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FREES 1024u

/* Allocations of the graph that nobody frees yet, by number of node; and graphs that were made and launched for an
 * address to free. */
static struct {
    uint32_t owner[MAX_FREES], n_allocations, n_helpers;
    CUdeviceptr address[MAX_FREES];
    CUgraph graph[MAX_FREES];
    CUgraphExec exec[MAX_FREES];
} memory;

struct builder {
    const struct stem_lane_graph *g;
    const struct gpu_how *how;
    CUgraphNode *node;
};

static CUresult add_level(const struct builder *b, CUgraph graph, uint32_t within);

static void CUDA_CB host_function(void *user)
{
    (void)user;
}

/* ---- graphs within ---- */

static CUresult add_child(const struct builder *b, CUgraph graph, uint32_t v)
{
    CUgraph child;
    CUresult r = gpu_api.p_cuGraphCreate(&child, 0);
    if (r != CUDA_SUCCESS)
        return r;
    r = add_level(b, child, v);
    if (r == CUDA_SUCCESS)
        r = gpu_api.p_cuGraphAddChildGraphNode(&b->node[v], graph, NULL, 0, child);
    gpu_api.p_cuGraphDestroy(child);
    return r;
}

/* Its body runs once. */
static CUresult add_conditional(const struct builder *b, CUgraph graph, uint32_t v)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    params.conditional.type = CU_GRAPH_COND_TYPE_IF;
    params.conditional.size = 1;
    params.conditional.ctx = gpu_objects.context;
    CUresult r = gpu_api.p_cuGraphConditionalHandleCreate(&params.conditional.handle, graph, gpu_objects.context, 1,
                                                          CU_GRAPH_COND_ASSIGN_DEFAULT);
    if (r == CUDA_SUCCESS)
        r = gpu_api.p_cuGraphAddNode(&b->node[v], graph, NULL, NULL, 0, &params);
    return r == CUDA_SUCCESS ? add_level(b, params.conditional.phGraph_out[0], v) : r;
}

/* ---- allocations ---- */

static CUresult add_allocation(CUgraph graph, CUgraphNode *node, CUdeviceptr *at)
{
    CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu_objects.device}},
        .bytesize = 4096};
    CUresult r = gpu_api.p_cuGraphAddMemAllocNode(node, graph, NULL, 0, &alloc);
    *at = alloc.dptr;
    return r;
}

/* An address from a graph of its own, which stays until the end. */
static CUresult address_from_outside(CUdeviceptr *at)
{
    CUgraphNode node;
    CUgraph graph;
    CUgraphExec exec = NULL;
    if (memory.n_helpers == MAX_FREES)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = gpu_api.p_cuGraphCreate(&graph, 0);
    if (r != CUDA_SUCCESS)
        return r;
    r = add_allocation(graph, &node, at);
    if (r == CUDA_SUCCESS)
        r = gpu_api.p_cuGraphInstantiate(&exec, graph, 0);
    memory.graph[memory.n_helpers] = graph;
    memory.exec[memory.n_helpers++] = exec;
    if (r == CUDA_SUCCESS)
        r = gpu_api.p_cuGraphLaunch(exec, gpu_objects.stream);
    return r == CUDA_SUCCESS ? gpu_api.p_cuStreamSynchronize(gpu_objects.stream) : r;
}

/* An address that node v may free: of an allocation that comes before it, else from outside. */
static CUresult address_to_free(const struct stem_lane_graph *g, uint32_t v, CUdeviceptr *at)
{
    bool *before = calloc(g->n, sizeof *before);
    if (!before)
        return CUDA_ERROR_OUT_OF_MEMORY;
    before[v] = true;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < g->n_edges; i++)
            if (before[g->edges[i].to] && !before[g->edges[i].from])
                more = before[g->edges[i].from] = true;
    }
    *at = 0;
    for (uint32_t i = 0; i < memory.n_allocations && !*at; i++)
        if (memory.address[i] && before[memory.owner[i]]) {
            *at = memory.address[i];
            memory.address[i] = 0;
        }
    free(before);
    return *at ? CUDA_SUCCESS : address_from_outside(at);
}

void gpu_nodes_free(void)
{
    for (uint32_t i = 0; i < memory.n_helpers; i++) {
        if (memory.exec[i])
            gpu_api.p_cuGraphExecDestroy(memory.exec[i]);
        gpu_api.p_cuGraphDestroy(memory.graph[i]);
    }
    for (uint32_t i = 0; i < memory.n_allocations; i++)
        if (memory.address[i])
            gpu_api.p_cuMemFreeAsync(memory.address[i], gpu_objects.stream);
    memory.n_allocations = memory.n_helpers = 0;
}

/* ---- one node ---- */

static CUresult add_memset(CUgraph graph, CUgraphNode *node, uint32_t few, const struct gpu_how *how)
{
    uint32_t element = how->element ? how->element : 1, bytes = how->bytes ? how->bytes : few * element;
    CUDA_MEMSET_NODE_PARAMS p = {
        .dst = gpu_objects.memory, .elementSize = element, .width = bytes / element, .height = 1};
    return gpu_api.p_cuGraphAddMemsetNode(node, graph, NULL, 0, &p, gpu_objects.context);
}

static CUresult add_memcpy(CUgraph graph, CUgraphNode *node, uint32_t bytes, unsigned copy)
{
    CUDA_MEMCPY3D p = {.srcMemoryType = copy & 1 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                       .srcDevice = gpu_objects.memory,
                       .srcHost = gpu_objects.host,
                       .dstMemoryType = copy & 2 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                       .dstDevice = gpu_objects.memory + GPU_BYTES / 2,
                       .dstHost = (char *)gpu_objects.host + GPU_HOST_BYTES / 2,
                       .WidthInBytes = bytes,
                       .Height = 1,
                       .Depth = 1};
    return gpu_api.p_cuGraphAddMemcpyNode(node, graph, NULL, 0, &p, gpu_objects.context);
}

static CUresult add_kernel(CUgraph graph, CUgraphNode *node, uint32_t number)
{
    CUDA_KERNEL_NODE_PARAMS p = {.func = gpu_objects.kernel,
                                 .gridDimX = number + 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1};
    return gpu_api.p_cuGraphAddKernelNode(node, graph, NULL, 0, &p);
}

/* The driver wants to see, when a free node is added, that it comes after the allocation. */
static CUresult add_free(const struct builder *b, CUgraph graph, uint32_t v)
{
    const struct stem_lane_graph *g = b->g;
    CUgraphNode *before = calloc(g->n_edges + 1u, sizeof(CUgraphNode));
    CUdeviceptr at;
    size_t n = 0;
    CUresult r = before ? address_to_free(g, v, &at) : CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < g->n_edges && before; i++)
        if (g->edges[i].to == v && g->edges[i].from < v)
            before[n++] = b->node[g->edges[i].from];
    if (r == CUDA_SUCCESS)
        r = gpu_api.p_cuGraphAddMemFreeNode(&b->node[v], graph, before, n, at);
    free(before);
    return r;
}

static CUresult add_node(const struct builder *b, CUgraph graph, uint32_t v)
{
    enum stem_lane_kind kind = b->g->kind ? (enum stem_lane_kind)b->g->kind[v] : STEM_LANE_KERNEL;
    CUDA_HOST_NODE_PARAMS host = {.fn = host_function};
    CUgraphNode *node = &b->node[v];
    switch (kind) {
    case STEM_LANE_KERNEL:
        return add_kernel(graph, node, v);
    case STEM_LANE_EMPTY:
        return gpu_api.p_cuGraphAddEmptyNode(node, graph, NULL, 0);
    case STEM_LANE_MEMSET:
        return add_memset(graph, node, v + 1, b->how);
    case STEM_LANE_FILL:
        return add_memset(graph, node, v + 1 + GPU_LARGE, b->how);
    case STEM_LANE_HOST:
        return gpu_api.p_cuGraphAddHostNode(node, graph, NULL, 0, &host);
    case STEM_LANE_MEMCPY:
        return add_memcpy(graph, node, b->how->bytes ? b->how->bytes : v + 1, 0);
    case STEM_LANE_TRANSFER:
        return add_memcpy(graph, node, b->how->bytes ? b->how->bytes : v + 1, b->how->copy ? b->how->copy : 1);
    case STEM_LANE_EVENT:
        return gpu_api.p_cuGraphAddEventRecordNode(node, graph, NULL, 0, gpu_objects.event);
    case STEM_LANE_WAIT:
        return gpu_api.p_cuGraphAddEventWaitNode(node, graph, NULL, 0, gpu_objects.event);
    case STEM_LANE_CHILD:
        return add_child(b, graph, v);
    case STEM_LANE_CONDITIONAL:
        return add_conditional(b, graph, v);
    case STEM_LANE_MEMORY:
        if (memory.n_allocations == MAX_FREES)
            return CUDA_ERROR_NOT_SUPPORTED;
        memory.owner[memory.n_allocations] = v;
        return add_allocation(graph, node, &memory.address[memory.n_allocations++]);
    case STEM_LANE_FREE:
        return add_free(b, graph, v);
    case STEM_LANE_OTHER:
        break;
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult add_edge(CUgraph graph, const CUgraphNode *node, struct stem_lane_edge e)
{
    CUgraphEdgeData data = {0};
    if (e.programmatic) {
        data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
        data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    }
    return gpu_api.p_cuGraphAddDependencies(graph, &node[e.from], &node[e.to], &data, 1);
}

static uint32_t holder(const struct stem_lane_graph *g, uint32_t v)
{
    return g->within ? g->within[v] : STEM_NO_NODE;
}

/* The nodes that are in node `within`, and their edges; each edge comes with the later of its nodes. */
static CUresult add_level(const struct builder *b, CUgraph graph, uint32_t within)
{
    const struct stem_lane_graph *g = b->g;
    CUresult r = CUDA_SUCCESS;
    for (uint32_t v = 0; v < g->n && r == CUDA_SUCCESS; v++) {
        if (holder(g, v) != within)
            continue;
        r = add_node(b, graph, v);
        for (uint32_t i = 0; i < g->n_edges && r == CUDA_SUCCESS; i++) {
            struct stem_lane_edge e = g->edges[i];
            bool here = (e.from > e.to ? e.from : e.to) == v;
            bool done = e.to == v && g->kind && g->kind[v] == STEM_LANE_FREE; /* it came with the node */
            if (here && !done)
                r = add_edge(graph, b->node, e);
        }
    }
    return r;
}

CUresult gpu_nodes_add(CUgraph graph, const struct stem_lane_graph *g, const struct gpu_how *how, CUgraphNode *node)
{
    const struct builder b = {g, how, node};
    return add_level(&b, graph, STEM_NO_NODE);
}
