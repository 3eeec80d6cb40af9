/* SPDX-License-Identifier: Apache-2.0
 *
 * What an op is for the table of costs: a text, and a hash of the kernel.
 */
#include <inttypes.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "costs/costs.h"

static void put_tensor(struct stem_out *o, const struct stem_tensor *t)
{
    if (t->rank == STEM_NONE) {
        stem_out_char(o, '-');
        return;
    }
    stem_out_str(o, stem_dtype_name(t->dtype));
    for (uint32_t i = 0; i < t->rank; i++)
        stem_out_printf(o, "%c%" PRId64, i ? ',' : '[', t->dim[i]);
    if (!stem_tensor_contiguous(t))
        for (uint32_t i = 0; i < t->rank; i++)
            stem_out_printf(o, "%c%" PRId64, i ? ',' : ';', t->stride[i]);
    stem_out_str(o, t->rank ? "]" : "");
}

static void put_attr(struct stem_out *o, const struct stem_attr *t)
{
    switch (t->kind) {
    case STEM_ATTR_INT: stem_out_printf(o, " %s=%" PRId64, t->name, t->i); break;
    case STEM_ATTR_FLOAT: stem_out_printf(o, " %s=%.9g", t->name, t->f); break;
    case STEM_ATTR_TEXT:
        if (t->text)
            stem_out_printf(o, " %s=%s", t->name, t->text);
        break;
    }
}

static bool is_weight(const struct stem_program *p, const struct stem_tensor *t)
{
    return t->rank != STEM_NONE && p->buffers.at[t->buffer].kind == STEM_BUFFER_WEIGHT;
}

static bool is_scratch(const struct stem_op *op, uint32_t operand, uint32_t n_inout)
{
    uint32_t first = op->n_in + n_inout;
    return op->class == STEM_OP_BUILTIN && operand >= first && op->def->scratch >> (operand - first) & 1;
}

const char *stem_cost_key(const struct stem_program *p, const struct stem_op *op, struct stem_arena *a)
{
    struct stem_out o = {0};
    uint32_t skip = stem_op_n_inout(op);
    stem_out_printf(&o, "%s(", op->class == STEM_OP_BUILTIN ? op->def->name
                                                            : stem_sym_str(p->strings, p->decls.at[op->decl].name));
    for (uint32_t i = 0; i < op->n_in + op->n_out; i++) {
        if (i >= op->n_in && i < op->n_in + skip)
            continue;
        if (is_scratch(op, i, skip))
            continue;
        struct stem_tensor t = stem_operand_tensor(p, &op->operands[i]);
        stem_out_str(&o, i == op->n_in + skip ? ") " : i && i != op->n_in + skip ? ", " : "");
        if (i < op->n_in)
            stem_out_str(&o, op->operands[i].mode == STEM_MODE_INOUT ? "&" : is_weight(p, &t) ? "*" : "");
        put_tensor(&o, &t);
    }
    stem_out_str(&o, op->n_out == skip ? ")" : "");
    for (uint32_t i = 0; i < op->n_attrs; i++)
        put_attr(&o, &op->attrs[i]);
    for (uint32_t i = 0; i < op->n_scalars; i++)
        if (op->scalars[i].kind == STEM_SCALAR_F32)
            stem_out_printf(&o, " %.9g", op->scalars[i].f);
        else
            stem_out_printf(&o, " %" PRId64, op->scalars[i].i);
    char *key = stem_arena_strdup(a, stem_out_text(&o));
    stem_out_free(&o);
    return key;
}

static void hash_text(XXH3_state_t *h, const char *s)
{
    XXH3_64bits_update(h, s, strlen(s) + 1);
}

static uint64_t done(const XXH3_state_t *h)
{
    uint64_t sum = XXH3_64bits_digest(h);
    return sum ? sum : 1;
}

uint64_t stem_cost_kernel(const struct stem_program *p, const struct stem_op *op, const struct stem_target *t)
{
    XXH3_state_t h;
    XXH3_64bits_reset(&h);
    XXH3_64bits_update(&h, &t->sm, sizeof t->sm);
    if (op->class == STEM_OP_KERNEL) {
        const struct stem_decl *d = &p->decls.at[op->decl];
        hash_text(&h, d->params);
        hash_text(&h, d->body);
        hash_text(&h, stem_op_header("common"));
        XXH3_64bits_update(&h, op->grid, sizeof op->grid);
        XXH3_64bits_update(&h, op->block, sizeof op->block);
        return done(&h);
    }
    if (op->class != STEM_OP_BUILTIN || !op->def->lower)
        return 0;
    struct stem_lowered l = stem_op_lower(p, op, t)->l;
    if (l.work == STEM_WORK_MATMUL) { /* of whatever version it is: the table is of one machine */
        hash_text(&h, "cuBLASLt");
        return done(&h);
    }
    if (l.work != STEM_WORK_LAUNCH)
        return 0;
    hash_text(&h, l.kernel);
    hash_text(&h, l.code);
    for (size_t i = 0; i < sizeof l.headers / sizeof *l.headers && l.headers[i]; i++)
        hash_text(&h, stem_op_header(l.headers[i]));
    XXH3_64bits_update(&h, l.grid, sizeof l.grid);
    XXH3_64bits_update(&h, l.block, sizeof l.block);
    XXH3_64bits_update(&h, &l.smem, sizeof l.smem);
    return done(&h);
}
