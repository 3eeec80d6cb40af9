/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse: pointwise ops with one reader go into that reader, if it is pointwise, too. One launch and one trip through
 * memory less; where the value was stored, the fused expression rounds to its element type, so that no bit changes.
 *
 * Runs after streams, so that pins keep their meaning: only ops of one stream and one segment are fused, so nothing
 * moves to another stream. Where the compiler chooses the streams, what cannot depend on them is fused before (early). A consumer that joins another stream may take in a producer of its own stream; the wait
 * then precedes both. Never fused are ops with a resource or an `after`, or that another op comes `after`; a producer
 * that the consumer would broadcast (its work would be repeated); and one that reads what is overwritten later, since
 * it would read it too late. The producer is marked dead; ids stay.
 *
 * Text order is a topological one, so chains collapse in one walk. What an op has become is kept beside it, and is
 * written into the program in the end: only the last op of a chain ever becomes text. A fused expression has at most
 * STEM_EXPR_MAX_NODES nodes and so many operands as an op may have, so a long chain is cut, and the time is linear.
 */
#include "pass/fuse.h"

#include <stdlib.h>
#include <string.h>

#include "ir/build.h"
#include "ops/pointwise/expr.h"

/* What an op has become: its inputs, and the nodes of its expression. */
struct fused {
    uint32_t n_in, n, n_inputs;
    struct stem_operand in[STEM_MAX_OPERANDS];
    struct stem_expr_node node[];
};

struct state {
    struct stem_fuse f;
    struct fused **fused; /* by op; NULL: as it is in the program */
};

static void init(struct stem_fuse *s)
{
    struct stem_arena *a = s->ctx->scratch;
    const struct stem_program *p = s->p;
    s->reads = STEM_NEW_ARRAY(a, uint32_t, p->buffers.len);
    s->version = STEM_NEW_ARRAY(a, uint32_t, p->buffers.len);
    s->consumed = STEM_NEW_ARRAY(a, bool, p->buffers.len);
    s->waited_for = STEM_NEW_ARRAY(a, bool, p->ops.len);
    s->put_off = STEM_NEW_ARRAY(a, bool, p->ops.len);
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

/* ---- shared with the other parts ---- */

bool stem_fuse_same_shape(const struct stem_tensor *a, const struct stem_tensor *b)
{
    bool same = a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

bool stem_fuse_stay(const struct stem_fuse *s, const struct stem_operand *in, uint32_t n)
{
    bool stay = true;
    for (uint32_t i = 0; i < n; i++) {
        if (in[i].value.n == STEM_NONE)
            continue;
        const struct stem_value *v = stem_value_at(s->p, in[i].value);
        stay &= s->version[v->tensor.buffer] == v->version && !s->consumed[v->tensor.buffer];
    }
    return stay;
}

struct stem_op_id stem_fuse_only_for(const struct stem_fuse *s, const struct stem_op *reader, struct stem_value_id id)
{
    const struct stem_program *p = s->p;
    if (id.n == STEM_NONE)
        return STEM_NO_OP;
    const struct stem_value *v = stem_value_at(p, id);
    if (v->def.n == STEM_NONE || p->buffers.at[v->tensor.buffer].kind != STEM_BUFFER_TEMP)
        return STEM_NO_OP;
    const struct stem_op *op = stem_op_at(p, v->def);
    bool can = !op->resource.n && !op->n_after && op->n_out == 1 && s->reads[v->tensor.buffer] == 1 &&
               s->version[v->tensor.buffer] == 0 && op->stream.n == reader->stream.n &&
               op->segment == reader->segment && !s->waited_for[v->def.n];
    return can ? v->def : STEM_NO_OP;
}

uint32_t stem_fuse_operand(struct stem_operand *o, uint32_t from, uint32_t *n, struct stem_operand x)
{
    for (uint32_t i = from; i < *n; i++)
        if (o[i].value.n == x.value.n)
            return i;
    o[*n] = x;
    return (*n)++;
}

static void count(struct stem_fuse *s, const struct stem_operand *in, uint32_t n, uint32_t by)
{
    for (uint32_t i = 0; i < n; i++)
        if (in[i].value.n != STEM_NONE)
            s->reads[stem_value_at(s->p, in[i].value)->tensor.buffer] += by;
}

void stem_fuse_kill(struct stem_fuse *s, uint32_t op)
{
    struct stem_op *o = &s->p->ops.at[op];
    count(s, o->operands, o->n_in, -1u);
    o->dead = true;
    o->est_us = 0;
}

const char *stem_fuse_text(const struct stem_fuse *s, const char *text)
{
    return stem_sym_str(s->p->strings, stem_intern(s->p->strings, text));
}

void stem_fuse_replace(struct stem_fuse *s, uint32_t op, const struct stem_op_def *def, const struct stem_attr *attrs,
                       const struct stem_operand *operands, uint32_t n_in, uint32_t n_out)
{
    struct stem_op *o = &s->p->ops.at[op];
    count(s, o->operands, o->n_in, -1u);
    count(s, operands, n_in, 1);
    o->def = def;
    o->attrs = stem_arena_dup(s->p->arena, attrs, def->n_attrs * sizeof *attrs);
    o->n_attrs = def->n_attrs;
    o->operands = stem_arena_dup(s->p->arena, operands, (n_in + n_out) * sizeof *operands);
    o->n_in = n_in;
    o->n_out = n_out;
    for (uint32_t i = n_in; i < n_in + n_out; i++)
        stem_value_at(s->p, operands[i].value)->def.n = op;
    stem_op_set_cost(s->p, o);
    stem_cost_op(s->p, o, s->ctx->options);
}

/* The layer `inner` was called within `outer`. */
static bool within(const struct stem_program *p, uint32_t inner, uint32_t outer)
{
    if (inner == STEM_NONE || inner == outer || outer == STEM_NONE)
        return inner != outer && inner != STEM_NONE;
    const char *in = stem_sym_str(p->strings, p->layers.at[inner]), *out = stem_sym_str(p->strings, p->layers.at[outer]);
    size_t len = strlen(out);
    return inner > outer && !strncmp(in, out, len) && in[len] == '.';
}

void stem_fuse_name(struct stem_program *p, uint32_t op, uint32_t from)
{
    struct stem_op *o = &p->ops.at[op];
    const struct stem_op *f = &p->ops.at[from];
    if (!within(p, f->layer, o->layer))
        return;
    o->name = f->name;
    o->layer = f->layer;
}

/* ---- pointwise ops into one another ---- */

static bool pointwise(const struct stem_op *op)
{
    return stem_fuse_is(op, "pointwise");
}

static const struct stem_operand *inputs(const struct state *s, uint32_t op, uint32_t *n)
{
    const struct fused *f = s->fused[op];
    *n = f ? f->n_in : s->f.p->ops.at[op].n_in;
    return f ? f->in : s->f.p->ops.at[op].operands;
}

/* Absent operands have no place in an expression. */
static bool complete(const struct stem_op *op)
{
    bool all = true;
    for (uint32_t i = 0; i < op->n_in; i++)
        all &= op->operands[i].value.n != STEM_NONE && op->operands[i].mode != STEM_MODE_CONSUME;
    return all;
}

/* The op whose result that input of the consumer is, if it can be fused into it; else NO_OP. */
static struct stem_op_id producer_of(const struct state *s, const struct stem_op *consumer, struct stem_value_id id)
{
    const struct stem_program *p = s->f.p;
    struct stem_op_id from = stem_fuse_only_for(&s->f, consumer, id);
    if (from.n == STEM_NONE || !pointwise(stem_op_at(p, from)))
        return STEM_NO_OP;
    uint32_t n;
    const struct stem_operand *in = inputs(s, from.n, &n);
    bool can = stem_fuse_same_shape(&stem_value_at(p, id)->tensor,
                                    &stem_value_at(p, consumer->operands[consumer->n_in].value)->tensor) &&
               complete(stem_op_at(p, from)) && stem_fuse_stay(&s->f, in, n);
    return can ? from : STEM_NO_OP;
}

static bool expression(const struct state *s, uint32_t op, struct stem_expr *e)
{
    const struct fused *f = s->fused[op];
    const char *why;
    if (!f)
        return stem_expr_parse(e, stem_op_attr(s->f.p->ops.at[op].def, s->f.p->ops.at[op].attrs, "expr")->text, &why);
    e->n = f->n;
    e->n_inputs = f->n_inputs;
    memcpy(e->node, f->node, f->n * sizeof *f->node);
    return true;
}

/* The consumer becomes this expression of these inputs, and the producer is dead. */
static void become(struct state *s, uint32_t consumer, uint32_t producer, const struct stem_operand *in,
                   uint32_t n_in, const struct stem_expr *e)
{
    const uint32_t both[] = {consumer, producer};
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t n;
        const struct stem_operand *old = inputs(s, both[k], &n);
        for (uint32_t i = 0; i < n; i++)
            s->f.reads[stem_value_at(s->f.p, old[i].value)->tensor.buffer]--;
        free(s->fused[both[k]]);
        s->fused[both[k]] = NULL;
    }
    struct fused *f = stem_xmalloc(sizeof *f + e->n * sizeof *e->node);
    f->n_in = n_in;
    f->n = e->n;
    f->n_inputs = e->n_inputs;
    memcpy(f->in, in, n_in * sizeof *in);
    memcpy(f->node, e->node, e->n * sizeof *e->node);
    for (uint32_t i = 0; i < n_in; i++)
        s->f.reads[stem_value_at(s->f.p, in[i].value)->tensor.buffer]++;
    s->fused[consumer] = f;
    s->f.p->ops.at[producer].dead = true;
    s->f.p->ops.at[producer].est_us = 0;
}

static bool fuse(struct state *s, uint32_t consumer, uint32_t which, uint32_t producer)
{
    struct stem_program *p = s->f.p;
    struct stem_operand o[2 * STEM_MAX_OPERANDS];
    uint32_t n = 0, n_consumer, n_producer;
    uint32_t consumer_map[STEM_MAX_OPERANDS] = {0}, producer_map[STEM_MAX_OPERANDS] = {0};
    const struct stem_operand *consumer_in = inputs(s, consumer, &n_consumer);
    const struct stem_operand *producer_in = inputs(s, producer, &n_producer);
    for (uint32_t i = 0; i < n_consumer; i++)
        if (i != which)
            consumer_map[i] = stem_fuse_operand(o, 0, &n, consumer_in[i]);
    for (uint32_t i = 0; i < n_producer; i++)
        producer_map[i] = stem_fuse_operand(o, 0, &n, producer_in[i]);
    if (n > STEM_EXPR_MAX_INPUTS || n + 1 > STEM_MAX_OPERANDS)
        return false;
    struct stem_expr c, from, both;
    if (!expression(s, consumer, &c) || !expression(s, producer, &from) ||
        !stem_expr_fuse(&both, &c, consumer_map, which, &from, producer_map,
                        stem_value_at(p, consumer_in[which].value)->tensor.dtype))
        return false;
    stem_remark(s->f.ctx->diags, "fuse", p->ops.at[consumer].span, "'%s' is computed within '%s'",
                stem_op_label(p, (struct stem_op_id){producer}), stem_op_label(p, (struct stem_op_id){consumer}));
    stem_fuse_name(p, consumer, producer);
    become(s, consumer, producer, o, n, &both);
    return true;
}

/* Writes what an op has become into the program. */
static void write_back(struct state *s, struct stem_op *op, const struct fused *f)
{
    struct stem_program *p = s->f.p;
    struct stem_operand o[STEM_MAX_OPERANDS + 1];
    struct stem_expr e = {.n = f->n, .n_inputs = f->n_inputs};
    memcpy(e.node, f->node, f->n * sizeof *f->node);
    memcpy(o, f->in, f->n_in * sizeof *f->in);
    o[f->n_in] = op->operands[op->n_in];
    struct stem_attr *attrs = stem_arena_dup(p->arena, op->attrs, op->n_attrs * sizeof *attrs);
    for (uint32_t i = 0; i < op->n_attrs; i++)
        if (!strcmp(attrs[i].name, "expr"))
            attrs[i].text = stem_sym_str(p->strings, stem_intern(p->strings, stem_expr_text(s->f.ctx->scratch, &e)));
    op->operands = stem_arena_dup(p->arena, o, (f->n_in + 1) * sizeof *o);
    op->n_in = f->n_in;
    op->attrs = attrs;
    stem_op_set_cost(p, op);
    stem_cost_op(p, op, s->f.ctx->options);
}

static void one_op(struct state *s, uint32_t op)
{
    uint32_t n;
    const struct stem_operand *in = inputs(s, op, &n);
    for (uint32_t k = 0; k < n;) {
        struct stem_op_id from = producer_of(s, &s->f.p->ops.at[op], in[k].value);
        if (from.n != STEM_NONE && fuse(s, op, k, from.n)) {
            in = inputs(s, op, &n);
            k = 0;
        } else {
            k++;
        }
    }
}

static void fuse_all(struct stem_program *p, struct stem_pass_ctx *ctx, bool early)
{
    struct state s = {.f = {.p = p, .ctx = ctx, .early = early}};
    if (ctx->options->no_fuse)
        return;
    init(&s.f);
    s.fused = STEM_NEW_ARRAY(ctx->scratch, struct fused *, p->ops.len);
    for (uint32_t i = 0; i < p->ops.len; i++)
        if (pointwise(&p->ops.at[i]) && complete(&p->ops.at[i]))
            one_op(&s, i);
    for (uint32_t i = 0; i < p->ops.len; i++)
        if (s.fused[i]) {
            write_back(&s, &p->ops.at[i], s.fused[i]);
            free(s.fused[i]);
        }
    stem_fuse_epilogues(&s.f);
    stem_fuse_norms(&s.f);
    stem_fuse_heads(&s.f);
    stem_fuse_stores(&s.f);
    stem_fuse_queries(&s.f);
    stem_fuse_quantised(&s.f); /* the last one: it adds buffers */
}

void stem_fuse_early(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    fuse_all(p, ctx, true);
}

static bool run(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    fuse_all(p, ctx, false);
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
