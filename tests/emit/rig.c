/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes, loads and calls emitted programs.
 */
#include "rig.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/cpu.h"
#include "emit/host.h"

/* ---- making ---- */

static bool compile(struct program *p)
{
    char path[1024];
    const char *top = getenv("SRCDIR") ? getenv("SRCDIR") : TOP;
    struct stem_compile_args args = {.path = p->name, .text = p->text, .options = stem_options_default()};
    snprintf(path, sizeof path, "%s/examples/%s.stem", top, p->name);
    if (p->text)
        args.len = strlen(p->text);
    else
        args.path = path;
    args.defines = p->defines;
    while (args.n_defines < 8 && p->defines[args.n_defines])
        args.n_defines++;
    args.dims = p->dims;
    args.options.matmul = p->matmul;
    args.n_dims = p->dims[1] ? 2 : 1;
    p->compiled = stem_pipeline(&args);
    p->plan = p->compiled->plan;
    if (p->plan)
        return true;
    struct stem_out o = {0};
    stem_diags_print(p->compiled->diags, (struct stem_diag_style){0}, &o);
    fprintf(stderr, "\n%s: %s\n", p->name, stem_out_text(&o));
    stem_out_free(&o);
    return false;
}

static bool write_text(const char *dir, const char *name, const struct stem_out *text)
{
    char path[2048];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    bool fine = f && fwrite(text->text, 1, text->len, f) == text->len;
    return f && fclose(f) == 0 && fine;
}

static bool emit(const struct program *p, const char *dir)
{
    static const char image[] = "fakecubin";
    const struct stem_host_cubin cubin = {.sm = 90, .data = image, .bytes = sizeof image};
    const struct stem_host_options o = {.name = "model",
                                        .embed = p->source ? STEM_HOST_SOURCE : STEM_HOST_CUBIN,
                                        .cubins = &cubin,
                                        .n_cubins = 1};
    struct stem_host_files files;
    const char *why = NULL;
    bool fine = stem_emit_host(p->plan, &o, &files, &why);
    for (uint32_t i = 0; i < files.n && fine; i++)
        fine = write_text(dir, files.at[i].name, &files.at[i].text);
    stem_host_files_free(&files);
    if (!fine)
        fprintf(stderr, "\n%s: %s\n", p->name, why ? why : "not written");
    return fine;
}

static bool load(struct program *p, const char *path)
{
    p->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!p->library) {
        fprintf(stderr, "\n%s\n", dlerror());
        return false;
    }
#define X(name, params)                                          \
    {                                                            \
        void *at = dlsym(p->library, "emitted_" #name);          \
        memcpy(&p->api.name, &at, sizeof at);                    \
        if (!at)                                                 \
            return false;                                        \
    }
    EMITTED(X)
    X(bucket, )
#undef X
    return true;
}

static bool build(struct program *p, const char *dir)
{
    char command[8192], out[1200];
    const char *cc = getenv("CC") ? getenv("CC") : "cc", *top = getenv("SRCDIR") ? getenv("SRCDIR") : TOP;
    char define[100] = "";
    snprintf(out, sizeof out, "%s/model.so", dir);
    if (p->extern_name)
        snprintf(define, sizeof define, "-DEXTERN_NAME=%s", p->extern_name);
    else if (p->dims[1])
        snprintf(define, sizeof define, "-DTWO_DIMS");
    else if (p->matmul == STEM_MATMUL_CUBLASLT)
        snprintf(define, sizeof define, "-DWITH_CUBLASLT");
    snprintf(command, sizeof command,
             "%s -std=c11 -O1 -Wall -Wextra -Wpedantic -Werror -fPIC -shared -isystem '%s/include' -I'%s' -I'%s/tests/emit' "
             "%s %s -o '%s' '%s/model.c' '%s/model_%s.c' '%s/tests/emit/adapter.c' -ldl",
             cc, CUDA_HOME, dir, top, define, p->source ? "-DEMBED_SOURCE" : "", out, dir, dir,
             p->source ? "source" : "cubin", top);
    int status = system(command);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        fprintf(stderr, "\n%s: %s\n", p->name, command);
        return false;
    }
    return load(p, out);
}

int64_t program_T(const struct program *p, uint32_t variant)
{
    const int64_t *dim = p->plan->variants[variant].dim;
    return p->dims[1] ? 1000 * dim[0] + dim[1] : dim[0];
}

bool program_make(struct program *p, bool *skip)
{
    char header[1024], *dir = p->dir;
    const char *builddir = getenv("BUILDDIR") ? getenv("BUILDDIR") : ".";
    snprintf(header, sizeof header, "%s/include/cuda.h", CUDA_HOME);
    *skip = access(header, R_OK) != 0;
    if (*skip)
        return false;
    snprintf(dir, sizeof p->dir, "%s/tests/scratch", builddir);
    mkdir(dir, 0777);
    snprintf(dir, sizeof p->dir, "%s/tests/scratch/emit_%s_%ld", builddir, p->name, (long)getpid());
    mkdir(dir, 0777);
    return compile(p) && emit(p, dir) && build(p, dir);
}

void program_drop(struct program *p)
{
    static const char *const names[] = {"model.h", "model.c", "model.cu", "model.mk", "CMakeLists.txt", "model.mainstem.cmake",
                                        "model_cubin.c", "model_source.c", "model.so"};
    char path[2048];
    if (p->library)
        dlclose(p->library);
    for (size_t i = 0; p->dir[0] && i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", p->dir, names[i]);
        unlink(path);
    }
    rmdir(p->dir);
    stem_compiled_free(p->compiled);
}

int programs_test(const char *suite, struct program *programs, int n, const struct unit_test *tests, size_t n_tests)
{
    int made = 0;
    for (int x = 0; x < n; x++) {
        bool skip;
        made += program_make(&programs[x], &skip);
        if (skip) {
            puts("skipped: no cuda.h, so emitted code cannot be compiled");
            return 77;
        }
    }
    int status = unit_run(suite, tests, n_tests);
    for (int x = 0; x < n; x++)
        program_drop(&programs[x]);
    return made == n ? status : 1;
}

/* ---- the extern function: y = 2 x ----
 *
 * Two layouts, one function: emitted code and the runtime call it with the same record. On a device it enqueues one
 * memset of y, which both record the same way; the CPU device does the same. */
static int memset_result(const struct stem_call *call, struct CUstream_st *stream)
{
    size_t bytes = stem_tensor_extent(&call->tensors[1].tensor);
    if (call->version != 1 || call->n_operands != 2 || call->n_scalars != 1 || call->scalars[0].i != 7)
        return 3;
    if (!call->on_gpu)
        memset(call->operands[1], 0, bytes);
    else if (cuMemsetD8Async((CUdeviceptr)(uintptr_t)call->operands[1], 0, bytes, stream) != CUDA_SUCCESS)
        return 4;
    return 0;
}

const struct stem_extern rig_externs[1] = {{"clear", memset_result}};

int rig_extern(const void *call, void *stream)
{
    return memset_result(call, stream);
}

/* ---- calling ---- */

static uint64_t largest(const struct stem_plan *p, uint32_t buffer)
{
    uint64_t n = 1;
    for (uint32_t v = 0; v < p->n_variants; v++)
        n = p->variants[v].buffers[buffer].bytes > n ? p->variants[v].buffers[buffer].bytes : n;
    return n;
}

void caller_open(struct caller *c, const struct program *p, uint32_t variant)
{
    *c = (struct caller){.p = p};
    fakecuda_reset();
    plan_runner_install(&c->runner, p->plan, variant);
    fakecuda_own(true);
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&c->ctx, 0));
    OK(cuCtxPushCurrent_v2(c->ctx));
    OK(cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING));
    c->at = calloc(p->plan->n_external + 1U, sizeof *c->at);
    for (uint32_t i = 0; i < p->plan->n_external; i++)
        OK(cuMemAlloc_v2(&c->at[i], largest(p->plan, i)));
    fakecuda_own(false);
}

bool caller_clean(struct caller *c, const char *what)
{
    CUstreamCaptureStatus st = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    CUcontext ctx = NULL;
    fakecuda_finish(); /* frees in the order of side streams */
    struct fakecuda_counts n = fakecuda_counts();
    fakecuda_own(true);
    CUresult err = cuStreamIsCapturing(c->stream, &st);
    err = err ? err : cuCtxGetCurrent(&ctx);
    fakecuda_own(false);
    bool clean = !err && st == CU_STREAM_CAPTURE_STATUS_NONE && ctx == c->ctx && n.contexts == 1 &&
                 n.context_references == 1 && n.streams == 1 && !n.events && !n.modules && !n.graphs && !n.nodes &&
                 !n.execs && !n.captures && !n.cublaslt && n.allocations == c->p->plan->n_external && !n.pending &&
                 c->allocated == c->freed;
    if (!clean)
        fprintf(stderr, "\n%s: after %s: error %d, capture %d, %u allocated and %u freed by callbacks\n%s%s%s", c->p->name,
                what, (int)err, (int)st, c->allocated, c->freed, fakecuda_live(), fakecuda_faults(), getenv("VERBOSE") ? fakecuda_trace() : "");
    return clean;
}

void caller_close(struct caller *c)
{
    fakecuda_own(true);
    for (uint32_t i = 0; i < c->p->plan->n_external; i++)
        OK(cuMemFree_v2(c->at[i]));
    OK(cuStreamDestroy_v2(c->stream));
    OK(cuCtxPopCurrent_v2(NULL));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    fakecuda_own(false);
    free(c->at);
}

static void fill(const struct stem_plan_buffer *b, void *data)
{
    memset(data, 0, b->bytes);
    if (b->kind == STEM_BUFFER_INPUT || b->kind == STEM_BUFFER_WEIGHT)
        stem_fill(b, 11, data);
}

/* Device memory of the stand-in is the host's. */
void caller_fill(const struct caller *c, uint32_t variant)
{
    for (uint32_t i = 0; i < c->p->plan->n_external; i++)
        fill(&c->p->plan->variants[variant].buffers[i], (void *)(uintptr_t)c->at[i]);
}

int caller_bind(const struct caller *c, void *program, uint32_t variant, uint32_t buffer, struct emitted_error *e)
{
    const struct stem_plan_buffer *b = &c->p->plan->variants[variant].buffers[buffer];
    struct emitted_tensor t = {.data = c->at[buffer], .dtype = (int)b->dtype, .rank = b->rank};
    for (uint32_t i = 0; i < b->rank; i++)
        t.dim[i] = b->dim[i];
    return c->p->api.bind(program, b->name, &t, e);
}

static uint64_t take(void *user, size_t bytes, void *stream)
{
    struct caller *c = user;
    CUstreamCaptureStatus st;
    CUdeviceptr at = 0;
    fakecuda_own(true);
    OK(cuStreamIsCapturing(stream, &st));
    CU_ASSERT_EQUAL(st, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuMemAllocAsync(&at, bytes, stream));
    fakecuda_own(false);
    c->allocated++;
    return at;
}

static void give(void *user, uint64_t at, size_t bytes, void *stream)
{
    struct caller *c = user;
    (void)bytes;
    fakecuda_own(true);
    OK(cuMemFreeAsync(at, stream));
    fakecuda_own(false);
    c->freed++;
}

int caller_program(struct caller *c, uint32_t variant, enum mode mode, void **program, struct emitted_error *e)
{
    struct emitted_options o = {.libcuda = STAND_IN, .nvrtc = STAND_IN, .cublaslt = STAND_IN, .pool = mode != SLAB, .fn = rig_extern};
    static struct emitted_options kept; /* the adapter's callbacks look into it */
    if (mode == CALLBACKS) {
        o.alloc = take;
        o.free = give;
        o.user = c;
    }
    kept = o;
    *program = NULL;
    int s = c->p->api.create(&kept, program, e);
    for (uint32_t i = 0; i < c->p->plan->n_external && !s; i++)
        s = caller_bind(c, *program, variant, i, e);
    return s;
}

void **program_expected(const struct program *p, uint32_t variant)
{
    char *error = NULL;
    void **data = calloc(p->plan->n_external + 1U, sizeof *data);
    struct stem_cpu *cpu = stem_cpu_new(p->plan, &error);
    if (cpu && p->extern_name)
        CU_ASSERT(stem_cpu_extern(cpu, rig_externs[0].name, rig_externs[0].fn));
    for (uint32_t i = 0; i < p->plan->n_external; i++) {
        data[i] = malloc(largest(p->plan, i));
        fill(&p->plan->variants[variant].buffers[i], data[i]);
        if (cpu)
            stem_cpu_bind(cpu, variant, i, data[i]);
    }
    bool ok = cpu && stem_cpu_run(cpu, variant, &(struct stem_cpu_options){.order = STEM_CPU_ISSUE}, &error);
    CU_ASSERT(ok);
    if (!ok)
        fprintf(stderr, "\n%s: %s\n", p->name, error ? error : "?");
    free(error);
    stem_cpu_free(cpu);
    return data;
}
