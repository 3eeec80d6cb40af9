/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/ir.h"

#include <stdlib.h>
#include <string.h>

struct stem_program *stem_program_new(struct stem_strtab *strings, const struct stem_source *source)
{
    struct stem_program *p = stem_xmalloc(sizeof *p);
    memset(p, 0, sizeof *p);
    p->arena = stem_arena_new();
    p->lowerings = stem_lowerings_new();
    p->strings = strings;
    p->source = source;
    stem_vec_push(&p->streams, (struct stem_stream_decl){stem_intern(strings, "main"), 0});
    stem_vec_push(&p->segments, (struct stem_segment){false, STEM_NOWHERE});
    return p;
}

void stem_schedule_clear(struct stem_schedule *s)
{
    stem_vec_free(&s->deps);
    stem_vec_free(&s->order);
    stem_vec_free(&s->why);
    stem_vec_free(&s->waits);
    stem_vec_free(&s->last_use);
    stem_vec_free(&s->last_use_begin);
    stem_vec_free(&s->first_use);
    stem_vec_free(&s->free_after);
    stem_vec_free(&s->forks);
    memset(s, 0, sizeof *s);
}

void stem_program_free(struct stem_program *p)
{
    if (!p)
        return;
    stem_schedule_clear(&p->sched);
    stem_vec_free(&p->dim_names);
    stem_vec_free(&p->dim_values);
    stem_vec_free(&p->buffers);
    stem_vec_free(&p->values);
    stem_vec_free(&p->ops);
    stem_vec_free(&p->decls);
    stem_vec_free(&p->streams);
    stem_vec_free(&p->segments);
    stem_vec_free(&p->layers);
    stem_lowerings_free(p->lowerings);
    stem_arena_free(p->arena);
    free(p);
}

bool stem_value_is_view(const struct stem_program *p, struct stem_value_id v)
{
    const struct stem_value *x = stem_value_at(p, v);
    return x->base.n != STEM_NONE && x->version == stem_value_at(p, x->base)->version;
}

struct stem_value_id stem_value_origin(const struct stem_program *p, struct stem_value_id v)
{
    while (stem_value_is_view(p, v))
        v = stem_value_at(p, v)->base;
    return v;
}

struct stem_op_id stem_value_def(const struct stem_program *p, struct stem_value_id v)
{
    return stem_value_at(p, stem_value_origin(p, v))->def;
}

uint32_t stem_op_n_inout(const struct stem_op *op)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < op->n_in; i++)
        n += op->operands[i].mode == STEM_MODE_INOUT;
    return n;
}

struct stem_tensor stem_operand_tensor(const struct stem_program *p, const struct stem_operand *o)
{
    if (o->value.n == STEM_NONE)
        return (struct stem_tensor){.buffer = STEM_NONE, .dtype = STEM_N_DTYPES, .rank = STEM_NONE};
    return stem_value_at(p, o->value)->tensor;
}

void stem_op_concrete(const struct stem_program *p, const struct stem_op *op, struct stem_tensor *t,
                      struct stem_concrete *c)
{
    uint32_t skip = stem_op_n_inout(op), n_out = op->n_out - skip;
    for (uint32_t i = 0; i < op->n_in + n_out; i++)
        t[i] = stem_operand_tensor(p, &op->operands[i < op->n_in ? i : i + skip]);
    *c = (struct stem_concrete){
        .def = op->def, .operand = t, .n_in = op->n_in, .n_out = n_out, .attrs = op->attrs, .n_attrs = op->n_attrs,
        .shares = op->shares};
    for (uint32_t i = 0; i < op->n_in && i < 32; i++)
        if (t[i].buffer != STEM_NONE && p->buffers.at[t[i].buffer].kind == STEM_BUFFER_WEIGHT)
            c->constant |= 1u << i;
}
