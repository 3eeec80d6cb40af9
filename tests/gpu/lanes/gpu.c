/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading, records, and the measurement of one graph.
 */
#include "config.h"

#include "gpu_driver.h"

#include <cupti.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Streams of kernels stand at the same place in the records of all these versions; only the type's name differs. */
#if CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10 kernel_record;
typedef CUpti_ActivityMemcpy6 memcpy_record;
#else
typedef CUpti_ActivityKernel9 kernel_record;
typedef CUpti_ActivityMemcpy5 memcpy_record;
#endif
typedef CUpti_ActivityMemset4 memset_record;

#define STR2(x) #x
#define STR(x) STR2(x) /* cuda.h renames functions to their present versions: expand before making a string */

#define CUPTI(X)                                                                                                     \
    X(cuptiActivityRegisterCallbacks) X(cuptiActivityEnable) X(cuptiActivityGetNextRecord) X(cuptiActivityFlushAll)

#define DECLARE_AS(f) static __typeof__(&f) p_##f;
CUPTI(DECLARE_AS)

struct gpu_api gpu_api;
struct gpu_objects gpu_objects;

/* What the records of the present replay say: the stream of each node. */
static struct {
    uint32_t n, *stream, unknown;
    bool alike; /* memsets and memcpys cannot be told apart */
    FILE *text;
} seen;

static const char *failure(const char *what, CUresult r)
{
    static char text[200];
    const char *name = NULL;
    if (gpu_api.p_cuGetErrorName)
        gpu_api.p_cuGetErrorName(r, &name);
    snprintf(text, sizeof text, "%s: %s", what, name ? name : "error");
    return text;
}

#define TRY(call)                                                                                                    \
    do {                                                                                                             \
        CUresult r_ = (call);                                                                                        \
        if (r_ != CUDA_SUCCESS) {                                                                                    \
            why = failure(#call, r_);                                                                                \
            goto done;                                                                                               \
        }                                                                                                            \
    } while (0)

/* ---- loading ---- */

static const char *load(const char *cupti_path)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), *cupti = NULL;
    if (!driver)
        return "no libcuda.so.1";
    const char *const names[] = {cupti_path,
                                 getenv("MAINSTEM_CUPTI"),
                                 "libcupti.so.13",
                                 "libcupti.so.12",
                                 "libcupti.so",
                                 STEM_CUDA_HOME "/lib64/libcupti.so",
                                 STEM_CUDA_HOME "/extras/CUPTI/lib64/libcupti.so"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !cupti; i++)
        if (names[i])
            cupti = dlopen(names[i], RTLD_NOW);
    if (!cupti)
        return "no libcupti.so: give --cupti=PATH";
#define LOAD_DRIVER(f)                                                                                               \
    *(void **)&gpu_api.p_##f = dlsym(driver, STR(f));                                                                \
    if (!gpu_api.p_##f)                                                                                              \
        return "the driver has no " STR(f);
#define LOAD_CUPTI(f)                                                                                                \
    *(void **)&p_##f = dlsym(cupti, #f);                                                                             \
    if (!p_##f)                                                                                                      \
        return "CUPTI has no " #f;
    GPU_DRIVER(LOAD_DRIVER)
    CUPTI(LOAD_CUPTI)
    return NULL;
}

/* ---- records ---- */

static void CUPTIAPI buffer_wanted(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *size = 1u << 20;
    *buffer = aligned_alloc(8, *size);
    *max_records = 0;
}

static void note(uint32_t node, uint32_t stream, uint32_t graph)
{
    if (!graph || node >= seen.n)
        seen.unknown++;
    else
        seen.stream[node] = stream;
}

static void note_kernel(const kernel_record *k)
{
    if (seen.text)
        fprintf(seen.text, "#  kernel %s, grid %d, stream %u, graph %u, node %llu\n", k->name, k->gridX, k->streamId,
                k->graphId, (unsigned long long)k->graphNodeId);
    if (strcmp(k->name, "node") == 0) /* the driver has kernels of its own, for memsets in bodies say */
        note((uint32_t)k->gridX - 1, k->streamId, k->graphId);
}

static void note_bytes(const char *what, uint64_t bytes, uint32_t stream, uint32_t graph, uint64_t node)
{
    if (seen.text)
        fprintf(seen.text, "#  %s, %llu bytes, stream %u, graph %u, node %llu\n", what, (unsigned long long)bytes,
                stream, graph, (unsigned long long)node);
    if (!seen.alike)
        note((uint32_t)((bytes - 1) % GPU_LARGE), stream, graph);
}

static void CUPTIAPI buffer_full(CUcontext ctx, uint32_t stream_id, uint8_t *buffer, size_t size, size_t valid)
{
    (void)ctx;
    (void)stream_id;
    (void)size;
    CUpti_Activity *record = NULL;
    while (p_cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        const void *r = record;
        const memcpy_record *copy = r;
        const memset_record *set = r;
        switch (record->kind) {
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
            note_kernel(r);
            break;
        case CUPTI_ACTIVITY_KIND_MEMCPY:
            note_bytes("memcpy", copy->bytes, copy->streamId, copy->graphId, copy->graphNodeId);
            break;
        case CUPTI_ACTIVITY_KIND_MEMSET:
            note_bytes("memset", set->bytes, set->streamId, set->graphId, set->graphNodeId);
            break;
        default:
            break;
        }
    }
    free(buffer);
}

static bool record_activities(void)
{
    static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                               CUPTI_ACTIVITY_KIND_MEMSET};
    bool good = p_cuptiActivityRegisterCallbacks(buffer_wanted, buffer_full) == CUPTI_SUCCESS;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        good = good && p_cuptiActivityEnable(kinds[i]) == CUPTI_SUCCESS;
    return good;
}

/* ---- the device ---- */

const char *gpu_open(const char *cupti_path)
{
    struct gpu_objects *o = &gpu_objects;
    const char *why = load(cupti_path);
    int count = 0, major = 0;
    CUmodule module;
    char code[400];
    if (why)
        return why;
    /* Before the context: CUPTI then sees all of it. */
    if (gpu_api.p_cuInit(0) != CUDA_SUCCESS || gpu_api.p_cuDeviceGetCount(&count) != CUDA_SUCCESS || !count)
        return "no device";
    if (!record_activities())
        return "CUPTI does not record kernels here";
    TRY(gpu_api.p_cuDeviceGet(&o->device, 0));
    TRY(gpu_api.p_cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, o->device));
    TRY(gpu_api.p_cuDevicePrimaryCtxRetain(&o->context, o->device));
    TRY(gpu_api.p_cuCtxSetCurrent(o->context));
    snprintf(code, sizeof code,
             ".version 8.0\n.target sm_%d\n.address_size 64\n.visible .entry node()\n{\n%sret;\n}\n",
             major >= 9 ? 90 : 70, major >= 9 ? "griddepcontrol.wait;\n" : "");
    TRY(gpu_api.p_cuModuleLoadData(&module, code));
    TRY(gpu_api.p_cuModuleGetFunction(&o->kernel, module, "node"));
    TRY(gpu_api.p_cuStreamCreate(&o->stream, CU_STREAM_NON_BLOCKING));
    TRY(gpu_api.p_cuEventCreate(&o->event, CU_EVENT_DISABLE_TIMING));
    TRY(gpu_api.p_cuEventRecord(o->event, o->stream));
    TRY(gpu_api.p_cuMemAlloc(&o->memory, GPU_BYTES));
    TRY(gpu_api.p_cuMemAllocHost(&o->host, GPU_HOST_BYTES));
done:
    return why;
}

void gpu_close(void)
{
    if (gpu_objects.context)
        gpu_api.p_cuDevicePrimaryCtxRelease(gpu_objects.device);
}

void gpu_describe(char *text, size_t size, unsigned *cuda_version)
{
    char name[100] = "?";
    int version = 0;
    gpu_api.p_cuDeviceGetName(name, sizeof name, gpu_objects.device);
    gpu_api.p_cuDriverGetVersion(&version);
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

static void print_dot(CUgraph graph, const char *dot)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.plain.dot", dot);
    gpu_api.p_cuGraphDebugDotPrint(graph, path, 0);
    snprintf(path, sizeof path, "%s.verbose.dot", dot);
    gpu_api.p_cuGraphDebugDotPrint(graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE);
}

/* Relaning takes it for granted that the driver lists nodes in the order of their creation. */
static bool in_creation_order(CUgraph graph, const struct stem_lane_graph *g, const CUgraphNode *node)
{
    size_t len = g->n;
    CUgraphNode *list = calloc(g->n + 1u, sizeof(CUgraphNode));
    bool same = g->n == 0 || gpu_api.p_cuGraphGetNodes(graph, list, &len) == CUDA_SUCCESS;
    size_t k = 0;
    for (uint32_t v = 0; v < g->n && same; v++)
        if (!g->within || g->within[v] == STEM_NO_NODE)
            same = k < len && list[k++] == node[v];
    free(list);
    return same && k == (g->n ? len : 0);
}

/* Streams to lanes in the order in which nodes show them. */
static void renumber(uint32_t n, uint32_t *lane)
{
    uint32_t n_known = 0, *known = calloc(n + 1u, sizeof *known);
    for (uint32_t v = 0; v < n; v++) {
        uint32_t k = 0;
        while (k < n_known && known[k] != seen.stream[v])
            k++;
        if (k == n_known && seen.stream[v] != UINT32_MAX)
            known[n_known++] = seen.stream[v];
        lane[v] = seen.stream[v] == UINT32_MAX ? STEM_NO_LANE : k;
    }
    free(known);
}

/* NULL if there is a record of every kernel, and none that is nobody's. */
static const char *complete(const struct stem_lane_graph *g)
{
    if (seen.unknown)
        return "CUPTI shows records that are not of this graph";
    for (uint32_t v = 0; v < g->n; v++)
        if ((!g->kind || g->kind[v] == STEM_LANE_KERNEL) && seen.stream[v] == UINT32_MAX)
            return "CUPTI shows no record of a kernel";
    return NULL;
}

static bool allocates(const struct stem_lane_graph *g)
{
    for (uint32_t v = 0; g->kind && v < g->n; v++)
        if (g->kind[v] == STEM_LANE_MEMORY)
            return true;
    return false;
}

const char *gpu_measure(const struct stem_lane_graph *g, const struct gpu_how *how, uint32_t *lane)
{
    static const struct gpu_how plain;
    const char *why = NULL;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUgraphNode *node = calloc(g->n + 1u, sizeof(CUgraphNode));
    how = how ? how : &plain;
    seen.n = g->n;
    seen.unknown = 0;
    seen.text = how->records;
    seen.alike = how->bytes || how->element;
    seen.stream = malloc((g->n + 1u) * sizeof *seen.stream);
    memset(seen.stream, 0xff, (g->n + 1u) * sizeof *seen.stream);

    TRY(gpu_api.p_cuGraphCreate(&graph, 0));
    TRY(gpu_nodes_add(graph, g, how, node));
    if (!in_creation_order(graph, g, node)) {
        why = "cuGraphGetNodes does not list nodes in the order of their creation";
        goto done;
    }
    if (how->dot)
        print_dot(graph, how->dot);
    if (how->before)
        how->before(graph, how->user);
    TRY(gpu_api.p_cuGraphInstantiate(&exec, graph,
                                     allocates(g) ? CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH : 0));
    TRY(gpu_api.p_cuGraphLaunch(exec, gpu_objects.stream));
    TRY(gpu_api.p_cuStreamSynchronize(gpu_objects.stream));
    if (p_cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != CUPTI_SUCCESS)
        why = "CUPTI gives no records";
    else if (!(why = complete(g)))
        renumber(g->n, lane);
done:
    gpu_nodes_free();
    if (exec)
        gpu_api.p_cuGraphExecDestroy(exec);
    if (graph)
        gpu_api.p_cuGraphDestroy(graph);
    free(node);
    free(seen.stream);
    seen.n = 0;
    return why;
}
