/* SPDX-License-Identifier: Apache-2.0
 *
 * pdl: which kernels are launched before the kernel in front of them has completed (programmatic dependent launch).
 *
 * An op may be if it is a kernel that waits in its code, and the previous op of its stream in the segment is a kernel
 * too. Only the edge between these two becomes programmatic; what the op has waited for on other streams stays full.
 * That is safe over any number of kernels in a row: every kernel waits for its predecessors before it lets its
 * successor start, so whatever precedes the predecessor has completed when a kernel starts, and the predecessor itself
 * when its wait returns. Reads, writes and bytes that are used again are ordered alike, since all of them come after
 * the wait.
 */
#include "ops/op.h"
#include "pass/graph.h"

struct launch {
    bool kernel, waits;
};

static struct launch launch_of(const struct stem_program *p, const struct stem_op *op, const struct stem_target *t,
                               struct stem_arena *a)
{
    if (op->class == STEM_OP_KERNEL)
        return (struct launch){true, p->decls.at[op->decl].waits};
    if (op->class == STEM_OP_EXTERN || !op->def->lower)
        return (struct launch){false, false};
    struct stem_tensor tensor[2 * STEM_MAX_OPERANDS];
    struct stem_concrete c;
    struct stem_lowered l = {0};
    stem_op_concrete(p, op, tensor, &c);
    op->def->lower(&c, t, a, &l);
    return (struct launch){l.work == STEM_WORK_LAUNCH, l.waits};
}

static bool run(struct stem_program *p, struct stem_pass_ctx *ctx)
{
    const struct stem_target *t = &ctx->options->target;
    bool wanted = ctx->options->pdl && t->sm >= 90, *kernel = STEM_NEW_ARRAY(ctx->scratch, bool, p->streams.len);
    struct stem_arena *lowering = stem_arena_new(); /* emptied every few ops */
    uint32_t segment = STEM_NONE;
    for (uint32_t i = 0; i < p->sched.order.len; i++) {
        struct stem_op *op = stem_op_at(p, p->sched.order.at[i]);
        op->programmatic = false;
        if (!wanted)
            continue;
        if (i % 64 == 63) {
            stem_arena_free(lowering);
            lowering = stem_arena_new();
        }
        if (op->segment != segment)
            for (uint32_t s = 0; s < p->streams.len; s++)
                kernel[s] = false;
        segment = op->segment;
        struct launch l = launch_of(p, op, t, lowering);
        op->programmatic = l.kernel && l.waits && kernel[op->stream.n];
        kernel[op->stream.n] = l.kernel;
    }
    stem_arena_free(lowering);
    return true;
}

const struct stem_pass stem_pass_pdl = {
    .name = "pdl",
    .blurb = "kernels that are launched before their predecessor has completed",
    .needs = STEM_FACT_STREAMS | STEM_FACT_ORDER,
    .kills = STEM_FACT_LANES,
    .run = run,
};
