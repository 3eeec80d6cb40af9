/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and events. A stream is the set of operations that its next one waits for. The legacy default stream
 * waits for every blocking stream and every blocking stream for it.
 */
#include "core.h"

static FC_VEC(struct fc_stream *) streams; /* alive, but for the two below */
enum { THREADS = 8 };
static struct fc_stream *legacy, *per_thread[THREADS], *last_destroyed;

static void stream_dispose(void *self)
{
    struct fc_stream *s = self;
    fc_ops_clear(&s->tail);
    FC_FREE(&s->pending);
}

static struct fc_stream *special(struct fc_stream **slot, bool is_legacy)
{
    if (!*slot) {
        *slot = fc_new(FC_STREAM, sizeof **slot, stream_dispose);
        (*slot)->legacy = is_legacy;
        fc.live[FC_STREAM]--;
        fc.made[FC_STREAM]--; /* the caller's first stream is number 1 */
        (*slot)->o.id = is_legacy ? UINT32_MAX : UINT32_MAX - 1 - (uint32_t)(slot - per_thread);
    }
    return *slot;
}

struct fc_stream *fc_legacy(void)
{
    return special(&legacy, true);
}

struct fc_stream *fc_stream_get(CUstream handle)
{
    if (!handle || handle == CU_STREAM_LEGACY)
        return fc_legacy();
    if (handle == CU_STREAM_PER_THREAD)
        return special(&per_thread[fc_thread()->id % THREADS], false);
    return fc_get(handle, FC_STREAM);
}

struct fc_event *fc_event_get(CUevent handle)
{
    return fc_get(handle, FC_EVENT);
}

void fc_stream_reset(void)
{
    FC_FREE(&streams);
    legacy = last_destroyed = NULL;
    memset(per_thread, 0, sizeof per_thread);
}

static void add_all(struct fc_ops *to, const struct fc_ops *from)
{
    for (size_t i = 0; i < from->len; i++)
        fc_ops_add(to, from->at[i]);
}

static bool blocking(const struct fc_stream *s)
{
    return !s->legacy && !(s->flags & CU_STREAM_NON_BLOCKING);
}

void fc_order(struct fc_stream *s, struct fc_ops *deps)
{
    add_all(deps, &s->tail);
    if (blocking(s) && legacy)
        add_all(deps, &legacy->tail);
    for (size_t i = 0; s->legacy && i < streams.len; i++)
        if (blocking(streams.at[i]))
            add_all(deps, &streams.at[i]->tail);
    for (size_t i = 0; s->legacy && i < THREADS; i++)
        if (per_thread[i])
            add_all(deps, &per_thread[i]->tail);
}

void fc_follow(struct fc_stream *s, struct fc_op *op)
{
    fc_ref(op);
    fc_ops_clear(&s->tail);
    FC_PUSH(&s->tail, op);
}

CUresult fc_issue(struct fc_stream *s, struct fc_work *work, struct fc_node **node)
{
    CUresult err = fc_gate_stream(s);
    if (!err && s->capture)
        return fc_capture_add(s, work, node);
    if (err) {
        fc_work_free(work);
        return err;
    }
    struct fc_ops deps = {0};
    fc_order(s, &deps);
    bool *programmatic = NULL;
    if (work->type == CU_GRAPH_NODE_TYPE_KERNEL && work->u.launch.programmatic) {
        programmatic = fc_alloc(deps.len);
        memset(programmatic, true, deps.len);
    }
    fc_follow(s, fc_submit(*work, s->o.id, &deps, programmatic));
    free(programmatic);
    fc_ops_clear(&deps);
    return CUDA_SUCCESS;
}

CUresult fc_sync_stream(struct fc_stream *s)
{
    struct fc_ops deps = {0};
    fc_order(s, &deps);
    fc_sync_ops(&deps, s->o.id);
    fc_ops_clear(&deps);
    return fc.sticky;
}

/* ---- streams ---- */

void fakecuda_reuse_streams(bool on)
{
    fc_lock();
    fc.reuse_streams = on;
    last_destroyed = NULL;
    fc_unlock();
}

/* Another stream at the same address: the other's work goes on without it. */
static struct fc_stream *revive(struct fc_stream *s)
{
    fc_ops_clear(&s->tail);
    s->o.id = ++fc.made[FC_STREAM];
    s->o.dead = false;
    fc.live[FC_STREAM]++;
    return s;
}

static CUresult create(CUstream *out, unsigned flags, int priority)
{
    if (!out || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    struct fc_stream *s = fc.reuse_streams && last_destroyed ? revive(last_destroyed)
                                                             : fc_new(FC_STREAM, sizeof *s, stream_dispose);
    last_destroyed = NULL;
    s->flags = flags;
    s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    FC_PUSH(&streams, s);
    *out = (CUstream)s;
    return CUDA_SUCCESS;
}

FC_API CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
    FC_ENTER("cuStreamCreate", "%u", flags);
    return fc_leave(create(out, flags, 0));
}

FC_API CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
    FC_ENTER("cuStreamCreateWithPriority", "%u %d", flags, priority);
    return fc_leave(create(out, flags, priority));
}

static CUresult destroy(CUstream handle)
{
    struct fc_stream *s = handle && (uintptr_t)handle > 2 ? fc_get(handle, FC_STREAM) : NULL;
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (s->capture) {
        fakecuda_fault("stream#%u is destroyed while it is capturing", s->o.id);
        fc_capture_invalidate(s->capture);
        fc_stream_forget(s);
    }
    for (size_t i = 0; i < streams.len; i++)
        if (streams.at[i] == s) {
            memmove(&streams.at[i], &streams.at[i + 1], (streams.len - i - 1) * sizeof *streams.at);
            streams.len--;
            break;
        }
    fc_kill(s);
    last_destroyed = s;
    return CUDA_SUCCESS;
}

FC_API CUresult cuStreamDestroy_v2(CUstream stream)
{
    FC_ENTER_RELEASE("cuStreamDestroy", "%s", fc_str(stream, FC_STREAM));
    FC_LEAVE_RELEASE(destroy(stream));
}

FC_API CUresult cuStreamSynchronize(CUstream stream)
{
    FC_ENTER_RELEASE("cuStreamSynchronize", "%s", fc_str(stream, FC_STREAM));
    struct fc_stream *s = fc_stream_get(stream);
    if (!s)
        FC_LEAVE_RELEASE(CUDA_ERROR_INVALID_HANDLE);
    CUresult err = fc_gate_sync(s);
    FC_LEAVE_RELEASE(err ? err : fc_sync_stream(s));
}

FC_API CUresult cuStreamQuery(CUstream stream)
{
    FC_ENTER("cuStreamQuery", "%s", fc_str(stream, FC_STREAM));
    struct fc_stream *s = fc_stream_get(stream);
    if (!s)
        return fc_leave(CUDA_ERROR_INVALID_HANDLE);
    CUresult err = fc_gate_sync(s);
    if (err)
        return fc_leave(err);
    /* Work makes progress while it is polled: half of the time all of it. */
    bool busy = fc_stream_busy(s->o.id, &s->tail);
    if (busy && fc_random() % 2 == 0)
        fc_sync_stream(s);
    return fc_leave(fc.sticky ? fc.sticky : busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}

FC_API CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
    FC_ENTER("cuStreamGetPriority", "%s", fc_str(stream, FC_STREAM));
    const struct fc_stream *s = fc_stream_get(stream);
    if (!s || !priority)
        return fc_leave(s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE);
    *priority = s->priority;
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuStreamGetFlags(CUstream stream, unsigned *flags)
{
    FC_ENTER("cuStreamGetFlags", "%s", fc_str(stream, FC_STREAM));
    const struct fc_stream *s = fc_stream_get(stream);
    if (!s || !flags)
        return fc_leave(s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE);
    *flags = s->flags;
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuStreamGetId(CUstream stream, unsigned long long *id)
{
    FC_ENTER("cuStreamGetId", "%s", fc_str(stream, FC_STREAM));
    const struct fc_stream *s = fc_stream_get(stream);
    if (!s || !id)
        return fc_leave(s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE);
    *id = s->o.id;
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuStreamGetCtx(CUstream stream, CUcontext *ctx)
{
    FC_ENTER("cuStreamGetCtx", "%s", fc_str(stream, FC_STREAM));
    const struct fc_stream *s = fc_stream_get(stream);
    if (!s || !ctx)
        return fc_leave(s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE);
    *ctx = (CUcontext)fc.primary;
    return fc_leave(CUDA_SUCCESS);
}

static CUresult wait_event(struct fc_stream *s, struct fc_event *e, unsigned flags)
{
    if (!s || !e)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags > CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags && s->capture) {
        struct fc_work w = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .u.event = e};
        return fc_issue(s, &w, NULL);
    }
    if (s->capture || e->capture)
        return fc_capture_wait(s, e);
    CUresult err = fc_gate_stream(s);
    if (err)
        return err;
    struct fc_ops deps = {0};
    fc_order(s, &deps); /* a wait in the legacy stream is work in it */
    add_all(&deps, &e->ops);
    fc_ops_clear(&s->tail);
    s->tail = deps;
    return CUDA_SUCCESS;
}

FC_API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    FC_ENTER("cuStreamWaitEvent", "%s %s %u", fc_str(stream, FC_STREAM), fc_str(event, FC_EVENT), flags);
    return fc_leave(wait_event(fc_stream_get(stream), fc_event_get(event), flags));
}

FC_API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *user)
{
    FC_ENTER("cuLaunchHostFunc", "%s", fc_str(stream, FC_STREAM));
    struct fc_stream *s = fc_stream_get(stream);
    if (!s || !fn)
        return fc_leave(s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE);
    struct fc_work w = {.type = CU_GRAPH_NODE_TYPE_HOST, .u.host = {fn, user}};
    return fc_leave(fc_issue(s, &w, NULL));
}

/* ---- events ---- */

static void event_dispose(void *self)
{
    struct fc_event *e = self;
    fc_ops_clear(&e->ops);
    FC_FREE(&e->pending);
}

FC_API CUresult cuEventCreate(CUevent *out, unsigned flags)
{
    FC_ENTER("cuEventCreate", "%u", flags);
    if (!out || flags > 7)
        return fc_leave(CUDA_ERROR_INVALID_VALUE);
    struct fc_event *e = fc_new(FC_EVENT, sizeof *e, event_dispose);
    e->flags = flags;
    *out = (CUevent)e;
    return fc_leave(CUDA_SUCCESS);
}

FC_API CUresult cuEventDestroy_v2(CUevent event)
{
    FC_ENTER_RELEASE("cuEventDestroy", "%s", fc_str(event, FC_EVENT));
    struct fc_event *e = fc_event_get(event);
    if (e)
        fc_kill(e);
    FC_LEAVE_RELEASE(e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

static CUresult record(struct fc_event *e, struct fc_stream *s, unsigned flags)
{
    if (!e || !s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags > CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult err = fc_gate_stream(s);
    if (err)
        return err;
    if (s->capture && !flags) {
        fc_capture_record(s, e);
        return CUDA_SUCCESS;
    }
    struct fc_work w = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .u.event = e};
    if (s->capture)
        return fc_issue(s, &w, NULL);
    err = fc_issue(s, &w, NULL);
    fc_ops_clear(&e->ops);
    add_all(&e->ops, &s->tail);
    e->recorded = true;
    e->capture = 0;
    return err;
}

FC_API CUresult cuEventRecord(CUevent event, CUstream stream)
{
    FC_ENTER("cuEventRecord", "%s %s", fc_str(event, FC_EVENT), fc_str(stream, FC_STREAM));
    return fc_leave(record(fc_event_get(event), fc_stream_get(stream), 0));
}

FC_API CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    FC_ENTER("cuEventRecordWithFlags", "%s %s %u", fc_str(event, FC_EVENT), fc_str(stream, FC_STREAM), flags);
    return fc_leave(record(fc_event_get(event), fc_stream_get(stream), flags));
}

static bool event_busy(const struct fc_event *e)
{
    for (size_t i = 0; i < e->ops.len; i++)
        if (!e->ops.at[i]->done)
            return true;
    return false;
}

FC_API CUresult cuEventQuery(CUevent event)
{
    FC_ENTER("cuEventQuery", "%s", fc_str(event, FC_EVENT));
    struct fc_event *e = fc_event_get(event);
    CUresult err = e ? fc_gate_event(e) : CUDA_ERROR_INVALID_HANDLE;
    if (err)
        return fc_leave(err);
    bool busy = event_busy(e);
    if (busy && fc_random() % 2 == 0)
        fc_sync_ops(&e->ops, 0);
    return fc_leave(fc.sticky ? fc.sticky : busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}

FC_API CUresult cuEventSynchronize(CUevent event)
{
    FC_ENTER_RELEASE("cuEventSynchronize", "%s", fc_str(event, FC_EVENT));
    struct fc_event *e = fc_event_get(event);
    CUresult err = e ? fc_gate_event(e) : CUDA_ERROR_INVALID_HANDLE;
    if (!err)
        fc_sync_ops(&e->ops, 0);
    FC_LEAVE_RELEASE(err ? err : fc.sticky);
}

static CUresult elapsed(float *ms, const struct fc_event *a, const struct fc_event *b)
{
    if (!ms)
        return CUDA_ERROR_INVALID_VALUE;
    if (!a || !b || !a->recorded || !b->recorded || ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    if (event_busy(a) || event_busy(b))
        return CUDA_ERROR_NOT_READY;
    *ms = 1.0F; /* there is no time here */
    return CUDA_SUCCESS;
}

FC_API CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    FC_ENTER("cuEventElapsedTime", "%s %s", fc_str(start, FC_EVENT), fc_str(end, FC_EVENT));
    return fc_leave(elapsed(ms, fc_event_get(start), fc_event_get(end)));
}

FC_API CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    return cuEventElapsedTime(ms, start, end);
}
