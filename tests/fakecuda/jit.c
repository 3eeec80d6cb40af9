/* SPDX-License-Identifier: Apache-2.0
 *
 * A program compiled at run time, for the tests of the library.
 */
#include "jit.h"

#include <stdlib.h>
#include <unistd.h>

static const char text[] = "module small;\n"
                           "dim T in 1..8 = 4;\n"
                           "extern same(in x: f32[T, 64], out y: f32[T, 64]);\n"
                           "model m(x: f32[T, 64]) -> f32[T, 64] {\n"
                           "  weight w: f32[64];\n"
                           "  a = rmsnorm(x, w);\n"
                           "  b = same(x) on side;\n"
                           "  return a + b;\n"
                           "}\n";

/* A launcher as callers register it: y = x. */
static int same(const struct stem_call *call, struct CUstream_st *stream)
{
    const struct stem_tensor *t = &call->tensors[0].tensor;
    size_t bytes = (size_t)(t->dim[0] * t->dim[1]) * sizeof(float);
    return cuMemcpyDtoDAsync_v2((CUdeviceptr)(uintptr_t)call->operands[1], (CUdeviceptr)(uintptr_t)call->operands[0],
                                bytes, stream);
}

const struct stem_extern jit_externs[] = {{"same", same}};
const struct stem_rt_options jit_stand_in = {.libcuda = STAND_IN,
                                                .compiler = {.nvrtc = STAND_IN, .cache_dir = ""}};

struct stem_jit *jit_compile(const char *dims)
{
    const struct stem_program_options o = {.dims = &dims, .n_dims = 1};
    struct stem_jit *jit = stem_jit_text("small.stem", text, sizeof text - 1, &o);
    if (!stem_jit_plan(jit))
        fprintf(stderr, "\n%s", stem_jit_text_of_messages(jit));
    return jit;
}

void jit_setup(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    f->jit = jit_compile("T=2,4");
    f->plan = stem_jit_plan(f->jit);
    CU_ASSERT_PTR_NOT_NULL_FATAL(f->plan);
    fakecuda_reset();
    plan_runner_install(&f->runner, f->plan, 1);
    const struct stem_exec_options eo = {.externs = jit_externs, .n_externs = 1};
    CU_ASSERT_EQUAL_FATAL(stem_rt_open(&jit_stand_in, &f->rt, &f->err), STEM_OK);
    CU_ASSERT_EQUAL_FATAL(stem_exec_new(f->rt, f->plan, &eo, &f->e, &f->err), STEM_OK);
    CU_ASSERT_EQUAL(stem_rt_stream_new(f->rt, &f->stream, &f->err), STEM_OK);
    CU_ASSERT_EQUAL(stem_rt_alloc(f->rt, 4 * N * 4, &f->x, &f->err), STEM_OK);
    CU_ASSERT_EQUAL(stem_rt_alloc(f->rt, 4 * N * 4, &f->y, &f->err), STEM_OK);
    CU_ASSERT_EQUAL(cuDevicePrimaryCtxRetain(&f->ctx, 0), CUDA_SUCCESS);
    CU_ASSERT_EQUAL(cuCtxPushCurrent_v2(f->ctx), CUDA_SUCCESS);
}

void jit_teardown(struct fixture *f)
{
    struct fakecuda_counts left, none = {0};
    cuCtxPopCurrent_v2(NULL);
    cuDevicePrimaryCtxRelease_v2(0);
    stem_rt_free(f->rt, f->x);
    stem_rt_free(f->rt, f->y);
    stem_rt_stream_free(f->rt, f->stream);
    stem_exec_free(f->e);
    stem_rt_close(f->rt);
    left = fakecuda_counts();
    CU_ASSERT_EQUAL(memcmp(&left, &none, sizeof left), 0);
    if (memcmp(&left, &none, sizeof left))
        fprintf(stderr, "\n%s%s", fakecuda_live(), fakecuda_faults());
    stem_jit_free(f->jit);
}

const int64_t jit_shape4[2] = {4, N}, jit_shape2[2] = {2, N}, jit_shape_w[1] = {N};

struct stem_array jit_array(uint64_t at, uint32_t rank, const int64_t *dim)
{
    return (struct stem_array){.at = at, .dtype = STEM_F32, .rank = rank, .dim = dim};
}

enum stem_status jit_bind(struct fixture *f, const char *name, struct stem_array a)
{
    return stem_exec_bind_array(f->e, stem_exec_find(f->e, name), &a, &f->err);
}

static const char *output(const struct fixture *f)
{
    for (uint32_t i = 0; i < f->plan->n_external; i++)
        if (f->plan->variants[0].buffers[i].kind == STEM_BUFFER_OUTPUT)
            return f->plan->variants[0].buffers[i].name;
    return "?";
}

void jit_bind_all(struct fixture *f)
{
    static float w[N];
    for (int i = 0; i < N; i++)
        w[i] = 1;
    struct stem_array host = jit_array((uint64_t)(uintptr_t)w, 1, jit_shape_w);
    CU_ASSERT_EQUAL(jit_bind(f, "x", jit_array(f->x, 2, jit_shape4)), STEM_OK);
    CU_ASSERT_EQUAL(jit_bind(f, output(f), jit_array(f->y, 2, jit_shape4)), STEM_OK);
    CU_ASSERT_EQUAL(stem_exec_bind_host(f->e, stem_exec_find(f->e, "w"), &host, &f->err), STEM_OK);
}

/* x is all c: rmsnorm gives 1, the launcher c. */
bool jit_result_right(struct fixture *f, uint32_t variant, float c)
{
    float x[4 * N], y[4 * N];
    for (int i = 0; i < 4 * N; i++)
        x[i] = c;
    bool ok = stem_rt_upload(f->rt, f->x, x, sizeof x, &f->err) == STEM_OK &&
              stem_exec_launch(f->e, variant, f->stream, &f->err) == STEM_OK &&
              stem_rt_synchronize(f->rt, f->stream, &f->err) == STEM_OK &&
              stem_rt_download(f->rt, y, f->y, sizeof y, &f->err) == STEM_OK;
    for (int64_t i = 0; ok && i < f->plan->variants[variant].dim[0] * N; i++)
        ok = y[i] > 0.999f + c && y[i] < 1.001f + c;
    if (!ok)
        fprintf(stderr, "\n%s\n%s%s", f->err.message, fakecuda_faults(), f->runner.error);
    return ok;
}

/* A file with this header and data bytes of zeros. */
enum stem_status jit_with_file(struct fixture *f, const char *header, size_t data, uint32_t *loaded)
{
    char path[] = "/tmp/jitXXXXXX", zeros[1024] = "";
    uint64_t len = strlen(header);
    struct stem_safetensors *file = NULL;
    int fd = mkstemp(path);
    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT(write(fd, &len, 8) == 8 && write(fd, header, len) == (ssize_t)len &&
              write(fd, zeros, data) == (ssize_t)data);
    close(fd);
    enum stem_status s = stem_safetensors_open(path, &file, &f->err);
    s = s ? s : stem_exec_load(f->e, file, loaded, &f->err);
    stem_safetensors_close(file);
    unlink(path);
    return s;
}
