/* SPDX-License-Identifier: Apache-2.0
 *
 * Synchronous helpers for callers that do not want to load the driver themselves: memory, copies, streams, timers.
 * They work on a stream of the device's own, never on the default stream.
 */
#include "internal.h"

#include <stdlib.h>

/* Ends a helper: waits for its stream if the work was enqueued. */
static enum stem_status finish(struct stem_rt *rt, int code, const char *what, struct stem_rt_error *err)
{
    if (!code)
        code = rt->d.stream_synchronize(rt->stream);
    return code ? stem_fail_cuda(err, &rt->d, code, "%s", what) : STEM_OK;
}

enum stem_status stem_zero(struct stem_rt *rt, uint64_t at, size_t bytes, struct stem_rt_error *err)
{
    if (bytes == 0)
        return STEM_OK;
    return finish(rt, rt->d.memset_d8(at, 0, bytes, rt->stream), "cuMemsetD8Async", err);
}

enum stem_status stem_rt_alloc(struct stem_rt *rt, size_t bytes, uint64_t *at, struct stem_rt_error *err)
{
    stem_error_clear(err);
    STEM_NEED(at, "at");
    *at = 0;
    STEM_NEED(rt, "rt");
    enum stem_status s = stem_enter(rt, err);
    if (s)
        return s;
    s = stem_new_memory(rt, bytes, at, err);
    stem_leave(rt);
    return s;
}

void stem_rt_free(struct stem_rt *rt, uint64_t at)
{
    if (!rt || !at)
        return;
    bool entered = stem_enter_to_free(rt);
    stem_drop_memory(rt, at);
    if (entered)
        stem_leave(rt);
}

enum stem_status stem_rt_upload(struct stem_rt *rt, uint64_t to, const void *from, size_t bytes,
                                struct stem_rt_error *err)
{
    stem_error_clear(err);
    STEM_NEED(rt, "rt");
    STEM_NEED(to || !bytes, "to");
    STEM_NEED(from || !bytes, "from");
    enum stem_status s = bytes ? stem_enter(rt, err) : STEM_OK;
    if (s || bytes == 0)
        return s;
    s = finish(rt, rt->d.memcpy_to_device(to, from, bytes, rt->stream), "cuMemcpyHtoDAsync", err);
    stem_leave(rt);
    return s;
}

enum stem_status stem_rt_download(struct stem_rt *rt, void *to, uint64_t from, size_t bytes,
                                  struct stem_rt_error *err)
{
    stem_error_clear(err);
    STEM_NEED(rt, "rt");
    STEM_NEED(to || !bytes, "to");
    STEM_NEED(from || !bytes, "from");
    enum stem_status s = bytes ? stem_enter(rt, err) : STEM_OK;
    if (s || bytes == 0)
        return s;
    s = finish(rt, rt->d.memcpy_to_host(to, from, bytes, rt->stream), "cuMemcpyDtoHAsync", err);
    stem_leave(rt);
    return s;
}

enum stem_status stem_rt_copy(struct stem_rt *rt, uint64_t to, uint64_t from, size_t bytes, struct CUstream_st *stream,
                              struct stem_rt_error *err)
{
    stem_error_clear(err);
    STEM_NEED(rt, "rt");
    STEM_NEED(to || !bytes, "to");
    STEM_NEED(from || !bytes, "from");
    enum stem_status s = bytes ? stem_enter(rt, err) : STEM_OK;
    if (s || bytes == 0)
        return s;
    int code = rt->d.memcpy_on_device(to, from, bytes, stream);
    s = code ? stem_fail_cuda(err, &rt->d, code, "cuMemcpyDtoDAsync") : STEM_OK;
    stem_leave(rt);
    return s;
}

enum stem_status stem_rt_fill(struct stem_rt *rt, const struct stem_plan_buffer *b, uint64_t seed, uint64_t at,
                              struct stem_rt_error *err)
{
    stem_error_clear(err);
    STEM_NEED(rt, "rt");
    STEM_NEED(b, "b");
    STEM_NEED(at || !b->bytes, "at");
    enum stem_status s = stem_enter(rt, err);
    if (s)
        return s;
    s = stem_fill_device(rt, b, seed, at, err);
    stem_leave(rt);
    return s;
}

enum stem_status stem_rt_stream_new(struct stem_rt *rt, struct CUstream_st **stream, struct stem_rt_error *err)
{
    stem_error_clear(err);
    STEM_NEED(stream, "stream");
    *stream = NULL;
    STEM_NEED(rt, "rt");
    enum stem_status s = stem_enter(rt, err);
    if (s)
        return s;
    s = stem_new_stream(rt, 0, stream, err);
    stem_leave(rt);
    return s;
}

void stem_rt_stream_free(struct stem_rt *rt, struct CUstream_st *stream)
{
    if (!rt || !stream)
        return;
    bool entered = stem_enter_to_free(rt);
    stem_drop_stream(rt, stream);
    if (entered)
        stem_leave(rt);
}

enum stem_status stem_rt_synchronize(struct stem_rt *rt, struct CUstream_st *stream, struct stem_rt_error *err)
{
    stem_error_clear(err);
    STEM_NEED(rt, "rt");
    enum stem_status s = stem_enter(rt, err);
    if (s)
        return s;
    int code = rt->d.stream_synchronize(stream);
    stem_leave(rt);
    return code ? stem_fail_cuda(err, &rt->d, code, "cuStreamSynchronize") : STEM_OK;
}

struct stem_timer {
    struct stem_rt *rt;
    struct CUevent_st *start, *stop;
};

enum stem_status stem_timer_new(struct stem_rt *rt, struct stem_timer **out, struct stem_rt_error *err)
{
    stem_error_clear(err);
    STEM_NEED(out, "t");
    *out = NULL;
    STEM_NEED(rt, "rt");
    struct stem_timer *t = stem_zalloc(1, sizeof *t);
    if (!t)
        return stem_fail(err, STEM_E_MEMORY, "out of memory");
    t->rt = rt;
    enum stem_status s = stem_enter(rt, err);
    if (!s) {
        s = stem_new_event(rt, 0, &t->start, err);
        if (!s)
            s = stem_new_event(rt, 0, &t->stop, err);
        stem_leave(rt);
    }
    if (s)
        stem_timer_free(t);
    else
        *out = t;
    return s;
}

void stem_timer_free(struct stem_timer *t)
{
    if (!t)
        return;
    bool entered = stem_enter_to_free(t->rt);
    stem_drop_event(t->rt, t->start);
    stem_drop_event(t->rt, t->stop);
    if (entered)
        stem_leave(t->rt);
    free(t);
}

enum stem_status stem_timer_start(struct stem_timer *t, struct CUstream_st *stream, struct stem_rt_error *err)
{
    stem_error_clear(err);
    STEM_NEED(t, "t");
    enum stem_status s = stem_enter(t->rt, err);
    if (s)
        return s;
    int code = t->rt->d.event_record(t->start, stream);
    stem_leave(t->rt);
    return code ? stem_fail_cuda(err, &t->rt->d, code, "cuEventRecord") : STEM_OK;
}

enum stem_status stem_timer_stop(struct stem_timer *t, struct CUstream_st *stream, double *us,
                                 struct stem_rt_error *err)
{
    stem_error_clear(err);
    STEM_NEED(us, "us");
    *us = 0;
    STEM_NEED(t, "t");
    enum stem_status s = stem_enter(t->rt, err);
    if (s)
        return s;
    float ms = 0;
    int code = t->rt->d.event_record(t->stop, stream);
    if (!code)
        code = t->rt->d.event_synchronize(t->stop);
    if (!code)
        code = t->rt->d.event_elapsed(&ms, t->start, t->stop);
    stem_leave(t->rt);
    if (code)
        return stem_fail_cuda(err, &t->rt->d, code, "timing a stream");
    *us = (double)ms * 1e3;
    return STEM_OK;
}
