/* SPDX-License-Identifier: Apache-2.0
 *
 * The second part of fuse: a pointwise op, or silu_mul, goes into the op that makes what it reads, if that op can put
 * its result through an expression before it stores it (ops/epilogue.h). One launch and one trip through memory less:
 * the residual is added by the projection, the sum of routed and shared experts by the last kernel of the routed ones,
 * which then is where the streams join.
 *
 * It is the reader that becomes the whole, so that everything it needs stands before it in the text. The price: the
 * producer then starts only when all operands of the reader are there. Where one comes from another stream and is
 * estimated to be late by more than half of what the reader costs, nothing is fused. Of several producers that could take the
 * reader in, the one that ends last does.
 */
#include "pass/fuse.h"

#include <string.h>

#include "ops/epilogue.h"

/* Estimates: when an op can start and ends, if only data held it up. */
struct times {
    double *end; /* by op */
};

static double ready(const struct stem_fuse *s, const struct times *t, const struct stem_op *op)
{
    double at = 0;
    for (uint32_t k = 0; k < op->n_in; k++) {
        struct stem_value_id v = op->operands[k].value;
        if (v.n == STEM_NONE)
            continue;
        struct stem_op_id def = stem_value_def(s->p, v);
        at = def.n != STEM_NONE && t->end[def.n] > at ? t->end[def.n] : at;
    }
    return at;
}

/* How much later than now the producer would start for the sake of what the reader gets from other streams. */
static double delay(const struct stem_fuse *s, const struct times *t, const struct stem_op *reader,
                    const struct stem_op *producer)
{
    double start = ready(s, t, producer), late = 0;
    for (uint32_t k = 0; k < reader->n_in; k++) {
        struct stem_op_id def = stem_value_def(s->p, reader->operands[k].value);
        if (def.n == STEM_NONE || stem_op_at(s->p, def)->stream.n == reader->stream.n)
            continue;
        late = t->end[def.n] - start > late ? t->end[def.n] - start : late;
    }
    return late;
}

/* What the reader does to operand `which`, as an expression of its operands. */
static bool reader_expr(const struct stem_op *reader, struct stem_expr *e, bool *halves)
{
    const char *why;
    *halves = !strcmp(reader->def->name, "silu_mul");
    return stem_expr_parse(e, *halves ? "i0 silu i1 mul" : stem_op_attr(reader->def, reader->attrs, "expr")->text, &why);
}

/* The producer's own expression, the identity if it has none; `from` is the type of what it stores. */
static void producer_expr(const struct stem_fuse *s, const struct stem_op *producer, struct stem_epilogue *e)
{
    if (stem_epilogue_get(producer->def, producer->attrs, e))
        return;
    const char *why;
    *e = (struct stem_epilogue){.first = 1};
    stem_expr_parse(&e->expr, "i0", &why);
    e->of = e->type = stem_value_at(s->p, producer->operands[producer->n_in].value)->tensor.dtype;
}

/* A new op in the making: the producer's operands and the reader's others, and what becomes of the result. */
struct whole {
    struct stem_operand operand[2 * STEM_MAX_OPERANDS];
    uint32_t n_in, first; /* first: input of the expression that operand n_params is */
    struct stem_expr expr;
    enum stem_dtype of, type;
    bool halves;
};

/* The producer's operands, absent ones in place. */
static void take_producer(const struct stem_op *producer, struct whole *w)
{
    uint32_t n = producer->def->n_params, own = producer->n_in < n ? producer->n_in : n;
    memcpy(w->operand, producer->operands, own * sizeof *w->operand);
    for (uint32_t i = own; i < n; i++)
        w->operand[i] = (struct stem_operand){.value = STEM_NO_VALUE, .mode = STEM_MODE_IN};
    for (uint32_t i = n; i < producer->n_in; i++)
        w->operand[i] = producer->operands[i];
    w->n_in = producer->n_in < n ? n : producer->n_in;
}

static bool build(const struct stem_fuse *s, const struct stem_op *reader, uint32_t which,
                  const struct stem_op *producer, struct whole *w)
{
    struct stem_epilogue of;
    struct stem_expr e;
    uint32_t base = producer->def->n_params, map[STEM_MAX_OPERANDS] = {0}, same[STEM_MAX_OPERANDS];
    producer_expr(s, producer, &of);
    take_producer(producer, w);
    if (!reader_expr(reader, &e, &w->halves))
        return false;
    if (w->halves) { /* of the result of the op alone: both halves are i0 and i1 already */
        if (of.pair || of.expr.n > 1)
            return false;
        w->first = 2;
        w->expr = e;
    } else {
        w->halves = of.pair;
        w->first = of.first;
        for (uint32_t i = 0; i < STEM_MAX_OPERANDS; i++)
            same[i] = i;
        for (uint32_t i = 0; i < reader->n_in; i++)
            if (i != which)
                map[i] = w->first - base + stem_fuse_operand(w->operand, base, &w->n_in, reader->operands[i]);
        if (w->n_in - base + w->first > STEM_EXPR_MAX_INPUTS || w->n_in + 1 > STEM_MAX_OPERANDS)
            return false;
        if (!stem_expr_fuse(&w->expr, &e, map, which, &of.expr, same, of.type == of.of && of.expr.n == 1 ? STEM_F32 : of.type))
            return false;
    }
    w->of = of.of;
    w->type = stem_value_at(s->p, reader->operands[reader->n_in].value)->tensor.dtype;
    w->operand[w->n_in] = reader->operands[reader->n_in];
    return stem_expr_text(s->ctx->scratch, &w->expr) != NULL;
}

/* Everything but the expression: shapes, and that nothing the producer reads is overwritten. */
static bool fits(const struct stem_fuse *s, const struct stem_op *reader, uint32_t which,
                 const struct stem_op *producer)
{
    const struct stem_program *p = s->p;
    const struct stem_tensor *own = &stem_value_at(p, producer->operands[producer->n_in].value)->tensor,
                             *got = &stem_value_at(p, reader->operands[which].value)->tensor,
                             *y = &stem_value_at(p, reader->operands[reader->n_in].value)->tensor;
    if (!producer->def->epilogue || stem_value_is_view(p, reader->operands[which].value) ||
        !stem_fuse_same_shape(own, got) || !stem_fuse_stay(s, producer->operands, producer->n_in))
        return false;
    if (!strcmp(reader->def->name, "silu_mul"))
        return producer->def->halves;
    if (!stem_fuse_same_shape(own, y))
        return false;
    for (uint32_t i = 0; i < reader->n_in; i++)
        if (reader->operands[i].value.n == STEM_NONE || reader->operands[i].mode == STEM_MODE_CONSUME ||
            (i != which && stem_epilogue_meets(&stem_value_at(p, reader->operands[i].value)->tensor, y) == STEM_MEETS_NOT))
            return false;
    return true;
}

static void become(struct stem_fuse *s, uint32_t reader, uint32_t producer, const struct whole *w)
{
    const struct stem_op *from = &s->p->ops.at[producer];
    const struct stem_op_def *def = from->def;
    struct stem_attr attrs[STEM_MAX_ATTRS];
    memcpy(attrs, from->attrs, def->n_attrs * sizeof *attrs);
    for (uint32_t i = 0; i < def->n_attrs; i++) {
        if (!strcmp(attrs[i].name, "then"))
            attrs[i].text = stem_fuse_text(s, stem_expr_text(s->ctx->scratch, &w->expr));
        else if (!strcmp(attrs[i].name, "then_of"))
            attrs[i].text = stem_fuse_text(s, stem_dtype_name(w->of));
        else if (!strcmp(attrs[i].name, "then_type"))
            attrs[i].text = stem_fuse_text(s, stem_dtype_name(w->type));
        else if (!strcmp(attrs[i].name, "halves"))
            attrs[i].text = w->halves ? stem_fuse_text(s, "1") : NULL;
    }
    stem_fuse_kill(s, producer);
    stem_fuse_replace(s, reader, def, attrs, w->operand, w->n_in, 1);
}

/* The producer that ends last of those that could take the reader in; its place among the operands. */
static struct stem_op_id choose(struct stem_fuse *s, const struct times *t, const struct stem_op *reader,
                                uint32_t *which)
{
    struct stem_op_id best = STEM_NO_OP;
    for (uint32_t k = 0; k < reader->n_in; k++) {
        struct stem_op_id from = stem_fuse_only_for(s, reader, reader->operands[k].value);
        if (from.n == STEM_NONE || stem_op_at(s->p, from)->class != STEM_OP_BUILTIN ||
            !fits(s, reader, k, stem_op_at(s->p, from)) || (best.n != STEM_NONE && t->end[from.n] <= t->end[best.n]))
            continue;
        best = from;
        *which = k;
    }
    return best;
}

enum { FAR = 64 }; /* ops that are looked at */

/* `op` needs what `before` makes; false too if that is too far to see. Operands stand before their readers. */
static bool needs(const struct stem_program *p, uint32_t op, uint32_t before)
{
    uint32_t seen[FAR] = {op}, n = 1;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < p->ops.at[seen[i]].n_in; k++) {
            struct stem_value_id v = p->ops.at[seen[i]].operands[k].value;
            struct stem_op_id def = v.n == STEM_NONE ? STEM_NO_OP : stem_value_def(p, v);
            if (def.n == before)
                return true;
            bool known = def.n == STEM_NONE || def.n < before;
            for (uint32_t j = 0; j < n && !known; j++)
                known = seen[j] == def.n;
            if (!known && n == FAR)
                return false;
            if (!known)
                seen[n++] = def.n;
        }
    return false;
}

/* What else the reader reads is there before the producer can start, whatever the streams. */
static bool delays_nothing(const struct stem_program *p, const struct stem_op *reader, uint32_t which, uint32_t producer)
{
    bool none = true;
    for (uint32_t k = 0; k < reader->n_in && none; k++) {
        struct stem_op_id def = k == which ? STEM_NO_OP : stem_value_def(p, reader->operands[k].value);
        none = def.n == STEM_NONE || def.n == producer || needs(p, producer, def.n);
    }
    return none;
}

static void one_op(struct stem_fuse *s, struct times *t, uint32_t i)
{
    struct stem_program *p = s->p;
    struct stem_op *reader = &p->ops.at[i];
    uint32_t which = 0;
    struct stem_op_id from = choose(s, t, reader, &which);
    if (from.n == STEM_NONE)
        return;
    s->put_off[i] = s->early && !delays_nothing(p, reader, which, from.n);
    if (s->put_off[i])
        return;
    double late = delay(s, t, reader, stem_op_at(p, from));
    if (2 * late > reader->est_us) { /* the estimates are no better than that */
        stem_remark(s->ctx->diags, "fuse", reader->span,
                    "'%s' is not computed by '%s', which would start %.1f us later to save %.1f us",
                    stem_op_label(p, (struct stem_op_id){i}), stem_op_label(p, from), late, reader->est_us);
        return;
    }
    struct whole w;
    if (!build(s, reader, which, stem_op_at(p, from), &w))
        return;
    stem_remark(s->ctx->diags, "fuse", reader->span, "'%s' is computed by '%s' before it stores its result%s",
                stem_op_label(p, (struct stem_op_id){i}), stem_op_label(p, from),
                late > 0 ? ", which waits for another stream" : "");
    stem_fuse_name(p, i, from.n);
    become(s, i, from.n, &w);
}

void stem_fuse_epilogues(struct stem_fuse *s)
{
    struct stem_program *p = s->p;
    struct times t = {STEM_NEW_ARRAY(s->ctx->scratch, double, p->ops.len)};
    for (uint32_t i = 0; i < p->ops.len; i++) {
        const struct stem_op *op = &p->ops.at[i];
        if (op->dead)
            continue;
        if (stem_fuse_is(op, "pointwise") || stem_fuse_is(op, "silu_mul"))
            one_op(s, &t, i);
        t.end[i] = ready(s, &t, op) + op->est_us;
    }
}
