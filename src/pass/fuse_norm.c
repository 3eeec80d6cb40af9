/* SPDX-License-Identifier: Apache-2.0
 *
 * The third part of fuse: a pointwise op, such as a residual added, and a rmsnorm that reads its result become one
 * kernel with both results. The sum may have other readers. It is the pointwise op that becomes the whole, so that
 * what else reads the sum stands behind it in the text; the rmsnorm's weight must be there already.
 *
 * Only where the bits are those of the two ops: operands of one type, at offsets that leave an access its width.
 */
#include "pass/fuse.h"

#include "ops/epilogue.h"

static bool operand_fits(const struct stem_program *p, const struct stem_operand *o, const struct stem_tensor *h)
{
    if (o->value.n == STEM_NONE || o->mode == STEM_MODE_CONSUME)
        return false;
    const struct stem_tensor *t = &stem_value_at(p, o->value)->tensor;
    enum stem_meets meets = stem_epilogue_meets(t, h);
    return t->dtype == h->dtype && t->offset % 16 == 0 &&
           (meets == STEM_MEETS_ALL || (meets == STEM_MEETS_LAST && t->rank == 1));
}

static bool sum_fits(const struct stem_fuse *s, const struct stem_op *sum)
{
    const struct stem_tensor *h = &stem_value_at(s->p, sum->operands[sum->n_in].value)->tensor;
    bool fits = h->rank > 0 && h->offset % 16 == 0 && sum->n_in + 3 <= STEM_MAX_OPERANDS, all = false;
    fits = fits && (h->dtype == STEM_BF16 || h->dtype == STEM_F16 || h->dtype == STEM_F32);
    for (uint32_t i = 0; i < sum->n_in && fits; i++) {
        fits = operand_fits(s->p, &sum->operands[i], h);
        all |= fits && stem_value_at(s->p, sum->operands[i].value)->tensor.rank == h->rank;
    }
    return fits && all;
}

/* The pointwise op whose result the rmsnorm reads, if the two can be one; else NO_OP. */
static struct stem_op_id sum_of(const struct stem_fuse *s, uint32_t norm)
{
    const struct stem_program *p = s->p;
    const struct stem_op *op = &p->ops.at[norm];
    const struct stem_value *h = stem_value_at(p, op->operands[0].value),
                            *w = stem_value_at(p, op->operands[1].value);
    struct stem_op_id weight = stem_value_def(p, op->operands[1].value);
    if (h->def.n == STEM_NONE || h->version || w->tensor.offset % 16)
        return STEM_NO_OP;
    const struct stem_op *sum = stem_op_at(p, h->def);
    bool can = stem_fuse_is(sum, "pointwise") && sum->stream.n == op->stream.n && sum->segment == op->segment &&
               !s->waited_for[norm] && !s->waited_for[h->def.n] && !s->put_off[h->def.n] && (weight.n == STEM_NONE || weight.n < h->def.n) &&
               stem_fuse_stay(s, &op->operands[1], 1) && sum_fits(s, sum) &&
               stem_value_at(p, op->operands[op->n_in].value)->version == 0;
    return can ? h->def : STEM_NO_OP;
}

static void become(struct stem_fuse *s, uint32_t norm, uint32_t sum)
{
    const struct stem_op_def *def = stem_op_find("add_rmsnorm");
    const struct stem_op *r = &s->p->ops.at[norm], *h = &s->p->ops.at[sum];
    struct stem_operand o[STEM_MAX_OPERANDS + 2];
    struct stem_attr attrs[STEM_MAX_ATTRS];
    stem_op_attr_defaults(def, attrs);
    for (uint32_t i = 0; i < def->n_attrs; i++)
        attrs[i] = *stem_op_attr(i ? h->def : r->def, i ? h->attrs : r->attrs, def->attrs[i].name);
    uint32_t n = h->n_in + 1;
    o[0] = r->operands[1];
    for (uint32_t i = 0; i < h->n_in; i++)
        o[i + 1] = h->operands[i];
    o[n] = h->operands[h->n_in];
    o[n + 1] = r->operands[r->n_in];
    stem_fuse_kill(s, norm);
    stem_fuse_replace(s, sum, def, attrs, o, n, 2);
}

void stem_fuse_norms(struct stem_fuse *s)
{
    struct stem_program *p = s->p;
    for (uint32_t i = 0; i < p->ops.len; i++) {
        if (!stem_fuse_is(&p->ops.at[i], "rmsnorm"))
            continue;
        struct stem_op_id sum = sum_of(s, i);
        if (sum.n == STEM_NONE)
            continue;
        stem_remark(s->ctx->diags, "fuse", p->ops.at[i].span, "'%s' is normalised to '%s' where it is computed",
                    stem_op_label(p, sum), stem_op_label(p, (struct stem_op_id){i}));
        become(s, i, sum.n);
    }
}
