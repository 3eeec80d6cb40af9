/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a plan from JSON. Nothing in the text is trusted: every index, enum, size and order is checked here, so that
 * code that walks a plan need not. The first fault stops the reading; its message says where it is
 * ("variants[0].ops[3].stream: ...").
 */
#include "plan.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_check.h"
#include "plan_names.h"

static const char *const buffer_names[] = STEM_NAMES_BUFFER, *const access_names[] = STEM_NAMES_ACCESS,
                         *const scalar_names[] = STEM_NAMES_SCALAR, *const work_names[] = STEM_NAMES_WORK,
                         *const step_names[] = STEM_NAMES_STEP, *const edge_names[] = STEM_NAMES_EDGE;

#define N(table) (sizeof(table) / sizeof *(table))

enum { MAX_MEMBERS = 32 };

struct reader {
    struct stem_plan *plan;
    char path[512]; /* of the value being read */
    char *error;    /* the first fault; once set, every getter returns a harmless value */
};

static void fail(struct reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct reader *r, const char *fmt, ...)
{
    if (r->error)
        return;
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t n = strlen(r->path) + strlen(text) + 8;
    r->error = malloc(n);
    if (r->error)
        snprintf(r->error, n, "%s%s%s", r->path, r->path[0] ? ": " : "", text);
    else
        r->error = strdup("out of memory");
}

/* Descends into a member or element; returns the length to go back to. */
static size_t enter(struct reader *r, const char *member, size_t index)
{
    size_t n = strlen(r->path);
    if (member)
        snprintf(r->path + n, sizeof r->path - n, "%s%s", n ? "." : "", member);
    else
        snprintf(r->path + n, sizeof r->path - n, "[%zu]", index);
    return n;
}

static void leave(struct reader *r, size_t n)
{
    r->path[n] = '\0';
}

static void fail_at(struct reader *r, const char *member, const char *text)
{
    size_t mark = enter(r, member, 0);
    fail(r, "%s", text);
    leave(r, mark);
}

/* An object being read, with the names asked for, so that a member nobody asked for is an error. */
struct object {
    const json_t *json;
    const char *seen[MAX_MEMBERS];
    size_t n;
};

static bool open_object(struct reader *r, struct object *o, const json_t *json)
{
    *o = (struct object){.json = json};
    if (!json_is_object(json))
        fail(r, "expected an object");
    return !r->error;
}

static void close_object(struct reader *r, const struct object *o)
{
    const char *name;
    json_t *value;
    if (r->error)
        return;
    json_object_foreach((json_t *)o->json, name, value)
    {
        size_t i = 0;
        while (i < o->n && strcmp(o->seen[i], name))
            i++;
        if (i == o->n) {
            fail(r, "unknown member \"%.40s\"", name);
            return;
        }
    }
}

static const json_t *member(struct reader *r, struct object *o, const char *name, bool required)
{
    if (r->error)
        return NULL;
    if (o->n < MAX_MEMBERS)
        o->seen[o->n++] = name;
    const json_t *v = json_object_get(o->json, name);
    if (!v && required)
        fail_at(r, name, "missing");
    return v;
}

static int64_t integer(struct reader *r, const json_t *v, int64_t low, int64_t high)
{
    if (r->error)
        return low;
    if (!json_is_integer(v)) {
        fail(r, "expected an integer");
        return low;
    }
    int64_t i = json_integer_value(v);
    if (i < low || i > high) {
        fail(r, "%lld is not in %lld..%lld", (long long)i, (long long)low, (long long)high);
        return low;
    }
    return i;
}

static int64_t get_int(struct reader *r, struct object *o, const char *name, int64_t low, int64_t high)
{
    const json_t *v = member(r, o, name, true);
    if (!v)
        return low;
    size_t mark = enter(r, name, 0);
    int64_t i = integer(r, v, low, high);
    leave(r, mark);
    return i;
}

static uint32_t get_u32(struct reader *r, struct object *o, const char *name)
{
    return (uint32_t)get_int(r, o, name, 0, UINT32_MAX - 1);
}

static uint64_t get_u64(struct reader *r, struct object *o, const char *name)
{
    return (uint64_t)get_int(r, o, name, 0, INT64_MAX);
}

/* An index into a table of n entries. */
static uint32_t get_index(struct reader *r, struct object *o, const char *name, uint32_t n)
{
    const json_t *v = member(r, o, name, true);
    if (!v)
        return 0;
    size_t mark = enter(r, name, 0);
    if (n == 0)
        fail(r, "an index into an empty table");
    uint32_t i = (uint32_t)integer(r, v, 0, (int64_t)n - 1);
    leave(r, mark);
    return i;
}

static int64_t get_int_or(struct reader *r, struct object *o, const char *name, int64_t low, int64_t high,
                          int64_t otherwise)
{
    const json_t *v = member(r, o, name, false);
    if (!v)
        return otherwise;
    size_t mark = enter(r, name, 0);
    int64_t i = integer(r, v, low, high);
    leave(r, mark);
    return i;
}

static bool get_flag(struct reader *r, struct object *o, const char *name)
{
    const json_t *v = member(r, o, name, false);
    if (v && !json_is_boolean(v))
        fail_at(r, name, "expected true or false");
    return v && json_is_true(v);
}

static double real(struct reader *r, const json_t *v)
{
    const char *s = json_string_value(v);
    if (json_is_number(v))
        return json_number_value(v);
    if (s && strcmp(s, "inf") == 0)
        return INFINITY;
    if (s && strcmp(s, "-inf") == 0)
        return -INFINITY;
    if (!s || strcmp(s, "nan"))
        fail(r, "expected a number, or \"inf\", \"-inf\" or \"nan\"");
    return NAN;
}

static double get_real(struct reader *r, struct object *o, const char *name)
{
    const json_t *v = member(r, o, name, true);
    if (!v)
        return 0;
    size_t mark = enter(r, name, 0);
    double f = real(r, v);
    leave(r, mark);
    return f;
}

static const char *string(struct reader *r, const json_t *v)
{
    const char *s = json_string_value(v);
    if (r->error)
        return "";
    if (!s) {
        fail(r, "expected a string");
        return "";
    }
    char *copy = stem_plan_strdup(r->plan, s);
    if (!copy)
        fail(r, "out of memory");
    return copy ? copy : "";
}

static const char *get_string(struct reader *r, struct object *o, const char *name)
{
    const json_t *v = member(r, o, name, true);
    if (!v)
        return "";
    size_t mark = enter(r, name, 0);
    const char *s = string(r, v);
    leave(r, mark);
    return s;
}

/* A C identifier: it becomes a symbol. */
static const char *get_symbol(struct reader *r, struct object *o, const char *name)
{
    const char *s = get_string(r, o, name);
    for (const char *c = s; !r->error && (*c || c == s); c++)
        if (!(*c == '_' || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (c > s && *c >= '0' && *c <= '9')))
            fail_at(r, name, "not a C identifier");
    return s;
}

static uint32_t word(struct reader *r, const json_t *v, const char *const *names, size_t n)
{
    const char *s = json_string_value(v);
    for (size_t i = 0; s && i < n; i++)
        if (names[i][0] && strcmp(names[i], s) == 0)
            return (uint32_t)i;
    fail(r, s ? "unknown word \"%.40s\"" : "expected a word", s);
    return 0;
}

static uint32_t get_word(struct reader *r, struct object *o, const char *name, const char *const *names, size_t n)
{
    const json_t *v = member(r, o, name, true);
    if (!v)
        return 0;
    size_t mark = enter(r, name, 0);
    uint32_t i = word(r, v, names, n);
    leave(r, mark);
    return i;
}

static enum stem_dtype get_dtype(struct reader *r, struct object *o)
{
    const char *s = get_string(r, o, "dtype");
    enum stem_dtype t = stem_dtype_from_name(s);
    if (t == STEM_N_DTYPES) {
        if (!r->error)
            fail_at(r, "dtype", "unknown element type");
        t = STEM_F32;
    }
    return t;
}

/* Lists: `list` opens one and allocates its records; each element is read between enter and leave. */
static void *list(struct reader *r, struct object *o, const char *name, bool required, size_t size,
                  const json_t **elements, uint32_t *n)
{
    *n = 0;
    *elements = member(r, o, name, required);
    if (!*elements)
        return NULL;
    if (!json_is_array(*elements)) {
        fail_at(r, name, "expected a list");
        return NULL;
    }
    size_t count = json_array_size(*elements);
    void *at = count < STEM_NONE ? stem_plan_alloc(r->plan, count * size) : NULL;
    if (!at)
        fail_at(r, name, "out of memory");
    else
        *n = (uint32_t)count;
    return at;
}

/* Runs `body` for each element of a list with `i` and the element `e`, the path set, until the first fault. */
#define EACH(r, name, elements, n, body)                                  \
    do {                                                                  \
        size_t outer_ = enter(r, name, 0);                                \
        for (uint32_t i = 0; i < (n) && !(r)->error; i++) {               \
            const json_t *e = json_array_get(elements, i);                \
            size_t inner_ = enter(r, NULL, i);                            \
            body;                                                         \
            leave(r, inner_);                                             \
        }                                                                 \
        leave(r, outer_);                                                 \
    } while (0)

static const int64_t *read_ints(struct reader *r, struct object *o, const char *name, int64_t high, uint32_t *n)
{
    const json_t *elements;
    int64_t *at = list(r, o, name, true, sizeof *at, &elements, n);
    EACH(r, name, elements, *n, at[i] = integer(r, e, 0, high));
    return at;
}

static void read_three(struct reader *r, struct object *o, const char *name, const int64_t high[3], uint32_t out[3])
{
    uint32_t n;
    const int64_t *at = read_ints(r, o, name, INT64_MAX, &n);
    if (!r->error && n != 3)
        fail_at(r, name, "expected three integers");
    for (uint32_t i = 0; i < 3 && !r->error; i++) {
        if (at[i] < 1 || at[i] > high[i])
            fail_at(r, name, "out of range");
        out[i] = (uint32_t)at[i];
    }
}

static void read_dims(struct reader *r, struct object *o, const char *name, uint32_t *rank, int64_t dim[STEM_MAX_RANK])
{
    uint32_t n;
    const int64_t *at = read_ints(r, o, name, INT64_MAX, &n);
    if (n > STEM_MAX_RANK) {
        fail_at(r, name, "too many dimensions");
        return;
    }
    *rank = n;
    for (uint32_t i = 0; i < n && !r->error; i++)
        dim[i] = at[i];
}

static const char *const *read_strings(struct reader *r, struct object *o, const char *name, uint32_t *n)
{
    const json_t *elements;
    const char **at = list(r, o, name, true, sizeof *at, &elements, n);
    EACH(r, name, elements, *n, at[i] = string(r, e));
    return at;
}

static void read_buffer(struct reader *r, const json_t *json, struct stem_plan_buffer *b)
{
    struct object o;
    if (!open_object(r, &o, json))
        return;
    b->name = get_string(r, &o, "name");
    b->kind = (enum stem_buffer_kind)get_word(r, &o, "kind", buffer_names, N(buffer_names));
    b->bytes = get_u64(r, &o, "bytes");
    b->align = get_u32(r, &o, "align");
    b->offset = b->kind == STEM_BUFFER_TEMP ? get_u64(r, &o, "offset") : 0;
    b->dtype = get_dtype(r, &o);
    read_dims(r, &o, "dim", &b->rank, b->dim);
    b->line = (uint32_t)get_int_or(r, &o, "line", 0, UINT32_MAX, 0);
    close_object(r, &o);
}

static void read_operand(struct reader *r, const json_t *json, const struct stem_plan_variant *v,
                         struct stem_plan_operand *p)
{
    struct object o;
    if (json_is_null(json)) {
        p->access = STEM_READ;
        p->tensor.buffer = p->tensor.rank = STEM_NONE;
        return;
    }
    if (!open_object(r, &o, json))
        return;
    p->access = (enum stem_access)get_word(r, &o, "access", access_names, N(access_names));
    p->tensor.buffer = get_index(r, &o, "buffer", v->n_buffers);
    p->tensor.offset = get_u64(r, &o, "offset");
    p->tensor.dtype = get_dtype(r, &o);
    read_dims(r, &o, "dim", &p->tensor.rank, p->tensor.dim);
    uint32_t strides = 0;
    read_dims(r, &o, "stride", &strides, p->tensor.stride);
    if (!r->error && strides != p->tensor.rank)
        fail_at(r, "stride", "as many as dimensions are needed");
    close_object(r, &o);
}

static void read_scalar(struct reader *r, const json_t *json, struct stem_scalar *s)
{
    struct object o;
    if (!open_object(r, &o, json))
        return;
    if (json_object_size(json) != 1)
        fail(r, "expected one of i32, i64, f32");
    const char *name = json_object_iter_key(json_object_iter((json_t *)json));
    s->kind = STEM_SCALAR_F32;
    for (uint32_t i = 0; name && i < N(scalar_names); i++)
        if (strcmp(name, scalar_names[i]) == 0)
            s->kind = (enum stem_scalar_kind)i;
    if (s->kind == STEM_SCALAR_F32)
        s->f = get_real(r, &o, "f32");
    else if (s->kind == STEM_SCALAR_I32)
        s->i = get_int(r, &o, "i32", INT32_MIN, INT32_MAX);
    else
        s->i = get_int(r, &o, "i64", INT64_MIN, INT64_MAX);
    close_object(r, &o);
}

static void read_attr(struct reader *r, const json_t *json, struct stem_attr *a)
{
    struct object o;
    if (!open_object(r, &o, json))
        return;
    a->name = get_string(r, &o, "name");
    if (json_object_get(json, "int")) {
        a->kind = STEM_ATTR_INT;
        a->i = get_int(r, &o, "int", INT64_MIN, INT64_MAX);
    } else if (json_object_get(json, "float")) {
        a->kind = STEM_ATTR_FLOAT;
        a->f = get_real(r, &o, "float");
    } else {
        a->kind = STEM_ATTR_TEXT;
        a->text = get_string(r, &o, "text");
    }
    close_object(r, &o);
}

static void read_work(struct reader *r, struct object *o, struct stem_plan_op *op)
{
    static const int64_t grid_max[3] = {INT32_MAX, 65535, 65535}, block_max[3] = {1024, 1024, 64};
    op->work = (enum stem_work)get_word(r, o, "work", work_names, N(work_names));
    switch (op->work) {
    case STEM_WORK_LAUNCH:
        op->kernel = get_index(r, o, "kernel", r->plan->n_kernels);
        read_three(r, o, "grid", grid_max, op->grid);
        read_three(r, o, "block", block_max, op->block);
        op->smem = (uint32_t)get_int_or(r, o, "smem", 0, UINT32_MAX - 1, 0);
        op->programmatic = get_flag(r, o, "programmatic");
        break;
    case STEM_WORK_MEMSET:
        op->memset_value = (uint8_t)get_int(r, o, "value", 0, 255);
        break;
    case STEM_WORK_EXTERN:
        op->function = get_index(r, o, "function", r->plan->n_externs);
        break;
    }
}

static void read_op(struct reader *r, const json_t *json, const struct stem_plan_variant *v, struct stem_plan_op *op)
{
    struct object o;
    const json_t *elements;
    if (!open_object(r, &o, json))
        return;
    op->name = get_string(r, &o, "name");
    op->kind = get_string(r, &o, "kind");
    op->stream = get_index(r, &o, "stream", r->plan->n_streams);
    op->segment = get_u32(r, &o, "segment");
    op->layer = (uint32_t)get_int_or(r, &o, "layer", 0, UINT32_MAX - 1, STEM_NONE);
    op->line = get_u32(r, &o, "line");
    op->column = get_u32(r, &o, "column");
    read_work(r, &o, op);
    uint32_t none = r->plan->n_resources;
    op->resource = (uint32_t)get_int_or(r, &o, "resource", 0, (int64_t)none - 1, STEM_NONE);
    struct stem_plan_operand *operands =
        list(r, &o, "operands", true, sizeof *operands, &elements, &op->n_operands);
    op->operands = operands;
    EACH(r, "operands", elements, op->n_operands, read_operand(r, e, v, &operands[i]));
    struct stem_scalar *scalars = list(r, &o, "scalars", false, sizeof *scalars, &elements, &op->n_scalars);
    op->scalars = scalars;
    EACH(r, "scalars", elements, op->n_scalars, read_scalar(r, e, &scalars[i]));
    struct stem_attr *attrs = list(r, &o, "attrs", false, sizeof *attrs, &elements, &op->n_attrs);
    op->attrs = attrs;
    EACH(r, "attrs", elements, op->n_attrs, read_attr(r, e, &attrs[i]));
    op->bytes_read = get_u64(r, &o, "bytes_read");
    op->bytes_written = get_u64(r, &o, "bytes_written");
    op->flops = get_u64(r, &o, "flops");
    op->est_us = get_real(r, &o, "est_us");
    close_object(r, &o);
}

static void read_step(struct reader *r, const json_t *json, struct stem_step *s)
{
    if (json_array_size(json) != 3) {
        fail(r, "expected [kind, stream, index]");
        return;
    }
    s->kind = (enum stem_step_kind)word(r, json_array_get(json, 0), step_names, N(step_names));
    s->stream = (uint32_t)integer(r, json_array_get(json, 1), 0, (int64_t)r->plan->n_streams - 1);
    s->index = (uint32_t)integer(r, json_array_get(json, 2), 0, UINT32_MAX - 1);
}

static void read_edge(struct reader *r, const json_t *json, const struct stem_plan_variant *v,
                      struct stem_plan_edge *edge)
{
    size_t n = json_array_size(json);
    if (n != 3 && n != 4) {
        fail(r, "expected [from, to, kind] or [from, to, kind, \"continuation\"]");
        return;
    }
    edge->from = (uint32_t)integer(r, json_array_get(json, 0), 0, (int64_t)v->n_ops - 1);
    edge->to = (uint32_t)integer(r, json_array_get(json, 1), 0, (int64_t)v->n_ops - 1);
    edge->kind = (enum stem_edge_kind)word(r, json_array_get(json, 2), edge_names, N(edge_names));
    edge->continuation = n == 4;
    const char *const continuation[] = {"continuation"};
    if (n == 4)
        word(r, json_array_get(json, 3), continuation, 1);
}

static void read_segment(struct reader *r, const json_t *json, struct stem_plan_segment *s)
{
    struct object o;
    if (!open_object(r, &o, json))
        return;
    s->first_op = get_u32(r, &o, "first_op");
    s->n_ops = get_u32(r, &o, "n_ops");
    s->first_step = get_u32(r, &o, "first_step");
    s->n_steps = get_u32(r, &o, "n_steps");
    s->eager = get_flag(r, &o, "eager");
    close_object(r, &o);
}

static void read_figures(struct reader *r, struct object *o, struct stem_plan_variant *v)
{
    v->n_events = get_u32(r, o, "n_events");
    v->slab_bytes = get_u64(r, o, "slab_bytes");
    v->events_bound = get_u32(r, o, "events_bound");
    v->slab_bound = get_u64(r, o, "slab_bound");
    v->lanes = get_u32(r, o, "lanes");
    v->critical_path_us = get_real(r, o, "critical_path_us");
    v->total_us = get_real(r, o, "total_us");
    v->floor_us = get_real(r, o, "floor_us");
}

static void check_variant(struct reader *r, uint32_t index)
{
    char place[128], text[256];
    if (r->error || stem_plan_check_variant(r->plan, index, place, sizeof place, text, sizeof text))
        return;
    size_t mark = place[0] ? enter(r, place, 0) : strlen(r->path);
    fail(r, "%s", text);
    leave(r, mark);
}

static void read_variant(struct reader *r, const json_t *json, struct stem_plan_variant *v)
{
    struct object o;
    const json_t *elements;
    uint32_t n_dims;
    if (!open_object(r, &o, json))
        return;
    v->dim = read_ints(r, &o, "dim", INT64_MAX, &n_dims);
    if (!r->error && n_dims != r->plan->n_dims)
        fail_at(r, "dim", "as many as plan.dims are needed");
    read_figures(r, &o, v);
    struct stem_plan_buffer *buffers = list(r, &o, "buffers", true, sizeof *buffers, &elements, &v->n_buffers);
    v->buffers = buffers;
    EACH(r, "buffers", elements, v->n_buffers, read_buffer(r, e, &buffers[i]));
    struct stem_plan_op *ops = list(r, &o, "ops", true, sizeof *ops, &elements, &v->n_ops);
    v->ops = ops;
    EACH(r, "ops", elements, v->n_ops, read_op(r, e, v, &ops[i]));
    struct stem_step *steps = list(r, &o, "steps", true, sizeof *steps, &elements, &v->n_steps);
    v->steps = steps;
    EACH(r, "steps", elements, v->n_steps, read_step(r, e, &steps[i]));
    struct stem_plan_edge *edges = list(r, &o, "edges", true, sizeof *edges, &elements, &v->n_edges);
    v->edges = edges;
    EACH(r, "edges", elements, v->n_edges, read_edge(r, e, v, &edges[i]));
    struct stem_plan_segment *segments =
        list(r, &o, "segments", true, sizeof *segments, &elements, &v->n_segments);
    v->segments = segments;
    EACH(r, "segments", elements, v->n_segments, read_segment(r, e, &segments[i]));
    close_object(r, &o);
}

static void read_kernel(struct reader *r, const json_t *json, struct stem_plan_kernel *k)
{
    struct object o;
    if (!open_object(r, &o, json))
        return;
    k->name = get_symbol(r, &o, "name");
    k->max_smem = get_u32(r, &o, "max_smem");
    k->waits = get_flag(r, &o, "waits");
    close_object(r, &o);
}

static void read_extern(struct reader *r, const json_t *json, struct stem_plan_extern *x)
{
    struct object o;
    if (!open_object(r, &o, json))
        return;
    x->name = get_symbol(r, &o, "name");
    x->library = json_object_get(json, "library") ? get_string(r, &o, "library") : NULL;
    close_object(r, &o);
}

static void read_stream(struct reader *r, const json_t *json, const char **name, int32_t *priority)
{
    struct object o;
    if (!open_object(r, &o, json))
        return;
    *name = get_string(r, &o, "name");
    *priority = (int32_t)get_int_or(r, &o, "priority", INT32_MIN, INT32_MAX, 0);
    close_object(r, &o);
}

static void read_streams(struct reader *r, struct object *o)
{
    const json_t *elements;
    struct stem_plan *p = r->plan;
    const char **names = list(r, o, "streams", true, sizeof *names, &elements, &p->n_streams);
    int32_t *priorities = stem_plan_alloc(p, p->n_streams * sizeof *priorities);
    if (!priorities)
        fail(r, "out of memory");
    p->streams = names;
    p->priorities = priorities;
    EACH(r, "streams", elements, p->n_streams, read_stream(r, e, &names[i], &priorities[i]));
    if (!r->error && (p->n_streams == 0 || p->n_streams > STEM_MAX_STREAMS))
        fail_at(r, "streams", "between 1 and 256 streams are needed");
}

static void read_plan(struct reader *r, const json_t *json)
{
    struct object o;
    const json_t *elements;
    struct stem_plan *p = r->plan;
    if (!open_object(r, &o, json))
        return;
    p->version = (uint32_t)get_int(r, &o, "mainstem_plan", STEM_PLAN_VERSION, STEM_PLAN_VERSION);
    p->name = get_string(r, &o, "name");
    p->source = get_string(r, &o, "source");
    p->sm = get_u32(r, &o, "sm");
    p->n_external = get_u32(r, &o, "n_external");
    p->slab_bytes = get_u64(r, &o, "slab_bytes");
    read_streams(r, &o);
    p->resources = read_strings(r, &o, "resources", &p->n_resources);
    p->dims = read_strings(r, &o, "dims", &p->n_dims);
    struct stem_plan_kernel *kernels = list(r, &o, "kernels", true, sizeof *kernels, &elements, &p->n_kernels);
    p->kernels = kernels;
    EACH(r, "kernels", elements, p->n_kernels, read_kernel(r, e, &kernels[i]));
    struct stem_plan_extern *externs = list(r, &o, "externs", true, sizeof *externs, &elements, &p->n_externs);
    p->externs = externs;
    EACH(r, "externs", elements, p->n_externs, read_extern(r, e, &externs[i]));
    struct stem_plan_variant *variants = list(r, &o, "variants", true, sizeof *variants, &elements, &p->n_variants);
    p->variants = variants;
    EACH(r, "variants", elements, p->n_variants, read_variant(r, e, &variants[i]));
    p->cuda = get_string(r, &o, "cuda");
    close_object(r, &o);
    EACH(r, "variants", elements, p->n_variants, (void)e; check_variant(r, i));
}

struct stem_plan *stem_plan_from_json(const char *text, size_t len, char **error)
{
    json_error_t where;
    struct reader r = {.plan = stem_plan_new()};
    *error = NULL;
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    if (!r.plan)
        fail(&r, "out of memory");
    else if (!json)
        fail(&r, "line %d, column %d: %s", where.line, where.column, where.text);
    else
        read_plan(&r, json);
    json_decref(json);
    if (r.error) {
        stem_plan_free(r.plan);
        *error = r.error;
        return NULL;
    }
    return r.plan;
}
