/* SPDX-License-Identifier: Apache-2.0
 *
 * What every pass may rely on. One function for each kind of thing; each returns the first fault as a text, or NULL.
 */
#include <stdlib.h>
#include <string.h>

#include "ir/build.h"

#define FAULT(p, ...) stem_arena_printf((p)->arena, __VA_ARGS__)

static const char *check_decl(const struct stem_program *p, uint32_t i)
{
    const struct stem_decl *d = &p->decls.at[i];
    if (d->class == STEM_OP_KERNEL && (!d->params || !d->body))
        return FAULT(p, "d%u: a kernel without parameters or body", i);
    for (uint32_t k = 0; k < i; k++) /* few: a file has so many declarations, not so many ops */
        if (p->decls.at[k].class == d->class && p->decls.at[k].name.n == d->name.n)
            return FAULT(p, "d%u: d%u has the same name", i, k);
    return NULL;
}

static const char *check_buffer(const struct stem_program *p, uint32_t i)
{
    const struct stem_buffer *b = &p->buffers.at[i];
    struct stem_tensor t;
    if (b->kind > STEM_BUFFER_STATE)
        return FAULT(p, "b%u: unknown kind", i);
    if (i && b->kind != STEM_BUFFER_TEMP && b[-1].kind == STEM_BUFFER_TEMP)
        return FAULT(p, "b%u: an external buffer after a temporary one", i);
    if (b->shape.buffer != i || !stem_tensor_init(&t, b->shape.dtype, b->shape.rank, b->shape.dim) ||
        !stem_tensor_contiguous(&b->shape) || b->shape.offset)
        return FAULT(p, "b%u: impossible shape", i);
    if (b->bytes != stem_tensor_extent(&b->shape))
        return FAULT(p, "b%u: its size is not its shape's", i);
    if (b->inout && b->kind != STEM_BUFFER_INPUT)
        return FAULT(p, "b%u: `inout`, but no input", i);
    if (!b->align || b->align & (b->align - 1) || b->align > 1u << 20)
        return FAULT(p, "b%u: alignment %u", i, b->align);
    return NULL;
}

/* Callers find external buffers by name. */
static int by_name(const void *a, const void *b)
{
    const struct stem_buffer *x = *(const struct stem_buffer *const *)a, *y = *(const struct stem_buffer *const *)b;
    if (x->name.n != y->name.n)
        return x->name.n < y->name.n ? -1 : 1;
    return x->shape.buffer < y->shape.buffer ? -1 : x->shape.buffer > y->shape.buffer;
}

static const char *check_names(const struct stem_program *p)
{
    STEM_VEC(const struct stem_buffer *) all = {0};
    const char *fault = NULL;
    for (uint32_t i = 0; i < p->buffers.len && p->buffers.at[i].kind != STEM_BUFFER_TEMP; i++)
        stem_vec_push(&all, &p->buffers.at[i]);
    if (all.len > 1)
        qsort(all.at, all.len, sizeof *all.at, by_name);
    for (uint32_t i = 1; i < all.len && !fault; i++)
        if (all.at[i]->name.n == all.at[i - 1]->name.n)
            fault = FAULT(p, "b%u and b%u are both called '%s', and callers find them by name",
                          all.at[i - 1]->shape.buffer, all.at[i]->shape.buffer,
                          stem_sym_str(p->strings, all.at[i]->name));
    stem_vec_free(&all);
    return fault;
}

static bool tensor_fits(const struct stem_tensor *t, uint64_t bytes)
{
    struct stem_tensor plain;
    unsigned __int128 last = 0;
    if (!stem_tensor_init(&plain, t->dtype, t->rank, t->dim))
        return false;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->stride[i] < 0)
            return false;
        last += (unsigned __int128)(uint64_t)(t->dim[i] - 1) * (uint64_t)t->stride[i];
    }
    return t->offset <= bytes && ((last + 1) * stem_dtype_bits(t->dtype) + 7) / 8 <= bytes - t->offset;
}

static const char *check_value(const struct stem_program *p, uint32_t i)
{
    const struct stem_value *v = &p->values.at[i];
    if (v->tensor.buffer >= p->buffers.len)
        return FAULT(p, "v%u: no such buffer", i);
    if (!tensor_fits(&v->tensor, p->buffers.at[v->tensor.buffer].bytes))
        return FAULT(p, "v%u: its tensor does not lie within b%u", i, v->tensor.buffer);
    if (v->def.n != STEM_NONE && v->def.n >= p->ops.len)
        return FAULT(p, "v%u: defined by no op", i);
    if (v->base.n == STEM_NONE)
        return v->version ? FAULT(p, "v%u: version %u of nothing", i, v->version) : NULL;
    if (v->base.n >= p->values.len || p->values.at[v->base.n].tensor.buffer != v->tensor.buffer)
        return FAULT(p, "v%u: its base is not in its buffer", i);
    const struct stem_value *base = &p->values.at[v->base.n];
    if (v->version != base->version && v->version != base->version + 1)
        return FAULT(p, "v%u: version %u of a version %u", i, v->version, base->version);
    if (v->version == base->version && base->base.n != STEM_NONE && base->base.n < p->values.len &&
        p->values.at[base->base.n].version == base->version)
        return FAULT(p, "v%u: a view of a view", i);
    if (v->version == base->version && v->def.n != STEM_NONE)
        return FAULT(p, "v%u: a view that an op defines", i);
    return NULL;
}

static const char *check_input(const struct stem_program *p, uint32_t k, uint32_t i)
{
    const struct stem_op *op = &p->ops.at[k];
    const struct stem_operand *o = &op->operands[i];
    const struct stem_param *param = op->class == STEM_OP_BUILTIN ? stem_op_param(op->def, i) : NULL;
    if (o->mode == STEM_MODE_OUT || o->mode > STEM_MODE_RELEASE)
        return FAULT(p, "o%u: input %u has the mode of a result", k, i);
    if (op->class == STEM_OP_BUILTIN && !param)
        return FAULT(p, "o%u: too many inputs", k);
    if (o->value.n == STEM_NONE)
        return param && param->optional ? NULL : FAULT(p, "o%u: input %u is missing", k, i);
    if (o->value.n >= p->values.len)
        return FAULT(p, "o%u: input %u is no value", k, i);
    if (param && (o->mode == STEM_MODE_INOUT) != (param->mode == STEM_MODE_INOUT))
        return FAULT(p, "o%u: input %u: mode does not fit the signature", k, i);
    if (param && !param->any_stride && !stem_tensor_contiguous(&stem_value_at(p, o->value)->tensor))
        return FAULT(p, "o%u: input %u is strided", k, i);
    struct stem_op_id def = stem_value_def(p, o->value);
    if (def.n == STEM_NONE) {
        if (p->buffers.at[stem_value_at(p, o->value)->tensor.buffer].kind == STEM_BUFFER_TEMP)
            return FAULT(p, "o%u: reads v%u, which nothing writes", k, o->value.n);
        return NULL;
    }
    if (p->ops.at[def.n].dead)
        return FAULT(p, "o%u: reads v%u of the dead op o%u", k, o->value.n, def.n);
    /* ops that passes add stand at the end */
    return def.n < k || p->state & STEM_FACT_STREAMS
               ? NULL
               : FAULT(p, "o%u: reads v%u of the later op o%u", k, o->value.n, def.n);
}

static const char *check_results(const struct stem_program *p, uint32_t k)
{
    const struct stem_op *op = &p->ops.at[k];
    const struct stem_operand *o = op->operands + op->n_in;
    uint32_t next = 0;
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (o[i].value.n >= p->values.len || o[i].mode != STEM_MODE_OUT)
            return FAULT(p, "o%u: result %u is no value", k, i);
        if (stem_value_at(p, o[i].value)->def.n != k)
            return FAULT(p, "o%u: its result v%u is defined elsewhere", k, o[i].value.n);
    }
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (op->operands[i].mode != STEM_MODE_INOUT)
            continue;
        if (next == op->n_out || stem_value_at(p, o[next].value)->base.n != op->operands[i].value.n ||
            stem_value_is_view(p, o[next].value))
            return FAULT(p, "o%u: input %u has no next version", k, i);
        next++;
    }
    for (uint32_t i = next; i < op->n_out; i++) {
        const struct stem_value *v = stem_value_at(p, o[i].value);
        if (v->base.n != STEM_NONE || !stem_tensor_contiguous(&v->tensor))
            return FAULT(p, "o%u: its result v%u is not a whole new value", k, o[i].value.n);
    }
    return NULL;
}

/* The type rule, as the builder asked it. */
static const char *check_types(const struct stem_program *p, uint32_t k, struct stem_dims *dims)
{
    const struct stem_op *op = &p->ops.at[k];
    struct stem_type in[STEM_MAX_OPERANDS];
    struct stem_span spans[STEM_MAX_OPERANDS];
    struct stem_diags *diags = stem_diags_new(1);
    const char *fault = NULL;
    for (uint32_t i = 0; i < op->n_in; i++) {
        struct stem_tensor t = stem_operand_tensor(p, &op->operands[i]);
        in[i] = stem_tensor_type(dims, &t);
        spans[i] = STEM_NOWHERE;
    }
    struct stem_infer c = {.dims = dims,
                           .strings = p->strings,
                           .diags = diags,
                           .span = STEM_NOWHERE,
                           .operand_span = spans,
                           .in = in,
                           .n_in = op->n_in,
                           .attrs = op->attrs};
    uint32_t first = op->n_in + stem_op_n_inout(op);
    if (!stem_op_infer(op->def, &c)) {
        fault = FAULT(p, "o%u: %s", k, stem_diags_count(diags) ? stem_diags_get(diags, 0)->text : "type rule");
    } else if (c.n_out != op->n_in + op->n_out - first) {
        fault = FAULT(p, "o%u: wrong number of results", k);
    } else {
        for (uint32_t i = 0; i < c.n_out && !fault; i++) {
            struct stem_tensor t = stem_operand_tensor(p, &op->operands[first + i]);
            struct stem_type have = stem_tensor_type(dims, &t);
            if (!stem_type_same(&have, &c.out[i]))
                fault = FAULT(p, "o%u: result %u is not of the type that the rule says", k, i);
        }
    }
    stem_diags_free(diags);
    return fault;
}

static bool attrs_fit(const struct stem_op *op)
{
    bool fits = op->n_attrs == op->def->n_attrs;
    for (uint32_t i = 0; fits && i < op->n_attrs; i++) {
        enum stem_attr_type type = op->def->attrs[i].type;
        enum stem_attr_kind kind = type == STEM_ATTR_TYPE_FLOAT                                ? STEM_ATTR_FLOAT
                                   : type == STEM_ATTR_TYPE_INT || type == STEM_ATTR_TYPE_BOOL ? STEM_ATTR_INT
                                                                                               : STEM_ATTR_TEXT;
        fits = op->attrs[i].kind == kind && !strcmp(op->attrs[i].name, op->def->attrs[i].name);
    }
    return fits;
}

static const char *check_op(const struct stem_program *p, uint32_t k, struct stem_dims *dims)
{
    const struct stem_op *op = &p->ops.at[k];
    const char *fault = NULL;
    if (op->dead)
        return NULL;
    if (op->class == STEM_OP_BUILTIN ? !op->def || op->def->expand != NULL
                                     : op->decl >= p->decls.len || p->decls.at[op->decl].class != op->class)
        return FAULT(p, "o%u: not an op that can run", k);
    if (op->n_in + op->n_out > STEM_MAX_OPERANDS)
        return FAULT(p, "o%u: too many operands", k);
    if (op->class == STEM_OP_BUILTIN && !attrs_fit(op))
        return FAULT(p, "o%u: attributes do not fit the op", k);
    if (op->segment >= p->segments.len || (op->layer != STEM_NONE && op->layer >= p->layers.len))
        return FAULT(p, "o%u: no such segment or layer", k);
    if ((op->pin.n != STEM_NONE && op->pin.n >= p->streams.len) ||
        (op->stream.n != STEM_NONE && op->stream.n >= p->streams.len))
        return FAULT(p, "o%u: no such stream", k);
    for (uint32_t i = 0; i < op->n_after; i++)
        if (op->after[i].n >= p->ops.len)
            return FAULT(p, "o%u: after no op", k);
    for (uint32_t i = 0; i < op->n_in && !fault; i++)
        fault = check_input(p, k, i);
    if (!fault)
        fault = check_results(p, k);
    if (!fault && op->class == STEM_OP_BUILTIN)
        fault = check_types(p, k, dims);
    return fault;
}

/* One writer in place, or consumer, of one version. */
struct writer {
    uint32_t buffer, version, op;
    uint64_t begin, end; /* bytes */
};

static int by_bytes(const void *a, const void *b)
{
    const struct writer *x = a, *y = b;
    if (x->buffer != y->buffer)
        return x->buffer < y->buffer ? -1 : 1;
    if (x->version != y->version)
        return x->version < y->version ? -1 : 1;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

/* The versions of a buffer form a line: no two ops write the same bytes of one version in place, and of a temporary
 * buffer none at all. */
static const char *check_writers(const struct stem_program *p)
{
    STEM_VEC(struct writer) all = {0};
    const char *fault = NULL;
    for (uint32_t k = 0; k < p->ops.len; k++)
        for (uint32_t i = 0; !p->ops.at[k].dead && i < p->ops.at[k].n_in; i++) {
            const struct stem_operand *o = &p->ops.at[k].operands[i];
            if (o->value.n == STEM_NONE || (o->mode != STEM_MODE_INOUT && o->mode != STEM_MODE_CONSUME))
                continue;
            const struct stem_value *v = stem_value_at(p, o->value);
            stem_vec_push(&all, (struct writer){v->tensor.buffer, v->version, k, v->tensor.offset,
                                                v->tensor.offset + stem_tensor_extent(&v->tensor)});
        }
    if (all.len > 1)
        qsort(all.at, all.len, sizeof *all.at, by_bytes);
    for (uint32_t i = 1, first = 0; i < all.len && !fault; i++) { /* first: of those so far, the one that ends last */
        const struct writer *w = &all.at[i], *f = &all.at[first];
        bool same = w->buffer == f->buffer && w->version == f->version;
        bool apart = w->op == f->op || p->buffers.at[w->buffer].kind != STEM_BUFFER_TEMP;
        if (same && (w->begin < f->end || !apart))
            fault = FAULT(p, "o%u and o%u both write version %u of b%u in place", f->op, w->op, w->version,
                          w->buffer);
        if (!same || w->end > f->end)
            first = i;
    }
    stem_vec_free(&all);
    return fault;
}

static bool op_or_none(const struct stem_program *p, struct stem_op_id id)
{
    return id.n == STEM_NONE || id.n < p->ops.len;
}

/* Issue order: every live op once. */
static const char *check_order(const struct stem_program *p)
{
    const struct stem_schedule *s = &p->sched;
    struct stem_bitset seen = stem_bitset_new(p->arena, p->ops.len);
    uint32_t live = 0;
    for (uint32_t i = 0; i < p->ops.len; i++)
        live += !p->ops.at[i].dead;
    for (uint32_t i = 0; i < s->order.len; i++) {
        uint32_t k = s->order.at[i].n;
        if (k >= p->ops.len || p->ops.at[k].dead || stem_bitset_has(&seen, k))
            return FAULT(p, "issue order: place %u", i);
        stem_bitset_add(&seen, k);
    }
    return s->order.len == live ? NULL : FAULT(p, "issue order: an op is missing");
}

static const char *check_lifetimes(const struct stem_program *p)
{
    const struct stem_schedule *s = &p->sched;
    uint32_t n = p->buffers.len;
    if (s->last_use_begin.len != n + 1 || s->first_use.len != n || s->free_after.len != n)
        return FAULT(p, "lifetimes: not one for each buffer");
    for (uint32_t i = 0; i < n; i++)
        if (s->last_use_begin.at[i] > s->last_use_begin.at[i + 1] || !op_or_none(p, s->first_use.at[i]) ||
            !op_or_none(p, s->free_after.at[i]))
            return FAULT(p, "lifetimes: b%u", i);
    if (s->last_use_begin.at[0] != 0 || s->last_use_begin.at[n] != s->last_use.len)
        return FAULT(p, "lifetimes: last uses");
    for (uint32_t i = 0; i < s->last_use.len; i++)
        if (s->last_use.at[i].n >= p->ops.len)
            return FAULT(p, "lifetimes: last use %u", i);
    return NULL;
}

static const char *check_schedule(const struct stem_program *p)
{
    const struct stem_schedule *s = &p->sched;
    const char *fault = NULL;
    for (uint32_t i = 0; i < p->ops.len && p->state & STEM_FACT_STREAMS; i++)
        if (!p->ops.at[i].dead && p->ops.at[i].stream.n == STEM_NONE)
            return FAULT(p, "o%u: has no stream", i);
    for (uint32_t i = 0; i < s->deps.len; i++)
        if (s->deps.at[i].from.n >= p->ops.len || s->deps.at[i].to.n >= p->ops.len ||
            s->deps.at[i].kind > STEM_DEP_MEMORY ||
            (s->deps.at[i].value.n != STEM_NONE && s->deps.at[i].value.n >= p->values.len))
            return FAULT(p, "dependency %u", i);
    for (uint32_t i = 0; i < s->waits.len; i++)
        if (!op_or_none(p, s->waits.at[i].from) || !op_or_none(p, s->waits.at[i].to) ||
            s->waits.at[i].segment >= p->segments.len)
            return FAULT(p, "wait %u", i);
    if (p->state & STEM_FACT_ORDER)
        fault = check_order(p);
    if (!fault && p->state & STEM_FACT_LIFETIME)
        fault = check_lifetimes(p);
    return fault;
}

const char *stem_program_check(const struct stem_program *p)
{
    const char *fault = NULL;
    if (!p->streams.len || p->streams.len > STEM_MAX_STREAMS || !p->segments.len ||
        p->dim_names.len != p->dim_values.len)
        return "no stream, no segment, or dims without values";
    for (uint32_t i = 0; i < p->decls.len && !fault; i++)
        fault = check_decl(p, i);
    for (uint32_t i = 0; i < p->buffers.len && !fault; i++)
        fault = check_buffer(p, i);
    if (!fault)
        fault = check_names(p);
    for (uint32_t i = 0; i < p->values.len && !fault; i++)
        fault = check_value(p, i);
    struct stem_dims *dims = stem_dims_new();
    for (uint32_t i = 0; i < p->ops.len && !fault; i++)
        fault = check_op(p, i, dims);
    stem_dims_free(dims);
    if (!fault)
        fault = check_writers(p);
    return fault ? fault : check_schedule(p);
}
