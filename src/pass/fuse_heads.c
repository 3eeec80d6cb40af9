/* SPDX-License-Identifier: Apache-2.0
 *
 * The fourth part of fuse: the sum of the shares of an attention over latents goes into the heads_linear that alone reads
 * it, where the target has a kernel for both. The bits are those of the two.
 */
#include "pass/fuse.h"

#include "ops/attention_heads/attention_heads.h"

/* The attention_combine whose result the heads_linear reads, if the two can be one; else NO_OP. */
static struct stem_op_id sum_of(const struct stem_fuse *s, const struct stem_op *heads)
{
    const struct stem_program *p = s->p;
    const struct stem_operand *x = &heads->operands[0], *w = &heads->operands[1];
    struct stem_op_id id = stem_fuse_only_for(s, heads, x->value);
    if (id.n == STEM_NONE || x->mode == STEM_MODE_CONSUME || w->mode == STEM_MODE_CONSUME)
        return STEM_NO_OP;
    const struct stem_op *sum = stem_op_at(p, id);
    if (!stem_fuse_is(sum, "attention_combine") || sum->operands[sum->n_in].value.n != x->value.n)
        return STEM_NO_OP;
    const struct stem_tensor *y = &stem_value_at(p, x->value)->tensor;
    bool can = !stem_op_attr(heads->def, heads->attrs, "transposed")->i && stem_fuse_stay(s, sum->operands, sum->n_in) &&
               stem_attention_heads_fit(&stem_value_at(p, sum->operands[0].value)->tensor, y->dim[0], y->dtype,
                                        &stem_value_at(p, w->value)->tensor, &s->ctx->options->target);
    return can ? id : STEM_NO_OP;
}

static void become(struct stem_fuse *s, uint32_t heads, uint32_t sum)
{
    const struct stem_op_def *def = stem_op_find("attention_heads");
    const struct stem_op *h = &s->p->ops.at[heads], *c = &s->p->ops.at[sum];
    const struct stem_operand o[] = {c->operands[0], c->operands[1], c->operands[2], h->operands[1], h->operands[2]};
    struct stem_attr attrs[STEM_MAX_ATTRS];
    stem_op_attr_defaults(def, attrs);
    for (uint32_t i = 0; i < def->n_attrs; i++) {
        bool own = !strcmp(def->attrs[i].name, "out");
        attrs[i] = *stem_op_attr(own ? h->def : c->def, own ? h->attrs : c->attrs, def->attrs[i].name);
    }
    stem_fuse_kill(s, sum);
    stem_fuse_replace(s, heads, def, attrs, o, 4, 1);
}

void stem_fuse_heads(struct stem_fuse *s)
{
    struct stem_program *p = s->p;
    for (uint32_t i = 0; i < p->ops.len; i++) {
        if (!stem_fuse_is(&p->ops.at[i], "heads_linear"))
            continue;
        struct stem_op_id sum = sum_of(s, &p->ops.at[i]);
        if (sum.n == STEM_NONE)
            continue;
        stem_remark(s->ctx->diags, "fuse", p->ops.at[i].span, "'%s' is added up within '%s'", stem_op_label(p, sum),
                    stem_op_label(p, (struct stem_op_id){i}));
        become(s, i, sum.n);
    }
}
