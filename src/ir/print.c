/* SPDX-License-Identifier: Apache-2.0
 *
 * The textual form of a program (docs/ir.md). Statements end with a semicolon; buffers and values stand before the
 * first op that needs them; what has its default is left out. read.c is the inverse.
 */
#include "ir/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const stem_ir_buffer_kind[] = {"temp", "input", "output", "weight", "state", NULL};
const char *const stem_ir_mode[] = {"in", "out", "inout", "consume", "release", NULL};
const char *const stem_ir_dep[] = {"data", "anti", "output", "after", "resource", "memory", NULL};
const char *const stem_ir_scalar[] = {"i32", "i64", "f32", NULL};
const char *const stem_ir_fact[] = {"expanded", "streams", "deps",  "order", "waits",
                                    "lifetime", "memory",  "lanes", NULL};

struct printer {
    const struct stem_program *p;
    struct stem_out *o;
    uint32_t buffers, values; /* printed so far */
};

static void print_double(struct stem_out *o, double f)
{
    char s[32];
    if (!isfinite(f)) {
        stem_out_str(o, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, f);
        if (strtod(s, NULL) == f)
            break;
    }
    stem_out_str(o, s);
}

static void print_string(struct stem_out *o, const char *s)
{
    stem_out_char(o, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '\n')
            stem_out_str(o, s[1] ? "\\n\"\n    \"" : "\\n");
        else if (c == '"' || c == '\\')
            stem_out_printf(o, "\\%c", c);
        else if (c < 32 || c == 127)
            stem_out_printf(o, "\\x%02x", c);
        else
            stem_out_char(o, (char)c);
    }
    stem_out_char(o, '"');
}

static void print_sym(struct printer *w, const char *lead, struct stem_sym s)
{
    stem_out_str(w->o, lead);
    print_string(w->o, stem_sym_str(w->p->strings, s));
}

static void print_sizes(struct stem_out *o, const int64_t *n, uint32_t rank)
{
    stem_out_char(o, '[');
    for (uint32_t i = 0; i < rank; i++)
        stem_out_printf(o, "%s%lld", i ? ", " : "", (long long)n[i]);
    stem_out_char(o, ']');
}

static void print_type(struct stem_out *o, const struct stem_tensor *t)
{
    stem_out_printf(o, " %s", stem_dtype_name(t->dtype));
    print_sizes(o, t->dim, t->rank);
}

static void print_head(struct printer *w)
{
    const struct stem_program *p = w->p;
    print_sym(w, "program ", p->name);
    stem_out_str(w->o, ";\n");
    if (p->state) {
        stem_out_str(w->o, "state");
        for (uint32_t i = 0; stem_ir_fact[i]; i++)
            if (p->state >> i & 1)
                stem_out_printf(w->o, " %s", stem_ir_fact[i]);
        stem_out_str(w->o, ";\n");
    }
    for (uint32_t i = 0; i < p->dim_names.len; i++) {
        print_sym(w, "dim ", p->dim_names.at[i]);
        stem_out_printf(w->o, " = %lld;\n", (long long)p->dim_values.at[i]);
    }
    for (uint32_t i = 0; i < p->streams.len; i++) {
        stem_out_printf(w->o, "stream s%u", i);
        print_sym(w, " ", p->streams.at[i].name);
        if (p->streams.at[i].priority)
            stem_out_printf(w->o, " priority %d", p->streams.at[i].priority);
        stem_out_str(w->o, ";\n");
    }
    for (uint32_t i = 0; i < p->segments.len; i++)
        stem_out_printf(w->o, "segment g%u%s;\n", i, p->segments.at[i].eager ? " eager" : "");
    for (uint32_t i = 0; i < p->layers.len; i++) {
        stem_out_printf(w->o, "layer l%u", i);
        print_sym(w, " ", p->layers.at[i]);
        stem_out_str(w->o, ";\n");
    }
}

static void print_decl(struct printer *w, uint32_t i)
{
    const struct stem_decl *d = &w->p->decls.at[i];
    stem_out_printf(w->o, "%s d%u", d->class == STEM_OP_KERNEL ? "kernel" : "extern", i);
    print_sym(w, " ", d->name);
    if (d->waits)
        stem_out_str(w->o, " waits");
    const char *const text[] = {d->params, d->library, d->body};
    static const char *const lead[] = {" params ", " library ", " body\n    "};
    for (int k = 0; k < 3; k++)
        if (text[k]) {
            stem_out_str(w->o, lead[k]);
            print_string(w->o, text[k]);
        }
    stem_out_str(w->o, ";\n");
}

static void print_buffer(struct printer *w)
{
    const struct stem_buffer *b = &w->p->buffers.at[w->buffers];
    stem_out_printf(w->o, "buffer b%u %s", w->buffers++, stem_ir_buffer_kind[b->kind]);
    print_sym(w, " ", b->name);
    print_type(w->o, &b->shape);
    if (b->align != 256)
        stem_out_printf(w->o, " align %u", b->align);
    if (b->offset)
        stem_out_printf(w->o, " offset %llu", (unsigned long long)b->offset);
    if (b->inout)
        stem_out_str(w->o, " inout");
    if (b->from) {
        stem_out_str(w->o, " from ");
        print_string(w->o, b->from);
    }
    stem_out_str(w->o, ";\n");
}

static bool same_shape(const struct stem_tensor *a, const struct stem_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->dim, b->dim, a->rank * sizeof *a->dim);
}

static void print_value(struct printer *w)
{
    const struct stem_value *v = &w->p->values.at[w->values];
    while (w->buffers <= v->tensor.buffer)
        print_buffer(w);
    stem_out_printf(w->o, "value v%u", w->values++);
    print_sym(w, " ", v->name);
    stem_out_printf(w->o, " b%u", v->tensor.buffer);
    if (!same_shape(&v->tensor, &w->p->buffers.at[v->tensor.buffer].shape))
        print_type(w->o, &v->tensor);
    if (v->tensor.offset)
        stem_out_printf(w->o, " offset %llu", (unsigned long long)v->tensor.offset);
    struct stem_tensor plain;
    if (stem_tensor_init(&plain, v->tensor.dtype, v->tensor.rank, v->tensor.dim) &&
        memcmp(plain.stride, v->tensor.stride, plain.rank * sizeof *plain.stride)) {
        stem_out_str(w->o, " stride ");
        print_sizes(w->o, v->tensor.stride, v->tensor.rank);
    }
    if (v->base.n != STEM_NONE)
        stem_out_printf(w->o, " %s v%u", v->version == w->p->values.at[v->base.n].version ? "view" : "next",
                        v->base.n);
    stem_out_str(w->o, ";\n");
}

/* ---- ops ---- */

static bool is_default(const struct stem_attr *a, const struct stem_attr *d)
{
    switch (a->kind) {
    case STEM_ATTR_INT:
        return a->i == d->i;
    case STEM_ATTR_FLOAT:
        return a->f == d->f && !signbit(a->f) == !signbit(d->f);
    case STEM_ATTR_TEXT:
        return !a->text || (d->text && !strcmp(a->text, d->text));
    }
    abort();
}

static void print_attrs(struct printer *w, const struct stem_op *op)
{
    struct stem_attr defaults[STEM_MAX_ATTRS];
    const char *lead = " {";
    stem_op_attr_defaults(op->def, defaults);
    for (uint32_t i = 0; i < op->n_attrs; i++) {
        const struct stem_attr *a = &op->attrs[i];
        if (is_default(a, &defaults[i]))
            continue;
        stem_out_printf(w->o, "%s%s = ", lead, a->name);
        if (a->kind == STEM_ATTR_INT)
            stem_out_printf(w->o, "%lld", (long long)a->i);
        else if (a->kind == STEM_ATTR_FLOAT)
            print_double(w->o, a->f);
        else
            print_string(w->o, a->text);
        lead = ", ";
    }
    stem_out_str(w->o, *lead == ',' ? "}" : "");
}

static void print_launch(struct printer *w, const struct stem_op *op)
{
    for (uint32_t i = 0; i < op->n_scalars; i++) {
        const struct stem_scalar *s = &op->scalars[i];
        stem_out_printf(w->o, "%s%s ", i ? ", " : " scalars ", stem_ir_scalar[s->kind]);
        if (s->kind == STEM_SCALAR_F32)
            print_double(w->o, s->f);
        else
            stem_out_printf(w->o, "%lld", (long long)s->i);
    }
    if (op->class != STEM_OP_KERNEL)
        return;
    stem_out_printf(w->o, " grid [%u, %u, %u] block [%u, %u, %u]", op->grid[0], op->grid[1], op->grid[2],
                    op->block[0], op->block[1], op->block[2]);
    if (op->smem)
        stem_out_printf(w->o, " smem %u", op->smem);
}

static void print_call(struct printer *w, const struct stem_op *op)
{
    for (uint32_t i = 0; i < op->n_out; i++)
        stem_out_printf(w->o, "%sv%u", i ? ", " : " ", op->operands[op->n_in + i].value.n);
    stem_out_str(w->o, op->n_out ? " = " : " ");
    if (op->class == STEM_OP_BUILTIN)
        stem_out_str(w->o, op->def->name);
    else
        stem_out_printf(w->o, "d%u", op->decl);
    stem_out_char(w->o, '(');
    for (uint32_t i = 0; i < op->n_in; i++) {
        const struct stem_operand *o = &op->operands[i];
        stem_out_str(w->o, i ? ", " : "");
        if (o->mode != STEM_MODE_IN)
            stem_out_printf(w->o, "%s ", stem_ir_mode[o->mode]);
        if (o->value.n == STEM_NONE)
            stem_out_char(w->o, '_');
        else
            stem_out_printf(w->o, "v%u", o->value.n);
    }
    stem_out_char(w->o, ')');
    if (op->class == STEM_OP_BUILTIN)
        print_attrs(w, op);
    else
        print_launch(w, op);
}

static void print_context(struct printer *w, const struct stem_op *op)
{
    print_sym(w, " name ", op->name);
    if (op->layer != STEM_NONE)
        stem_out_printf(w->o, " layer l%u", op->layer);
    if (op->segment)
        stem_out_printf(w->o, " segment g%u", op->segment);
    if (op->pin.n != STEM_NONE)
        stem_out_printf(w->o, " pin s%u", op->pin.n);
    if (op->priority)
        stem_out_printf(w->o, " priority %d", op->priority);
    if (op->resource.n)
        print_sym(w, " resource ", op->resource);
    for (uint32_t i = 0; i < op->n_after; i++)
        stem_out_printf(w->o, "%so%u", i ? ", " : " after ", op->after[i].n);
    if (op->stream.n != STEM_NONE)
        stem_out_printf(w->o, " on s%u", op->stream.n);
    if (op->est_us != 0) {
        stem_out_str(w->o, " us ");
        print_double(w->o, op->est_us);
    }
    if (op->dead)
        stem_out_str(w->o, " dead");
}

static void print_op(struct printer *w, uint32_t k)
{
    const struct stem_op *op = &w->p->ops.at[k];
    for (uint32_t i = 0; i < op->n_in + op->n_out; i++)
        while (op->operands[i].value.n != STEM_NONE && w->values <= op->operands[i].value.n)
            print_value(w);
    stem_out_printf(w->o, "op o%u", k);
    print_call(w, op);
    print_context(w, op);
    stem_out_str(w->o, ";\n");
}

/* ---- the schedule ---- */

static void print_uses(struct printer *w)
{
    const struct stem_schedule *s = &w->p->sched;
    for (uint32_t i = 0; i + 1 < s->last_use_begin.len; i++) {
        stem_out_printf(w->o, "use b%u", i);
        if (s->first_use.at[i].n != STEM_NONE)
            stem_out_printf(w->o, " first o%u", s->first_use.at[i].n);
        for (uint32_t k = s->last_use_begin.at[i]; k < s->last_use_begin.at[i + 1]; k++)
            stem_out_printf(w->o, "%so%u", k == s->last_use_begin.at[i] ? " last " : ", ", s->last_use.at[k].n);
        if (s->free_after.at[i].n != STEM_NONE)
            stem_out_printf(w->o, " free o%u", s->free_after.at[i].n);
        stem_out_str(w->o, ";\n");
    }
}

static void print_waits(struct printer *w)
{
    const struct stem_schedule *s = &w->p->sched;
    for (uint32_t i = 0; i < s->waits.len; i++) {
        const struct stem_wait *a = &s->waits.at[i];
        stem_out_str(w->o, "wait ");
        if (a->to.n == STEM_NONE)
            stem_out_str(w->o, "end");
        else
            stem_out_printf(w->o, "o%u", a->to.n);
        if (a->from.n == STEM_NONE)
            stem_out_str(w->o, " for start");
        else
            stem_out_printf(w->o, " for o%u", a->from.n);
        stem_out_printf(w->o, " segment g%u%s;\n", a->segment, a->lane ? " lane" : "");
    }
}

/* The ops that a flag is set of. */
static void print_flagged(struct printer *w, const char *word, bool (*flag)(const struct stem_op *op))
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->p->ops.len; i++)
        if (flag(&w->p->ops.at[i]))
            stem_out_printf(w->o, "%so%u", n ? n % 16 ? ", " : ",\n    " : word, i), n++;
    if (n)
        stem_out_str(w->o, ";\n");
}

static bool is_programmatic(const struct stem_op *op)
{
    return op->programmatic;
}

static bool shares(const struct stem_op *op)
{
    return op->shares;
}

static void print_schedule(struct printer *w)
{
    const struct stem_schedule *s = &w->p->sched;
    for (uint32_t i = 0; i < s->deps.len; i++) {
        const struct stem_dep *d = &s->deps.at[i];
        stem_out_printf(w->o, "dep %s o%u -> o%u", stem_ir_dep[d->kind], d->from.n, d->to.n);
        if (d->value.n != STEM_NONE)
            stem_out_printf(w->o, " v%u", d->value.n);
        stem_out_str(w->o, ";\n");
    }
    for (uint32_t i = 0; i < s->order.len; i++)
        stem_out_printf(w->o, "%so%u%s", i ? i % 16 ? ", " : ",\n    " : "order ", s->order.at[i].n,
                        i + 1 == s->order.len ? ";\n" : "");
    print_flagged(w, "programmatic ", is_programmatic);
    print_flagged(w, "shares ", shares);
    print_waits(w);
    print_uses(w);
    if (s->n_events || s->events_bound)
        stem_out_printf(w->o, "events %u bound %u;\n", s->n_events, s->events_bound);
    if (s->slab_bytes || s->slab_bound)
        stem_out_printf(w->o, "slab %llu bound %llu;\n", (unsigned long long)s->slab_bytes,
                        (unsigned long long)s->slab_bound);
    if (s->lanes)
        stem_out_printf(w->o, "lanes %u;\n", s->lanes);
    if (s->critical_path_us != 0 || s->total_us != 0 || s->floor_us != 0) {
        const double us[3] = {s->critical_path_us, s->total_us, s->floor_us};
        for (int i = 0; i < 3; i++) {
            stem_out_str(w->o, i ? " " : "estimate ");
            print_double(w->o, us[i]);
        }
        stem_out_str(w->o, ";\n");
    }
}

void stem_program_print(const struct stem_program *p, struct stem_out *o)
{
    struct printer w = {.p = p, .o = o};
    print_head(&w);
    for (uint32_t i = 0; i < p->decls.len; i++)
        print_decl(&w, i);
    for (uint32_t i = 0; i < p->ops.len; i++)
        print_op(&w, i);
    while (w.values < p->values.len)
        print_value(&w);
    while (w.buffers < p->buffers.len)
        print_buffer(&w);
    print_schedule(&w);
}
