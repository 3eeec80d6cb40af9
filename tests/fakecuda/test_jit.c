/* SPDX-License-Identifier: Apache-2.0
 *
 * The library as programs use it: compiled at run time from text, bound by arrays, launched, recorded and replayed under
 * the stand-in driver; every mistake of a caller has its own error, names what it is about and leaves the program as it
 * was; programs in two threads do not meet, and one program refuses the second.
 */
#include "jit.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "costs/costs.h"
#include "pipeline.h"

static void runs(void)
{
    struct fixture f;
    uint32_t variant;
    jit_setup(&f);
    jit_bind_all(&f);
    for (int64_t t = 1; t <= 4; t++) {
        CU_ASSERT_EQUAL(stem_exec_variant(f.e, &t, &variant, &f.err), STEM_OK);
        CU_ASSERT_EQUAL(f.plan->variants[variant].dim[0], t <= 2 ? 2 : 4);
        CU_ASSERT(jit_result_right(&f, variant, (float)t));
    }
    char *json = stem_plan_to_json(f.plan), *error = NULL;
    struct stem_plan *again = json ? stem_plan_from_json(json, strlen(json), &error) : NULL;
    CU_ASSERT_PTR_NOT_NULL(again);
    stem_plan_free(again);
    free(json);
    jit_teardown(&f);
}

/* ---- what callers do wrong ---- */

static enum stem_status not_a_file(struct fixture *f)
{
    struct stem_safetensors *file;
    return stem_safetensors_open("/nowhere/w.safetensors", &file, &f->err);
}

static enum stem_status wrong_weight(struct fixture *f)
{
    return jit_with_file(f, "{\"w\":{\"dtype\":\"F32\",\"shape\":[32],\"data_offsets\":[0,128]}}", 128, NULL);
}

static enum stem_status wrong_weight_dtype(struct fixture *f)
{
    return jit_with_file(f, "{\"w\":{\"dtype\":\"BF16\",\"shape\":[64],\"data_offsets\":[0,128]}}", 128, NULL);
}

static enum stem_status null_pointer(struct fixture *f)
{
    return jit_bind(f, "x", jit_array(0, 2, jit_shape4));
}

static enum stem_status wrong_dtype(struct fixture *f)
{
    struct stem_array a = jit_array(f->x, 2, jit_shape4);
    a.dtype = STEM_BF16;
    return jit_bind(f, "x", a);
}

static enum stem_status wrong_shape(struct fixture *f)
{
    static const int64_t dim[] = {3, N};
    return jit_bind(f, "x", jit_array(f->x, 2, dim));
}

static enum stem_status wrong_rank(struct fixture *f)
{
    return jit_bind(f, "w", jit_array(f->x, 2, jit_shape4));
}

static enum stem_status not_contiguous(struct fixture *f)
{
    static const int64_t stride[] = {1, 4};
    struct stem_array a = jit_array(f->x, 2, jit_shape4);
    a.stride = stride;
    return jit_bind(f, "x", a);
}

static enum stem_status host_memory(struct fixture *f)
{
    static float host[4 * N];
    return jit_bind(f, "x", jit_array((uint64_t)(uintptr_t)host, 2, jit_shape4));
}

static enum stem_status other_gpu(struct fixture *f)
{
    fakecuda_set_pointer_device(1);
    enum stem_status s = jit_bind(f, "x", jit_array(f->x, 2, jit_shape4));
    fakecuda_set_pointer_device(0);
    return s;
}

static enum stem_status no_such_buffer(struct fixture *f)
{
    return jit_bind(f, "nobody", jit_array(f->x, 2, jit_shape4));
}

static enum stem_status unaligned(struct fixture *f)
{
    return jit_bind(f, "x", jit_array(f->x + 4, 2, jit_shape2));
}

static enum stem_status unbound(struct fixture *f)
{
    stem_exec_bind(f->e, stem_exec_find(f->e, "x"), 0, 0, &f->err);
    enum stem_status s = stem_exec_launch(f->e, 1, f->stream, &f->err);
    struct stem_rt_error kept = f->err;
    CU_ASSERT_EQUAL(jit_bind(f, "x", jit_array(f->x, 2, jit_shape4)), STEM_OK);
    f->err = kept;
    return s;
}

static enum stem_status too_small(struct fixture *f)
{
    CU_ASSERT_EQUAL(jit_bind(f, "x", jit_array(f->x, 2, jit_shape2)), STEM_OK);
    enum stem_status s = stem_exec_launch(f->e, 1, f->stream, &f->err);
    struct stem_rt_error kept = f->err;
    CU_ASSERT_EQUAL(jit_bind(f, "x", jit_array(f->x, 2, jit_shape4)), STEM_OK);
    f->err = kept;
    return s;
}

static enum stem_status too_many_tokens(struct fixture *f)
{
    int64_t t = 5;
    uint32_t variant;
    return stem_exec_variant(f->e, &t, &variant, &f->err);
}

static enum stem_status no_tokens(struct fixture *f)
{
    int64_t t = 0;
    uint32_t variant;
    return stem_exec_variant(f->e, &t, &variant, &f->err);
}

static enum stem_status not_registered(struct fixture *f)
{
    struct stem_exec *e;
    return stem_exec_new(f->rt, f->plan, NULL, &e, &f->err);
}

/* Recorded into one capture that has not ended, then launched elsewhere. */
static enum stem_status other_capture(struct fixture *f)
{
    struct CUstream_st *other;
    CUgraph g = NULL;
    CU_ASSERT_EQUAL(stem_rt_stream_new(f->rt, &other, &f->err), STEM_OK);
    CU_ASSERT_EQUAL(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    CU_ASSERT_EQUAL(stem_exec_record(f->e, 1, other, &f->err), STEM_OK);
    CU_ASSERT_EQUAL(cuStreamBeginCapture_v2(f->stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    enum stem_status s = stem_exec_record(f->e, 1, f->stream, &f->err);
    CU_ASSERT_EQUAL(cuStreamEndCapture(f->stream, &g), CUDA_SUCCESS);
    CU_ASSERT_EQUAL(cuGraphDestroy(g), CUDA_SUCCESS);
    CU_ASSERT_EQUAL(cuStreamEndCapture(other, &g), CUDA_SUCCESS);
    CU_ASSERT_EQUAL(cuGraphDestroy(g), CUDA_SUCCESS);
    stem_rt_stream_free(f->rt, other);
    return s;
}

static enum stem_status no_driver(struct fixture *f)
{
    struct stem_rt_options o = {.libcuda = "/nowhere/libcuda.so.1"};
    struct stem_rt *rt;
    return stem_rt_open(&o, &rt, &f->err);
}

static enum stem_status old_driver(struct fixture *f)
{
    struct stem_rt *rt;
    fakecuda_set_driver_version(12020);
    enum stem_status s = stem_rt_open(&jit_stand_in, &rt, &f->err);
    fakecuda_set_driver_version(13000);
    return s;
}

static enum stem_status no_gpu(struct fixture *f)
{
    struct stem_rt_options o = jit_stand_in;
    struct stem_rt *rt;
    o.device = 7;
    return stem_rt_open(&o, &rt, &f->err);
}

static enum stem_status other_arch(struct fixture *f)
{
    static const char image[] = "fakecubin sm_80\n";
    const struct stem_exec_options eo = {.externs = jit_externs, .n_externs = 1, .cubin = image, .cubin_bytes = sizeof image};
    struct stem_exec *e;
    return stem_exec_new(f->rt, f->plan, &eo, &e, &f->err);
}

/* A GPU of a generation that NVRTC does not know. */
static enum stem_status unknown_arch(struct fixture *f)
{
    const struct stem_exec_options eo = {.externs = jit_externs, .n_externs = 1};
    struct stem_rt *rt = NULL;
    struct stem_exec *e;
    fakecuda_set_arch(130);
    enum stem_status s = stem_rt_open(&jit_stand_in, &rt, &f->err);
    s = s ? s : stem_exec_new(rt, f->plan, &eo, &e, &f->err);
    stem_rt_close(rt);
    fakecuda_set_arch(90);
    return s;
}

static const struct {
    const char *what;
    enum stem_status (*act)(struct fixture *f);
    enum stem_status status;
    const char *message;
} mistakes[] = {
    {"null pointer", null_pointer, STEM_E_NULL, "buffer x: the array's address is null"},
    {"dtype", wrong_dtype, STEM_E_WRONG_DTYPE, "buffer x holds f32, the array bf16"},
    {"shape", wrong_shape, STEM_E_WRONG_SHAPE, "buffer x is [2, 64] or [4, 64], the array [3, 64]"},
    {"rank", wrong_rank, STEM_E_WRONG_SHAPE, "buffer w is [64], the array [4, 64]"},
    {"strides", not_contiguous, STEM_E_WRONG_SHAPE, "buffer x: the array is not contiguous"},
    {"host memory", host_memory, STEM_E_WRONG_DEVICE, "buffer x: the array is in host memory"},
    {"another GPU", other_gpu, STEM_E_WRONG_DEVICE, "buffer x: the array is on GPU 1, the program on GPU 0"},
    {"unknown buffer", no_such_buffer, STEM_E_ARGUMENT, "program small has no external buffer"},
    {"alignment", unaligned, STEM_E_UNBOUND, "buffer x: the array's address is not a multiple of"},
    {"unbound", unbound, STEM_E_UNBOUND, "buffer x is not bound"},
    {"too small", too_small, STEM_E_UNBOUND, "buffer x is bound to 512 bytes, 1024 are needed"},
    {"too many tokens", too_many_tokens, STEM_E_BUCKET, "program small has no variant for T=5 (at most 4)"},
    {"no tokens", no_tokens, STEM_E_BUCKET, "program small has no variant for T=0 (at least 1)"},
    {"extern op", not_registered, STEM_E_EXTERN, "extern function same is not registered"},
    {"another capture", other_capture, STEM_E_CAPTURE, "stream side of program small is part of another capture"},
    {"no driver", no_driver, STEM_E_NO_DRIVER, "no CUDA driver: /nowhere/libcuda.so.1"},
    {"old driver", old_driver, STEM_E_OLD_DRIVER, "is of CUDA 12.2: 12.4 or later is needed"},
    {"no such GPU", no_gpu, STEM_E_NO_DEVICE, "there is no GPU 7"},
    {"cubin of another architecture", other_arch, STEM_E_ARCH, "not built for this GPU, which is of sm_90"},
    {"architecture unknown to NVRTC", unknown_arch, STEM_E_ARCH, "makes no cubins for sm_130: it knows sm_80 to sm_120"},
    {"no file", not_a_file, STEM_E_FILE, "cannot open '/nowhere/w.safetensors'"},
    {"weight of a file, shape", wrong_weight, STEM_E_WRONG_SHAPE, "'w' is F32[32], the program wants F32[64]"},
    {"weight of a file, dtype", wrong_weight_dtype, STEM_E_WRONG_DTYPE, "'w' is BF16[64], the program wants F32[64]"},
};

/* Each is refused with its own words, and the program runs as if nothing had happened. */
static void every_mistake(void)
{
    struct fixture f;
    jit_setup(&f);
    jit_bind_all(&f);
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        struct fakecuda_counts before = fakecuda_counts();
        enum stem_status s = mistakes[i].act(&f);
        bool told = s == mistakes[i].status && f.err.status == s && strstr(f.err.message, mistakes[i].message);
        CU_ASSERT(told);
        if (!told)
            fprintf(stderr, "\n%s: %d \"%s\"\n", mistakes[i].what, s, f.err.message);
        struct fakecuda_counts after = fakecuda_counts();
        CU_ASSERT_EQUAL(before.streams, after.streams);
        CU_ASSERT_EQUAL(before.allocations, after.allocations);
        CU_ASSERT_EQUAL(before.captures, after.captures);
        CU_ASSERT_EQUAL(before.context_references, after.context_references);
        CU_ASSERT(jit_result_right(&f, 1, (float)(i + 2)));
    }
    jit_teardown(&f);
}

/* ---- diagnostics as data ---- */

static void diagnostics(void)
{
    static const struct {
        const char *text, *dims;
        uint32_t id, line, column;
    } rows[] = {
        {"module a;\nmodel m(x: f32[4]) -> f32[4] {\n  return y;\n}\n", NULL, 1201, 3, 10},
        {"module a;\n?", NULL, 1001, 2, 1},
        {"", NULL, 0, 0, 0},
    };
    for (size_t i = 0; i < 2; i++) {
        struct stem_jit *jit = stem_jit_text("a.stem", rows[i].text, strlen(rows[i].text), NULL);
        uint32_t n;
        const struct stem_message *m = stem_jit_messages(jit, &n);
        CU_ASSERT_PTR_NULL(stem_jit_plan(jit));
        CU_ASSERT_FATAL(n >= 1);
        CU_ASSERT_EQUAL(m[0].kind, STEM_MESSAGE_ERROR);
        CU_ASSERT_EQUAL(m[0].id, rows[i].id);
        CU_ASSERT_EQUAL(m[0].line, rows[i].line);
        CU_ASSERT_EQUAL(m[0].column, rows[i].column);
        CU_ASSERT_PTR_NOT_NULL(strstr(stem_jit_text_of_messages(jit), "a.stem:"));
        CU_ASSERT_PTR_NOT_NULL(stem_explain(m[0].id));
        stem_jit_free(jit);
    }
    struct stem_jit *none = stem_jit_file("/nowhere.stem", NULL);
    CU_ASSERT_PTR_NULL(stem_jit_plan(none));
    CU_ASSERT_PTR_NOT_NULL(strstr(stem_jit_text_of_messages(none), "/nowhere.stem"));
    stem_jit_free(none);
    const struct stem_program_options odd[] = {{.sm = 75}, {.pdl = "yes"}, {.sm = 80, .pdl = "on"}, {.costs = "{\"mainstem_costs\":2}"}};
    const char *const said[] = {"options.sm is none of", "options.pdl is none of", "they need sm_90",
                                "options.costs: mainstem_costs: the table is of another version"};
    for (size_t i = 0; i < 4; i++) {
        none = stem_jit_text("a.stem", "", 0, &odd[i]);
        CU_ASSERT_PTR_NOT_NULL(strstr(stem_jit_text_of_messages(none), said[i]));
        stem_jit_free(none);
    }
}

/* A table of costs as text: a time of its own for each op, which the plan then has. */
static void measured_costs(void)
{
    static const char text[] = "module c;\nmodel m(x: f32[4, 64]) -> f32[4, 64] { return silu(x); }\n";
    struct stem_compile_args a = {.path = "c.stem", .text = text, .len = strlen(text), .options = stem_options_default()};
    struct stem_compiled *c = stem_pipeline(&a);
    struct stem_costs *costs = stem_costs_new();
    struct stem_arena *arena = stem_arena_new();
    const struct stem_op *op = &c->programs[0]->ops.at[0];
    struct stem_cost_entry e = {.key = stem_cost_key(c->programs[0], op, arena), .us = 77, .early_us = 55};
    e.kernel = stem_cost_kernel(c->programs[0], op, &a.options.target);
    stem_costs_put(costs, stem_costs_gpu(costs, "one", 90), e);
    struct stem_out table = {0};
    stem_costs_write(costs, &table);
    struct stem_program_options o[] = {{.costs = stem_out_text(&table)}, {.costs = table.text, .gpu = "one", .pdl = "off"}, {.costs = table.text, .gpu = "two"}};
    const double us[] = {55, 77, c->plan->variants[0].ops[0].est_us};
    for (size_t i = 0; i < 3; i++) {
        struct stem_jit *jit = stem_jit_text("c.stem", text, strlen(text), &o[i]);
        CU_ASSERT_PTR_NOT_NULL_FATAL(stem_jit_plan(jit));
        CU_ASSERT_EQUAL(stem_jit_plan(jit)->variants[0].ops[0].est_us, us[i]);
        stem_jit_free(jit);
    }
    stem_out_free(&table);
    stem_costs_free(costs);
    stem_arena_free(arena);
    stem_compiled_free(c);
}

/* ---- threads ---- */

struct life {
    struct stem_rt *shared; /* NULL: a device of its own */
    bool fine;
};

/* A program of its own, from the text on. */
static void *whole_life(void *user)
{
    struct life *l = user;
    struct stem_jit *jit = jit_compile("T=4");
    const struct stem_exec_options eo = {.externs = jit_externs, .n_externs = 1};
    struct stem_rt *rt = l->shared;
    struct stem_exec *e = NULL;
    struct CUstream_st *s = NULL;
    struct stem_rt_error err;
    const struct stem_plan *plan = stem_jit_plan(jit);
    bool fine = plan && (rt || !stem_rt_open(&jit_stand_in, &rt, &err)) && !stem_exec_new(rt, plan, &eo, &e, &err) &&
                !stem_rt_stream_new(rt, &s, &err);
    for (uint32_t i = 0; fine && i < plan->n_external; i++)
        fine = !stem_exec_bind_own(e, i, &err);
    for (int i = 0; fine && i < 10; i++)
        fine = !stem_exec_launch(e, 0, s, &err) && !stem_rt_synchronize(rt, s, &err);
    if (rt) {
        stem_rt_stream_free(rt, s);
        stem_exec_free(e);
    }
    if (!l->shared)
        stem_rt_close(rt);
    stem_jit_free(jit);
    l->fine = fine;
    return NULL;
}

/* With a device each, and on one device. */
static void two_programs_in_two_threads(void)
{
    for (int share = 0; share < 2; share++) {
        struct stem_jit *jit = jit_compile("T=4");
        struct plan_runner runner;
        struct stem_rt *rt = NULL;
        struct stem_rt_error err;
        pthread_t t[2];
        fakecuda_reset();
        plan_runner_install(&runner, stem_jit_plan(jit), 0);
        if (share)
            CU_ASSERT_EQUAL_FATAL(stem_rt_open(&jit_stand_in, &rt, &err), STEM_OK);
        struct life lives[2] = {{rt, false}, {rt, false}};
        for (int i = 0; i < 2; i++)
            CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, whole_life, &lives[i]), 0);
        for (int i = 0; i < 2; i++) {
            pthread_join(t[i], NULL);
            CU_ASSERT(lives[i].fine);
        }
        CU_ASSERT_EQUAL(fakecuda_counts().faults, 0);
        stem_rt_close(rt);
        stem_jit_free(jit);
    }
}

struct second {
    struct fixture *f;
    enum stem_status status;
    struct stem_rt_error err;
};

static void *launch_too(void *user)
{
    struct second *s = user;
    s->status = stem_exec_launch(s->f->e, 1, s->f->stream, &s->err);
    return NULL;
}

/* Called in the middle of a launch: a second thread comes. */
static bool meanwhile(void *user, const struct stem_plan_op *op, uint32_t index, const uint64_t *operands)
{
    (void)op, (void)operands;
    pthread_t t;
    if (index == 0 && !pthread_create(&t, NULL, launch_too, user))
        pthread_join(t, NULL);
    return true;
}

static void one_program_in_two_threads(void)
{
    struct fixture f;
    jit_setup(&f);
    jit_bind_all(&f);
    struct second second = {.f = &f};
    const struct stem_launch_options o = {.delay_op = STEM_NONE, .after_op = meanwhile, .user = &second};
    CU_ASSERT_EQUAL(stem_exec_launch_with(f.e, 1, f.stream, &o, &f.err), STEM_OK);
    CU_ASSERT_EQUAL(second.status, STEM_E_BUSY);
    CU_ASSERT_PTR_NOT_NULL(strstr(second.err.message, "program small is in use by another thread"));
    CU_ASSERT(jit_result_right(&f, 1, 3));
    jit_teardown(&f);
}

/* ---- NVRTC ---- */

/* A new file in its place: the old one stays mapped. */
static bool copy_file(const char *from, const char *to, const char *more)
{
    char command[1200];
    snprintf(command, sizeof command, "cp '%s' '%s.new' && printf '%s' >>'%s.new' && mv '%s.new' '%s'", from, to, more, to, to, to);
    return system(command) == 0;
}

/* One compilation by a compiler of its own: whether it was cached, and whether NVRTC was loaded for it. */
static enum stem_status compile_once(const char *nvrtc, const char *dir, const char *source, bool *cached, bool *loaded,
                                     struct stem_rt_error *err)
{
    const struct stem_compiler_options o = {.nvrtc = nvrtc, .cache_dir = dir};
    struct stem_compiler *c;
    struct stem_cubin cubin;
    CU_ASSERT_EQUAL_FATAL(stem_compiler_open(&o, &c, err), STEM_OK);
    enum stem_status s = stem_compile(c, source, "a.cu", 90, NULL, 0, &cubin, err);
    CU_ASSERT(s || (cubin.bytes && cubin.nvrtc_major == 13));
    *cached = cubin.cached;
    *loaded = stem_compiler_nvrtc(c) != NULL;
    stem_cubin_free(&cubin);
    stem_compiler_close(c);
    return s;
}

static void nvrtc_is_loaded_when_it_is_needed(void)
{
    char dir[] = "/tmp/nvrtcXXXXXX", lib[100], gone[100], command[200];
    int status = 0;
    struct stem_rt_error err;
    bool cached, loaded;
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
    snprintf(lib, sizeof lib, "%s/libnvrtc.so", dir);
    CU_ASSERT_FATAL(copy_file(STAND_IN, lib, ""));
    CU_ASSERT_EQUAL(compile_once(lib, dir, "first", &cached, &loaded, &err), STEM_OK);
    CU_ASSERT(!cached && loaded);
    CU_ASSERT_EQUAL(compile_once(lib, dir, "first", &cached, &loaded, &err), STEM_OK);
    CU_ASSERT(cached && !loaded);
    CU_ASSERT_EQUAL(compile_once(lib, dir, "second", &cached, &loaded, &err), STEM_OK);
    CU_ASSERT(!cached && loaded);
    /* Another library at the same place may be of another version. */
    CU_ASSERT_FATAL(copy_file(STAND_IN, lib, "more"));
    CU_ASSERT_EQUAL(compile_once(lib, dir, "first", &cached, &loaded, &err), STEM_OK);
    CU_ASSERT(cached && loaded);
    /* Gone: what is cached still serves, what is not is an error. This process has never had it: the loader would find it. */
    snprintf(gone, sizeof gone, "%s/gone.so", dir);
    CU_ASSERT_FATAL(copy_file(STAND_IN, gone, ""));
    pid_t child = fork();
    if (child == 0)
        _exit(compile_once(gone, dir, "first", &cached, &loaded, &err) == STEM_OK ? 0 : 1);
    CU_ASSERT(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CU_ASSERT_EQUAL(unlink(gone), 0);
    CU_ASSERT_EQUAL(compile_once(gone, dir, "first", &cached, &loaded, &err), STEM_OK);
    CU_ASSERT(cached && !loaded && !err.message[0]);
    CU_ASSERT_EQUAL(compile_once(gone, dir, "third", &cached, &loaded, &err), STEM_E_NO_NVRTC);
    /* Damaged notes are none. */
    snprintf(command, sizeof command, "for n in %s/nvrtc-*; do printf '1 2 3 4 5' >$n; done", dir);
    CU_ASSERT_EQUAL(system(command), 0);
    CU_ASSERT_EQUAL(compile_once(lib, dir, "first", &cached, &loaded, &err), STEM_OK);
    CU_ASSERT(cached && loaded);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    CU_ASSERT_EQUAL(system(command), 0);
}

/* ---- audit ---- */

static enum stem_status launch_twice(struct fixture *f, struct stem_graph **graph)
{
    enum stem_status s = stem_graph_new(f->e, 1, STEM_GRAPH_BY_NODES, graph, &f->err);
    for (int i = 0; i < 2 && !s; i++)
        s = stem_graph_launch(*graph, f->stream, &f->err);
    return s ? s : stem_rt_synchronize(f->rt, f->stream, &f->err);
}

/* Through the library: a record for each kernel of each replay, and the lanes of each. */
static void audited(void)
{
    const struct stem_audit_options o = {.cupti = STAND_IN};
    const struct stem_audit_record *records;
    struct stem_audit *audit = NULL, *second = NULL;
    struct stem_graph *graph = NULL;
    struct fixture f;
    uint32_t n = 0, *lanes = NULL, kernels = 0, in_graphs = 0;
    jit_setup(&f);
    jit_bind_all(&f);
    CU_ASSERT_EQUAL_FATAL(stem_audit_start(&o, &audit, &f.err), STEM_OK);
    CU_ASSERT_EQUAL(stem_audit_start(&o, &second, &f.err), STEM_E_BUSY);
    CU_ASSERT_PTR_NULL(second);
    CU_ASSERT_EQUAL(launch_twice(&f, &graph), STEM_OK);
    CU_ASSERT_EQUAL(stem_audit_stop(audit, &records, &n, &f.err), STEM_OK);
    for (uint32_t i = 0; i < f.plan->variants[1].n_ops; i++)
        kernels += f.plan->variants[1].ops[i].work == STEM_WORK_LAUNCH;
    for (uint32_t i = 0; i < n; i++) {
        in_graphs += records[i].graph != 0;
        CU_ASSERT(!i || records[i].start_ns >= records[i - 1].start_ns);
        CU_ASSERT_PTR_NOT_NULL(strstr(f.plan->cuda, records[i].name));
    }
    CU_ASSERT(kernels > 0);
    CU_ASSERT_EQUAL(in_graphs, 2 * kernels);
    CU_ASSERT_EQUAL(stem_audit_lanes(audit, &lanes), 2);
    CU_ASSERT(lanes && lanes[0] >= 1 && lanes[0] == lanes[1]);
    CU_ASSERT_EQUAL(stem_audit_dropped(audit), 0);
    free(lanes);
    stem_audit_free(audit);
    stem_graph_free(graph);
    jit_teardown(&f);
}

UNIT_MAIN("library", {"runs", runs}, {"every mistake", every_mistake}, {"diagnostics", diagnostics}, {"measured costs", measured_costs}, {"audit", audited},
          {"NVRTC is loaded when it is needed", nvrtc_is_loaded_when_it_is_needed},
          {"two programs in two threads", two_programs_in_two_threads},
          {"one program in two threads", one_program_in_two_threads})
