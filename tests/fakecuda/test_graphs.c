/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in driver's explicit graphs: nodes, edges, what is rejected, instances, launches and updates.
 */
#include "lib.h"

enum { SEEDS = 40 };

static CUgraphNode set_node(struct lib *l, CUgraph g, CUdeviceptr p, int value, const CUgraphNode *deps, size_t n)
{
    CUgraphNode node = NULL;
    CUDA_KERNEL_NODE_PARAMS k = fakecuda_one_warp(l->set, (void *[]){&p, &value});
    OK(cuGraphAddKernelNode_v2(&node, g, deps, n, &k));
    return node;
}

static CUgraphNode add_node(struct lib *l, CUgraph g, CUdeviceptr a, CUdeviceptr b, const CUgraphNode *deps, size_t n)
{
    CUgraphNode node = NULL;
    CUgraphNodeParams k = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .u.kernel = fakecuda_one_warp(l->add, (void *[]){&a, &b})};
    OK(cuGraphAddNode_v2(&node, g, deps, NULL, n, &k));
    return node;
}

/* A diamond gives its result whatever the order; without one of its edges it does not always. */
static unsigned diamond(bool whole)
{
    unsigned seen = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct lib l = lib_open();
        fakecuda_seed(seed);
        CUstream s = lib_stream();
        CUdeviceptr p = lib_ints(3);
        CUgraph g;
        CUgraphExec e;
        OK(cuGraphCreate(&g, 0));
        CUgraphNode a = set_node(&l, g, p, 1, NULL, 0);
        CUgraphNode b = set_node(&l, g, p + 4, 2, &a, 1);
        CUgraphNode c = set_node(&l, g, p + 8, 4, &a, 1);
        CUgraphNode d = add_node(&l, g, p, p + 4, (CUgraphNode[]){b, c}, whole ? 2 : 1);
        add_node(&l, g, p, p + 8, &d, 1);
        OK(cuGraphInstantiateWithFlags(&e, g, 0));
        OK(cuGraphLaunch(e, s));
        OK(cuStreamSynchronize(s));
        seen |= 1U << lib_peek(p);
        OK(cuGraphExecDestroy(e));
        OK(cuGraphDestroy(g));
        OK(cuStreamDestroy_v2(s));
        OK(cuMemFree_v2(p));
        lib_close(&l);
    }
    return seen;
}

static void edges_order(void)
{
    CU_ASSERT_EQUAL(diamond(true), 1U << 7);
    CU_ASSERT_EQUAL(diamond(false), 1U << 7 | 1U << 3);
}

static void edges_are_checked(void)
{
    struct lib l = lib_open();
    CUdeviceptr p = lib_ints(1);
    CUgraph g, other;
    CUgraphExec e;
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphCreate(&other, 0));
    CUgraphNode n[3] = {set_node(&l, g, p, 1, NULL, 0), set_node(&l, g, p, 2, NULL, 0)};
    CUgraphNode stranger = set_node(&l, other, p, 1, NULL, 0);
    OK(cuGraphAddEmptyNode(&n[2], g, &n[1], 1));
    const CUgraphEdgeData programmatic = {.from_port = 1, .type = 1}, no_port = {.type = 1}, to = {.to_port = 1},
                          order = {.from_port = 2}, reserved = {.reserved = {1}};
    const struct {
        CUgraphNode from, to;
        const CUgraphEdgeData *data;
        CUresult expected;
    } rows[] = {
        {n[0], n[0], NULL, 1},          /* itself */
        {n[0], stranger, NULL, 1},      /* of another graph */
        {n[1], n[2], NULL, 1},          /* there already */
        {NULL, n[2], NULL, 1},          /* no node */
        {n[0], n[1], &no_port, 1},      /* programmatic from the whole of a kernel */
        {n[0], n[2], &programmatic, 1}, /* programmatic into a node that is not a kernel */
        {n[2], n[0], &programmatic, 1}, /* or out of one */
        {n[0], n[1], &to, 1},           /* no node has input ports */
        {n[0], n[1], &reserved, 1},     {n[0], n[1], &programmatic, 0}, {n[0], n[2], &order, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CU_ASSERT_EQUAL(cuGraphAddDependencies_v2(g, &rows[i].from, &rows[i].to, rows[i].data, 1), rows[i].expected);
    UNIT_SAME_TEXT(lib_edges(g), "0>1p 1>2 0>2");
    size_t count = 0;
    CUgraphNode from[4], into[4];
    OK(cuGraphGetEdges(g, NULL, NULL, &count));
    CU_ASSERT_EQUAL(count, 3);
    FAILS(cuGraphGetEdges(g, from, into, &count), CUDA_ERROR_LOSSY_QUERY);
    OK(cuGraphInstantiateWithFlags(&e, g, 0));
    OK(cuGraphExecDestroy(e));

    CUgraphNode a[] = {n[2]}, b[] = {n[0]};
    OK(cuGraphAddDependencies(g, a, b, 1));
    FAILS(cuGraphInstantiateWithFlags(&e, g, 0), CUDA_ERROR_INVALID_VALUE); /* a cycle */
    OK(cuGraphRemoveDependencies(g, a, b, 1));
    FAILS(cuGraphRemoveDependencies(g, a, b, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphInstantiateWithFlags(&e, g, 0));
    OK(cuGraphExecDestroy(e));
    OK(cuGraphDestroyNode(n[1]));
    UNIT_SAME_TEXT(lib_edges(g), "0>1");
    OK(cuGraphDestroy(g));
    OK(cuGraphDestroy(other));
    FAILS(cuGraphDestroy(g), CUDA_ERROR_INVALID_HANDLE);
    CU_ASSERT_EQUAL(fakecuda_counts().faults, 1);
    fakecuda_reset();
}

static void count_up(void *user)
{
    ++*(int *)user;
}

/* One node of each kind in a chain. */
static void node_kinds(void)
{
    struct lib l = lib_open();
    CUstream s = lib_stream(), t = lib_stream();
    CUevent ev = lib_event();
    CUdeviceptr p = lib_ints(2);
    CUgraph g, child;
    CUgraphExec e;
    CUgraphNode n[8];
    int called = 0;
    OK(cuGraphCreate(&child, 0));
    set_node(&l, child, p + 4, 7, NULL, 0);
    OK(cuGraphCreate(&g, 0));
    CUDA_MEMSET_NODE_PARAMS set = {.dst = p, .elementSize = 4, .value = 6, .width = 1, .height = 1};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = p + 4,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = p,
                          .WidthInBytes = 4,
                          .Height = 1,
                          .Depth = 1};
    OK(cuGraphAddMemsetNode(&n[0], g, NULL, 0, &set, l.ctx));
    OK(cuGraphAddChildGraphNode(&n[1], g, &n[0], 1, child));
    OK(cuGraphDestroy(child)); /* the node has a copy */
    OK(cuGraphAddMemcpyNode(&n[2], g, &n[1], 1, &copy, l.ctx));
    OK(cuGraphAddHostNode(&n[3], g, &n[2], 1, &(CUDA_HOST_NODE_PARAMS){count_up, &called}));
    OK(cuGraphAddEmptyNode(&n[4], g, &n[3], 1));
    OK(cuGraphAddEventRecordNode(&n[5], g, &n[4], 1, ev));
    static const CUgraphNodeType types[] = {CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_GRAPH,
                                            CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_HOST,
                                            CU_GRAPH_NODE_TYPE_EMPTY,  CU_GRAPH_NODE_TYPE_EVENT_RECORD};
    for (int i = 0; i < 6; i++) {
        CUgraphNodeType type;
        OK(cuGraphNodeGetType(n[i], &type));
        CU_ASSERT_EQUAL(type, types[i]);
    }
    set.elementSize = 3;
    FAILS(cuGraphAddMemsetNode(&n[6], g, NULL, 0, &set, l.ctx), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuGraphAddChildGraphNode(&n[6], g, NULL, 0, g), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphInstantiateWithFlags(&e, g, 0));
    OK(cuGraphLaunch(e, s));
    OK(cuStreamWaitEvent(t, ev, 0)); /* recorded by the graph */
    OK(cuStreamSynchronize(t));
    CU_ASSERT_EQUAL(lib_peek(p), 7);
    CU_ASSERT_EQUAL(called, 1);
    OK(cuStreamSynchronize(s));
    OK(cuGraphExecDestroy(e));
    OK(cuGraphDestroy(g));
    OK(cuStreamDestroy_v2(s));
    OK(cuStreamDestroy_v2(t));
    OK(cuEventDestroy_v2(ev));
    OK(cuMemFree_v2(p));
    lib_close(&l);
}

/* Launches of one instance follow each other, on whatever streams; those of two instances need not. */
static unsigned two_launches(bool one_instance)
{
    unsigned seen = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct lib l = lib_open();
        fakecuda_seed(seed);
        CUstream s = lib_stream(), t = lib_stream();
        CUdeviceptr p = lib_ints(2);
        CUgraph g;
        CUgraphExec e[2];
        OK(cuGraphCreate(&g, 0));
        CUgraphNode n = set_node(&l, g, p, 1, NULL, 0);
        add_node(&l, g, p + 4, p, &n, 1);
        CUgraphNode last;
        OK(cuGraphAddMemsetNode(&last, g, NULL, 0,
                                &(CUDA_MEMSET_NODE_PARAMS){.dst = p, .elementSize = 4, .width = 1, .height = 1},
                                l.ctx));
        CUgraphNode nodes[3];
        size_t count = 3;
        OK(cuGraphGetNodes(g, nodes, &count));
        OK(cuGraphAddDependencies(g, &nodes[1], &last, 1));
        for (int i = 0; i < 2; i++)
            OK(cuGraphInstantiateWithFlags(&e[i], g, 0));
        OK(cuGraphLaunch(e[0], s));
        OK(cuGraphLaunch(e[one_instance ? 0 : 1], t));
        OK(cuCtxSynchronize());
        seen |= 1U << lib_peek(p + 4);
        for (int i = 0; i < 2; i++)
            OK(cuGraphExecDestroy(e[i]));
        OK(cuGraphDestroy(g));
        OK(cuStreamDestroy_v2(s));
        OK(cuStreamDestroy_v2(t));
        OK(cuMemFree_v2(p));
        lib_close(&l);
    }
    return seen;
}

static void launches_of_one_instance_are_serial(void)
{
    CU_ASSERT_EQUAL(two_launches(true), 1U << 2);
    CU_ASSERT(two_launches(false) & 1U << 1);
}

static void instances_are_updated(void)
{
    struct lib l = lib_open();
    CUstream s = lib_stream();
    CUdeviceptr p = lib_ints(2), q = p + 4;
    CUgraph g, same, more;
    CUgraphExec e;
    OK(cuGraphCreate(&g, 0));
    CUgraphNode a = set_node(&l, g, p, 1, NULL, 0);
    add_node(&l, g, p, p, &a, 1);
    OK(cuGraphInstantiateWithFlags(&e, g, 0));

    int five = 5;
    CUgraphNodeParams k = {.type = CU_GRAPH_NODE_TYPE_KERNEL,
                           .u.kernel = fakecuda_one_warp(l.set, (void *[]){&p, &five})};
    OK(cuGraphExecNodeSetParams(e, a, &k));
    OK(cuGraphLaunch(e, s));
    OK(cuStreamSynchronize(s));
    CU_ASSERT_EQUAL(lib_peek(p), 10);
    k.type = CU_GRAPH_NODE_TYPE_EMPTY;
    FAILS(cuGraphExecNodeSetParams(e, a, &k), CUDA_ERROR_INVALID_VALUE);

    CUgraphExecUpdateResultInfo info;
    OK(cuGraphCreate(&same, 0));
    CUgraphNode b = set_node(&l, same, q, 3, NULL, 0);
    add_node(&l, same, q, q, &b, 1);
    OK(cuGraphExecUpdate_v2(e, same, &info));
    OK(cuGraphLaunch(e, s));
    OK(cuStreamSynchronize(s));
    CU_ASSERT_EQUAL(lib_peek(q), 6);

    OK(cuGraphCreate(&more, 0));
    set_node(&l, more, q, 3, NULL, 0);
    add_node(&l, more, q, q, NULL, 0); /* the edge is missing */
    FAILS(cuGraphExecUpdate_v2(e, more, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    CU_ASSERT_EQUAL(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    OK(cuGraphLaunch(e, s));
    FAILS(cuGraphExecDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
    OK(cuStreamSynchronize(s));
    OK(cuGraphExecDestroy(e));
    OK(cuGraphDestroy(g));
    OK(cuGraphDestroy(same));
    OK(cuGraphDestroy(more));
    OK(cuStreamDestroy_v2(s));
    OK(cuMemFree_v2(p));
    lib_close(&l);
}

/* A captured graph is a graph like any other: cloned, read, launched within another capture. */
static void clones_and_children(void)
{
    struct lib l = lib_open();
    CUstream s = lib_stream();
    CUdeviceptr p = lib_ints(1);
    CUgraph g, clone, outer;
    CUgraphExec inner, e;
    CUgraphNode n[2], found;
    size_t count = 2;
    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(lib_set(l.set, p, 2, s));
    OK(lib_add(l.add, p, p, s));
    OK(cuStreamEndCapture(s, &g));
    OK(cuGraphClone(&clone, g));
    OK(cuGraphGetNodes(g, n, &count));
    OK(cuGraphNodeFindInClone(&found, n[1], clone));
    CU_ASSERT_PTR_NOT_EQUAL(found, n[1]);
    CUDA_KERNEL_NODE_PARAMS k;
    OK(cuGraphKernelNodeGetParams_v2(found, &k));
    CU_ASSERT_PTR_EQUAL(k.func, l.add);
    CU_ASSERT_EQUAL(*(CUdeviceptr *)k.kernelParams[0], p);
    OK(cuGraphInstantiateWithFlags(&inner, clone, 0));
    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuGraphLaunch(inner, s));
    OK(lib_add(l.add, p, p, s));
    OK(cuStreamEndCapture(s, &outer));
    CU_ASSERT_EQUAL(lib_nodes(outer), 2);
    OK(cuGraphInstantiateWithFlags(&e, outer, 0));
    OK(cuGraphLaunch(e, s));
    OK(cuStreamSynchronize(s));
    CU_ASSERT_EQUAL(lib_peek(p), 8);
    OK(cuGraphExecDestroy(e));
    OK(cuGraphExecDestroy(inner));
    OK(cuGraphDestroy(outer));
    OK(cuGraphDestroy(clone));
    OK(cuGraphDestroy(g));
    OK(cuStreamDestroy_v2(s));
    OK(cuMemFree_v2(p));
    lib_close(&l);
}

/* What the driver would not say: an instance or a module that goes while its work is pending. */
static void early_destruction(void)
{
    struct lib l = lib_open();
    CUstream s = lib_stream();
    CUdeviceptr p = lib_ints(1);
    CUgraph g;
    CUgraphExec e;
    OK(cuGraphCreate(&g, 0));
    set_node(&l, g, p, 1, NULL, 0);
    OK(cuGraphInstantiateWithFlags(&e, g, 0));
    OK(cuGraphLaunch(e, s));
    OK(cuGraphExecDestroy(e));
    CU_ASSERT_EQUAL(fakecuda_counts().faults, 1);
    OK(cuModuleUnload(l.module));
    CU_ASSERT_EQUAL(fakecuda_counts().faults, 2);
    fakecuda_reset();
}

UNIT_MAIN("stand-in: graphs", {"edges order", edges_order}, {"edges are checked", edges_are_checked},
          {"node kinds", node_kinds}, {"launches of one instance are serial", launches_of_one_instance_are_serial},
          {"instances are updated", instances_are_updated}, {"clones and children", clones_and_children},
          {"early destruction", early_destruction})
