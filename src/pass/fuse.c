/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse: pointwise ops with one reader go into that reader, if it is pointwise, too. One launch and one trip through
 * memory less; where the value was stored, the fused expression rounds to its element type, so that no bit changes.
 *
 * Runs after streams, so that pins keep their meaning: only ops of one stream and one segment are fused, so nothing
 * moves to another stream. A consumer that joins another stream may take in a producer of its own stream; the wait
 * then precedes both. Never fused are ops with a resource or an `after`, or that another op comes `after`; a producer
 * that the consumer would broadcast (its work would be repeated); and one that reads what is overwritten later, since
 * it would read it too late. The producer is marked dead; ids stay.
 *
 * Text order is a topological one, so chains collapse in one walk: linear time.
 */
#include "pass/graph.h"

#include <string.h>

#include "ir/build.h"
#include "ops/pointwise/expr.h"

struct state {
    struct stem_program *p;
    struct stem_pass_ctx *ctx;
    uint32_t *reads;   /* by buffer: input operands of live ops */
    uint32_t *version; /* by buffer: newest version */
    bool *consumed;    /* by buffer */
    bool *waited_for;  /* by op: named by an `after` */
};

static void init(struct state *s)
{
    struct stem_arena *a = s->ctx->scratch;
    const struct stem_program *p = s->p;
    s->reads = STEM_NEW_ARRAY(a, uint32_t, p->buffers.len);
    s->version = STEM_NEW_ARRAY(a, uint32_t, p->buffers.len);
    s->consumed = STEM_NEW_ARRAY(a, bool, p->buffers.len);
    s->waited_for = STEM_NEW_ARRAY(a, bool, p->ops.len);
    for (uint32_t i = 0; i < p->values.len; i++) {
        const struct stem_value *v = &p->values.at[i];
        s->version[v->tensor.buffer] =
            v->version > s->version[v->tensor.buffer] ? v->version : s->version[v->tensor.buffer];
    }
    for (uint32_t i = 0; i < p->ops.len; i++) {
        const struct stem_op *op = &p->ops.at[i];
        for (uint32_t k = 0; !op->dead && k < op->n_in; k++) {
            if (op->operands[k].value.n == STEM_NONE)
                continue;
            uint32_t buffer = stem_value_at(p, op->operands[k].value)->tensor.buffer;
            s->reads[buffer]++;
            s->consumed[buffer] |= op->operands[k].mode == STEM_MODE_CONSUME;
        }
        for (uint32_t k = 0; !op->dead && k < op->n_after; k++)
            s->waited_for[op->after[k].n] = true;
    }
}

static bool pointwise(const struct stem_op *op)
{
    return !op->dead && op->class == STEM_OP_BUILTIN && !strcmp(op->def->name, "pointwise") && !op->resource.n &&
           !op->n_after && op->n_out == 1;
}

static bool same_shape(const struct stem_tensor *a, const struct stem_tensor *b)
{
    bool same = a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

/* Nothing that the producer reads is overwritten by anybody. */
static bool inputs_stay(const struct state *s, const struct stem_op *op)
{
    bool stay = true;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const struct stem_value *v = stem_value_at(s->p, op->operands[i].value);
        stay &= s->version[v->tensor.buffer] == v->version && !s->consumed[v->tensor.buffer];
    }
    return stay;
}

/* The op whose result input k of the consumer is, if it can be fused into it; else NO_OP. */
static struct stem_op_id producer_of(const struct state *s, const struct stem_op *consumer, uint32_t k)
{
    const struct stem_program *p = s->p;
    struct stem_value_id id = consumer->operands[k].value;
    if (id.n == STEM_NONE)
        return STEM_NO_OP;
    const struct stem_value *v = stem_value_at(p, id),
                            *out = stem_value_at(p, consumer->operands[consumer->n_in].value);
    if (v->def.n == STEM_NONE || p->buffers.at[v->tensor.buffer].kind != STEM_BUFFER_TEMP)
        return STEM_NO_OP;
    const struct stem_op *op = stem_op_at(p, v->def);
    bool can = pointwise(op) && s->reads[v->tensor.buffer] == 1 && s->version[v->tensor.buffer] == 0 &&
               op->stream.n == consumer->stream.n && op->segment == consumer->segment && !s->waited_for[v->def.n] &&
               same_shape(&v->tensor, &out->tensor) && inputs_stay(s, op);
    return can ? v->def : STEM_NO_OP;
}

/* Adds an operand unless the value is there already; its place. */
static uint32_t add_operand(struct stem_operand *o, uint32_t *n, struct stem_operand x)
{
    for (uint32_t i = 0; i < *n; i++)
        if (o[i].value.n == x.value.n)
            return i;
    o[*n] = x;
    return (*n)++;
}

static const char *expression(const struct stem_op *op)
{
    return stem_op_attr(op->def, op->attrs, "expr")->text;
}

static bool fuse(struct state *s, struct stem_op_id consumer_id, uint32_t which, struct stem_op_id producer_id)
{
    struct stem_program *p = s->p;
    struct stem_op *consumer = stem_op_at(p, consumer_id), *producer = stem_op_at(p, producer_id);
    struct stem_operand o[2 * STEM_MAX_OPERANDS];
    uint32_t n = 0, consumer_map[STEM_MAX_OPERANDS] = {0}, producer_map[STEM_MAX_OPERANDS] = {0};
    for (uint32_t i = 0; i < consumer->n_in; i++)
        if (i != which)
            consumer_map[i] = add_operand(o, &n, consumer->operands[i]);
    for (uint32_t i = 0; i < producer->n_in; i++)
        producer_map[i] = add_operand(o, &n, producer->operands[i]);
    if (n > STEM_EXPR_MAX_INPUTS || n + 1 > STEM_MAX_OPERANDS)
        return false;
    const char *text =
        stem_expr_compose(s->ctx->scratch, expression(consumer), consumer_map, which, expression(producer),
                          producer_map, stem_value_at(p, consumer->operands[which].value)->tensor.dtype);
    if (!text)
        return false;
    uint32_t buffer = stem_value_at(p, consumer->operands[which].value)->tensor.buffer;
    stem_remark(s->ctx->diags, "fuse", consumer->span, "'%s' is computed within '%s'", stem_op_label(p, producer_id),
                stem_op_label(p, consumer_id));
    o[n] = consumer->operands[consumer->n_in];
    struct stem_attr *attrs = stem_arena_dup(p->arena, consumer->attrs, consumer->n_attrs * sizeof *attrs);
    for (uint32_t i = 0; i < consumer->n_attrs; i++)
        if (!strcmp(attrs[i].name, "expr"))
            attrs[i].text = stem_sym_str(p->strings, stem_intern(p->strings, text));
    for (uint32_t i = 0; i < consumer->n_in; i++)
        s->reads[stem_value_at(p, consumer->operands[i].value)->tensor.buffer]--;
    for (uint32_t i = 0; i < producer->n_in; i++)
        s->reads[stem_value_at(p, producer->operands[i].value)->tensor.buffer]--;
    consumer->operands = stem_arena_dup(p->arena, o, (n + 1) * sizeof *o);
    consumer->n_in = n;
    consumer->attrs = attrs;
    for (uint32_t i = 0; i < n; i++)
        s->reads[stem_value_at(p, o[i].value)->tensor.buffer]++;
    s->reads[buffer] = 0;
    producer->dead = true;
    producer->est_us = 0;
    stem_op_set_cost(p, consumer);
    consumer->est_us = stem_estimate_us(&consumer->cost, &s->ctx->options->target);
    return true;
}

/* Absent operands have no place in an expression. */
static bool complete(const struct stem_op *op)
{
    bool all = true;
    for (uint32_t i = 0; i < op->n_in; i++)
        all &= op->operands[i].value.n != STEM_NONE && op->operands[i].mode != STEM_MODE_CONSUME;
    return all;
}

static bool run(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    struct state s = {.p = p, .ctx = ctx};
    if (ctx->options->no_fuse)
        return true;
    init(&s);
    for (uint32_t i = 0; i < p->ops.len; i++) {
        if (!pointwise(&p->ops.at[i]) || !complete(&p->ops.at[i]))
            continue;
        for (uint32_t k = 0; k < p->ops.at[i].n_in;) {
            struct stem_op_id from = producer_of(&s, &p->ops.at[i], k);
            if (from.n != STEM_NONE && complete(stem_op_at(p, from)) && fuse(&s, (struct stem_op_id){i}, k, from))
                k = 0; /* the operands are new */
            else
                k++;
        }
    }
    return true;
}

const struct stem_pass stem_pass_fuse = {
    .name = "fuse",
    .blurb = "pointwise ops with one reader into that reader, on one stream",
    .needs = STEM_FACT_STREAMS,
    .gives = STEM_FACT_STREAMS,
    .kills =
        STEM_FACT_DEPS | STEM_FACT_ORDER | STEM_FACT_WAITS | STEM_FACT_LIFETIME | STEM_FACT_MEMORY | STEM_FACT_LANES,
    .run = run,
};
