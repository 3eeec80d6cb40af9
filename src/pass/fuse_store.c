/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of fuse for caches: mla_store, and gqa_store with the queries that it makes, go into the attention_part that alone
 * reads what they leave, where the target has a kernel for both. The bits are those of the two. The store may have been on
 * another stream, even pinned to it: it is no work that could run beside any more, and attention needs not wait for that
 * stream.
 */
#include "pass/fuse.h"

#include "ops/attention/attention.h"

enum { Q = 0, CACHE = 1, V = 2, TABLE = 3, LENS = 4, PART_IN = 5, MLA_IN = 5, GQA_IN = 7 };

static bool free_to_go(const struct stem_fuse *s, struct stem_op_id id)
{
    const struct stem_op *op = stem_op_at(s->p, id);
    return !op->dead && op->class == STEM_OP_BUILTIN && !op->resource.n && !op->n_after && !s->waited_for[id.n];
}

/* Operand `in` of the part is result `out` of the store, as it is and in its newest version; `reads` is how often its buffer is
 * read, by the two. */
static bool hands_on(const struct stem_fuse *s, const struct stem_op *store, uint32_t out, const struct stem_op *part, uint32_t in,
                     uint32_t reads)
{
    const struct stem_value *v = stem_value_at(s->p, part->operands[in].value);
    uint32_t buffer = v->tensor.buffer;
    return part->operands[in].value.n == store->operands[store->n_in + out].value.n && s->reads[buffer] == reads &&
           s->version[buffer] == v->version && !s->consumed[buffer];
}

static bool fits(const struct stem_fuse *s, const struct stem_op *part, const struct stem_op *store)
{
    struct stem_tensor part_operand[STEM_MAX_OPERANDS], store_operand[STEM_MAX_OPERANDS];
    struct stem_concrete part_call, store_call;
    stem_op_concrete(s->p, part, part_operand, &part_call);
    stem_op_concrete(s->p, store, store_operand, &store_call);
    return part->operands[V].value.n == STEM_NONE
               ? stem_mla_store_part_fits(&part_call, &store_call, &s->ctx->options->target)
               : stem_gqa_store_part_fits(&part_call, &store_call, &s->ctx->options->target);
}

/* The store whose caches the attention_part reads, if the two can be one; else NO_OP. */
static struct stem_op_id store_of(const struct stem_fuse *s, struct stem_op_id id)
{
    const struct stem_program *p = s->p;
    const struct stem_op *part = stem_op_at(p, id);
    if (!free_to_go(s, id) || strcmp(part->def->name, "attention_part") ||
        (part->n_in > PART_IN && part->operands[PART_IN].value.n != STEM_NONE))
        return STEM_NO_OP;
    struct stem_op_id from = stem_value_at(p, part->operands[CACHE].value)->def;
    if (from.n == STEM_NONE || !free_to_go(s, from))
        return STEM_NO_OP;
    const struct stem_op *store = stem_op_at(p, from);
    bool latents = part->operands[V].value.n == STEM_NONE;
    if (strcmp(store->def->name, latents ? "mla_store" : "gqa_store") || store->segment != part->segment ||
        !hands_on(s, store, 0, part, CACHE, 2))
        return STEM_NO_OP;
    bool alone = latents ? stem_fuse_stay(s, store->operands + 1, MLA_IN - 1) && stem_fuse_stay(s, part->operands + Q, 1)
                         : hands_on(s, store, 1, part, V, 2) && hands_on(s, store, 2, part, Q, 1) &&
                               p->buffers.at[stem_value_at(p, part->operands[Q].value)->tensor.buffer].kind == STEM_BUFFER_TEMP &&
                               stem_fuse_stay(s, store->operands + 2, GQA_IN - 2);
    return alone && fits(s, part, store) ? from : STEM_NO_OP;
}

static void become(struct stem_fuse *s, uint32_t part, uint32_t store)
{
    const struct stem_op *y = &s->p->ops.at[part], *x = &s->p->ops.at[store];
    const struct stem_operand *of = y->operands, *row = x->operands, *out = y->operands + y->n_in, *left = row + x->n_in;
    const struct stem_operand latents[] = {of[Q], row[0], of[TABLE], of[LENS], row[1], row[2], row[3], row[4],
                                           left[0], out[0], out[1]};
    const struct stem_operand grouped[] = {row[0], row[1], of[TABLE], of[LENS], row[2], row[3], row[4], row[5], row[6],
                                           left[0], left[1], out[0], out[1]};
    struct stem_attr attrs[STEM_MAX_ATTRS];
    memcpy(attrs, y->attrs, y->n_attrs * sizeof *attrs);
    memcpy(attrs + y->n_attrs, x->attrs, x->n_attrs * sizeof *attrs);
    stem_fuse_kill(s, store);
    if (of[V].value.n == STEM_NONE)
        stem_fuse_replace(s, part, stem_op_find("mla_store_part"), attrs, latents, 8, 3);
    else
        stem_fuse_replace(s, part, stem_op_find("gqa_store_part"), attrs, grouped, 9, 4);
}

void stem_fuse_stores(struct stem_fuse *s)
{
    struct stem_program *p = s->p;
    for (uint32_t i = 0; i < p->ops.len; i++) {
        struct stem_op_id store = store_of(s, (struct stem_op_id){i});
        if (store.n == STEM_NONE)
            continue;
        stem_remark(s->ctx->diags, "fuse", p->ops.at[i].span, "'%s' is stored within '%s'", stem_op_label(p, store),
                    stem_op_label(p, (struct stem_op_id){i}));
        become(s, i, store.n);
    }
}
