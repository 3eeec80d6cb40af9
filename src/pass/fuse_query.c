/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of fuse for the query of a latent cache: mla_query goes into the norm_linear whose first columns it reads, where the
 * target has a kernel for both. Others may read what the norm_linear makes, or none: it is made still. The bits are those of the
 * two.
 */
#include "pass/fuse.h"

#include "ops/mla/mla.h"

/* There before the norm_linear is, whose place the whole takes. */
static bool there(const struct stem_fuse *s, const struct stem_operand *o, uint32_t place)
{
    struct stem_op_id def = stem_value_def(s->p, o->value);
    return o->mode != STEM_MODE_CONSUME && (def.n == STEM_NONE || def.n < place) && stem_fuse_stay(s, o, 1);
}

/* The norm_linear whose first columns the mla_query at `id` reads, if the two can be one; else NO_OP. */
static struct stem_op_id product_of(const struct stem_fuse *s, uint32_t id)
{
    const struct stem_program *p = s->p;
    const struct stem_op *query = &p->ops.at[id];
    struct stem_op_id from = stem_value_def(p, query->operands[0].value);
    if (from.n == STEM_NONE || query->operands[0].mode == STEM_MODE_CONSUME || s->waited_for[id] || s->waited_for[from.n])
        return STEM_NO_OP;
    const struct stem_op *linear = stem_op_at(p, from);
    if (!stem_fuse_is(linear, "norm_linear") || linear->n_in != 3 || linear->stream.n != query->stream.n ||
        linear->segment != query->segment || stem_op_attr(linear->def, linear->attrs, "then")->text)
        return STEM_NO_OP;
    const struct stem_tensor *all = &stem_value_at(p, linear->operands[3].value)->tensor,
                             *view = &stem_value_at(p, query->operands[0].value)->tensor;
    bool first = all->rank == 2 && view->offset == all->offset && view->dim[0] == all->dim[0] && view->stride[2] == 1 &&
                 (view->dim[0] == 1 || view->stride[0] == all->dim[1]) && (view->dim[1] == 1 || view->stride[1] == view->dim[2]) &&
                 p->buffers.at[all->buffer].kind == STEM_BUFFER_TEMP && s->version[all->buffer] == 0 && !s->consumed[all->buffer];
    if (!first || !there(s, &query->operands[1], from.n) || !there(s, &query->operands[2], from.n) ||
        stem_value_at(p, query->operands[3].value)->version)
        return STEM_NO_OP;
    struct stem_tensor linear_operand[STEM_MAX_OPERANDS], query_operand[STEM_MAX_OPERANDS];
    struct stem_concrete linear_call, query_call;
    stem_op_concrete(p, linear, linear_operand, &linear_call);
    stem_op_concrete(p, query, query_operand, &query_call);
    return stem_norm_query_fits(&linear_call, &query_call, &s->ctx->options->target) ? from : STEM_NO_OP;
}

static void become(struct stem_fuse *s, uint32_t linear, uint32_t query)
{
    const struct stem_op_def *def = stem_op_find("norm_query");
    const struct stem_op *x = &s->p->ops.at[linear], *y = &s->p->ops.at[query];
    const struct stem_operand o[] = {x->operands[0], x->operands[1], x->operands[2], y->operands[1], y->operands[2],
                                     x->operands[3], y->operands[3]};
    struct stem_attr attrs[STEM_MAX_ATTRS];
    stem_op_attr_defaults(def, attrs);
    memcpy(attrs, y->attrs, y->n_attrs * sizeof *attrs);
    ((struct stem_attr *)stem_op_attr(def, attrs, "eps"))->f = stem_op_attr(x->def, x->attrs, "eps")->f;
    ((struct stem_attr *)stem_op_attr(def, attrs, "row"))->i = stem_value_at(s->p, y->operands[0].value)->tensor.dim[2];
    stem_fuse_kill(s, query);
    stem_fuse_replace(s, linear, def, attrs, o, 5, 2);
}

void stem_fuse_queries(struct stem_fuse *s)
{
    struct stem_program *p = s->p;
    for (uint32_t i = 0; i < p->ops.len; i++) {
        if (!stem_fuse_is(&p->ops.at[i], "mla_query"))
            continue;
        struct stem_op_id from = product_of(s, i);
        if (from.n == STEM_NONE)
            continue;
        stem_remark(s->ctx->diags, "fuse", p->ops.at[i].span, "'%s' is made within '%s'", stem_op_label(p, (struct stem_op_id){i}),
                    stem_op_label(p, from));
        become(s, from.n, i);
    }
}
