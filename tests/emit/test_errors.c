/* SPDX-License-Identifier: Apache-2.0
 *
 * Emitted code when things go wrong: every driver call made to fail in turn, and bad input, each with its own error.
 */
#include "rig.h"

#include <pthread.h>
#include <stdlib.h>

#include "programs.h"

static struct program programs[] = {PROGRAMS};
enum { N_PROGRAMS = sizeof programs / sizeof programs[0] };

static const struct program *named(const char *name)
{
    for (int i = 0; i < N_PROGRAMS; i++)
        if (!strcmp(programs[i].name, name))
            return &programs[i];
    return NULL;
}

static void idle(void *user, const char *kernel, const uint32_t grid[3], const uint32_t block[3], uint32_t smem,
                 void *const *params, uint32_t n)
{
    (void)user, (void)kernel, (void)grid, (void)block, (void)smem, (void)params, (void)n;
}

#define OWN(statement)        \
    do {                      \
        fakecuda_own(true);   \
        statement;            \
        fakecuda_own(false);  \
    } while (0)

/* ---- every call fails once ---- */

#define PATHS(X) X(EAGER) X(EAGER_POOL) X(EAGER_CALLBACKS) X(RECORD) X(BUILD) X(GRAPH)
enum path {
#define X(name) name,
    PATHS(X)
#undef X
        N_PATHS
};

static int record(struct caller *c, void *program, int64_t T, struct emitted_error *e)
{
    CUgraph g = NULL;
    OWN(OK(cuStreamBeginCapture_v2(c->stream, CU_STREAM_CAPTURE_MODE_GLOBAL)));
    int s = c->p->api.launch(program, T, c->stream, e);
    CUresult end;
    OWN(end = cuStreamEndCapture(c->stream, &g));
    /* Rejoined or invalidated, never left open. */
    CU_ASSERT(end == CUDA_SUCCESS || (s && end == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
    if (g)
        OWN(OK(cuGraphDestroy(g)));
    return s;
}

static int graph(struct caller *c, void *program, int64_t T, struct emitted_error *e)
{
    const struct emitted_api *api = &c->p->api;
    void *g = NULL, *other = NULL;
    CUstream second;
    CUdeviceptr was = c->at[0], moved;
    OWN(OK(cuMemAlloc_v2(&moved, 1 << 16)));
    int s = api->graph_create(program, T, &g, e);
    s = s ? s : api->graph_launch(g, c->stream, e);
    c->at[0] = moved;
    s = s ? s : caller_bind(c, program, 0, 0, e);
    c->at[0] = was;
    s = s ? s : api->graph_update(g, e);
    s = s ? s : api->graph_launch(g, c->stream, e);
    /* On another stream, behind the first, which is launched again after it; no event had marked it. */
    OWN(OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING)));
    s = s ? s : api->graph_create(program, T, &other, e);
    s = s ? s : api->graph_launch(other, second, e);
    s = s ? s : api->graph_launch(g, c->stream, e);
    OWN(cuStreamSynchronize(c->stream); cuStreamSynchronize(second); OK(cuStreamDestroy_v2(second)));
    api->graph_destroy(other);
    api->graph_destroy(g);
    OWN(OK(cuMemFree_v2(moved)));
    return s;
}

static int scenario(struct caller *c, enum path path, struct emitted_error *e)
{
    const struct emitted_api *api = &c->p->api;
    int64_t T = program_T(c->p, 0);
    enum mode mode = path == EAGER_CALLBACKS ? CALLBACKS : path == EAGER_POOL ? POOL : SLAB;
    void *program = NULL, *g = NULL;
    int s = caller_program(c, 0, mode, &program, e);
    if (!s && path == RECORD)
        s = record(c, program, T, e);
    else if (!s && path == BUILD)
        s = api->build(program, T, &g, e);
    else if (!s && path == GRAPH)
        s = graph(c, program, T, e);
    else if (!s)
        s = api->launch(program, T, c->stream, e);
    CU_ASSERT(!s || !g);
    if (g)
        OWN(OK(cuGraphDestroy(g)));
    OWN(cuStreamSynchronize(c->stream));
    api->destroy(program);
    return s;
}

static bool one_failure(const struct program *p, enum path path, uint64_t n)
{
    struct caller c;
    struct emitted_error e = {0};
    char what[160];
    caller_open(&c, p, 0);
    fakecuda_set_runner(idle, NULL);
    fakecuda_fail_call(n, CUDA_ERROR_OUT_OF_MEMORY);
    int s = scenario(&c, path, &e);
    snprintf(what, sizeof what, "path %d, failure of call %llu, %s", (int)path, (unsigned long long)n, fakecuda_failed_call());
    CU_ASSERT(fakecuda_failed());
    fakecuda_fail_call(0, 0);
    bool ok = caller_clean(&c, what) && !fakecuda_counts().faults;
    if (s && (e.status != s || !e.message[0])) {
        fprintf(stderr, "\n%s: %s: status %d, \"%s\"\n", p->name, what, s, e.message);
        ok = false;
    }
    int again = scenario(&c, path, &e);
    if (again)
        fprintf(stderr, "\n%s: %s: then %d \"%s\"\n", p->name, what, again, e.message);
    ok = caller_clean(&c, what) && ok && !again;
    caller_close(&c);
    return ok;
}

static void every_call_fails_once(void)
{
    static const char *const names[] = {"qkv_three_streams", "piecewise", "with_extern", "products"};
    uint64_t failures = 0;
    for (size_t x = 0; x < sizeof names / sizeof *names; x++)
        for (int path = 0; path < N_PATHS; path++) {
            const struct program *p = named(names[x]);
            struct emitted_error e = {0};
            struct caller c;
            if (!p->library || (!strcmp(p->name, "piecewise") && (path == RECORD || path == BUILD)))
                continue;
            caller_open(&c, p, 0);
            fakecuda_set_runner(idle, NULL);
            uint64_t before = fakecuda_calls();
            CU_ASSERT_EQUAL(scenario(&c, (enum path)path, &e), 0);
            uint64_t n = fakecuda_calls() - before;
            caller_close(&c);
            CU_ASSERT(n > 40);
            for (uint64_t i = 1; i <= n; i++, failures++)
                CU_ASSERT(one_failure(p, (enum path)path, i));
        }
    fprintf(stderr, "(%llu failures) ", (unsigned long long)failures);
}

/* ---- bad input ---- */

struct bench {
    struct caller c;
    const struct emitted_api *api;
    void *program;
    struct emitted_error e;
    int64_t T;
};

static void bench_open(struct bench *b, const char *name, enum mode mode)
{
    memset(b, 0, sizeof *b);
    caller_open(&b->c, named(name), 0);
    b->api = &b->c.p->api;
    b->T = program_T(b->c.p, 0);
    CU_ASSERT_EQUAL(caller_program(&b->c, 0, mode, &b->program, &b->e), 0);
}

static void bench_close(struct bench *b)
{
    CU_ASSERT_EQUAL(b->api->launch(b->program, b->T, b->c.stream, &b->e), 0); /* it can still be used */
    OK(cuStreamSynchronize(b->c.stream));
    b->api->destroy(b->program);
    CU_ASSERT(caller_clean(&b->c, "bad input"));
    caller_close(&b->c);
}

static void expect(const struct bench *b, int status, int want, const char *text)
{
    bool fine = status == want && b->e.status == want && strstr(b->e.message, text);
    CU_ASSERT(fine);
    if (!fine)
        fprintf(stderr, "\n%d instead of %d: \"%s\"; \"%s\" expected\n", status, want, b->e.message, text);
}

static void bad_tensors(void)
{
    static const struct {
        int64_t rows;
        int dtype;
        unsigned rank;
        int64_t stride;
        uint64_t offset;
        int want;
        const char *text;
    } cases[] = {
        {4, 2, 3, 0, 0, EMITTED_E_SHAPE, "hidden has the shape"},
        {4, 2, 7, 0, 0, EMITTED_E_SHAPE, "hidden: rank 7"},
        {0, 2, 2, 0, 0, EMITTED_E_SHAPE, "hidden has the shape [0, 128]"},
        {4, 0, 2, 0, 0, EMITTED_E_DTYPE, "hidden is of f32, bf16 is expected"},
        {4, 99, 2, 0, 0, EMITTED_E_DTYPE, "hidden is of an unknown type"},
        {4, 2, 2, 256, 0, EMITTED_E_STRIDES, "hidden is not contiguous"},
        {4, 2, 2, 0, 2, EMITTED_E_ALIGN, "hidden is at an address"},
        {4, 2, 2, 0, 1u << 30, EMITTED_E_WRONG_DEVICE, "hidden is not in the memory of a GPU"},
    };
    struct bench b;
    bench_open(&b, "qkv_three_streams", SLAB);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct emitted_tensor t = {.data = b.c.at[0] + cases[i].offset, .dtype = cases[i].dtype, .rank = cases[i].rank};
        t.dim[0] = cases[i].rows;
        t.dim[1] = 128;
        t.stride[0] = cases[i].stride;
        t.stride[1] = cases[i].stride != 0;
        expect(&b, b.api->bind(b.program, "hidden", &t, &b.e), cases[i].want, cases[i].text);
    }
    struct emitted_tensor fine = {.data = 0, .dtype = 2, .rank = 2, .dim = {4, 128}};
    expect(&b, b.api->bind(b.program, "hidden", &fine, &b.e), EMITTED_E_NULL, "hidden has no data");
    expect(&b, b.api->bind(b.program, "hiden", &fine, &b.e), EMITTED_E_NO_TENSOR, "no tensor hiden");
    expect(&b, b.api->bind(b.program, NULL, &fine, &b.e), EMITTED_E_ARGUMENT, "name is NULL");
    expect(&b, b.api->bind(b.program, "hidden", NULL, &b.e), EMITTED_E_ARGUMENT, "the tensor is NULL");
    fine.data = b.c.at[0];
    fakecuda_set_pointer_device(1);
    expect(&b, b.api->bind(b.program, "hidden", &fine, &b.e), EMITTED_E_WRONG_DEVICE, "hidden is in the memory of GPU 1");
    fakecuda_set_pointer_device(0);
    CU_ASSERT_EQUAL(b.api->bind(b.program, "hidden", NULL, NULL), EMITTED_E_ARGUMENT);
    bench_close(&b);
}

static void unbound_and_buckets(void)
{
    struct bench b;
    bench_open(&b, "qkv_three_streams", SLAB);
    void *other = NULL, *g = NULL;
    struct emitted_options o = {.libcuda = STAND_IN, .nvrtc = STAND_IN};
    CU_ASSERT_EQUAL(b.api->create(&o, &other, &b.e), 0);
    expect(&b, b.api->launch(other, b.T, b.c.stream, &b.e), EMITTED_E_UNBOUND, "hidden is not bound");
    expect(&b, b.api->build(other, b.T, &g, &b.e), EMITTED_E_UNBOUND, "hidden is not bound");
    b.api->destroy(other);
    expect(&b, b.api->launch(b.program, 5, b.c.stream, &b.e), EMITTED_E_BUCKET, "room for [5]; the largest is [4]");
    expect(&b, b.api->launch(b.program, 0, b.c.stream, &b.e), EMITTED_E_BUCKET, "room for [0]");
    expect(&b, b.api->launch(b.program, -1, b.c.stream, &b.e), EMITTED_E_BUCKET, "room for [-1]");
    /* Bound with the rows of the smallest bucket, launched for the next. */
    CU_ASSERT_EQUAL(b.T, 1);
    expect(&b, b.api->launch(b.program, 2, b.c.stream, &b.e), EMITTED_E_SHAPE, "hidden has the shape [1, 128], this bucket needs [4");
    expect(&b, b.api->launch(NULL, 1, b.c.stream, &b.e), EMITTED_E_ARGUMENT, "NULL");
    bench_close(&b);
}

/* Each dim must have room. */
static void buckets_of_two_dims(void)
{
    static const int64_t rows[][2] = {{1001, 1002}, {1003, 1004}, {2001, 3002}, {3004, 3004}, {1, 0}, {1005, 0}, {4001, 0}};
    struct bench b;
    bench_open(&b, "two_dims", SLAB);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CU_ASSERT_EQUAL(b.api->bucket(rows[i][0]), rows[i][1]);
        if (!rows[i][1])
            expect(&b, b.api->launch(b.program, rows[i][0], b.c.stream, &b.e), EMITTED_E_BUCKET, "; the largest is [3, 4]");
    }
    expect(&b, b.api->launch(b.program, 1005, b.c.stream, &b.e), EMITTED_E_BUCKET, "no bucket of model has room for [1, 5]");
    /* Bound for B = 1, T = 2: rows may be more than a bucket's, other dims may not. */
    expect(&b, b.api->launch(b.program, 1003, b.c.stream, &b.e), EMITTED_E_SHAPE, "x has the shape [1, 2, 64], this bucket needs [1, 4, 64]");
    struct emitted_tensor t = {.data = b.c.at[0], .dtype = 0, .rank = 3, .dim = {3, 2, 64}};
    CU_ASSERT_EQUAL(b.api->bind(b.program, "x", &t, &b.e), 0);
    CU_ASSERT_EQUAL(b.api->launch(b.program, 1002, b.c.stream, &b.e), 0);
    t.dim[1] = 3;
    expect(&b, b.api->bind(b.program, "x", &t, &b.e), EMITTED_E_SHAPE, "x has the shape [3, 3, 64], [3, 4, 64] is expected (in the largest bucket)");
    bench_close(&b);
}

static void captures(void)
{
    struct bench b;
    CUgraph g = NULL, other = NULL;
    CUstream second;
    void *graph = NULL;
    bench_open(&b, "qkv_three_streams", SLAB);
    OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    CU_ASSERT_EQUAL(b.api->graph_create(b.program, b.T, &graph, &b.e), 0);
    OK(cuStreamBeginCapture_v2(b.c.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU_ASSERT_EQUAL(b.api->launch(b.program, b.T, b.c.stream, &b.e), 0);
    /* Its side streams are in the first capture. */
    expect(&b, b.api->launch(b.program, b.T, second, &b.e), EMITTED_E_CAPTURE, "another capture that has not ended");
    OK(cuStreamBeginCapture_v2(second, CU_STREAM_CAPTURE_MODE_RELAXED));
    expect(&b, b.api->launch(b.program, b.T, second, &b.e), EMITTED_E_CAPTURE, "another capture that has not ended");
    expect(&b, b.api->graph_launch(graph, second, &b.e), EMITTED_E_CAPTURE, "the stream is capturing");
    OK(cuStreamEndCapture(second, &other));
    OK(cuStreamEndCapture(b.c.stream, &g));
    OK(cuGraphDestroy(g));
    OK(cuGraphDestroy(other));
    OK(cuStreamDestroy_v2(second));
    /* Bound again: stale until updated. */
    CUdeviceptr moved, was = b.c.at[0];
    OK(cuMemAlloc_v2(&moved, 4096));
    b.c.at[0] = moved;
    CU_ASSERT_EQUAL(caller_bind(&b.c, b.program, 0, 0, &b.e), 0);
    expect(&b, b.api->graph_launch(graph, b.c.stream, &b.e), EMITTED_E_STALE, "bound again");
    CU_ASSERT_EQUAL(b.api->graph_update(graph, &b.e), 0);
    CU_ASSERT_EQUAL(b.api->graph_launch(graph, b.c.stream, &b.e), 0);
    b.c.at[0] = was;
    CU_ASSERT_EQUAL(caller_bind(&b.c, b.program, 0, 0, &b.e), 0);
    b.api->graph_destroy(graph);
    OK(cuMemFree_v2(moved));
    bench_close(&b);
}

static void eager_parts_and_pools(void)
{
    struct bench b;
    CUgraph g = NULL;
    void *none = NULL;
    bench_open(&b, "piecewise", SLAB);
    OK(cuStreamBeginCapture_v2(b.c.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    expect(&b, b.api->launch(b.program, b.T, b.c.stream, &b.e), EMITTED_E_EAGER, "it is in an eager part");
    CU_ASSERT(b.e.line > 0 && b.e.op[0]);
    OK(cuStreamEndCapture(b.c.stream, &g));
    OK(cuGraphDestroy(g));
    expect(&b, b.api->build(b.program, b.T, &none, &b.e), EMITTED_E_EAGER, "it is in an eager part");
    bench_close(&b);
    bench_open(&b, "qkv_three_streams", POOL);
    OK(cuStreamBeginCapture_v2(b.c.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    expect(&b, b.api->launch(b.program, b.T, b.c.stream, &b.e), EMITTED_E_SLAB, "model_prepare");
    OK(cuStreamEndCapture(b.c.stream, &g));
    OK(cuGraphDestroy(g));
    bench_close(&b);
}

/* cuBLASLt that is missing, is none, or offers nothing that can be used. */
static void libraries(void)
{
    static const struct {
        const char *library, *algorithms, *text;
    } rows[] = {{"/nowhere/libcublasLt.so", "1", "no cuBLASLt: /nowhere"},
                {"/nowhere/libcublasLt.so", "1", "--matmul=own"},
                {"libm.so.6", "1", "has no cublasLtGetVersion"},
                {STAND_IN, "", "cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_NOT_SUPPORTED"},
                {STAND_IN, "0", "no algorithm for"},
                {STAND_IN, "m5", "something else than a chain"},
                {STAND_IN, "x", "cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"}};
    struct bench b;
    void *p = NULL;
    bench_open(&b, "products", SLAB);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct emitted_options o = {.libcuda = STAND_IN, .nvrtc = STAND_IN, .cublaslt = rows[i].library};
        fakecuda_cublaslt(rows[i].algorithms);
        expect(&b, b.api->create(&o, &p, &b.e), EMITTED_E_LIBRARY, rows[i].text);
        CU_ASSERT_PTR_NULL(p);
    }
    bench_close(&b);
}

static void creation(void)
{
    struct bench b;
    void *p = NULL;
    bench_open(&b, "dual_stream_moe", SLAB);
    const struct {
        struct emitted_options o;
        int want;
        const char *text;
    } cases[] = {
        {{.libcuda = "/nowhere/libcuda.so.1"}, EMITTED_E_NO_DRIVER, "no CUDA driver: /nowhere"},
        {{.libcuda = "libm.so.6"}, EMITTED_E_OLD_DRIVER, "has no cuInit"},
        {{.libcuda = STAND_IN, .device = 3}, EMITTED_E_NO_DEVICE, "there is no GPU 3: the driver finds 1"},
        {{.libcuda = STAND_IN, .slab = 4096, .slab_bytes = 16}, EMITTED_E_SLAB, "the slab has 16 bytes"},
        {{.libcuda = STAND_IN, .slab = 4100, .slab_bytes = 1 << 30}, EMITTED_E_SLAB, "not aligned"},
        {{.libcuda = STAND_IN, .slab = 4096, .slab_bytes = 1 << 30, .pool = 1}, EMITTED_E_ARGUMENT, "exclude"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        p = &b;
        expect(&b, b.api->create(&cases[i].o, &p, &b.e), cases[i].want, cases[i].text);
        CU_ASSERT_PTR_NULL(p);
    }
    void *graph = &b;
    CU_ASSERT_NOT_EQUAL(b.api->graph_create(NULL, b.T, &graph, &b.e), 0);
    CU_ASSERT_PTR_NULL(graph);
    fakecuda_set_driver_version(12030);
    expect(&b, b.api->create(&(struct emitted_options){.libcuda = STAND_IN}, &p, &b.e), EMITTED_E_OLD_DRIVER, "is of CUDA 12.3");
    fakecuda_set_driver_version(13000);
    expect(&b, b.api->create(&(struct emitted_options){.libcuda = STAND_IN}, NULL, &b.e), EMITTED_E_ARGUMENT, "no place");
    bench_close(&b);
    bench_open(&b, "with_extern", SLAB);
    expect(&b, b.api->create(&(struct emitted_options){.libcuda = STAND_IN}, &p, &b.e), EMITTED_E_EXTERN, "options.clear is NULL");
    bench_close(&b);
    libraries();
}

/* Emitted for sm_90: other generations, and the one before, are refused, and nothing is left. */
static void other_architectures(void)
{
    static const int others[] = {80, 86, 100, 120};
    static const char for_80[] = "fakecubin sm_80\n";
    struct bench b;
    void *p = NULL;
    bench_open(&b, "dual_stream_moe", SLAB); /* cubins */
    struct emitted_options o = {.libcuda = STAND_IN, .nvrtc = STAND_IN};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char text[100];
        fakecuda_set_arch(others[i]);
        snprintf(text, sizeof text, "the kernels were built for sm_90, this GPU is of sm_%d", others[i]);
        expect(&b, b.api->create(&o, &p, &b.e), EMITTED_E_ARCH, text);
        CU_ASSERT_PTR_NULL(p);
    }
    fakecuda_set_arch(90);
    o.image = for_80; /* given by hand */
    expect(&b, b.api->create(&o, &p, &b.e), EMITTED_E_ARCH, "not built for this GPU, which is of sm_90");
    bench_close(&b);
}

/* Kernels as source: the stand-in's NVRTC knows 80, 90, 100 and 120. */
static void architectures_of_nvrtc(void)
{
    static const struct {
        int sm, status;
    } rows[] = {{80, 0}, {86, 0}, {90, 0}, {100, 0}, {103, 0}, {121, 0}, {75, EMITTED_E_ARCH}, {110, EMITTED_E_ARCH}};
    struct bench b;
    void *p = NULL;
    bench_open(&b, "qkv_three_streams", SLAB);
    struct emitted_options o = {.libcuda = STAND_IN, .nvrtc = STAND_IN};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fakecuda_set_arch(rows[i].sm);
        int s = b.api->create(&o, &p, &b.e);
        CU_ASSERT_EQUAL(s, rows[i].status);
        if (s)
            expect(&b, s, EMITTED_E_ARCH, "it knows sm_80 to sm_120");
        b.api->destroy(p);
    }
    fakecuda_set_arch(90);
    o.nvrtc = "/nowhere/libnvrtc.so";
    expect(&b, b.api->create(&o, &p, &b.e), EMITTED_E_COMPILE, "NVRTC cannot be loaded");
    bench_close(&b);
}

/* From the function that the program calls, the program is in use: as it is from another thread. */
static struct bench *busy_bench;
static int busy_status;

static void *second_thread(void *user)
{
    struct emitted_error *e = user;
    busy_status = busy_bench->api->launch(busy_bench->program, busy_bench->T, busy_bench->c.stream, e);
    return NULL;
}

static int failing(const void *call, void *stream)
{
    pthread_t t;
    (void)call, (void)stream;
    pthread_create(&t, NULL, second_thread, &busy_bench->e);
    pthread_join(t, NULL);
    expect(busy_bench, busy_status, EMITTED_E_BUSY, "in use by another thread");
    return 5;
}

static void two_threads(void)
{
    struct bench b;
    struct emitted_options o = {.libcuda = STAND_IN, .fn = failing};
    void *p = NULL;
    bench_open(&b, "with_extern", SLAB);
    void *was = b.program;
    CU_ASSERT_EQUAL(b.api->create(&o, &p, &b.e), 0);
    b.program = p;
    busy_bench = &b;
    for (uint32_t i = 0; i < b.c.p->plan->n_external; i++)
        CU_ASSERT_EQUAL(caller_bind(&b.c, p, 0, i, &b.e), 0);
    expect(&b, b.api->launch(p, b.T, b.c.stream, &b.e), EMITTED_E_EXTERN, "function clear returned 5");
    CU_ASSERT_STRING_EQUAL(b.e.op, "b");
    CU_ASSERT_EQUAL(b.e.line, 7);
    OK(cuStreamSynchronize(b.c.stream));
    b.api->destroy(p);
    /* The adapter keeps one function for all programs. */
    o.fn = rig_extern;
    CU_ASSERT_EQUAL(b.api->create(&o, &p, &b.e), 0);
    b.api->destroy(p);
    b.program = was;
    bench_close(&b);
}

int main(void)
{
    static const struct unit_test tests[] = {{"every call fails once", every_call_fails_once},
                                             {"tensors", bad_tensors},
                                             {"unbound tensors, buckets", unbound_and_buckets},
                                             {"buckets of two dims", buckets_of_two_dims},
                                             {"captures, stale graphs", captures},
                                             {"eager parts, pools", eager_parts_and_pools},
                                             {"creation", creation},
                                             {"other architectures", other_architectures},
                                             {"architectures of NVRTC", architectures_of_nvrtc},
                                             {"two threads, a function that fails", two_threads}};
    return programs_test("emitted code: errors", programs, N_PROGRAMS, tests, sizeof tests / sizeof tests[0]);
}
