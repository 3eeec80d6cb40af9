/* SPDX-License-Identifier: Apache-2.0
 *
 * lifetime: from when to when each buffer is needed, in happens-before over all streams.
 *
 * A wait says that an op may start; a lifetime says that bytes must stay. They are different things: a buffer lives
 * until its last readers on every stream have run, whatever the host does meanwhile. last_use are the ops that touch
 * the buffer with no later one that does; first_use is the first in issue order. free_after is the earliest op in
 * issue order after which, on its own stream, all of last_use have happened: the place for a free that is safe
 * without further waits. `release` says only that the caller may free early, so it changes nothing here.
 *
 * Time: linear in operands, plus a binary search for each stream and buffer.
 */
#include "pass/lifetime.h"

struct stem_touches stem_touches_new(struct stem_arena *a, const struct stem_program *p)
{
    uint32_t n = p->buffers.len;
    struct stem_touches t = {STEM_NEW_ARRAY(a, uint32_t, n + 2), NULL};
    uint32_t *seen = STEM_NEW_ARRAY(a, uint32_t, n); /* by buffer: 1 + position of the op that touched it last */
    for (uint32_t fill = 0; fill < 2; fill++) {
        for (uint32_t i = 0; i < p->sched.order.len; i++) {
            const struct stem_op *op = stem_op_at(p, p->sched.order.at[i]);
            for (uint32_t k = 0; k < op->n_in + op->n_out; k++) {
                if (op->operands[k].value.n == STEM_NONE)
                    continue;
                uint32_t b = stem_value_at(p, op->operands[k].value)->tensor.buffer;
                if (seen[b] == i + 1)
                    continue;
                seen[b] = i + 1;
                if (fill)
                    t.op[t.begin[b + 1]++] = p->sched.order.at[i].n;
                else
                    t.begin[b + 2]++;
            }
        }
        if (fill)
            break;
        for (uint32_t b = 2; b <= n + 1; b++)
            t.begin[b] += t.begin[b - 1];
        t.op = STEM_NEW_ARRAY(a, uint32_t, t.begin[n + 1]);
        for (uint32_t b = 0; b < n; b++)
            seen[b] = 0;
    }
    return t;
}

/* Ops of each stream in issue order. */
struct lines {
    uint32_t *begin, *op;
};

static struct lines lines_new(struct stem_arena *a, const struct stem_program *p)
{
    struct lines l = {STEM_NEW_ARRAY(a, uint32_t, p->streams.len + 2),
                      STEM_NEW_ARRAY(a, uint32_t, p->sched.order.len)};
    for (uint32_t i = 0; i < p->sched.order.len; i++)
        l.begin[stem_op_at(p, p->sched.order.at[i])->stream.n + 2]++;
    for (uint32_t s = 2; s <= p->streams.len + 1; s++)
        l.begin[s] += l.begin[s - 1];
    for (uint32_t i = 0; i < p->sched.order.len; i++)
        l.op[l.begin[stem_op_at(p, p->sched.order.at[i])->stream.n + 1]++] = p->sched.order.at[i].n;
    return l;
}

static bool knows(const struct stem_hb *hb, uint32_t op, const struct stem_op_id *last, uint32_t n)
{
    bool all = true;
    for (uint32_t i = 0; i < n; i++)
        all &= stem_hb_clock(hb, op)[stem_op_at(hb->p, last[i])->stream.n] >= hb->index[last[i].n];
    return all;
}

static struct stem_op_id free_place(const struct stem_hb *hb, const struct lines *l, const struct stem_op_id *last,
                                    uint32_t n)
{
    struct stem_op_id best = STEM_NO_OP;
    if (n == 1)
        return last[0];
    for (uint32_t s = 0; n && s < hb->n_streams; s++) {
        uint32_t low = l->begin[s], high = l->begin[s + 1];
        while (low < high) { /* clocks grow along a stream */
            uint32_t middle = low + (high - low) / 2;
            if (knows(hb, l->op[middle], last, n))
                high = middle;
            else
                low = middle + 1;
        }
        if (low < l->begin[s + 1] && (best.n == STEM_NONE || hb->position[l->op[low]] < hb->position[best.n]))
            best.n = l->op[low];
    }
    return best;
}

/* Adds the buffer's last uses to sched.last_use: of each stream the last op, without those that another one is after.
 */
static void last_uses(struct stem_program *p, const struct stem_hb *hb, const uint32_t *op, uint32_t n)
{
    struct stem_op_id last[STEM_MAX_STREAMS];
    for (uint32_t s = 0; s < hb->n_streams; s++)
        last[s] = STEM_NO_OP;
    for (uint32_t i = 0; i < n; i++)
        last[p->ops.at[op[i]].stream.n].n = op[i];
    for (uint32_t s = 0; s < hb->n_streams; s++) {
        bool later = last[s].n == STEM_NONE;
        for (uint32_t k = 0; k < hb->n_streams && !later; k++)
            later = last[k].n != STEM_NONE && stem_hb_before(hb, last[s], last[k]);
        if (!later)
            stem_vec_push(&p->sched.last_use, last[s]);
    }
}

void stem_lifetime_build(struct stem_program *p, struct stem_arena *scratch)
{
    struct stem_hb *hb = stem_hb_new(scratch, p, false);
    struct stem_touches t = stem_touches_new(scratch, p);
    struct lines l = lines_new(scratch, p);
    stem_vec_clear(&p->sched.last_use);
    stem_vec_clear(&p->sched.last_use_begin);
    stem_vec_clear(&p->sched.first_use);
    stem_vec_clear(&p->sched.free_after);
    for (uint32_t b = 0; b < p->buffers.len; b++) {
        uint32_t begin = p->sched.last_use.len, n = t.begin[b + 1] - t.begin[b];
        stem_vec_push(&p->sched.last_use_begin, begin);
        last_uses(p, hb, t.op + t.begin[b], n);
        stem_vec_push(&p->sched.first_use, n ? (struct stem_op_id){t.op[t.begin[b]]} : STEM_NO_OP);
        struct stem_op_id place = STEM_NO_OP;
        if (p->buffers.at[b].kind == STEM_BUFFER_TEMP)
            place = free_place(hb, &l, p->sched.last_use.at + begin, p->sched.last_use.len - begin);
        stem_vec_push(&p->sched.free_after, place);
    }
    stem_vec_push(&p->sched.last_use_begin, p->sched.last_use.len);
}

/* The caller's buffers are neither freed nor overwritten. */
static void check_owners(const struct stem_program *p, struct stem_diags *diags)
{
    static const char *const kind[] = {"a temporary", "an input", "an output", "a weight", "a state"};
    for (uint32_t i = 0; i < p->ops.len; i++) {
        const struct stem_op *op = &p->ops.at[i];
        for (uint32_t k = 0; !op->dead && k < op->n_in; k++) {
            const struct stem_operand *o = &op->operands[k];
            if (o->value.n == STEM_NONE || o->mode == STEM_MODE_IN)
                continue;
            const struct stem_buffer *b = &p->buffers.at[stem_value_at(p, o->value)->tensor.buffer];
            const char *name = stem_sym_str(p->strings, stem_value_at(p, o->value)->name);
            if (o->mode == STEM_MODE_RELEASE && b->kind != STEM_BUFFER_TEMP)
                stem_error(diags, STEM_E_RELEASE_OWNED, o->span,
                           "'%s' releases '%s', which is %s: its owner frees it",
                           stem_op_label(p, (struct stem_op_id){i}), name, kind[b->kind]);
            bool kept = b->kind == STEM_BUFFER_INPUT || b->kind == STEM_BUFFER_WEIGHT || b->kind == STEM_BUFFER_STATE;
            bool lent = b->kind == STEM_BUFFER_WEIGHT || (b->kind == STEM_BUFFER_INPUT && !b->inout);
            if ((o->mode == STEM_MODE_CONSUME && kept) || (o->mode == STEM_MODE_INOUT && lent))
                stem_error(diags, STEM_E_OVERWRITES_OWNED, o->span, "'%s' may overwrite '%s', which is %s%s",
                           stem_op_label(p, (struct stem_op_id){i}), name, kind[b->kind],
                           o->mode == STEM_MODE_INOUT && b->kind == STEM_BUFFER_INPUT ? " that is not `inout`" : "");
        }
    }
}

static bool run(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    uint32_t errors = stem_diags_errors(ctx->diags);
    check_owners(p, ctx->diags);
    if (stem_diags_errors(ctx->diags) > errors)
        return false;
    stem_lifetime_build(p, ctx->scratch);
    return true;
}

const struct stem_pass stem_pass_lifetime = {
    .name = "lifetime",
    .blurb = "first and last uses of buffers over all streams, and where frees go",
    .needs = STEM_FACT_ORDER | STEM_FACT_WAITS,
    .gives = STEM_FACT_LIFETIME,
    .kills = STEM_FACT_MEMORY,
    .run = run,
};
