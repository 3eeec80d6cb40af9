/* SPDX-License-Identifier: Apache-2.0
 *
 * The handlers of the injection library against the stand-in driver: what the program's graph looks like before,
 * during and after each call, with every failure of the driver.
 */
#include <dlfcn.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>

#include "inject/inject.h"
#include "lib.h"

enum { LAYERS = 5, NODES = 1 + 3 * LAYERS, EDGES = 4 * LAYERS, ADDED = LAYERS - 1 };

static struct stem_inject state;
static void *driver;

static void start(bool relane)
{
    struct stem_relane_api api;
    CU_ASSERT_FATAL(stem_relane_driver(STAND_IN, &api, &driver));
    struct stem_inject_options o = {.relane = relane, .measure = true, .model = stem_lane_driver_find("580")};
    stem_inject_init(&state, &o, &api);
}

static void stop(void)
{
    CU_ASSERT_EQUAL(stem_inject_tally_known(&state.tally), 0);
    stem_inject_free(&state);
    dlclose(driver);
}

static CUgraphNode kernel(const struct lib *l, CUgraph g, CUdeviceptr p, const CUgraphNode *deps, size_t n)
{
    CUgraphNode node = NULL;
    int value = 1;
    CUDA_KERNEL_NODE_PARAMS k = fakecuda_one_warp(l->set, (void *[]){&p, &value});
    OK(cuGraphAddKernelNode_v2(&node, g, deps, n, &k));
    return node;
}

/* Layers of fork and join, the side branch created first: a lane for each layer. Each kernel writes its own int. */
static CUgraph layers(const struct lib *l, CUdeviceptr p, unsigned n)
{
    CUgraph g = NULL;
    OK(cuGraphCreate(&g, 0));
    CUgraphNode at = kernel(l, g, p, NULL, 0);
    for (unsigned i = 0; i < n; i++) {
        CUgraphNode side = kernel(l, g, p + 12 * i + 4, &at, 1), body = kernel(l, g, p + 12 * i + 8, &at, 1);
        at = kernel(l, g, p + 12 * i + 12, (CUgraphNode[]){side, body}, 2);
    }
    return g;
}

static size_t edges_of(CUgraph g)
{
    size_t n = 0;
    fakecuda_own(true);
    OK(cuGraphGetEdges_v2(g, NULL, NULL, NULL, &n));
    fakecuda_own(false);
    return n;
}

/* As the program's call looks to the library; the number of edges in between. */
static CUresult instantiate(CUgraphExec *e, CUgraph g, size_t *during)
{
    struct stem_inject_instantiate p = {e, g};
    uint64_t slot = 77;
    stem_inject_enter(&state, STEM_INJECT_INSTANTIATE, &p, 1, &slot);
    *during = edges_of(g);
    CUresult result = cuGraphInstantiateWithFlags(e, g, 0);
    stem_inject_exit(&state, STEM_INJECT_INSTANTIATE, &p, result, &slot);
    CU_ASSERT_EQUAL(slot, 0);
    return result;
}

static CUresult update(CUgraphExec e, CUgraph g, size_t *during)
{
    struct stem_inject_update p = {e, g};
    CUgraphExecUpdateResultInfo info;
    uint64_t slot = 77;
    stem_inject_enter(&state, STEM_INJECT_UPDATE, &p, 1, &slot);
    *during = edges_of(g);
    CUresult result = cuGraphExecUpdate_v2(e, g, &info);
    stem_inject_exit(&state, STEM_INJECT_UPDATE, &p, result, &slot);
    return result;
}

static void destroy(CUgraphExec e)
{
    uint64_t slot = 77;
    stem_inject_enter(&state, STEM_INJECT_DESTROY, &e, 1, &slot);
    OK(cuGraphExecDestroy(e));
    stem_inject_exit(&state, STEM_INJECT_DESTROY, &e, 0, &slot);
}

static void same_edges(CUgraph g, const char *before)
{
    UNIT_SAME_TEXT(lib_edges(g), before);
}

static void instantiation(void)
{
    for (int relane = 0; relane < 2; relane++) {
        struct lib l = lib_open();
        start(relane);
        CUdeviceptr p = lib_ints(NODES);
        CUgraph g = layers(&l, p, LAYERS);
        char before[1024];
        strcpy(before, lib_edges(g));
        CUgraphExec e[2];
        size_t during;
        for (int i = 0; i < 2; i++) {
            OK(instantiate(&e[i], g, &during));
            CU_ASSERT_EQUAL(during, EDGES + (relane ? ADDED : 0));
            same_edges(g, before);
        }
        CU_ASSERT_EQUAL(state.tally.n_groups, 1);
        const struct stem_inject_group *group = &state.tally.groups[0];
        CU_ASSERT_EQUAL(group->graphs, 2);
        CU_ASSERT_EQUAL(group->report.lanes_before, LAYERS + 1);
        CU_ASSERT_EQUAL(group->report.lanes_after, 2);
        CU_ASSERT_EQUAL(group->report.added, ADDED);
        CU_ASSERT_EQUAL(group->edges_left, 0);
        destroy(e[0]);
        destroy(e[1]);
        OK(cuGraphDestroy(g));
        OK(cuMemFree_v2(p));
        stop();
        lib_close(&l);
    }
}

static void updates(void)
{
    struct lib l = lib_open();
    start(true);
    CUdeviceptr p = lib_ints(NODES), q = lib_ints(NODES);
    CUgraph one = layers(&l, p, LAYERS), two = layers(&l, q, LAYERS), other = layers(&l, p, LAYERS + 1);
    CUgraphExec e, plain;
    CUgraphExecUpdateResultInfo info;
    CUstream s = lib_stream();
    size_t during;
    char before[1024];
    strcpy(before, lib_edges(two));
    OK(instantiate(&e, one, &during));

    /* Without the same edges the driver refuses; with them it does not. */
    FAILS(cuGraphExecUpdate_v2(e, two, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    OK(update(e, two, &during));
    CU_ASSERT_EQUAL(during, EDGES + ADDED);
    same_edges(two, before);
    OK(update(e, one, &during));
    OK(update(e, two, &during));
    OK(cuGraphLaunch(e, s));
    OK(cuStreamSynchronize(s));
    for (unsigned i = 0; i < NODES; i++)
        CU_ASSERT(lib_peek(p + 4 * i) == 0 && lib_peek(q + 4 * i) == 1);

    /* A graph that does not match is refused as ever, and gets no edges it has no room for. */
    FAILS(update(e, other, &during), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    CU_ASSERT_EQUAL(edges_of(other), EDGES + 4);

    /* An instance that was made without the library is updated without it. */
    OK(cuGraphInstantiateWithFlags(&plain, one, 0));
    OK(update(plain, two, &during));
    CU_ASSERT_EQUAL(during, EDGES);

    /* What was known of an instance goes with it, even if the address comes again. */
    struct stem_inject_tally *t = &state.tally;
    CU_ASSERT_PTR_NOT_NULL(stem_inject_tally_edges(t, e));
    CU_ASSERT_EQUAL(t->groups[0].updates, 4);
    CU_ASSERT_EQUAL(t->groups[0].updates_failed, 1);
    destroy(e);
    CU_ASSERT_PTR_NULL(stem_inject_tally_edges(t, e));
    OK(cuGraphExecDestroy(plain));
    CUgraph graphs[] = {one, two, other};
    for (int i = 0; i < 3; i++)
        OK(cuGraphDestroy(graphs[i]));
    OK(cuStreamDestroy_v2(s));
    OK(cuMemFree_v2(p));
    OK(cuMemFree_v2(q));
    stop();
    lib_close(&l);
}

/* Whichever call of the driver fails, the program's instantiation does what it did without the library, and its graph
 * has its edges; only an edge that the driver refuses to take back stays, and is counted. */
static void failures(void)
{
    bool done = false;
    for (unsigned k = 1; !done && k < 200; k++) {
        struct lib l = lib_open();
        start(true);
        CUdeviceptr p = lib_ints(NODES);
        CUgraph g = layers(&l, p, LAYERS), again = layers(&l, p, LAYERS);
        char before[1024];
        strcpy(before, lib_edges(g));
        CUgraphExec e = NULL;
        size_t during, left = 0;
        fakecuda_fail_call(k, CUDA_ERROR_UNKNOWN);
        CUresult made = instantiate(&e, g, &during);
        done = !fakecuda_failed();
        bool program = !strncmp(fakecuda_failed_call(), "cuGraphInstantiate", 18);
        bool taking = !strcmp(fakecuda_failed_call(), "cuGraphRemoveDependencies");
        fakecuda_fail_call(0, 0);
        CU_ASSERT_EQUAL(made, program ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
        left = edges_of(g) - EDGES;
        CU_ASSERT_EQUAL(left, taking);
        CU_ASSERT_EQUAL(state.tally.groups[0].edges_left, left);
        CU_ASSERT_EQUAL(state.tally.groups[0].failed, program);
        if (!left)
            same_edges(g, before);
        if (!made) { /* whatever edges it was made with, it can be updated */
            OK(update(e, again, &during));
            same_edges(again, before);
            OK(update(e, g, &during));
            destroy(e);
        }
        OK(cuGraphDestroy(g));
        OK(cuGraphDestroy(again));
        OK(cuMemFree_v2(p));
        stop();
        lib_close(&l);
    }
    CU_ASSERT(done);
}

static void update_failures(void)
{
    bool done = false;
    for (unsigned k = 1; !done && k < 200; k++) {
        struct lib l = lib_open();
        start(true);
        CUdeviceptr p = lib_ints(NODES);
        CUgraph g = layers(&l, p, LAYERS), two = layers(&l, p, LAYERS);
        CUgraphExec e = NULL;
        size_t during;
        OK(instantiate(&e, g, &during));
        fakecuda_fail_call(k, CUDA_ERROR_UNKNOWN);
        update(e, two, &during);
        done = !fakecuda_failed();
        bool taking = !strcmp(fakecuda_failed_call(), "cuGraphRemoveDependencies");
        fakecuda_fail_call(0, 0);
        CU_ASSERT_EQUAL(edges_of(two), EDGES + (taking ? 1 : 0));
        CU_ASSERT_EQUAL(state.tally.groups[0].edges_left, taking);
        destroy(e);
        OK(cuGraphDestroy(g));
        OK(cuGraphDestroy(two));
        OK(cuMemFree_v2(p));
        stop();
        lib_close(&l);
    }
    CU_ASSERT(done);
}

static void left_alone(void)
{
    struct lib l = lib_open();
    start(true);
    CUdeviceptr p = lib_ints(NODES);
    CUgraph child = layers(&l, p, 1), g = layers(&l, p, LAYERS);
    CUgraphNode node;
    CUgraphExec e;
    size_t during;
    CUDA_MEM_ALLOC_NODE_PARAMS alloc = {.bytesize = 64};
    OK(cuGraphAddMemAllocNode(&node, g, NULL, 0, &alloc));
    OK(instantiate(&e, g, &during));
    CU_ASSERT_EQUAL(during, EDGES);
    CU_ASSERT_EQUAL(state.tally.groups[0].report.status, STEM_RELANE_UNKNOWN);
    CU_ASSERT_EQUAL(state.tally.groups[0].report.lanes_before, LAYERS + 1);
    CU_ASSERT_EQUAL(state.tally.groups[0].report.by_kind[STEM_LANE_MEMORY], 1);
    destroy(e);

    /* A call within a call, and calls in a forked child. */
    struct stem_inject_instantiate params = {&e, child};
    uint64_t outer = 0, inner = 0;
    CUgraph plain = layers(&l, p, LAYERS);
    params.graph = plain;
    stem_inject_enter(&state, STEM_INJECT_INSTANTIATE, &params, 1, &outer);
    CU_ASSERT_EQUAL(edges_of(plain), EDGES + ADDED);
    stem_inject_enter(&state, STEM_INJECT_INSTANTIATE, &params, 1, &inner);
    CU_ASSERT_EQUAL(inner, 0);
    CU_ASSERT_EQUAL(edges_of(plain), EDGES + ADDED);
    stem_inject_exit(&state, STEM_INJECT_INSTANTIATE, &params, 1, &inner);
    CU_ASSERT_EQUAL(edges_of(plain), EDGES + ADDED);
    stem_inject_exit(&state, STEM_INJECT_INSTANTIATE, &params, 1, &outer);
    CU_ASSERT_EQUAL(edges_of(plain), EDGES);
    atomic_store(&state.off, true);
    stem_inject_enter(&state, STEM_INJECT_INSTANTIATE, &params, 1, &outer);
    CU_ASSERT_EQUAL(edges_of(plain), EDGES);
    CU_ASSERT_EQUAL(outer, 0);
    OK(cuGraphDestroy(plain));
    OK(cuGraphDestroy(child));
    OK(cuGraphDestroy(g));
    OK(cuMemFree_v2(p));
    stop();
    lib_close(&l);
}

/* ---- random graphs ---- */

static uint32_t below(uint32_t *seed, uint32_t n)
{
    *seed = *seed * 1664525 + 1013904223;
    return (*seed >> 8) % n;
}

/* Up to 24 nodes, one in eight empty, up to three parents each; now and then none, so that there are several roots.
 */
static CUgraph random_graph(const struct lib *l, CUdeviceptr p, uint32_t seed)
{
    CUgraph g = NULL;
    CUgraphNode node[24], parent[3];
    uint32_t n = 6 + below(&seed, 18);
    OK(cuGraphCreate(&g, 0));
    for (uint32_t v = 0; v < n; v++) {
        uint32_t k = 0, most = v ? below(&seed, 4) : 0;
        for (uint32_t i = 0; i < most; i++) {
            CUgraphNode from = node[v - 1 - below(&seed, v < 6 ? v : 6)];
            bool again = false;
            for (uint32_t j = 0; j < k; j++)
                again |= parent[j] == from;
            if (!again)
                parent[k++] = from;
        }
        if (below(&seed, 8))
            node[v] = kernel(l, g, p + 4 * v, parent, k);
        else
            OK(cuGraphAddEmptyNode(&node[v], g, parent, k));
    }
    return g;
}

/* Whether each node comes after each other one. */
static void order_of(CUgraph g, bool before[24][24])
{
    CUgraphNode node[24], from[200], to[200];
    CUgraphEdgeData data[200];
    size_t n = 24, m = 200;
    memset(before, 0, 24 * 24 * sizeof(bool));
    OK(cuGraphGetNodes(g, node, &n));
    OK(cuGraphGetEdges_v2(g, from, to, data, &m));
    for (size_t e = 0; e < m; e++)
        for (size_t u = 0; u < n; u++)
            for (size_t v = 0; v < n; v++)
                before[u][v] |= node[u] == from[e] && node[v] == to[e];
    for (size_t k = 0; k < n; k++)
        for (size_t u = 0; u < n; u++)
            for (size_t v = 0; v < n; v++)
                before[u][v] |= before[u][k] && before[k][v];
}

/* What may run at the same time stays the same; edges go again; updates match. */
static void random_graphs(void)
{
    struct lib l = lib_open();
    start(true);
    CUdeviceptr p = lib_ints(24);
    unsigned changed = 0;
    for (uint32_t seed = 1; seed <= 300; seed++) {
        CUgraph g = random_graph(&l, p, seed), two = random_graph(&l, p, seed);
        CUgraphExec e = NULL;
        char edges[1024];
        bool before[24][24], during[24][24];
        size_t n;
        strcpy(edges, lib_edges(g));
        order_of(g, before);
        struct stem_inject_instantiate make = {&e, g};
        uint64_t slot = 0;
        stem_inject_enter(&state, STEM_INJECT_INSTANTIATE, &make, 1, &slot);
        order_of(g, during);
        changed += strcmp(edges, lib_edges(g)) != 0;
        CU_ASSERT_EQUAL(memcmp(before, during, sizeof before), 0);
        int result = cuGraphInstantiateWithFlags(&e, g, 0);
        CU_ASSERT_EQUAL(result, 0);
        stem_inject_exit(&state, STEM_INJECT_INSTANTIATE, &make, result, &slot);
        same_edges(g, edges);
        OK(update(e, two, &n));
        same_edges(two, edges);
        OK(update(e, g, &n));
        same_edges(g, edges);
        destroy(e);
        OK(cuGraphDestroy(g));
        OK(cuGraphDestroy(two));
    }
    CU_ASSERT(changed > 10); /* else this shows nothing */
    OK(cuMemFree_v2(p));
    stop();
    lib_close(&l);
}

/* ---- threads ---- */

struct worker {
    pthread_t thread;
    const struct lib *l;
    CUdeviceptr p;
    unsigned wrong;
};

enum { WORKERS = 4, ROUNDS = 10 };

static size_t count_edges(CUgraph g)
{
    size_t n = 0;
    cuGraphGetEdges_v2(g, NULL, NULL, NULL, &n);
    return n;
}

static CUgraph worker_graph(const struct worker *w)
{
    CUgraph g = NULL;
    CUgraphNode at[3] = {NULL};
    int value = 1;
    CUdeviceptr p = w->p;
    CUDA_KERNEL_NODE_PARAMS k = {.func = w->l->set,
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 32,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = (void *[]){&p, &value}};
    cuGraphCreate(&g, 0);
    cuGraphAddKernelNode_v2(&at[0], g, NULL, 0, &k);
    for (unsigned i = 0; i < LAYERS; i++) {
        cuGraphAddKernelNode_v2(&at[1], g, &at[0], 1, &k);
        cuGraphAddKernelNode_v2(&at[2], g, &at[0], 1, &k);
        cuGraphAddKernelNode_v2(&at[0], g, &at[1], 2, &k);
    }
    return g;
}

static void *work(void *user)
{
    struct worker *w = user;
    cuCtxPushCurrent_v2(w->l->ctx);
    for (int i = 0; i < ROUNDS; i++) {
        CUgraph g = worker_graph(w), two = worker_graph(w);
        CUgraphExec e = NULL;
        CUgraphExecUpdateResultInfo info;
        struct stem_inject_instantiate make = {&e, g};
        uint64_t slot = 0;
        stem_inject_enter(&state, STEM_INJECT_INSTANTIATE, &make, 1, &slot);
        w->wrong += count_edges(g) != EDGES + ADDED;
        int result = cuGraphInstantiateWithFlags(&e, g, 0);
        stem_inject_exit(&state, STEM_INJECT_INSTANTIATE, &make, result, &slot);
        w->wrong += result || count_edges(g) != EDGES;
        struct stem_inject_update change = {e, two};
        stem_inject_enter(&state, STEM_INJECT_UPDATE, &change, 1, &slot);
        result = cuGraphExecUpdate_v2(e, two, &info);
        stem_inject_exit(&state, STEM_INJECT_UPDATE, &change, result, &slot);
        w->wrong += result || count_edges(two) != EDGES;
        stem_inject_enter(&state, STEM_INJECT_LAUNCH, &e, 7, &slot);
        stem_inject_kernel(&state.measure, 0, 7, 1);
        stem_inject_enter(&state, STEM_INJECT_DESTROY, &e, 1, &slot);
        cuGraphExecDestroy(e);
        cuGraphDestroy(g);
        cuGraphDestroy(two);
    }
    cuCtxPopCurrent_v2(NULL);
    return NULL;
}

static void threads(void)
{
    struct lib l = lib_open();
    start(true);
    struct worker w[WORKERS];
    CUdeviceptr p = lib_ints(WORKERS);
    for (unsigned i = 0; i < WORKERS; i++) {
        w[i] = (struct worker){.l = &l, .p = p + 4 * i};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        pthread_join(w[i].thread, NULL);
        CU_ASSERT_EQUAL(w[i].wrong, 0);
    }
    const struct stem_inject_group *g = &state.tally.groups[0];
    CU_ASSERT_EQUAL(state.tally.n_groups, 1);
    CU_ASSERT_EQUAL(g->graphs, WORKERS * ROUNDS);
    CU_ASSERT_EQUAL(g->updates, WORKERS * ROUNDS);
    CU_ASSERT_EQUAL(g->replays, WORKERS * ROUNDS);
    OK(cuMemFree_v2(p));
    stop();
    lib_close(&l);
}

/* ---- counting ---- */

static void measuring(void)
{
    static const struct {
        uint32_t graph, correlation, stream;
    } rows[] = {
        {9, 1, 5},  {9, 1, 6},  {9, 1, 5},              /* two lanes, by the number of the instance */
        {0, 50, 5}, {0, 50, 6}, {0, 50, 7},             /* three, by the number of the launch */
        {8, 1, 1},  {0, 51, 2},                         /* nobody's */
        {9, 2, 5},  {9, 3, 5},  {9, 4, 5},  {9, 5, 90}, /* the fifth replay is not looked at */
    };
    struct stem_inject_measure m;
    stem_inject_measure_init(&m);
    stem_inject_watch_instance(&m, 9, 0);
    stem_inject_watch_instance(&m, 0, 0); /* no number */
    stem_inject_watch_launch(&m, 50, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        stem_inject_kernel(&m, rows[i].graph, rows[i].correlation, rows[i].stream);
    struct stem_inject_lanes zero = stem_inject_measured(&m, 0), one = stem_inject_measured(&m, 1),
                             none = stem_inject_measured(&m, 2);
    CU_ASSERT(zero.least == 1 && zero.most == 2 && zero.replays == 4);
    CU_ASSERT(one.least == 3 && one.most == 3 && one.replays == 1);
    CU_ASSERT(none.replays == 0 && none.most == 0);
    CU_ASSERT_EQUAL(m.kernels, 12);
    CU_ASSERT_EQUAL(m.unmatched, 2);
    stem_inject_measure_free(&m);
}

/* A program with ever new graphs does not make the table grow for ever. */
static void many_groups(void)
{
    struct stem_inject_tally t;
    stem_inject_tally_init(&t);
    struct stem_inject_timing timing = {.driver_ns = 10, .own_ns = 1};
    bool watch = true;
    for (uint32_t i = 0; i < 2 * STEM_INJECT_MAX_GROUPS; i++) {
        struct stem_relane_report r = {.nodes = i};
        struct stem_relane_edges none = {0};
        uint32_t last = STEM_INJECT_MAX_GROUPS - 1;
        struct CUgraphExec_st *exec = (struct CUgraphExec_st *)(uintptr_t)(16 * (i % 7 + 1));
        struct stem_inject_instance *place = stem_inject_tally_reserve(&t);
        CU_ASSERT_EQUAL(stem_inject_tally_instance(&t, place, exec, &r, &none, &timing, &watch), i < last ? i : last);
    }
    CU_ASSERT_EQUAL(t.n_groups, STEM_INJECT_MAX_GROUPS);
    CU_ASSERT_FALSE(watch);
    CU_ASSERT_EQUAL(t.groups[STEM_INJECT_MAX_GROUPS - 1].graphs, STEM_INJECT_MAX_GROUPS + 1);
    stem_inject_tally_free(&t);
}

static void report(void)
{
    struct lib l = lib_open();
    start(true);
    CUdeviceptr p = lib_ints(NODES);
    CUgraph g = layers(&l, p, LAYERS);
    CUgraphExec e;
    size_t during, size = 0;
    uint64_t slot;
    char *text = NULL;
    OK(instantiate(&e, g, &during));
    stem_inject_enter(&state, STEM_INJECT_LAUNCH, &e, 3, &slot);
    stem_inject_kernel(&state.measure, 0, 3, 1);
    destroy(e);
    FILE *f = open_memstream(&text, &size);
    struct stem_inject_about about = {.driver = "5\"8\\0\n", .error = NULL};
    CU_ASSERT(stem_inject_report(&state, &about, f));
    fclose(f);
    json_t *j = json_loads(text, 0, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(j);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(j, "driver")), "5\"8\\0 ");
    CU_ASSERT(json_is_null(json_object_get(j, "error")));
    const json_t *row = json_array_get(json_object_get(j, "graphs"), 0);
    static const struct {
        const char *name;
        int value;
    } rows[] = {{"nodes", NODES},   {"edges", EDGES},   {"edges_added", ADDED}, {"lanes_before", LAYERS + 1},
                {"lanes_after", 2}, {"lanes_bound", 2}, {"lanes_measured", 1},  {"replays_measured", 1},
                {"replays", 1},     {"graphs", 1},      {"failed", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CU_ASSERT_EQUAL(json_integer_value(json_object_get(row, rows[i].name)), rows[i].value);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(json_object_get(row, "kinds"), "k")), NODES);
    CU_ASSERT_FALSE(stem_inject_report_to(&state, &about, "/no/such/directory/report.json"));
    json_decref(j);
    free(text);
    OK(cuGraphDestroy(g));
    OK(cuMemFree_v2(p));
    stop();
    lib_close(&l);
}

UNIT_MAIN("inject", {"instantiation", instantiation}, {"updates", updates},
          {"failures while instantiating", failures}, {"failures while updating", update_failures},
          {"what is left alone", left_alone}, {"random graphs", random_graphs}, {"threads", threads},
          {"measuring", measuring}, {"many groups", many_groups}, {"report", report})
