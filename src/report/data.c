/* SPDX-License-Identifier: Apache-2.0
 *
 * What the page shows, as JSON. Ops and buffers of repeated layers differ in a few numbers only: what they share is
 * written once
 * (`classes`, `names`, `shapes`), and each op is a row of small numbers. page.js reads it.
 */
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "ir/ir.h"
#include "pass/order.h"
#include "report/report.h"
#include "report/text8.h"

/* Distinct texts, by first appearance. */
struct texts {
    struct stem_strtab *table;
    json_t *list;
};

static json_t *text_index(struct texts *t, const char *s)
{
    uint32_t n = stem_intern_printf(t->table, "=%s", s).n - 1;
    if (n == json_array_size(t->list))
        json_array_append_new(t->list, stem_json_text(s));
    return json_integer(n);
}

static json_t *micros(double us)
{
    return json_real(round(us * 1000) / 1000);
}

/* The numbers in brackets of a name, in order; with the pattern they give the name back. */
static void put_indices(json_t *row, const char *name)
{
    for (const char *p = name; (p = strchr(p, '[')); p++) {
        size_t digits = strspn(p + 1, "0123456789");
        if (digits && p[1 + digits] == ']')
            json_array_append_new(row, json_stringn(p + 1, digits));
    }
}

static json_t *attrs(const struct stem_plan_op *op, struct stem_arena *a)
{
    const char *text = "";
    for (uint32_t i = 0; i < op->n_attrs; i++) {
        const struct stem_attr *t = &op->attrs[i];
        const char *value = t->kind == STEM_ATTR_INT     ? stem_arena_printf(a, "%lld", (long long)t->i)
                            : t->kind == STEM_ATTR_FLOAT ? stem_arena_printf(a, "%g", t->f)
                                                         : t->text;
        if (value)
            text = stem_arena_printf(a, "%s%s%s = %s", text, *text ? ", " : "", t->name, value);
    }
    return stem_json_text(text);
}

static json_t *class_row(const struct stem_plan *p, const struct stem_plan_op *op, struct stem_arena *a)
{
    static const char *const work[] = {"launch", "memset", "extern", "matmul"};
    const char *what = op->work == STEM_WORK_LAUNCH   ? p->kernels[op->kernel].name
                       : op->work == STEM_WORK_EXTERN ? p->externs[op->function].name
                       : op->work == STEM_WORK_MATMUL ? "cuBLASLt"
                                                      : "memset";
    json_t *row = json_pack("{s:o, s:o, s:s, s:o, s:i, s:i, s:i, s:I, s:I, s:I, s:f}", "name",
                            stem_json_text(stem_name_pattern(op->name, a)), "kind", stem_json_text(op->kind), "work",
                            work[op->work], "kernel", stem_json_text(what), "stream", (int)op->stream, "line",
                            (int)op->line, "column", (int)op->column, "read", (json_int_t)op->bytes_read, "written",
                            (json_int_t)op->bytes_written, "flops", (json_int_t)op->flops, "us", op->est_us);
    json_object_set_new(row, "grid", json_pack("[i,i,i]", (int)op->grid[0], (int)op->grid[1], (int)op->grid[2]));
    json_object_set_new(row, "block", json_pack("[i,i,i]", (int)op->block[0], (int)op->block[1], (int)op->block[2]));
    json_object_set_new(row, "smem", json_integer(op->smem));
    json_object_set_new(row, "attrs", attrs(op, a));
    if (op->resource != STEM_NONE)
        json_object_set_new(row, "resource", stem_json_text(p->resources[op->resource]));
    return row;
}

/* [class, stream pinned or -1, layer or -1, start, end, buffer * 4 + access, ..., then names' numbers as texts] */
static json_t *op_row(const struct stem_plan_op *op, uint32_t class, int pin, const struct stem_timeline *t,
                      uint32_t i)
{
    json_t *row = json_pack("[i,i,i,o,o]", (int)class, pin, op->layer == STEM_NONE ? -1 : (int)op->layer,
                            micros(t->start[i]), micros(t->end[i]));
    for (uint32_t k = 0; k < op->n_operands; k++)
        if (op->operands[k].tensor.buffer != STEM_NONE)
            json_array_append_new(
                row, json_integer((json_int_t)op->operands[k].tensor.buffer * 4 + op->operands[k].access));
    put_indices(row, op->name);
    return row;
}

static int pin_of(const struct stem_program *p, uint32_t position)
{
    if (!p || position >= p->sched.order.len)
        return -1;
    uint32_t pin = stem_op_at(p, p->sched.order.at[position])->pin.n;
    return pin == STEM_NONE ? -1 : (int)pin;
}

static void put_ops(const struct stem_report *r, uint32_t k, const struct stem_timeline *t,
                    const struct stem_alike *alike, struct stem_arena *a, json_t *out)
{
    const struct stem_plan_variant *v = &r->plan->variants[k];
    json_t *classes = json_array(), *ops = json_array(), *critical = json_array();
    for (uint32_t i = 0; i < v->n_ops; i++) {
        if (alike->class[i] == json_array_size(classes))
            json_array_append_new(classes, class_row(r->plan, &v->ops[i], a));
        json_array_append_new(
            ops, op_row(&v->ops[i], alike->class[i], pin_of(r->programs ? r->programs[k] : NULL, i), t, i));
        if (t->critical[i])
            json_array_append_new(critical, json_integer(i));
    }
    json_object_set_new(out, "classes", classes);
    json_object_set_new(out, "ops", ops);
    json_object_set_new(out, "critical", critical);
}

/* [name, kind, bytes, offset, shape, line, numbers...] */
static void put_buffers(const struct stem_plan_variant *v, struct stem_arena *a, json_t *out)
{
    struct texts names = {stem_strtab_new(), json_array()}, shapes = {stem_strtab_new(), json_array()};
    json_t *rows = json_array();
    for (uint32_t i = 0; i < v->n_buffers; i++) {
        const struct stem_plan_buffer *b = &v->buffers[i];
        const char *shape = stem_arena_printf(a, "%s[", stem_dtype_name(b->dtype));
        for (uint32_t d = 0; d < b->rank && d < STEM_MAX_RANK; d++)
            shape = stem_arena_printf(a, "%s%s%lld", shape, d ? ", " : "", (long long)b->dim[d]);
        json_t *row = json_array();
        json_array_append_new(row, text_index(&names, stem_name_pattern(b->name, a)));
        json_array_append_new(row, json_integer(b->kind));
        json_array_append_new(row, json_integer((json_int_t)b->bytes));
        json_array_append_new(row, json_integer((json_int_t)b->offset));
        json_array_append_new(row, text_index(&shapes, stem_arena_printf(a, "%s]", shape)));
        json_array_append_new(row, json_integer(b->line));
        put_indices(row, b->name);
        json_array_append_new(rows, row);
    }
    json_object_set_new(out, "names", names.list);
    json_object_set_new(out, "shapes", shapes.list);
    json_object_set_new(out, "buffers", rows);
    stem_strtab_free(names.table);
    stem_strtab_free(shapes.table);
}

/* Flat: from, to, 1 programmatic + 2 continuation. */
static void put_edges(const struct stem_plan_variant *v, json_t *out)
{
    json_t *edges = json_array(), *segments = json_array();
    for (uint32_t i = 0; i < v->n_edges; i++) {
        const struct stem_plan_edge *e = &v->edges[i];
        json_array_append_new(edges, json_integer(e->from));
        json_array_append_new(edges, json_integer(e->to));
        json_array_append_new(edges, json_integer((e->kind == STEM_EDGE_PROGRAMMATIC) + 2 * e->continuation));
    }
    for (uint32_t i = 0; i < v->n_segments; i++)
        json_array_append_new(segments, json_pack("[i,i,b]", (int)v->segments[i].first_op, (int)v->segments[i].n_ops,
                                                  v->segments[i].eager));
    json_object_set_new(out, "edges", edges);
    json_object_set_new(out, "segments", segments);
}

/* Lanes of every op of the recorded segments, -1 elsewhere; openings as [op, why, by]. */
static void put_lanes(const struct stem_plan_variant *v, struct stem_arena *a, json_t *out)
{
    struct stem_op_lanes l;
    json_t *lanes = json_array(), *opens = json_array();
    stem_op_lanes_find(v, a, &l);
    for (uint32_t i = 0; i < v->n_ops; i++) {
        json_array_append_new(lanes, json_integer(l.lane[i] == STEM_NONE ? -1 : (int)l.lane[i]));
        if (l.opens[i] != STEM_NONE)
            json_array_append_new(opens, json_pack("[i,i,i]", (int)i, (int)l.opens[i],
                                                   l.by[i] == STEM_NONE ? -1 : (int)l.by[i]));
    }
    json_object_set_new(out, "lane", lanes);
    json_object_set_new(out, "opens", opens);
}

/* Place in issue order of each op of the program; NULL without one. */
static uint32_t *positions(const struct stem_program *p, struct stem_arena *a)
{
    uint32_t *position = p ? STEM_NEW_ARRAY(a, uint32_t, p->ops.len + 1) : NULL;
    for (uint32_t i = 0; p && i < p->sched.order.len; i++)
        position[p->sched.order.at[i].n] = i;
    return position;
}

/* Why each op is issued where it is: `words`, and flat a word's index (-1: not known) and the op that @ in it is. */
static void put_why(const struct stem_program *p, const uint32_t *position, struct stem_arena *a, json_t *out)
{
    struct texts words = {stem_strtab_new(), json_array()};
    json_t *rows = json_array();
    for (uint32_t i = 0; p && i < p->sched.order.len; i++) {
        uint32_t other = STEM_NONE;
        const char *text = stem_why_text(p, p->sched.order.at[i], a, &other);
        json_array_append_new(rows, text ? text_index(&words, text) : json_integer(-1));
        json_array_append_new(rows, json_integer(other == STEM_NONE ? -1 : (int)position[other]));
    }
    json_object_set_new(out, "words", words.list);
    json_object_set_new(out, "why", rows);
    stem_strtab_free(words.table);
}

/* What orders ops but data: [from, to, kind, value], positions in issue order. */
static void put_reasons(const struct stem_program *p, const uint32_t *position, json_t *out)
{
    static const char *const kind[] = {"data", "anti", "output", "after", "resource", "memory"};
    json_t *rows = json_array();
    for (uint32_t i = 0; p && i < p->sched.deps.len; i++) {
        const struct stem_dep *d = &p->sched.deps.at[i];
        if (d->kind != STEM_DEP_DATA)
            json_array_append_new(
                rows, json_pack("[i,i,s,o]", (int)position[d->from.n], (int)position[d->to.n], kind[d->kind],
                                d->value.n == STEM_NONE
                                    ? json_null()
                                    : stem_json_text(stem_sym_str(p->strings, stem_value_at(p, d->value)->name))));
    }
    json_object_set_new(out, "reasons", rows);
}

static json_t *variant(const struct stem_report *r, uint32_t k)
{
    const struct stem_plan_variant *v = &r->plan->variants[k];
    struct stem_arena *a = stem_arena_new();
    struct stem_timeline t;
    struct stem_alike alike;
    struct stem_folds folds;
    stem_alike_find(v, a, &alike);
    stem_folds_find(v, &alike, a, &folds);
    if (r->measured && r->measured[k])
        t = *r->measured[k];
    else
        stem_timeline_estimate(v, r->plan->n_streams, a, &t);
    json_t *dim = json_array(), *fold = json_array();
    for (uint32_t i = 0; i < r->plan->n_dims; i++)
        json_array_append_new(dim, json_integer(v->dim[i]));
    for (uint32_t i = 0; i < folds.len; i++)
        json_array_append_new(
            fold, json_pack("[i,i,i]", (int)folds.at[i].first, (int)folds.at[i].period, (int)folds.at[i].count));
    json_t *out = json_pack("{s:o, s:o, s:b, s:f, s:f, s:f, s:f, s:i, s:i, s:I, s:I, s:i}", "dim", dim, "folds", fold,
                            "measured", t.measured, "length", t.length, "estimate_us",
                            v->schedule_us > 0 ? v->schedule_us : v->critical_path_us,
                            "total_us", v->total_us, "floor_us", v->floor_us, "events", (int)v->n_events,
                            "events_bound", (int)v->events_bound, "slab", (json_int_t)v->slab_bytes, "slab_bound",
                            (json_int_t)v->slab_bound, "lanes", (int)v->lanes);
    put_ops(r, k, &t, &alike, a, out);
    put_buffers(v, a, out);
    put_edges(v, out);
    put_lanes(v, a, out);
    json_t *seen = t.lane ? json_array() : json_null();
    for (uint32_t i = 0; t.lane && i < v->n_ops; i++)
        json_array_append_new(seen, json_integer(t.lane[i]));
    json_object_set_new(out, "measured_lane", seen);
    const struct stem_program *program = r->programs ? r->programs[k] : NULL;
    const uint32_t *position = positions(program, a);
    put_why(program, position, a, out);
    put_reasons(program, position, out);
    stem_arena_free(a);
    return out;
}

static json_t *diagnostics(const struct stem_report *r)
{
    static const char *const severity[] = {"remark", "warning", "error"};
    json_t *rows = json_array();
    for (uint32_t i = 0; r->diags && i < stem_diags_count(r->diags); i++) {
        const struct stem_diag *d = stem_diags_get(r->diags, i);
        json_t *row = json_pack("{s:s, s:o, s:o}", "severity", severity[d->severity], "pass", stem_json_text(d->pass),
                                "text", stem_json_text(d->text));
        if (d->severity != STEM_REMARK)
            json_object_set_new(row, "id", json_integer(d->id));
        if (r->source && d->span.begin != UINT32_MAX && d->span.begin <= r->source->len) {
            struct stem_place at = stem_source_place(r->source, d->span.begin);
            json_object_set_new(row, "line", json_integer(at.line));
            json_object_set_new(row, "column", json_integer(at.column));
        }
        json_t *help = json_array();
        for (uint32_t h = 0; h < d->n_help; h++)
            json_array_append_new(help, stem_json_text(d->help[h]));
        json_object_set_new(row, "help", help);
        json_array_append_new(rows, row);
    }
    return rows;
}

void stem_report_json(const struct stem_report *r, struct stem_out *o)
{
    const struct stem_plan *p = r->plan;
    json_t *streams = json_array(), *dims = json_array(), *variants = json_array();
    for (uint32_t i = 0; i < p->n_streams; i++)
        json_array_append_new(streams, stem_json_text(p->streams[i]));
    for (uint32_t i = 0; i < p->n_dims; i++)
        json_array_append_new(dims, stem_json_text(p->dims[i]));
    for (uint32_t i = 0; i < p->n_variants; i++)
        json_array_append_new(variants, variant(r, i));
    json_t *all = json_pack("{s:o, s:o, s:i, s:i, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                            stem_json_text(p->name), "source", stem_json_text(p->source), "sm", (int)p->sm, "kernels",
                            (int)p->n_kernels, "compiled", r->programs != NULL, "order", stem_json_text(r->order),
                            "streams", streams, "dims", dims, "variants", variants, "diags", diagnostics(r), "text",
                            r->source ? stem_json_text_n(r->source->text, r->source->len) : json_null());
    stem_json_put(all, o);
}
