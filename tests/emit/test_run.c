/* SPDX-License-Identifier: Apache-2.0
 *
 * Emitted code under the stand-in driver: by every path, in several orders, the results are those of the CPU device bit
 * for bit; and the driver calls are those that the runtime makes for the same plan.
 *
 * What may differ in a trace, and is removed or renamed before the comparison: numbers of objects, which count
 * everything created before (renamed by first appearance); queries that change nothing, with which the runtime reads
 * back what it recorded and holds it against the plan (emitted code was verified when it was emitted); and updates, where
 * emitted code calls cuGraphExecKernelNodeSetParams and the runtime the general cuGraphExecNodeSetParams.
 */
#include "rig.h"

#include <ctype.h>
#include <stdlib.h>

#include "programs.h"

static struct program programs[] = {PROGRAMS};
enum { N_PROGRAMS = sizeof programs / sizeof programs[0], SEEDS = 3 };

#define PATHS(X) X(EAGER) X(EAGER_POOL) X(EAGER_CALLBACKS) X(RECORD) X(RECORD_POOL) X(BUILD) X(GRAPH) X(GRAPH_POOL)
enum path {
#define X(name) name,
    PATHS(X)
#undef X
        N_PATHS
};
static const char *const path_names[] = {
#define X(name) #name,
    PATHS(X)
#undef X
};

static bool has_eager_part(const struct stem_plan *p)
{
    for (uint32_t i = 0; i < p->variants[0].n_segments; i++)
        if (p->variants[0].segments[i].eager)
            return true;
    return false;
}

static enum mode mode_of(enum path path)
{
    return path == EAGER_CALLBACKS                                                ? CALLBACKS
           : path == EAGER_POOL || path == RECORD_POOL || path == GRAPH_POOL ? POOL
                                                                              : SLAB;
}

/* ---- results ---- */

static void launch_graph(struct caller *c, CUgraph g)
{
    CUgraphExec ge = NULL;
    OK(cuGraphInstantiateWithFlags(&ge, g, 0));
    OK(cuGraphLaunch(ge, c->stream));
    OK(cuStreamSynchronize(c->stream));
    OK(cuGraphExecDestroy(ge));
    OK(cuGraphDestroy(g));
}

static int act(struct caller *c, void *program, enum path path, int64_t T, struct emitted_error *e)
{
    const struct emitted_api *api = &c->p->api;
    CUgraph g = NULL;
    void *graph = NULL;
    int s = 0;
    if (path == RECORD_POOL)
        s = api->prepare(program, e);
    if (!s && (path == RECORD || path == RECORD_POOL)) {
        OK(cuStreamBeginCapture_v2(c->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        s = api->launch(program, T, c->stream, e);
        OK(cuStreamEndCapture(c->stream, &g));
    } else if (path == BUILD) {
        s = api->build(program, T, (void **)&g, e);
    } else if (!s && path >= GRAPH) {
        s = api->graph_create(program, T, &graph, e);
        s = s ? s : api->graph_launch(graph, c->stream, e);
        OK(cuStreamSynchronize(c->stream));
        api->graph_destroy(graph);
    } else if (!s) {
        s = api->launch(program, T, c->stream, e);
        OK(cuStreamSynchronize(c->stream));
    }
    if (g && !s)
        launch_graph(c, g);
    return s;
}

static bool one_run(const struct program *p, enum path path, uint32_t variant, int64_t T, int seed, void *const *want)
{
    struct caller c;
    struct emitted_error e = {0};
    void *program = NULL;
    caller_open(&c, p, variant);
    if (seed)
        fakecuda_seed((uint64_t)seed);
    else
        fakecuda_set_order(FAKECUDA_LAST);
    caller_fill(&c, variant);
    int s = caller_program(&c, variant, mode_of(path), &program, &e);
    s = s ? s : act(&c, program, path, T, &e);
    bool ok = !s && !fakecuda_counts().faults;
    for (uint32_t i = 0; ok && i < p->plan->n_external; i++)
        ok = memcmp((void *)(uintptr_t)c.at[i], want[i], p->plan->variants[variant].buffers[i].bytes) == 0;
    if (!ok)
        fprintf(stderr, "\n%s, %s, T = %lld, seed %d: %d \"%s\"\n%s", p->name, path_names[path], (long long)T, seed, s,
                e.message, fakecuda_faults());
    p->api.destroy(program);
    ok = caller_clean(&c, path_names[path]) && ok;
    caller_close(&c);
    return ok;
}

static void results(void)
{
    unsigned runs = 0;
    for (int x = 0; x < N_PROGRAMS; x++) {
        const struct program *p = &programs[x];
        for (uint32_t v = 0; p->library && v < p->plan->n_variants; v++) {
            int64_t T = program_T(p, v);
            void **want = program_expected(p, v);
            for (int path = 0; path < N_PATHS; path++)
                for (int seed = 0; seed < SEEDS; seed++, runs++) {
                    if (has_eager_part(p->plan) && (path == RECORD || path == RECORD_POOL || path == BUILD))
                        continue;
                    CU_ASSERT(one_run(p, (enum path)path, v, T, seed, want));
                }
            for (uint32_t i = 0; i < p->plan->n_external; i++)
                free(want[i]);
            free(want);
        }
    }
    fprintf(stderr, "(%u runs) ", runs);
    CU_ASSERT(runs > 100);
}

/* T = 3 takes the bucket of 4, with what is in it. */
static void next_larger_bucket(void)
{
    const struct program *p = &programs[0];
    if (!p->library)
        return;
    CU_ASSERT_EQUAL(p->api.bucket(0), 0);
    CU_ASSERT_EQUAL(p->api.bucket(1), 1);
    CU_ASSERT_EQUAL(p->api.bucket(2), 4);
    CU_ASSERT_EQUAL(p->api.bucket(4), 4);
    CU_ASSERT_EQUAL(p->api.bucket(5), 0);
    uint32_t v = p->plan->variants[0].dim[0] == 4 ? 0 : 1;
    void **want = program_expected(p, v);
    CU_ASSERT(one_run(p, EAGER, v, 3, 1, want));
    CU_ASSERT(one_run(p, RECORD, v, 2, 1, want));
    for (uint32_t i = 0; i < p->plan->n_external; i++)
        free(want[i]);
    free(want);
}

/* ---- traces ---- */

static bool is_query(const char *line, bool all)
{
    static const char *const queries[] = {"cuMemGetInfo ",    "cuGraphGetNodes ", "cuGraphGetEdges ",
                                          "cuGetErrorName ", "cuMemGetInfo_v2 "};
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++)
        if (!strncmp(line, queries[i], strlen(queries[i])))
            return true;
    return !strncmp(line, "cuMemGetInfo", 12) || (all && !strncmp(line, "cuStreamGetCaptureInfo", 22));
}

struct renaming {
    char kind[16];
    unsigned id, number;
};

/* "stream#7" becomes "stream#1" if it is the first stream of the text. */
static void rename_object(struct renaming *seen, size_t *n, const char **in, char **out)
{
    char kind[16];
    size_t len = 0;
    unsigned id, number = 1;
    while (isalpha((unsigned char)(*in)[len]) && len < 15)
        len++;
    memcpy(kind, *in, len);
    kind[len] = 0;
    id = (unsigned)strtoul(*in + len + 1, (char **)(uintptr_t)in, 10);
    size_t i = 0;
    for (; i < *n && (seen[i].id != id || strcmp(seen[i].kind, kind)); i++)
        number += !strcmp(seen[i].kind, kind);
    if (i == *n && *n < 8192) {
        memcpy(seen[i].kind, kind, sizeof kind);
        seen[i].id = id;
        seen[(*n)++].number = number;
    }
    *out += sprintf(*out, "%s#%u", kind, i < 8192 ? seen[i].number : 0);
}

static char *normal(const char *trace, bool recorded)
{
    static const char special[] = "cuGraphExecKernelNodeSetParams";
    char *text = malloc(2 * strlen(trace) + 64), *out = text;
    struct renaming *seen = calloc(8192, sizeof *seen);
    size_t n = 0;
    for (const char *end; *trace; trace = end) {
        end = trace + strcspn(trace, "\n");
        end += *end == '\n';
        if (is_query(trace, recorded))
            continue;
        if (!strncmp(trace, special, sizeof special - 1)) {
            out += sprintf(out, "cuGraphExecNodeSetParams");
            trace += sizeof special - 1;
        }
        while (trace < end) {
            size_t word = 0;
            while (isalpha((unsigned char)trace[word]))
                word++;
            if (word && trace[word] == '#')
                rename_object(seen, &n, &trace, &out);
            else
                for (word = word ? word : 1; word; word--)
                    *out++ = *trace++;
        }
    }
    *out = 0;
    free(seen);
    return text;
}

/* What is compared: the calls of each of these, by the runtime and by emitted code. */
enum part { FIRST, SECOND, CAPTURED, GRAPH_MADE, GRAPH_LAUNCHED, GRAPH_MOVED, STREAMS_CHANGED, N_PARTS };
static const char *const part_names[] = {"first launch", "second launch", "recording", "building", "graph launch", "update",
                                         "launches on several streams"};

struct traces {
    char *of[N_PARTS];
};

static void cut(struct traces *t, enum part part)
{
    t->of[part] = normal(fakecuda_trace(), part == CAPTURED);
    fakecuda_trace_clear();
}

static void end_capture(struct caller *c)
{
    CUgraph g = NULL;
    OK(cuStreamEndCapture(c->stream, &g));
    OK(cuGraphDestroy(g));
    fakecuda_trace_clear();
}

static void begin_capture(struct caller *c)
{
    OK(cuStreamBeginCapture_v2(c->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    fakecuda_trace_clear();
}

/* Input 0 moves by nothing that a kernel sees: to another allocation. */
static CUdeviceptr elsewhere(const struct caller *c)
{
    CUdeviceptr at = 0;
    OK(cuMemAlloc_v2(&at, c->p->plan->variants[0].buffers[0].bytes + (1 << 16)));
    fakecuda_trace_clear();
    return at;
}

/* One graph, the other on its stream, on another; then everything is marked. */
static const struct {
    int graph; /* 2: none, an eager launch */
    bool other_stream;
} moves[] = {{0, false}, {0, true}, {1, true}, {1, false}, {0, true}, {2, false}, {0, false}};

static int emitted_traces(struct caller *c, enum mode mode, struct traces *t, struct emitted_error *e)
{
    const struct emitted_api *api = &c->p->api;
    int64_t T = program_T(c->p, 0);
    void *program, *graph = NULL, *second = NULL;
    CUstream other;
    int s = caller_program(c, 0, mode, &program, e);
    s = s ? s : api->prepare(program, e);
    fakecuda_trace_clear();
    s = s ? s : api->launch(program, T, c->stream, e);
    cut(t, FIRST);
    s = s ? s : api->launch(program, T, c->stream, e);
    cut(t, SECOND);
    if (!has_eager_part(c->p->plan)) {
        begin_capture(c);
        s = s ? s : api->launch(program, T, c->stream, e);
        cut(t, CAPTURED);
        end_capture(c);
    }
    s = s ? s : api->graph_create(program, T, &graph, e);
    cut(t, GRAPH_MADE);
    s = s ? s : api->graph_launch(graph, c->stream, e);
    cut(t, GRAPH_LAUNCHED);
    CUdeviceptr was = c->at[0];
    c->at[0] = elsewhere(c);
    s = s ? s : caller_bind(c, program, 0, 0, e);
    fakecuda_trace_clear();
    s = s ? s : api->graph_update(graph, e);
    cut(t, GRAPH_MOVED);
    s = s ? s : api->graph_create(program, T, &second, e);
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    fakecuda_trace_clear();
    for (size_t i = 0; i < sizeof moves / sizeof *moves && !s; i++) {
        CUstream stream = moves[i].other_stream ? other : c->stream;
        s = moves[i].graph == 2 ? api->launch(program, T, stream, e)
                                : api->graph_launch(moves[i].graph ? second : graph, stream, e);
    }
    cut(t, STREAMS_CHANGED);
    OK(cuStreamSynchronize(c->stream));
    OK(cuStreamSynchronize(other));
    OK(cuStreamDestroy_v2(other));
    api->graph_destroy(graph);
    api->graph_destroy(second);
    api->destroy(program);
    OK(cuMemFree_v2(c->at[0]));
    c->at[0] = was;
    return s;
}

static int runtime_traces(struct caller *c, enum mode mode, struct traces *t, struct stem_rt_error *e)
{
    struct stem_rt_options o = {.libcuda = STAND_IN, .compiler = {.nvrtc = STAND_IN, .cache_dir = ""}};
    struct stem_exec_options eo = {.memory = mode == SLAB ? STEM_MEMORY_SLAB : STEM_MEMORY_POOL,
                                   .externs = rig_externs, .n_externs = 1};
    struct stem_rt *rt = NULL;
    struct stem_exec *x = NULL;
    struct stem_graph *graph = NULL, *second = NULL;
    CUstream other;
    setenv("MAINSTEM_CUBLASLT", STAND_IN, 1);
    enum stem_status s = stem_rt_open(&o, &rt, e);
    s = s ? s : stem_exec_new(rt, c->p->plan, &eo, &x, e);
    for (uint32_t i = 0; i < c->p->plan->n_external && !s; i++)
        s = stem_exec_bind(x, i, c->at[i], c->p->plan->variants[0].buffers[i].bytes, e);
    s = s ? s : stem_exec_prepare(x, e);
    fakecuda_trace_clear();
    s = s ? s : stem_exec_launch(x, 0, c->stream, e);
    cut(t, FIRST);
    s = s ? s : stem_exec_launch(x, 0, c->stream, e);
    cut(t, SECOND);
    if (!has_eager_part(c->p->plan)) {
        begin_capture(c);
        s = s ? s : stem_exec_launch(x, 0, c->stream, e);
        cut(t, CAPTURED);
        end_capture(c);
    }
    s = s ? s : stem_graph_new(x, 0, STEM_GRAPH_BY_NODES, &graph, e);
    cut(t, GRAPH_MADE);
    s = s ? s : stem_graph_launch(graph, c->stream, e);
    cut(t, GRAPH_LAUNCHED);
    CUdeviceptr at = elsewhere(c);
    s = s ? s : stem_exec_bind(x, 0, at, c->p->plan->variants[0].buffers[0].bytes, e);
    fakecuda_trace_clear();
    s = s ? s : stem_graph_update(graph, e);
    cut(t, GRAPH_MOVED);
    s = s ? s : stem_graph_new(x, 0, STEM_GRAPH_BY_NODES, &second, e);
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    fakecuda_trace_clear();
    for (size_t i = 0; i < sizeof moves / sizeof *moves && !s; i++) {
        CUstream stream = moves[i].other_stream ? other : c->stream;
        s = moves[i].graph == 2 ? stem_exec_launch(x, 0, stream, e)
                                : stem_graph_launch(moves[i].graph ? second : graph, stream, e);
    }
    cut(t, STREAMS_CHANGED);
    OK(cuStreamSynchronize(c->stream));
    OK(cuStreamSynchronize(other));
    OK(cuStreamDestroy_v2(other));
    stem_graph_free(graph);
    stem_graph_free(second);
    stem_exec_free(x);
    stem_rt_close(rt);
    OK(cuMemFree_v2(at));
    return s;
}

static void first_difference(const char *a, const char *b)
{
    size_t line = 1;
    while (*a && *a == *b) {
        line += *a == '\n';
        a++, b++;
    }
    while (a[-1] != '\n' && line > 1)
        a--, b--;
    fprintf(stderr, "line %zu:\n  runtime: %.*s\n  emitted: %.*s\n", line, (int)strcspn(a, "\n"), a, (int)strcspn(b, "\n"), b);
}

/* On a device of architecture `sm`. */
static void compare(const struct program *p, enum mode mode, int sm)
{
    struct traces theirs = {{0}}, ours = {{0}};
    struct emitted_error e = {0};
    struct stem_rt_error re = {0};
    struct caller c;
    caller_open(&c, p, 0);
    fakecuda_set_arch(sm);
    int rs = runtime_traces(&c, mode, &theirs, &re), s = 0;
    CU_ASSERT_EQUAL(rs, 0);
    caller_close(&c);
    caller_open(&c, p, 0);
    fakecuda_set_arch(sm);
    s = emitted_traces(&c, mode, &ours, &e);
    CU_ASSERT_EQUAL(s, 0);
    if (s || rs)
        fprintf(stderr, "\n%s: \"%s\" \"%s\"\n", p->name, re.message, e.message);
    caller_close(&c);
    for (int i = 0; i < N_PARTS; i++) {
        bool both = theirs.of[i] && ours.of[i];
        CU_ASSERT_EQUAL(theirs.of[i] == NULL, ours.of[i] == NULL);
        CU_ASSERT(!both || strlen(ours.of[i]) > 40);
        CU_ASSERT(!both || !strcmp(theirs.of[i], ours.of[i]));
        if (both && strcmp(theirs.of[i], ours.of[i])) {
            fprintf(stderr, "\n%s, %s: ", p->name, part_names[i]);
            first_difference(theirs.of[i], ours.of[i]);
        }
        free(theirs.of[i]);
        free(ours.of[i]);
    }
}

static void same_driver_calls(void)
{
    for (int x = 0; x < N_PROGRAMS; x++)
        for (int mode = SLAB; programs[x].library && mode <= POOL; mode++)
            compare(&programs[x], (enum mode)mode, 90);
}

/* Programs with programmatic launches, on a device that refuses them: full edges, in both. */
static void older_gpu(void)
{
    int tried = 0;
    for (int x = 0; x < N_PROGRAMS; x++)
        if (programs[x].library && programs[x].source && strstr(programs[x].plan->cuda, "#define STEM_PDL 1")) {
            compare(&programs[x], SLAB, 86);
            tried++;
        }
    CU_ASSERT(tried > 0);
}

int main(void)
{
    static const struct unit_test tests[] = {{"results are the CPU device's, by every path", results},
                                             {"the next larger bucket", next_larger_bucket},
                                             {"the runtime's driver calls", same_driver_calls},
                                             {"and on a GPU without programmatic launches", older_gpu}};
    return programs_test("emitted code", programs, N_PROGRAMS, tests, sizeof tests / sizeof tests[0]);
}
