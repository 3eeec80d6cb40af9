/* SPDX-License-Identifier: Apache-2.0
 *
 * Emission and the CPU device on small programs with known results: built-in ops against plain loops, inline kernels
 * with shared memory, barriers, shuffles and half types, the translation unit, variants, and what goes wrong.
 */
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "cpu/cpu.h"
#include "emit/emit.h"
#include "ir/build.h"
#include "runtime/mainstem_rt.h"
#include "verify/verify.h"

struct bench {
    struct stem_arena *arena;
    struct stem_strtab *strings;
    struct stem_dims *dims;
    struct stem_diags *diags;
    struct stem_source *source;
    struct stem_program *p;
    struct stem_builder b;
    struct stem_options options;
};

static struct bench bench_new(void)
{
    struct bench t = {.arena = stem_arena_new(), .strings = stem_strtab_new(), .dims = stem_dims_new(),
                      .diags = stem_diags_new(0), .options = stem_options_default()};
    static const char text[] = "module m;\nkernel k {{\n  body\n}}\n";
    t.source = stem_source_new(t.arena, "dir/m.stem", text, sizeof text - 1);
    stem_diags_set_source(t.diags, t.source);
    t.p = stem_program_new(t.strings, t.source);
    t.p->name = stem_intern(t.strings, "m");
    t.b = stem_builder_new(t.p, t.dims, t.diags);
    return t;
}

static void bench_free(struct bench *t)
{
    stem_program_free(t->p);
    stem_diags_free(t->diags);
    stem_dims_free(t->dims);
    stem_strtab_free(t->strings);
    stem_arena_free(t->arena);
}

static struct stem_value_id buffer(struct bench *t, enum stem_buffer_kind kind, const char *name,
                                   enum stem_dtype type, int64_t rows, int64_t columns)
{
    int64_t dim[2] = {rows, columns};
    return stem_build_buffer(&t->b, kind, stem_intern(t->strings, name), type, rows ? 2 : 1, rows ? dim : dim + 1);
}

static void name_next(struct bench *t, const char *name)
{
    t->b.name = stem_intern(t->strings, name);
    t->b.span = (struct stem_span){10, 16}; /* line 2 */
}

/* Adds an inline kernel and one launch of it: the inputs, then the output `y`. */
static void inline_kernel(struct bench *t, const char *name, const char *params, const char *body,
                          const struct stem_value_id *in, uint32_t n_in, struct stem_value_id y,
                          const struct stem_scalar *scalars, uint32_t n_scalars, uint32_t blocks, uint32_t threads,
                          uint32_t smem)
{
    stem_vec_push(&t->p->decls, (struct stem_decl){.class = STEM_OP_KERNEL, .name = stem_intern(t->strings, name),
                                                   .span = {10, 16}, .body = body, .body_span = {21, 30},
                                                   .params = params});
    struct stem_input operands[4];
    struct stem_value_id results[4];
    for (uint32_t i = 0; i < n_in; i++)
        operands[i] = (struct stem_input){in[i], STEM_MODE_IN, STEM_NOWHERE};
    operands[n_in] = (struct stem_input){y, STEM_MODE_OUT, STEM_NOWHERE};
    name_next(t, name);
    stem_build_call(&t->b, t->p->decls.len - 1, operands, n_in + 1, scalars, n_scalars, (uint32_t[]){blocks, 1, 1},
                    (uint32_t[]){threads, 1, 1}, smem, results);
}

static struct stem_plan *finish(struct bench *t)
{
    bool ok = stem_pass_run_all(t->p, t->diags, &t->options, NULL, NULL, NULL);
    const struct stem_program *programs[] = {t->p};
    struct stem_plan *plan = ok ? stem_emit_plan(programs, 1, &t->options, t->diags) : NULL;
    CU_ASSERT_PTR_NOT_NULL_FATAL(plan);
    CU_ASSERT(stem_verify(plan, t->diags));
    if (stem_diags_errors(t->diags)) {
        struct stem_out o = {0};
        stem_diags_print(t->diags, (struct stem_diag_style){0}, &o);
        fputs(stem_out_text(&o), stderr);
        stem_out_free(&o);
    }
    return plan;
}

/* Runs the plan once; true if it went well, else the message is in `said`. */
static bool run(const struct stem_plan *plan, void *const *data, char *said, size_t size)
{
    char *error = NULL;
    struct stem_cpu *c = stem_cpu_new(plan, &error);
    for (uint32_t i = 0; c && i < plan->n_external; i++)
        stem_cpu_bind(c, 0, i, data[i]);
    bool ok = c && stem_cpu_run(c, 0, &(struct stem_cpu_options){.poison = true}, &error);
    snprintf(said, size, "%s", error ? error : "");
    free(error);
    stem_cpu_free(c);
    return ok;
}

/* ---- inline kernels ---- */

static const char scale_body[] = "\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                                 "    if (i < n)\n"
                                 "        y[i] = __float2bfloat16(a * __bfloat162float(x[i]) + (float)b);\n";

static void elementwise(void)
{
    struct bench t = bench_new();
    struct stem_value_id x = buffer(&t, STEM_BUFFER_INPUT, "x", STEM_BF16, 0, 100);
    struct stem_value_id y = buffer(&t, STEM_BUFFER_OUTPUT, "y", STEM_BF16, 0, 100);
    struct stem_scalar s[] = {{STEM_SCALAR_I32, {.i = 100}}, {STEM_SCALAR_F32, {.f = 2}},
                              {STEM_SCALAR_I64, {.i = -3}}};
    inline_kernel(&t, "scale", "const __nv_bfloat16 *x, __nv_bfloat16 *y, int n, float a, long long b", scale_body,
                  &x, 1, y, s, 3, 4, 32, 0);
    struct stem_plan *plan = finish(&t);
    uint16_t in[100], out[100];
    for (int i = 0; i < 100; i++)
        in[i] = (uint16_t)(0x3f80 + i % 3 * 0x80); /* 1, 2, 4 */
    char said[4000];
    CU_ASSERT(run(plan, (void *[]){in, out}, said, sizeof said));
    UNIT_SAME_TEXT(said, "");
    for (int i = 0; i < 100; i++) /* -1, 1, 5 */
        CU_ASSERT_EQUAL(out[i], i % 3 == 0 ? 0xbf80 : i % 3 == 1 ? 0x3f80 : 0x40a0);
    CU_ASSERT_PTR_NOT_NULL(strstr(plan->cuda, "extern \"C\" __global__ void __launch_bounds__(32) stem_user_scale("));
    CU_ASSERT_PTR_NOT_NULL(strstr(plan->cuda, "#line 2 \"dir/m.stem\"\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(plan->cuda, "#line 5 \"dir/m.stem\"\n}\n#line")); /* the body's last line */
    stem_plan_free(plan);
    bench_free(&t);
}

/* Each block sums its part: warps by shuffles, then through static and dynamic shared memory. */
static const char sum_body[] =
    "\n    __shared__ float part[32];\n"
    "    extern __shared__ __align__(16) float shares[];\n"
    "    float v = x[blockIdx.x * blockDim.x + threadIdx.x];\n"
    "    for (int d = 16; d; d /= 2)\n"
    "        v += __shfl_xor_sync(~0u, v, d);\n"
    "    if (threadIdx.x % 32 == 0)\n"
    "        part[threadIdx.x / 32] = v;\n"
    "    __syncthreads();\n"
    "    shares[threadIdx.x] = part[threadIdx.x % (blockDim.x / 32)];\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x == 0) {\n"
    "        float s = 0;\n"
    "        for (int w = 0; w < blockDim.x / 32; w++)\n"
    "            s += shares[blockDim.x - 1 - w];\n"
    "        y[blockIdx.x] = s;\n"
    "    }\n";

static void reduction(void)
{
    struct bench t = bench_new();
    struct stem_value_id x = buffer(&t, STEM_BUFFER_INPUT, "x", STEM_F32, 3, 128);
    struct stem_value_id y = buffer(&t, STEM_BUFFER_OUTPUT, "y", STEM_F32, 0, 3);
    inline_kernel(&t, "sum", "const float *x, float *y", sum_body, &x, 1, y, NULL, 0, 3, 128, 512);
    struct stem_plan *plan = finish(&t);
    float in[384], out[3] = {0}, expected[3] = {0};
    for (int i = 0; i < 384; i++)
        expected[i / 128] += in[i] = (float)(i % 7 - 2);
    char said[4000];
    CU_ASSERT(run(plan, (void *[]){in, out}, said, sizeof said));
    UNIT_SAME_TEXT(said, "");
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(out[i], expected[i]);
    CU_ASSERT_EQUAL(plan->kernels[0].max_smem, 512);
    stem_plan_free(plan);
    bench_free(&t);
}

/* Every f16, bf16 and f8 value survives a conversion to f32 and back, and the midpoints round to even. */
static const char types_body[] =
    "\n    int bad = 0;\n"
    "    for (unsigned i = 0; i < 65536; i++) {\n"
    "        __half h; __nv_bfloat16 b;\n"
    "        unsigned short bits = (unsigned short)i;\n"
    "        memcpy(&h, &bits, 2); memcpy(&b, &bits, 2);\n"
    "        float hf = __half2float(h), bf = __bfloat162float(b);\n"
    "        __half h2 = __float2half(hf); __nv_bfloat16 b2 = __float2bfloat16(bf);\n"
    "        bad += hf == hf && memcmp(&h, &h2, 2) != 0;\n"
    "        bad += bf == bf && memcmp(&b, &b2, 2) != 0;\n"
    "    }\n"
    "    for (unsigned i = 0; i < 256; i++) {\n"
    "        __nv_fp8_e4m3 f; unsigned char bits = (unsigned char)i;\n"
    "        memcpy(&f, &bits, 1);\n"
    "        float ff = (float)f; __nv_fp8_e4m3 f2(ff);\n"
    "        bad += ff == ff && memcmp(&f, &f2, 1) != 0;\n"
    "    }\n"
    "    y[0] = bad;\n"
    "    y[1] = (float)__float2half(2049.0f) == 2048.0f && (float)__float2half(2051.0f) == 2052.0f;\n"
    "    y[2] = (float)__nv_fp8_e4m3(17.0f) == 16.0f && (float)__nv_fp8_e4m3(19.0f) == 20.0f;\n"
    "    y[3] = stem_round<unsigned char>::from(300.0f) == 255 && stem_round<int>::from(-2.5f) == -2;\n";

static void half_types(void)
{
    struct bench t = bench_new();
    struct stem_value_id y = buffer(&t, STEM_BUFFER_OUTPUT, "y", STEM_I32, 0, 4);
    inline_kernel(&t, "types", "int *y", types_body, NULL, 0, y, NULL, 0, 1, 1, 0);
    struct stem_plan *plan = finish(&t);
    int32_t out[4] = {-1, -1, -1, -1};
    char said[4000];
    CU_ASSERT(run(plan, (void *[]){out}, said, sizeof said));
    UNIT_SAME_TEXT(said, "");
    CU_ASSERT_EQUAL(out[0], 0);
    CU_ASSERT_EQUAL(out[1], 1);
    CU_ASSERT_EQUAL(out[2], 1);
    CU_ASSERT_EQUAL(out[3], 1);
    stem_plan_free(plan);
    bench_free(&t);
}

static void wrong_kernels(void)
{
    static const struct {
        const char *body, *params, *says;
    } cases[] = {
        {"\n    y[0] = no_such_thing;\n", "int *y", "m.stem:3:"},
        {"\n    if (threadIdx.x) __syncthreads(); else __syncwarp();\n", "int *y",
         "threads of one warp wait at different barriers"},
        {"\n", "int *y, int n", "the kernel has 2 parameters, the launch gives 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench t = bench_new();
        struct stem_value_id y = buffer(&t, STEM_BUFFER_OUTPUT, "y", STEM_I32, 0, 1);
        inline_kernel(&t, "bad", cases[i].params, cases[i].body, NULL, 0, y, NULL, 0, 1, 32, 0);
        struct stem_plan *plan = finish(&t);
        int32_t out = 0;
        char said[4000];
        CU_ASSERT_FALSE(run(plan, (void *[]){&out}, said, sizeof said));
        bool found = strstr(said, cases[i].says) && strstr(said, "dir/m.stem:2: op 'bad' (kernel:bad): ");
        if (!found)
            fprintf(stderr, "\ncase %zu: %s\n", i, said);
        CU_ASSERT(found);
        stem_plan_free(plan);
        bench_free(&t);
    }
}

static void no_compiler(void)
{
    struct bench t = bench_new();
    struct stem_value_id y = buffer(&t, STEM_BUFFER_OUTPUT, "y", STEM_I32, 0, 1);
    char body[80];
    snprintf(body, sizeof body, "\n    y[0] = %d;\n", rand()); /* not in the cache */
    inline_kernel(&t, "k", "int *y", body, NULL, 0, y, NULL, 0, 1, 1, 0);
    struct stem_plan *plan = finish(&t);
    char *path = strdup(getenv("PATH") ? getenv("PATH") : ""), *cxx = getenv("CXX") ? strdup(getenv("CXX")) : NULL;
    setenv("PATH", "/nonexistent", 1);
    setenv("CXX", "no-such-compiler-here", 1);
    int32_t out = 0;
    char said[4000];
    CU_ASSERT_FALSE(run(plan, (void *[]){&out}, said, sizeof said));
    CU_ASSERT_PTR_NOT_NULL(strstr(said, "no C++ compiler was found to compile the inline kernel 'k'"));
    setenv("PATH", path, 1);
    unsetenv("CXX");
    if (cxx)
        setenv("CXX", cxx, 1);
    free(path);
    free(cxx);
    stem_plan_free(plan);
    bench_free(&t);
}

/* ---- built-in ops, variants, the unit ---- */

static float value(uint32_t i)
{
    return (float)((int)(i * 2654435761u >> 20) % 17 - 8) / 8;
}

/* y = linear(x, w) for T rows; the external buffers come first. */
static void linear_program(struct bench *t, int64_t rows)
{
    struct stem_value_id in[] = {buffer(t, STEM_BUFFER_INPUT, "x", STEM_F32, rows, 64),
                                 buffer(t, STEM_BUFFER_WEIGHT, "w", STEM_F32, 24, 64)};
    struct stem_value_id y = buffer(t, STEM_BUFFER_OUTPUT, "y", STEM_F32, rows, 24), out[STEM_MAX_OPERANDS];
    struct stem_input inputs[] = {{in[0], STEM_MODE_IN, STEM_NOWHERE}, {in[1], STEM_MODE_IN, STEM_NOWHERE}};
    name_next(t, "y");
    CU_ASSERT_FATAL(stem_build_op(&t->b, stem_op_find("linear"), inputs, 2, NULL, NULL, out));
    CU_ASSERT_FATAL(stem_build_can_move(&t->b, out[0], y));
    stem_build_move(&t->b, out[0], y);
}

static void builtin(void)
{
    struct bench t = bench_new();
    linear_program(&t, 5);
    struct stem_plan *plan = finish(&t);
    float x[5 * 64], w[24 * 64], y[5 * 24];
    for (uint32_t i = 0; i < 5 * 64; i++)
        x[i] = value(i);
    for (uint32_t i = 0; i < 24 * 64; i++)
        w[i] = value(i + 1000);
    char said[4000];
    CU_ASSERT(run(plan, (void *[]){x, w, y}, said, sizeof said));
    UNIT_SAME_TEXT(said, "");
    for (int r = 0; r < 5; r++)
        for (int c = 0; c < 24; c++) {
            double sum = 0;
            for (int k = 0; k < 64; k++)
                sum += (double)x[r * 64 + k] * w[c * 64 + k];
            CU_ASSERT(fabs(y[r * 24 + c] - sum) < 1e-5);
        }
    stem_plan_free(plan);
    bench_free(&t);
}

static void variants(void)
{
    struct bench t[2] = {bench_new(), bench_new()};
    const struct stem_program *programs[2];
    for (int i = 0; i < 2; i++) {
        linear_program(&t[i], i ? 7 : 2);
        stem_vec_push(&t[i].p->dim_names, stem_intern(t[i].strings, "T"));
        stem_vec_push(&t[i].p->dim_values, i ? 7 : 2);
        CU_ASSERT_FATAL(stem_pass_run_all(t[i].p, t[i].diags, &t[i].options, NULL, NULL, NULL));
        programs[i] = t[i].p;
    }
    struct stem_plan *plan = stem_emit_plan(programs, 2, &t[0].options, t[0].diags);
    CU_ASSERT(stem_verify(plan, t[0].diags));
    CU_ASSERT_EQUAL(plan->n_variants, 2);
    CU_ASSERT_EQUAL(plan->n_external, 3);
    CU_ASSERT_EQUAL(plan->variants[1].buffers[0].bytes, 7 * 64 * 4);
    int64_t seven = 7, three = 3;
    CU_ASSERT_EQUAL(stem_plan_find_variant(plan, &seven), 1);
    CU_ASSERT_EQUAL(stem_plan_find_variant(plan, &three), STEM_NONE);
    CU_ASSERT(plan->slab_bytes >= plan->variants[0].slab_bytes && plan->slab_bytes >= plan->variants[1].slab_bytes);
    /* the same programs give the same bytes, and JSON keeps the plan */
    struct stem_plan *again = stem_emit_plan(programs, 2, &t[0].options, t[0].diags);
    char *a = stem_plan_to_json(plan), *b = stem_plan_to_json(again), *error = NULL;
    UNIT_SAME_TEXT(a, b);
    struct stem_plan *back = stem_plan_from_json(a, strlen(a), &error);
    UNIT_SAME_TEXT(error ? error : "", "");
    CU_ASSERT(back && stem_verify(back, t[0].diags));
    free(a);
    free(b);
    free(error);
    stem_plan_free(back);
    stem_plan_free(again);
    stem_plan_free(plan);
    bench_free(&t[0]);
    bench_free(&t[1]);
}

/* The unit compiles for every architecture, if there is an NVRTC. */
static void compiles(void)
{
    struct bench t = bench_new();
    linear_program(&t, 4);
    struct stem_value_id x = {0}, z = buffer(&t, STEM_BUFFER_TEMP, "z", STEM_F32, 0, 4);
    inline_kernel(&t, "sum", "const float *x, float *y", sum_body, &x, 1, z, NULL, 0, 2, 128, 512);
    struct stem_plan *plan = finish(&t);
    struct stem_compiler *c = NULL;
    struct stem_rt_error err = {0};
    CU_ASSERT_EQUAL_FATAL(stem_compiler_open(NULL, &c, &err), STEM_OK);
    static const uint32_t sm[] = {80, 90, 100, 120};
    for (int i = 0; i < 4; i++) {
        struct stem_cubin cubin = {0};
        enum stem_status s = stem_compile(c, plan->cuda, "m.cu", sm[i], NULL, 0, &cubin, &err);
        if (s == STEM_E_NO_NVRTC)
            fprintf(stderr, "\n  skipped: %s\n", err.message);
        else if (s != STEM_OK)
            fprintf(stderr, "\n%s\n", err.message);
        CU_ASSERT(s == STEM_OK || s == STEM_E_NO_NVRTC);
        stem_cubin_free(&cubin);
    }
    stem_compiler_close(c);
    stem_plan_free(plan);
    bench_free(&t);
}

static void fills(void)
{
    struct stem_plan_buffer b = {.name = "w", .kind = STEM_BUFFER_WEIGHT, .bytes = 4096, .align = 4,
                                 .dtype = STEM_F32, .rank = 2, .dim = {32, 32}};
    float *a = malloc(4096), *c = malloc(4096), sum = 0, most = 0;
    stem_fill(&b, 1, a);
    stem_fill(&b, 1, c);
    CU_ASSERT_EQUAL(memcmp(a, c, 4096), 0);
    stem_fill(&b, 2, c);
    CU_ASSERT_NOT_EQUAL(memcmp(a, c, 4096), 0);
    for (int i = 0; i < 1024; i++) {
        sum += a[i];
        most = fabsf(a[i]) > most ? fabsf(a[i]) : most;
    }
    CU_ASSERT(fabsf(sum) < 30 && most <= sqrtf(3.0f / 32) && most > 0.9f * sqrtf(3.0f / 32));
    free(a);
    free(c);
}

UNIT_MAIN("emit and cpu", {"an elementwise kernel", elementwise}, {"a reduction with barriers", reduction},
          {"half types on the host", half_types}, {"kernels that are wrong", wrong_kernels},
          {"no compiler", no_compiler}, {"a built-in op", builtin}, {"two variants", variants},
          {"the unit compiles", compiles}, {"fills", fills})
