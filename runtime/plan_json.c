/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a plan as JSON: one record a line, members in a fixed order, so that plans can be compared as text.
 * Members that have their usual value (no layer, no resource, no scalars...) are left out. docs/plan.md lists them.
 */
#include "plan.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_names.h"

static const char *const buffer_names[] = STEM_NAMES_BUFFER, *const access_names[] = STEM_NAMES_ACCESS,
                         *const scalar_names[] = STEM_NAMES_SCALAR, *const work_names[] = STEM_NAMES_WORK,
                         *const step_names[] = STEM_NAMES_STEP, *const edge_names[] = STEM_NAMES_EDGE;

/* Text under construction; after a failed allocation `failed` sticks and every call does nothing. */
struct text {
    char *at;
    size_t len, cap;
    bool failed;
};

static void put_n(struct text *t, const char *s, size_t n)
{
    if (t->failed)
        return;
    if (t->cap - t->len <= n) {
        size_t cap = (t->cap ? t->cap * 2 : 4096) + n;
        char *at = realloc(t->at, cap);
        if (!at) {
            t->failed = true;
            return;
        }
        t->at = at;
        t->cap = cap;
    }
    memcpy(t->at + t->len, s, n);
    t->len += n;
    t->at[t->len] = '\0';
}

static void put(struct text *t, const char *s)
{
    put_n(t, s, strlen(s));
}

static int put_chunk(const char *s, size_t n, void *text)
{
    put_n(text, s, n);
    return 0;
}

/* Takes the value; NULL means that building it failed. */
static void put_json(struct text *t, json_t *value)
{
    if (!value || json_dump_callback(value, put_chunk, t, JSON_COMPACT | JSON_ENCODE_ANY))
        t->failed = true;
    json_decref(value);
}

static void comma(struct text *t)
{
    if (t->len && t->at[t->len - 1] != '{' && t->at[t->len - 1] != '[')
        put(t, ",");
}

static void key(struct text *t, const char *name)
{
    comma(t);
    put(t, "\"");
    put(t, name);
    put(t, "\":");
}

/* JSON is UTF-8; any other byte (in a comment of an inline kernel) becomes '?'. */
static json_t *any_string(const char *s)
{
    json_t *j = json_string(s ? s : "");
    if (j || !s)
        return j;
    char *copy = strdup(s);
    for (char *c = copy; c && *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    j = copy ? json_string(copy) : NULL;
    free(copy);
    return j;
}

/* Most strings need no escape: jansson is asked for the others only. */
static bool plain(const char *s)
{
    while (s && *s >= 0x20 && *s < 0x7f && *s != '"' && *s != '\\')
        s++;
    return s && !*s;
}

static void put_string(struct text *t, const char *s)
{
    if (!plain(s)) {
        put_json(t, any_string(s));
        return;
    }
    put(t, "\"");
    put(t, s);
    put(t, "\"");
}

static void put_text(struct text *t, const char *name, const char *value)
{
    key(t, name);
    put_string(t, value);
}

static void put_int(struct text *t, const char *name, int64_t value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    key(t, name);
    put(t, digits);
}

/* Sizes stay below 2^63 (the reader insists), so that JSON integers hold them. */
static void put_u64(struct text *t, const char *name, uint64_t value)
{
    put_int(t, name, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

static void put_true(struct text *t, const char *name, bool value)
{
    if (!value)
        return;
    key(t, name);
    put(t, "true");
}

static void put_real(struct text *t, double f)
{
    if (isnan(f))
        put(t, "\"nan\"");
    else if (isinf(f))
        put(t, f > 0 ? "\"inf\"" : "\"-inf\"");
    else
        put_json(t, json_real(f));
}

static void put_float(struct text *t, const char *name, double f)
{
    key(t, name);
    put_real(t, f);
}

static void put_ints(struct text *t, const char *name, const int64_t *at, uint32_t n)
{
    key(t, name);
    put(t, "[");
    for (uint32_t i = 0; i < n; i++) {
        char digits[32];
        snprintf(digits, sizeof digits, "%s%lld", i ? "," : "", (long long)at[i]);
        put(t, digits);
    }
    put(t, "]");
}

static void put_three(struct text *t, const char *name, const uint32_t at[3])
{
    put_ints(t, name, (int64_t[]){at[0], at[1], at[2]}, 3);
}

static void put_names(struct text *t, const char *name, const char *const *at, uint32_t n)
{
    key(t, name);
    put(t, "[");
    for (uint32_t i = 0; i < n; i++) {
        comma(t);
        put_string(t, at[i]);
    }
    put(t, "]");
}

static void open_list(struct text *t, const char *name)
{
    comma(t);
    put(t, "\n\"");
    put(t, name);
    put(t, "\":[");
}

/* A record of a list: on its own line. */
static void open_record(struct text *t, const char *bracket)
{
    comma(t);
    put(t, "\n ");
    put(t, bracket);
}

static void write_buffer(struct text *t, const struct stem_plan_buffer *b)
{
    open_record(t, "{");
    put_text(t, "name", b->name);
    put_text(t, "kind", buffer_names[b->kind]);
    put_u64(t, "bytes", b->bytes);
    put_int(t, "align", b->align);
    if (b->kind == STEM_BUFFER_TEMP)
        put_u64(t, "offset", b->offset);
    put_text(t, "dtype", stem_dtype_name(b->dtype));
    put_ints(t, "dim", b->dim, b->rank);
    put_true(t, "inout", b->inout);
    if (b->line)
        put_int(t, "line", b->line);
    if (b->low || b->high) {
        put_int(t, "low", b->low);
        put_int(t, "high", b->high);
    }
    if (b->from)
        put_text(t, "from", b->from);
    put(t, "}");
}

static void write_operand(struct text *t, const struct stem_plan_operand *o)
{
    comma(t);
    if (o->tensor.buffer == STEM_NONE) {
        put(t, "null");
        return;
    }
    put(t, "{");
    put_text(t, "access", access_names[o->access]);
    put_int(t, "buffer", o->tensor.buffer);
    put_u64(t, "offset", o->tensor.offset);
    put_text(t, "dtype", stem_dtype_name(o->tensor.dtype));
    put_ints(t, "dim", o->tensor.dim, o->tensor.rank);
    put_ints(t, "stride", o->tensor.stride, o->tensor.rank);
    put(t, "}");
}

static void write_scalar(struct text *t, const struct stem_scalar *s)
{
    comma(t);
    put(t, "{");
    if (s->kind == STEM_SCALAR_F32)
        put_float(t, scalar_names[s->kind], s->f);
    else
        put_int(t, scalar_names[s->kind], s->i);
    put(t, "}");
}

static void write_attr(struct text *t, const struct stem_attr *a)
{
    comma(t);
    put(t, "{");
    put_text(t, "name", a->name);
    if (a->kind == STEM_ATTR_INT)
        put_int(t, "int", a->i);
    else if (a->kind == STEM_ATTR_FLOAT)
        put_float(t, "float", a->f);
    else if (a->text)
        put_text(t, "text", a->text);
    put(t, "}"); /* a text attribute without a value has none here either */
}

static void write_work(struct text *t, const struct stem_plan_op *op)
{
    put_text(t, "work", work_names[op->work]);
    switch (op->work) {
    case STEM_WORK_LAUNCH:
        put_int(t, "kernel", op->kernel);
        put_three(t, "grid", op->grid);
        put_three(t, "block", op->block);
        if (op->smem)
            put_int(t, "smem", op->smem);
        put_true(t, "programmatic", op->programmatic);
        break;
    case STEM_WORK_MEMSET:
        put_int(t, "value", op->memset_value);
        break;
    case STEM_WORK_EXTERN:
        put_int(t, "function", op->function);
        break;
    case STEM_WORK_MATMUL:
        break;
    }
}

static void write_op(struct text *t, const struct stem_plan_op *op)
{
    open_record(t, "{");
    put_text(t, "name", op->name);
    put_text(t, "kind", op->kind);
    put_int(t, "stream", op->stream);
    put_int(t, "segment", op->segment);
    if (op->layer != STEM_NONE)
        put_int(t, "layer", op->layer);
    put_int(t, "line", op->line);
    put_int(t, "column", op->column);
    write_work(t, op);
    if (op->resource != STEM_NONE)
        put_int(t, "resource", op->resource);
    key(t, "operands");
    put(t, "[");
    for (uint32_t i = 0; i < op->n_operands; i++)
        write_operand(t, &op->operands[i]);
    put(t, "]");
    if (op->n_scalars) {
        key(t, "scalars");
        put(t, "[");
        for (uint32_t i = 0; i < op->n_scalars; i++)
            write_scalar(t, &op->scalars[i]);
        put(t, "]");
    }
    if (op->n_attrs) {
        key(t, "attrs");
        put(t, "[");
        for (uint32_t i = 0; i < op->n_attrs; i++)
            write_attr(t, &op->attrs[i]);
        put(t, "]");
    }
    put_u64(t, "bytes_read", op->bytes_read);
    put_u64(t, "bytes_written", op->bytes_written);
    put_u64(t, "flops", op->flops);
    put_float(t, "est_us", op->est_us);
    put(t, "}");
}

/* Short records, since there are many: ["op",stream,index] and [from,to,"full"] or [from,to,"full","continuation"].
 */
static void write_step(struct text *t, const struct stem_step *s)
{
    char line[64];
    snprintf(line, sizeof line, "[\"%s\",%u,%u]", step_names[s->kind], (unsigned)s->stream, (unsigned)s->index);
    open_record(t, line);
}

static void write_edge(struct text *t, const struct stem_plan_edge *e)
{
    char line[96];
    snprintf(line, sizeof line, "[%u,%u,\"%s\"%s]", (unsigned)e->from, (unsigned)e->to, edge_names[e->kind],
             e->continuation ? ",\"continuation\"" : "");
    open_record(t, line);
}

static void write_segment(struct text *t, const struct stem_plan_segment *s)
{
    open_record(t, "{");
    put_int(t, "first_op", s->first_op);
    put_int(t, "n_ops", s->n_ops);
    put_int(t, "first_step", s->first_step);
    put_int(t, "n_steps", s->n_steps);
    put_true(t, "eager", s->eager);
    put(t, "}");
}

static void write_variant(struct text *t, const struct stem_plan *p, const struct stem_plan_variant *v)
{
    open_record(t, "{");
    put_ints(t, "dim", v->dim, p->n_dims);
    put_int(t, "n_events", v->n_events);
    put_u64(t, "slab_bytes", v->slab_bytes);
    put_int(t, "events_bound", v->events_bound);
    put_u64(t, "slab_bound", v->slab_bound);
    put_int(t, "lanes", v->lanes);
    put_float(t, "critical_path_us", v->critical_path_us);
    put_float(t, "total_us", v->total_us);
    put_float(t, "floor_us", v->floor_us);
    if (v->schedule_us > 0)
        put_float(t, "schedule_us", v->schedule_us);
    open_list(t, "buffers");
    for (uint32_t i = 0; i < v->n_buffers; i++)
        write_buffer(t, &v->buffers[i]);
    put(t, "]");
    open_list(t, "ops");
    for (uint32_t i = 0; i < v->n_ops; i++)
        write_op(t, &v->ops[i]);
    put(t, "]");
    open_list(t, "steps");
    for (uint32_t i = 0; i < v->n_steps; i++)
        write_step(t, &v->steps[i]);
    put(t, "]");
    open_list(t, "edges");
    for (uint32_t i = 0; i < v->n_edges; i++)
        write_edge(t, &v->edges[i]);
    put(t, "]");
    open_list(t, "segments");
    for (uint32_t i = 0; i < v->n_segments; i++)
        write_segment(t, &v->segments[i]);
    put(t, "]}");
}

static void write_tables(struct text *t, const struct stem_plan *p)
{
    open_list(t, "streams");
    for (uint32_t i = 0; i < p->n_streams; i++) {
        open_record(t, "{");
        put_text(t, "name", p->streams[i]);
        if (p->priorities && p->priorities[i])
            put_int(t, "priority", p->priorities[i]);
        put(t, "}");
    }
    put(t, "]");
    put_names(t, "resources", p->resources, p->n_resources);
    put_names(t, "dims", p->dims, p->n_dims);
    open_list(t, "kernels");
    for (uint32_t i = 0; i < p->n_kernels; i++) {
        open_record(t, "{");
        put_text(t, "name", p->kernels[i].name);
        put_int(t, "max_smem", p->kernels[i].max_smem);
        put_true(t, "waits", p->kernels[i].waits);
        if (p->kernels[i].early)
            put_int(t, "early", p->kernels[i].early);
        put_true(t, "ahead", p->kernels[i].ahead);
        put(t, "}");
    }
    put(t, "]");
    open_list(t, "externs");
    for (uint32_t i = 0; i < p->n_externs; i++) {
        open_record(t, "{");
        put_text(t, "name", p->externs[i].name);
        if (p->externs[i].library)
            put_text(t, "library", p->externs[i].library);
        put(t, "}");
    }
    put(t, "]");
}

char *stem_plan_to_json(const struct stem_plan *p)
{
    struct text t = {0};
    if (!p)
        return NULL;
    put(&t, "{");
    put_int(&t, "mainstem_plan", p->version);
    put_text(&t, "name", p->name);
    put_text(&t, "source", p->source);
    put_int(&t, "sm", p->sm);
    put_int(&t, "n_external", p->n_external);
    put_u64(&t, "slab_bytes", p->slab_bytes);
    write_tables(&t, p);
    open_list(&t, "variants");
    for (uint32_t i = 0; i < p->n_variants; i++)
        write_variant(&t, p, &p->variants[i]);
    put(&t, "]");
    comma(&t);
    put(&t, "\n\"cuda\":");
    put_json(&t, any_string(p->cuda));
    put(&t, "}\n");
    if (t.failed) {
        free(t.at);
        return NULL;
    }
    return t.at;
}
