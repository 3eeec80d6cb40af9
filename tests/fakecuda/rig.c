/* SPDX-License-Identifier: Apache-2.0
 *
 * A caller of the runtime, for its tests.
 */
#include "rig.h"

const char *const rig_paths[] = {
#define X(name, text) text,
    PATHS(X)
#undef X
};

void rig_open_caller(struct rig *r, enum path path, struct stem_plan *plan)
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
bool rig_close_caller(struct rig *r)
{
    CUstreamCaptureStatus st = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUcontext ctx = NULL;
    struct fakecuda_counts c = fakecuda_counts();
    struct fakecuda_counts own = {.contexts = 1,
                                  .context_references = 1,
                                  .streams = 1,
                                  .allocations = EXTERNALS,
                                  .bytes = EXTERNALS * PLAN_INTS * 4};
    fakecuda_own(true);
    int err = cuStreamIsCapturing(r->stream, &st) | cuThreadExchangeStreamCaptureMode(&mode) | cuCtxGetCurrent(&ctx);
    fakecuda_own(false);
    return !err && memcmp(&c, &own, sizeof c) == 0 && st == CU_STREAM_CAPTURE_STATUS_NONE &&
           mode == CU_STREAM_CAPTURE_MODE_GLOBAL && ctx == r->ctx && r->allocated == r->freed;
}

void rig_set_inputs(const struct rig *r, int32_t ext[EXTERNALS][PLAN_INTS])
{
    for (int b = 0; b < EXTERNALS; b++) {
        for (int i = 0; i < PLAN_INTS; i++)
            ext[b][i] = b == 3 ? -1 : 1000 * b + i;
        memcpy((void *)(uintptr_t)r->ext[b], ext[b], PLAN_INTS * 4);
    }
}

bool rig_outputs_right(const struct rig *r, int32_t ext[EXTERNALS][PLAN_INTS])
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
    CUresult err;
    OWN(err = cuMemFreeAsync(at, stream));
    CU_ASSERT(err == CUDA_SUCCESS || err == CUDA_ERROR_LAUNCH_FAILED);
    r->freed++;
}

enum stem_status rig_open_program(struct rig *r, struct stem_rt_error *err)
{
    static const char image[] = "fakecubin";
    const struct stem_rt_options options = {.libcuda = STAND_IN, .compiler = {.nvrtc = STAND_IN, .cache_dir = ""}};
    struct stem_exec_options eo = {
        .cubin = image, .cubin_bytes = sizeof image, .externs = plans_externs, .n_externs = 1};
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

void rig_close_program(struct rig *r)
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
enum stem_status rig_act(struct rig *r, struct stem_rt_error *err)
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

void rig_report(const struct rig *r, const char *what, const struct stem_rt_error *err)
{
    fprintf(stderr, "\n%s: %s: %d \"%s\"\n%s%s%u allocated, %u freed by callbacks\n%s", rig_paths[r->path], what,
            err->status, err->message, fakecuda_live(), fakecuda_faults(), r->allocated, r->freed, fakecuda_trace());
}
