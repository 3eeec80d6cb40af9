/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of a program's own: one for each segment, by capture or node by node. Both ways end in the same comparison
 * with the plan, so both give the same nodes and edges.
 */
#include "matmul.h"

#include <stdlib.h>
#include <string.h>

static const struct stem_plan_variant *variant_of(const struct stem_graph *g)
{
    return &g->e->plan->variants[g->variant];
}

/* ---- by capture ---- */

/* Ends the capture whatever happened; a graph comes out only if everything went well. */
static enum stem_status end_capture(struct stem_graph *g, struct CUstream_st *stream, enum stem_status s,
                                    struct CUgraph_st **graph, struct stem_rt_error *err)
{
    struct stem_rt *rt = g->e->rt;
    *graph = NULL;
    int code = rt->d.stream_end_capture(stream, graph);
    if (code == 0 && *graph)
        atomic_fetch_add(&rt->live, 1);
    else
        *graph = NULL;
    if (!s && (code || !*graph))
        s = stem_fail_cuda(err, &rt->d, code, "cuStreamEndCapture");
    if (s) {
        stem_drop_graph(rt, *graph);
        *graph = NULL;
    }
    return s;
}

static enum stem_status capture_segment(struct stem_graph *g, uint32_t segment, struct stem_node_map *map,
                                        struct stem_rt_error *err)
{
    struct stem_exec *e = g->e;
    struct stem_replay r = {.e = e, .variant = g->variant, .main = e->origin, .capturing = true, .map = map};
    int code = e->rt->d.stream_begin_capture(e->origin, STEM_CUDA_CAPTURE_MODE_THREAD_LOCAL);
    if (code)
        return stem_fail_cuda(err, &e->rt->d, code, "cuStreamBeginCapture");
    enum stem_status s = stem_replay_segment(&r, segment, err);
    return end_capture(g, e->origin, s, &g->parts[segment].graph, err);
}

/* ---- node by node ---- */

static enum stem_status capture_child(struct stem_graph *g, uint32_t op, struct CUgraph_st **child,
                                      struct stem_rt_error *err)
{
    struct stem_exec *e = g->e;
    int code = e->rt->d.stream_begin_capture(e->helper, STEM_CUDA_CAPTURE_MODE_THREAD_LOCAL);
    if (code)
        return stem_fail_cuda(err, &e->rt->d, code, "cuStreamBeginCapture");
    enum stem_status s =
        stem_issue_op(e, &variant_of(g)->ops[op], e->variants[g->variant].address, e->helper, true, err);
    s = end_capture(g, e->helper, s, child, err);
    size_t n = 0;
    if (!s && (code = e->rt->d.graph_nodes(*child, NULL, &n)))
        s = stem_fail_cuda(err, &e->rt->d, code, "cuGraphGetNodes");
    if (!s && n == 0)
        s = stem_fail(err, STEM_E_EXTERN, "extern function %s recorded nothing on its stream",
                      e->plan->externs[variant_of(g)->ops[op].function].name);
    if (s) {
        stem_drop_graph(e->rt, *child);
        *child = NULL;
    }
    return s;
}

/* Edges come sorted by target: the incoming edges of ops in order are one run after another. */
static enum stem_status add_node(struct stem_graph *g, uint32_t segment, uint32_t op, uint32_t *edge,
                                 struct stem_rt_error *err)
{
    const struct stem_plan_variant *v = variant_of(g);
    struct stem_rt *rt = g->e->rt;
    struct stem_cuda_node_params params;
    struct CUgraph_st *child = NULL;
    while (*edge < v->n_edges && v->edges[*edge].to < op)
        ++*edge;
    uint32_t n = 0;
    while (*edge + n < v->n_edges && v->edges[*edge + n].to == op)
        n++;
    struct CUgraphNode_st **from = stem_zalloc(n, sizeof *from);
    struct stem_cuda_edge *data = stem_zalloc(n, sizeof *data);
    enum stem_status s = from && data ? STEM_OK : stem_fail(err, STEM_E_MEMORY, "out of memory");
    for (uint32_t i = 0; !s && i < n; i++) {
        const struct stem_plan_edge *x = &v->edges[*edge + i];
        from[i] = g->node[x->from];
        if (x->kind == STEM_EDGE_PROGRAMMATIC && stem_rt_programmatic(rt)) {
            data[i].type = STEM_CUDA_EDGE_PROGRAMMATIC;
            data[i].from_port = STEM_CUDA_PORT_PROGRAMMATIC;
        }
    }
    if (!s && v->ops[op].work == STEM_WORK_EXTERN)
        s = capture_child(g, op, &child, err);
    if (!s && v->ops[op].work == STEM_WORK_MATMUL) {
        s = stem_matmul_add(g->e, &v->ops[op], g->e->variants[g->variant].address, g->parts[segment].graph, from, data, n,
                            g->chain[op], err);
    } else if (!s) {
        stem_op_node(g->e, &v->ops[op], g->e->variants[g->variant].address, child, &params);
        int code =
            rt->d.graph_add_node(&g->node[op], g->parts[segment].graph, n ? from : NULL, n ? data : NULL, n, &params);
        if (code)
            s = stem_fail_cuda(err, &rt->d, code, "cuGraphAddNode");
    }
    stem_drop_graph(rt, child); /* the node has a clone */
    free(from);
    free(data);
    return s;
}

/* A captured kernel takes the priority of its stream; here it must be said. */
static enum stem_status set_priority(struct stem_graph *g, uint32_t op, struct CUgraphNode_st *node, struct stem_rt_error *err)
{
    const struct stem_plan_op *o = &variant_of(g)->ops[op];
    struct stem_rt *rt = g->e->rt;
    const int32_t *priorities = g->e->plan->priorities;
    if (!priorities || !priorities[o->stream] || (o->work != STEM_WORK_LAUNCH && o->work != STEM_WORK_MATMUL))
        return STEM_OK;
    union stem_cuda_launch_value value = {0};
    int64_t p = -(int64_t)priorities[o->stream];
    value.priority = (int)(p < rt->priority_greatest ? rt->priority_greatest
                           : p > rt->priority_least  ? rt->priority_least
                                                     : p);
    int code = rt->d.kernel_node_set_attribute(node, STEM_CUDA_LAUNCH_PRIORITY, &value);
    return code ? stem_fail_cuda(err, &rt->d, code, "setting the priority of a node") : STEM_OK;
}

/* The nodes of an op that was added: all of a product's, else one. */
static enum stem_status finish_op(struct stem_graph *g, uint32_t op, struct stem_node_map *map, struct stem_rt_error *err)
{
    struct CUgraphNode_st **node = &g->node[op];
    uint32_t n = 1;
    enum stem_status s = STEM_OK;
    if (variant_of(g)->ops[op].work == STEM_WORK_MATMUL) {
        node = g->chain[op];
        n = stem_matmul_n_nodes(g->e, &variant_of(g)->ops[op]);
        g->node[op] = node[n - 1];
    }
    for (uint32_t i = 0; i < n && !s; i++) {
        s = set_priority(g, op, node[i], err);
        if (!s && !stem_node_put(map, node[i], op))
            s = stem_fail(err, STEM_E_MEMORY, "out of memory");
    }
    return s;
}

static enum stem_status build_segment(struct stem_graph *g, uint32_t segment, struct stem_node_map *map,
                                      struct stem_rt_error *err)
{
    const struct stem_plan_segment *s = &variant_of(g)->segments[segment];
    uint32_t edge = 0;
    enum stem_status status = stem_new_graph(g->e->rt, &g->parts[segment].graph, err);
    if (status)
        return status;
    for (uint32_t i = 0; i < s->n_ops && !status; i++) {
        uint32_t op = s->first_op + i;
        status = add_node(g, segment, op, &edge, err);
        if (!status)
            status = finish_op(g, op, map, err);
        if (status)
            stem_error_at_op(err, g->e->plan, variant_of(g), op);
    }
    return status;
}

/* ---- both ---- */

static enum stem_status make_segment(struct stem_graph *g, uint32_t segment, struct stem_node_map *map,
                                     struct stem_rt_error *err)
{
    enum stem_status s =
        g->by == STEM_GRAPH_BY_CAPTURE ? capture_segment(g, segment, map, err) : build_segment(g, segment, map, err);
    if (s)
        return s;
    struct stem_graph_check check = {.e = g->e,
                                     .v = variant_of(g),
                                     .segment = segment,
                                     .graph = g->parts[segment].graph,
                                     .map = map,
                                     .chain = g->by == STEM_GRAPH_BY_CAPTURE ? g->chain : NULL,
                                     .repair = g->by == STEM_GRAPH_BY_CAPTURE};
    s = stem_graph_compare(&check, err);
    g->info.n_graphs++;
    g->info.n_nodes += check.n_nodes;
    g->info.n_edges += check.n_edges;
    g->info.n_programmatic += check.n_programmatic;
    return s;
}

static bool prioritised(const struct stem_plan *p)
{
    for (uint32_t i = 0; p->priorities && i < p->n_streams; i++)
        if (p->priorities[i])
            return true;
    return false;
}

static enum stem_status instantiate(struct stem_graph *g, struct stem_rt_error *err)
{
    struct stem_rt *rt = g->e->rt;
    size_t before = 0, after = 0, total;
    enum stem_status s = STEM_OK;
    int code = rt->d.mem_info(&before, &total);
    double start = stem_now_us();
    unsigned long long flags = prioritised(g->e->plan) ? STEM_CUDA_INSTANTIATE_NODE_PRIORITY : 0;
    for (uint32_t i = 0; i < variant_of(g)->n_segments && !code && !s; i++) {
        struct stem_graph_part *p = &g->parts[i];
        if (!p->graph)
            continue;
        code = rt->d.graph_instantiate(&p->exec, p->graph, flags);
        if (code) {
            p->exec = NULL;
            s = stem_fail_cuda(err, &rt->d, code, "cuGraphInstantiate of segment %u", (unsigned)i);
            return s;
        }
        atomic_fetch_add(&rt->live, 1);
    }
    g->info.instantiate_us = stem_now_us() - start;
    for (uint32_t i = 0; i < variant_of(g)->n_segments && !code; i++)
        if (g->parts[i].exec)
            code = rt->d.graph_upload(g->parts[i].exec, g->e->origin);
    if (!code)
        code = rt->d.stream_synchronize(g->e->origin);
    if (!code)
        code = rt->d.mem_info(&after, &total);
    g->info.device_bytes = (int64_t)before - (int64_t)after;
    return code ? stem_fail_cuda(err, &rt->d, code, "uploading the graph") : STEM_OK;
}

static struct CUgraphNode_st *last_of(struct stem_graph *g, uint32_t op)
{
    uint32_t n = stem_matmul_n_nodes(g->e, &variant_of(g)->ops[op]);
    return g->chain[op][n - 1];
}

/* An extern op captured in line may have several nodes; then no node stands for it. */
static void note_nodes(struct stem_graph *g, const struct stem_node_map *map)
{
    for (size_t i = 0; i < map->cap; i++) {
        if (!map->node[i])
            continue;
        bool inline_extern =
            g->by == STEM_GRAPH_BY_CAPTURE && variant_of(g)->ops[map->op[i]].work == STEM_WORK_EXTERN;
        bool product = variant_of(g)->ops[map->op[i]].work == STEM_WORK_MATMUL;
        g->node[map->op[i]] = inline_extern ? NULL : product ? last_of(g, map->op[i]) : map->node[i];
    }
}

/* Nodes of kernels and memsets can be switched off, child graphs cannot; and not all nodes of a product are in g->node. */
static bool is_simple(const struct stem_graph *g)
{
    const struct stem_plan_variant *v = variant_of(g);
    bool simple = v->n_segments == 1 && g->parts[0].graph;
    for (uint32_t i = 0; i < v->n_ops && simple; i++)
        simple = g->node[i] && v->ops[i].work != STEM_WORK_EXTERN && v->ops[i].work != STEM_WORK_MATMUL;
    return simple;
}

static enum stem_status make(struct stem_graph *g, struct stem_rt_error *err)
{
    const struct stem_plan_variant *v = variant_of(g);
    struct stem_node_map map = {0};
    static const struct stem_capture none;
    enum stem_status s = stem_check_side_streams(g->e, &none, err);
    if (!s)
        s = stem_slab_ready(g->e, err);
    if (!s)
        s = stem_resolve(g->e, g->variant, err);
    double start = stem_now_us();
    for (uint32_t i = 0; i < v->n_segments && !s; i++)
        if (!v->segments[i].eager && v->segments[i].n_ops)
            s = make_segment(g, i, &map, err);
    g->info.build_us = stem_now_us() - start;
    if (!s) {
        note_nodes(g, &map);
        g->simple = is_simple(g);
        memcpy(g->address, g->e->variants[g->variant].address, v->n_buffers * sizeof *g->address);
        g->generation = g->e->generation;
        s = instantiate(g, err);
    }
    stem_node_map_free(&map);
    return s;
}

static void drop(struct stem_graph *g)
{
    for (uint32_t i = 0; g->parts && i < variant_of(g)->n_segments; i++) {
        stem_drop_graph_exec(g->e->rt, g->parts[i].exec);
        stem_drop_graph(g->e->rt, g->parts[i].graph);
    }
}

static void release_host(struct stem_graph *g)
{
    free(g->parts);
    free(g->node);
    free(g->chain);
    free(g->address);
    free(g);
}

enum stem_status stem_graph_new(struct stem_exec *e, uint32_t variant, enum stem_graph_by by, struct stem_graph **out,
                                struct stem_rt_error *err)
{
    STEM_NEED(out, "graph");
    *out = NULL;
    enum stem_status s = stem_acquire(e, err);
    if (s)
        return s;
    struct stem_graph *g = NULL;
    s = stem_check_variant_index(e, variant, err);
    if (!s && by != STEM_GRAPH_BY_CAPTURE && by != STEM_GRAPH_BY_NODES)
        s = stem_fail(err, STEM_E_ARGUMENT, "unknown way to build a graph: %d", (int)by);
    if (!s && !(g = stem_zalloc(1, sizeof *g)))
        s = stem_fail(err, STEM_E_MEMORY, "out of memory");
    if (!s) {
        const struct stem_plan_variant *v = &e->plan->variants[variant];
        g->e = e;
        g->variant = variant;
        g->by = by;
        g->parts = stem_zalloc(v->n_segments, sizeof *g->parts);
        g->node = stem_zalloc(v->n_ops, sizeof *g->node);
        g->address = stem_zalloc(v->n_buffers, sizeof *g->address);
        g->chain = e->matmuls ? stem_zalloc(v->n_ops, sizeof *g->chain) : NULL;
        s = g->parts && g->node && g->address && (g->chain || !e->matmuls) ? make(g, err) : stem_fail(err, STEM_E_MEMORY, "out of memory");
        stem_log(&e->rt->log, "capture", "%s variant %u: %s: %u graphs, %u nodes, %u edges, instantiated in %.0f us",
                 e->plan->name, (unsigned)variant, s ? "failed" : "built", (unsigned)g->info.n_graphs,
                 (unsigned)g->info.n_nodes, (unsigned)g->info.n_edges, g->info.instantiate_us);
    }
    if (s && g) {
        drop(g);
        release_host(g);
        g = NULL;
    }
    stem_release(e);
    *out = g;
    return s;
}

void stem_graph_free(struct stem_graph *g)
{
    if (!g)
        return;
    bool entered = stem_enter_to_free(g->e->rt);
    stem_order_wait(g->e, false, NULL);
    drop(g);
    if (entered)
        stem_leave(g->e->rt);
    release_host(g);
}

void stem_graph_info(const struct stem_graph *g, struct stem_graph_info *info)
{
    if (info)
        *info = g ? g->info : (struct stem_graph_info){0};
}

struct CUgraph_st *stem_graph_cuda(const struct stem_graph *g, uint32_t segment)
{
    return g && segment < variant_of(g)->n_segments ? g->parts[segment].graph : NULL;
}

/* ---- launching ---- */

static enum stem_status launch_parts(struct stem_graph *g, struct CUstream_st *stream, struct stem_rt_error *err)
{
    struct stem_rt *rt = g->e->rt;
    struct stem_replay r = {.e = g->e, .variant = g->variant, .main = stream};
    enum stem_status s = STEM_OK;
    for (uint32_t i = 0; i < variant_of(g)->n_segments && !s; i++) {
        if (!g->parts[i].exec) {
            s = stem_replay_segment(&r, i, err);
            continue;
        }
        int code = rt->d.graph_launch(g->parts[i].exec, stream);
        if (code)
            s = stem_fail_cuda(err, &rt->d, code, "cuGraphLaunch of segment %u", (unsigned)i);
    }
    return s;
}

/* The launch of a simple graph after a launch of the same one, or of one on the same stream: one question and the launch,
 * and the stream's number if graph or stream is another, since each driver call more is a twentieth of it. The stream
 * brings the context along (those that do not are not launched on here). False: nothing was done, and whatever was wrong
 * is found out on the long way. */
static bool launch_again(struct stem_graph *g, struct CUstream_st *stream)
{
    struct stem_exec *e = g->e;
    struct stem_order *o = &e->order;
    bool idle = false;
    int status = 0;
    if ((uintptr_t)stream <= 2 || !atomic_compare_exchange_strong(&e->busy, &idle, true))
        return false;
    bool same_graph = o->unmarked == g, same_stream = o->stream == stream;
    bool fine = o->unmarked && (same_graph || same_stream) && g->simple && !o->marks && g->generation == e->generation &&
                !g->asleep && !e->rt->d.stream_is_capturing(stream, &status) && status == STEM_CUDA_CAPTURE_NONE;
    if (fine && !(same_graph && same_stream))
        fine = !e->rt->d.stream_id(stream, &o->next) && (same_graph || o->next == o->id);
    fine = fine && !e->rt->d.graph_launch(g->parts[0].exec, stream);
    if (fine) {
        o->unmarked = g;
        o->stream = stream;
        o->id = same_stream ? o->id : o->next;
    }
    atomic_store(&e->busy, false);
    return fine;
}

enum stem_status stem_graph_launch(struct stem_graph *g, struct CUstream_st *stream, struct stem_rt_error *err)
{
    struct stem_capture c;
    STEM_NEED(g, "g");
    struct stem_exec *e = g->e;
    if (launch_again(g, stream)) {
        stem_error_clear(err);
        return STEM_OK;
    }
    enum stem_status s = stem_acquire(e, err);
    if (s)
        return s;
    s = stem_capture_of(e->rt, stream, &c, err);
    if (!s && c.status != STEM_CUDA_CAPTURE_NONE)
        s = stem_fail(err, STEM_E_CAPTURE, "the stream is capturing: use stem_exec_record");
    if (!s && g->generation != e->generation)
        s = stem_fail(err, STEM_E_STALE,
                      "bindings of program %s changed after the graph was built: call stem_graph_update",
                      e->plan->name);
    if (!s && variant_of(g)->n_segments > g->info.n_graphs)
        s = stem_check_side_streams(e, &c, err);
    if (!s)
        s = stem_order_begin(e, g, stream, err);
    if (!s) {
        s = launch_parts(g, stream, err);
        enum stem_status end = stem_order_end(e, g, stream, s != STEM_OK, s ? NULL : err);
        s = s ? s : end;
    }
    stem_release(e);
    return s;
}

/* ---- updating ---- */

static bool moved(const struct stem_graph *g, const struct stem_plan_op *op)
{
    const uint64_t *now = g->e->variants[g->variant].address;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        uint32_t b = op->operands[i].tensor.buffer;
        if (b != STEM_NONE && g->address[b] != now[b])
            return true;
    }
    return false;
}

static enum stem_status update_op(struct stem_graph *g, uint32_t op, struct stem_rt_error *err)
{
    const struct stem_plan_op *o = &variant_of(g)->ops[op];
    struct stem_rt *rt = g->e->rt;
    struct stem_cuda_node_params params;
    struct CUgraph_st *child = NULL;
    enum stem_status s = STEM_OK;
    if (o->work == STEM_WORK_MATMUL)
        return stem_matmul_update(g->e, o, g->e->variants[g->variant].address, g->parts[o->segment].exec, g->chain[op], err);
    if (o->work == STEM_WORK_EXTERN)
        s = capture_child(g, op, &child, err);
    if (s)
        return s;
    stem_op_node(g->e, o, g->e->variants[g->variant].address, child, &params);
    int code = rt->d.graph_exec_set_params(g->parts[o->segment].exec, g->node[op], &params);
    stem_drop_graph(rt, child);
    return code ? stem_fail_cuda(err, &rt->d, code, "cuGraphExecNodeSetParams") : STEM_OK;
}

/* Before anything is changed: an op that has no node of its own cannot follow its buffers. */
static enum stem_status check_update(struct stem_graph *g, struct stem_rt_error *err)
{
    const struct stem_plan_variant *v = variant_of(g);
    for (uint32_t i = 0; i < v->n_ops; i++)
        if (g->parts[v->ops[i].segment].exec && !g->node[i] && moved(g, &v->ops[i])) {
            enum stem_status s = stem_fail(err, STEM_E_CAPTURE,
                                           "an extern op that was captured in line cannot be "
                                           "updated: build the graph again, or by nodes");
            stem_error_at_op(err, g->e->plan, v, i);
            return s;
        }
    return STEM_OK;
}

/* If an op in the middle fails, the graph stays stale: it refuses to launch half updated, and the next update gives
 * every node whose buffers had moved its addresses again. */
static enum stem_status update(struct stem_graph *g, struct stem_rt_error *err)
{
    const struct stem_plan_variant *v = variant_of(g);
    enum stem_status s = stem_resolve(g->e, g->variant, err);
    if (!s)
        s = check_update(g, err);
    if (!s && g->asleep)
        s = stem_order_wake(g, err);
    if (s)
        return s;
    g->info.n_updated = 0;
    for (uint32_t i = 0; i < v->n_ops && !s; i++) {
        if (!g->parts[v->ops[i].segment].exec || !moved(g, &v->ops[i]))
            continue;
        s = update_op(g, i, err);
        if (s)
            stem_error_at_op(err, g->e->plan, v, i);
        else
            g->info.n_updated++;
    }
    if (s) {
        for (uint32_t b = 0; b < v->n_buffers; b++)
            if (g->address[b] != g->e->variants[g->variant].address[b])
                g->address[b] = UINT64_MAX;
        g->generation = 0;
        return s;
    }
    memcpy(g->address, g->e->variants[g->variant].address, v->n_buffers * sizeof *g->address);
    g->generation = g->e->generation;
    return STEM_OK;
}

enum stem_status stem_graph_update(struct stem_graph *g, struct stem_rt_error *err)
{
    STEM_NEED(g, "g");
    enum stem_status s = stem_acquire(g->e, err);
    if (s)
        return s;
    if (g->generation != g->e->generation)
        s = update(g, err);
    stem_release(g->e);
    return s;
}
