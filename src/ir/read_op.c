/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ir/read.h"

/* ---- ops ---- */

static uint32_t read_results(struct stem_ir_reader *r, struct stem_operand *o)
{
    uint32_t n = 0;
    while (stem_ir_at_id(r, 'v') && !r->l.failed) {
        if (n == STEM_MAX_OPERANDS) {
            stem_ir_fail(&r->l, STEM_E_IR_RANGE, "more than %d operands", STEM_MAX_OPERANDS);
            break;
        }
        struct stem_span at = r->l.span;
        uint32_t v = stem_ir_id(r, 'v', r->p->values.len);
        o[n++] = (struct stem_operand){{v}, STEM_MODE_OUT, at};
        if (!stem_ir_accept(r, ","))
            break;
    }
    if (n)
        stem_ir_expect(r, "=");
    return n;
}

static uint32_t read_inputs(struct stem_ir_reader *r, struct stem_operand *o)
{
    uint32_t n = 0;
    stem_ir_expect(r, "(");
    while (!stem_ir_is(r, ")") && !r->l.failed) {
        enum stem_mode mode = STEM_MODE_IN;
        if (n)
            stem_ir_expect(r, ",");
        for (int m = 0; stem_ir_mode[m]; m++)
            if (stem_ir_accept(r, stem_ir_mode[m])) {
                mode = (enum stem_mode)m;
                break;
            }
        if (n == STEM_MAX_OPERANDS) {
            stem_ir_fail(&r->l, STEM_E_IR_RANGE, "more than %d operands", STEM_MAX_OPERANDS);
            break;
        }
        o[n] = (struct stem_operand){STEM_NO_VALUE, mode, r->l.span};
        if (!stem_ir_accept(r, "_"))
            o[n].value.n = stem_ir_id(r, 'v', r->p->values.len);
        n++;
    }
    stem_ir_expect(r, ")");
    return n;
}

static void read_attr(struct stem_ir_reader *r, const struct stem_op_def *def, struct stem_attr *attrs)
{
    const char *names[STEM_MAX_ATTRS + 1] = {0};
    for (uint32_t i = 0; i < def->n_attrs; i++)
        names[i] = def->attrs[i].name;
    uint32_t i = stem_ir_word(r, names, "an attribute of the op");
    stem_ir_expect(r, "=");
    if (r->l.failed)
        return;
    if (attrs[i].kind == STEM_ATTR_INT)
        attrs[i].i = stem_ir_int(r, INT64_MIN, INT64_MAX);
    else if (attrs[i].kind == STEM_ATTR_FLOAT)
        attrs[i].f = stem_ir_float(r);
    else
        attrs[i].text = stem_sym_str(r->p->strings, stem_ir_sym(r));
}

static void read_attrs(struct stem_ir_reader *r, struct stem_op *op)
{
    struct stem_attr *attrs = STEM_NEW_ARRAY(r->p->arena, struct stem_attr, STEM_MAX_ATTRS);
    op->attrs = attrs;
    op->n_attrs = op->def->n_attrs;
    stem_op_attr_defaults(op->def, attrs);
    if (!stem_ir_accept(r, "{"))
        return;
    do
        read_attr(r, op->def, attrs);
    while (stem_ir_accept(r, ","));
    stem_ir_expect(r, "}");
}

static void read_three(struct stem_ir_reader *r, const char *word, uint32_t *n)
{
    stem_ir_expect(r, word);
    stem_ir_expect(r, "[");
    for (int i = 0; i < 3; i++) {
        if (i)
            stem_ir_expect(r, ",");
        n[i] = (uint32_t)stem_ir_int(r, 1, INT32_MAX);
    }
    stem_ir_expect(r, "]");
}

static void read_launch(struct stem_ir_reader *r, struct stem_op *op)
{
    enum { MAX = 64 };
    struct stem_scalar s[MAX];
    if (stem_ir_accept(r, "scalars"))
        do {
            if (op->n_scalars == MAX) {
                stem_ir_fail(&r->l, STEM_E_IR_RANGE, "more than %d scalars", MAX);
                return;
            }
            struct stem_scalar *x = &s[op->n_scalars++];
            *x = (struct stem_scalar){.kind =
                                          (enum stem_scalar_kind)stem_ir_word(r, stem_ir_scalar, "i32, i64 or f32")};
            if (x->kind == STEM_SCALAR_F32)
                x->f = stem_ir_float(r);
            else
                x->i = stem_ir_int(r, x->kind == STEM_SCALAR_I32 ? INT32_MIN : INT64_MIN,
                                   x->kind == STEM_SCALAR_I32 ? INT32_MAX : INT64_MAX);
        } while (stem_ir_accept(r, ","));
    op->scalars = stem_arena_dup(r->p->arena, s, op->n_scalars * sizeof *s);
    for (int i = 0; i < 3; i++)
        op->grid[i] = op->block[i] = 1;
    if (op->class != STEM_OP_KERNEL)
        return;
    read_three(r, "grid", op->grid);
    read_three(r, "block", op->block);
    if (stem_ir_accept(r, "smem"))
        op->smem = (uint32_t)stem_ir_int(r, 0, INT32_MAX);
}

static void read_callee(struct stem_ir_reader *r, struct stem_op *op)
{
    if (stem_ir_at_id(r, 'd')) {
        op->decl = stem_ir_id(r, 'd', r->p->decls.len);
        op->class = r->l.failed ? STEM_OP_BUILTIN : r->p->decls.at[op->decl].class;
        return;
    }
    op->def = r->l.token == STEM_IR_WORD ? stem_op_find(r->l.text) : NULL;
    if (!op->def || op->def->expand) {
        stem_ir_fail(&r->l, STEM_E_IR_UNKNOWN,
                     op->def ? "'%s' is made of other ops and cannot stand here" : "'%s' is no op", r->l.text);
        return;
    }
    stem_ir_next(&r->l);
}

static void read_after(struct stem_ir_reader *r, struct stem_op *op)
{
    STEM_VEC(struct stem_op_id) after = {0};
    do {
        struct stem_op_id id = {stem_ir_id(r, 'o', r->p->ops.len)};
        stem_vec_push(&after, id);
    } while (stem_ir_accept(r, ","));
    op->n_after = after.len;
    op->after = stem_arena_dup(r->p->arena, after.at, after.len * sizeof *after.at);
    stem_vec_free(&after);
}

static void read_context(struct stem_ir_reader *r, struct stem_op *op)
{
    stem_ir_expect(r, "name");
    op->name = stem_ir_sym(r);
    if (stem_ir_accept(r, "layer"))
        op->layer = stem_ir_id(r, 'l', r->p->layers.len);
    if (stem_ir_accept(r, "segment"))
        op->segment = stem_ir_id(r, 'g', r->p->segments.len);
    if (stem_ir_accept(r, "pin"))
        op->pin.n = stem_ir_id(r, 's', r->p->streams.len);
    if (stem_ir_accept(r, "priority"))
        op->priority = (int32_t)stem_ir_int(r, INT32_MIN, INT32_MAX);
    if (stem_ir_accept(r, "resource"))
        op->resource = stem_ir_sym(r);
    if (stem_ir_accept(r, "after"))
        read_after(r, op);
    if (stem_ir_accept(r, "on"))
        op->stream.n = stem_ir_id(r, 's', r->p->streams.len);
    if (stem_ir_accept(r, "us"))
        op->est_us = stem_ir_float(r);
    op->dead = stem_ir_accept(r, "dead");
}

/* A result of a dead op may be defined again by the op that replaces it, so a live op's claim wins. */
static void claim_results(struct stem_ir_reader *r, const struct stem_op *op, const struct stem_operand *results)
{
    struct stem_op_id id = {r->p->ops.len};
    for (uint32_t i = 0; i < op->n_out; i++) {
        struct stem_value *v = stem_value_at(r->p, results[i].value);
        bool twice = v->def.n == id.n;
        if (v->def.n == STEM_NONE || (!twice && stem_op_at(r->p, v->def)->dead))
            v->def = id;
        else if (twice || !op->dead)
            stem_ir_fail_at(&r->l, STEM_E_IR_NUMBERING, results[i].span, "v%u is the result of two ops",
                            results[i].value.n);
    }
}

void stem_ir_read_op(struct stem_ir_reader *r)
{
    struct stem_operand o[2 * STEM_MAX_OPERANDS], results[STEM_MAX_OPERANDS];
    struct stem_op op = {
        .decl = STEM_NONE, .layer = STEM_NONE, .pin = STEM_NO_STREAM, .stream = STEM_NO_STREAM, .span = r->l.span};
    stem_ir_new_id(r, 'o', r->p->ops.len);
    op.n_out = read_results(r, results);
    read_callee(r, &op);
    if (r->l.failed)
        return;
    op.n_in = read_inputs(r, o);
    if (op.n_in + op.n_out > STEM_MAX_OPERANDS)
        stem_ir_fail_at(&r->l, STEM_E_IR_RANGE, op.span, "more than %d operands", STEM_MAX_OPERANDS);
    if (op.class == STEM_OP_BUILTIN)
        read_attrs(r, &op);
    else
        read_launch(r, &op);
    read_context(r, &op);
    if (r->l.failed)
        return;
    memcpy(o + op.n_in, results, op.n_out * sizeof *results);
    op.operands = stem_arena_dup(r->p->arena, o, (op.n_in + op.n_out) * sizeof *o);
    claim_results(r, &op, results);
    stem_vec_push(&r->p->ops, op);
}

/* ---- the schedule ---- */

static struct stem_op_id an_op(struct stem_ir_reader *r)
{
    return (struct stem_op_id){stem_ir_id(r, 'o', r->p->ops.len)};
}

static void read_dep(struct stem_ir_reader *r)
{
    struct stem_dep d = {.kind = (enum stem_dep_kind)stem_ir_word(r, stem_ir_dep, "a kind of dependency"),
                         .value = STEM_NO_VALUE};
    d.from = an_op(r);
    stem_ir_expect(r, "->");
    d.to = an_op(r);
    if (stem_ir_at_id(r, 'v'))
        d.value.n = stem_ir_id(r, 'v', r->p->values.len);
    stem_vec_push(&r->p->sched.deps, d);
}

static void read_order(struct stem_ir_reader *r)
{
    do {
        struct stem_op_id id = an_op(r);
        stem_vec_push(&r->p->sched.order, id);
    } while (stem_ir_accept(r, ","));
}

static void read_wait(struct stem_ir_reader *r)
{
    struct stem_wait w = {.from = STEM_NO_OP, .to = STEM_NO_OP};
    if (!stem_ir_accept(r, "end"))
        w.to = an_op(r);
    stem_ir_expect(r, "for");
    if (!stem_ir_accept(r, "start"))
        w.from = an_op(r);
    stem_ir_expect(r, "segment");
    w.segment = stem_ir_id(r, 'g', r->p->segments.len);
    w.lane = stem_ir_accept(r, "lane");
    stem_vec_push(&r->p->sched.waits, w);
}

static void read_use(struct stem_ir_reader *r)
{
    struct stem_ir_use u = {STEM_NO_OP, STEM_NO_OP, r->p->sched.last_use.len, 0};
    stem_ir_new_id(r, 'b', r->uses.len);
    if (stem_ir_accept(r, "first"))
        u.first = an_op(r);
    if (stem_ir_accept(r, "last"))
        do {
            struct stem_op_id id = an_op(r);
            stem_vec_push(&r->p->sched.last_use, id);
        } while (stem_ir_accept(r, ","));
    u.end = r->p->sched.last_use.len;
    if (stem_ir_accept(r, "free"))
        u.free_after = an_op(r);
    stem_vec_push(&r->uses, u);
}

static uint64_t read_bound(struct stem_ir_reader *r, uint64_t *bound, int64_t high)
{
    uint64_t n = (uint64_t)stem_ir_int(r, 0, high);
    stem_ir_expect(r, "bound");
    *bound = (uint64_t)stem_ir_int(r, 0, high);
    return n;
}

void stem_ir_read_schedule(struct stem_ir_reader *r, const char *word)
{
    struct stem_schedule *s = &r->p->sched;
    uint64_t bound = 0;
    if (!strcmp(word, "dep")) {
        read_dep(r);
    } else if (!strcmp(word, "order")) {
        read_order(r);
    } else if (!strcmp(word, "programmatic")) {
        do
            stem_op_at(r->p, an_op(r))->programmatic = true;
        while (!r->l.failed && stem_ir_accept(r, ","));
    } else if (!strcmp(word, "shares")) {
        do
            stem_op_at(r->p, an_op(r))->shares = true;
        while (!r->l.failed && stem_ir_accept(r, ","));
    } else if (!strcmp(word, "wait")) {
        read_wait(r);
    } else if (!strcmp(word, "use")) {
        read_use(r);
    } else if (!strcmp(word, "events")) {
        s->n_events = (uint32_t)read_bound(r, &bound, UINT32_MAX);
        s->events_bound = (uint32_t)bound;
    } else if (!strcmp(word, "slab")) {
        s->slab_bytes = read_bound(r, &bound, INT64_MAX);
        s->slab_bound = bound;
    } else if (!strcmp(word, "lanes")) {
        s->lanes = (uint32_t)stem_ir_int(r, 0, UINT32_MAX);
    } else {
        s->critical_path_us = stem_ir_float(r);
        s->total_us = stem_ir_float(r);
        s->floor_us = stem_ir_float(r);
    }
}

/* Lifetimes stand for all buffers or for none. */
void stem_ir_finish_schedule(struct stem_ir_reader *r)
{
    struct stem_schedule *s = &r->p->sched;
    if (r->uses.len && r->uses.len != r->p->buffers.len) {
        stem_ir_fail(&r->l, STEM_E_IR_FAULT, "%u 'use' statements for %u buffers", r->uses.len, r->p->buffers.len);
        return;
    }
    for (uint32_t i = 0; i < r->uses.len; i++) {
        stem_vec_push(&s->first_use, r->uses.at[i].first);
        stem_vec_push(&s->free_after, r->uses.at[i].free_after);
        stem_vec_push(&s->last_use_begin, r->uses.at[i].begin);
    }
    if (r->uses.len)
        stem_vec_push(&s->last_use_begin, s->last_use.len);
}
