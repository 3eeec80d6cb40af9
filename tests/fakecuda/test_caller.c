/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime as callers meet it: captures in every mode and state, bindings that change, errors of the device,
 * extern functions that fail, the stand-in's compiler, and programs in several threads.
 */
#include <pthread.h>

#include "rig.h"

struct fixture {
    struct rig r;
    struct stem_rt_error err;
    int32_t ext[EXTERNALS][PLAN_INTS];
};

static void setup(struct fixture *f, enum path path, bool piecewise)
{
    memset(f, 0, sizeof *f);
    rig_open_caller(&f->r, path, plan_two_layers(piecewise, PLAN_SOUND));
    CU_ASSERT_EQUAL_FATAL(rig_open_program(&f->r, &f->err), STEM_OK);
    rig_set_inputs(&f->r, f->ext);
}

static void teardown(struct fixture *f)
{
    rig_close_program(&f->r);
    bool closed = rig_close_caller(&f->r);
    CU_ASSERT(closed);
    if (!closed)
        rig_report(&f->r, "closed", &f->err);
    stem_plan_free(f->r.plan);
}

static bool runs(struct fixture *f)
{
    rig_set_inputs(&f->r, f->ext);
    bool ok = rig_act(&f->r, &f->err) == STEM_OK && rig_outputs_right(&f->r, f->ext);
    if (!ok)
        rig_report(&f->r, "run", &f->err);
    return ok;
}

/* A program recorded between work of the caller, in every mode, also from a stream that has joined the capture. */
static void in_the_midst_of_a_capture(void)
{
    for (int mode = CU_STREAM_CAPTURE_MODE_GLOBAL; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++)
        for (int seed = 0; seed < 30; seed++) {
            struct fixture f;
            setup(&f, RECORD, false);
            fakecuda_seed((uint64_t)seed);
            CUstream joined = NULL;
            CUevent fork = NULL, join = NULL;
            CUgraph g = NULL;
            CUgraphExec ge = NULL;
            OK(cuStreamCreate(&joined, CU_STREAM_NON_BLOCKING));
            OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
            OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
            OK(cuStreamBeginCapture_v2(f.r.stream, (CUstreamCaptureMode)mode));
            OK(cuMemsetD32Async(f.r.ext[2], 5, PLAN_INTS, f.r.stream)); /* the state */
            OK(cuEventRecord(fork, f.r.stream));
            OK(cuStreamWaitEvent(joined, fork, 0));
            CU_ASSERT_EQUAL(stem_exec_launch(f.r.exec, 0, joined, &f.err),
                            STEM_OK); /* records, as the stream captures */
            CU_ASSERT_EQUAL(stem_exec_record(f.r.exec, 0, joined, &f.err), STEM_OK); /* once more, after it */
            OK(cuMemcpyDtoDAsync_v2(f.r.ext[0], f.r.ext[3], PLAN_INTS * 4, joined));
            OK(cuEventRecord(join, joined));
            OK(cuStreamWaitEvent(f.r.stream, join, 0));
            OK(cuStreamEndCapture(f.r.stream, &g));
            OK(cuGraphInstantiateWithFlags(&ge, g, 0));
            OK(cuGraphLaunch(ge, f.r.stream));
            OK(cuStreamSynchronize(f.r.stream));
            int32_t *rows[EXTERNALS] = {f.ext[0], f.ext[1], f.ext[2], f.ext[3]};
            for (int i = 0; i < PLAN_INTS; i++)
                f.ext[2][i] = 5;
            plans_expect(f.r.plan, rows);
            plans_expect(f.r.plan, rows);
            memcpy(f.ext[0], f.ext[3], sizeof f.ext[0]);
            for (int b = 0; b < EXTERNALS; b++)
                CU_ASSERT_EQUAL(memcmp((void *)(uintptr_t)f.r.ext[b], f.ext[b], sizeof f.ext[b]), 0);
            OK(cuGraphExecDestroy(ge));
            OK(cuGraphDestroy(g));
            OK(cuStreamDestroy_v2(joined));
            OK(cuEventDestroy_v2(fork));
            OK(cuEventDestroy_v2(join));
            CU_ASSERT(runs(&f));
            teardown(&f);
        }
}

/* Each row: what the caller does wrong, or has done, and what it is told; afterwards the program runs. */
static void refusals(void)
{
    static const struct {
        const char *what;
        bool piecewise;
        enum stem_status expected;
        CUresult end; /* of the caller's capture */
    } rows[] = {
        {"record without a capture", false, STEM_E_CAPTURE, CUDA_ERROR_ILLEGAL_STATE},
        {"record into an invalid capture", false, STEM_E_CAPTURE, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED},
        {"launch into an invalid capture", false, STEM_E_CAPTURE, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED},
        {"record an eager segment", true, STEM_E_CAPTURE, CUDA_SUCCESS},
        {"launch a graph into a capture", false, STEM_E_CAPTURE, CUDA_SUCCESS},
        {"no such variant", false, STEM_E_ARGUMENT, CUDA_ERROR_ILLEGAL_STATE},
        {"a binding that is too small", false, STEM_E_UNBOUND, CUDA_ERROR_ILLEGAL_STATE},
        {"a graph that is out of date", false, STEM_E_STALE, CUDA_ERROR_ILLEGAL_STATE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture f;
        CUgraph g = NULL;
        enum stem_status s = STEM_OK;
        setup(&f, i == 4 || i == 7 ? BY_CAPTURE : EAGER, rows[i].piecewise);
        CU_ASSERT(runs(&f));
        if (i >= 1 && i <= 4)
            OK(cuStreamBeginCapture_v2(f.r.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        if (i == 1 || i == 2)
            CU_ASSERT_EQUAL(cuStreamSynchronize(f.r.stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        if (i <= 1 || i == 3)
            s = stem_exec_record(f.r.exec, 0, f.r.stream, &f.err);
        if (i == 2)
            s = stem_exec_launch(f.r.exec, 0, f.r.stream, &f.err);
        if (i == 5)
            s = stem_exec_launch(f.r.exec, 1, f.r.stream, &f.err);
        if (i == 6) {
            s = stem_exec_bind(f.r.exec, 0, f.r.ext[0], 8, &f.err);
            s = s ? s : stem_exec_launch(f.r.exec, 0, f.r.stream, &f.err);
        }
        if (i == 7)
            CU_ASSERT_EQUAL(stem_exec_bind(f.r.exec, 0, f.r.ext[3], PLAN_INTS * 4, &f.err), STEM_OK);
        if (i == 4 || i == 7)
            s = stem_graph_launch(f.r.graph, f.r.stream, &f.err);
        CU_ASSERT_EQUAL(s, rows[i].expected);
        CU_ASSERT_EQUAL(f.err.status, s);
        CU_ASSERT(f.err.message[0] != 0);
        CUresult end = cuStreamEndCapture(f.r.stream, &g);
        CU_ASSERT_EQUAL(end, rows[i].end);
        if (s != rows[i].expected || end != rows[i].end)
            fprintf(stderr, "\n%s: status %d \"%s\", capture ends with %d\n", rows[i].what, s, f.err.message, end);
        if (g)
            OK(cuGraphDestroy(g));
        CU_ASSERT_EQUAL(stem_exec_bind(f.r.exec, 0, f.r.ext[0], PLAN_INTS * 4, &f.err), STEM_OK);
        if (i == 7)
            CU_ASSERT_EQUAL(stem_graph_update(f.r.graph, &f.err), STEM_OK);
        CU_ASSERT(runs(&f));
        teardown(&f);
    }
}

/* New addresses reach the instances without building them again. */
static void bindings_change(void)
{
    static const enum path paths[] = {EAGER, EAGER_POOL, BY_CAPTURE, BY_NODES};
    for (size_t p = 0; p < sizeof paths / sizeof paths[0]; p++) {
        struct fixture f;
        setup(&f, paths[p], false);
        CU_ASSERT(runs(&f));
        uint32_t execs = fakecuda_counts().execs;
        for (int round = 0; round < 2; round++) {
            CUdeviceptr was = f.r.ext[0];
            f.r.ext[0] = f.r.ext[3];
            f.r.ext[3] = was; /* in and out change places */
            for (uint32_t b = 0; b < EXTERNALS; b += 3)
                CU_ASSERT_EQUAL(stem_exec_bind(f.r.exec, b, f.r.ext[b], PLAN_INTS * 4, &f.err), STEM_OK);
            if (f.r.graph)
                CU_ASSERT_EQUAL(stem_graph_update(f.r.graph, &f.err), STEM_OK);
            CU_ASSERT(runs(&f));
            CU_ASSERT_EQUAL(fakecuda_counts().execs, execs);
        }
        teardown(&f);
    }
}

/* Every call of an update fails once: the graph is then out of date or updated, never something in between. */
static void updates_fail(void)
{
    for (int by = BY_CAPTURE; by <= BY_NODES; by++)
        for (uint64_t n = 1;; n++) {
            struct fixture f;
            setup(&f, (enum path)by, false);
            CU_ASSERT(runs(&f));
            CUdeviceptr was = f.r.ext[0];
            f.r.ext[0] = f.r.ext[3];
            f.r.ext[3] = was;
            for (uint32_t b = 0; b < EXTERNALS; b += 3)
                CU_ASSERT_EQUAL(stem_exec_bind(f.r.exec, b, f.r.ext[b], PLAN_INTS * 4, &f.err), STEM_OK);
            fakecuda_fail_call(n, CUDA_ERROR_UNKNOWN);
            enum stem_status s = stem_graph_update(f.r.graph, &f.err);
            bool failed = fakecuda_failed();
            fakecuda_fail_call(0, 0);
            if (s) {
                CU_ASSERT_EQUAL(stem_graph_launch(f.r.graph, f.r.stream, &f.err), STEM_E_STALE);
                CU_ASSERT_EQUAL(stem_graph_update(f.r.graph, &f.err), STEM_OK);
            }
            CU_ASSERT(runs(&f));
            teardown(&f);
            if (!failed)
                break;
        }
}

/* After an error of the device nothing works, everything says so, and everything can still be destroyed. */
static void the_device_fails(void)
{
    for (int p = 0; p < N_PATHS; p++)
        for (uint64_t n = 1; n < 60; n++) {
            struct fixture f;
            memset(&f, 0, sizeof f);
            rig_open_caller(&f.r, (enum path)p, plan_two_layers(false, PLAN_SOUND));
            enum stem_status s = rig_open_program(&f.r, &f.err);
            rig_set_inputs(&f.r, f.ext);
            fakecuda_fail_call(n, CUDA_ERROR_LAUNCH_FAILED);
            if (!s && p != RECORD && p != RECORD_POOL)
                s = rig_act(&f.r, &f.err);
            CU_ASSERT((f.err.status == STEM_OK) == (f.err.message[0] == 0));
            rig_close_program(&f.r);
            struct fakecuda_counts c = fakecuda_counts();
            CU_ASSERT_EQUAL(c.context_references, 1);
            CU_ASSERT_EQUAL(c.streams, 1);
            CU_ASSERT_EQUAL(c.events + c.modules + c.graphs + c.nodes + c.execs + c.captures, 0);
            if (c.streams != 1 || c.events + c.modules + c.graphs + c.nodes + c.execs + c.captures)
                rig_report(&f.r, fakecuda_failed_call(), &f.err);
            stem_plan_free(f.r.plan);
        }
}

static int refuses(const struct stem_call *call, struct CUstream_st *stream)
{
    (void)call, (void)stream;
    return 7;
}

static int does_nothing(const struct stem_call *call, struct CUstream_st *stream)
{
    (void)call, (void)stream;
    return 0;
}

static int synchronises(const struct stem_call *call, struct CUstream_st *stream)
{
    (void)call;
    cuStreamSynchronize(stream);
    return 0;
}

/* Extern functions that fail or break the rules, while recording and while building graphs. */
static void extern_functions(void)
{
    static stem_extern_fn *const fns[] = {refuses, synchronises, does_nothing};
    static const enum path paths[] = {EAGER, RECORD, BY_CAPTURE, BY_NODES};
    for (size_t i = 0; i < 3; i++)
        for (size_t p = 0; p < 4; p++) {
            if (i && paths[p] == EAGER)
                continue; /* nothing that anyone could see */
            struct fixture f;
            setup(&f, paths[p], false);
            stem_exec_free(f.r.exec);
            const struct stem_extern x = {"copy", fns[i]};
            const struct stem_exec_options eo = {
                .cubin = "fakecubin", .cubin_bytes = 10, .externs = &x, .n_externs = 1};
            CU_ASSERT_EQUAL(stem_exec_new(f.r.rt, f.r.plan, &eo, &f.r.exec, &f.err), STEM_OK);
            for (uint32_t b = 0; b < EXTERNALS; b++)
                CU_ASSERT_EQUAL(stem_exec_bind(f.r.exec, b, f.r.ext[b], PLAN_INTS * 4, &f.err), STEM_OK);
            enum stem_status s = rig_act(&f.r, &f.err);
            CU_ASSERT(s != STEM_OK);
            bool named = strstr(f.err.message, "copied") != NULL;
            CU_ASSERT(named);
            if (!s || !named)
                rig_report(&f.r, "extern", &f.err);
            teardown(&f);
        }
}

/* Without a cubin the program is compiled, here by the stand-in; the built-in kernels fill the buffers. */
static void compiled_and_filled(void)
{
    struct fixture f;
    setup(&f, EAGER, false);
    stem_exec_free(f.r.exec);
    const struct stem_exec_options eo = {.externs = plans_externs, .n_externs = 1};
    CU_ASSERT_EQUAL(stem_exec_new(f.r.rt, f.r.plan, &eo, &f.r.exec, &f.err), STEM_OK);
    CU_ASSERT_PTR_NOT_NULL(stem_exec_cubin(f.r.exec)->data);
    for (uint32_t b = 0; b < EXTERNALS; b++)
        CU_ASSERT_EQUAL(stem_exec_bind(f.r.exec, b, f.r.ext[b], PLAN_INTS * 4, &f.err), STEM_OK);
    CU_ASSERT_EQUAL(stem_exec_fill(f.r.exec, 0, 3, &f.err), STEM_OK);
    CU_ASSERT_EQUAL(*(int *)(uintptr_t)f.r.ext[0], 0);
    CU_ASSERT(runs(&f));
    const struct stem_launch_options slow = {.poison = true, .delay_op = 2, .delay_us = 5};
    rig_set_inputs(&f.r, f.ext);
    CU_ASSERT_EQUAL(stem_exec_launch_with(f.r.exec, 0, f.r.stream, &slow, &f.err), STEM_OK);
    OK(cuStreamSynchronize(f.r.stream));
    CU_ASSERT(rig_outputs_right(&f.r, f.ext));
    teardown(&f);
}

struct worker {
    const struct rig *caller;
    enum path path;
    bool ok;
};

/* A program of its own on a device of its own, but for the driver. */
static void *work(void *arg)
{
    struct worker *w = arg;
    struct rig r = *w->caller;
    struct stem_rt_error err = {0};
    int32_t ext[EXTERNALS][PLAN_INTS];
    w->ok = false;
    r.path = w->path;
    r.rt = NULL;
    r.exec = NULL;
    r.graph = NULL;
    if (cuCtxPushCurrent_v2(r.ctx) || cuStreamCreate(&r.stream, CU_STREAM_NON_BLOCKING))
        return NULL;
    for (int i = 0; i < EXTERNALS; i++)
        if (cuMemAlloc_v2(&r.ext[i], PLAN_INTS * 4))
            return NULL;
    bool ok = rig_open_program(&r, &err) == STEM_OK;
    for (int i = 0; i < 20 && ok; i++) {
        rig_set_inputs(&r, ext);
        ok = rig_act(&r, &err) == STEM_OK && rig_outputs_right(&r, ext);
    }
    if (!ok)
        fprintf(stderr, "\n%s: %s\n", rig_paths[r.path], err.message);
    rig_close_program(&r);
    for (int i = 0; i < EXTERNALS; i++)
        ok = cuMemFree_v2(r.ext[i]) == CUDA_SUCCESS && ok;
    w->ok = cuStreamDestroy_v2(r.stream) == CUDA_SUCCESS && cuCtxPopCurrent_v2(NULL) == CUDA_SUCCESS && ok;
    return NULL;
}

/* Programs in several threads do not disturb each other. (One captures at a time at most: captures in global mode
 * forbid others to allocate, which is the driver's rule.) */
static void several_threads(void)
{
    static const enum path paths[][2] = {{EAGER, EAGER},       {EAGER, EAGER_POOL}, {EAGER_POOL, BY_NODES},
                                         {BY_NODES, BY_NODES}, {BY_CAPTURE, EAGER}, {BY_CAPTURE, BY_CAPTURE}};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct rig caller;
        struct stem_plan *plan = plan_two_layers(false, PLAN_SOUND);
        pthread_t t[2];
        rig_open_caller(&caller, EAGER, plan);
        struct worker w[2] = {{&caller, paths[i][0], false}, {&caller, paths[i][1], false}};
        for (int k = 0; k < 2; k++)
            CU_ASSERT_EQUAL_FATAL(pthread_create(&t[k], NULL, work, &w[k]), 0);
        for (int k = 0; k < 2; k++) {
            pthread_join(t[k], NULL);
            CU_ASSERT(w[k].ok);
        }
        CU_ASSERT(rig_close_caller(&caller));
        stem_plan_free(plan);
    }
}

UNIT_MAIN("runtime: callers", {"in the midst of a capture", in_the_midst_of_a_capture}, {"refusals", refusals},
          {"bindings change", bindings_change}, {"updates fail", updates_fail},
          {"the device fails", the_device_fails}, {"extern functions", extern_functions},
          {"compiled and filled", compiled_and_filled}, {"several threads", several_threads})
