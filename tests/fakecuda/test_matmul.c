/* SPDX-License-Identifier: Apache-2.0
 *
 * Products by cuBLASLt, under the stand-in for the library: every way of launching against the CPU device, updates, what is
 * missing or refused, every call failing once.
 */
#include <stdlib.h>

#include "cpu/cpu.h"
#include "driver.h"
#include "fakecuda.h"
#include "mainstem.h"
#include "plan_runner.h"
#include "unit.h"

enum { SEEDS = 3, N_PRODUCTS = 4, MAX_EXTERNAL = 16 };

static const char text[] = "module products;\n"
                           "dim T in 1..1024 = 8;\n"
                           "const H = 64;\n"
                           "model m(x: bf16[T, H], r: bf16[T, H]) -> (y: bf16[T, H], g: f32[T, 16]) {\n"
                           "  weight wg: bf16[16, H];\n"
                           "  weight w1: bf16[2 * H, H];\n"
                           "  weight w2: bf16[H, H];\n"
                           "  weight n: bf16[H];\n"
                           "  h = rmsnorm(x, n);\n"
                           "  g = linear(h, wg, out = f32) on side;\n"
                           "  s = silu_mul(linear(h, w1));\n"
                           "  a = linear(s, w2);\n"
                           "  b = linear(h, w2) on side;\n"
                           "  return a + b + r, g;\n"
                           "}\n";

static struct stem_jit *compile(const char *matmul, const char *dims)
{
    const char *wide = "H=2048"; /* where the library is worth it */
    const struct stem_program_options o = {
        .matmul = matmul, .dims = &dims, .n_dims = 1, .defines = &wide, .n_defines = strcmp(dims, "T=1024") == 0};
    struct stem_jit *jit = stem_jit_text("products.stem", text, sizeof text - 1, &o);
    if (!stem_jit_plan(jit))
        fprintf(stderr, "\n%s", stem_jit_text_of_messages(jit));
    CU_ASSERT_PTR_NOT_NULL_FATAL(stem_jit_plan(jit));
    return jit;
}

static uint32_t products(const struct stem_plan *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->variants[0].n_ops; i++)
        n += p->variants[0].ops[i].work == STEM_WORK_MATMUL;
    return n;
}

/* ---- a program and its results ---- */

struct program {
    const struct stem_plan *plan;
    struct plan_runner runner;
    struct stem_rt *rt;
    struct stem_exec *e;
    struct stem_graph *g;
    struct CUstream_st *s;
    struct stem_rt_error err;
};

enum path { EAGER, POOL, RECORD, BY_CAPTURE, BY_NODES, N_PATHS };

/* What the results are of the inputs and weights of a seed. */
static void expected(const struct stem_plan *p, uint64_t seed, void **data)
{
    char *error = NULL;
    struct stem_cpu *c = stem_cpu_new(p, &error);
    for (uint32_t i = 0; i < p->n_external; i++) {
        const struct stem_plan_buffer *b = &p->variants[0].buffers[i];
        data[i] = calloc(1, b->bytes);
        if (b->kind != STEM_BUFFER_OUTPUT)
            stem_fill(b, seed, data[i]);
        stem_cpu_bind(c, 0, i, data[i]);
    }
    CU_ASSERT(c && stem_cpu_run(c, 0, &(struct stem_cpu_options){.order = STEM_CPU_ISSUE}, &error));
    free(error);
    stem_cpu_free(c);
}

static bool right(struct program *p, uint64_t seed)
{
    void *want[MAX_EXTERNAL];
    bool same = true;
    expected(p->plan, seed, want);
    for (uint32_t i = 0; i < p->plan->n_external; i++) {
        const void *at = (const void *)(uintptr_t)stem_exec_address(p->e, i);
        same = same && memcmp(at, want[i], p->plan->variants[0].buffers[i].bytes) == 0;
        free(want[i]);
    }
    return same && !fakecuda_counts().faults;
}

static void start(struct program *p, const struct stem_plan *plan, const char *algorithms)
{
    CUcontext ctx;
    memset(p, 0, sizeof *p);
    p->plan = plan;
    fakecuda_reset();
    plan_runner_install(&p->runner, plan, 0);
    fakecuda_cublaslt(algorithms);
    cuInit(0);
    cuDevicePrimaryCtxRetain(&ctx, 0);
    cuCtxPushCurrent_v2(ctx);
}

static enum stem_status make(struct program *p, enum path path)
{
    struct stem_rt_options options = {.libcuda = STAND_IN, .compiler = {.nvrtc = STAND_IN, .cache_dir = ""}};
    struct stem_exec_options eo = {.memory = path == POOL ? STEM_MEMORY_POOL : STEM_MEMORY_SLAB};
    enum stem_status s = stem_rt_open(&options, &p->rt, &p->err);
    s = s ? s : stem_exec_new(p->rt, p->plan, &eo, &p->e, &p->err);
    s = s ? s : stem_rt_stream_new(p->rt, &p->s, &p->err);
    for (uint32_t i = 0; !s && i < p->plan->n_external; i++)
        s = stem_exec_bind_own(p->e, i, &p->err);
    return s ? s : stem_exec_fill(p->e, 0, 1, &p->err);
}

static enum stem_status record(struct program *p)
{
    CUgraph g = NULL;
    CUgraphExec x = NULL;
    enum stem_status s = STEM_OK;
    CUresult code = cuStreamBeginCapture_v2(p->s, CU_STREAM_CAPTURE_MODE_GLOBAL);
    if (!code) {
        s = stem_exec_record(p->e, 0, p->s, &p->err);
        code = cuStreamEndCapture(p->s, &g);
    }
    if (!s && !code)
        code = cuGraphInstantiateWithFlags(&x, g, 0);
    if (!s && !code)
        code = cuGraphLaunch(x, p->s);
    cuStreamSynchronize(p->s);
    if (x)
        cuGraphExecDestroy(x);
    if (g)
        cuGraphDestroy(g);
    return s || !code ? s : STEM_E_CUDA;
}

static enum stem_status act(struct program *p, enum path path)
{
    enum stem_status s = STEM_OK;
    if (path == RECORD)
        return record(p);
    if (path >= BY_CAPTURE && !p->g)
        s = stem_graph_new(p->e, 0, path == BY_NODES ? STEM_GRAPH_BY_NODES : STEM_GRAPH_BY_CAPTURE, &p->g, &p->err);
    if (!s)
        s = p->g ? stem_graph_launch(p->g, p->s, &p->err) : stem_exec_launch(p->e, 0, p->s, &p->err);
    return cuStreamSynchronize(p->s) && !s ? STEM_E_CUDA : s;
}

/* True if nothing is left. */
static bool stop(struct program *p)
{
    struct fakecuda_counts left, none = {0};
    stem_graph_free(p->g);
    stem_rt_stream_free(p->rt, p->s);
    stem_exec_free(p->e);
    stem_rt_close(p->rt);
    cuCtxPopCurrent_v2(NULL);
    cuDevicePrimaryCtxRelease_v2(0);
    left = fakecuda_counts();
    bool clean = memcmp(&left, &none, sizeof left) == 0;
    if (!clean)
        fprintf(stderr, "\nleft over:\n%s%s", fakecuda_live(), fakecuda_faults());
    return clean;
}

/* ---- tests ---- */

/* Each list of algorithms with the kernels that a product then is: the first that is a chain of kernels is taken. */
static const struct {
    const char *algorithms;
    uint32_t kernels;
} lists[] = {{"1", 1}, {"21", 2}, {"4", 4}, {"0m5x3", 3}};

static void every_path(void)
{
    struct stem_jit *jit = compile("cublaslt", "T=8");
    const struct stem_plan *plan = stem_jit_plan(jit);
    CU_ASSERT_EQUAL(products(plan), N_PRODUCTS);
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (int path = 0; path < N_PATHS; path++)
            for (int seed = 0; seed < SEEDS; seed++) {
                struct program p;
                start(&p, plan, lists[l].algorithms);
                fakecuda_seed((uint64_t)seed + 1);
                enum stem_status s = make(&p, (enum path)path);
                s = s ? s : act(&p, (enum path)path);
                bool ok = !s && right(&p, 1);
                CU_ASSERT(ok);
                if (!ok)
                    fprintf(stderr, "\n\"%s\", path %d: %s\n%s", lists[l].algorithms, path, p.err.message, fakecuda_faults());
                if (p.g) { /* edges between ops are the plan's, nodes are more */
                    struct stem_graph_info info;
                    stem_graph_info(p.g, &info);
                    CU_ASSERT_EQUAL(info.n_nodes, plan->variants[0].n_ops + N_PRODUCTS * (lists[l].kernels - 1));
                    CU_ASSERT_EQUAL(info.n_edges, plan->variants[0].n_edges);
                }
                CU_ASSERT(stop(&p));
            }
    stem_jit_free(jit);
}

/* Other memory for everything: every kernel of every product is given its new addresses. */
static void updates(void)
{
    struct stem_jit *jit = compile("cublaslt", "T=8");
    for (int path = BY_CAPTURE; path <= BY_NODES; path++)
        for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
            struct program p;
            struct stem_graph_info info;
            start(&p, stem_jit_plan(jit), lists[l].algorithms);
            CU_ASSERT_EQUAL(make(&p, (enum path)path), STEM_OK);
            CU_ASSERT_EQUAL(act(&p, (enum path)path), STEM_OK);
            for (uint32_t i = 0; i < p.plan->n_external; i++)
                memset((void *)(uintptr_t)stem_exec_address(p.e, i), 0xff, p.plan->variants[0].buffers[i].bytes);
            uint64_t at[MAX_EXTERNAL];
            for (uint32_t i = 0; i < p.plan->n_external; i++) {
                CU_ASSERT_EQUAL(stem_rt_alloc(p.rt, p.plan->variants[0].buffers[i].bytes, &at[i], &p.err), STEM_OK);
                CU_ASSERT_EQUAL(stem_exec_bind(p.e, i, at[i], p.plan->variants[0].buffers[i].bytes, &p.err), STEM_OK);
            }
            CU_ASSERT_EQUAL(stem_exec_fill(p.e, 0, 2, &p.err), STEM_OK);
            CU_ASSERT_EQUAL(stem_graph_launch(p.g, p.s, &p.err), STEM_E_STALE);
            CU_ASSERT_EQUAL(stem_graph_update(p.g, &p.err), STEM_OK);
            CU_ASSERT_EQUAL(act(&p, (enum path)path), STEM_OK);
            CU_ASSERT(right(&p, 2));
            stem_graph_info(p.g, &info);
            CU_ASSERT(info.n_updated > N_PRODUCTS);
            stem_graph_free(p.g);
            p.g = NULL;
            for (uint32_t i = 0; i < p.plan->n_external; i++)
                stem_rt_free(p.rt, at[i]);
            CU_ASSERT(stop(&p));
        }
    stem_jit_free(jit);
}

/* What cannot be has its own status, says which op wants it where that is known, and how to do without. */
static void refused(void)
{
    static const struct {
        const char *library, *algorithms, *says;
    } rows[] = {
        {"/nowhere/libcublasLt.so", "1", "--matmul=own"},
        {"/nowhere/libcublasLt.so", "1", "/nowhere/libcublasLt.so"},
        {"libm.so.6", "1", "has no cublasLtGetVersion"},
        {STAND_IN, "", "cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_NOT_SUPPORTED"},
        {STAND_IN, "0", "has no algorithm for 8 x"},
        {STAND_IN, "m", "something else than a chain of at most 4 kernels"},
        {STAND_IN, "5", "op s.linear (products.stem:11)"},
        {STAND_IN, "xx", "cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"},
    };
    struct stem_jit *jit = compile("cublaslt", "T=8");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct program p;
        setenv("MAINSTEM_CUBLASLT", rows[i].library, 1);
        start(&p, stem_jit_plan(jit), rows[i].algorithms);
        CU_ASSERT_EQUAL(make(&p, EAGER), STEM_E_LIBRARY);
        CU_ASSERT_PTR_NOT_NULL(strstr(p.err.message, rows[i].says));
        if (!strstr(p.err.message, rows[i].says))
            fprintf(stderr, "\n%s\n", p.err.message);
        CU_ASSERT(stop(&p));
    }
    setenv("MAINSTEM_CUBLASLT", STAND_IN, 1);
    stem_jit_free(jit);
}

/* Left the choice, a program that is compiled to run here does without a library that is not here. */
static void without(void)
{
    static const struct {
        const char *matmul, *dims, *library;
        uint32_t products;
    } rows[] = {
        {"own", "T=1024", STAND_IN, 0},   {"cublaslt", "T=8", STAND_IN, N_PRODUCTS}, {NULL, "T=8", STAND_IN, 0},
        {NULL, "T=1024", STAND_IN, 3},    {"auto", "T=1024", "/nowhere", 0},         {"cublaslt", "T=1024", "/nowhere", N_PRODUCTS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t n = 0;
        bool said = false;
        setenv("MAINSTEM_CUBLASLT", rows[i].library, 1);
        struct stem_jit *jit = compile(rows[i].matmul, rows[i].dims);
        CU_ASSERT_EQUAL(products(stem_jit_plan(jit)), rows[i].products);
        if (products(stem_jit_plan(jit)) != rows[i].products)
            fprintf(stderr, "\nrow %zu: %u products\n", i, products(stem_jit_plan(jit)));
        const struct stem_message *m = stem_jit_messages(jit, &n);
        for (uint32_t k = 0; k < n; k++)
            said |= m[k].kind == STEM_MESSAGE_REMARK && strstr(m[k].text, "cuBLASLt cannot be loaded");
        CU_ASSERT_EQUAL(said, rows[i].matmul && !strcmp(rows[i].matmul, "auto"));
        stem_jit_free(jit);
    }
    setenv("MAINSTEM_CUBLASLT", STAND_IN, 1);
}

/* However a program is scheduled, the same products are the library's: its schedules are compared bit for bit. */
static void same_choice(void)
{
    const char *dims = "T=1024", *wide = "H=2048";
    const struct stem_program_options rows[] = {
        {.one_stream = true}, {.no_fuse = true}, {.pdl = "off"}, {.ignore_pins = true}, {.order = "side-first"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stem_program_options o = rows[i];
        o.dims = &dims;
        o.defines = &wide;
        o.n_dims = o.n_defines = 1;
        struct stem_jit *jit = stem_jit_text("products.stem", text, sizeof text - 1, &o);
        CU_ASSERT_PTR_NOT_NULL_FATAL(stem_jit_plan(jit));
        CU_ASSERT_EQUAL(products(stem_jit_plan(jit)), 3);
        stem_jit_free(jit);
    }
}

#define W1 "\"dtype\":\"bf16\",\"dim\":[128,64],\"stride\":[64,1]}"
#define MATMUL "\"work\":\"matmul\""

/* A plan reads back, and one whose product is not what it says is no plan. */
static void damaged(void)
{
    static const struct {
        const char *from, *to, *says;
    } rows[] = {
        {W1, "\"dtype\":\"f16\",\"dim\":[128,64],\"stride\":[64,1]}", "a product is of bf16 or f16"},
        {W1, "\"dtype\":\"bf16\",\"dim\":[64,64],\"stride\":[64,1]}", "not the shapes of"},
        {W1, "\"dtype\":\"bf16\",\"dim\":[128,64],\"stride\":[32,1]}", "all contiguous"},
        {"\"dtype\":\"u8\",\"dim\":[4194304],", "\"dtype\":\"i32\",\"dim\":[16],", "not the shapes of"},
        {MATMUL ",\"operands\":[", MATMUL ",\"operands\":[null,", "x, w, y and workspace"},
        {MATMUL, MATMUL ",\"scalars\":[{\"i32\":1}]", "no scalars"},
    };
    struct stem_jit *jit = compile("cublaslt", "T=8");
    char *json = stem_plan_to_json(stem_jit_plan(jit)), *error = NULL;
    struct stem_plan *p = stem_plan_from_json(json, strlen(json), &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    char *again = stem_plan_to_json(p);
    CU_ASSERT_STRING_EQUAL(json, again);
    stem_plan_free(p);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *ops = strstr(json, "\"ops\":"), *at = strstr(ops, rows[i].from);
        CU_ASSERT_PTR_NOT_NULL_FATAL(at);
        char *bad = malloc(strlen(json) + strlen(rows[i].to) + 1);
        sprintf(bad, "%.*s%s%s", (int)(at - json), json, rows[i].to, at + strlen(rows[i].from));
        p = stem_plan_from_json(bad, strlen(bad), &error);
        CU_ASSERT_PTR_NULL(p);
        CU_ASSERT(error && strstr(error, rows[i].says));
        if (!error || !strstr(error, rows[i].says))
            fprintf(stderr, "\n%zu: %s\n", i, error ? error : "read");
        free(error);
        free(bad);
        error = NULL;
        stem_plan_free(p);
    }
    free(again);
    free(json);
    stem_jit_free(jit);
}

/* False when there is no n-th call. */
static bool one_failure(const struct stem_plan *plan, enum path path, uint64_t n, unsigned *bad)
{
    struct program p;
    start(&p, plan, "21");
    fakecuda_fail_call(n, CUDA_ERROR_OUT_OF_MEMORY);
    enum stem_status s = make(&p, path);
    bool made = !s, ok = true;
    if (made)
        s = act(&p, path);
    bool failed = fakecuda_failed();
    ok = s ? failed : right(&p, 1);
    if (made && failed) /* it works again */
        ok = act(&p, path) == STEM_OK && right(&p, 1) && ok;
    fakecuda_own(true);
    ok = stop(&p) && ok;
    fakecuda_own(false);
    if (!ok) {
        fprintf(stderr, "\npath %d, call %llu (%s): %d %s\n", path, (unsigned long long)n, fakecuda_failed_call(), s,
                p.err.message);
        ++*bad;
    }
    return failed;
}

static void every_call_fails_once(void)
{
    struct stem_jit *jit = compile("cublaslt", "T=8");
    unsigned bad = 0;
    uint64_t tried = 0;
    for (int path = 0; path < N_PATHS; path++)
        for (uint64_t n = 1; one_failure(stem_jit_plan(jit), (enum path)path, n, &bad); n++)
            tried++;
    CU_ASSERT_EQUAL(bad, 0);
    CU_ASSERT(tried > 300);
    fprintf(stderr, "(%llu failures injected, %u handled badly) ", (unsigned long long)tried, bad);
    stem_jit_free(jit);
}

__attribute__((constructor)) static void begin(void)
{
    setenv("MAINSTEM_CUBLASLT", STAND_IN, 1);
}

UNIT_MAIN("runtime: products by cuBLASLt", {"every path", every_path}, {"updates", updates}, {"refused", refused},
          {"without the library", without},
          {"the same choice in every schedule", same_choice}, {"damaged plans", damaged},
          {"every call fails once", every_call_fails_once})
