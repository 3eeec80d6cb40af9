/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime's own two kernels: one that fills buffers by fill.h, one that spins for a while. They are compiled on
 * first use, through the cache.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "fill.h"

static const char source[] = "#define STEM_FILL_FN static __device__ __forceinline__\n"
#define STEM_FILL_CODE(...) #__VA_ARGS__
#include "fill_code.h"
#undef STEM_FILL_CODE
                             "\n"
                             "extern \"C\" __global__ void stem_builtin_fill(unsigned char *at, unsigned long long "
                             "n, struct stem_fill_rule r)\n"
                             "{\n"
                             "    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;\n"
                             "    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "    if (r.bits == 4) {\n"
                             "        for (; 2 * i < n; i += step) {\n"
                             "            unsigned high = 2 * i + 1 < n ? stem_fill_element(&r, 2 * i + 1) : 0;\n"
                             "            at[i] = (unsigned char)(stem_fill_element(&r, 2 * i) | high << 4);\n"
                             "        }\n"
                             "        return;\n"
                             "    }\n"
                             "    for (; i < n; i += step) {\n"
                             "        unsigned code = stem_fill_element(&r, i);\n"
                             "        if (r.bits == 32)\n"
                             "            ((unsigned *)at)[i] = code;\n"
                             "        else if (r.bits == 16)\n"
                             "            ((unsigned short *)at)[i] = (unsigned short)code;\n"
                             "        else\n"
                             "            at[i] = (unsigned char)code;\n"
                             "    }\n"
                             "}\n"
                             "\n"
                             "extern \"C\" __global__ void stem_builtin_delay(unsigned long long ns)\n"
                             "{\n"
                             "    unsigned long long start, now;\n"
                             "    asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(start));\n"
                             "    do\n"
                             "        asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(now));\n"
                             "    while (now - start < ns);\n"
                             "}\n";

const char *stem_builtin_source(void)
{
    return source;
}

static enum stem_status function(struct stem_rt *rt, const char *name, struct CUfunc_st **f,
                                 struct stem_rt_error *err)
{
    int code = rt->d.module_function(f, rt->builtin, name);
    if (!code)
        code = rt->d.func_load(*f);
    return code ? stem_fail_cuda(err, &rt->d, code, "built-in kernel %s", name) : STEM_OK;
}

/* The lock is held. */
static enum stem_status load(struct stem_rt *rt, struct stem_rt_error *err)
{
    struct stem_cubin cubin;
    enum stem_status s = stem_compile(rt->compiler, source, "builtin.cu", rt->sm, NULL, 0, &cubin, err);
    if (!s)
        s = stem_new_module(rt, cubin.data, &rt->builtin, err);
    stem_cubin_free(&cubin);
    if (!s)
        s = function(rt, "stem_builtin_fill", &rt->fill, err);
    if (!s)
        s = function(rt, "stem_builtin_delay", &rt->delay, err);
    if (s)
        stem_builtin_unload(rt);
    return s;
}

enum stem_status stem_builtin_load(struct stem_rt *rt, struct stem_rt_error *err)
{
    pthread_mutex_lock(&rt->lock);
    enum stem_status s = rt->builtin ? STEM_OK : load(rt, err);
    pthread_mutex_unlock(&rt->lock);
    return s;
}

void stem_builtin_unload(struct stem_rt *rt)
{
    stem_drop_module(rt, rt->builtin);
    rt->builtin = NULL;
    rt->fill = rt->delay = NULL;
}

static enum stem_status launch(struct stem_rt *rt, struct CUfunc_st *f, unsigned blocks, unsigned threads,
                               void **params, struct CUstream_st *stream, struct stem_rt_error *err)
{
    struct stem_cuda_launch_config config = {
        .grid_x = blocks, .grid_y = 1, .grid_z = 1, .block_x = threads, .block_y = 1, .block_z = 1, .stream = stream};
    int code = rt->d.launch(&config, f, params, NULL);
    return code ? stem_fail_cuda(err, &rt->d, code, "launching a built-in kernel") : STEM_OK;
}

enum stem_status stem_delay(struct stem_rt *rt, uint32_t us, struct CUstream_st *stream, struct stem_rt_error *err)
{
    unsigned long long ns = (unsigned long long)us * 1000;
    void *params[] = {&ns};
    return launch(rt, rt->delay, 1, 1, params, stream, err);
}

/* Without NVRTC the bytes come from the host: slower, and the same. */
static enum stem_status fill_from_host(struct stem_rt *rt, const struct stem_plan_buffer *b, uint64_t seed,
                                       uint64_t at, struct stem_rt_error *err)
{
    void *data = malloc(b->bytes ? b->bytes : 1);
    if (!data)
        return stem_fail(err, STEM_E_MEMORY, "out of memory filling %s", b->name);
    stem_fill_host(b, seed, data);
    enum stem_status s = stem_rt_upload(rt, at, data, b->bytes, err);
    free(data);
    return s;
}

enum stem_status stem_fill_device(struct stem_rt *rt, const struct stem_plan_buffer *b, uint64_t seed, uint64_t at,
                                  struct stem_rt_error *err)
{
    struct stem_fill_rule rule = stem_fill_rule(b, seed);
    unsigned long long n = rule.mode ? stem_fill_elements(b) : 0;
    uint64_t filled = (n * (uint64_t)rule.bits + 7) / 8;
    if (stem_fill_counts(b) || (n && stem_builtin_load(rt, NULL) != STEM_OK))
        return fill_from_host(rt, b, seed, at, err);
    enum stem_status s = stem_zero(rt, at + filled, b->bytes - filled, err);
    if (s || n == 0)
        return s;
    unsigned long long units = rule.bits == 4 ? (n + 1) / 2 : n, blocks = (units + 255) / 256;
    void *params[] = {&at, &n, &rule};
    s = launch(rt, rt->fill, blocks > 65535 ? 65535 : (unsigned)blocks, 256, params, rt->stream, err);
    if (!s) {
        int code = rt->d.stream_synchronize(rt->stream);
        if (code)
            s = stem_fail_cuda(err, &rt->d, code, "filling %s", b->name);
    }
    return s;
}
