/* SPDX-License-Identifier: Apache-2.0
 *
 * The fifth part of fuse: products in f8e4m3 quantise x in each of their blocks. Where a rmsnorm makes it, that launch has
 * each row in the registers of a block already, so it writes codes and scales (rmsnorm_quantize), and the products read these:
 * half of the bytes, and nothing to compute between the end of the normalisation and their first product. It writes what
 * it made before, too, only if somebody else reads that. The bits are those of quantising in the products.
 *
 * Where the program has a quantize_f8 of the rmsnorm's result, that becomes part of the launch, too. Where no rmsnorm makes x, a
 * quantize_f8 of it is put before the products that are faster with codes by more than that takes.
 */
#include "pass/fuse.h"

#include "ir/build.h"
#include "ops/experts/experts.h"
#include "ops/linear/format.h"

/* The place of x_scale in an op that can take this operand quantised; 0: it cannot. */
static uint32_t scale_place(const struct stem_program *p, const struct stem_op *op, uint32_t operand)
{
    if (op->dead || op->class != STEM_OP_BUILTIN || operand || op->operands[0].mode == STEM_MODE_CONSUME)
        return 0;
    uint32_t weight = !strcmp(op->def->name, "linear")         ? 1
                      : !strcmp(op->def->name, "experts_up")   ? 2
                      : !strcmp(op->def->name, "experts_down") ? 3
                                                               : 0;
    if (!weight || stem_value_at(p, op->operands[weight].value)->tensor.dtype != STEM_F8E4M3 ||
        stem_value_at(p, op->operands[0].value)->tensor.dtype != STEM_BF16)
        return 0;
    return weight == 1 ? 4 : 5;
}

static bool is_quantiser(const struct stem_op *op)
{
    return !op->dead && op->class == STEM_OP_BUILTIN && !strcmp(op->def->name, "quantize_f8");
}

/* Whether there is anything that a rmsnorm could be quantised for. */
static bool any(const struct stem_program *p)
{
    for (uint32_t i = 0; i < p->ops.len; i++)
        if (scale_place(p, &p->ops.at[i], 0) || is_quantiser(&p->ops.at[i]))
            return true;
    return false;
}

/* Who reads what. */
struct readers {
    const struct stem_fuse *s;
    uint32_t *first, *next, *op, *operand; /* by buffer; lists of (op, operand) */
};

static struct readers find_readers(struct stem_fuse *s)
{
    const struct stem_program *p = s->p;
    struct readers r = {.s = s};
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->ops.len; i++)
        n += p->ops.at[i].n_in;
    r.first = STEM_NEW_ARRAY(s->ctx->scratch, uint32_t, p->buffers.len);
    r.next = STEM_NEW_ARRAY(s->ctx->scratch, uint32_t, n + 1);
    r.op = STEM_NEW_ARRAY(s->ctx->scratch, uint32_t, n + 1);
    r.operand = STEM_NEW_ARRAY(s->ctx->scratch, uint32_t, n + 1);
    n = 0;
    for (uint32_t i = 0; i < p->ops.len; i++)
        for (uint32_t k = 0; k < p->ops.at[i].n_in && !p->ops.at[i].dead; k++) {
            if (p->ops.at[i].operands[k].value.n == STEM_NONE)
                continue;
            uint32_t buffer = stem_value_at(p, p->ops.at[i].operands[k].value)->tensor.buffer;
            r.op[++n] = i;
            r.operand[n] = k;
            r.next[n] = r.first[buffer];
            r.first[buffer] = n;
        }
    return r;
}

/* How many readers of the value take it quantised, and how many do not. */
static void count(const struct readers *r, struct stem_value_id value, uint32_t *quantised, uint32_t *others)
{
    const struct stem_program *p = r->s->p;
    *quantised = *others = 0;
    for (uint32_t i = r->first[stem_value_at(p, value)->tensor.buffer]; i; i = r->next[i]) {
        const struct stem_op *op = &p->ops.at[r->op[i]];
        bool same = op->operands[r->operand[i]].value.n == value.n;
        *(same && scale_place(p, op, r->operand[i]) ? quantised : others) += 1;
    }
}

static struct stem_value_id new_value(struct stem_builder *b, const struct stem_tensor *like, enum stem_dtype type,
                                      const char *name, uint32_t op)
{
    int64_t dim[STEM_MAX_RANK];
    memcpy(dim, like->dim, like->rank * sizeof *dim);
    if (type == STEM_F32)
        dim[like->rank - 1] = (dim[like->rank - 1] + STEM_F8_BLOCK - 1) / STEM_F8_BLOCK;
    struct stem_sym sym = stem_intern(b->program->strings, name);
    struct stem_value_id v = stem_build_buffer(b, STEM_BUFFER_TEMP, sym, type, like->rank, dim);
    stem_value_at(b->program, v)->def.n = op;
    return v;
}

/* The reader takes codes and scale in place of x. */
static void take(struct stem_fuse *s, uint32_t reader, struct stem_value_id code, struct stem_value_id scale)
{
    struct stem_program *p = s->p;
    struct stem_op *op = &p->ops.at[reader];
    uint32_t place = scale_place(p, op, 0), n_in = op->n_in > place ? op->n_in : place + 1;
    struct stem_operand *o = STEM_NEW_ARRAY(p->arena, struct stem_operand, n_in + op->n_out);
    for (uint32_t i = 0; i < n_in; i++)
        o[i] = i < op->n_in ? op->operands[i] : (struct stem_operand){.value = STEM_NO_VALUE, .mode = STEM_MODE_IN};
    memcpy(o + n_in, op->operands + op->n_in, op->n_out * sizeof *o);
    o[0].value = code;
    o[place] = (struct stem_operand){scale, STEM_MODE_IN, o[0].span};
    op->operands = o;
    op->n_in = n_in;
    stem_op_set_cost(p, op);
    stem_cost_op(p, op, s->ctx->options);
}

/* A quantize_f8 of the value that may become part of what makes it; else NO_OP. */
static struct stem_op_id quantiser(const struct readers *r, uint32_t norm, struct stem_value_id value)
{
    const struct stem_program *p = r->s->p;
    for (uint32_t i = r->first[stem_value_at(p, value)->tensor.buffer]; i; i = r->next[i]) {
        const struct stem_op *op = &p->ops.at[r->op[i]];
        if (is_quantiser(op) && op->operands[0].value.n == value.n && op->operands[0].mode != STEM_MODE_CONSUME &&
            !op->resource.n && !op->n_after && !r->s->waited_for[r->op[i]] && op->stream.n == p->ops.at[norm].stream.n &&
            op->segment == p->ops.at[norm].segment)
            return (struct stem_op_id){r->op[i]};
    }
    return STEM_NO_OP;
}

/* The rmsnorm also makes codes and scale; `keep`: and what it made before. */
static void become(struct stem_fuse *s, uint32_t norm, bool keep, struct stem_value_id code, struct stem_value_id scale)
{
    struct stem_program *p = s->p;
    struct stem_op *op = &p->ops.at[norm];
    struct stem_operand o[5] = {op->operands[0], op->operands[1]};
    uint32_t n = 2;
    if (keep)
        o[n++] = op->operands[2];
    o[n++] = (struct stem_operand){code, STEM_MODE_OUT, op->span};
    o[n++] = (struct stem_operand){scale, STEM_MODE_OUT, op->span};
    op->def = stem_op_find(keep ? "rmsnorm_quantize_keep" : "rmsnorm_quantize");
    op->operands = stem_arena_dup(p->arena, o, n * sizeof *o);
    op->n_out = n - 2;
    stem_value_at(p, code)->def.n = stem_value_at(p, scale)->def.n = norm;
    stem_op_set_cost(p, op);
    stem_cost_op(p, op, s->ctx->options);
}

static void one_norm(struct stem_fuse *s, const struct readers *r, struct stem_builder *b, uint32_t norm)
{
    struct stem_program *p = s->p;
    struct stem_value_id y = p->ops.at[norm].operands[2].value, code, scale;
    uint32_t buffer = stem_value_at(p, y)->tensor.buffer, n, others;
    struct stem_op_id q = quantiser(r, norm, y);
    count(r, y, &n, &others);
    others -= q.n != STEM_NONE;
    if ((!n && q.n == STEM_NONE) || stem_value_at(p, y)->version)
        return;
    bool keep = others || p->buffers.at[buffer].kind != STEM_BUFFER_TEMP;
    const char *label = stem_op_label(p, (struct stem_op_id){norm});
    b->span = p->ops.at[norm].span;
    stem_remark(s->ctx->diags, "fuse", b->span, "'%s' is quantised where it is normalised, for %u product%s in f8e4m3%s", label, n,
                n == 1 ? "" : "s", keep ? "; it has other readers, too" : "");
    if (q.n != STEM_NONE) {
        code = p->ops.at[q.n].operands[1].value;
        scale = p->ops.at[q.n].operands[2].value;
        stem_fuse_kill(s, q.n);
    } else {
        struct stem_tensor like = stem_value_at(p, y)->tensor;
        code = new_value(b, &like, STEM_F8E4M3, stem_arena_printf(s->ctx->scratch, "%s.codes", label), norm);
        scale = new_value(b, &like, STEM_F32, stem_arena_printf(s->ctx->scratch, "%s.scale", label), norm);
    }
    become(s, norm, keep, code, scale);
    for (uint32_t i = r->first[buffer]; i; i = r->next[i])
        if (p->ops.at[r->op[i]].operands[r->operand[i]].value.n == y.n && scale_place(p, &p->ops.at[r->op[i]], r->operand[i]))
            take(s, r->op[i], code, scale);
}

/* Whether the product reads x by warpgroups (linear_wide.cuh), which take codes as they lie, and quantise anything else between
 * their copies and their products, in each block. */
static bool wants_codes(const struct stem_fuse *s, const struct stem_op *op)
{
    const struct stem_target *t = &s->ctx->options->target;
    if (t->sm != 90 || !scale_place(s->p, op, 0))
        return false;
    const struct stem_tensor *x = &stem_value_at(s->p, op->operands[0].value)->tensor;
    if (!strcmp(op->def->name, "linear"))
        return x->dim[x->rank - 1] % 16 == 0;
    struct stem_tensor shapes[STEM_MAX_OPERANDS];
    struct stem_concrete c;
    if (strcmp(op->def->name, "experts_down") != 0)
        return false;
    stem_op_concrete(s->p, op, shapes, &c);
    struct stem_experts_sizes sizes = stem_experts_down_sizes(&c);
    return stem_experts_down_is_wide(&sizes, STEM_F8E4M3, t);
}

/* x is quantised by an op of its own, for this product and those behind it on its stream. */
static void one_product(struct stem_fuse *s, const struct readers *r, struct stem_builder *b, uint32_t product)
{
    struct stem_program *p = s->p;
    struct stem_op op = p->ops.at[product];
    struct stem_value_id x = op.operands[0].value, results[STEM_MAX_OPERANDS];
    struct stem_input in = {x, STEM_MODE_IN, op.operands[0].span};
    uint32_t buffer = stem_value_at(p, x)->tensor.buffer, n = 0;
    b->layer = op.layer;
    b->segment = op.segment;
    b->pin = op.pin;
    b->priority = op.priority;
    b->span = op.span;
    b->name = stem_intern_printf(p->strings, "%s.x", stem_op_label(p, (struct stem_op_id){product}));
    if (!stem_build_op(b, stem_op_find("quantize_f8"), &in, 1, NULL, NULL, results))
        return;
    struct stem_op *made = stem_op_at(p, stem_value_at(p, results[0])->def);
    made->stream = op.stream;
    stem_cost_op(p, made, s->ctx->options);
    for (uint32_t i = r->first[buffer]; i; i = r->next[i]) {
        const struct stem_op *reader = &p->ops.at[r->op[i]];
        if (reader->operands[r->operand[i]].value.n == x.n && !r->operand[i] && reader->stream.n == op.stream.n &&
            reader->segment == op.segment && wants_codes(s, reader)) {
            take(s, r->op[i], results[0], results[1]);
            n++;
        }
    }
    stem_remark(s->ctx->diags, "fuse", op.span, "what '%s' reads is quantised once, for %u product%s in f8e4m3",
                stem_op_label(p, (struct stem_op_id){product}), n, n == 1 ? "" : "s");
}

void stem_fuse_quantised(struct stem_fuse *s)
{
    struct stem_program *p = s->p;
    if (!any(p))
        return;
    struct readers r = find_readers(s);
    struct stem_dims *dims = stem_dims_new();
    struct stem_builder b = stem_builder_new(p, dims, s->ctx->diags);
    for (uint32_t i = 0; i < p->ops.len; i++)
        if (stem_fuse_is(&p->ops.at[i], "rmsnorm"))
            one_norm(s, &r, &b, i);
    for (uint32_t i = 0, n = p->ops.len; i < n; i++)
        if (wants_codes(s, &p->ops.at[i]))
            one_product(s, &r, &b, i);
    stem_dims_free(dims);
}
