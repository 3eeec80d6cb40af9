/* SPDX-License-Identifier: Apache-2.0
 *
 * The builder. Everything costs time in proportion to what is added, so a program of any number of layers is built in
 * linear time. Faults of the caller abort: the user's faults were found by the front end, whose type rules are the
 * same ones that run here.
 */
#include "ir/build.h"

#include "ops/epilogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void bug(const struct stem_builder *b, const char *what)
{
    fprintf(stderr, "mainstem: internal error: builder: %s (at '%s')\n", what,
            stem_sym_str(b->program->strings, b->name));
    abort();
}

struct stem_builder stem_builder_new(struct stem_program *p, struct stem_dims *dims, struct stem_diags *diags)
{
    return (struct stem_builder){
        .program = p, .dims = dims, .diags = diags, .layer = STEM_NONE, .pin = STEM_NO_STREAM, .span = STEM_NOWHERE};
}

struct stem_op_id stem_build_mark(const struct stem_builder *b)
{
    return (struct stem_op_id){b->program->ops.len};
}

/* ---- buffers and values ---- */

bool stem_tensor_init(struct stem_tensor *t, enum stem_dtype dtype, uint32_t rank, const int64_t *dim)
{
    uint64_t elements = 1;
    *t = (struct stem_tensor){.buffer = STEM_NONE, .dtype = dtype, .rank = rank};
    if (rank > STEM_MAX_RANK || dtype >= STEM_N_DTYPES)
        return false;
    for (uint32_t i = rank; i-- > 0;) {
        t->dim[i] = dim[i];
        t->stride[i] = (int64_t)elements;
        if (dim[i] < 1 || __builtin_mul_overflow(elements, (uint64_t)dim[i], &elements) || elements >> 48)
            return false;
    }
    return true;
}

static struct stem_value_id add_value(struct stem_builder *b, struct stem_value v)
{
    stem_vec_push(&b->program->values, v);
    return (struct stem_value_id){b->program->values.len - 1};
}

struct stem_value_id stem_build_buffer(struct stem_builder *b, enum stem_buffer_kind kind, struct stem_sym name,
                                       enum stem_dtype dtype, uint32_t rank, const int64_t *dim)
{
    struct stem_program *p = b->program;
    struct stem_buffer buffer = {.name = name, .kind = kind, .align = 256, .span = b->span};
    if (!stem_tensor_init(&buffer.shape, dtype, rank, dim))
        bug(b, "a tensor with an impossible shape");
    if (kind != STEM_BUFFER_TEMP && p->buffers.len && stem_vec_last(&p->buffers).kind == STEM_BUFFER_TEMP)
        bug(b, "an external buffer after a temporary one");
    buffer.shape.buffer = p->buffers.len;
    buffer.bytes = stem_tensor_extent(&buffer.shape);
    stem_vec_push(&p->buffers, buffer);
    return add_value(
        b, (struct stem_value){
               .name = name, .tensor = buffer.shape, .def = STEM_NO_OP, .base = STEM_NO_VALUE, .span = b->span});
}

struct stem_value_id stem_build_view(struct stem_builder *b, struct stem_value_id base, struct stem_sym name,
                                     uint64_t offset, uint32_t rank, const int64_t *dim, const int64_t *stride)
{
    struct stem_value_id origin = stem_value_origin(b->program, base);
    struct stem_tensor of = stem_value_at(b->program, base)->tensor, t;
    if (!stem_tensor_init(&t, of.dtype, rank, dim))
        bug(b, "a view with an impossible shape");
    t.buffer = of.buffer;
    t.offset = of.offset + offset;
    for (uint32_t i = 0; i < rank; i++)
        t.stride[i] = stride[i];
    if (t.offset + stem_tensor_extent(&t) > b->program->buffers.at[t.buffer].bytes)
        bug(b, "a view beyond the end of its buffer");
    return add_value(b, (struct stem_value){.name = name,
                                            .tensor = t,
                                            .def = STEM_NO_OP,
                                            .base = origin,
                                            .version = stem_value_at(b->program, origin)->version,
                                            .span = b->span});
}

/* The version after an in-place write of v. */
static struct stem_value_id next_version(struct stem_builder *b, struct stem_value_id v, struct stem_sym name)
{
    const struct stem_value *old = stem_value_at(b->program, v);
    struct stem_buffer *buffer = &b->program->buffers.at[old->tensor.buffer];
    bool by_others = buffer->parted || buffer->newest_by != b->program->ops.len;
    buffer->parted = buffer->newest == old->version + 1 && by_others;
    buffer->newest = old->version + 1;
    buffer->newest_by = b->program->ops.len;
    return add_value(b, (struct stem_value){.name = name,
                                            .tensor = old->tensor,
                                            .def = STEM_NO_OP,
                                            .base = v,
                                            .version = old->version + 1,
                                            .span = b->span});
}

void stem_build_move(struct stem_builder *b, struct stem_value_id value, struct stem_value_id into)
{
    struct stem_program *p = b->program;
    uint32_t from = stem_value_at(p, value)->tensor.buffer, to = stem_value_at(p, into)->tensor.buffer;
    if (!stem_build_can_move(b, value, into))
        bug(b, "a value that cannot move into this buffer");
    for (uint32_t i = 0; i < p->values.len; i++)
        if (p->values.at[i].tensor.buffer == from)
            p->values.at[i].tensor.buffer = to;
    p->buffers.at[to].newest = p->buffers.at[from].newest;
    value = stem_value_origin(p, value);
    stem_value_at(p, into)->base = value;
    stem_value_at(p, into)->version = stem_value_at(p, value)->version;
}

bool stem_build_can_move(const struct stem_builder *b, struct stem_value_id value, struct stem_value_id into)
{
    const struct stem_program *p = b->program;
    const struct stem_value *v = stem_value_at(p, value), *w = stem_value_at(p, into);
    const struct stem_buffer *from = &p->buffers.at[v->tensor.buffer];
    return from->kind == STEM_BUFFER_TEMP && v->version == from->newest && !from->consumed &&
           stem_value_def(p, value).n != STEM_NONE && w->def.n == STEM_NONE &&
           w->base.n == STEM_NONE && v->tensor.offset == 0 && w->tensor.offset == 0 &&
           stem_tensor_contiguous(&v->tensor) && from->bytes == p->buffers.at[w->tensor.buffer].bytes &&
           stem_tensor_extent(&v->tensor) == from->bytes;
}

/* ---- old versions ---- */

static struct stem_value_id copied(struct stem_builder *b, struct stem_value_id v);

static bool writes(enum stem_mode mode)
{
    return mode == STEM_MODE_INOUT || mode == STEM_MODE_CONSUME;
}

bool stem_build_can_write(const struct stem_builder *b, struct stem_value_id value)
{
    const struct stem_program *p = b->program;
    const struct stem_value *v = stem_value_at(p, value);
    const struct stem_buffer *buffer = &p->buffers.at[v->tensor.buffer];
    if (v->version == buffer->newest || buffer->consumed)
        return !buffer->consumed;
    if (buffer->kind == STEM_BUFFER_TEMP || v->version + 1 != buffer->newest)
        return false;
    for (uint32_t i = stem_value_origin(p, value).n + 1; i < p->values.len; i++)
        if (p->values.at[i].version > v->version && stem_tensor_overlap(&p->values.at[i].tensor, &v->tensor))
            return false;
    return true;
}

/* The op that writes the next version of this one or consumes it: the first in text order. */
static const struct stem_op *next_writer(const struct stem_program *p, struct stem_value_id value)
{
    const struct stem_value *v = stem_value_at(p, value);
    struct stem_op_id def = stem_value_def(p, value);
    for (uint32_t i = def.n == STEM_NONE ? 0 : def.n + 1; i < p->ops.len; i++)
        for (uint32_t k = 0; k < p->ops.at[i].n_in; k++) {
            const struct stem_operand *o = &p->ops.at[i].operands[k];
            if (writes(o->mode) && stem_value_at(p, o->value)->tensor.buffer == v->tensor.buffer &&
                stem_value_at(p, o->value)->version == v->version)
                return &p->ops.at[i];
        }
    return NULL;
}

struct stem_builder stem_build_before_writer(const struct stem_builder *b, struct stem_value_id value)
{
    struct stem_builder early = *b;
    const struct stem_op *writer = next_writer(b->program, value);
    if (writer && writer->segment < b->segment)
        early.segment = writer->segment;
    early.n_after = 0;
    early.resource = (struct stem_sym){0};
    return early;
}

struct stem_value_id stem_build_copy_old(struct stem_builder *b, struct stem_value_id value)
{
    struct stem_builder early = stem_build_before_writer(b, value);
    return copied(&early, value);
}

/* Makes sure that an op which writes in place is alone with the bytes it writes: an old version of a temporary buffer
 * is copied first, and so is what the op also reads of the same bytes. */
static void part_operands(struct stem_builder *b, struct stem_operand *o, uint32_t n)
{
    const struct stem_program *p = b->program;
    for (uint32_t i = 0; i < n; i++) {
        if (o[i].value.n == STEM_NONE || !writes(o[i].mode))
            continue;
        if (!stem_build_can_write(b, o[i].value)) {
            if (p->buffers.at[stem_value_at(p, o[i].value)->tensor.buffer].kind != STEM_BUFFER_TEMP)
                bug(b, "a second writer of one version of an external buffer");
            o[i].value = stem_build_copy_old(b, o[i].value);
        }
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n && o[i].value.n != STEM_NONE && writes(o[i].mode); k++) {
            if (k == i || o[k].value.n == STEM_NONE ||
                !stem_tensor_overlap(&stem_value_at(p, o[i].value)->tensor, &stem_value_at(p, o[k].value)->tensor))
                continue;
            if (writes(o[k].mode))
                bug(b, "an op that writes the same bytes in place twice");
            o[k].value = stem_build_copy_old(b, o[k].value);
        }
}

/* After the op's own reading: nobody may write on in what it consumes. */
static void note_consumed(struct stem_builder *b, const struct stem_operand *o, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (o[i].mode == STEM_MODE_CONSUME && o[i].value.n != STEM_NONE)
            b->program->buffers.at[stem_value_at(b->program, o[i].value)->tensor.buffer].consumed = true;
}

/* ---- ops ---- */

static struct stem_sym part_name(struct stem_builder *b)
{
    if (!b->parts)
        return b->name;
    return stem_intern_printf(b->program->strings, "%s.%u", stem_sym_str(b->program->strings, b->name), b->parts++);
}

/* An op with the builder's context, operands still to be set. */
static struct stem_op new_op(struct stem_builder *b, enum stem_op_class class, struct stem_sym name)
{
    struct stem_op op = {.class = class,
                         .name = name,
                         .decl = STEM_NONE,
                         .layer = b->layer,
                         .segment = b->segment,
                         .pin = b->pin,
                         .priority = b->priority,
                         .resource = b->resource,
                         .n_after = b->n_after,
                         .span = b->span,
                         .stream = STEM_NO_STREAM};
    if (b->n_after)
        op.after = stem_arena_dup(b->program->arena, b->after, b->n_after * sizeof *b->after);
    return op;
}

static struct stem_op_id add_op(struct stem_builder *b, struct stem_op *op, const struct stem_operand *operands)
{
    struct stem_program *p = b->program;
    struct stem_op_id id = {p->ops.len};
    op->operands = stem_arena_dup(p->arena, operands, (op->n_in + op->n_out) * sizeof *operands);
    note_consumed(b, operands, op->n_in);
    for (uint32_t i = op->n_in; i < op->n_in + op->n_out; i++) {
        struct stem_value *v = stem_value_at(p, operands[i].value);
        if (v->def.n != STEM_NONE)
            bug(b, "a value that two ops define");
        v->def = id;
    }
    stem_op_set_cost(p, op);
    stem_vec_push(&p->ops, *op);
    return id;
}

void stem_op_set_cost(const struct stem_program *p, struct stem_op *op)
{
    struct stem_tensor t[STEM_MAX_OPERANDS];
    struct stem_concrete c;
    stem_op_concrete(p, op, t, &c);
    if (op->class == STEM_OP_BUILTIN) {
        stem_op_cost(&c, &op->cost);
        return;
    }
    op->cost = (struct stem_cost){0};
    for (uint32_t i = 0; i < c.n_in + c.n_out; i++) {
        uint64_t bytes = t[i].rank == STEM_NONE ? 0 : stem_tensor_extent(&t[i]);
        op->cost.bytes_read += i < c.n_in ? bytes : 0;
        op->cost.bytes_written += i >= c.n_in || op->operands[i].mode == STEM_MODE_INOUT ? bytes : 0;
    }
    uint64_t blocks = (uint64_t)op->grid[0] * op->grid[1] * op->grid[2];
    if (op->class == STEM_OP_EXTERN) /* unknown; one block for 64 KiB is what copying would take */
        blocks = 1 + ((op->cost.bytes_read + op->cost.bytes_written) >> 16);
    op->cost.blocks = blocks > UINT32_MAX ? UINT32_MAX : (uint32_t)blocks;
}

/* Texts are interned: thousands of layers share one copy. */
static const struct stem_attr *keep_attrs(struct stem_builder *b, const struct stem_op_def *def,
                                          const struct stem_attr *attrs)
{
    struct stem_attr *kept = STEM_NEW_ARRAY(b->program->arena, struct stem_attr, def->n_attrs);
    for (uint32_t i = 0; i < def->n_attrs; i++) {
        kept[i] = attrs[i];
        kept[i].name = def->attrs[i].name;
        if (attrs[i].kind == STEM_ATTR_TEXT && attrs[i].text)
            kept[i].text = stem_sym_str(b->program->strings, stem_intern(b->program->strings, attrs[i].text));
    }
    return kept;
}

struct stem_type stem_tensor_type(struct stem_dims *dims, const struct stem_tensor *t)
{
    struct stem_type type = {.dtype = t->dtype, .rank = t->rank == STEM_NONE ? 0 : t->rank};
    for (uint32_t i = 0; i < type.rank; i++)
        type.dim[i] = stem_dim_const(dims, t->dim[i]);
    return type;
}

/* The inputs' types and modes are right for the op; results' types in c->out. */
static bool check_call(struct stem_builder *b, const struct stem_op_def *def, const struct stem_input *in,
                       uint32_t n_in, const struct stem_attr *attrs, struct stem_infer *c)
{
    static const struct stem_type absent = {.dtype = STEM_N_DTYPES};
    struct stem_type types[STEM_MAX_OPERANDS];
    struct stem_span spans[STEM_MAX_OPERANDS];
    if (n_in > STEM_MAX_OPERANDS)
        bug(b, "too many operands");
    for (uint32_t i = 0; i < n_in; i++) {
        spans[i] = in[i].span;
        types[i] = absent;
        if (in[i].value.n != STEM_NONE)
            types[i] = stem_tensor_type(b->dims, &stem_value_at(b->program, in[i].value)->tensor);
    }
    *c = (struct stem_infer){.dims = b->dims,
                             .strings = b->program->strings,
                             .diags = b->diags,
                             .span = b->span,
                             .operand_span = spans,
                             .in = types,
                             .n_in = n_in,
                             .attrs = attrs};
    bool fine = stem_op_infer(def, c);
    c->in = NULL;
    c->operand_span = NULL;
    for (uint32_t i = 0; fine && i < n_in; i++)
        if (in[i].mode == STEM_MODE_INOUT && stem_op_param(def, i)->mode != STEM_MODE_INOUT) {
            stem_error(b->diags, STEM_E_OP_MODE, in[i].span, "%s does not write its operand '%s' in place", def->name,
                       stem_op_param(def, i)->name);
            fine = false;
        }
    return fine;
}

static bool same_type(struct stem_builder *b, const struct stem_tensor *t, const struct stem_type *type)
{
    struct stem_type have = stem_tensor_type(b->dims, t);
    return stem_type_same(&have, type);
}

/* The value for a plain result: the one asked for, or a new buffer's. */
static struct stem_value_id result_value(struct stem_builder *b, const struct stem_type *type, struct stem_sym name,
                                         struct stem_value_id into)
{
    int64_t dim[STEM_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++)
        if (!stem_dim_value(b->dims, type->dim[i], &dim[i]))
            bug(b, "a result whose size is not a constant");
    if (into.n == STEM_NONE)
        return stem_build_buffer(b, STEM_BUFFER_TEMP, name, type->dtype, type->rank, dim);
    const struct stem_tensor *t = &stem_value_at(b->program, into)->tensor;
    if (!same_type(b, t, type) || !stem_tensor_contiguous(t))
        bug(b, "a result that does not fit the value it is to be written to");
    return into;
}

/* A contiguous copy of a strided value. */
static struct stem_value_id copied(struct stem_builder *b, struct stem_value_id v)
{
    struct stem_sym name = b->name;
    struct stem_sym of = stem_value_at(b->program, v)->name;
    const char *text = stem_sym_str(b->program->strings, of);
    uint32_t parts = b->parts;
    size_t len = strlen(text);
    bool again = len > 5 && !strcmp(text + len - 5, ".copy"); /* a name does not grow with each copy of a copy */
    b->name = again ? of : stem_intern_printf(b->program->strings, "%s.copy", text);
    b->parts = 0;
    v = stem_build_simple(b, "copy", &v, 1, NULL, 0);
    b->name = name;
    b->parts = parts;
    return v;
}

static bool is_contiguous(const struct stem_builder *b, struct stem_value_id v)
{
    return v.n == STEM_NONE || stem_tensor_contiguous(&stem_value_at(b->program, v)->tensor);
}

static struct stem_value_id contiguous(struct stem_builder *b, const struct stem_op_def *def, uint32_t i,
                                       struct stem_value_id v)
{
    const struct stem_param *param = stem_op_param(def, i);
    if (is_contiguous(b, v) || param->any_stride)
        return v;
    if (param->mode == STEM_MODE_INOUT)
        bug(b, "a strided operand written in place");
    return copied(b, v);
}

static void build_primitive(struct stem_builder *b, const struct stem_op_def *def, const struct stem_input *in,
                            uint32_t n_in, const struct stem_attr *attrs, const struct stem_infer *c,
                            const struct stem_value_id *into, struct stem_value_id *results)
{
    struct stem_operand operands[2 * STEM_MAX_OPERANDS];
    for (uint32_t i = 0; i < n_in; i++) {
        enum stem_mode need = stem_op_param(def, i)->mode;
        operands[i] = (struct stem_operand){contiguous(b, def, i, in[i].value),
                                            need == STEM_MODE_IN ? in[i].mode : need, in[i].span};
    }
    part_operands(b, operands, n_in);
    struct stem_sym name = part_name(b);
    struct stem_op op = new_op(b, STEM_OP_BUILTIN, name);
    op.def = def;
    op.n_in = n_in;
    op.attrs = keep_attrs(b, def, attrs);
    op.n_attrs = def->n_attrs;
    for (uint32_t i = 0; i < n_in; i++)
        if (operands[i].mode == STEM_MODE_INOUT)
            results[op.n_out++] = next_version(b, operands[i].value, name);
    for (uint32_t i = 0; i < c->n_out; i++) {
        struct stem_sym result = name;
        if (c->n_out > 1)
            result = stem_intern_printf(b->program->strings, "%s.%s", stem_sym_str(b->program->strings, name),
                                        def->results[i]);
        results[op.n_out++] = result_value(b, &c->out[i], result, into ? into[i] : STEM_NO_VALUE);
    }
    if (n_in + op.n_out > STEM_MAX_OPERANDS)
        bug(b, "too many operands");
    for (uint32_t i = 0; i < op.n_out; i++)
        operands[n_in + i] = (struct stem_operand){results[i], STEM_MODE_OUT, b->span};
    add_op(b, &op, operands);
}

/* What the caller says about an input holds for every part that reads it. */
static void pass_on_modes(struct stem_builder *b, uint32_t first, const struct stem_input *in, uint32_t n_in)
{
    for (uint32_t i = 0; i < n_in; i++) {
        if (in[i].mode != STEM_MODE_RELEASE)
            continue;
        for (uint32_t k = first; k < b->program->ops.len; k++) {
            struct stem_op *op = &b->program->ops.at[k];
            struct stem_operand *o = (struct stem_operand *)op->operands;
            for (uint32_t j = 0; j < op->n_in; j++)
                if (o[j].value.n == in[i].value.n && o[j].mode == STEM_MODE_IN)
                    o[j].mode = STEM_MODE_RELEASE;
        }
    }
}

/* A composite's result carries the composite's name, not its last part's. */
static void name_result(struct stem_builder *b, const struct stem_op_def *def, struct stem_value_id v, uint32_t i)
{
    struct stem_program *p = b->program;
    struct stem_sym name = b->name;
    if (def->results[1])
        name = stem_intern_printf(p->strings, "%s.%s", stem_sym_str(p->strings, b->name), def->results[i]);
    struct stem_value *value = stem_value_at(p, v);
    value->name = name;
    if (p->buffers.at[value->tensor.buffer].kind == STEM_BUFFER_TEMP)
        p->buffers.at[value->tensor.buffer].name = name;
    if (i == 0 && value->def.n != STEM_NONE)
        stem_op_at(p, value->def)->name = b->name;
}

static void build_composite(struct stem_builder *b, const struct stem_op_def *def, const struct stem_input *in,
                            uint32_t n_in, const struct stem_attr *attrs, const struct stem_infer *c,
                            const struct stem_value_id *into, struct stem_value_id *results)
{
    struct stem_value_id values[STEM_MAX_OPERANDS];
    struct stem_sym outer = b->name;
    uint32_t first = b->program->ops.len, outer_parts = b->parts;
    b->name = part_name(b);
    b->parts = 0;
    for (uint32_t i = 0; i < n_in; i++)
        values[i] = contiguous(b, def, i, in[i].value);
    for (uint32_t i = n_in; i < STEM_MAX_OPERANDS; i++)
        values[i] = STEM_NO_VALUE;
    b->parts = 1;
    def->expand(b, values, attrs, results);
    b->parts = 0;
    for (uint32_t i = 0; i < c->n_out; i++) {
        if (!same_type(b, &stem_value_at(b->program, results[i])->tensor, &c->out[i]))
            bug(b, "a composite's result is not of the type that its rule says");
        if (into && into[i].n != STEM_NONE)
            stem_build_move(b, results[i], into[i]);
        name_result(b, def, results[i], i);
    }
    pass_on_modes(b, first, in, n_in);
    b->name = outer;
    b->parts = outer_parts;
}

bool stem_build_op(struct stem_builder *b, const struct stem_op_def *def, const struct stem_input *in, uint32_t n_in,
                   const struct stem_attr *attrs, const struct stem_value_id *into, struct stem_value_id *results)
{
    struct stem_attr defaults[STEM_MAX_ATTRS];
    struct stem_infer c;
    if (!attrs) {
        stem_op_attr_defaults(def, defaults);
        attrs = defaults;
    }
    if (!check_call(b, def, in, n_in, attrs, &c))
        return false;
    (def->expand ? build_composite : build_primitive)(b, def, in, n_in, attrs, &c, into, results);
    return true;
}

struct stem_value_id stem_build_simple(struct stem_builder *b, const char *op, const struct stem_value_id *in,
                                       uint32_t n_in, const struct stem_attr *given, uint32_t n_given)
{
    const struct stem_op_def *def = stem_op_find(op);
    struct stem_attr attrs[STEM_MAX_ATTRS];
    struct stem_input inputs[STEM_MAX_OPERANDS];
    struct stem_value_id results[STEM_MAX_OPERANDS];
    if (!def || n_in > STEM_MAX_OPERANDS)
        bug(b, op);
    stem_op_attr_defaults(def, attrs);
    for (uint32_t i = 0; i < n_given; i++)
        *(struct stem_attr *)stem_op_attr(def, attrs, given[i].name) = given[i];
    for (uint32_t i = 0; i < n_in; i++)
        inputs[i] = (struct stem_input){in[i], STEM_MODE_IN, b->span};
    if (!stem_build_op(b, def, inputs, n_in, attrs, NULL, results)) {
        const struct stem_diag *d = stem_diags_get(b->diags, stem_diags_count(b->diags) - 1);
        bug(b, d->text);
    }
    return results[0];
}

struct stem_op_id stem_build_call(struct stem_builder *b, uint32_t decl, const struct stem_input *operands,
                                  uint32_t n, const struct stem_scalar *scalars, uint32_t n_scalars,
                                  const uint32_t grid[3], const uint32_t block[3], uint32_t smem,
                                  struct stem_value_id *results)
{
    struct stem_program *p = b->program;
    struct stem_operand o[STEM_MAX_OPERANDS];
    struct stem_op op = new_op(b, p->decls.at[decl].class, part_name(b));
    uint32_t next = 0;
    op.decl = decl;
    op.n_scalars = n_scalars;
    op.scalars = stem_arena_dup(p->arena, scalars, n_scalars * sizeof *scalars);
    op.smem = smem;
    for (int i = 0; i < 3; i++) {
        op.grid[i] = grid ? grid[i] : 1;
        op.block[i] = block ? block[i] : 1;
    }
    if (n > STEM_MAX_OPERANDS)
        bug(b, "too many operands");
    for (uint32_t i = 0; i < n; i++) {
        struct stem_value_id v = operands[i].value;
        if (operands[i].mode == STEM_MODE_OUT)
            continue;
        if (!is_contiguous(b, v) && operands[i].mode == STEM_MODE_INOUT)
            bug(b, "a strided operand written in place");
        o[op.n_in++] =
            (struct stem_operand){is_contiguous(b, v) ? v : copied(b, v), operands[i].mode, operands[i].span};
    }
    part_operands(b, o, op.n_in);
    for (uint32_t pass = 0; pass < 2; pass++) /* next versions, then plain results */
        for (uint32_t i = 0; i < n; i++) {
            if (operands[i].mode != (pass ? STEM_MODE_OUT : STEM_MODE_INOUT))
                continue;
            if (op.n_in + op.n_out == STEM_MAX_OPERANDS)
                bug(b, "too many operands");
            while (!pass && o[next].mode != STEM_MODE_INOUT)
                next++;
            results[i] = pass ? operands[i].value : next_version(b, o[next++].value, op.name);
            o[op.n_in + op.n_out++] = (struct stem_operand){results[i], STEM_MODE_OUT, operands[i].span};
        }
    return add_op(b, &op, o);
}
