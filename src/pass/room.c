/* SPDX-License-Identifier: Apache-2.0
 *
 * room: which ops take but half of the shared memory.
 *
 * A block keeps its room until it ends. If those of a kernel take all shared memory, the next kernel of its stream, though
 * launched early, finds room only as they end; by then a longer kernel of another stream may wait for the same room, and
 * has it until its own end. So an op beside a longer one of another stream takes half of each multiprocessor's, where its
 * kernel can: the next op of its stream then finds the other half. If that one joins the longer op, it has nothing to find:
 * the half is then for the first blocks of what follows the longer op, and only if that is so long that the cut op has ended
 * well before it, as the second product of a shared expert has beside the experts of a few tokens, but not of one.
 */
#include "ops/op.h"
#include "pass/graph.h"
#include "pass/hb.h"
#include "pass/pass.h"

#define LOOK 64 /* ops beside one, on each stream, that are looked at */
#define LONG 10 /* times the op: measured with a shared expert beside 6 and 21 experts, which, by their bytes, take some 5 and 16 times as long */

/* Ops by stream and place there (stem_hb.index). */
static struct stem_op_id **by_place(const struct stem_program *p, const struct stem_hb *hb, struct stem_arena *a)
{
    struct stem_op_id **at = STEM_NEW_ARRAY(a, struct stem_op_id *, p->streams.len);
    for (uint32_t s = 0; s < p->streams.len; s++) {
        uint32_t n = stem_hb_now(hb, s)[s] + 2;
        at[s] = STEM_NEW_ARRAY(a, struct stem_op_id, n);
        for (uint32_t i = 0; i < n; i++)
            at[s][i] = STEM_NO_OP;
    }
    for (uint32_t i = 0; i < p->sched.order.len; i++) {
        struct stem_op_id op = p->sched.order.at[i];
        at[stem_op_at(p, op)->stream.n][hb->index[op.n]] = op;
    }
    return at;
}

/* The longest of the ops of stream s that may run while `op` does; NO_OP: there are none. */
static struct stem_op_id longest_beside(const struct stem_program *p, const struct stem_hb *hb, const struct stem_op_id *line,
                                        uint32_t s, struct stem_op_id op)
{
    struct stem_op_id longest = STEM_NO_OP;
    uint32_t first = stem_hb_clock(hb, op.n)[s] + 1;
    for (uint32_t i = first; i < first + LOOK && line[i].n != STEM_NONE && !stem_hb_before(hb, op, line[i]); i++)
        if (longest.n == STEM_NONE || stem_op_at(p, line[i])->est_us > stem_op_at(p, longest)->est_us)
            longest = line[i];
    return longest;
}

/* An op of another stream that may run beside this one and takes longer, LONG times if the next one of its stream joins it;
 * NO_OP: there is none. */
static struct stem_op_id longer(const struct stem_program *p, const struct stem_hb *hb, struct stem_op_id *const *at,
                                struct stem_op_id id)
{
    const struct stem_op *op = stem_op_at(p, id);
    struct stem_op_id next = at[op->stream.n][hb->index[id.n] + 1];
    for (uint32_t s = 0; s < p->streams.len && next.n != STEM_NONE; s++) {
        struct stem_op_id other = s == op->stream.n ? STEM_NO_OP : longest_beside(p, hb, at[s], s, id);
        if (other.n != STEM_NONE && stem_op_at(p, other)->est_us > (stem_hb_before(hb, other, next) ? LONG : 1) * op->est_us)
            return other;
    }
    return STEM_NO_OP;
}

static void decide(struct stem_program *p, struct stem_op_id id, struct stem_op_id other, struct stem_pass_ctx *ctx)
{
    struct stem_op *op = stem_op_at(p, id);
    const struct stem_target *t = &ctx->options->target;
    struct stem_lowered all = stem_op_lower(p, op, t)->l;
    op->shares = true;
    struct stem_lowered half = stem_op_lower(p, op, t)->l;
    op->shares = half.smem != all.smem || half.grid[0] != all.grid[0];
    if (op->shares)
        stem_remark(ctx->diags, "room", op->span,
                    "'%s' takes half of the shared memory (%u blocks of %.1f KiB, not %u of %.1f), so that the next op of its "
                    "stream finds room before '%s' has it all, which takes longer (%.1f and %.1f us)",
                    stem_op_label(p, id), half.grid[0], half.smem / 1024.0, all.grid[0], all.smem / 1024.0,
                    stem_op_label(p, other), stem_op_at(p, other)->est_us, op->est_us);
}

static bool run(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    const struct stem_hb *hb = stem_hb_new(ctx->scratch, p, false);
    struct stem_op_id **at = by_place(p, hb, ctx->scratch);
    for (uint32_t i = 0; i < p->ops.len; i++)
        p->ops.at[i].shares = false;
    for (uint32_t i = 0; i < p->sched.order.len && p->streams.len > 1; i++) {
        struct stem_op_id id = p->sched.order.at[i], other;
        const struct stem_op *op = stem_op_at(p, id);
        if (op->class != STEM_OP_BUILTIN || !op->def->can_share || (other = longer(p, hb, at, id)).n == STEM_NONE)
            continue;
        decide(p, id, other, ctx);
    }
    return true;
}

const struct stem_pass stem_pass_room = {
    .name = "room",
    .blurb = "ops that take half of the shared memory, beside longer ones",
    .needs = STEM_FACT_STREAMS | STEM_FACT_DEPS | STEM_FACT_ORDER | STEM_FACT_WAITS,
    .run = run,
};
