/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule in Chrome's trace format, which Perfetto and chrome://tracing read: a process for each variant, a
 * track for each stream, flow arrows for the edges between streams, with estimated times; or as it was measured, with
 * a track for each lane.
 */
#include <math.h>
#include <string.h>

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

/* What is drawn of a variant. */
struct drawing {
    const struct stem_plan *p;
    uint32_t variant;
    const struct stem_timeline *t;
    const struct stem_source *source;
    double us_per_byte;
    uint32_t first_flow; /* arrows of all variants have numbers of their own */
};

static const struct stem_plan_variant *variant_of(const struct drawing *d)
{
    return &d->p->variants[d->variant];
}

static uint32_t track(const struct drawing *d, uint32_t op)
{
    return d->t->lane ? d->t->lane[op] : variant_of(d)->ops[op].stream;
}

/* The line of the text that an op is from, without what stands before and after it. */
static json_t *source_line(const struct stem_source *s, uint32_t line)
{
    const char *at = s->text, *end = s->text + s->len;
    while (--line && at < end) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        at = next ? next + 1 : end;
    }
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    stop = stop ? stop : end;
    while (at < stop && (*at == ' ' || *at == '\t'))
        at++;
    while (stop > at && (stop[-1] == ' ' || stop[-1] == '\r' || stop[-1] == '\t'))
        stop--;
    return stem_json_text_n(at, (size_t)(stop - at));
}

static json_t *measured_args(const struct drawing *d, uint32_t i)
{
    const struct stem_plan_op *op = &variant_of(d)->ops[i];
    double us = d->t->end[i] - d->t->start[i], bound = (double)(op->bytes_read + op->bytes_written) * d->us_per_byte;
    return json_pack("{s:i, s:o, s:f, s:f}", "lane", (int)d->t->lane[i], "stream",
                     stem_json_text(d->p->streams[op->stream]), "estimated_us", op->est_us, "percent_of_bound",
                     us > 0 ? round(1000 * bound / us) / 10 : 0);
}

static void put_op(json_t *events, const struct drawing *d, uint32_t i)
{
    const struct stem_plan_op *op = &variant_of(d)->ops[i];
    json_t *args =
        json_pack("{s:i, s:o, s:i, s:I, s:I, s:I, s:b}", "op", (int)i, "kind", stem_json_text(op->kind), "line",
                  (int)op->line, "bytes_read", (json_int_t)op->bytes_read, "bytes_written",
                  (json_int_t)op->bytes_written, "flops", (json_int_t)op->flops, "critical", d->t->critical[i]);
    if (op->work == STEM_WORK_LAUNCH)
        json_object_set_new(args, "kernel", stem_json_text(d->p->kernels[op->kernel].name));
    else if (op->work == STEM_WORK_MATMUL)
        json_object_set_new(args, "library", json_string("cuBLASLt"));
    if (d->source && op->line)
        json_object_set_new(args, "text", source_line(d->source, op->line));
    if (d->t->lane) {
        json_t *more = measured_args(d, i);
        json_object_update(args, more);
        json_decref(more);
    }
    add(events, "X", d->variant, track(d, i),
        json_pack("{s:o, s:o, s:f, s:f, s:o}", "name", stem_json_text(op->name), "cat", stem_json_text(op->kind),
                  "ts", d->t->start[i], "dur", d->t->end[i] - d->t->start[i], "args", args));
}

/* An arrow from the end of one op to the start of another. */
static void put_flow(json_t *events, const struct drawing *d, uint32_t edge)
{
    const struct stem_plan_variant *v = variant_of(d);
    const struct stem_plan_edge *e = &v->edges[edge];
    uint32_t from = v->ops[e->from].stream, to = v->ops[e->to].stream;
    if (track(d, e->from) == track(d, e->to) || e->continuation)
        return;
    const char *name = e->kind == STEM_EDGE_PROGRAMMATIC ? "programmatic"
                       : from == to                      ? "next"
                       : from == 0                       ? "fork"
                       : to == 0                         ? "join"
                                                         : "wait";
    /* Flows bind to the slice that encloses them: a hair before its end. */
    double end = d->t->end[e->from], inside = end - (end - d->t->start[e->from]) / 100;
    add(events, "s", d->variant, track(d, e->from),
        json_pack("{s:s, s:s, s:i, s:f}", "name", name, "cat", "edge", "id", (int)(d->first_flow + edge), "ts", inside));
    add(events, "f", d->variant, track(d, e->to),
        json_pack("{s:s, s:s, s:i, s:f, s:s}", "name", name, "cat", "edge", "id", (int)(d->first_flow + edge), "ts",
                  d->t->start[e->to], "bp", "e"));
}

static void put_track(json_t *events, uint32_t pid, uint32_t tid, const char *name)
{
    name_track(events, "thread_name", pid, tid, name);
    add(events, "M", pid, tid,
        json_pack("{s:s, s:{s:i}}", "name", "thread_sort_index", "args", "sort_index", (int)tid));
}

/* "lane 1: side": with the streams whose ops ran there. */
static const char *lane_name(const struct drawing *d, uint32_t lane, const char *word, struct stem_arena *a)
{
    bool *seen = STEM_NEW_ARRAY(a, bool, d->p->n_streams);
    const char *name = stem_arena_printf(a, "%s %u", word, lane), *mark = ": ";
    for (uint32_t i = 0; i < variant_of(d)->n_ops; i++) {
        uint32_t s = variant_of(d)->ops[i].stream;
        if (d->t->lane[i] != lane || seen[s])
            continue;
        seen[s] = true;
        name = stem_arena_printf(a, "%s%s%s", name, mark, d->p->streams[s]);
        mark = ", ";
    }
    return name;
}

static void put_variant(json_t *events, const struct drawing *d, struct stem_arena *a)
{
    const struct stem_plan_variant *v = variant_of(d);
    const char *name = d->p->name;
    for (uint32_t k = 0; k < d->p->n_dims; k++)
        name = stem_arena_printf(a, "%s %s=%lld", name, d->p->dims[k], (long long)v->dim[k]);
    name_track(events, "process_name", d->variant, 0, name);
    for (uint32_t i = 0; i < v->n_ops; i++)
        put_op(events, d, i);
    for (uint32_t i = 0; i < v->n_edges; i++)
        put_flow(events, d, i);
}

void stem_schedule_trace(const struct stem_plan *p, struct stem_out *o)
{
    json_t *events = json_array();
    struct stem_arena *a = stem_arena_new();
    uint32_t flows = 0;
    for (uint32_t k = 0; k < p->n_variants; flows += p->variants[k++].n_edges) {
        struct stem_timeline t;
        stem_timeline_estimate(&p->variants[k], p->n_streams, a, &t);
        for (uint32_t s = 0; s < p->n_streams; s++)
            put_track(events, k, s, p->streams[s]);
        put_variant(events, &(struct drawing){.p = p, .variant = k, .t = &t, .first_flow = flows}, a);
    }
    stem_json_put(json_pack("{s:o, s:s, s:{s:o, s:s}}", "traceEvents", events, "displayTimeUnit", "ns", "otherData",
                            "source", stem_json_text(p->source), "times", "estimates of the cost model"),
                  o);
    stem_out_char(o, '\n');
    stem_arena_free(a);
}

void stem_profile_trace(const struct stem_trace *t, struct stem_out *o)
{
    const struct stem_plan *p = t->plan;
    json_t *events = json_array(), *proofs = json_array();
    struct stem_arena *a = stem_arena_new();
    uint32_t flows = 0;
    for (uint32_t k = 0; k < p->n_variants; flows += p->variants[k++].n_edges) {
        const struct stem_profile *f = &t->profiles[k];
        struct drawing d = {.p = p,
                            .variant = k,
                            .t = &f->when,
                            .source = t->source,
                            .us_per_byte = stem_us_per_byte(&p->variants[k]),
                            .first_flow = flows};
        for (uint32_t lane = 0; lane < f->n_lanes; lane++)
            put_track(events, k, lane, lane_name(&d, lane, f->graph ? "lane" : "stream", a));
        put_variant(events, &d, a);
        json_array_append_new(proofs, stem_json_text(stem_profile_proof(f, &p->variants[k], a)));
    }
    stem_json_put(json_pack("{s:o, s:s, s:{s:o, s:s, s:o, s:s, s:o}}", "traceEvents", events, "displayTimeUnit", "ns",
                            "otherData", "source", stem_json_text(p->source), "times", "measured by CUPTI", "device",
                            stem_json_text(t->device), "launched", t->way, "records", proofs),
                  o);
    stem_out_char(o, '\n');
    stem_arena_free(a);
}
