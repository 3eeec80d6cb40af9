/* SPDX-License-Identifier: Apache-2.0
 *
 * pdl: which kernels are launched before the kernel in front of them has completed (programmatic dependent launch).
 *
 * An op may be if it is a kernel that waits in its code, and the previous op of its stream in the segment is a kernel
 * too. Only the edge between these two becomes programmatic; what the op has waited for on other streams stays full.
 * That is safe over any number of kernels in a row: every block of a kernel waits for its predecessor's end, so that
 * one has not ended before all that precedes it has; when a kernel's own wait returns, all of these have completed.
 * Reads, writes and bytes that are used again are ordered alike, since all of them come after the wait.
 *
 * Kernels that are done soon after their wait let their successor start ahead of it, so that this one's way to a
 * multiprocessor and its weights are behind it when they end. The successor's wait is still for their end, which comes
 * after that of what they wait for.
 *
 * A kernel may read some of its operands before it waits: weights, and what had completed when it started, which is
 * what precedes its predecessor, or, behind one that lets it start ahead, what had completed when that one started. If
 * something else writes such an operand, the kernel is launched as usual.
 */
#include "pass/pdl.h"

#include "ops/op.h"
#include "pass/graph.h"

struct launch {
    bool kernel, waits, ahead;
    uint32_t early;
};

static struct launch launch_of(const struct stem_program *p, const struct stem_op *op, const struct stem_target *t)
{
    if (op->class == STEM_OP_KERNEL)
        return (struct launch){.kernel = true, .waits = p->decls.at[op->decl].waits};
    if (op->class == STEM_OP_EXTERN || !op->def->lower)
        return (struct launch){0};
    const struct stem_lowered *l = &stem_op_lower(p, op, t)->l;
    return (struct launch){l->work == STEM_WORK_LAUNCH, l->waits, l->ahead, l->early};
}

/* Had all that wrote the operands in `early` of op `to` completed when op `before` had waited? */
static bool early_is_old(const struct stem_program *p, const struct stem_hb *hb, const uint32_t *first_dep,
                         struct stem_op_id to, uint32_t early, struct stem_op_id before)
{
    const struct stem_op *op = stem_op_at(p, to);
    for (uint32_t k = 0; k < op->n_in && k < 32; k++) {
        if (!(early >> k & 1) || op->operands[k].value.n == STEM_NONE)
            continue;
        uint32_t buffer = stem_value_at(p, op->operands[k].value)->tensor.buffer;
        for (uint32_t i = first_dep[to.n]; i < p->sched.deps.len && p->sched.deps.at[i].to.n == to.n; i++) {
            const struct stem_dep *d = &p->sched.deps.at[i];
            if (d->kind == STEM_DEP_DATA && stem_value_at(p, d->value)->tensor.buffer == buffer &&
                !stem_hb_before(hb, d->from, before))
                return false;
        }
    }
    return true;
}

static uint32_t *first_deps(const struct stem_program *p, struct stem_arena *a)
{
    uint32_t *first = STEM_NEW_ARRAY(a, uint32_t, p->ops.len);
    for (uint32_t i = 0; i < p->ops.len; i++)
        first[i] = p->sched.deps.len;
    for (uint32_t i = p->sched.deps.len; i-- > 0;)
        first[p->sched.deps.at[i].to.n] = i;
    return first;
}

static void choose(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    const struct stem_target *t = &ctx->options->target;
    struct stem_op_id last[STEM_MAX_STREAMS]; /* the kernel that the stream issued last in this segment, or NO_OP */
    struct stem_op_id sure[STEM_MAX_STREAMS]; /* what precedes this one has completed when the stream's next op starts */
    const struct stem_hb *hb = stem_hb_new(ctx->scratch, p, false);
    const uint32_t *first_dep = first_deps(p, ctx->scratch);
    uint32_t segment = STEM_NONE;
    for (uint32_t i = 0; i < p->sched.order.len; i++) {
        struct stem_op_id id = p->sched.order.at[i];
        struct stem_op *op = stem_op_at(p, id);
        for (uint32_t s = 0; op->segment != segment && s < p->streams.len; s++)
            last[s] = sure[s] = STEM_NO_OP;
        segment = op->segment;
        struct launch l = launch_of(p, op, t);
        struct stem_op_id *before = &last[op->stream.n];
        op->programmatic = l.kernel && l.waits && before->n != STEM_NONE &&
                           early_is_old(p, hb, first_dep, id, l.early, sure[op->stream.n]);
        *before = l.kernel ? id : STEM_NO_OP;
        if (!l.ahead || !op->programmatic)
            sure[op->stream.n] = id;
    }
}

void stem_pdl_build(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    for (uint32_t i = 0; i < p->ops.len; i++)
        p->ops.at[i].programmatic = false;
    if (ctx->options->pdl != STEM_PDL_OFF && ctx->options->target.sm >= STEM_PDL_SM)
        choose(p, ctx);
}

static bool run(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    stem_pdl_build(p, ctx);
    return true;
}

const struct stem_pass stem_pass_pdl = {
    .name = "pdl",
    .blurb = "kernels that are launched before their predecessor has completed",
    .needs = STEM_FACT_STREAMS | STEM_FACT_DEPS | STEM_FACT_ORDER | STEM_FACT_WAITS,
    .kills = STEM_FACT_LANES,
    .run = run,
};
