/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of launches of one program: each follows the one before, on whatever streams, because they use the same
 * memory. Saying so by an event costs a wait and a record for each launch, a third of what launching a graph costs. So
 * a graph that is launched again and again gets none:
 *
 * - The driver lets launches of one instantiated graph follow each other, whatever their streams.
 * - Launches on one stream follow each other. The stream is told by the driver's number, not by its handle: a new stream
 *   may have the handle of one that was destroyed with work pending, and CU_STREAM_PER_THREAD is another stream in
 *   each thread.
 *
 * What is left is a launch of something else on another stream, or a wait on the host. The stream of the last launch may
 * be gone by then, and with it all that an event could be recorded on; but the graph is there. A launch of it with all its
 * nodes switched off does nothing, after its last launch: that is what the new stream gets. It is slow, one call for each
 * node, and so done once: from then on each launch of the program is marked by an event.
 */
#include "exec.h"

/* CU_STREAM_PER_THREAD */
static bool per_thread(struct CUstream_st *stream)
{
    return (uintptr_t)stream == 2;
}

static enum stem_status enable(struct stem_graph *g, unsigned on, struct stem_rt_error *err)
{
    const struct stem_plan_variant *v = &g->e->plan->variants[g->variant];
    const struct stem_driver *d = &g->e->rt->d;
    int code = 0;
    g->asleep = true;
    for (uint32_t i = 0; i < v->n_ops && !code; i++)
        code = d->graph_node_enable(g->parts[0].exec, g->node[i], on);
    if (code)
        return stem_fail_cuda(err, d, code, "cuGraphNodeSetEnabled");
    g->asleep = !on;
    return STEM_OK;
}

enum stem_status stem_order_wake(struct stem_graph *g, struct stem_rt_error *err)
{
    return enable(g, 1, err);
}

/* Work on `stream` follows the last launch of the graph. It wakes when it is launched next. */
static enum stem_status follow(struct stem_graph *g, struct CUstream_st *stream, struct stem_rt_error *err)
{
    enum stem_status s = enable(g, 0, err);
    int code = s ? 0 : g->e->rt->d.graph_launch(g->parts[0].exec, stream);
    return code ? stem_fail_cuda(err, &g->e->rt->d, code, "waiting for the last launch of the graph") : s;
}

static bool is_repeated(const struct stem_order *o, const struct stem_graph *g, struct CUstream_st *stream)
{
    return g && g == o->unmarked && stream == o->stream && !per_thread(stream);
}

enum stem_status stem_order_begin(struct stem_exec *e, struct stem_graph *g, struct CUstream_st *stream,
                                  struct stem_rt_error *err)
{
    struct stem_order *o = &e->order;
    enum stem_status s = STEM_OK;
    int code = 0;
    /* The number may be that of an earlier stream with this handle: then nothing will be taken for it, which is safe. */
    bool repeated = is_repeated(o, g, stream), simple = g && g->simple && !o->marks;
    if (!repeated && (o->unmarked || simple)) {
        code = e->rt->d.stream_id(stream, &o->next);
        if (code)
            return stem_fail_cuda(err, &e->rt->d, code, "cuStreamGetId");
    }
    if (o->launched && !e->o.caller_orders) {
        if (!o->unmarked) {
            code = e->rt->d.stream_wait(stream, e->done, 0);
        } else if (o->unmarked != g && !(stream == o->stream && o->next == o->id)) {
            s = follow(o->unmarked, stream, err);
            o->marks = !s || o->marks;
        }
    }
    if (code)
        s = stem_fail_cuda(err, &e->rt->d, code, "waiting for the program's previous launch");
    if (!s && g && g->asleep)
        s = stem_order_wake(g, err);
    return s;
}

enum stem_status stem_order_end(struct stem_exec *e, struct stem_graph *g, struct CUstream_st *stream, bool failed,
                                struct stem_rt_error *err)
{
    struct stem_order *o = &e->order;
    if (g && g->simple && failed)
        return STEM_OK; /* nothing was enqueued: what stood for the last launch still does */
    if (g && g->simple && !o->marks) {
        if (!is_repeated(o, g, stream))
            o->id = o->next;
        o->unmarked = g;
        o->stream = stream;
        o->launched = true;
        return STEM_OK;
    }
    int code = e->rt->d.event_record(e->done, stream);
    o->unmarked = NULL;
    o->launched = true;
    if (!code)
        return STEM_OK;
    /* Without a mark there must be nothing to wait for. */
    o->launched = e->rt->d.stream_synchronize(stream) != 0;
    return stem_fail_cuda(err, &e->rt->d, code, "marking the end of the launch");
}

enum stem_status stem_order_wait(struct stem_exec *e, bool goes_on, struct stem_rt_error *err)
{
    struct stem_order *o = &e->order;
    const struct stem_driver *d = &e->rt->d;
    int code = 0;
    if (!o->launched)
        return STEM_OK;
    if (!o->unmarked)
        code = d->event_synchronize(e->done);
    else if (follow(o->unmarked, e->origin, NULL) || d->stream_synchronize(e->origin))
        code = d->ctx_synchronize(); /* too much, but never too little */
    o->marks = o->marks || (goes_on && o->unmarked);
    if (code && goes_on)
        return stem_fail_cuda(err, d, code, "waiting for the program's last launch");
    o->launched = false;
    o->unmarked = NULL;
    return STEM_OK;
}
