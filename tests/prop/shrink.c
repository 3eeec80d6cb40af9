/* SPDX-License-Identifier: Apache-2.0
 *
 * Shrinking, see shrink.h. Greedy: what can be left out while the failure stays is left out, in stretches of ops that
 * get shorter, until not one more op can go, then reads.
 */
#include "shrink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/build.h"

struct copier {
    const struct stem_program *from;
    struct flow to;
    struct stem_builder b;
    uint32_t *value; /* of `from` to of `to`; STEM_NONE: gone */
    uint32_t *op;
};

static struct stem_sym symbol(const struct copier *c, struct stem_sym s)
{
    return s.n ? stem_intern(c->to.strings, stem_sym_str(c->from->strings, s)) : s;
}

static struct stem_value_id copy_buffer(struct copier *c, uint32_t v)
{
    const struct stem_value *value = &c->from->values.at[v];
    const struct stem_buffer *b = &c->from->buffers.at[value->tensor.buffer];
    struct stem_value_id made =
        stem_build_buffer(&c->b, b->kind, symbol(c, b->name), b->shape.dtype, b->shape.rank, b->shape.dim);
    stem_vec_last(&c->to.program->buffers).align = b->align;
    c->value[v] = made.n;
    return made;
}

/* A value that an op reads: known, or a view that nobody has asked for yet. False if what it needs is gone. */
static bool copy_value(struct copier *c, uint32_t v)
{
    const struct stem_value *value = &c->from->values.at[v];
    if (c->value[v] != STEM_NONE)
        return true;
    struct stem_value_id id = {v}, base = stem_value_origin(c->from, id);
    if (!stem_value_is_view(c->from, id) || c->value[base.n] == STEM_NONE)
        return false;
    const struct stem_tensor *t = &value->tensor, *below = &c->from->values.at[base.n].tensor;
    c->value[v] = stem_build_view(&c->b, (struct stem_value_id){c->value[base.n]}, symbol(c, value->name),
                                  t->offset - below->offset, t->rank, t->dim, t->stride)
                      .n;
    return true;
}

static bool inputs_exist(struct copier *c, const struct stem_op *op)
{
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!copy_value(c, op->operands[i].value.n))
            return false;
    return true;
}

static void copy_op(struct copier *c, uint32_t k)
{
    const struct stem_op *op = &c->from->ops.at[k];
    struct stem_input in[2 * STEM_MAX_OPERANDS];
    struct stem_value_id results[2 * STEM_MAX_OPERANDS];
    struct stem_op_id after[8];
    uint32_t n = 0, next = 0;
    for (uint32_t i = 0; i < op->n_in; i++, n++)
        in[n] = (struct stem_input){{c->value[op->operands[i].value.n]}, op->operands[i].mode, STEM_NOWHERE};
    for (uint32_t i = stem_op_n_inout(op); i < op->n_out; i++, n++)
        in[n] = (struct stem_input){copy_buffer(c, op->operands[op->n_in + i].value.n), STEM_MODE_OUT, STEM_NOWHERE};
    c->b.name = symbol(c, op->name);
    c->b.pin = op->pin;
    c->b.priority = op->priority;
    c->b.segment = op->segment;
    c->b.resource = symbol(c, op->resource);
    c->b.after = after;
    c->b.n_after = 0;
    for (uint32_t i = 0; i < op->n_after && c->b.n_after < 8; i++)
        if (c->op[op->after[i].n] != STEM_NONE)
            after[c->b.n_after++].n = c->op[op->after[i].n];
    struct stem_op_id made = stem_build_call(&c->b, op->decl, in, n, NULL, 0, NULL, NULL, 0, results);
    stem_op_at(c->to.program, made)->cost = op->cost;
    c->op[k] = made.n;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->operands[i].mode == STEM_MODE_INOUT)
            c->value[op->operands[op->n_in + next++].value.n] = results[i].n;
}

/* Is the external buffer read or written by an op that stays? */
static bool used(const struct stem_program *p, const bool *keep, uint32_t buffer)
{
    for (uint32_t k = 0; k < p->ops.len; k++)
        for (uint32_t i = 0; (!keep || keep[k]) && i < p->ops.at[k].n_in; i++)
            if (p->values.at[p->ops.at[k].operands[i].value.n].tensor.buffer == buffer)
                return true;
    return false;
}

struct flow shrink_copy(const struct flow *f, const bool *keep)
{
    const struct stem_program *p = f->program;
    struct copier c = {.from = p, .to = flow_empty()};
    c.b = stem_builder_new(c.to.program, c.to.dims, c.to.diags);
    c.value = malloc((p->values.len + 1U) * sizeof *c.value);
    c.op = malloc((p->ops.len + 1U) * sizeof *c.op);
    memset(c.value, 0xff, (p->values.len + 1U) * sizeof *c.value);
    memset(c.op, 0xff, (p->ops.len + 1U) * sizeof *c.op);
    for (uint32_t i = 0; i < p->decls.len; i++)
        stem_vec_push(&c.to.program->decls, (struct stem_decl){.class = STEM_OP_EXTERN,
                                                               .span = STEM_NOWHERE,
                                                               .name = symbol(&c, p->decls.at[i].name)});
    for (uint32_t i = 1; i < p->streams.len; i++)
        stem_vec_push(&c.to.program->streams,
                      (struct stem_stream_decl){symbol(&c, p->streams.at[i].name), p->streams.at[i].priority});
    for (uint32_t i = 1; i < p->segments.len; i++)
        stem_vec_push(&c.to.program->segments, p->segments.at[i]);
    for (uint32_t v = 0; v < p->values.len; v++) {
        const struct stem_value *value = &p->values.at[v];
        bool first = value->base.n == STEM_NONE && p->buffers.at[value->tensor.buffer].kind != STEM_BUFFER_TEMP;
        if (first && used(p, keep, value->tensor.buffer))
            copy_buffer(&c, v);
    }
    for (uint32_t k = 0; k < p->ops.len; k++)
        if ((!keep || keep[k]) && inputs_exist(&c, &p->ops.at[k]))
            copy_op(&c, k);
    free(c.value);
    free(c.op);
    return c.to;
}

/* ---- the search ---- */

static bool still_fails(const struct flow *f, shrink_fails *fails, void *user)
{
    struct flow copy = shrink_copy(f, NULL);
    bool yes = fails(user, &copy);
    flow_free(&copy);
    return yes;
}

/* Leaves out ops [first, first + n); true, with *f replaced, if the rest fails. */
static bool without(struct flow *f, uint32_t first, uint32_t n, shrink_fails *fails, void *user)
{
    uint32_t len = f->program->ops.len;
    bool *keep = malloc(len + 1U);
    for (uint32_t i = 0; i < len; i++)
        keep[i] = i < first || i >= first + n;
    struct flow smaller = shrink_copy(f, keep);
    free(keep);
    if (smaller.program->ops.len < len && still_fails(&smaller, fails, user)) {
        flow_free(f);
        *f = smaller;
        return true;
    }
    flow_free(&smaller);
    return false;
}

/* Tries the program with one property of an op taken away. */
static void plainer(struct flow *f, shrink_fails *fails, void *user)
{
    for (uint32_t k = 0; k < f->program->ops.len; k++)
        for (uint32_t what = 0; what < 3; what++) {
            struct stem_op *op = &f->program->ops.at[k], was = *op;
            if (what == 0)
                op->pin = STEM_NO_STREAM;
            else if (what == 1)
                op->resource = (struct stem_sym){0};
            else
                op->n_after = 0;
            if (!still_fails(f, fails, user))
                *op = was;
        }
}

/* Tries the program with one op reading one value less; true if one went. An op must keep something to do. */
static bool fewer_reads(struct flow *f, shrink_fails *fails, void *user)
{
    bool any = false;
    for (uint32_t k = 0; k < f->program->ops.len; k++)
        for (uint32_t i = f->program->ops.at[k].n_in; i-- > 0;) {
            struct stem_op *op = &f->program->ops.at[k], was = *op;
            uint32_t n = op->n_in + op->n_out;
            if (n < 2 || op->operands[i].mode == STEM_MODE_INOUT)
                continue;
            struct stem_operand *fewer = stem_arena_dup(f->program->arena, op->operands, n * sizeof *fewer);
            memmove(fewer + i, fewer + i + 1, (n - i - 1) * sizeof *fewer);
            op->operands = fewer;
            op->n_in--;
            bool gone = still_fails(f, fails, user);
            any |= gone;
            if (!gone)
                *op = was;
        }
    return any;
}

struct flow shrink_program(const struct flow *f, shrink_fails *fails, void *user)
{
    struct flow best = shrink_copy(f, NULL);
    bool again = true;
    while (again) {
        again = false;
        for (uint32_t n = best.program->ops.len; n > 0; n /= 2)
            for (uint32_t end = best.program->ops.len; end > 0; end = end > n ? end - n : 0) {
                uint32_t len = best.program->ops.len, first = end > n ? end - n : 0;
                end = end > len ? len : end;
                if (first < len)
                    again |= without(&best, first, n, fails, user);
            }
        if (!again)
            again = fewer_reads(&best, fails, user);
    }
    plainer(&best, fails, user);
    return best;
}

void shrink_show(const struct flow *f, const char *what)
{
    struct stem_out o = {0};
    stem_program_print(f->program, &o);
    fprintf(stderr, "\n# the smallest program found (%u ops): %s\n%s", f->program->ops.len, what, stem_out_text(&o));
    stem_out_free(&o);
}
