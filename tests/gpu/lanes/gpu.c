/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "gpu.h"

#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Streams of kernels stand at the same place in the records of all these versions; only the type's name differs. */
#if CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10 kernel_record;
#else
typedef CUpti_ActivityKernel9 kernel_record;
#endif

#define STR2(x) #x
#define STR(x) STR2(x) /* cuda.h renames functions to their present versions: expand before making a string */

#define DRIVER(X)                                                                                                    \
    X(cuInit)                                                                                                        \
    X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute) X(cuDriverGetVersion)              \
        X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxSetCurrent) X(cuCtxSynchronize)              \
            X(cuModuleLoadData) X(cuModuleGetFunction) X(cuMemAlloc) X(cuGraphCreate) X(cuGraphDestroy)              \
                X(cuGraphAddKernelNode) X(cuGraphAddEmptyNode) X(cuGraphAddMemsetNode) X(cuGraphAddHostNode)         \
                    X(cuGraphAddMemcpyNode) X(cuGraphAddEventRecordNode) X(cuGraphAddChildGraphNode)                 \
                        X(cuGraphAddMemAllocNode) X(cuGraphAddDependencies) X(cuGraphGetNodes) X(cuGraphInstantiate) \
                            X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuStreamCreate) X(cuStreamSynchronize)          \
                                X(cuEventCreate) X(cuGraphDebugDotPrint) X(cuGetErrorName)
#define CUPTI(X)                                                                                                     \
    X(cuptiActivityRegisterCallbacks) X(cuptiActivityEnable) X(cuptiActivityGetNextRecord) X(cuptiActivityFlushAll)

#define DECLARE_AS(f) static __typeof__(&f) p_##f;
DRIVER(DECLARE_AS)
CUPTI(DECLARE_AS)

static CUdevice device;
static CUcontext context;
static CUfunction kernel;
static CUstream stream;
static CUevent event;
static CUdeviceptr memory;

/* What the records of the present replay say: the stream of node i, which ran with a grid of i + 1 blocks. */
static uint32_t *seen_stream;
static uint32_t seen_n, seen_unknown;

static const char *failure(const char *what, CUresult r)
{
    static char text[200];
    const char *name = NULL;
    if (p_cuGetErrorName)
        p_cuGetErrorName(r, &name);
    snprintf(text, sizeof text, "%s: %s", what, name ? name : "error");
    return text;
}

#define TRY(call)                          \
    do {                                   \
        CUresult r_ = (call);              \
        if (r_ != CUDA_SUCCESS) {          \
            why = failure(#call, r_);      \
            goto done;                     \
        }                                  \
    } while (0)

/* ---- loading ---- */

static const char *load(const char *cupti_path)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), *cupti = NULL;
    if (!driver)
        return "no libcuda.so.1";
    const char *const names[] = {cupti_path, getenv("MAINSTEM_CUPTI"), "libcupti.so.13", "libcupti.so.12",
                                 "libcupti.so", STEM_CUDA_HOME "/lib64/libcupti.so",
                                 STEM_CUDA_HOME "/extras/CUPTI/lib64/libcupti.so"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !cupti; i++)
        if (names[i])
            cupti = dlopen(names[i], RTLD_NOW);
    if (!cupti)
        return "no libcupti.so: give --cupti=PATH";
#define LOAD_DRIVER(f)                                       \
    *(void **)&p_##f = dlsym(driver, STR(f));                \
    if (!p_##f)                                              \
        return "the driver has no " STR(f);
#define LOAD_CUPTI(f)                                        \
    *(void **)&p_##f = dlsym(cupti, #f);                     \
    if (!p_##f)                                              \
        return "CUPTI has no " #f;
    DRIVER(LOAD_DRIVER)
    CUPTI(LOAD_CUPTI)
    return NULL;
}

static void CUPTIAPI buffer_wanted(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *size = 1u << 20;
    *buffer = aligned_alloc(8, *size);
    *max_records = 0;
}

static void CUPTIAPI buffer_full(CUcontext ctx, uint32_t stream_id, uint8_t *buffer, size_t size, size_t valid)
{
    (void)ctx;
    (void)stream_id;
    (void)size;
    CUpti_Activity *record = NULL;
    while (p_cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
            continue;
        const kernel_record *k = (const kernel_record *)(const void *)record;
        if (k->gridX < 1 || (uint32_t)k->gridX > seen_n || !k->graphId)
            seen_unknown++;
        else
            seen_stream[k->gridX - 1] = k->streamId;
    }
    free(buffer);
}

const char *gpu_open(const char *cupti_path)
{
    const char *why = load(cupti_path);
    int count = 0, major = 0;
    CUmodule module;
    char code[400];
    if (why)
        return why;
    /* Before the context: CUPTI then sees all of it. */
    if (p_cuInit(0) != CUDA_SUCCESS || p_cuDeviceGetCount(&count) != CUDA_SUCCESS || !count)
        return "no device";
    if (p_cuptiActivityRegisterCallbacks(buffer_wanted, buffer_full) != CUPTI_SUCCESS ||
        p_cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS)
        return "CUPTI does not record kernels here";
    TRY(p_cuDeviceGet(&device, 0));
    TRY(p_cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    TRY(p_cuDevicePrimaryCtxRetain(&context, device));
    TRY(p_cuCtxSetCurrent(context));
    snprintf(code, sizeof code,
             ".version 8.0\n.target sm_%d\n.address_size 64\n.visible .entry node()\n{\n%sret;\n}\n",
             major >= 9 ? 90 : 70, major >= 9 ? "griddepcontrol.wait;\n" : "");
    TRY(p_cuModuleLoadData(&module, code));
    TRY(p_cuModuleGetFunction(&kernel, module, "node"));
    TRY(p_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(p_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    TRY(p_cuMemAlloc(&memory, 4096));
done:
    return why;
}

void gpu_close(void)
{
    if (context)
        p_cuDevicePrimaryCtxRelease(device);
}

void gpu_describe(char *text, size_t size, unsigned *cuda_version)
{
    char name[100] = "?";
    int version = 0;
    p_cuDeviceGetName(name, sizeof name, device);
    p_cuDriverGetVersion(&version);
    *cuda_version = (unsigned)version;
    /* The kernel module says which driver it is. */
    char line[200] = "", driver[40] = "?";
    FILE *f = fopen("/proc/driver/nvidia/version", "r");
    if (f && fgets(line, sizeof line, f)) {
        for (char *p = strtok(line, " \t\n"); p; p = strtok(NULL, " \t\n"))
            if (p[0] >= '1' && p[0] <= '9' && strchr(p, '.')) {
                snprintf(driver, sizeof driver, "%s", p);
                break;
            }
    }
    if (f)
        fclose(f);
    snprintf(text, size, "%s, driver %s, CUDA %d.%d", name, driver, version / 1000, version % 1000 / 10);
}

/* ---- one graph ---- */

static void CUDA_CB host_function(void *user)
{
    (void)user;
}

/* A child graph is one memset: no kernel of its own, so that the lanes seen are those of this graph. */
static CUresult add_child(CUgraph graph, CUgraphNode *node, const CUDA_MEMSET_NODE_PARAMS *memset_params)
{
    CUgraph child;
    CUgraphNode inner;
    CUresult r = p_cuGraphCreate(&child, 0);
    if (r != CUDA_SUCCESS)
        return r;
    r = p_cuGraphAddMemsetNode(&inner, child, NULL, 0, memset_params, context);
    if (r == CUDA_SUCCESS)
        r = p_cuGraphAddChildGraphNode(node, graph, NULL, 0, child);
    p_cuGraphDestroy(child);
    return r;
}

static CUresult add_node(CUgraph graph, CUgraphNode *node, enum stem_lane_kind kind, uint32_t number)
{
    CUDA_KERNEL_NODE_PARAMS kernel_params = {.func = kernel, .gridDimX = number + 1, .gridDimY = 1, .gridDimZ = 1,
                                             .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};
    CUDA_MEMSET_NODE_PARAMS memset_params = {.dst = memory, .value = 0, .elementSize = 1, .width = 16, .height = 1};
    CUDA_HOST_NODE_PARAMS host_params = {.fn = host_function};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = memory,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = memory + 2048,
                          .WidthInBytes = 16,
                          .Height = 1,
                          .Depth = 1};
    CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}},
        .bytesize = 4096};
    switch (kind) {
    case STEM_LANE_KERNEL: return p_cuGraphAddKernelNode(node, graph, NULL, 0, &kernel_params);
    case STEM_LANE_EMPTY: return p_cuGraphAddEmptyNode(node, graph, NULL, 0);
    case STEM_LANE_MEMSET: return p_cuGraphAddMemsetNode(node, graph, NULL, 0, &memset_params, context);
    case STEM_LANE_HOST: return p_cuGraphAddHostNode(node, graph, NULL, 0, &host_params);
    case STEM_LANE_MEMCPY: return p_cuGraphAddMemcpyNode(node, graph, NULL, 0, &copy, context);
    case STEM_LANE_EVENT: return p_cuGraphAddEventRecordNode(node, graph, NULL, 0, event);
    case STEM_LANE_CHILD: return add_child(graph, node, &memset_params);
    case STEM_LANE_MEMORY: return p_cuGraphAddMemAllocNode(node, graph, NULL, 0, &alloc);
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static CUresult add_edge(CUgraph graph, const CUgraphNode *node, struct stem_lane_edge e)
{
    CUgraphEdgeData data = {0};
    if (e.programmatic) {
        data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
        data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    }
    return p_cuGraphAddDependencies(graph, &node[e.from], &node[e.to], &data, 1);
}

static void print_dot(CUgraph graph, const char *dot)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.plain.dot", dot);
    p_cuGraphDebugDotPrint(graph, path, 0);
    snprintf(path, sizeof path, "%s.verbose.dot", dot);
    p_cuGraphDebugDotPrint(graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE);
}

/* Relaning takes it for granted that the driver lists nodes in the order of their creation. */
static bool in_creation_order(CUgraph graph, const CUgraphNode *node, uint32_t n)
{
    size_t len = n;
    CUgraphNode *list = calloc(n + 1u, sizeof(CUgraphNode));
    bool same = n == 0 || (p_cuGraphGetNodes(graph, list, &len) == CUDA_SUCCESS && len == n &&
                           memcmp(list, node, n * sizeof(CUgraphNode)) == 0);
    free(list);
    return same;
}

/* Streams to lanes in the order in which nodes show them. */
static void renumber(const struct stem_lane_graph *g, uint32_t *lane)
{
    uint32_t n = 0;
    for (uint32_t v = 0; v < g->n; v++) {
        lane[v] = STEM_NO_LANE;
        if (seen_stream[v] == UINT32_MAX)
            continue;
        for (uint32_t u = 0; u < v && lane[v] == STEM_NO_LANE; u++)
            if (seen_stream[u] == seen_stream[v])
                lane[v] = lane[u];
        if (lane[v] == STEM_NO_LANE)
            lane[v] = n++;
    }
}

static bool allocates(const struct stem_lane_graph *g)
{
    for (uint32_t v = 0; g->kind && v < g->n; v++)
        if (g->kind[v] == STEM_LANE_MEMORY)
            return true;
    return false;
}

const char *gpu_measure(const struct stem_lane_graph *g, const char *dot, uint32_t *lane)
{
    const char *why = NULL;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUgraphNode *node = calloc(g->n + 1u, sizeof(CUgraphNode));
    seen_stream = malloc((g->n + 1u) * sizeof *seen_stream);
    seen_n = g->n;
    seen_unknown = 0;
    memset(seen_stream, 0xff, (g->n + 1u) * sizeof *seen_stream);

    TRY(p_cuGraphCreate(&graph, 0));
    for (uint32_t v = 0; v < g->n; v++)
        TRY(add_node(graph, &node[v], g->kind ? (enum stem_lane_kind)g->kind[v] : STEM_LANE_KERNEL, v));
    for (uint32_t i = 0; i < g->n_edges; i++)
        TRY(add_edge(graph, node, g->edges[i]));
    if (!in_creation_order(graph, node, g->n)) {
        why = "cuGraphGetNodes does not list nodes in the order of their creation";
        goto done;
    }
    if (dot)
        print_dot(graph, dot);
    TRY(p_cuGraphInstantiate(&exec, graph, allocates(g) ? CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH : 0));
    TRY(p_cuGraphLaunch(exec, stream));
    TRY(p_cuStreamSynchronize(stream));
    if (p_cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != CUPTI_SUCCESS || seen_unknown)
        why = seen_unknown ? "CUPTI shows kernels that are not of this graph" : "CUPTI gives no records";
    for (uint32_t v = 0; v < g->n && !why; v++)
        if ((!g->kind || g->kind[v] == STEM_LANE_KERNEL) && seen_stream[v] == UINT32_MAX)
            why = "CUPTI shows no record of a kernel";
    if (!why)
        renumber(g, lane);
done:
    if (exec)
        p_cuGraphExecDestroy(exec);
    if (graph)
        p_cuGraphDestroy(graph);
    free(node);
    free(seen_stream);
    seen_stream = NULL;
    seen_n = 0;
    return why;
}
