/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of fuse for latent caches: mla_store goes into the attention_part that alone reads the cache it leaves, where the
 * target has a kernel for both. The bits are those of the two. The store may have been on another stream, even pinned to it: it is
 * no work that could run beside any more, and attention needs not wait for that stream.
 */
#include "pass/fuse.h"

#include "ops/attention/attention.h"

enum { CACHE = 1, V = 2, TABLE = 3, LENS = 4, PART_IN = 5 };

static bool free_to_go(const struct stem_fuse *s, struct stem_op_id id)
{
    const struct stem_op *op = stem_op_at(s->p, id);
    return !op->dead && op->class == STEM_OP_BUILTIN && !op->resource.n && !op->n_after && !s->waited_for[id.n];
}

/* The mla_store whose cache the attention_part reads, if the two can be one; else NO_OP. */
static struct stem_op_id store_of(const struct stem_fuse *s, struct stem_op_id id)
{
    const struct stem_program *p = s->p;
    const struct stem_op *part = stem_op_at(p, id);
    if (!free_to_go(s, id) || strcmp(part->def->name, "attention_part") ||
        (part->n_in > PART_IN && part->operands[PART_IN].value.n != STEM_NONE) || part->operands[V].value.n != STEM_NONE)
        return STEM_NO_OP;
    const struct stem_value *cache = stem_value_at(p, part->operands[CACHE].value);
    uint32_t buffer = cache->tensor.buffer;
    if (cache->def.n == STEM_NONE || !free_to_go(s, cache->def))
        return STEM_NO_OP;
    const struct stem_op *store = stem_op_at(p, cache->def);
    if (strcmp(store->def->name, "mla_store") || store->segment != part->segment || s->reads[buffer] != 2 ||
        s->version[buffer] != cache->version || s->consumed[buffer] || !stem_fuse_stay(s, store->operands + 1, 4) ||
        !stem_fuse_stay(s, part->operands, 1))
        return STEM_NO_OP;
    struct stem_tensor part_operand[STEM_MAX_OPERANDS], store_operand[STEM_MAX_OPERANDS];
    struct stem_concrete part_call, store_call;
    stem_op_concrete(p, part, part_operand, &part_call);
    stem_op_concrete(p, store, store_operand, &store_call);
    return stem_mla_store_part_fits(&part_call, &store_call, &s->ctx->options->target) ? cache->def : STEM_NO_OP;
}

static void become(struct stem_fuse *s, uint32_t part, uint32_t store)
{
    const struct stem_op_def *def = stem_op_find("mla_store_part");
    const struct stem_op *y = &s->p->ops.at[part], *x = &s->p->ops.at[store];
    const struct stem_operand *of = y->operands, *row = x->operands, *out = y->operands + y->n_in;
    const struct stem_operand o[] = {of[0], row[0], of[TABLE], of[LENS], row[1], row[2], row[3], row[4],
                                     row[x->n_in], out[0], out[1]};
    struct stem_attr attrs[STEM_MAX_ATTRS];
    memcpy(attrs, y->attrs, y->n_attrs * sizeof *attrs);
    memcpy(attrs + y->n_attrs, x->attrs, x->n_attrs * sizeof *attrs);
    stem_fuse_kill(s, store);
    stem_fuse_replace(s, part, def, attrs, o, 8, 3);
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
