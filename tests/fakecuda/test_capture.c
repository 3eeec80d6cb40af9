/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in driver's stream capture: legal sequences give the nodes and edges that the driver gives, illegal ones
 * its errors.
 */
#include "lib.h"

#include <pthread.h>

#define GLOBAL CU_STREAM_CAPTURE_MODE_GLOBAL
#define LOCAL CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
#define RELAXED CU_STREAM_CAPTURE_MODE_RELAXED

/* A script of one letter for each call, on streams s (origin), t, u (non-blocking), b (blocking), z (legacy), events
 * e and f, and what is captured. Upper case: the call must fail with the error that stands next in `errors`. */
struct fixture {
    struct lib l;
    CUstream s, t, u, b;
    CUevent e, f, plain;
    CUdeviceptr p;
    CUgraph g;
};

static struct fixture open_fixture(void)
{
    struct fixture x = {.l = lib_open()};
    x.s = lib_stream();
    x.t = lib_stream();
    x.u = lib_stream();
    OK(cuStreamCreate(&x.b, CU_STREAM_DEFAULT));
    x.e = lib_event();
    x.f = lib_event();
    x.plain = lib_event();
    x.p = lib_ints(16);
    OK(cuEventRecord(x.plain, x.u));
    return x;
}

static void close_fixture(struct fixture *x)
{
    if (x->g)
        OK(cuGraphDestroy(x->g));
    CUstream streams[] = {x->s, x->t, x->u, x->b};
    for (size_t i = 0; i < 4; i++) {
        CUstreamCaptureStatus st = CU_STREAM_CAPTURE_STATUS_ACTIVE;
        OK(cuStreamIsCapturing(streams[i], &st));
        CU_ASSERT_EQUAL(st, CU_STREAM_CAPTURE_STATUS_NONE);
        OK(cuStreamSynchronize(streams[i]));
        OK(cuStreamDestroy_v2(streams[i]));
    }
    OK(cuEventDestroy_v2(x->e));
    OK(cuEventDestroy_v2(x->f));
    OK(cuEventDestroy_v2(x->plain));
    OK(cuMemFree_v2(x->p));
    lib_close(&x->l);
}

static CUstream stream_of(const struct fixture *x, char c)
{
    return c == 's' ? x->s : c == 't' ? x->t : c == 'u' ? x->u : c == 'b' ? x->b : NULL;
}

static CUevent event_of(const struct fixture *x, char c)
{
    return c == 'e' ? x->e : c == 'f' ? x->f : x->plain;
}

/* "ks" kernel into s; "ps" programmatic kernel; "ms" memset; "rse" record e in s; "wte" t waits for e; "qe" query;
 * "ye" event synchronize; "Ss" stream synchronize; "a" cuMemAlloc; "A" context synchronize; "Es" end capture in s;
 * "Bs" begin (relaxed) in s; "l" kernel into the legacy stream; "x" synchronous copy; "c" module load */
static CUresult step(struct fixture *x, const char **at)
{
    const char *c = *at;
    CUdeviceptr p = 0;
    CUmodule m;
    *at += 1;
    switch (c[0]) {
    case 'a':
        return cuMemAlloc_v2(&p, 4);
    case 'A':
        return cuCtxSynchronize();
    case 'l':
        return lib_set(x->l.set, x->p, 1, NULL);
    case 'x':
        return cuMemcpyHtoD_v2(x->p, &p, 4);
    case 'c':
        return cuModuleLoadData(&m, "fakecubin");
    default:
        break;
    }
    *at += 1;
    switch (c[0]) {
    case 'k':
        return lib_set(x->l.set, x->p, 1, stream_of(x, c[1]));
    case 'p':
        return lib_add_programmatic(x->l.add, x->p, x->p, stream_of(x, c[1]));
    case 'm':
        return cuMemsetD8Async(x->p, 0, 4, stream_of(x, c[1]));
    case 'q':
        return cuEventQuery(event_of(x, c[1]));
    case 'y':
        return cuEventSynchronize(event_of(x, c[1]));
    case 'S':
        return cuStreamSynchronize(stream_of(x, c[1]));
    case 'B':
        return cuStreamBeginCapture_v2(stream_of(x, c[1]), CU_STREAM_CAPTURE_MODE_RELAXED);
    case 'E':
        return cuStreamEndCapture(stream_of(x, c[1]), &x->g);
    default:
        break;
    }
    *at += 1;
    return c[0] == 'r' ? cuEventRecord(event_of(x, c[2]), stream_of(x, c[1]))
                       : cuStreamWaitEvent(stream_of(x, c[1]), event_of(x, c[2]), 0);
}

/* Runs "step step step". The result is the first error. */
static CUresult script(struct fixture *x, const char *text)
{
    CUresult first = CUDA_SUCCESS;
    while (*text) {
        CUresult err = step(x, &text);
        first = first ? first : err;
        while (*text == ' ')
            text++;
    }
    return first;
}

static void legal_captures(void)
{
    static const struct {
        const char *what, *script, *edges;
        size_t nodes;
    } rows[] = {
        {"nothing", "", "", 0},
        {"a chain", "ks ms ks", "0>1 1>2", 3},
        {"fork and join", "ks rse wte ks kt rtf wsf ks", "0>1 0>2 1>3 2>3", 4},
        {"side first", "ks rse wte kt ks rtf wsf ks", "0>1 0>2 2>3 1>3", 4},
        {"write-only first node on a side stream", "rse wte kt ks rtf wsf ks", "1>2 0>2", 3},
        {"a join without a node after it", "ks rse wte kt rtf wsf", "0>1", 2},
        {"a fork without a node", "ks rse wte rtf wsf ks", "0>1", 2},
        {"the same event twice adds one edge", "ks rse wte wte kt rtf wsf wsf ks", "0>1 0>2 1>2", 3},
        {"a side stream reused: the continuation edge", "ks rse wte ks kt rtf wsf ks rse wte ks kt rtf wsf ks",
         "0>1 0>2 1>3 2>3 3>4 2>5 3>5 4>6 5>6", 7},
        {"an event records what is pending, not what comes later", "ks rse ks wte kt rtf wsf ks", "0>1 0>2 1>3 2>3",
         4},
        {"programmatic in a chain", "ks ps", "0>1p", 2},
        {"programmatic: every incoming edge", "ks rse wte kt ks rtf wsf ps", "0>1 0>2 2>3p 1>3p", 4},
        {"programmatic: not from a memset", "ms ps", "0>1", 2},
        {"a second event of one stream", "ks rse ks rsf wte wtf kt rte wse", "0>1 0>2 1>2", 3},
        {"three streams", "ks rse wte wue kt ku rte ruf wse wsf ks", "0>1 0>2 0>3 1>3 2>3", 4},
        {"through a third stream", "ks rse wte kt rte wue ku rue wse ks", "0>1 1>2 0>3 2>3", 4},
        {"work elsewhere goes on", "ks ku ms Su", "0>1", 2},
        {"the legacy stream beside non-blocking ones", "ks l ks", "0>1", 2},
        {"an uncaptured event may be queried in relaxed mode", "ks yn ks", "0>1", 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture x = open_fixture();
        OK(cuStreamBeginCapture_v2(x.s, RELAXED));
        OK(script(&x, rows[i].script));
        OK(cuStreamEndCapture(x.s, &x.g));
        if (!x.g) {
            fprintf(stderr, "\n%s\n%s", rows[i].what, fakecuda_trace());
            continue;
        }
        CU_ASSERT_EQUAL(lib_nodes(x.g), rows[i].nodes);
        UNIT_SAME_TEXT(lib_edges(x.g), rows[i].edges);
        close_fixture(&x);
    }
}

/* Each row: a mode, a script whose last call fails, its error, and what the end of the capture then says. */
static void illegal_captures(void)
{
    static const struct {
        const char *what;
        CUstreamCaptureMode mode;
        const char *script;
        CUresult error, end;
    } rows[] = {
        {"wait for outside work", RELAXED, "ks wsn", 905, 901},
        {"wait for outside work first", RELAXED, "wsn", 905, 901},
        {"wait for an event that was never recorded", RELAXED, "wse", 905, 901},
        {"later calls fail too", RELAXED, "wsn ks", 905, 901},
        {"unjoined", RELAXED, "ks rse wte kt", 0, 904},
        {"joined too early", RELAXED, "ks rse wte kt rtf wsf kt", 0, 904},
        {"unjoined, and only by a third stream", RELAXED, "ks rse wte kt rtf wuf ku rtf wsf", 0, 904},
        {"synchronise the captured stream", RELAXED, "ks Ss", 900, 901},
        {"synchronise a joined stream", RELAXED, "ks rse wte St", 900, 901},
        {"synchronise the context", RELAXED, "ks A", 900, 901},
        {"query a captured event", RELAXED, "ks rse qe", 907, 901},
        {"wait on the host for a captured event", RELAXED, "ks rse ye", 907, 901},
        {"end in another stream", RELAXED, "ks rse wte Et", 903, 901},
        {"begin twice", RELAXED, "Bs", 401, 0},
        {"allocate, global", GLOBAL, "a", 900, 901},
        {"allocate, thread-local", LOCAL, "a", 900, 901},
        {"load a module, global", GLOBAL, "c", 900, 901},
        {"query an event, global", GLOBAL, "qn", 900, 901},
        {"synchronise another stream, global", GLOBAL, "Su", 900, 901},
        {"synchronous copy, thread-local", LOCAL, "x", 900, 901},
        {"the legacy stream, when a blocking stream is captured", RELAXED, "rse wbe l", 906, 901},
        {"synchronous copy, when a blocking stream is captured", RELAXED, "rse wbe x", 906, 901},
        {"record in the legacy stream", RELAXED, "rse wbe rzf", 906, 901},
        {"the legacy stream joins", RELAXED, "rse wze", 906, 901},
        {"two captures meet", RELAXED, "ks rse Bt wte", 902, 901},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture x = open_fixture();
        OK(cuStreamBeginCapture_v2(x.s, rows[i].mode));
        CUresult err = script(&x, rows[i].script);
        CUresult end = cuStreamEndCapture(x.s, &x.g);
        CU_ASSERT_EQUAL(err, rows[i].error);
        CU_ASSERT_EQUAL(end, rows[i].end);
        if (err != rows[i].error || end != rows[i].end)
            fprintf(stderr, "\n%s: %d, %d\n%s", rows[i].what, err, end, fakecuda_trace());
        if (end)
            CU_ASSERT_PTR_NULL(x.g);
        CUstreamCaptureStatus st;
        OK(cuStreamIsCapturing(x.t, &st));
        if (st != CU_STREAM_CAPTURE_STATUS_NONE) /* the second capture */
            FAILS(cuStreamEndCapture(x.t, &x.g), 901);
        OK(script(&x, "ks kt Ss St")); /* usable again */
        close_fixture(&x);
    }
}

static void relaxed_allows(void)
{
    struct fixture x = open_fixture();
    CUdeviceptr p;
    CUmodule m;
    OK(cuStreamBeginCapture_v2(x.s, RELAXED));
    OK(cuMemAlloc_v2(&p, 4));
    OK(cuMemFree_v2(p));
    OK(cuModuleLoadData(&m, "fakecubin"));
    OK(cuModuleUnload(m));
    OK(cuStreamSynchronize(x.u));
    OK(cuStreamEndCapture(x.s, &x.g));
    close_fixture(&x);

    /* A thread may relax itself for a stretch; exchanging twice restores. */
    x = open_fixture();
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cuStreamBeginCapture_v2(x.s, GLOBAL));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    CU_ASSERT_EQUAL(mode, GLOBAL);
    OK(cuMemAlloc_v2(&p, 4));
    OK(cuMemFree_v2(p));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    CU_ASSERT_EQUAL(mode, RELAXED);
    FAILS(cuMemAlloc_v2(&p, 4), 900);
    FAILS(cuStreamEndCapture(x.s, &x.g), 901);
    close_fixture(&x);
}

static void begin_and_end(void)
{
    struct fixture x = open_fixture();
    FAILS(cuStreamBeginCapture_v2(NULL, RELAXED), 900);
    FAILS(cuStreamBeginCapture_v2(CU_STREAM_LEGACY, RELAXED), 900);
    FAILS(cuStreamBeginCapture_v2(x.s, (CUstreamCaptureMode)3), 1);
    FAILS(cuStreamEndCapture(x.s, &x.g), 401);
    OK(cuStreamBeginCapture_v2(x.s, GLOBAL));
    OK(cuEventRecord(x.e, x.s));
    OK(cuStreamEndCapture(x.s, &x.g));
    /* An event of a capture that is over is of no use outside, or to the next capture, until it is recorded again. */
    FAILS(cuEventQuery(x.e), 907);
    FAILS(cuStreamWaitEvent(x.t, x.e, 0), 905);
    OK(cuEventRecord(x.e, x.t));
    OK(cuStreamWaitEvent(x.u, x.e, 0));
    OK(cuStreamSynchronize(x.t));
    OK(cuEventQuery(x.e));
    close_fixture(&x);
}

/* A failure that is injected into the end ends the capture all the same. */
static void injected_end(void)
{
    struct fixture x = open_fixture();
    OK(cuStreamBeginCapture_v2(x.s, GLOBAL));
    OK(script(&x, "ks rse wte kt rtf wsf"));
    fakecuda_fail_call(1, CUDA_ERROR_OUT_OF_MEMORY);
    FAILS(cuStreamEndCapture(x.s, &x.g), CUDA_ERROR_OUT_OF_MEMORY);
    CU_ASSERT_PTR_NULL(x.g);
    CU_ASSERT_EQUAL(fakecuda_counts().captures, 0);
    CU_ASSERT_EQUAL(fakecuda_counts().graphs, 0);
    close_fixture(&x);
}

static void capture_information(void)
{
    struct fixture x = open_fixture();
    CUstreamCaptureStatus st;
    uint64_t id = 0, other = 0;
    CUgraph g = NULL;
    const CUgraphNode *deps = NULL;
    size_t n = 9;
    OK(cuStreamGetCaptureInfo_v2(x.s, &st, &id, &g, &deps, &n));
    CU_ASSERT_EQUAL(st, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamBeginCapture_v2(x.s, GLOBAL));
    OK(script(&x, "ks rse wte kt ks rtf wsf"));
    OK(cuStreamGetCaptureInfo_v2(x.s, &st, &id, &g, &deps, &n));
    CU_ASSERT_EQUAL(st, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CU_ASSERT_EQUAL(n, 2);
    const CUgraphEdgeData *data = NULL;
    OK(cuStreamGetCaptureInfo_v3(x.t, &st, &other, NULL, &deps, &data, &n));
    CU_ASSERT_EQUAL(n, 1);
    CU_ASSERT_EQUAL(id, other);
    CU_ASSERT_EQUAL(lib_nodes(g), 3);
    FAILS(cuGraphDestroy(g), 1);

    /* The dependencies can be set by hand: here the origin forgets the side stream, which is then not joined. */
    OK(cuStreamGetCaptureInfo_v2(x.s, &st, NULL, NULL, &deps, &n));
    OK(cuStreamUpdateCaptureDependencies(x.s, (CUgraphNode *)deps, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    FAILS(cuStreamEndCapture(x.s, &x.g), 904);
    FAILS(cuStreamUpdateCaptureDependencies(x.s, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES), 401);
    close_fixture(&x);
}

struct other_thread {
    struct fixture *x;
    CUresult result;
    int what; /* 0: end the capture, 1: query an event, 2: launch into the captured stream */
};

static void *other_thread(void *arg)
{
    struct other_thread *o = arg;
    CUresult err = cuCtxPushCurrent_v2(o->x->l.ctx);
    CUgraph g;
    if (!err)
        err = o->what == 0   ? cuStreamEndCapture(o->x->s, &g)
              : o->what == 1 ? cuEventQuery(o->x->plain)
                             : lib_set(o->x->l.set, o->x->p, 1, o->x->s);
    o->result = err;
    cuCtxPopCurrent_v2(NULL);
    return NULL;
}

static void threads(void)
{
    static const struct {
        CUstreamCaptureMode mode;
        int what;
        CUresult there, end;
    } rows[] = {
        {GLOBAL, 0, 908, 0}, {LOCAL, 0, 908, 0}, {GLOBAL, 1, 900, 901},
        {LOCAL, 1, 0, 0},    {RELAXED, 1, 0, 0}, {GLOBAL, 2, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture x = open_fixture();
        struct other_thread o = {.x = &x, .what = rows[i].what};
        OK(cuStreamSynchronize(x.u));
        OK(cuStreamBeginCapture_v2(x.s, rows[i].mode));
        pthread_t t;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, other_thread, &o), 0);
        pthread_join(t, NULL);
        CU_ASSERT_EQUAL(o.result, rows[i].there);
        CU_ASSERT_EQUAL(cuStreamEndCapture(x.s, &x.g), rows[i].end);
        close_fixture(&x);
    }
}

/* Allocations and frees of a capture are nodes, and the graph's own. */
static void memory_nodes(void)
{
    struct fixture x = open_fixture();
    CUdeviceptr p = 0, outside = 0;
    CUgraphExec ge, second;
    OK(cuMemAllocAsync(&outside, 64, x.s));
    OK(cuStreamBeginCapture_v2(x.s, GLOBAL));
    OK(cuMemAllocAsync(&p, 64, x.s));
    OK(lib_set(x.l.set, p, 5, x.s));
    OK(lib_set(x.l.set, x.p, 0, x.s));
    OK(lib_add(x.l.add, x.p, p, x.s));
    OK(cuMemFreeAsync(p, x.s));
    OK(cuStreamEndCapture(x.s, &x.g));
    UNIT_SAME_TEXT(lib_edges(x.g), "0>1 1>2 2>3 3>4");
    CU_ASSERT_EQUAL(fakecuda_counts().allocations, 2);
    OK(cuGraphInstantiateWithFlags(&ge, x.g, 0));
    FAILS(cuGraphInstantiateWithFlags(&second, x.g, 0), CUDA_ERROR_NOT_SUPPORTED);
    for (int i = 0; i < 3; i++)
        OK(cuGraphLaunch(ge, x.s));
    OK(cuStreamSynchronize(x.s));
    CU_ASSERT_EQUAL(lib_peek(x.p), 5);
    OK(cuMemFreeAsync(outside, x.s));
    OK(cuStreamSynchronize(x.s));
    OK(cuGraphExecDestroy(ge));
    close_fixture(&x);
}

static void memory_that_outlives_a_launch(void)
{
    for (int automatic = 0; automatic < 2; automatic++) {
        struct fixture x = open_fixture();
        CUdeviceptr p = 0, outside = 0;
        CUgraphExec ge;
        OK(cuMemAllocAsync(&outside, 64, x.u));
        OK(cuStreamBeginCapture_v2(x.s, GLOBAL));
        FAILS(cuMemFreeAsync(outside, x.s), CUDA_ERROR_INVALID_VALUE); /* not the graph's */
        OK(cuMemAllocAsync(&p, 64, x.s));
        OK(lib_set(x.l.set, p, 5, x.s));
        OK(cuStreamEndCapture(x.s, &x.g));
        OK(cuGraphInstantiateWithFlags(&ge, x.g, (unsigned)automatic));
        OK(cuGraphLaunch(ge, x.s));
        CU_ASSERT_EQUAL(cuGraphLaunch(ge, x.s), automatic ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
        CU_ASSERT_EQUAL(fakecuda_counts().allocations, 3);
        OK(cuMemFreeAsync(p, x.s));
        OK(cuMemFreeAsync(outside, x.u));
        OK(cuCtxSynchronize());
        OK(cuGraphExecDestroy(ge));
        close_fixture(&x);
    }
}

UNIT_MAIN("stand-in: capture", {"legal captures", legal_captures}, {"illegal captures", illegal_captures},
          {"relaxed allows", relaxed_allows}, {"begin and end", begin_and_end}, {"injected end", injected_end},
          {"capture information", capture_information}, {"threads", threads}, {"memory nodes", memory_nodes},
          {"memory that outlives a launch", memory_that_outlives_a_launch})
