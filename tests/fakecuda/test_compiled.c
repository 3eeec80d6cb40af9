/* SPDX-License-Identifier: Apache-2.0
 *
 * Examples compiled at small sizes, and the cases, run by the runtime under the stand-in driver, kernels by the ops'
 * C references: by every path, in several orders, the outputs and the state are those of the CPU device in issue
 * order, bit for bit.
 */
#include <stdlib.h>

#include "cpu/cpu.h"
#include "driver.h"
#include "emit/emit.h"
#include "fakecuda.h"
#include "grammar/front.h"
#include "plan_runner.h"
#include "runtime/mainstem_rt.h"
#include "sema/sema.h"
#include "unit.h"
#include "verify/verify.h"

enum { SEEDS = 3 };

struct example {
    const char *name;
    struct stem_override overrides[8];
    uint32_t n_overrides;
};

static const struct example examples[] = {
    {"examples/dual_stream_moe",
     {{"HIDDEN", "256"}, {"EXPERTS", "16"}, {"INTER", "64"}, {"LAYERS", "3"}, {"SETS", "2"}},
     5},
    {"examples/dsa_indexer",
     {{"HIDDEN", "256"}, {"QRANK", "128"}, {"HEADS", "2"}, {"SLOTS", "64"}, {"LAYERS", "2"}},
     5},
    {"examples/qkv_three_streams", {{"HIDDEN", "128"}, {"LAYERS", "3"}}, 2},
    {"examples/inline_kernel", {{"N", "256"}}, 1},
    {"examples/piecewise", {{"HIDDEN", "128"}, {"VOCAB", "64"}}, 2},
    {"tests/cases/c01_dual_branch", {{"N", "2"}}, 1},
    {"tests/cases/c04_release_and_read", {{"READER", "1"}}, 1},
    {"tests/cases/c07_side_free", {{"S", "16"}}, 1},
    {"tests/cases/c08_inplace", {{"OWNED", "0"}}, 1},
    {"tests/cases/c10_leaf", {{"S", "16"}}, 1},
    {"tests/cases/c11_write_only", {{"S", "16"}}, 1},
    {"tests/cases/c13_order_alone", {{"S", "16"}}, 1},
    {"tests/cases/c15_workspaces", {{"SIDE", "1"}}, 1},
};

static char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 16);
    *len = f && text ? fread(text, 1, (1 << 16) - 1, f) : 0;
    if (f)
        fclose(f);
    return text;
}

static struct stem_plan *compile(const struct example *x)
{
    struct stem_arena *arena = stem_arena_new();
    struct stem_strtab *strings = stem_strtab_new();
    struct stem_diags *diags = stem_diags_new(0);
    struct stem_options options = stem_options_default();
    char path[1024];
    size_t len;
    snprintf(path, sizeof path, "%s/%s.stem", getenv("SRCDIR") ? getenv("SRCDIR") : TOP, x->name);
    char *text = read_file(path, &len);
    struct stem_source *source = stem_source_new(arena, path, text, len);
    stem_diags_set_source(diags, source);
    struct stem_ast *ast = stem_parse(arena, strings, source, diags);
    struct stem_module *m = NULL;
    struct stem_program *p = NULL;
    struct stem_plan *plan = NULL;
    if (!stem_diags_errors(diags))
        m = stem_check(arena, strings, ast, x->overrides, x->n_overrides, diags);
    if (m && !stem_diags_errors(diags))
        p = stem_expand(m, NULL, 0, diags);
    if (p && stem_pass_run_all(p, diags, &options, NULL, NULL, NULL))
        plan = stem_emit_plan((const struct stem_program *const[]){p}, 1, &options, diags);
    if (plan && !stem_verify(plan, diags)) {
        stem_plan_free(plan);
        plan = NULL;
    }
    struct stem_out o = {0};
    stem_diags_print(diags, (struct stem_diag_style){0}, &o);
    if (!plan)
        fprintf(stderr, "\n%s: %s\n", x->name, stem_out_text(&o));
    stem_out_free(&o);
    if (p)
        stem_program_free(p);
    if (m)
        stem_module_free(m);
    stem_diags_free(diags);
    stem_strtab_free(strings);
    stem_arena_free(arena);
    free(text);
    return plan;
}

/* External buffers as they are before a run: inputs and weights filled, outputs and state cleared. */
static void fill(const struct stem_plan *p, void *const *data)
{
    for (uint32_t i = 0; i < p->n_external; i++) {
        const struct stem_plan_buffer *b = &p->variants[0].buffers[i];
        memset(data[i], 0, b->bytes);
        if (b->kind == STEM_BUFFER_INPUT || b->kind == STEM_BUFFER_WEIGHT)
            stem_fill(b, 11, data[i]);
    }
}

static void **expected(const struct stem_plan *p)
{
    char *error = NULL;
    void **data = calloc(p->n_external + 1U, sizeof *data);
    struct stem_cpu *c = stem_cpu_new(p, &error);
    for (uint32_t i = 0; i < p->n_external; i++)
        data[i] = malloc(p->variants[0].buffers[i].bytes + 1);
    fill(p, data);
    for (uint32_t i = 0; c && i < p->n_external; i++)
        stem_cpu_bind(c, 0, i, data[i]);
    bool ok = c && stem_cpu_run(c, 0, &(struct stem_cpu_options){.order = STEM_CPU_ISSUE}, &error);
    CU_ASSERT(ok);
    if (!ok)
        fprintf(stderr, "\n%s\n", error ? error : "?");
    free(error);
    stem_cpu_free(c);
    return data;
}

enum path { EAGER, POOL, RECORD, BY_CAPTURE, BY_NODES, N_PATHS };

static enum stem_status record(struct stem_exec *e, CUstream s, struct stem_rt_error *err)
{
    CUgraph g = NULL;
    CUgraphExec ge = NULL;
    CU_ASSERT_EQUAL(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    enum stem_status st = stem_exec_record(e, 0, s, err);
    CUresult end = cuStreamEndCapture(s, &g);
    if (st || end)
        return st ? st : STEM_E_CUDA;
    CU_ASSERT_EQUAL(cuGraphInstantiateWithFlags(&ge, g, 0), CUDA_SUCCESS);
    CU_ASSERT_EQUAL(cuGraphLaunch(ge, s), CUDA_SUCCESS);
    CU_ASSERT_EQUAL(cuStreamSynchronize(s), CUDA_SUCCESS);
    CU_ASSERT_EQUAL(cuGraphExecDestroy(ge), CUDA_SUCCESS);
    CU_ASSERT_EQUAL(cuGraphDestroy(g), CUDA_SUCCESS);
    return STEM_OK;
}

/* As many nodes and edges as the recorded segments of the plan have. */
static void check_counts(const struct stem_plan *p, const struct stem_graph *g)
{
    const struct stem_plan_variant *v = &p->variants[0];
    struct stem_graph_info info;
    uint32_t nodes = 0, edges = 0;
    for (uint32_t i = 0; i < v->n_ops; i++)
        nodes += !v->segments[v->ops[i].segment].eager;
    for (uint32_t i = 0; i < v->n_edges; i++)
        edges += !v->segments[v->ops[v->edges[i].to].segment].eager;
    stem_graph_info(g, &info);
    CU_ASSERT_EQUAL(info.n_nodes, nodes);
    CU_ASSERT_EQUAL(info.n_edges, edges);
}

static enum stem_status run(const struct stem_plan *p, struct stem_exec *e, enum path path, CUstream s,
                            struct stem_rt_error *err)
{
    if (path == RECORD)
        return record(e, s, err);
    struct stem_graph *g = NULL;
    enum stem_status st = STEM_OK;
    if (path < RECORD)
        st = stem_exec_launch(e, 0, s, err);
    else
        st = stem_graph_new(e, 0, path == BY_NODES ? STEM_GRAPH_BY_NODES : STEM_GRAPH_BY_CAPTURE, &g, err);
    if (!st && g)
        check_counts(p, g);
    if (!st && g)
        st = stem_graph_launch(g, s, err);
    CUresult sync = cuStreamSynchronize(s);
    stem_graph_free(g);
    return st || !sync ? st : STEM_E_CUDA;
}

static bool one_run(const struct stem_plan *p, enum path path, int seed, void *const *want, uint64_t *launches)
{
    struct stem_rt_options options = {.libcuda = STAND_IN, .compiler = {.nvrtc = STAND_IN, .cache_dir = ""}};
    struct stem_exec_options eo = {.memory = path == POOL ? STEM_MEMORY_POOL : STEM_MEMORY_SLAB};
    struct stem_rt_error err = {0};
    struct stem_rt *rt = NULL;
    struct stem_exec *e = NULL;
    struct plan_runner runner;
    struct CUstream_st *s = NULL;
    CUcontext ctx;
    fakecuda_reset();
    plan_runner_install(&runner, p, 0);
    if (seed)
        fakecuda_seed((uint64_t)seed);
    else
        fakecuda_set_order(FAKECUDA_LAST);
    cuInit(0);
    cuDevicePrimaryCtxRetain(&ctx, 0);
    cuCtxPushCurrent_v2(ctx);
    enum stem_status st = stem_rt_open(&options, &rt, &err);
    st = st ? st : stem_exec_new(rt, p, &eo, &e, &err);
    st = st ? st : stem_rt_stream_new(rt, &s, &err);
    for (uint32_t i = 0; !st && i < p->n_external; i++)
        st = stem_exec_bind_own(e, i, &err);
    st = st ? st : stem_exec_fill(e, 0, 11, &err);
    st = st ? st : run(p, e, path, s, &err);
    bool ok = !st && !fakecuda_counts().faults;
    for (uint32_t i = 0; ok && i < p->n_external; i++)
        ok = memcmp((void *)(uintptr_t)stem_exec_address(e, i), want[i], p->variants[0].buffers[i].bytes) == 0;
    if (!ok)
        fprintf(stderr, "\n%s, path %d, seed %d: %d \"%s\"\n%s", p->name, path, seed, st, err.message,
                fakecuda_faults());
    *launches += runner.launches;
    stem_rt_stream_free(rt, s);
    stem_exec_free(e);
    stem_rt_close(rt);
    cuCtxPopCurrent_v2(NULL);
    cuDevicePrimaryCtxRelease_v2(0);
    struct fakecuda_counts left = fakecuda_counts(), none = {0};
    bool clean = memcmp(&left, &none, sizeof left) == 0;
    if (ok && !clean)
        fprintf(stderr, "\n%s, path %d: left over:\n%s%s", p->name, path, fakecuda_live(), fakecuda_faults());
    return ok && clean;
}

static bool has_eager_segment(const struct stem_plan *p)
{
    for (uint32_t i = 0; i < p->variants[0].n_segments; i++)
        if (p->variants[0].segments[i].eager)
            return true;
    return false;
}

static void every_example(void)
{
    uint64_t launches = 0, runs = 0;
    for (size_t x = 0; x < sizeof examples / sizeof examples[0]; x++) {
        struct stem_plan *p = compile(&examples[x]);
        CU_ASSERT_PTR_NOT_NULL(p);
        if (!p)
            continue;
        void **want = expected(p);
        for (int path = 0; path < N_PATHS; path++)
            for (int seed = 0; seed < SEEDS && !(path == RECORD && has_eager_segment(p)); seed++) {
                CU_ASSERT(one_run(p, (enum path)path, seed, want, &launches));
                runs++;
            }
        for (uint32_t i = 0; i < p->n_external; i++)
            free(want[i]);
        free(want);
        stem_plan_free(p);
    }
    CU_ASSERT(launches > 100);
    fprintf(stderr, "(%llu runs, %llu launches) ", (unsigned long long)runs, (unsigned long long)launches);
}

UNIT_MAIN("runtime: compiled programs", {"every program by every path", every_example})
