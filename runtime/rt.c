/* SPDX-License-Identifier: Apache-2.0
 *
 * A device: the driver, its primary context, the helpers' stream, and the driver objects that the library creates.
 * Each of them is counted, so that a test can show that none is left behind.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum stem_status stem_enter(struct stem_rt *rt, struct stem_rt_error *err)
{
    int code = rt->d.ctx_push(rt->ctx);
    return code ? stem_fail_cuda(err, &rt->d, code, "cuCtxPushCurrent") : STEM_OK;
}

/* What is to be destroyed is destroyed without the context too, if the driver lets it be. */
bool stem_enter_to_free(struct stem_rt *rt)
{
    return rt->d.ctx_push(rt->ctx) == 0;
}

void stem_leave(struct stem_rt *rt)
{
    struct CUctx_st *was;
    rt->d.ctx_pop(&was);
}

static enum stem_status choose_device(struct stem_rt *rt, int ordinal, struct stem_rt_error *err)
{
    int count = 0, major = 0, minor = 0, pools = 0, code;
    if ((code = rt->d.device_count(&count)))
        return stem_fail_cuda(err, &rt->d, code, "cuDeviceGetCount");
    if (ordinal < 0 || ordinal >= count)
        return stem_fail(err, STEM_E_NO_DEVICE, "there is no GPU %d: the driver finds %d", ordinal, count);
    if ((code = rt->d.device_get(&rt->device, ordinal)) ||
        (code = rt->d.device_attribute(&major, STEM_CUDA_DEVICE_CC_MAJOR, rt->device)) ||
        (code = rt->d.device_attribute(&minor, STEM_CUDA_DEVICE_CC_MINOR, rt->device)) ||
        (code = rt->d.device_attribute(&pools, STEM_CUDA_DEVICE_MEMORY_POOLS, rt->device)) ||
        (code = rt->d.driver_version(&rt->driver_version)))
        return stem_fail_cuda(err, &rt->d, code, "asking GPU %d for its attributes", ordinal);
    rt->sm = (uint32_t)(major * 10 + minor);
    rt->pools = pools != 0;
    if ((code = rt->d.primary_ctx_retain(&rt->ctx, rt->device))) {
        rt->ctx = NULL;
        return stem_fail_cuda(err, &rt->d, code, "cuDevicePrimaryCtxRetain");
    }
    return STEM_OK;
}

static enum stem_status open_context(struct stem_rt *rt, struct stem_rt_error *err)
{
    enum stem_status s = stem_enter(rt, err);
    if (s)
        return s;
    int code = rt->d.ctx_priority_range(&rt->priority_least, &rt->priority_greatest);
    s = code ? stem_fail_cuda(err, &rt->d, code, "cuCtxGetStreamPriorityRange")
             : stem_new_stream(rt, 0, &rt->stream, err);
    stem_leave(rt);
    return s;
}

enum stem_status stem_rt_open(const struct stem_rt_options *options, struct stem_rt **out, struct stem_rt_error *err)
{
    static const struct stem_rt_options defaults;
    stem_error_clear(err);
    STEM_NEED(out, "rt");
    *out = NULL;
    if (!options)
        options = &defaults;
    struct stem_rt *rt = stem_zalloc(1, sizeof *rt);
    if (!rt)
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    pthread_mutex_init(&rt->lock, NULL);
    rt->log = options->log;
    enum stem_status s = stem_driver_load(&rt->d, options->libcuda, err);
    if (!s)
        s = choose_device(rt, options->device, err);
    if (!s)
        s = open_context(rt, err);
    if (!s)
        s = stem_compiler_open(&options->compiler, &rt->compiler, err);
    if (s) {
        stem_rt_close(rt);
        return s;
    }
    *out = rt;
    return STEM_OK;
}

void stem_rt_close(struct stem_rt *rt)
{
    if (!rt)
        return;
    if (rt->ctx) {
        bool entered = stem_enter_to_free(rt);
        stem_builtin_unload(rt);
        stem_drop_stream(rt, rt->stream);
        if (entered)
            stem_leave(rt);
        rt->d.primary_ctx_release(rt->device);
    }
    stem_compiler_close(rt->compiler);
    stem_driver_unload(&rt->d);
    pthread_mutex_destroy(&rt->lock);
    free(rt);
}

struct stem_compiler *stem_rt_compiler(struct stem_rt *rt)
{
    return rt ? rt->compiler : NULL;
}

enum stem_status stem_rt_info(struct stem_rt *rt, struct stem_rt_info *info, struct stem_rt_error *err)
{
    stem_error_clear(err);
    STEM_NEED(info, "info");
    memset(info, 0, sizeof *info);
    STEM_NEED(rt, "rt");
    enum stem_status s = stem_enter(rt, err);
    if (s)
        return s;
    size_t free_bytes = 0, total_bytes = 0;
    int code = rt->d.device_name(info->name, sizeof info->name - 1, rt->device);
    if (code)
        s = stem_fail_cuda(err, &rt->d, code, "cuDeviceGetName");
    else if ((code = rt->d.mem_info(&free_bytes, &total_bytes)))
        s = stem_fail_cuda(err, &rt->d, code, "cuMemGetInfo");
    stem_leave(rt);
    info->sm = rt->sm;
    info->driver = rt->driver_version;
    info->free_bytes = free_bytes;
    info->total_bytes = total_bytes;
    /* Without the device's own stream and built-in module. */
    pthread_mutex_lock(&rt->lock);
    info->live = atomic_load(&rt->live) - 1 - (rt->builtin != NULL);
    pthread_mutex_unlock(&rt->lock);
    return s;
}

/* ---- counted driver objects ---- */

static void count(struct stem_rt *rt, int by)
{
    atomic_fetch_add(&rt->live, by);
}

enum stem_status stem_new_stream(struct stem_rt *rt, int32_t priority, struct CUstream_st **s,
                                 struct stem_rt_error *err)
{
    /* The driver counts downwards: its greatest priority is the smallest number. */
    int64_t p = -(int64_t)priority;
    p = p < rt->priority_greatest ? rt->priority_greatest : p > rt->priority_least ? rt->priority_least : p;
    int code = rt->d.stream_create(s, STEM_CUDA_STREAM_NON_BLOCKING, (int)p);
    if (code) {
        *s = NULL;
        return stem_fail_cuda(err, &rt->d, code, "cuStreamCreateWithPriority");
    }
    count(rt, 1);
    return STEM_OK;
}

void stem_drop_stream(struct stem_rt *rt, struct CUstream_st *s)
{
    if (!s)
        return;
    rt->d.stream_destroy(s);
    count(rt, -1);
}

enum stem_status stem_new_event(struct stem_rt *rt, unsigned flags, struct CUevent_st **e, struct stem_rt_error *err)
{
    int code = rt->d.event_create(e, flags);
    if (code) {
        *e = NULL;
        return stem_fail_cuda(err, &rt->d, code, "cuEventCreate");
    }
    count(rt, 1);
    return STEM_OK;
}

void stem_drop_event(struct stem_rt *rt, struct CUevent_st *e)
{
    if (!e)
        return;
    rt->d.event_destroy(e);
    count(rt, -1);
}

enum stem_status stem_new_memory(struct stem_rt *rt, size_t bytes, uint64_t *at, struct stem_rt_error *err)
{
    int code = rt->d.mem_alloc(at, bytes ? bytes : 1);
    if (code) {
        *at = 0;
        return stem_fail_cuda(err, &rt->d, code, "cuMemAlloc of %zu bytes", bytes);
    }
    count(rt, 1);
    return STEM_OK;
}

void stem_drop_memory(struct stem_rt *rt, uint64_t at)
{
    if (!at)
        return;
    rt->d.mem_free(at);
    count(rt, -1);
}

enum stem_status stem_new_module(struct stem_rt *rt, const void *image, struct CUmod_st **m,
                                 struct stem_rt_error *err)
{
    int code = rt->d.module_load(m, image);
    if (code) {
        *m = NULL;
        if (code == STEM_CUDA_ERROR_NO_BINARY_FOR_GPU)
            return stem_fail(err, STEM_E_ARCH, "the kernels were not built for this GPU, which is of sm_%u",
                             (unsigned)rt->sm);
        return stem_fail_cuda(err, &rt->d, code, "cuModuleLoadData on a GPU of sm_%u", (unsigned)rt->sm);
    }
    count(rt, 1);
    return STEM_OK;
}

void stem_drop_module(struct stem_rt *rt, struct CUmod_st *m)
{
    if (!m)
        return;
    rt->d.module_unload(m);
    count(rt, -1);
}

enum stem_status stem_new_graph(struct stem_rt *rt, struct CUgraph_st **g, struct stem_rt_error *err)
{
    int code = rt->d.graph_create(g, 0);
    if (code) {
        *g = NULL;
        return stem_fail_cuda(err, &rt->d, code, "cuGraphCreate");
    }
    count(rt, 1);
    return STEM_OK;
}

void stem_drop_graph(struct stem_rt *rt, struct CUgraph_st *g)
{
    if (!g)
        return;
    rt->d.graph_destroy(g);
    count(rt, -1);
}

void stem_drop_graph_exec(struct stem_rt *rt, struct CUgraphExec_st *g)
{
    if (!g)
        return;
    rt->d.graph_exec_destroy(g);
    count(rt, -1);
}
