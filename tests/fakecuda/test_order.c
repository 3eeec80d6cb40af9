/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches of one program follow each other: graphs and eager launches in any order, on streams that come and go, with
 * handles that are used again, none waited for. The plan's state tells how many launches there were, and in what order
 * their ops ran; a graph that is launched again and again pays nothing for it.
 */
#include "rig.h"

#include <pthread.h>

enum { WALKS = 300, ACTIONS = 24, STREAMS = 3 };

struct walk {
    struct rig r;
    struct stem_graph *graph[2]; /* by nodes, by capture */
    CUstream stream[STREAMS];
    uint32_t launches;
    uint64_t rng;
    char log[ACTIONS * 24];
    size_t len;
};

static uint32_t pick(struct walk *w, uint32_t n)
{
    w->rng = w->rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->rng >> 33) % n;
}

static void open_walk(struct walk *w, struct stem_plan *plan, uint64_t seed)
{
    struct stem_rt_error err;
    memset(w, 0, sizeof *w);
    rig_open_caller(&w->r, EAGER, plan);
    fakecuda_seed(seed);
    w->rng = seed;
    CU_ASSERT_EQUAL(rig_open_program(&w->r, &err), STEM_OK);
    for (int i = 0; i < STREAMS; i++)
        OWN(OK(cuStreamCreate(&w->stream[i], CU_STREAM_NON_BLOCKING)));
    CU_ASSERT_EQUAL(stem_graph_new(w->r.exec, 0, STEM_GRAPH_BY_NODES, &w->graph[0], &err), STEM_OK);
    CU_ASSERT_EQUAL(stem_graph_new(w->r.exec, 0, STEM_GRAPH_BY_CAPTURE, &w->graph[1], &err), STEM_OK);
}

/* True if every launch left what one after another would have. */
static bool close_walk(struct walk *w, int32_t ext[EXTERNALS][PLAN_INTS])
{
    int32_t *rows[EXTERNALS] = {ext[0], ext[1], ext[2], ext[3]};
    for (uint32_t i = 0; i + 1 < w->launches; i++)
        plans_expect(w->r.plan, rows);
    stem_graph_free(w->graph[0]);
    stem_graph_free(w->graph[1]);
    rig_close_program(&w->r); /* waits: nothing else does */
    bool ok = !w->launches || rig_outputs_right(&w->r, ext);
    for (int i = 0; i < STREAMS; i++)
        OWN(OK(cuStreamDestroy_v2(w->stream[i])));
    fakecuda_finish();
    return rig_close_caller(&w->r) && ok;
}

/* Weights by a copy of the program's own: waits for the last launch, and moves the buffer under both graphs. */
static enum stem_status bind_again(struct walk *w, struct stem_rt_error *err)
{
    static int32_t host[PLAN_INTS];
    const struct stem_plan_buffer *b = stem_exec_buffer(w->r.exec, 0, 1);
    struct stem_array a = {(uint64_t)(uintptr_t)host, b->dtype, b->rank, b->dim, NULL};
    memcpy(host, (void *)(uintptr_t)w->r.ext[1], sizeof host);
    enum stem_status s = stem_exec_bind_host(w->r.exec, 1, &a, err);
    for (int i = 0; i < 2 && !s; i++)
        s = stem_graph_update(w->graph[i], err);
    return s;
}

static enum stem_status act(struct walk *w, uint32_t what, struct stem_rt_error *err)
{
    uint32_t i = pick(w, STREAMS + 1);
    CUstream stream = i == STREAMS ? CU_STREAM_PER_THREAD : w->stream[i];
    enum stem_status s = STEM_OK;
    w->len += (size_t)snprintf(w->log + w->len, sizeof w->log - w->len, " %u@%u", (unsigned)what, (unsigned)i);
    switch (what) {
    case 0 ... 5:
        s = stem_graph_launch(w->graph[what % 2], stream, err);
        break;
    case 6:
        s = stem_exec_launch(w->r.exec, 0, stream, err);
        break;
    case 7:
        return bind_again(w, err);
    default: /* gone with work pending; the next one has its handle */
        i = i % STREAMS;
        OWN(OK(cuStreamDestroy_v2(w->stream[i])); OK(cuStreamCreate(&w->stream[i], CU_STREAM_NON_BLOCKING)));
        return STEM_OK;
    }
    w->launches += s == STEM_OK;
    return s;
}

static void any_order(void)
{
    struct stem_plan *plan = plan_one_layer();
    for (uint64_t seed = 1; seed <= WALKS; seed++) {
        struct walk w;
        struct stem_rt_error err = {0};
        int32_t ext[EXTERNALS][PLAN_INTS];
        open_walk(&w, plan, seed);
        fakecuda_reuse_streams(seed % 8 > 1);
        rig_set_inputs(&w.r, ext);
        /* Some walks have graphs alone, so that they change streams before anything else has marked a launch. */
        uint32_t kinds = seed % 4 == 0 ? 6 : seed % 4 == 1 ? 8 : 12;
        bool ok = true;
        for (uint32_t i = 0; i < 2 + seed % ACTIONS && ok; i++)
        {
            uint32_t what = pick(&w, kinds);
            ok = act(&w, seed % 4 == 3 && (what == 6 || what == 7) ? 8 : what, &err) == STEM_OK;
        }
        ok = close_walk(&w, ext) && ok;
        CU_ASSERT(ok);
        if (!ok) {
            fprintf(stderr, "\nwalk %llu:%s: \"%s\"\n%s", (unsigned long long)seed, w.log, err.message, fakecuda_faults());
            break;
        }
    }
    stem_plan_free(plan);
}

/* Each driver call fails once; what failed is tried again, and all launches are there in the end. */
static bool one_failure(struct stem_plan *plan, uint64_t n, bool *happened)
{
    /* Which graph, on which stream; 9: bind_again. */
    static const uint8_t script[][2] = {{0, 0}, {0, 1}, {1, 2}, {0, 0}, {9, 0}, {1, 0}, {0, 1}};
    struct walk w;
    struct stem_rt_error err = {0};
    int32_t ext[EXTERNALS][PLAN_INTS];
    bool ok = true;
    open_walk(&w, plan, n);
    rig_set_inputs(&w.r, ext);
    fakecuda_fail_call(n, CUDA_ERROR_OUT_OF_MEMORY);
    for (size_t i = 0; i < sizeof script / sizeof *script; i++)
        for (int again = 0; again < 2; again++) {
            enum stem_status s = script[i][0] == 9
                                     ? bind_again(&w, &err)
                                     : stem_graph_launch(w.graph[script[i][0]], w.stream[script[i][1]], &err);
            bool launched = script[i][0] != 9 && (!s || strstr(err.message, "marking the end"));
            w.launches += launched;
            ok = ok && (!s || (!again && err.message[0] && fakecuda_failed()));
            if (!s || launched)
                break;
        }
    *happened = fakecuda_failed();
    ok = close_walk(&w, ext) && ok;
    if (!ok)
        fprintf(stderr, "\nfailure of call %llu, %s: \"%s\"\n%s", (unsigned long long)n, fakecuda_failed_call(), err.message,
                fakecuda_faults());
    return ok;
}

static void failures(void)
{
    struct stem_plan *plan = plan_one_layer();
    uint64_t n = 1;
    for (bool happened = true; happened; n++)
        CU_ASSERT(one_failure(plan, n, &happened));
    fprintf(stderr, "(%llu failures) ", (unsigned long long)n - 1);
    CU_ASSERT(n > 40);
    stem_plan_free(plan);
}

static void *launch_in_thread(void *user)
{
    struct walk *w = user;
    struct stem_rt_error err;
    CU_ASSERT_EQUAL(stem_graph_launch(w->graph[0], CU_STREAM_PER_THREAD, &err), STEM_OK);
    return NULL;
}

/* One handle, a stream for each thread: the launch in between is on another one. */
static void threads_of_their_own_streams(void)
{
    struct stem_plan *plan = plan_one_layer();
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct walk w;
        struct stem_rt_error err;
        pthread_t t;
        int32_t ext[EXTERNALS][PLAN_INTS];
        open_walk(&w, plan, seed);
        rig_set_inputs(&w.r, ext);
        CU_ASSERT_EQUAL(stem_graph_launch(w.graph[0], CU_STREAM_PER_THREAD, &err), STEM_OK);
        pthread_create(&t, NULL, launch_in_thread, &w);
        pthread_join(t, NULL);
        CU_ASSERT_EQUAL(stem_graph_launch(w.graph[1], CU_STREAM_PER_THREAD, &err), STEM_OK);
        w.launches = 3;
        CU_ASSERT(close_walk(&w, ext));
    }
    stem_plan_free(plan);
}

static unsigned events(void)
{
    unsigned n = 0;
    for (const char *at = fakecuda_trace(); (at = strstr(at, "Event")); at++)
        n++;
    fakecuda_trace_clear();
    return n;
}

static unsigned calls(void)
{
    unsigned n = 0;
    for (const char *at = fakecuda_trace(); *at; at++)
        n += *at == '\n';
    fakecuda_trace_clear();
    return n;
}

/* What a launch costs: nothing while one graph is launched on any stream, or several on one; an event each once
 * launches have moved between streams. */
static void what_it_costs(void)
{
    struct stem_plan *plan = plan_one_layer();
    struct walk w;
    struct stem_rt_error err;
    int32_t ext[EXTERNALS][PLAN_INTS];
    open_walk(&w, plan, 1);
    rig_set_inputs(&w.r, ext);
    fakecuda_trace_clear();
    for (int i = 0; i < 6; i++, w.launches++)
        CU_ASSERT_EQUAL(stem_graph_launch(w.graph[0], w.stream[i % 2], &err), STEM_OK);
    CU_ASSERT_EQUAL(events(), 0);
    /* Again on the same stream: a question and the launch, also where no context is current; a capture is noticed. */
    CU_ASSERT_EQUAL(stem_graph_launch(w.graph[0], w.stream[1], &err), STEM_OK);
    CU_ASSERT_EQUAL(calls(), 2);
    CU_ASSERT_EQUAL(cuCtxPopCurrent_v2(NULL), CUDA_SUCCESS);
    CU_ASSERT_EQUAL(stem_graph_launch(w.graph[0], w.stream[1], &err), STEM_OK);
    CU_ASSERT_EQUAL(cuCtxPushCurrent_v2(w.r.ctx), CUDA_SUCCESS);
    w.launches += 2;
    OWN(OK(cuStreamBeginCapture_v2(w.stream[1], CU_STREAM_CAPTURE_MODE_RELAXED)));
    CU_ASSERT_EQUAL(stem_graph_launch(w.graph[0], w.stream[1], &err), STEM_E_CAPTURE);
    CUgraph captured = NULL;
    OWN(OK(cuStreamEndCapture(w.stream[1], &captured)); OK(cuGraphDestroy(captured)));
    fakecuda_trace_clear();
    for (int i = 0; i < 6; i++, w.launches++)
        CU_ASSERT_EQUAL(stem_graph_launch(w.graph[i % 2], w.stream[1], &err), STEM_OK);
    CU_ASSERT_EQUAL(events(), 0);
    CU_ASSERT_EQUAL(stem_graph_launch(w.graph[0], w.stream[0], &err), STEM_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(fakecuda_trace(), "cuGraphNodeSetEnabled"));
    CU_ASSERT_EQUAL(events(), 1); /* its own mark */
    for (int i = 0; i < 6; i++, w.launches++)
        CU_ASSERT_EQUAL(stem_graph_launch(w.graph[i % 2], w.stream[i % 2], &err), STEM_OK);
    CU_ASSERT_EQUAL(events(), 12);
    w.launches++;
    CU_ASSERT(close_walk(&w, ext));
    stem_plan_free(plan);
}

UNIT_MAIN("runtime: the order of launches", {"any order, streams that come and go", any_order},
          {"per-thread streams", threads_of_their_own_streams}, {"every call fails once", failures}, {"what it costs", what_it_costs})
