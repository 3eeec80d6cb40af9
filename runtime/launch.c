/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches: eager, with hooks for tests, or recorded into the capture that the caller's stream is in.
 */
#include "exec.h"

static enum stem_status check_recordable(const struct stem_exec *e, uint32_t variant, struct stem_rt_error *err)
{
    const struct stem_plan_variant *v = &e->plan->variants[variant];
    for (uint32_t i = 0; i < v->n_segments; i++)
        if (v->segments[i].eager && v->segments[i].n_ops) {
            stem_fail(err, STEM_E_CAPTURE, "segment %u is eager: the program cannot be recorded into one graph",
                      (unsigned)i);
            stem_error_at_op(err, e->plan, v, v->segments[i].first_op);
            return STEM_E_CAPTURE;
        }
    if (e->plan->slab_bytes && !e->slab)
        return stem_fail(
            err, STEM_E_CAPTURE,
            "recording would have to allocate the slab: call stem_exec_prepare before the capture begins");
    return STEM_OK;
}

/* ---- launching ---- */

static enum stem_status record(struct stem_exec *e, uint32_t variant, struct CUstream_st *stream,
                               const struct stem_capture *c, struct stem_rt_error *err)
{
    const struct stem_plan_variant *v = &e->plan->variants[variant];
    struct stem_node_map map = {0};
    enum stem_status s = check_recordable(e, variant, err);
    struct stem_replay r = {.e = e, .variant = variant, .main = stream, .capturing = true, .map = &map};
    for (uint32_t i = 0; i < v->n_segments && !s; i++)
        s = stem_replay_segment(&r, i, err);
    for (uint32_t i = 0; i < v->n_segments && !s; i++) {
        struct stem_graph_check check = {
            .e = e, .v = v, .segment = i, .graph = c->graph, .map = &map, .foreign = true};
        s = stem_graph_compare(&check, err);
    }
    stem_node_map_free(&map);
    stem_log(&e->rt->log, "capture", "%s variant %u: %s", e->plan->name, (unsigned)variant,
             s ? "not recorded" : "recorded into the caller's capture");
    return s;
}

static enum stem_status eager(struct stem_exec *e, uint32_t variant, struct CUstream_st *stream,
                              const struct stem_launch_options *options, struct stem_rt_error *err)
{
    const struct stem_plan_variant *v = &e->plan->variants[variant];
    struct stem_replay r = {
        .e = e, .variant = variant, .main = stream, .options = options, .pool = e->o.memory == STEM_MEMORY_POOL};
    enum stem_status s = stem_order_begin(e, NULL, stream, err);
    if (s)
        return s;
    if (options && options->poison && e->slab) {
        int code = e->rt->d.memset_d8(e->slab, 0xff, e->plan->slab_bytes, stream);
        if (code)
            s = stem_fail_cuda(err, &e->rt->d, code, "poisoning the slab");
    }
    for (uint32_t i = 0; i < v->n_segments && !s; i++)
        s = stem_replay_segment(&r, i, err);
    /* After a failure too: what was enqueued before it still uses the slab. */
    enum stem_status end = stem_order_end(e, NULL, stream, s != STEM_OK, s ? NULL : err);
    stem_log(&e->rt->log, "launch", "%s variant %u: %s", e->plan->name, (unsigned)variant,
             s || end ? "failed" : "eager");
    return s ? s : end;
}

/* What every kind of launch checks first. */
static enum stem_status begin(struct stem_exec *e, uint32_t variant, struct CUstream_st *stream,
                              struct stem_capture *c, struct stem_rt_error *err)
{
    enum stem_status s = stem_check_variant_index(e, variant, err);
    if (!s)
        s = stem_capture_of(e->rt, stream, c, err);
    if (!s && c->status == STEM_CUDA_CAPTURE_INVALIDATED)
        s = stem_fail(err, STEM_E_CAPTURE, "the capture that the stream is in was invalidated before");
    if (!s)
        s = stem_check_side_streams(e, c, err);
    if (!s)
        s = stem_resolve(e, variant, err);
    return s;
}

enum stem_status stem_exec_launch(struct stem_exec *e, uint32_t variant, struct CUstream_st *stream,
                                  struct stem_rt_error *err)
{
    struct stem_capture c;
    enum stem_status s = stem_acquire(e, err);
    if (s)
        return s;
    s = begin(e, variant, stream, &c, err);
    if (!s)
        s = c.status == STEM_CUDA_CAPTURE_ACTIVE ? record(e, variant, stream, &c, err)
                                                 : eager(e, variant, stream, NULL, err);
    stem_release(e);
    return s;
}

enum stem_status stem_exec_record(struct stem_exec *e, uint32_t variant, struct CUstream_st *stream,
                                  struct stem_rt_error *err)
{
    struct stem_capture c;
    enum stem_status s = stem_acquire(e, err);
    if (s)
        return s;
    s = begin(e, variant, stream, &c, err);
    if (!s && c.status != STEM_CUDA_CAPTURE_ACTIVE)
        s = stem_fail(err, STEM_E_CAPTURE, "the stream is not capturing");
    if (!s)
        s = record(e, variant, stream, &c, err);
    stem_release(e);
    return s;
}

enum stem_status stem_exec_launch_with(struct stem_exec *e, uint32_t variant, struct CUstream_st *stream,
                                       const struct stem_launch_options *options, struct stem_rt_error *err)
{
    struct stem_capture c;
    STEM_NEED(options, "options");
    enum stem_status s = stem_acquire(e, err);
    if (s)
        return s;
    s = begin(e, variant, stream, &c, err);
    if (!s && c.status != STEM_CUDA_CAPTURE_NONE)
        s = stem_fail(err, STEM_E_CAPTURE, "launch options cannot be recorded");
    if (!s && options->delay_op != STEM_NONE)
        s = stem_builtin_load(e->rt, err);
    if (!s)
        s = eager(e, variant, stream, options, err);
    stem_release(e);
    return s;
}
