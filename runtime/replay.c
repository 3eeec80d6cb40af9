/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays steps on streams. The same walk serves eager launches, the capture of graphs of our own and recording into
 * somebody else's capture. Nothing here depends on a flag that would have to be restored: whether frees happen is a
 * member of the walk, which ends with the call.
 */
#include "matmul.h"

#include <stdlib.h>
#include <string.h>

/* Whatever a walk needs while it runs. */
struct walk {
    const struct stem_replay *r;
    struct stem_exec *e;
    const struct stem_plan_variant *v;
    const struct stem_route *route;
    uint64_t *address;
    bool pool; /* buffers are allocated and freed as the steps say */
    uint32_t segment;
    struct stem_rt_error *err;
};

static struct CUstream_st *stream_of(const struct walk *w, uint32_t s)
{
    return s ? w->e->streams[s] : w->r->main;
}

static enum stem_status cuda_status(const struct walk *w, int code, const char *what)
{
    return code ? stem_fail_cuda(w->err, &w->e->rt->d, code, "%s", what) : STEM_OK;
}

/* ---- captures ---- */

/* The node that was just captured on a stream is all that the stream now depends on. */
static enum stem_status note_node(const struct walk *w, uint32_t op)
{
    struct stem_capture c;
    enum stem_status s = stem_capture_of(w->e->rt, stream_of(w, w->v->ops[op].stream), &c, w->err);
    if (s)
        return s;
    if (c.status != STEM_CUDA_CAPTURE_ACTIVE)
        return stem_fail(w->err, STEM_E_CAPTURE, "the capture was invalidated");
    if (c.n_nodes != 1)
        return stem_fail(w->err, STEM_E_CAPTURE, "one node was expected, the stream depends on %zu", c.n_nodes);
    if (!stem_node_put(w->r->map, c.nodes[0], op))
        return stem_fail(w->err, STEM_E_MEMORY, "out of memory");
    return STEM_OK;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (struct CUgraphNode_st *const *)a,
              y = (uintptr_t) * (struct CUgraphNode_st *const *)b;
    return (x > y) - (x < y);
}

/* An extern function, or a library, may capture any number of nodes: those that are there after it and were not before. */
static enum stem_status capture_several(const struct walk *w, uint32_t op)
{
    struct CUgraphNode_st **before = NULL, **after = NULL;
    size_t n_before = 0, n_after = 0;
    struct stem_capture c;
    const struct stem_plan_op *o = &w->v->ops[op];
    enum stem_status s = stem_capture_of(w->e->rt, w->r->main, &c, w->err);
    if (!s && c.status != STEM_CUDA_CAPTURE_ACTIVE)
        s = stem_fail(w->err, STEM_E_CAPTURE, "the capture was invalidated");
    if (!s)
        s = stem_graph_list(w->e->rt, c.graph, &before, &n_before, w->err);
    if (!s) {
        qsort(before, n_before, sizeof *before, by_address);
        s = stem_issue_op(w->e, o, w->address, stream_of(w, o->stream), true, w->err);
    }
    if (!s)
        s = stem_graph_list(w->e->rt, c.graph, &after, &n_after, w->err);
    for (size_t i = 0; !s && i < n_after; i++)
        if (!bsearch(&after[i], before, n_before, sizeof *before, by_address) &&
            !stem_node_put(w->r->map, after[i], op))
            s = stem_fail(w->err, STEM_E_MEMORY, "out of memory");
    if (!s && n_after == n_before)
        s = stem_fail(w->err, STEM_E_EXTERN, "%s recorded nothing on its stream",
                      o->work == STEM_WORK_EXTERN ? w->e->plan->externs[o->function].name : "cuBLASLt");
    free(before);
    free(after);
    return s;
}

/* ---- steps ---- */

static enum stem_status debug_op(const struct walk *w, uint32_t op)
{
    const struct stem_launch_options *o = w->r->options;
    const struct stem_plan_op *p = &w->v->ops[op];
    enum stem_status s = cuda_status(w, w->e->rt->d.stream_synchronize(stream_of(w, p->stream)), "running the op");
    if (s)
        return s;
    uint64_t *operands = stem_zalloc(p->n_operands, sizeof *operands);
    if (!operands)
        return stem_fail(w->err, STEM_E_MEMORY, "out of memory");
    memcpy(operands, w->e->values, p->n_operands * sizeof *operands);
    bool go_on = o->after_op(o->user, p, op, operands);
    free(operands);
    return go_on ? STEM_OK : stem_fail(w->err, STEM_E_ARGUMENT, "stopped by the callback");
}

static enum stem_status run_op(const struct walk *w, uint32_t op)
{
    const struct stem_launch_options *o = w->r->options;
    const struct stem_plan_op *p = &w->v->ops[op];
    enum stem_status s = STEM_OK;
    bool several = p->work == STEM_WORK_EXTERN || (p->work == STEM_WORK_MATMUL && stem_matmul_n_nodes(w->e, p) > 1);
    if (w->r->capturing && several) {
        s = capture_several(w, op);
    } else {
        if (o && o->delay_op == op)
            s = stem_delay(w->e->rt, o->delay_us, stream_of(w, p->stream), w->err);
        if (!s)
            s = stem_issue_op(w->e, p, w->address, stream_of(w, p->stream), w->r->capturing, w->err);
        if (!s && w->r->capturing)
            s = note_node(w, op);
    }
    if (!s && o && o->after_op)
        s = debug_op(w, op);
    if (s)
        stem_error_at_op(w->err, w->e->plan, w->v, op);
    return s;
}

static enum stem_status run_alloc(const struct walk *w, const struct stem_step *step)
{
    const struct stem_plan_buffer *b = &w->v->buffers[step->index];
    if (!w->pool)
        return STEM_OK;
    if (w->address[step->index])
        return stem_fail(w->err, STEM_E_PLAN, "buffer %s is allocated twice", b->name);
    return stem_pool_alloc(w->e, b->bytes, stream_of(w, step->stream), &w->address[step->index], w->err);
}

/* Under capture nothing is freed: the graph reads the memory at each replay, and the program owns it. */
static enum stem_status run_free(const struct walk *w, const struct stem_step *step)
{
    const struct stem_plan_buffer *b = &w->v->buffers[step->index];
    if (!w->pool)
        return STEM_OK;
    uint64_t at = w->address[step->index];
    w->address[step->index] = 0;
    if (!at)
        return stem_fail(w->err, STEM_E_PLAN, "buffer %s is freed without being allocated", b->name);
    return stem_pool_free(w->e, at, b->bytes, stream_of(w, step->stream), w->err);
}

static enum stem_status run_step(const struct walk *w, uint32_t index)
{
    const struct stem_step *step = &w->v->steps[index];
    const struct stem_driver *d = &w->e->rt->d;
    switch (step->kind) {
    case STEM_STEP_OP:
        return run_op(w, step->index);
    case STEM_STEP_RECORD:
        return cuda_status(w, d->event_record(w->e->events[step->index], stream_of(w, step->stream)),
                           "cuEventRecord");
    case STEM_STEP_WAIT:
        if (w->route->skip[index])
            return STEM_OK;
        return cuda_status(w, d->stream_wait(stream_of(w, step->stream), w->e->events[step->index], 0),
                           "cuStreamWaitEvent");
    case STEM_STEP_ALLOC:
        return run_alloc(w, step);
    case STEM_STEP_FREE:
        return run_free(w, step);
    case STEM_STEP_SEGMENT:
        return STEM_OK;
    }
    return stem_fail(w->err, STEM_E_PLAN, "unknown step");
}

/* ---- segments ---- */

static enum stem_status fork_streams(const struct walk *w)
{
    const struct stem_driver *d = &w->e->rt->d;
    const bool *fork = w->route->fork + (size_t)w->segment * w->e->plan->n_streams;
    bool recorded = false;
    for (uint32_t s = 1; s < w->e->plan->n_streams; s++) {
        if (!fork[s])
            continue;
        int code = recorded ? 0 : d->event_record(w->e->fork, w->r->main);
        recorded = true;
        if (!code)
            code = d->stream_wait(w->e->streams[s], w->e->fork, 0);
        if (code)
            return cuda_status(w, code, "forking a side stream");
    }
    return STEM_OK;
}

/* After a failure: nothing may stay outstanding on a side stream, or forked from the caller's capture. Errors here
 * are not reported: the first one is what matters, and a capture that is invalid has let go of its streams. */
static void rejoin(const struct walk *w)
{
    const struct stem_driver *d = &w->e->rt->d;
    const bool *used = w->route->used + (size_t)w->segment * w->e->plan->n_streams;
    for (uint32_t s = 1; s < w->e->plan->n_streams; s++) {
        struct stem_capture c;
        if (!used[s])
            continue;
        /* While we record, a side stream that was not forked yet has nothing to join. */
        if (stem_capture_of(w->e->rt, w->e->streams[s], &c, NULL) ||
            w->r->capturing != (c.status == STEM_CUDA_CAPTURE_ACTIVE))
            continue;
        if (d->event_record(w->e->join, w->e->streams[s]) == 0)
            d->stream_wait(w->r->main, w->e->join, 0);
    }
    for (uint32_t b = w->e->plan->n_external; w->pool && b < w->v->n_buffers; b++) {
        if (w->address[b])
            stem_pool_free(w->e, w->address[b], w->v->buffers[b].bytes, w->r->main, NULL);
        w->address[b] = 0;
    }
}

/* Buffers that no step frees live until the launch is over. */
static enum stem_status free_rest(const struct walk *w)
{
    enum stem_status s = STEM_OK;
    for (uint32_t b = w->e->plan->n_external; w->pool && b < w->v->n_buffers && !s; b++) {
        uint64_t at = w->address[b];
        w->address[b] = 0;
        if (at)
            s = stem_pool_free(w->e, at, w->v->buffers[b].bytes, w->r->main, w->err);
    }
    return s;
}

enum stem_status stem_replay_segment(struct stem_replay *r, uint32_t segment, struct stem_rt_error *err)
{
    struct stem_variant_state *state = &r->e->variants[r->variant];
    struct walk w = {.r = r,
                     .e = r->e,
                     .v = &r->e->plan->variants[r->variant],
                     .route = &state->route,
                     .segment = segment,
                     .err = err};
    const struct stem_plan_segment *s = &w.v->segments[segment];
    w.pool = r->pool;
    w.address = w.pool ? state->pool : state->address;
    enum stem_status status = fork_streams(&w);
    for (uint32_t i = 0; i < s->n_steps && !status; i++)
        status = run_step(&w, s->first_step + i);
    if (!status && segment + 1 == w.v->n_segments)
        status = free_rest(&w);
    if (status)
        rejoin(&w);
    return status;
}
