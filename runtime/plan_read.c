/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a plan from JSON. Nothing in the text is trusted: every index, enum, size and order is checked here, so that
 * code that walks a plan need not. The first fault stops the reading; its message says where it is
 * ("variants[0].ops[3].stream: ...").
 */
#include "plan.h"

#include <string.h>

#include "plan_check.h"
#include "plan_names.h"
#include "plan_reader.h"
#include "sources.h"

static const char *const buffer_names[] = STEM_NAMES_BUFFER, *const access_names[] = STEM_NAMES_ACCESS,
                         *const scalar_names[] = STEM_NAMES_SCALAR, *const work_names[] = STEM_NAMES_WORK,
                         *const step_names[] = STEM_NAMES_STEP, *const edge_names[] = STEM_NAMES_EDGE;

#define N(table) (sizeof(table) / sizeof *(table))

static void read_from(struct stem_reader *r, struct stem_read_object *o, struct stem_plan_buffer *b)
{
    struct stem_sources s;
    b->from = stem_get_string(r, o, "from");
    if (r->error)
        return;
    const char *wrong = b->kind == STEM_BUFFER_WEIGHT ? stem_sources_parse(b->from, b->rank, b->dim, &s)
                                                      : "only a weight comes from a checkpoint";
    if (wrong)
        stem_read_fail_at(r, "from", wrong);
}

static void read_buffer(struct stem_reader *r, const json_t *json, struct stem_plan_buffer *b)
{
    struct stem_read_object o;
    if (!stem_read_open(r, &o, json))
        return;
    b->name = stem_get_string(r, &o, "name");
    b->kind = (enum stem_buffer_kind)stem_get_word(r, &o, "kind", buffer_names, N(buffer_names));
    b->bytes = stem_get_u64(r, &o, "bytes");
    b->align = stem_get_u32(r, &o, "align");
    b->offset = b->kind == STEM_BUFFER_TEMP ? stem_get_u64(r, &o, "offset") : 0;
    b->dtype = stem_get_dtype(r, &o);
    stem_read_dims(r, &o, "dim", &b->rank, b->dim);
    b->line = (uint32_t)stem_get_int_or(r, &o, "line", 0, UINT32_MAX, 0);
    b->low = stem_get_int_or(r, &o, "low", INT64_MIN, INT64_MAX, 0);
    b->high = stem_get_int_or(r, &o, "high", b->low, INT64_MAX, b->low);
    b->inout = stem_get_flag(r, &o, "inout");
    if (b->inout && b->kind != STEM_BUFFER_INPUT)
        stem_read_fail_at(r, "inout", "only an input is updated in the caller's memory");
    if (json_object_get(json, "from"))
        read_from(r, &o, b);
    stem_read_close(r, &o);
}

static void read_operand(struct stem_reader *r, const json_t *json, const struct stem_plan_variant *v,
                         struct stem_plan_operand *p)
{
    struct stem_read_object o;
    if (json_is_null(json)) {
        p->access = STEM_READ;
        p->tensor.buffer = p->tensor.rank = STEM_NONE;
        return;
    }
    if (!stem_read_open(r, &o, json))
        return;
    p->access = (enum stem_access)stem_get_word(r, &o, "access", access_names, N(access_names));
    p->tensor.buffer = stem_get_index(r, &o, "buffer", v->n_buffers);
    p->tensor.offset = stem_get_u64(r, &o, "offset");
    p->tensor.dtype = stem_get_dtype(r, &o);
    stem_read_dims(r, &o, "dim", &p->tensor.rank, p->tensor.dim);
    uint32_t strides = 0;
    stem_read_dims(r, &o, "stride", &strides, p->tensor.stride);
    if (!r->error && strides != p->tensor.rank)
        stem_read_fail_at(r, "stride", "as many as dimensions are needed");
    stem_read_close(r, &o);
}

static void read_scalar(struct stem_reader *r, const json_t *json, struct stem_scalar *s)
{
    struct stem_read_object o;
    if (!stem_read_open(r, &o, json))
        return;
    if (json_object_size(json) != 1)
        stem_read_fail(r, "expected one of i32, i64, f32");
    const char *name = json_object_iter_key(json_object_iter((json_t *)json));
    s->kind = STEM_SCALAR_F32;
    for (uint32_t i = 0; name && i < N(scalar_names); i++)
        if (strcmp(name, scalar_names[i]) == 0)
            s->kind = (enum stem_scalar_kind)i;
    if (s->kind == STEM_SCALAR_F32)
        s->f = stem_get_real(r, &o, "f32");
    else if (s->kind == STEM_SCALAR_I32)
        s->i = stem_get_int(r, &o, "i32", INT32_MIN, INT32_MAX);
    else
        s->i = stem_get_int(r, &o, "i64", INT64_MIN, INT64_MAX);
    stem_read_close(r, &o);
}

static void read_attr(struct stem_reader *r, const json_t *json, struct stem_attr *a)
{
    struct stem_read_object o;
    if (!stem_read_open(r, &o, json))
        return;
    a->name = stem_get_string(r, &o, "name");
    if (json_object_get(json, "int")) {
        a->kind = STEM_ATTR_INT;
        a->i = stem_get_int(r, &o, "int", INT64_MIN, INT64_MAX);
    } else if (json_object_get(json, "float")) {
        a->kind = STEM_ATTR_FLOAT;
        a->f = stem_get_real(r, &o, "float");
    } else {
        a->kind = STEM_ATTR_TEXT;
        a->text = json_object_get(json, "text") ? stem_get_string(r, &o, "text") : NULL;
    }
    stem_read_close(r, &o);
}

static void read_work(struct stem_reader *r, struct stem_read_object *o, struct stem_plan_op *op)
{
    static const int64_t grid_max[3] = {INT32_MAX, 65535, 65535}, block_max[3] = {1024, 1024, 64};
    op->work = (enum stem_work)stem_get_word(r, o, "work", work_names, N(work_names));
    switch (op->work) {
    case STEM_WORK_LAUNCH:
        op->kernel = stem_get_index(r, o, "kernel", r->plan->n_kernels);
        stem_read_three(r, o, "grid", grid_max, op->grid);
        stem_read_three(r, o, "block", block_max, op->block);
        op->smem = (uint32_t)stem_get_int_or(r, o, "smem", 0, UINT32_MAX - 1, 0);
        op->programmatic = stem_get_flag(r, o, "programmatic");
        break;
    case STEM_WORK_MEMSET:
        op->memset_value = (uint8_t)stem_get_int(r, o, "value", 0, 255);
        break;
    case STEM_WORK_EXTERN:
        op->function = stem_get_index(r, o, "function", r->plan->n_externs);
        break;
    case STEM_WORK_MATMUL: /* its operands say everything */
        break;
    }
}

static void read_op(struct stem_reader *r, const json_t *json, const struct stem_plan_variant *v,
                    struct stem_plan_op *op)
{
    struct stem_read_object o;
    const json_t *elements;
    if (!stem_read_open(r, &o, json))
        return;
    op->name = stem_get_string(r, &o, "name");
    op->kind = stem_get_string(r, &o, "kind");
    op->stream = stem_get_index(r, &o, "stream", r->plan->n_streams);
    op->segment = stem_get_u32(r, &o, "segment");
    op->layer = (uint32_t)stem_get_int_or(r, &o, "layer", 0, UINT32_MAX - 1, STEM_NONE);
    op->line = stem_get_u32(r, &o, "line");
    op->column = stem_get_u32(r, &o, "column");
    read_work(r, &o, op);
    uint32_t none = r->plan->n_resources;
    op->resource = (uint32_t)stem_get_int_or(r, &o, "resource", 0, (int64_t)none - 1, STEM_NONE);
    struct stem_plan_operand *operands =
        stem_read_list(r, &o, "operands", true, sizeof *operands, &elements, &op->n_operands);
    op->operands = operands;
    STEM_READ_EACH(r, "operands", elements, op->n_operands, read_operand(r, e, v, &operands[i]));
    struct stem_scalar *scalars = stem_read_list(r, &o, "scalars", false, sizeof *scalars, &elements, &op->n_scalars);
    op->scalars = scalars;
    STEM_READ_EACH(r, "scalars", elements, op->n_scalars, read_scalar(r, e, &scalars[i]));
    struct stem_attr *attrs = stem_read_list(r, &o, "attrs", false, sizeof *attrs, &elements, &op->n_attrs);
    op->attrs = attrs;
    STEM_READ_EACH(r, "attrs", elements, op->n_attrs, read_attr(r, e, &attrs[i]));
    op->bytes_read = stem_get_u64(r, &o, "bytes_read");
    op->bytes_written = stem_get_u64(r, &o, "bytes_written");
    op->flops = stem_get_u64(r, &o, "flops");
    op->est_us = stem_get_real(r, &o, "est_us");
    stem_read_close(r, &o);
}

static void read_step(struct stem_reader *r, const json_t *json, struct stem_step *s)
{
    if (json_array_size(json) != 3) {
        stem_read_fail(r, "expected [kind, stream, index]");
        return;
    }
    s->kind = (enum stem_step_kind)stem_read_word(r, json_array_get(json, 0), step_names, N(step_names));
    s->stream = (uint32_t)stem_read_integer(r, json_array_get(json, 1), 0, (int64_t)r->plan->n_streams - 1);
    s->index = (uint32_t)stem_read_integer(r, json_array_get(json, 2), 0, UINT32_MAX - 1);
}

static void read_edge(struct stem_reader *r, const json_t *json, const struct stem_plan_variant *v,
                      struct stem_plan_edge *edge)
{
    size_t n = json_array_size(json);
    if (n != 3 && n != 4) {
        stem_read_fail(r, "expected [from, to, kind] or [from, to, kind, \"continuation\"]");
        return;
    }
    edge->from = (uint32_t)stem_read_integer(r, json_array_get(json, 0), 0, (int64_t)v->n_ops - 1);
    edge->to = (uint32_t)stem_read_integer(r, json_array_get(json, 1), 0, (int64_t)v->n_ops - 1);
    edge->kind = (enum stem_edge_kind)stem_read_word(r, json_array_get(json, 2), edge_names, N(edge_names));
    edge->continuation = n == 4;
    const char *const continuation[] = {"continuation"};
    if (n == 4)
        stem_read_word(r, json_array_get(json, 3), continuation, 1);
}

static void read_segment(struct stem_reader *r, const json_t *json, struct stem_plan_segment *s)
{
    struct stem_read_object o;
    if (!stem_read_open(r, &o, json))
        return;
    s->first_op = stem_get_u32(r, &o, "first_op");
    s->n_ops = stem_get_u32(r, &o, "n_ops");
    s->first_step = stem_get_u32(r, &o, "first_step");
    s->n_steps = stem_get_u32(r, &o, "n_steps");
    s->eager = stem_get_flag(r, &o, "eager");
    stem_read_close(r, &o);
}

static void read_figures(struct stem_reader *r, struct stem_read_object *o, struct stem_plan_variant *v)
{
    v->n_events = stem_get_u32(r, o, "n_events");
    v->slab_bytes = stem_get_u64(r, o, "slab_bytes");
    v->events_bound = stem_get_u32(r, o, "events_bound");
    v->slab_bound = stem_get_u64(r, o, "slab_bound");
    v->lanes = stem_get_u32(r, o, "lanes");
    v->critical_path_us = stem_get_real(r, o, "critical_path_us");
    v->total_us = stem_get_real(r, o, "total_us");
    v->floor_us = stem_get_real(r, o, "floor_us");
    const json_t *schedule = stem_read_member(r, o, "schedule_us", false);
    v->schedule_us = schedule ? stem_read_real(r, schedule) : 0;
}

static void check_variant(struct stem_reader *r, uint32_t index)
{
    char place[128], text[256];
    if (r->error || stem_plan_check_variant(r->plan, index, place, sizeof place, text, sizeof text))
        return;
    size_t mark = place[0] ? stem_read_enter(r, place, 0) : strlen(r->path);
    stem_read_fail(r, "%s", text);
    stem_read_leave(r, mark);
}

static void read_variant(struct stem_reader *r, const json_t *json, struct stem_plan_variant *v)
{
    struct stem_read_object o;
    const json_t *elements;
    uint32_t n_dims;
    if (!stem_read_open(r, &o, json))
        return;
    v->dim = stem_read_ints(r, &o, "dim", INT64_MAX, &n_dims);
    if (!r->error && n_dims != r->plan->n_dims)
        stem_read_fail_at(r, "dim", "as many as plan.dims are needed");
    read_figures(r, &o, v);
    struct stem_plan_buffer *buffers =
        stem_read_list(r, &o, "buffers", true, sizeof *buffers, &elements, &v->n_buffers);
    v->buffers = buffers;
    STEM_READ_EACH(r, "buffers", elements, v->n_buffers, read_buffer(r, e, &buffers[i]));
    struct stem_plan_op *ops = stem_read_list(r, &o, "ops", true, sizeof *ops, &elements, &v->n_ops);
    v->ops = ops;
    STEM_READ_EACH(r, "ops", elements, v->n_ops, read_op(r, e, v, &ops[i]));
    struct stem_step *steps = stem_read_list(r, &o, "steps", true, sizeof *steps, &elements, &v->n_steps);
    v->steps = steps;
    STEM_READ_EACH(r, "steps", elements, v->n_steps, read_step(r, e, &steps[i]));
    struct stem_plan_edge *edges = stem_read_list(r, &o, "edges", true, sizeof *edges, &elements, &v->n_edges);
    v->edges = edges;
    STEM_READ_EACH(r, "edges", elements, v->n_edges, read_edge(r, e, v, &edges[i]));
    struct stem_plan_segment *segments =
        stem_read_list(r, &o, "segments", true, sizeof *segments, &elements, &v->n_segments);
    v->segments = segments;
    STEM_READ_EACH(r, "segments", elements, v->n_segments, read_segment(r, e, &segments[i]));
    stem_read_close(r, &o);
}

static void read_kernel(struct stem_reader *r, const json_t *json, struct stem_plan_kernel *k)
{
    struct stem_read_object o;
    if (!stem_read_open(r, &o, json))
        return;
    k->name = stem_get_symbol(r, &o, "name");
    k->max_smem = stem_get_u32(r, &o, "max_smem");
    k->waits = stem_get_flag(r, &o, "waits");
    k->early = (uint32_t)stem_get_int_or(r, &o, "early", 0, UINT32_MAX, 0);
    k->ahead = stem_get_flag(r, &o, "ahead");
    stem_read_close(r, &o);
}

static void read_extern(struct stem_reader *r, const json_t *json, struct stem_plan_extern *x)
{
    struct stem_read_object o;
    if (!stem_read_open(r, &o, json))
        return;
    x->name = stem_get_symbol(r, &o, "name");
    x->library = json_object_get(json, "library") ? stem_get_string(r, &o, "library") : NULL;
    stem_read_close(r, &o);
}

static void read_stream(struct stem_reader *r, const json_t *json, const char **name, int32_t *priority)
{
    struct stem_read_object o;
    if (!stem_read_open(r, &o, json))
        return;
    *name = stem_get_string(r, &o, "name");
    *priority = (int32_t)stem_get_int_or(r, &o, "priority", INT32_MIN, INT32_MAX, 0);
    stem_read_close(r, &o);
}

static void read_streams(struct stem_reader *r, struct stem_read_object *o)
{
    const json_t *elements;
    struct stem_plan *p = r->plan;
    const char **names = stem_read_list(r, o, "streams", true, sizeof *names, &elements, &p->n_streams);
    int32_t *priorities = stem_plan_alloc(p, p->n_streams * sizeof *priorities);
    if (!priorities)
        stem_read_fail(r, "out of memory");
    p->streams = names;
    p->priorities = priorities;
    STEM_READ_EACH(r, "streams", elements, p->n_streams, read_stream(r, e, &names[i], &priorities[i]));
    if (!r->error && (p->n_streams == 0 || p->n_streams > STEM_MAX_STREAMS))
        stem_read_fail_at(r, "streams", "between 1 and 256 streams are needed");
}

static void read_plan(struct stem_reader *r, const json_t *json)
{
    struct stem_read_object o;
    const json_t *elements;
    struct stem_plan *p = r->plan;
    if (!stem_read_open(r, &o, json))
        return;
    p->version = (uint32_t)stem_get_int(r, &o, "mainstem_plan", STEM_PLAN_VERSION, STEM_PLAN_VERSION);
    p->name = stem_get_string(r, &o, "name");
    p->source = stem_get_string(r, &o, "source");
    p->sm = stem_get_u32(r, &o, "sm");
    p->n_external = stem_get_u32(r, &o, "n_external");
    p->slab_bytes = stem_get_u64(r, &o, "slab_bytes");
    read_streams(r, &o);
    p->resources = stem_read_strings(r, &o, "resources", &p->n_resources);
    p->dims = stem_read_strings(r, &o, "dims", &p->n_dims);
    struct stem_plan_kernel *kernels =
        stem_read_list(r, &o, "kernels", true, sizeof *kernels, &elements, &p->n_kernels);
    p->kernels = kernels;
    STEM_READ_EACH(r, "kernels", elements, p->n_kernels, read_kernel(r, e, &kernels[i]));
    struct stem_plan_extern *externs =
        stem_read_list(r, &o, "externs", true, sizeof *externs, &elements, &p->n_externs);
    p->externs = externs;
    STEM_READ_EACH(r, "externs", elements, p->n_externs, read_extern(r, e, &externs[i]));
    struct stem_plan_variant *variants =
        stem_read_list(r, &o, "variants", true, sizeof *variants, &elements, &p->n_variants);
    p->variants = variants;
    STEM_READ_EACH(r, "variants", elements, p->n_variants, read_variant(r, e, &variants[i]));
    p->cuda = stem_get_string(r, &o, "cuda");
    stem_read_close(r, &o);
    STEM_READ_EACH(r, "variants", elements, p->n_variants, (void)e; check_variant(r, i));
}

struct stem_plan *stem_plan_from_json(const char *text, size_t len, char **error)
{
    json_error_t where;
    struct stem_reader r = {.plan = stem_plan_new()};
    json_t *json = text ? json_loadb(text, len, JSON_REJECT_DUPLICATES, &where) : NULL;
    if (error)
        *error = NULL;
    if (!r.plan)
        stem_read_fail(&r, "out of memory");
    else if (!text)
        stem_read_fail(&r, "text is NULL");
    else if (!json)
        stem_read_fail(&r, "line %d, column %d: %s", where.line, where.column, where.text);
    else
        read_plan(&r, json);
    json_decref(json);
    if (r.error) {
        stem_plan_free(r.plan);
        if (error)
            *error = r.error;
        else
            free(r.error);
        return NULL;
    }
    return r.plan;
}
