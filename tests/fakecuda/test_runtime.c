/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime under the stand-in driver: one plan by every path gives what its ops give in issue order, whatever the
 * order of execution; and every driver call of every path is made to fail once, after which nothing is left, the
 * caller's stream is as it was, and the program runs.
 */
#include "fakecuda.h"
#include "plan_runner.h"
#include "plans.h"
#include "unit.h"

#include "driver.h"

enum { SEEDS = 25, EXTERNALS = 4 };

/* X(enumerator, name) */
#define PATHS(X)                                       \
    X(EAGER, "eager, slab")                            \
    X(EAGER_POOL, "eager, the driver's pool")          \
    X(EAGER_CALLBACKS, "eager, callbacks")             \
    X(RECORD, "recorded in the caller's capture")      \
    X(RECORD_POOL, "recorded, pool mode")              \
    X(BY_CAPTURE, "own graph by capture")              \
    X(BY_NODES, "own graph node by node")              \
    X(BY_CAPTURE_POOL, "own graph by capture, pool mode")

enum path {
#define X(name, text) name,
    PATHS(X)
#undef X
    N_PATHS
};

static const char *const path_names[] = {
#define X(name, text) text,
    PATHS(X)
#undef X
};

struct rig {
    enum path path;
    struct stem_plan *plan;
    CUcontext ctx;
    CUstream stream;
    CUdeviceptr ext[EXTERNALS];
    uint32_t allocated, freed; /* by the callbacks */
    struct stem_rt *rt;
    struct stem_exec *exec;
    struct stem_graph *graph;
};

/* The test's own calls are not made to fail. */
#define OWN(statement)       \
    do {                     \
        fakecuda_own(true);  \
        statement;           \
        fakecuda_own(false); \
    } while (0)
#define OK(call) CU_ASSERT_EQUAL((call), CUDA_SUCCESS)

static void open_caller(struct rig *r, enum path path, struct stem_plan *plan)
{
    *r = (struct rig){.path = path, .plan = plan};
    fakecuda_reset();
    plans_install(plan);
    fakecuda_own(true);
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&r->ctx, 0));
    OK(cuCtxPushCurrent_v2(r->ctx));
    OK(cuStreamCreate(&r->stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < EXTERNALS; i++)
        OK(cuMemAlloc_v2(&r->ext[i], PLAN_INTS * 4));
    fakecuda_own(false);
}

/* What the caller has must be all that there is. */
static bool close_caller(struct rig *r)
{
    CUstreamCaptureStatus st = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUcontext ctx = NULL;
    struct fakecuda_counts c = fakecuda_counts();
    struct fakecuda_counts own = {.contexts = 1, .context_references = 1, .streams = 1, .allocations = EXTERNALS,
                                  .bytes = EXTERNALS * PLAN_INTS * 4};
    fakecuda_own(true);
    int err = cuStreamIsCapturing(r->stream, &st) | cuThreadExchangeStreamCaptureMode(&mode) | cuCtxGetCurrent(&ctx);
    fakecuda_own(false);
    return !err && memcmp(&c, &own, sizeof c) == 0 && st == CU_STREAM_CAPTURE_STATUS_NONE &&
           mode == CU_STREAM_CAPTURE_MODE_GLOBAL && ctx == r->ctx && r->allocated == r->freed;
}

static void set_inputs(const struct rig *r, int32_t ext[EXTERNALS][PLAN_INTS])
{
    for (int b = 0; b < EXTERNALS; b++) {
        for (int i = 0; i < PLAN_INTS; i++)
            ext[b][i] = b == 3 ? -1 : 1000 * b + i;
        memcpy((void *)(uintptr_t)r->ext[b], ext[b], PLAN_INTS * 4);
    }
}

static bool outputs_right(const struct rig *r, int32_t ext[EXTERNALS][PLAN_INTS])
{
    int32_t *rows[EXTERNALS];
    bool same = true;
    for (int b = 0; b < EXTERNALS; b++)
        rows[b] = ext[b];
    plans_expect(r->plan, rows);
    for (int b = 0; b < EXTERNALS; b++)
        same = same && memcmp((void *)(uintptr_t)r->ext[b], ext[b], PLAN_INTS * 4) == 0;
    return same;
}

static uint64_t pool_alloc(void *user, size_t bytes, struct CUstream_st *stream)
{
    struct rig *r = user;
    CUstreamCaptureStatus st;
    CUdeviceptr p = 0;
    OWN(OK(cuStreamIsCapturing(stream, &st)));
    CU_ASSERT_EQUAL(st, CU_STREAM_CAPTURE_STATUS_NONE);
    OWN(OK(cuMemAllocAsync(&p, bytes, stream)));
    r->allocated++;
    return p;
}

static void pool_free(void *user, uint64_t at, size_t bytes, struct CUstream_st *stream)
{
    struct rig *r = user;
    (void)bytes;
    OWN(OK(cuMemFreeAsync(at, stream)));
    r->freed++;
}

static enum stem_status open_program(struct rig *r, struct stem_rt_error *err)
{
    static const char image[] = "fakecubin";
    const struct stem_rt_options options = {.libcuda = STAND_IN, .compiler = {.nvrtc = STAND_IN, .cache_dir = ""}};
    struct stem_exec_options eo = {.cubin = image, .cubin_bytes = sizeof image, .externs = plans_externs, .n_externs = 1};
    if (r->path == EAGER_POOL || r->path == EAGER_CALLBACKS || r->path == RECORD_POOL || r->path == BY_CAPTURE_POOL)
        eo.memory = STEM_MEMORY_POOL;
    if (r->path == EAGER_CALLBACKS) {
        eo.alloc = pool_alloc;
        eo.free = pool_free;
        eo.user = r;
    }
    enum stem_status s = stem_rt_open(&options, &r->rt, err);
    s = s ? s : stem_exec_new(r->rt, r->plan, &eo, &r->exec, err);
    for (uint32_t b = 0; b < EXTERNALS && !s; b++)
        s = stem_exec_bind(r->exec, b, r->ext[b], PLAN_INTS * 4, err);
    if (!s && r->path == RECORD_POOL)
        s = stem_exec_prepare(r->exec, err);
    return s;
}

static void close_program(struct rig *r)
{
    stem_graph_free(r->graph);
    stem_exec_free(r->exec);
    stem_rt_close(r->rt);
    r->graph = NULL;
    r->exec = NULL;
    r->rt = NULL;
}

/* What a caller does: capture, record, instantiate, launch, wait, destroy. */
static enum stem_status record(struct rig *r, struct stem_rt_error *err)
{
    const struct stem_plan_variant *v = &r->plan->variants[0];
    CUgraph g = NULL;
    CUgraphExec ge;
    size_t nodes = 0, edges = 0;
    OWN(OK(cuStreamBeginCapture_v2(r->stream, CU_STREAM_CAPTURE_MODE_GLOBAL)));
    enum stem_status s = stem_exec_record(r->exec, 0, r->stream, err);
    fakecuda_own(true);
    CUresult end = cuStreamEndCapture(r->stream, &g);
    if (s) {
        /* Rejoined or invalidated, never left open. */
        CU_ASSERT(end == CUDA_SUCCESS || end == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    } else {
        OK(end);
        OK(cuGraphGetNodes(g, NULL, &nodes));
        OK(cuGraphGetEdges_v2(g, NULL, NULL, NULL, &edges));
        CU_ASSERT_EQUAL(nodes, v->n_ops);
        CU_ASSERT_EQUAL(edges, v->n_edges);
        OK(cuGraphInstantiateWithFlags(&ge, g, 0));
        OK(cuGraphLaunch(ge, r->stream));
        OK(cuStreamSynchronize(r->stream));
        OK(cuGraphExecDestroy(ge));
    }
    if (g)
        OK(cuGraphDestroy(g));
    fakecuda_own(false);
    return s;
}

static enum stem_status own_graph(struct rig *r, struct stem_rt_error *err)
{
    const struct stem_plan_variant *v = &r->plan->variants[0];
    enum stem_graph_by by = r->path == BY_NODES ? STEM_GRAPH_BY_NODES : STEM_GRAPH_BY_CAPTURE;
    enum stem_status s = r->graph ? STEM_OK : stem_graph_new(r->exec, 0, by, &r->graph, err);
    s = s ? s : stem_graph_launch(r->graph, r->stream, err);
    if (s)
        return s;
    struct stem_graph_info info;
    uint32_t recorded = 0;
    for (uint32_t i = 0; i < v->n_segments; i++)
        recorded += v->segments[i].eager ? 0 : v->segments[i].n_ops;
    stem_graph_info(r->graph, &info);
    CU_ASSERT_EQUAL(info.n_nodes, recorded);
    return STEM_OK;
}

/* One launch by the rig's path, waited for. */
static enum stem_status act(struct rig *r, struct stem_rt_error *err)
{
    enum stem_status s;
    if (r->path == RECORD || r->path == RECORD_POOL)
        s = record(r, err);
    else if (r->path >= BY_CAPTURE)
        s = own_graph(r, err);
    else
        s = stem_exec_launch(r->exec, 0, r->stream, err);
    CUresult sync;
    OWN(sync = cuStreamSynchronize(r->stream));
    return s || !sync ? s : STEM_E_CUDA;
}

static void report(const struct rig *r, const char *what, const struct stem_rt_error *err)
{
    fprintf(stderr, "\n%s: %s: %d \"%s\"\n%s%s%u allocated, %u freed by callbacks\n%s", path_names[r->path], what,
            err->status, err->message, fakecuda_live(), fakecuda_faults(), r->allocated, r->freed, fakecuda_trace());
}

static bool run_twice(enum path path, struct stem_plan *plan, int order, bool loud)
{
    struct rig r;
    struct stem_rt_error err = {0};
    int32_t ext[EXTERNALS][PLAN_INTS];
    open_caller(&r, path, plan);
    if (order < 2)
        fakecuda_set_order(order ? FAKECUDA_LAST : FAKECUDA_ISSUE);
    else
        fakecuda_seed((uint64_t)order);
    bool ok = open_program(&r, &err) == STEM_OK;
    for (int i = 0; i < 2 && ok; i++) {
        set_inputs(&r, ext);
        ok = act(&r, &err) == STEM_OK && outputs_right(&r, ext);
    }
    if (!ok && loud)
        report(&r, "run", &err);
    close_program(&r);
    bool closed = close_caller(&r);
    if (ok && !closed)
        report(&r, "closed", &err);
    return ok && closed;
}

static void every_path_every_order(void)
{
    for (int piecewise = 0; piecewise < 2; piecewise++)
        for (int p = 0; p < N_PATHS; p++) {
            if (piecewise && (p == RECORD || p == RECORD_POOL))
                continue; /* an eager segment cannot be recorded */
            struct stem_plan *plan = plan_two_layers(piecewise, PLAN_SOUND);
            for (int order = 0; order < 2 + SEEDS; order++) {
                bool ok = run_twice((enum path)p, plan, order, true);
                CU_ASSERT(ok);
                if (!ok)
                    break;
            }
            stem_plan_free(plan);
        }
}

/* A wrong plan is found out: it is refused, or some order gives a wrong result. Static offsets show when the slab is
 * used, frees when there is none. In the driver's pool an allocation comes between the two kernels of the programmatic
 * edge, which makes it a full one. */
static void wrong_plans_show(void)
{
    for (int damage = 1; damage < N_PLAN_DAMAGES; damage++) {
        struct stem_plan *plan = plan_two_layers(false, (enum plan_damage)damage);
        for (int p = 0; p < N_PATHS; p++) {
            bool pooled = p == EAGER_POOL || p == EAGER_CALLBACKS;
            if ((damage == PLAN_EARLY_FREE) > pooled || ((damage >= PLAN_NO_PDL_WAIT) && pooled))
                continue;
            int order = 0;
            while (order < 2 + SEEDS && run_twice((enum path)p, plan, order, false))
                order++;
            CU_ASSERT(order < 2 + SEEDS);
            if (order == 2 + SEEDS)
                fprintf(stderr, "\n%s: damage %d does not show\n", path_names[p], damage);
        }
        stem_plan_free(plan);
    }
}

/* Two launches in a row without waiting, on two streams of the caller: the program orders them. */
static void launches_follow_each_other(void)
{
    for (int p = 0; p < N_PATHS; p++)
        for (int seed = 0; seed < SEEDS && p != RECORD && p != RECORD_POOL; seed++) {
            struct stem_plan *plan = plan_two_layers(false, PLAN_SOUND);
            struct rig r;
            struct stem_rt_error err = {0};
            int32_t ext[EXTERNALS][PLAN_INTS], *rows[EXTERNALS] = {ext[0], ext[1], ext[2], ext[3]};
            CUstream other;
            open_caller(&r, (enum path)p, plan);
            fakecuda_seed((uint64_t)seed);
            OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
            CU_ASSERT_EQUAL(open_program(&r, &err), STEM_OK);
            set_inputs(&r, ext);
            for (int i = 0; i < 2; i++) {
                CUstream s = i ? other : r.stream;
                if (p >= BY_CAPTURE && !r.graph)
                    CU_ASSERT_EQUAL(stem_graph_new(r.exec, 0, p == BY_NODES ? STEM_GRAPH_BY_NODES : STEM_GRAPH_BY_CAPTURE,
                                                   &r.graph, &err), STEM_OK);
                CU_ASSERT_EQUAL(r.graph ? stem_graph_launch(r.graph, s, &err) : stem_exec_launch(r.exec, 0, s, &err),
                                STEM_OK);
            }
            OK(cuStreamSynchronize(other));
            plans_expect(plan, rows);
            CU_ASSERT(outputs_right(&r, ext));
            OK(cuStreamSynchronize(r.stream));
            OK(cuStreamDestroy_v2(other));
            close_program(&r);
            CU_ASSERT(close_caller(&r));
            stem_plan_free(plan);
        }
}

/* The message of a failed launch names the op; any message says what failed. */
static bool told(const struct stem_plan *plan, const struct stem_rt_error *err, const char *call, int error)
{
    if (err->status == STEM_OK || !err->message[0])
        return false;
    if (err->cuda && err->cuda != error)
        return false;
    if (strcmp(call, "cuLaunchKernelEx") != 0 || strstr(err->message, "built-in"))
        return true;
    return err->op < plan->variants[0].n_ops && strstr(err->message, plan->variants[0].ops[err->op].name) &&
           strstr(err->message, "by_hand.stem");
}

/* Returns false when the n-th call does not exist. */
static bool one_failure(enum path path, struct stem_plan *plan, uint64_t n, int error, unsigned *bad)
{
    struct rig r;
    struct stem_rt_error err = {0};
    int32_t ext[EXTERNALS][PLAN_INTS];
    open_caller(&r, path, plan);
    fakecuda_seed(n);
    fakecuda_fail_call(n, error);
    enum stem_status s = open_program(&r, &err);
    bool opened = s == STEM_OK, ok = true;
    if (opened) {
        set_inputs(&r, ext);
        s = act(&r, &err);
        ok = s != STEM_OK || outputs_right(&r, ext);
    }
    bool failed = fakecuda_failed();
    char call[64];
    snprintf(call, sizeof call, "%s", fakecuda_failed_call());
    if (s)
        ok = ok && failed && err.status == s && told(plan, &err, call, error);
    if (opened && failed) { /* the program runs again */
        struct stem_rt_error again = {0};
        set_inputs(&r, ext);
        bool right = act(&r, &again) == STEM_OK && outputs_right(&r, ext);
        if (!right)
            report(&r, "the run after it", &again);
        ok = ok && right;
    }
    close_program(&r);
    ok = close_caller(&r) && ok;
    if (!ok) {
        report(&r, fakecuda_failed_call(), &err);
        ++*bad;
    }
    return fakecuda_failed();
}

static void every_call_fails_once(void)
{
    uint64_t tried = 0;
    unsigned bad = 0;
    for (int piecewise = 0; piecewise < 2; piecewise++)
        for (int p = 0; p < N_PATHS; p++) {
            if (piecewise && (p == RECORD || p == RECORD_POOL))
                continue;
            struct stem_plan *plan = plan_two_layers(piecewise, PLAN_SOUND);
            for (uint64_t n = 1; one_failure((enum path)p, plan, n, CUDA_ERROR_OUT_OF_MEMORY, &bad); n++)
                tried++;
            stem_plan_free(plan);
        }
    CU_ASSERT_EQUAL(bad, 0);
    CU_ASSERT(tried > 500);
    fprintf(stderr, "(%llu failures injected, %u handled badly) ", (unsigned long long)tried, bad);
}

UNIT_MAIN("runtime: programs", {"every path, every order", every_path_every_order},
          {"wrong plans show", wrong_plans_show}, {"launches follow each other", launches_follow_each_other},
          {"every call fails once", every_call_fails_once})
