/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule in Chrome's trace format, which Perfetto and chrome://tracing read: a process for each variant, a
 * track for each stream, flow arrows for the edges between streams. Times are estimates.
 */
#include "report/report.h"
#include "report/text8.h"

static void add(json_t *events, const char *phase, uint32_t pid, uint32_t tid, json_t *rest)
{
    json_t *e = json_pack("{s:s, s:i, s:i}", "ph", phase, "pid", (int)pid, "tid", (int)tid);
    json_object_update(e, rest);
    json_decref(rest);
    json_array_append_new(events, e);
}

static void name_track(json_t *events, const char *what, uint32_t pid, uint32_t tid, const char *name)
{
    add(events, "M", pid, tid, json_pack("{s:s, s:{s:o}}", "name", what, "args", "name", stem_json_text(name)));
}

static void put_op(json_t *events, const struct stem_plan *p, uint32_t pid, uint32_t i, const struct stem_timeline *t)
{
    const struct stem_plan_op *op = &p->variants[pid].ops[i];
    json_t *args =
        json_pack("{s:i, s:o, s:i, s:I, s:I, s:I, s:b}", "op", (int)i, "kind", stem_json_text(op->kind), "line",
                  (int)op->line, "bytes_read", (json_int_t)op->bytes_read, "bytes_written",
                  (json_int_t)op->bytes_written, "flops", (json_int_t)op->flops, "critical", t->critical[i]);
    if (op->work == STEM_WORK_LAUNCH)
        json_object_set_new(args, "kernel", stem_json_text(p->kernels[op->kernel].name));
    add(events, "X", pid, op->stream,
        json_pack("{s:o, s:o, s:f, s:f, s:o}", "name", stem_json_text(op->name), "cat", stem_json_text(op->kind),
                  "ts", t->start[i], "dur", t->end[i] - t->start[i], "args", args));
}

/* An arrow from the end of one op to the start of another. */
static void put_flow(json_t *events, const struct stem_plan *p, uint32_t pid, uint32_t edge,
                     const struct stem_timeline *t)
{
    const struct stem_plan_variant *v = &p->variants[pid];
    const struct stem_plan_edge *e = &v->edges[edge];
    uint32_t from = v->ops[e->from].stream, to = v->ops[e->to].stream;
    if (from == to || e->continuation)
        return;
    const char *name = e->kind == STEM_EDGE_PROGRAMMATIC ? "programmatic"
                       : from == 0                       ? "fork"
                       : to == 0                         ? "join"
                                                         : "wait";
    /* Flows bind to the slice that encloses them: a hair before its end. */
    double end = t->end[e->from], inside = end - (end - t->start[e->from]) / 100;
    add(events, "s", pid, from,
        json_pack("{s:s, s:s, s:i, s:f}", "name", name, "cat", "edge", "id", (int)edge, "ts", inside));
    add(events, "f", pid, to,
        json_pack("{s:s, s:s, s:i, s:f, s:s}", "name", name, "cat", "edge", "id", (int)edge, "ts", t->start[e->to],
                  "bp", "e"));
}

static void put_variant(json_t *events, const struct stem_plan *p, uint32_t pid)
{
    const struct stem_plan_variant *v = &p->variants[pid];
    struct stem_arena *a = stem_arena_new();
    struct stem_timeline t;
    stem_timeline_estimate(v, p->n_streams, a, &t);
    const char *name = p->name;
    for (uint32_t d = 0; d < p->n_dims; d++)
        name = stem_arena_printf(a, "%s %s=%lld", name, p->dims[d], (long long)v->dim[d]);
    name_track(events, "process_name", pid, 0, name);
    for (uint32_t s = 0; s < p->n_streams; s++) {
        name_track(events, "thread_name", pid, s, p->streams[s]);
        add(events, "M", pid, s,
            json_pack("{s:s, s:{s:i}}", "name", "thread_sort_index", "args", "sort_index", (int)s));
    }
    for (uint32_t i = 0; i < v->n_ops; i++)
        put_op(events, p, pid, i, &t);
    for (uint32_t i = 0; i < v->n_edges; i++)
        put_flow(events, p, pid, i, &t);
    stem_arena_free(a);
}

void stem_schedule_trace(const struct stem_plan *p, struct stem_out *o)
{
    json_t *events = json_array();
    for (uint32_t k = 0; k < p->n_variants; k++)
        put_variant(events, p, k);
    stem_json_put(json_pack("{s:o, s:s, s:{s:o, s:s}}", "traceEvents", events, "displayTimeUnit", "ns", "otherData",
                            "source", stem_json_text(p->source), "times", "estimates of the cost model"),
                  o);
    stem_out_char(o, '\n');
}
